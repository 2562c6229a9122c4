//! Classic histograms: one count per bucket and a sum per thread, made cumulative when read.
//!
//! **Invariant:** an observation adds to exactly one bucket, and the exposed count is the buckets' total, so it equals
//! the `+Inf` bucket in every exposition. The sum may lack concurrent observations.

use std::fmt;
use std::time::{Duration, Instant};

use crate::exemplar::Exemplars;
use crate::metric::{Raw, Scratch, Single, Spec, Value};
use crate::point::Point;
use crate::range::Range;
use crate::shards::{self, LONGEST_RANGE, Reader, Slot};
use crate::visit::MetricType;

/// Seconds from 5 ms to 10 s, for the latency of network services: client_golang's default.
pub const DEFAULT_BOUNDS: [f64; 11] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// Maximum number of bounds of a histogram.
pub const MAX_BOUNDS: usize = LONGEST_RANGE - 8;

/// Up to this many bounds are all compared, without a branch; more are searched.
const COMPARE_ALL_UP_TO: usize = 32;

/// A histogram without labels; `const`-constructible, so it can be a `static`. Observes through [`HistogramValue`].
pub type Histogram = Single<HistogramValue>;

impl Histogram {
    /// Creates a histogram; nothing is allocated before its first use.
    ///
    /// `bounds` are the buckets' inclusive upper bounds, finite and strictly ascending (checked when registered); the
    /// `+Inf` bucket is added.
    ///
    /// # Panics
    ///
    /// With more than [`MAX_BOUNDS`] bounds; for a `static` that is a compile error.
    #[must_use]
    pub const fn new(name: &'static str, help: &'static str, bounds: &'static [f64]) -> Self {
        Self::from_parts(spec(name, help, bounds), HistogramValue::new(bounds))
    }
}

/// Returns a histogram's declaration, after checking the number of bounds.
pub(crate) const fn spec(name: &'static str, help: &'static str, bounds: &'static [f64]) -> Spec {
    assert!(
        bounds.len() <= MAX_BOUNDS,
        "a histogram has too many bounds"
    );
    let mut spec = Spec::new(name, help, MetricType::Histogram);
    spec.bounds = bounds;
    spec
}

/// Value of a [`Histogram`] or of one series of a [`HistogramVec`](crate::HistogramVec).
///
/// Cells: the sum, then one count per bucket.
pub struct HistogramValue {
    range: Range,
    bounds: &'static [f64],
    exemplars: Exemplars,
}

impl HistogramValue {
    const fn new(bounds: &'static [f64]) -> Self {
        Self {
            range: Range::new(),
            bounds,
            exemplars: Exemplars::new(),
        }
    }

    /// Counts one observation. NaN falls into the `+Inf` bucket and makes the sum NaN.
    #[inline]
    pub fn observe(&self, v: f64) {
        if let Some(slot) = self.range.slot(self.cells()) {
            let bucket = bucket_of(self.bounds, v);
            shards::write(slot, self.cells(), |cells| {
                cells.add(1 + bucket, 1);
                cells.add_f64(0, v);
            });
        }
    }

    /// Counts one observation and keeps it as its bucket's exemplar, in place of the one before.
    ///
    /// Labels of more than [`EXEMPLAR_MAX_CHARS`](crate::EXEMPLAR_MAX_CHARS) characters, invalid names or none at all
    /// count the observation alone. Exemplars appear in OpenMetrics and protobuf.
    pub fn observe_with_exemplar<N: AsRef<str>, V: AsRef<str>>(
        &self,
        v: f64,
        labels: impl IntoIterator<Item = (N, V)>,
    ) {
        self.observe(v);
        if self.range.is_enabled() {
            let bucket = bucket_of(self.bounds, v);
            self.exemplars.set(self.bounds.len() + 1, bucket, v, labels);
        }
    }

    /// Counts one observation, and keeps it as its bucket's exemplar if the last one was exposed since: `labels` runs
    /// once per bucket and exposition.
    #[inline]
    pub fn observe_sampled<L, N, V>(&self, v: f64, labels: impl FnOnce() -> L)
    where
        L: IntoIterator<Item = (N, V)>,
        N: AsRef<str>,
        V: AsRef<str>,
    {
        self.observe(v);
        let bucket = bucket_of(self.bounds, v);
        if self.exemplars.wants(bucket) && self.range.is_enabled() {
            self.exemplars
                .set(self.bounds.len() + 1, bucket, v, labels());
        }
    }

