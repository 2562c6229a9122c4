//! Roles in which the binary can run.

pub(crate) mod agent;
pub(crate) mod backfill;
mod base;
pub(crate) mod check_config;
pub(crate) mod check_discovery;
pub(crate) mod check_metrics;
pub(crate) mod check_rules;
pub(crate) mod check_server;
mod console;
mod error;
mod listen;
pub(crate) mod node_exporter;
mod priority;
pub(crate) mod push;
mod push_receiver;
mod push_upkeep;
pub(crate) mod pushgateway;
pub(crate) mod query;
pub(crate) mod segment;
pub(crate) mod server;
pub(crate) mod test_rules;
