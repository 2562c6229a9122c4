//! Native histograms: exponential buckets at a resolution that adapts to what is observed.
//!
//! Threads count in the buckets of the declared schema, allocated a power of two at a time. An exposition that would
//! have more than `max_buckets` of them merges neighbours: the schema falls by one until they fit, to -4 at the lowest,
//! and stays there. With a `min_reset`, such an exposition is the last before the histogram begins anew at its declared
//! schema, if the last reset is long enough ago. Where the options allow it, the zero bucket takes in its neighbours
//! first, and stays as wide until a reset. A reset subtracts what was counted; cells are never set back.
//!
//! **Invariant:** an observation adds to exactly one bucket, or to the count of those that are not numbers; the exposed
//! count of the native buckets is their total. An exposed schema only rises at a reset.

mod buckets;
mod options;

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::clock::unix_ms;
use crate::exemplar::Exemplars;
use crate::histogram::bucket_of;
use crate::metric::{Raw, Scratch, Single, Spec, Value};
use crate::octaves::Octaves;
use crate::point::{NativePoint, Point, Side};
use crate::range::Range;
use crate::shards::{self, Reader, Slot};
use crate::spec::NativeSpec;
use crate::visit::MetricType;

use self::buckets::COARSEST;
pub use self::options::NativeOptions;

/// Cells beside the octaves and the classic buckets.
const CELLS: usize = 5;
const SUM: usize = 0;
const ZERO: usize = 1;
const NAN: usize = 2;
const INFINITE: usize = 3;
const NEGATIVE_INFINITE: usize = 4;
/// Exemplars of a histogram without classic buckets: of neighbouring powers of two, each has its own.
const EXEMPLARS: usize = 8;

/// A native histogram without labels; `const`-constructible, so it can be a `static`. Observes through
/// [`NativeHistogramValue`].
///
/// Its native buckets appear in protobuf; text formats show the classic buckets, or sum and count alone.
pub type NativeHistogram = Single<NativeHistogramValue>;

impl NativeHistogram {
    /// Creates a native histogram; nothing is allocated before its first use.
    #[must_use]
    pub const fn new(name: &'static str, help: &'static str, options: NativeOptions) -> Self {
        let value = NativeHistogramValue::new(options.native, options.bounds);
        Self::from_parts(spec(name, help, options), value)
    }
}

/// Returns a native histogram's declaration.
pub(crate) const fn spec(name: &'static str, help: &'static str, options: NativeOptions) -> Spec {
    let mut spec = Spec::new(name, help, MetricType::Histogram);
    spec.bounds = options.bounds;
    spec.native = Some(options.native);
    spec
}

/// Value of a [`NativeHistogram`] or of one series of a [`NativeHistogramVec`](crate::NativeHistogramVec).
pub struct NativeHistogramValue {
    range: Range,
    native: NativeSpec,
    bounds: &'static [f64],
    octaves: Octaves,
    exemplars: Exemplars,
    state: Mutex<State>,
    /// When it was last reset, in milliseconds since 1970; 0 before that.
    reset_ms: AtomicU64,
}

/// What expositions remember.
struct State {
    schema: i8,
    zero_threshold: f64,
    /// The last reset, or the first exposition.
    since: Option<Instant>,
    /// What was counted before the last reset.
    base: Option<Box<Totals>>,
}

/// Everything that was counted, at the schema of counting.
#[derive(Clone, Default)]
struct Totals {
    sum: f64,
    /// What counts as zero in what is exposed.
    zero_threshold: f64,
    zero: u64,
    nan: u64,
    negative: Side,
    positive: Side,
    /// Each classic bucket alone.
    classic: Vec<u64>,
}

impl NativeHistogramValue {
    const fn new(native: NativeSpec, bounds: &'static [f64]) -> Self {
        Self {
            range: Range::new(),
            native,
            bounds,
            octaves: Octaves::new(),
            exemplars: Exemplars::new(),
            state: Mutex::new(State {
                schema: native.schema,
                zero_threshold: native.zero_threshold,
                since: None,
                base: None,
            }),
            reset_ms: AtomicU64::new(0),
        }
    }

