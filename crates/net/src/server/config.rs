//! Limits of a server, and what it reports at its end.

use std::time::Duration;

/// Limits of a [`Server`](crate::Server).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerConfig {
    /// Most connections served at once; further ones wait unaccepted (`--web.max-connections`). 512.
    pub max_connections: usize,
    /// Time from a connection's start, or a later request's first byte, to the end of its head. 10 s.
    pub header_read_timeout: Duration,
    /// Time from the end of a request's head to the end of its body; also how long a connection may idle between
    /// requests (`--web.read-timeout`). 5 min.
    pub read_timeout: Duration,
    /// Longest time a client may accept no byte of a response. 1 min.
    pub write_stall_timeout: Duration,
    /// Bytes per second that a client must send of a body, or accept of a response, while we wait for it; 0 for no
    /// limit (`--web.min-transfer-rate`). 1 KiB: a modem's rate, and a response of a megabyte in twenty minutes.
    pub min_rate_bytes: u64,
    /// Averaging time of that rate; for responses at least `write_stall_timeout`. 30 s.
    pub rate_window: Duration,
    /// Longest request body on the wire, in bytes; longer ones get 413. 64 MiB.
    pub body_limit_bytes: usize,
    /// Time for requests in flight after a stop without a deadline. 10 s.
    pub drain_timeout: Duration,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            max_connections: 512,
            header_read_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_mins(5),
            write_stall_timeout: Duration::from_mins(1),
            min_rate_bytes: 1 << 10,
            rate_window: Duration::from_secs(30),
            body_limit_bytes: 64 << 20,
            drain_timeout: Duration::from_secs(10),
        }
    }
}

/// Statistics of a finished server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ServeReport {
    /// Connections accepted.
    pub connections_total: u64,
    /// Requests passed to the router.
    pub requests_total: u64,
    /// Connections closed because the client was too slow.
    pub slow_clients_total: u64,
    /// Requests cut short because the drain's deadline passed.
    pub cut_requests_total: u64,
}
