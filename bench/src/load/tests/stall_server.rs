//! A server with known stalls: it answers at once, except in a part of every period, when it answers nothing.
//!
//! **Invariant:** requests received within a stall are answered when it ends, not before.

use crate::harness::BenchError;
use narthex_testkit::Listener;
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n";

/// Schedule of its stalls: at the end of each period.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stalls {
    pub(crate) every: Duration,
    pub(crate) length: Duration,
}

impl Stalls {
    /// Returns the remaining time of the stall at `since`; zero outside of one.
    fn left(&self, since: Duration) -> Duration {
        let within = since.as_nanos() % self.every.as_nanos().max(1);
        let left = self.every.saturating_sub(Duration::from_nanos(
            u64::try_from(within).unwrap_or(u64::MAX),
        ));
        if left <= self.length {
            left
        } else {
            Duration::ZERO
        }
    }
}

/// A running one; connections end when their clients disconnect.
#[derive(Debug)]
pub(crate) struct StallServer {
    listener: Listener,
}

impl StallServer {
    /// Starts one on a free loopback port.
    pub(crate) fn start(stalls: Stalls) -> Result<Self, BenchError> {
        let started = Instant::now();
        let listener = Listener::start("stalls", move |stream, _| serve(stream, stalls, started))
            .map_err(BenchError::io("listen"))?;
        Ok(Self { listener })
    }

    /// Returns its address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.address()
    }
}

fn serve(mut stream: TcpStream, stalls: Stalls, started: Instant) {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    // The responses are small; Nagle's delay would look like a stall.
    let _ = stream.set_nodelay(true);
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        request.extend_from_slice(&buffer[..length]);
        if !request.ends_with(b"\r\n\r\n") {
            continue;
        }
        request.clear();
        loop {
            let left = stalls.left(started.elapsed());
            if left.is_zero() {
                break;
            }
            thread::sleep(left);
        }
        if stream.write_all(ANSWER).is_err() {
            return;
        }
    }
}

mod tests;
