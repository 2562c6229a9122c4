//! Limits that flags set, and what of them the server shows.

use crate::{
    client,
    support::{self, Running},
};
use narthex_testkit::TempDir;
use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

/// Returns how many requests a gate lets through at once, as the server shows it.
fn most(server: &Running, gate: &str) -> Option<f64> {
    server.metric(&format!(
        "narthex_http_requests_in_flight_max{{gate=\"{gate}\"}} "
    ))
}

#[test]
fn flags_set_the_gates() {
    let dir = TempDir::new("gates");
    let of = |name: &str, flags: &[&str]| {
        let server = Running::of(support::server_in(&dir.join(name)).args(flags));
        let gates = ["query", "metadata", "targets"].map(|gate| most(&server, gate));
        server.stop();
        gates
    };
    let usual = [Some(20.0), Some(8.0), Some(4.0)];
    assert_eq!(of("usual", &[]), usual, "as the guide says");
    let flags = [
        "--query.max-concurrency=3",
        "--query.max-metadata-concurrency=2",
    ];
    assert_eq!(of("set", &flags), [Some(3.0), Some(2.0), Some(4.0)]);
}

/// A client that sends faster than it must without flags is cut off by the rate and after the window that they set.
#[test]
fn flags_set_the_least_rate() {
    /// Shorter than the window without a flag.
    const SOON: Duration = Duration::from_secs(20);
    let dir = TempDir::new("rate");
    let flags = [
        "--web.min-transfer-rate=1MB",
        "--web.transfer-rate-window=500ms",
    ];
    let server = Running::of(support::server_in(dir.path()).args(flags));
    let mut slow = TcpStream::connect(server.address()).unwrap();
    slow.set_read_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    let head = "POST /api/v1/query HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\
        Content-Type: application/x-www-form-urlencoded\r\n\r\n";
    slow.write_all(head.as_bytes()).unwrap();
    let start = Instant::now();
    let is_cut = |slow: &mut TcpStream| {
        // Twenty times a second, at most.
        let sent = slow.write_all(&[b'x'; 1000]);
        sent.is_err() || matches!(slow.read(&mut [0; 1000]), Ok(0))
    };
    while !is_cut(&mut slow) {
        assert!(start.elapsed() < SOON, "it still trickles");
    }
    let cut = server.metric("narthex_http_slow_clients_total ");
    assert_eq!(cut, Some(1.0));
    // Others are as fast as they need to be.
    assert_eq!(
        client::get(&format!("{}/-/healthy", server.url)).status,
        200
    );
    server.stop();
}
