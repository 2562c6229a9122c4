//! Summaries: quantiles over the last minutes, from log-linear buckets that every thread counts in.
//!
//! A value's bucket comes from the bits of the float: 128 buckets per power of two, so a quantile is off by at most 0.8
//! % of its value; interpolation inside the bucket keeps its rank close as well. Buckets only grow; a window is the
//! difference between the buckets and an earlier copy of them ([`Window`]), so it adds no cost to an observation.
//! Memory is 1 KiB per power of two seen and shard, plus 16 bytes per used bucket and copy.
//!
//! **Invariant:** an observation adds to exactly one bucket, and the exposed count is the buckets' total.

mod coarse;
mod quantile;
mod window;

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::metric::{Raw, Scratch, Single, Spec, Value};
use crate::octaves::Octaves;
use crate::point::Point;
use crate::range::Range;
use crate::shards::{self, Reader, Slot};
use crate::visit::MetricType;

pub(crate) use self::coarse::Coarse;
use self::quantile::{BUCKETS_PER_OCTAVE, Bucket, quantile};
use self::window::Window;

/// Default time that an observation counts in a summary's quantiles.
pub const DEFAULT_MAX_AGE: Duration = Duration::from_secs(600);
/// Default number of steps in which observations age.
pub const DEFAULT_AGE_BUCKETS: u32 = 5;

/// Cells of a summary beside its octaves.
const CELLS: usize = 6;
/// Observations of a shard; only used to decide when to read the clock.
const TICKS: usize = 0;
const SUM: usize = 1;
const ZERO: usize = 2;
const NAN: usize = 3;
const INFINITE: usize = 4;
const NEGATIVE_INFINITE: usize = 5;

/// Observations of one thread between two reads of the clock; a power of two.
const LOOK_AT_CLOCK_EVERY: u64 = 128;

/// A summary without labels; `const`-constructible, so it can be a `static`. Observes through [`SummaryValue`].
pub type Summary = Single<SummaryValue>;

impl Summary {
    /// Creates a summary; nothing is allocated before its first use.
    ///
    /// `quantiles` are between 0 and 1 and strictly ascending (checked when registered). They cover the last
    /// 8 to 10 minutes ([`DEFAULT_MAX_AGE`] in [`DEFAULT_AGE_BUCKETS`] steps) and are NaN without an observation in
    /// that time. Sum and count cover the life of the process.
    #[must_use]
    pub const fn new(name: &'static str, help: &'static str, quantiles: &'static [f64]) -> Self {
        let spec = spec(name, help, quantiles, DEFAULT_MAX_AGE, DEFAULT_AGE_BUCKETS);
        Self::from_parts(
            spec,
            SummaryValue::new(DEFAULT_MAX_AGE, DEFAULT_AGE_BUCKETS),
        )
    }

    /// Creates a summary whose quantiles cover `max_age`, less up to one of `age_buckets` equal parts of it.
    ///
    /// # Panics
    ///
    /// When `age_buckets` or `max_age` is zero; for a `static` that is a compile error.
    #[must_use]
    pub const fn with_age(
        name: &'static str,
        help: &'static str,
        quantiles: &'static [f64],
        max_age: Duration,
        age_buckets: u32,
    ) -> Self {
        let spec = spec(name, help, quantiles, max_age, age_buckets);
        Self::from_parts(spec, SummaryValue::new(max_age, age_buckets))
    }
}

/// Returns a summary's declaration.
pub(crate) const fn spec(
    name: &'static str,
    help: &'static str,
    quantiles: &'static [f64],
    max_age: Duration,
    age_buckets: u32,
) -> Spec {
    assert!(
        age_buckets > 0 && !max_age.is_zero(),
        "a summary needs an age"
    );
    let mut spec = Spec::new(name, help, MetricType::Summary);
    spec.quantiles = quantiles;
    spec.max_age = max_age;
    spec.age_buckets = age_buckets;
    spec
}

/// Value of a [`Summary`] or of one series of a [`SummaryVec`](crate::SummaryVec).
pub struct SummaryValue {
    range: Range,
    octaves: Octaves,
    window: Mutex<Window>,
    /// When the window turns next, in milliseconds as in [`since_epoch_ms`]: observing threads read this instead of the
    /// lock, whose cache line they would otherwise contend for.
    next_turn_ms: AtomicU64,
}

impl SummaryValue {
    const fn new(max_age: Duration, age_buckets: u32) -> Self {
        Self {
            range: Range::new(),
            octaves: Octaves::new(),
            window: Mutex::new(Window::new(max_age, age_buckets)),
            next_turn_ms: AtomicU64::new(0),
        }
    }

    /// Counts one observation. NaN counts and makes the sum NaN, but is not part of the quantiles.
    #[inline]
    pub fn observe(&self, v: f64) {
        let Some(slot) = self.range.slot(CELLS) else {
            return;
        };
        match self.octaves.near(v.to_bits()) {
            None => self.observe_far(slot, v),
            Some(octave) => count_in(octave, v),
        }
        shards::write(slot, CELLS, |cells| {
            cells.add_f64(SUM, v);
            if cells.add(TICKS, 1).is_multiple_of(LOOK_AT_CLOCK_EVERY) {
                self.look_at_clock();
            }
        });
    }

    /// Counts a duration in seconds.
    #[inline]
    pub fn observe_duration(&self, duration: Duration) {
        self.observe(duration.as_secs_f64());
    }

