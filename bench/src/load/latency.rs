//! Latency histograms, both from due time and from send time.
//!
//! **Invariant:** a quantile is at most one part in 1024 above the true value, and never below; memory does not grow
//! with the number of requests.

use crate::record::{Distribution, Figure, Quantile};
use hdrhistogram::Histogram as Cells;
use std::time::{Duration, Instant};

/// The shares of every percentile table, as far as there are values for them.
const SHARES: [f64; 14] = [
    0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99999, 1.0,
];
/// Further shares in each halving of the distance to 1.
const TICKS_A_HALF: u32 = 5;
/// Significant digits of a value.
const DIGITS: u8 = 3;
const LONGEST_NS: u64 = 1 << 62;
const GROWS: &str = "cells are added as values need them";

/// Histogram of times.
#[derive(Debug, Clone)]
pub(crate) struct Histogram {
    cells: Cells<u64>,
    largest: Duration,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            cells: Cells::new(DIGITS).expect("at most five digits"),
            largest: Duration::ZERO,
        }
    }
}

impl Histogram {
    /// Counts a time.
    pub(crate) fn add(&mut self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).map_or(LONGEST_NS, |ns| ns.min(LONGEST_NS));
        self.cells.record(ns).expect(GROWS);
        self.largest = self.largest.max(time);
    }

    /// Adds the counts of another one.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.cells.add(&other.cells).expect(GROWS);
        self.largest = self.largest.max(other.largest);
    }

    /// Returns the number of times counted.
    pub(crate) fn count(&self) -> u64 {
        self.cells.len()
    }

    /// Returns the time that `share` of all do not exceed, in milliseconds; 0 without values.
    pub(crate) fn quantile_ms(&self, share: f64) -> f64 {
        // The library rounds down at exactly 0 only.
        let cell = self.cells.value_at_quantile(share.max(f64::MIN_POSITIVE));
        (cell as f64 / 1e6).min(self.largest.as_secs_f64() * 1e3)
    }

    /// Returns costs in milliseconds at some shares, each named `what` and its name; those with `true` are headlines.
    pub(crate) fn figures(&self, what: &str, shares: &[(&str, f64, bool)]) -> Vec<Figure> {
        let figure = |(name, share, is_headline): &(&str, f64, bool)| Figure {
            is_headline: *is_headline,
            ..Figure::cost(format!("{what}{name}"), "ms", self.quantile_ms(*share))
        };
        shares.iter().map(figure).collect()
    }

    /// Returns a record's distribution of times without an intended start.
    pub(crate) fn distribution(&self, key: &str) -> Distribution {
        Distribution {
            key: key.to_owned(),
            unit: "ms".to_owned(),
            count: self.count(),
            corrected: self.table(),
            uncorrected: Vec::new(),
        }
    }

    /// Returns the percentile spectrum, finer and finer towards 1, as far as there are values to fill it.
    pub(crate) fn table(&self) -> Vec<Quantile> {
        if self.count() == 0 {
            return Vec::new();
        }
        // Any share beyond the last value but one would repeat the maximum.
        let has_values =
            |share: &f64| *share == 1.0 || (1.0 - share) * self.count() as f64 >= 1.0 - 1e-9;
        // Named shares keep their exact value.
        let is_named = |share: &f64| SHARES.iter().any(|named| (named - share).abs() < 1e-9);
        // Of the count alone: tables of one class of requests have the same shares, whatever the values.
        let next = |share: &f64| {
            let halvings = (1.0 / (1.0 - share)).log2().floor() + 1.0;
            Some(share + 1.0 / (f64::from(TICKS_A_HALF) * halvings.exp2())).filter(has_values)
        };
        let between = std::iter::successors(Some(0.0), next);
        let between = between.filter(|share| !is_named(share));
        let mut shares: Vec<f64> = between.chain(SHARES).filter(has_values).collect();
        shares.sort_by(f64::total_cmp);
        shares.dedup();
        let line = |share| Quantile {
            share,
            value: self.quantile_ms(share),
        };
        shares.into_iter().map(line).collect()
    }
}

impl FromIterator<Duration> for Histogram {
    fn from_iter<I: IntoIterator<Item = Duration>>(times: I) -> Self {
        let mut histogram = Self::default();
        times.into_iter().for_each(|time| histogram.add(time));
        histogram
    }
}

/// Latencies of one class of requests, from both starting points.
#[derive(Debug, Clone, Default)]
pub(crate) struct Latencies {
    /// From the due time.
    pub(crate) corrected: Histogram,
    /// From the send time.
    pub(crate) uncorrected: Histogram,
}

impl Latencies {
    /// Counts a request.
    pub(crate) fn add(&mut self, due: Instant, sent: Instant, ended: Instant) {
        self.corrected.add(ended.saturating_duration_since(due));
        self.uncorrected.add(ended.saturating_duration_since(sent));
    }

    /// Adds the counts of another one.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.corrected.merge(&other.corrected);
        self.uncorrected.merge(&other.uncorrected);
    }

    /// Returns it as a record's distribution.
    pub(crate) fn distribution(&self, key: &str) -> Distribution {
        Distribution {
            uncorrected: self.uncorrected.table(),
            ..self.corrected.distribution(key)
        }
    }
}

#[cfg(test)]
mod tests;
