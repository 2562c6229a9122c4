//! The real binary from outside: started, scraped, queried, killed, damaged, and compared with the real Prometheus.
//!
//! **Invariant:** no fixed ports, no sleeps for timing, nothing left behind: waits poll until a deadline, and a missing
//! peer fails its tests with the command that installs it.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test's helpers panic and print like the test itself"
)]

mod alerting;
mod api;
mod backfill;
mod check;
mod client;
mod clients;
mod clock;
mod cloud_auth;
mod cluster;
mod command_line;
mod corruption;
mod crash_soak;
mod differential;
mod disk;
mod doctor;
mod exposition;
#[path = "../../../discovery/src/kubernetes/tests/fake.rs"]
#[expect(dead_code, reason = "each of its two users needs a part of it")]
mod fake_kubernetes;
mod files;
mod full_disk;
mod gateway;
mod generated;
mod grafana_rules;
mod host;
mod hostile;
mod hostile_bodies;
mod kill9;
mod known;
mod limits;
mod memory;
#[path = "../../../expfmt/tests/it/messages.rs"]
mod messages;
mod node_exporter;
mod notifications;
mod outage;
mod output;
mod pair;
mod peers;
mod prefix;
mod promqltest;
mod proxy;
mod push;
mod push_command;
mod push_receiver;
mod query_text;
mod reload;
mod remote_ends;
mod remote_oracle;
mod remote_write;
mod rules;
mod scraping;
mod segment_kills;
mod segment_writers;
mod segments;
mod soak;
mod sockets;
mod startup;
mod support;
mod surface;
mod target;
mod tls_peers;
mod unit_tests;
