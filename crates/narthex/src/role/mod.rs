//! What the binary can run as.

pub(crate) mod check_config;
pub(crate) mod check_discovery;
pub(crate) mod check_metrics;
pub(crate) mod check_server;
pub(crate) mod pushgateway;
pub(crate) mod server;
