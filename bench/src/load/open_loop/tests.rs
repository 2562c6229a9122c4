//! The generator sends everything, and attributes delays correctly, whatever the machine does.

use super::*;
use crate::load::tests::stall_server::{StallServer, Stalls};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

fn plan(address: SocketAddr) -> Plan {
    Plan {
        address,
        request: REQUEST.to_vec(),
        rate: 500.0,
        connections: 2,
        threads: 1,
        warmup: Duration::ZERO,
        duration: Duration::from_secs(4),
        drain: Duration::from_secs(60),
    }
}

fn server(length: Duration) -> StallServer {
    let every = Duration::from_secs(2);
    StallServer::start(Stalls { every, length }).unwrap()
}

#[test]
fn a_stall_shows_in_the_corrected_latency_and_hides_from_the_other() {
    let stall = Duration::from_secs(1);
    let server = server(stall);
    let load = run(&plan(server.address())).unwrap();
    // Half of all requests are due within a stall; two of each stall are in progress during it.
    let latencies = &load.latencies;
    let corrected = latencies.corrected.quantile_ms(0.999);
    let uncorrected = latencies.uncorrected.quantile_ms(0.99);
    assert!(corrected >= 500.0, "corrected P99.9: {corrected} ms");
    assert!(uncorrected < 500.0, "uncorrected P99: {uncorrected} ms");
    assert!(latencies.corrected.quantile_ms(0.75) >= 250.0);
    let longest = load.seconds.iter().map(|second| second.longest).max();
    let longest = longest.unwrap().as_secs_f64() * 1e3;
    assert!(
        longest >= 500.0 && longest <= latencies.corrected.quantile_ms(1.0) + 0.001,
        "{longest}"
    );
}

#[test]
fn every_request_of_the_schedule_is_sent_and_answered_once() {
    let server = server(Duration::ZERO);
    for (threads, connections, rate) in [(1, 1, 100.0), (2, 5, 333.0), (3, 2, 777.0)] {
        let plan = Plan {
            threads,
            connections,
            rate,
            warmup: Duration::from_millis(500),
            duration: Duration::from_secs(1),
            ..plan(server.address())
        };
        let load = run(&plan).unwrap();
        assert_eq!(load.sent, (rate * 1.5).ceil() as u64);
        // A request due at the boundary may count for either side.
        assert!(
            load.answered.abs_diff(rate as u64) <= 1,
            "{}",
            load.answered
        );
        let inside: u64 = load.seconds.iter().map(|second| second.requests).sum();
        assert!(load.answered - inside <= 1, "{inside} in seconds");
        assert_eq!((load.refused, load.lost), (0, 0));
        assert_eq!(load.body_bytes, load.answered * 3);
        let latencies = &load.latencies;
        assert_eq!(latencies.corrected.count(), load.answered);
        assert_eq!(latencies.uncorrected.count(), load.answered);
        assert_eq!(load.late.count(), load.answered);
        for share in [0.5, 0.99, 1.0] {
            let corrected = latencies.corrected.quantile_ms(share);
            assert!(corrected >= latencies.uncorrected.quantile_ms(share));
        }
        assert!(load.cpu_a_request() > Duration::ZERO);
    }
}

#[test]
fn what_is_never_answered_is_lost_when_the_time_is_over() {
    // It stalls from the start to the end.
    let every = Duration::from_secs(600);
    let server = StallServer::start(Stalls {
        every,
        length: every,
    })
    .unwrap();
    let plan = Plan {
        rate: 100.0,
        duration: Duration::from_millis(200),
        drain: Duration::from_millis(300),
        ..plan(server.address())
    };
    let load = run(&plan).unwrap();
    assert_eq!((load.answered, load.lost), (0, 20));
}

#[test]
fn connections_that_end_are_opened_again() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // Each connection serves one response; every third serves none.
    let serve = move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let mut stream: TcpStream = stream;
            let mut buffer = [0; 1024];
            if !matches!(stream.read(&mut buffer), Ok(1..)) || number % 3 == 2 {
                continue;
            }
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            let _ = stream.write_all(answer);
        }
    };
    thread::spawn(serve);
    let plan = Plan {
        rate: 60.0,
        connections: 1,
        duration: Duration::from_secs(1),
        ..plan(address)
    };
    let load = run(&plan).unwrap();
    assert_eq!((load.sent, load.answered, load.lost), (60, 40, 20));
}

#[test]
fn a_server_that_speaks_something_else_is_refused() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(b"SSH-2.0-x\r\n\r\n");
            let _ = stream.read(&mut [0; 1024]);
        }
    });
    let error = run(&plan(address)).unwrap_err().to_string();
    assert!(
        error.contains("does not answer: no head of HTTP/1"),
        "{error}"
    );
    assert!(run(&plan("127.0.0.1:1".parse().unwrap())).is_err());
}
