//! What is measured of one server.
//!
//! **Invariant:** plain readings; what is made of them (per sample, per series, ratios) is the report's business.

use crate::{
    measure::{Resident, Usage},
    query::Latency,
    schedule::Schedule,
    server::ServerSpec,
};
use std::time::Duration;

/// A share of the interval: the fleet answers later than this only when it is the bottleneck.
const LATEST_ANSWER: f64 = 0.1;
/// A share of one core: above it the fleet might be the bottleneck.
const BUSIEST_FLEET: f64 = 0.5;

/// The fleet's own cost and how promptly it answered.
#[derive(Debug)]
pub(crate) struct Meta {
    pub(crate) fleet_ns_a_sample: f64,
    /// Of that, making the text; the rest is the kernel's sending, which includes the server's half of loopback TCP.
    pub(crate) making_ns_a_sample: f64,
    pub(crate) bytes_a_sample: f64,
    pub(crate) fleet_cores: f64,
    /// From the wake-up to the first byte.
    pub(crate) lag_p99_ms: f64,
    /// Mean time the fleet's thread was ready without running, for each answer.
    pub(crate) waited_ms: f64,
    /// CPU of processes that are neither the server nor this program.
    pub(crate) other_cores: f64,
    pub(crate) load: String,
}

impl Meta {
    /// Says why figures say nothing about the server, if they do not.
    pub(crate) fn refusal(&self, interval: Duration) -> Option<String> {
        let latest_ms = interval.as_secs_f64() * 1e3 * LATEST_ANSWER;
        if self.fleet_cores > BUSIEST_FLEET {
            return Some(format!(
                "the fleet used {:.2} of one core",
                self.fleet_cores
            ));
        }
        let late_ms = self.lag_p99_ms + self.waited_ms;
        (late_ms > latest_ms).then(|| format!("the fleet answered {late_ms:.0} ms late"))
    }
}

/// One reading while a server runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tick {
    pub(crate) at: Duration,
    pub(crate) usage: Usage,
    pub(crate) disk_bytes: u64,
    pub(crate) answered: u64,
}

/// After `kill -9`, counted from the new start.
#[derive(Debug)]
pub(crate) struct Recovery {
    pub(crate) ready: Duration,
    /// Until a question about the time before has the answer it had then.
    pub(crate) correct: Duration,
    pub(crate) first_scrape: Duration,
    pub(crate) all_scraped: Duration,
    /// Scrapes that were answered in the time before the crash, and of them those that are stored.
    pub(crate) answered: u64,
    pub(crate) stored: u64,
}

/// All that was measured of one server.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) spec: ServerSpec,
    pub(crate) version: String,
    pub(crate) ready: Duration,
    /// Until the first scrape after the first start.
    pub(crate) scraping: Duration,
    /// CPU until every target had been scraped once, start included.
    pub(crate) first_round_cpu: Duration,
    pub(crate) window: Duration,
    pub(crate) samples: u64,
    pub(crate) from: Usage,
    pub(crate) to: Usage,
    pub(crate) resident: Resident,
    pub(crate) peak_with_queries_bytes: u64,
    /// Samples since the start, which is what the directory holds.
    pub(crate) stored_samples: u64,
    pub(crate) disk_bytes: u64,
    pub(crate) disk_apparent_bytes: u64,
    pub(crate) schedule: Schedule,
    pub(crate) latencies: Vec<Latency>,
    pub(crate) recovery: Recovery,
    pub(crate) meta: Meta,
    pub(crate) ticks: Vec<Tick>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_or_late_fleet_is_a_reason_to_refuse() {
        let interval = Duration::from_secs(5);
        let meta = |fleet_cores, lag_p99_ms, waited_ms| Meta {
            making_ns_a_sample: 20.0,
            fleet_ns_a_sample: 50.0,
            bytes_a_sample: 185.0,
            fleet_cores,
            lag_p99_ms,
            waited_ms,
            other_cores: 0.0,
            load: String::new(),
        };
        assert_eq!(meta(0.4, 300.0, 100.0).refusal(interval), None);
        let refusal = meta(0.6, 1.0, 1.0).refusal(interval).unwrap();
        assert_eq!(refusal, "the fleet used 0.60 of one core");
        let refusal = meta(0.1, 300.0, 300.0).refusal(interval).unwrap();
        assert_eq!(refusal, "the fleet answered 600 ms late");
    }
}