    /// Returns the number of observations; readable while switched off.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.totals(&Reader::new()).count
    }

    /// Returns the sum of the observed values; readable while switched off.
    #[must_use]
    pub fn sum(&self) -> f64 {
        let slot = self.range.peek_any();
        slot.map_or(0.0, |slot| Reader::new().sum_f64(slot, CELLS, SUM))
    }

    /// Returns the `q`-quantile of the recent observations; NaN without any.
    #[must_use]
    pub fn quantile(&self, q: f64) -> f64 {
        quantile(&self.reading(&Reader::new(), Instant::now()).young, q)
    }

    /// Counts a value without a near octave (yet): zero, NaN, infinities, negative, tiny and huge numbers.
    #[inline(never)]
    fn observe_far(&self, slot: Slot, v: f64) {
        let cell = match v {
            0.0 => ZERO,
            f64::INFINITY => INFINITE,
            f64::NEG_INFINITY => NEGATIVE_INFINITE,
            _ if v.is_nan() => NAN,
            _ => {
                let first = || self.window().begin(Instant::now());
                let octaves = &self.octaves;
                match octaves.get_or_allocate(v.to_bits(), BUCKETS_PER_OCTAVE, first) {
                    Some(octave) => return count_in(octave, v),
                    // Without space for another octave, the value is missing from the quantiles, like a NaN.
                    None => NAN,
                }
            }
        };
        shards::write(slot, CELLS, |cells| {
            cells.add(cell, 1);
        });
    }

    /// Turns the window in time even if nobody reads the summary.
    #[cold]
    fn look_at_clock(&self) {
        let now = Instant::now();
        if since_epoch_ms(now) < self.next_turn_ms.load(Relaxed) {
            return;
        }
        // If another thread holds the lock, it reads the clock too.
        if let Ok(mut window) = self.window.try_lock() {
            self.turn(&mut window, now, || self.totals(&Reader::new()).buckets);
        }
    }

    fn turn(&self, window: &mut Window, now: Instant, counts: impl FnOnce() -> Vec<Bucket>) {
        window.turn(now, counts);
        let next = window.next_turn().unwrap_or(now);
        self.next_turn_ms.store(since_epoch_ms(next), Relaxed);
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reading(&self, reader: &Reader, now: Instant) -> Reading {
        let mut window = self.window();
        let totals = self.totals(reader);
        self.turn(&mut window, now, || totals.buckets.clone());
        Reading {
            young: window.young(totals.buckets),
            count: totals.count,
        }
    }

    /// Sums all buckets over the shards.
    fn totals(&self, reader: &Reader) -> Totals {
        let mut totals = Totals::default();
        let Some(slot) = self.range.peek_any() else {
            return totals;
        };
        for (key, cell) in [
            (quantile::ZERO, ZERO),
            (quantile::INFINITE, INFINITE),
            (quantile::NEGATIVE_INFINITE, NEGATIVE_INFINITE),
        ] {
            totals.add(key, reader.sum(slot, CELLS, cell));
        }
        let mut cells = Vec::new();
        for (octave, slot) in self.octaves.iter() {
            reader.sums(slot, BUCKETS_PER_OCTAVE, &mut cells);
            for (place, count) in cells.iter().enumerate() {
                totals.add(quantile::key(octave, place), *count);
            }
        }
        totals.count += reader.sum(slot, CELLS, NAN);
        totals.buckets.sort_unstable_by_key(|bucket| bucket.key);
        totals
    }
}

#[inline(always)]
fn count_in(octave: Slot, v: f64) {
    shards::write(octave, BUCKETS_PER_OCTAVE, |cells| {
        cells.add(quantile::place(v), 1);
    });
}

/// Returns milliseconds since an instant of this process; 0 before it.
fn since_epoch_ms(now: Instant) -> u64 {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    let since = now.saturating_duration_since(*EPOCH.get_or_init(Instant::now));
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Totals since the summary's creation.
#[derive(Default)]
struct Totals {
    /// Used buckets, by value.
    buckets: Vec<Bucket>,
    /// Includes NaNs, which have no bucket.
    count: u64,
}

impl Totals {
    fn add(&mut self, key: i32, count: u64) {
        if count != 0 {
            self.buckets.push(Bucket { key, count });
            self.count += count;
        }
    }
}

struct Reading {
    young: Vec<Bucket>,
    count: u64,
}

impl Value for SummaryValue {
    fn create(spec: &Spec) -> Self {
        Self::new(spec.max_age, spec.age_buckets)
    }

    fn range(&self) -> &Range {
        &self.range
    }

    fn read<'s>(&self, scratch: &'s mut Scratch<'_>) -> Option<Point<'s>> {
        let slot = self.range.peek()?;
        let sum = slot.map_or(0.0, |slot| scratch.reader.sum_f64(slot, CELLS, SUM));
        let reading = self.reading(scratch.reader, Instant::now());
        let quantiles = scratch.spec.quantiles.iter();
        scratch.values.clear();
        scratch
            .values
            .extend(quantiles.map(|q| quantile(&reading.young, *q)));
        Some(Point::Summary {
            sum,
            count: reading.count,
            values: &scratch.values,
        })
    }

    fn raw<'s>(&self, scratch: &'s mut Scratch<'_>) -> Option<Raw<'s>> {
        let slot = self.range.peek()?;
        let sum = slot.map_or(0.0, |slot| scratch.reader.sum_f64(slot, CELLS, SUM));
        let totals = self.totals(scratch.reader);
        let nan = Coarse::fill(&totals.buckets, totals.count, &mut scratch.cells);
        let buckets = &scratch.cells;
        Some(Raw::Summary { sum, nan, buckets })
    }
}

impl Drop for SummaryValue {
    fn drop(&mut self) {
        self.range.release(CELLS);
        self.octaves.release(BUCKETS_PER_OCTAVE);
    }
}

impl fmt::Debug for SummaryValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SummaryValue")
            .field("count", &self.count())
            .field("sum", &self.sum())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
