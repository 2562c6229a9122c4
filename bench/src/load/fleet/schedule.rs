//! How well a server kept its schedule, derived from its targets' responses.
//!
//! **Invariant:** uses only times; the server's own metrics play no part.

use super::server::Answer;
use crate::harness::quantile;
use std::time::Duration;

/// How well a server kept its schedule, seen from the targets.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Schedule {
    /// Scrapes that ended in the window.
    pub(crate) answered: u64,
    pub(crate) missed: u64,
    /// Scrapes that were off by more than a tenth of the interval.
    pub(crate) late: u64,
    /// Deviation of the time between two scrapes of a target from the interval.
    pub(crate) off_p99_ms: f64,
    pub(crate) off_max_ms: f64,
}

impl Schedule {
    /// Computes the schedule within `from_ms..to_ms` from the responses of `targets` targets.
    pub(crate) fn read(
        answers: &[Answer],
        targets: usize,
        interval: Duration,
        from_ms: i64,
        to_ms: i64,
    ) -> Self {
        let interval = interval.as_secs_f64() * 1e3;
        let mut schedule = Self::default();
        let mut last = vec![from_ms as f64; targets];
        let mut was_seen = vec![false; targets];
        let mut off = Vec::new();
        for answer in answers.iter().filter(|answer| answer.at_ms < to_ms) {
            let target = answer.target as usize;
            let at = answer.at_ms as f64 + f64::from(answer.us) / 1e3;
            if answer.at_ms >= from_ms {
                schedule.answered += 1;
                let gap = at - last[target];
                if was_seen[target] {
                    off.push((gap - interval).abs());
                }
                schedule.missed += missed(gap, interval);
            }
            was_seen[target] = true;
            last[target] = at;
        }
        for (last, was_seen) in last.into_iter().zip(was_seen) {
            // A target that was never scraped has no scrape at either side of the gap.
            schedule.missed += missed(to_ms as f64 - last, interval) + u64::from(!was_seen);
        }
        off.sort_by(f64::total_cmp);
        schedule.late = off.iter().filter(|off| **off > interval / 10.0).count() as u64;
        schedule.off_p99_ms = quantile(&off, 0.99);
        schedule.off_max_ms = off.last().copied().unwrap_or(0.0);
        schedule
    }
}

/// Returns the number of scrapes missing in a gap between two.
fn missed(gap_ms: f64, interval_ms: f64) -> u64 {
    ((gap_ms / interval_ms).round() - 1.0).max(0.0) as u64
}

#[cfg(test)]
mod tests;
