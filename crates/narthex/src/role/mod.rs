//! What the binary can run as.

pub(crate) mod server;