    /// Counts one observation. NaN counts and makes the sum NaN, but is in no native bucket.
    #[inline]
    pub fn observe(&self, v: f64) {
        let Some(slot) = self.range.slot(self.cells()) else {
            return;
        };
        let magnitude = v.abs();
        // False for NaN.
        let has_bucket = magnitude > self.native.zero_threshold && magnitude < f64::INFINITY;
        let bits = if has_bucket { buckets::bits(v) } else { 0 };
        match self.octaves.near(bits) {
            Some(octave) => self.count_in(octave, bits),
            None => self.observe_far(slot, v, has_bucket),
        }
        shards::write(slot, self.cells(), |cells| {
            cells.add_f64(SUM, v);
            if !self.bounds.is_empty() {
                cells.add(CELLS + bucket_of(self.bounds, v), 1);
            }
        });
    }

    /// Counts a duration in seconds.
    #[inline]
    pub fn observe_duration(&self, duration: Duration) {
        self.observe(duration.as_secs_f64());
    }

    /// Counts one observation and keeps it as an exemplar, as
    /// [`HistogramValue::observe_with_exemplar`](crate::HistogramValue::observe_with_exemplar) does.
    pub fn observe_with_exemplar<N: AsRef<str>, V: AsRef<str>>(
        &self,
        v: f64,
        labels: impl IntoIterator<Item = (N, V)>,
    ) {
        self.observe(v);
        if self.range.is_enabled() {
            let (len, at) = self.exemplar_place(v);
            self.exemplars.set(len, at, v, labels);
        }
    }

    /// Counts one observation and asks for an exemplar where none is new, as
    /// [`HistogramValue::observe_sampled`](crate::HistogramValue::observe_sampled) does.
    #[inline]
    pub fn observe_sampled<L, N, V>(&self, v: f64, labels: impl FnOnce() -> L)
    where
        L: IntoIterator<Item = (N, V)>,
        N: AsRef<str>,
        V: AsRef<str>,
    {
        self.observe(v);
        let (len, at) = self.exemplar_place(v);
        if self.exemplars.wants(at) && self.range.is_enabled() {
            self.exemplars.set(len, at, v, labels());
        }
    }

