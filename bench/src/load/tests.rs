//! Servers that tests of several generators load.

pub(super) mod stall_server;
