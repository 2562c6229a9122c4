//! Latency histograms with cells that widen with the value, both from due time and from send time.
//!
//! Instead of the crate hdrhistogram: its correction invents the requests that a stalled generator did not send, while
//! here every due time is known.
//!
//! **Invariant:** a quantile is at most one part in 1024 above the true value, and never below; memory does not grow
//! with the number of requests.

use crate::record::{Distribution, Figure, Quantile};
use std::time::{Duration, Instant};

/// Cells per power of two, and the bits that select them.
const STEPS: u64 = 1 << STEP_BITS;
const STEP_BITS: u32 = 10;
/// The shares of every percentile table, as far as there are values for them.
const SHARES: [f64; 14] = [
    0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99999, 1.0,
];
/// Further shares in each halving of the distance to 1, as in HdrHistogram's spectrum.
const TICKS_A_HALF: u32 = 5;

/// Histogram of times.
#[derive(Debug, Clone, Default)]
pub(crate) struct Histogram {
    cells: Vec<u64>,
    count: u64,
    largest_ns: u64,
}

impl Histogram {
    /// Counts a time.
    pub(crate) fn add(&mut self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let cell = cell_of(ns);
        if cell >= self.cells.len() {
            self.cells.resize(cell + 1, 0);
        }
        self.cells[cell] += 1;
        self.count += 1;
        self.largest_ns = self.largest_ns.max(ns);
    }

    /// Adds the counts of another one.
    pub(crate) fn merge(&mut self, other: &Self) {
        let length = self.cells.len().max(other.cells.len());
        self.cells.resize(length, 0);
        for (cell, more) in self.cells.iter_mut().zip(&other.cells) {
            *cell += more;
        }
        self.count += other.count;
        self.largest_ns = self.largest_ns.max(other.largest_ns);
    }

    /// Returns the number of times counted.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the time that `share` of all do not exceed, in milliseconds; 0 without values.
    pub(crate) fn quantile_ms(&self, share: f64) -> f64 {
        let rank = ((share * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let cell = self.cells.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        let end = cell.map_or(0, |cell| end_of(cell).min(self.largest_ns));
        end as f64 / 1e6
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
            count: self.count,
            corrected: self.table(),
            uncorrected: Vec::new(),
        }
    }

    /// Returns the percentile spectrum, finer and finer towards 1, as far as there are values to fill it.
    pub(crate) fn table(&self) -> Vec<Quantile> {
        if self.count == 0 {
            return Vec::new();
        }
        // Any share beyond the last value but one would repeat the maximum.
        let has_values =
            |share: &f64| *share == 1.0 || (1.0 - share) * self.count as f64 >= 1.0 - 1e-9;
        // Named shares keep their exact value.
        let is_named = |share: &f64| SHARES.iter().any(|named| (named - share).abs() < 1e-9);
        let between = spectrum(self.count).filter(|share| !is_named(share));
        let mut shares: Vec<f64> = between.chain(SHARES).filter(has_values).collect();
        shares.sort_by(f64::total_cmp);
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

/// Returns the shares of HdrHistogram's spectrum for this many values: 5 in each halving of the distance to 1.
fn spectrum(count: u64) -> impl Iterator<Item = f64> {
    let halves = count.max(1).ilog2() + 1;
    (0..halves).flat_map(|half| {
        let left = 0.5_f64.powi(half as i32);
        (0..TICKS_A_HALF).map(move |tick| {
            let within = f64::from(tick) / f64::from(TICKS_A_HALF);
            1.0 - left * (1.0 - within / 2.0)
        })
    })
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

/// Returns the cell of a value: below 2048 each has its own, above each power of two has 1024.
fn cell_of(ns: u64) -> usize {
    let shift = (64 - ns.leading_zeros()).saturating_sub(STEP_BITS + 1);
    (u64::from(shift) * STEPS + (ns >> shift)) as usize
}

/// Returns the largest value of a cell.
fn end_of(cell: usize) -> u64 {
    let cell = cell as u64;
    let shift = (cell / STEPS).saturating_sub(1);
    let step = cell - shift * STEPS;
    // The last cell ends at the 64-bit maximum.
    ((step + 1) << shift).wrapping_sub(1)
}

#[cfg(test)]
mod tests;
