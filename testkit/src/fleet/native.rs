//! Native histograms of latencies, as a client library keeps and writes them: schema 3, adjacent buckets about 9 %
//! apart, and empty ones omitted.

use crate::{
    protobuf::{bytes, double, number, signed},
    rng::SplitMix64,
};
use std::sync::LazyLock;

/// Buckets that may be hit.
const BUCKETS: usize = 40;
/// Index of the first bucket: it ends at 2^(-60/8) s, 5.5 ms.
const FIRST: i64 = -60;
const SCHEMA: i64 = 3;
/// Observations below this count as zero; client libraries' default.
const ZERO_THRESHOLD: f64 = 2.938_735_877_055_719e-39;
/// A gap of this many empty buckets ends a span; shorter ones are written as zeros, which is smaller than another span.
const SHORTEST_GAP: usize = 3;
/// Most observations of a round, exclusive.
const OBSERVATIONS: u64 = 16;
/// Rounds that a process has completed when first seen.
const ROUNDS_BEFORE: usize = 20;

/// Contribution of an observation in each bucket to the sum, in thousandths of a second.
static UPPER_MS: LazyLock<[u64; BUCKETS]> = LazyLock::new(|| {
    std::array::from_fn(|at| {
        let end = ((FIRST + at as i64) as f64 / 8.0).exp2();
        (end * 1000.0) as u64
    })
});

/// One histogram. **Invariant:** its counts never fall.
#[derive(Debug)]
pub struct Native {
    counts: [u64; BUCKETS],
    zeros: u64,
    count: u64,
    sum_ms: u64,
}

impl Native {
    pub(super) fn new(rng: &mut SplitMix64) -> Self {
        let mut native = Self {
            counts: [0; BUCKETS],
            zeros: 0,
            count: 0,
            sum_ms: 0,
        };
        for _ in 0..ROUNDS_BEFORE {
            native.step(rng);
        }
        native
    }

    /// Adds a round's observations, most of them in the middle; returns the number of observations so far.
    pub(super) fn step(&mut self, rng: &mut SplitMix64) -> f64 {
        let half = BUCKETS as u64 / 2;
        let observations = rng.below(OBSERVATIONS);
        for _ in 0..observations {
            let bucket = (rng.below(half) + rng.below(half + 1)) as usize;
            self.counts[bucket] += 1;
            self.sum_ms += UPPER_MS[bucket];
        }
        // A request in 64 is answered before the clock ticks.
        let zeros = u64::from(rng.one_in(64));
        self.zeros += zeros;
        self.count += observations + zeros;
        self.count as f64
    }

    /// Appends the fields of a `Histogram` message.
    pub fn write(&self, out: &mut Vec<u8>) {
        number(out, 1, self.count);
        double(out, 2, self.sum_ms as f64 / 1000.0);
        signed(out, 5, SCHEMA);
        double(out, 6, ZERO_THRESHOLD);
        number(out, 7, self.zeros);
        let spans = self.spans();
        let mut end = 0;
        for span in spans.clone() {
            let offset = match end {
                0 => FIRST + span.start as i64,
                end => (span.start - end) as i64,
            };
            let mut inner = Vec::with_capacity(8);
            signed(&mut inner, 1, offset);
            number(&mut inner, 2, span.len() as u64);
            bytes(out, 12, &inner);
            end = span.end;
        }
        let mut before = 0;
        for count in spans.flat_map(|span| &self.counts[span]) {
            signed(out, 13, count.cast_signed() - before);
            before = count.cast_signed();
        }
    }

    /// Returns the ranges of buckets to write.
    fn spans(&self) -> impl Iterator<Item = std::ops::Range<usize>> + Clone {
        let mut at = 0;
        std::iter::from_fn(move || {
            let start = at + self.counts[at..].iter().position(|count| *count > 0)?;
            let mut end = start + 1;
            while let Some(gap) = self.counts[end..].iter().position(|count| *count > 0) {
                if gap >= SHORTEST_GAP {
                    break;
                }
                end += gap + 1;
            }
            at = end;
            Some(start..end)
        })
    }
}

#[cfg(test)]
mod tests;