    /// Returns the number of observations of the process; readable while switched off.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.totals(&Reader::new()).count()
    }

    /// Returns the sum of the observed values of the process; readable while switched off.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.totals(&Reader::new()).sum
    }

    /// The schema of counting: below 0, several octaves are one bucket, merged when read.
    #[inline(always)]
    fn counted_schema(&self) -> u8 {
        self.native.schema.max(0).unsigned_abs()
    }

    #[inline(always)]
    fn octave_cells(&self) -> usize {
        1 << self.counted_schema()
    }

    #[inline(always)]
    fn cells(&self) -> usize {
        match self.bounds.len() {
            0 => CELLS,
            bounds => CELLS + bounds + 1,
        }
    }

    /// Returns how many exemplars there are, and where that of a number is.
    fn exemplar_place(&self, v: f64) -> (usize, usize) {
        match self.bounds.len() {
            0 => (EXEMPLARS, (v.to_bits() >> 52) as usize % EXEMPLARS),
            bounds => (bounds + 1, bucket_of(self.bounds, v)),
        }
    }

    #[inline(always)]
    fn count_in(&self, octave: Slot, bits: u64) {
        let place = buckets::place(self.counted_schema(), bits);
        shards::write(octave, self.octave_cells(), |cells| {
            cells.add(place, 1);
        });
    }

    /// Counts a value without a near octave (yet): zero, NaN, infinities, negative, tiny and huge numbers.
    #[inline(never)]
    fn observe_far(&self, slot: Slot, v: f64, has_bucket: bool) {
        let cell = if has_bucket {
            let bits = buckets::bits(v);
            let octave = self
                .octaves
                .get_or_allocate(bits, self.octave_cells(), || ());
            match octave {
                Some(octave) => return self.count_in(octave, bits),
                // Without space for another octave, the value is in no bucket, like a NaN.
                None => NAN,
            }
        } else if v.is_nan() {
            NAN
        } else if v == f64::INFINITY {
            INFINITE
        } else if v == f64::NEG_INFINITY {
            NEGATIVE_INFINITE
        } else {
            ZERO
        };
        shards::write(slot, self.cells(), |cells| {
            cells.add(cell, 1);
        });
    }

    /// Sums everything over the shards.
    fn totals(&self, reader: &Reader) -> Totals {
        let mut totals = Totals::default();
        let mut cells = Vec::new();
        let Some(slot) = self.range.peek_any() else {
            totals.classic.resize(self.cells() - CELLS, 0);
            return totals;
        };
        // The sum first, as in a classic histogram.
        totals.sum = reader.sum_f64(slot, self.cells(), SUM);
        let schema = self.counted_schema();
        for (octave, slot) in self.octaves.iter() {
            reader.sums(slot, self.octave_cells(), &mut cells);
            for (place, count) in cells.iter().enumerate().filter(|(_, count)| **count > 0) {
                let (index, is_positive) = buckets::index(schema, octave, place);
                totals.side(is_positive).push((index, *count));
            }
        }
        reader.sums(slot, self.cells(), &mut cells);
        totals.classic.extend_from_slice(&cells[CELLS..]);
        (totals.zero, totals.nan) = (cells[ZERO], cells[NAN]);
        let infinite = buckets::infinite(schema);
        for (cell, is_positive) in [(INFINITE, true), (NEGATIVE_INFINITE, false)] {
            if cells[cell] > 0 {
                totals.side(is_positive).push((infinite, cells[cell]));
            }
        }
        totals.negative.sort_unstable();
        totals.positive.sort_unstable();
        totals
    }

    /// Returns what is exposed since the last reset, and its schema; resets what has too many buckets.
    fn exposed(&self, reader: &Reader, now: Instant) -> (Totals, i8) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let all = self.totals(reader);
        let since = *state.since.get_or_insert(now);
        let mut shown = all.clone();
        if let Some(base) = &state.base {
            shown.subtract(base);
        }
        let counted = self.counted_schema().cast_signed();
        if state.zero_threshold > self.native.zero_threshold {
            shown.widen_zero(counted, state.zero_threshold, 0);
        }
        shown.widen(counted - state.schema);
        let mut schema = state.schema;
        let max = self.native.max_buckets;
        let mut zero_threshold = state.zero_threshold;
        if max > 0 {
            let widest = self.native.max_zero_threshold;
            let reached = shown.widen_zero(schema, widest, max);
            zero_threshold = reached.unwrap_or(zero_threshold);
        }
        while max > 0 && shown.buckets() > max && schema > COARSEST {
            shown.widen(1);
            schema -= 1;
        }
        let min_reset = self.native.min_reset;
        let is_due = now.saturating_duration_since(since) >= min_reset;
        let is_coarser = schema < state.schema || zero_threshold > state.zero_threshold;
        if is_coarser && is_due && !min_reset.is_zero() {
            state.schema = self.native.schema;
            state.zero_threshold = self.native.zero_threshold;
            state.since = Some(now);
            state.base = Some(Box::new(all));
            self.reset_ms.store(unix_ms(), Relaxed);
        } else {
            state.schema = schema;
            state.zero_threshold = zero_threshold;
        }
        shown.zero_threshold = zero_threshold;
        (shown, schema)
    }
}

impl Totals {
    fn side(&mut self, is_positive: bool) -> &mut Side {
        if is_positive {
            &mut self.positive
        } else {
            &mut self.negative
        }
    }

