//! Tests of server and client over real loopback sockets.

#![allow(
    clippy::unwrap_used,
    reason = "a test's helpers panic like the test itself"
)]

mod certs;
mod chains;
mod client;
mod compress;
mod fuzz;
mod heads;
mod http_config;
mod proxies;
mod server;
mod support;
mod tls;
mod web;

use narthex_testkit::alloc::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;
