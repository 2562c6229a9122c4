//! A URL scraped at a fixed interval, as Prometheus does it, while something else goes on.
//!
//! **Invariant:** scrapes are due at fixed times; one that takes longer than the interval makes the next ones late, not
//! fewer, until the end.

use super::target::Target;
use crate::{frame::error::BenchError, load::client::Client};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

/// How long one scrape may take.
const LIMIT: Duration = Duration::from_secs(60);
/// How often a wait looks whether it is over.
const POLL: Duration = Duration::from_millis(20);
const ACCEPT: &str = "text/plain;version=0.0.4;q=0.5,*/*;q=0.1";

/// One scrape.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scrape {
    /// Since scraping began.
    pub(super) at: Duration,
    pub(super) took: Duration,
    pub(super) bytes: u64,
    /// Lines that are no comments.
    pub(super) series: u64,
}

/// Scrapes a target.
#[derive(Debug)]
pub(super) struct Scraper {
    target: Target,
    client: Client,
    started: Instant,
}

impl Scraper {
    /// Returns one that connects when it first scrapes.
    pub(super) fn new(target: &Target) -> Self {
        Self {
            target: target.clone(),
            client: Client::new(target.address, LIMIT),
            started: Instant::now(),
        }
    }

    /// Scrapes once.
    pub(super) fn once(&mut self) -> Result<Scrape, BenchError> {
        let Target { host, path, .. } = &self.target;
        let at = Instant::now();
        let answer = self
            .client
            .get(path, &[("Accept", ACCEPT)])
            .map_err(BenchError::io(format!("scrape {host}{path}")))?;
        let took = at.elapsed();
        if answer.status != 200 {
            return Err(BenchError::Answer {
                name: host.clone(),
                query: path.clone(),
                what: format!("with {}", answer.status),
            });
        }
        Ok(Scrape {
            at: at - self.started,
            took,
            bytes: answer.body.len() as u64,
            series: series(&answer.body),
        })
    }

    /// Scrapes every `interval`, first after half of one, until `is_over`.
    pub(super) fn until(
        &mut self,
        is_over: &AtomicBool,
        interval: Duration,
    ) -> Result<Vec<Scrape>, BenchError> {
        self.started = Instant::now();
        let mut due = self.started + interval / 2;
        let mut scrapes = Vec::new();
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if is_over.load(Ordering::Acquire) {
                return Ok(scrapes);
            }
            if left.is_zero() {
                scrapes.push(self.once()?);
                due += interval;
            } else {
                thread::sleep(left.min(POLL));
            }
        }
    }
}

/// Counts the lines of a page that are samples.
fn series(page: &[u8]) -> u64 {
    let lines = page.split(|byte| *byte == b'\n');
    lines
        .filter(|line| !line.is_empty() && !line.starts_with(b"#"))
        .count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::stall_server::{StallServer, Stalls};

    #[test]
    fn samples_are_lines_that_are_no_comments() {
        assert_eq!(series(b"# HELP a b\n# TYPE a counter\na 1\n\nb 2\n"), 2);
        assert_eq!(series(b""), 0);
    }

    #[test]
    fn scrapes_go_on_until_it_is_over() {
        let never = Stalls {
            every: Duration::from_secs(1),
            length: Duration::ZERO,
        };
        let server = StallServer::start(never).unwrap();
        let target = Target::parse(&format!("http://{}/", server.address()), false).unwrap();
        let is_over = AtomicBool::new(false);
        let scrapes = thread::scope(|scope| {
            let scrape = || {
                let mut scraper = Scraper::new(&target);
                scraper.until(&is_over, Duration::from_millis(10))
            };
            let scraping = scope.spawn(scrape);
            let mut probe = Scraper::new(&target);
            for _ in 0..20 {
                assert_eq!(probe.once().unwrap().bytes, 3);
                thread::sleep(Duration::from_millis(10));
            }
            is_over.store(true, Ordering::Release);
            scraping.join().unwrap().unwrap()
        });
        assert!(!scrapes.is_empty());
        assert!(scrapes.is_sorted_by(|a, b| a.at <= b.at));
        assert!(scrapes.iter().all(|scrape| scrape.series == 1));
    }
}