    fn buckets(&self) -> usize {
        self.negative.len() + self.positive.len()
    }

    fn count(&self) -> u64 {
        let all = self.negative.iter().chain(&self.positive);
        self.zero + self.nan + all.map(|(_, count)| count).sum::<u64>()
    }

    fn widen(&mut self, steps: i8) {
        if let Ok(steps @ 1..) = u32::try_from(steps) {
            buckets::widen(&mut self.negative, steps);
            buckets::widen(&mut self.positive, steps);
        }
    }

    /// Merges the buckets next to zero into its bucket, as long as they end by `widest` and more than `max` are left;
    /// returns where the last one ends.
    fn widen_zero(&mut self, schema: i8, widest: f64, max: usize) -> Option<f64> {
        let mut reached = None;
        while self.buckets() > max {
            let sides = [&self.negative, &self.positive];
            let least = sides.into_iter().filter_map(|side| side.first()).min()?.0;
            let end = buckets::upper_bound(schema, least);
            if end > widest {
                break;
            }
            for side in [&mut self.negative, &mut self.positive] {
                for (_, count) in side.extract_if(.., |(index, _)| *index == least) {
                    self.zero += count;
                }
            }
            reached = Some(end);
        }
        reached
    }

    fn subtract(&mut self, base: &Self) {
        self.sum -= base.sum;
        self.zero = self.zero.saturating_sub(base.zero);
        self.nan = self.nan.saturating_sub(base.nan);
        buckets::subtract(&mut self.negative, &base.negative);
        buckets::subtract(&mut self.positive, &base.positive);
        for (count, before) in self.classic.iter_mut().zip(&base.classic) {
            *count = count.saturating_sub(*before);
        }
    }
}

impl Value for NativeHistogramValue {
    fn create(spec: &Spec) -> Self {
        let native = spec.native.unwrap_or(NativeOptions::new().native);
        Self::new(native, spec.bounds)
    }

    fn range(&self) -> &Range {
        &self.range
    }

    fn read<'s>(&self, scratch: &'s mut Scratch<'_>) -> Option<Point<'s>> {
        self.range.peek()?;
        if scratch.wants_exemplars {
            self.exemplars.read(&mut scratch.exemplars);
        }
        let (shown, schema) = self.exposed(scratch.reader, Instant::now());
        let count = shown.count();
        scratch.cells.clear();
        scratch.cells.extend_from_slice(&shown.classic);
        if self.bounds.is_empty() {
            scratch.cells.push(count);
        }
        scratch.native = NativePoint {
            schema,
            zero_threshold: shown.zero_threshold,
            zero_count: shown.zero,
            negative: shown.negative,
            positive: shown.positive,
        };
        Some(Point::Histogram {
            sum: shown.sum,
            count,
            buckets: &scratch.cells,
            exemplars: &scratch.exemplars,
            native: Some(&scratch.native),
        })
    }

    fn restarted_ms(&self) -> u64 {
        self.reset_ms.load(Relaxed)
    }

    fn raw<'s>(&self, scratch: &'s mut Scratch<'_>) -> Option<Raw<'s>> {
        self.range.peek()?;
        let totals = self.totals(scratch.reader);
        scratch.cells.clear();
        scratch.cells.extend_from_slice(&totals.classic);
        if self.bounds.is_empty() {
            scratch.cells.push(totals.count());
        }
        Some(Raw::Histogram {
            sum: totals.sum,
            buckets: &scratch.cells,
        })
    }
}

impl Drop for NativeHistogramValue {
    fn drop(&mut self) {
        let (cells, octave_cells) = (self.cells(), self.octave_cells());
        self.range.release(cells);
        self.octaves.release(octave_cells);
    }
}

impl fmt::Debug for NativeHistogramValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NativeHistogramValue")
            .field("count", &self.count())
            .field("sum", &self.sum())
            .finish()
    }
}

#[cfg(test)]
mod tests;
