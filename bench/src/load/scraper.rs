//! Scrapes pages at a fixed interval, as Prometheus does, during other load.
//!
//! **Invariant:** only a scrape that takes longer than the interval makes the next one late.

use crate::harness::{BenchError, RunningServer};
use narthex_testkit::{client::Client, http::Response};
use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Interval at which a wait checks whether it is over.
const POLL: Duration = Duration::from_millis(20);
/// Prometheus' Accept header for the text format.
const ACCEPT: (&str, &str) = ("Accept", "text/plain;version=0.0.4;q=0.5,*/*;q=0.1");

/// One scrape of all targets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scrape {
    /// Time since scraping began.
    pub(crate) at: Duration,
    pub(crate) took: Duration,
    /// Bytes of the bodies as received.
    pub(crate) bytes: u64,
    /// Lines other than comments; not counted in compressed bodies.
    pub(crate) samples: u64,
}

/// Scrapes one path of some targets, one after the other.
#[derive(Debug)]
pub(crate) struct Scraper {
    name: String,
    path: String,
    clients: Vec<Client>,
    encoding: &'static str,
    started: Instant,
}

impl Scraper {
    /// Returns a scraper that connects on its first scrape; errors call its targets `name`.
    pub(crate) fn new(name: &str, addresses: &[SocketAddr], path: &str, limit: Duration) -> Self {
        let client = |address: &SocketAddr| Client::new(*address, limit);
        Self {
            name: name.to_owned(),
            path: path.to_owned(),
            clients: addresses.iter().map(client).collect(),
            encoding: "identity",
            started: Instant::now(),
        }
    }

    /// Returns a scraper of a server under test.
    pub(crate) fn of_server(
        server: &RunningServer,
        path: &str,
        limit: Duration,
    ) -> Result<Self, BenchError> {
        let client = server.client(limit)?;
        Ok(Self::new(server.label(), &[client.address()], path, limit))
    }

    /// Requests compressed bodies.
    pub(crate) fn gzip(mut self) -> Self {
        self.set_gzip(true);
        self
    }

    /// Sets whether bodies are requested compressed.
    pub(crate) fn set_gzip(&mut self, is_packed: bool) {
        self.encoding = if is_packed { "gzip" } else { "identity" };
    }

    /// Returns the response of one of the targets.
    pub(crate) fn get(&mut self, target: usize) -> Result<Response, BenchError> {
        let headers = [ACCEPT, ("Accept-Encoding", self.encoding)];
        let (name, path) = (&self.name, &self.path);
        let answer = self.clients[target].get(path, &headers);
        let answer = answer.map_err(BenchError::io(format!("scrape {name}{path}")))?;
        match answer.status {
            200 => Ok(answer),
            _ => Err(BenchError::refused(name, path, &answer)),
        }
    }

    /// Scrapes all targets once.
    pub(crate) fn once(&mut self) -> Result<Scrape, BenchError> {
        let start = Instant::now();
        let mut scrape = Scrape {
            at: start - self.started,
            took: Duration::ZERO,
            bytes: 0,
            samples: 0,
        };
        for target in 0..self.clients.len() {
            let before = Instant::now();
            let answer = self.get(target)?;
            // Counting lines is our time, not the target's.
            scrape.took += before.elapsed();
            scrape.bytes += answer.body.len() as u64;
            if self.encoding == "identity" {
                scrape.samples += samples(&answer.body);
            }
        }
        Ok(scrape)
    }

    /// Scrapes every `interval`, first after half of one, until `is_over`.
    pub(crate) fn until(
        &mut self,
        is_over: &AtomicBool,
        interval: Duration,
    ) -> Vec<Result<Scrape, BenchError>> {
        self.started = Instant::now();
        let mut due = self.started + interval / 2;
        let mut scrapes = Vec::new();
        while !is_over.load(Ordering::Acquire) {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                scrapes.push(self.once());
                due = (due + interval).max(Instant::now());
            } else {
                thread::sleep(left.min(POLL));
            }
        }
        scrapes
    }
}

/// Sleeps, but not beyond the end.
pub(crate) fn wait(time: Duration, is_over: &AtomicBool) {
    let end = Instant::now() + time;
    while !is_over.load(Ordering::Acquire) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(POLL));
    }
}

/// Counts the sample lines of a page.
fn samples(page: &[u8]) -> u64 {
    let lines = page.split(|byte| *byte == b'\n');
    lines
        .filter(|line| !line.is_empty() && !line.starts_with(b"#"))
        .count() as u64
}

#[cfg(test)]
mod tests;
