//! Server and client over real loopback sockets.

#![allow(
    clippy::unwrap_used,
    reason = "a test's helpers panic like the test itself"
)]

mod client;
mod fuzz;
mod server;
mod support;