    /// Counts a duration in seconds.
    #[inline]
    pub fn observe_duration(&self, duration: Duration) {
        self.observe(duration.as_secs_f64());
    }

    /// Starts a timer that observes the seconds until it is dropped.
    pub fn start_timer(&self) -> Timer<'_> {
        Timer {
            histogram: self,
            start: Instant::now(),
        }
    }

    /// Returns the number of observations; readable while switched off.
    #[must_use]
    pub fn count(&self) -> u64 {
        let mut cells = Vec::new();
        if let Some(slot) = self.range.peek_any() {
            Reader::new().sums(slot, self.cells(), &mut cells);
        }
        cells.iter().skip(1).sum()
    }

    /// Returns the sum of the observed values; readable while switched off.
    #[must_use]
    pub fn sum(&self) -> f64 {
        let slot = self.range.peek_any();
        slot.map_or(0.0, |slot| self.read_sum(&Reader::new(), slot))
    }

    #[inline(always)]
    fn cells(&self) -> usize {
        self.bounds.len() + 2
    }

    fn read_sum(&self, reader: &Reader, slot: Slot) -> f64 {
        reader.sum_f64(slot, self.cells(), 0)
    }
}

/// Returns the index of the first bound that is not below `v`; the number of bounds if there is none, or for NaN.
#[inline(always)]
pub(crate) fn bucket_of(bounds: &[f64], v: f64) -> usize {
    // `!(v <= bound)` instead of `v > bound`, so that NaN is above every bound.
    #[expect(
        clippy::neg_cmp_op_on_partial_ord,
        reason = "NaN belongs above all bounds"
    )]
    let above = |bound: &f64| !(v <= *bound);
    if bounds.len() <= COMPARE_ALL_UP_TO {
        bounds.iter().map(|bound| usize::from(above(bound))).sum()
    } else {
        bounds.partition_point(above)
    }
}

impl Value for HistogramValue {
    fn create(spec: &Spec) -> Self {
        Self::new(spec.bounds)
    }

    fn range(&self) -> &Range {
        &self.range
    }

    fn read<'s>(&self, scratch: &'s mut Scratch<'_>) -> Option<Point<'s>> {
        if scratch.wants_exemplars {
            self.exemplars.read(&mut scratch.exemplars);
        }
        let Raw::Histogram { sum, .. } = self.raw(scratch)? else {
            return None;
        };
        let buckets = &scratch.cells[1..];
        Some(Point::Histogram {
            sum,
            count: buckets.iter().sum(),
            buckets,
            exemplars: &scratch.exemplars,
            native: None,
        })
    }

    fn raw<'s>(&self, scratch: &'s mut Scratch<'_>) -> Option<Raw<'s>> {
        let slot = self.range.peek()?;
        // Read the sum first: a concurrent observation is then more likely counted than summed, and a mean computed
        // from both errs to the low side, never towards infinity.
        let mut sum = 0.0;
        scratch.cells.clear();
        if let Some(slot) = slot {
            sum = self.read_sum(scratch.reader, slot);
            scratch.reader.sums(slot, self.cells(), &mut scratch.cells);
        }
        scratch.cells.resize(self.cells(), 0);
        let buckets = &scratch.cells[1..];
        Some(Raw::Histogram { sum, buckets })
    }
}

impl Drop for HistogramValue {
    fn drop(&mut self) {
        let cells = self.cells();
        self.range.release(cells);
    }
}

impl fmt::Debug for HistogramValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HistogramValue")
            .field("count", &self.count())
            .field("sum", &self.sum())
            .finish()
    }
}

/// Observes the seconds since it was started when dropped.
#[derive(Debug)]
#[must_use = "a timer that is dropped at once observes nothing useful"]
pub struct Timer<'a> {
    histogram: &'a HistogramValue,
    start: Instant,
}

impl Timer<'_> {
    /// Ends the timer without an observation.
    pub fn discard(self) {
        std::mem::forget(self);
    }
}

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        self.histogram.observe_duration(self.start.elapsed());
    }
}
