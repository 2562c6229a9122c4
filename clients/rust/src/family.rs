//! Families: one metric per combination of label values.
//!
//! **Invariant:** at most `cap` series plus the overflow series exist; a combination of label values has one series.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::ops::Deref;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::counter::CounterValue;
use crate::gauge::GaugeValue;
use crate::histogram::{self, HistogramValue};
use crate::index::{Index, Item};
use crate::lanes::Reader;
use crate::metric::{FamilyVisit, Metric, RawVisitor, Scratch, Spec, Value, sealed};
use crate::summary::{self, DEFAULT_AGE_BUCKETS, DEFAULT_MAX_AGE, SummaryValue};
use crate::text;
use crate::visit::{Labels, MetricType, Values, Visitor};

/// Default of [`Family::with_cap`].
pub const DEFAULT_SERIES_CAP: usize = 10_000;

/// Value of every label of the series that replaces all combinations above the cap.
pub const OVERFLOW: &str = "_overflow";

/// Distance between the series being read and the one being prefetched.
const PREFETCH_AHEAD: usize = 8;

/// Counters with `N` labels.
pub type CounterVec<const N: usize> = Family<CounterValue, N>;
/// Gauges with `N` labels.
pub type GaugeVec<const N: usize> = Family<GaugeValue, N>;
/// Histograms with `N` labels.
pub type HistogramVec<const N: usize> = Family<HistogramValue, N>;

/// Summaries with `N` labels.
pub type SummaryVec<const N: usize> = Family<SummaryValue, N>;

/// One series of a [`CounterVec`].
pub type CounterHandle<const N: usize> = Handle<CounterValue, N>;
/// One series of a [`GaugeVec`].
pub type GaugeHandle<const N: usize> = Handle<GaugeValue, N>;
/// One series of a [`HistogramVec`].
pub type HistogramHandle<const N: usize> = Handle<HistogramValue, N>;

/// One series of a [`SummaryVec`].
pub type SummaryHandle<const N: usize> = Handle<SummaryValue, N>;

/// Metrics that share a name and differ in the values of `N` labels; `const`-constructible, so it can be a `static`.
pub struct Family<V, const N: usize> {
    spec: Spec,
    cap: usize,
    off: AtomicBool,
    /// 1 while the overflow series exists, which does not count against the cap.
    overflow_series: AtomicUsize,
    overflows: AtomicU64,
    index: Index<Series<V, N>>,
}

impl<const N: usize> CounterVec<N> {
    /// Creates a family of counters without a series.
    #[must_use]
    pub const fn new(
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str; N],
    ) -> Self {
        Self::from_spec(Spec::new(name, help, MetricType::Counter), labels)
    }
}

impl<const N: usize> GaugeVec<N> {
    /// Creates a family of gauges without a series.
    #[must_use]
    pub const fn new(
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str; N],
    ) -> Self {
        Self::from_spec(Spec::new(name, help, MetricType::Gauge), labels)
    }
}

impl<const N: usize> HistogramVec<N> {
    /// Creates a family of histograms without a series; `bounds` as in [`Histogram::new`](crate::Histogram::new).
    ///
    /// # Panics
    ///
    /// With more than [`MAX_BOUNDS`](crate::MAX_BOUNDS) bounds; for a `static` that is a compile error.
    #[must_use]
    pub const fn new(
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str; N],
        bounds: &'static [f64],
    ) -> Self {
        Self::from_spec(histogram::spec(name, help, bounds), labels)
    }
}

impl<const N: usize> SummaryVec<N> {
    /// Creates a family of summaries without a series; `quantiles` as in [`Summary::new`](crate::Summary::new).
    #[must_use]
    pub const fn new(
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str; N],
        quantiles: &'static [f64],
    ) -> Self {
        Self::with_age(
            name,
            help,
            labels,
            quantiles,
            DEFAULT_MAX_AGE,
            DEFAULT_AGE_BUCKETS,
        )
    }

    /// Creates a family of summaries as [`Summary::with_age`](crate::Summary::with_age) does.
    ///
    /// # Panics
    ///
    /// When `age_buckets` or `max_age` is zero; for a `static` that is a compile error.
    #[must_use]
    pub const fn with_age(
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str; N],
        quantiles: &'static [f64],
        max_age: Duration,
        age_buckets: u32,
    ) -> Self {
        Self::from_spec(
            summary::spec(name, help, quantiles, max_age, age_buckets),
            labels,
        )
    }
}

impl<V, const N: usize> Family<V, N> {
    pub(crate) const fn from_spec(mut spec: Spec, labels: &'static [&'static str; N]) -> Self {
        spec.labels = labels;
        Self {
            spec,
            cap: DEFAULT_SERIES_CAP,
            off: AtomicBool::new(false),
            overflow_series: AtomicUsize::new(0),
            overflows: AtomicU64::new(0),
            index: Index::new(),
        }
    }

    /// Sets the maximum number of series, besides the overflow series.
    #[must_use]
    pub const fn with_cap(mut self, series: usize) -> Self {
        self.cap = series;
        self
    }
}

impl<V: Value, const N: usize> Family<V, N> {
    /// Returns the series with these label values, in the order the labels were declared; creates it if needed.
    ///
    /// The look-up takes no lock and builds no key, but a handle kept by the caller is cheaper still. Above the cap,
    /// returns the one series whose label values are all [`OVERFLOW`].
    #[must_use]
    pub fn with(&self, values: &[&str; N]) -> Handle<V, N> {
        let hash = hash_of(values);
        let found = self.index.get(hash, |series| series.is(values));
        Handle(found.unwrap_or_else(|| self.insert(hash, values)))
    }

    /// Calls `f` with the series, like [`Family::with`]; faster, because it makes no handle.
    ///
    /// `f` should be short: series removed meanwhile are freed after it.
    #[inline]
    pub fn update<R>(&self, values: &[&str; N], f: impl Fn(&V) -> R) -> R {
        let hash = hash_of(values);
        let found = self
            .index
            .with(hash, |series| series.is(values), |series| f(&series.value));
        found.unwrap_or_else(|| f(&self.insert(hash, values).value))
    }

    /// Removes a series; returns whether it existed. Handles to it stay usable, but are not exposed.
    pub fn remove(&self, values: &[&str; N]) -> bool {
        let removed = self
            .index
            .remove(hash_of(values), |series| series.is(values));
        if removed && values.iter().all(|value| *value == OVERFLOW) {
            self.overflow_series.store(0, Relaxed);
        }
        removed
    }

    /// Returns the number of series.
    #[must_use]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Returns whether the family has no series.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many look-ups returned the overflow series because the family was full.
    #[must_use]
    pub fn overflows(&self) -> u64 {
        self.overflows.load(Relaxed)
    }

    #[cold]
    fn insert(&self, hash: u64, values: &[&str; N]) -> Arc<Series<V, N>> {
        let made = self.index.get_or_insert(
            hash,
            |series| series.is(values),
            |live| {
                let full = live >= self.cap.saturating_add(self.overflow_series.load(Relaxed));
                (!full).then(|| self.make(values))
            },
        );
        made.unwrap_or_else(|| self.overflow())
    }

    fn overflow(&self) -> Arc<Series<V, N>> {
        self.overflows.fetch_add(1, Relaxed);
        let values = &[OVERFLOW; N];
        let made = self.index.get_or_insert(
            hash_of(values),
            |series| series.is(values),
            |_| {
                self.overflow_series.store(1, Relaxed);
                Some(self.make(values))
            },
        );
        made.expect("the overflow series is never refused")
    }

    fn make(&self, values: &[&str; N]) -> Arc<Series<V, N>> {
        let value = V::create(&self.spec);
        value.set_enabled(!self.off.load(Relaxed));
        Arc::new(Series::new(self.spec.labels, values, value))
    }
}

impl<V: Value, const N: usize> Metric for Family<V, N> {
    fn set_enabled(&self, enabled: bool) {
        self.index.for_each(
            || self.off.store(!enabled, Relaxed),
            |series| series.value.set_enabled(enabled),
        );
    }

    fn is_enabled(&self) -> bool {
        !self.off.load(Relaxed)
    }
}

impl<V: Value, const N: usize> sealed::Metric for Family<V, N> {
    fn spec(&self) -> Spec {
        self.spec
    }

    fn visit(&self, reader: &Reader, visitor: &mut dyn Visitor) {
        let mut scratch = Scratch::new(reader, &self.spec);
        let mut family = FamilyVisit::new(self.spec, visitor);
        // No lock is held from here on: series can be added while a slow visitor is running.
        let all = self.index.sorted();
        for (i, series) in all.iter().enumerate() {
            // Series are scattered in memory: prefetch each before it is needed, then its text.
            if let Some(soon) = all.get(i + 2 * PREFETCH_AHEAD) {
                prefetch(Arc::as_ptr(soon));
            }
            if let Some(soon) = all.get(i + PREFETCH_AHEAD) {
                prefetch(soon.rendered.as_ptr());
                prefetch(soon.rendered.as_ptr().wrapping_add(64));
            }
            family.series(&series.value, &mut scratch, series.labels(self.spec.labels));
        }
    }

    fn visit_raw(&self, reader: &Reader, visitor: &mut dyn RawVisitor) {
        let mut scratch = Scratch::new(reader, &self.spec);
        for series in self.index.sorted().iter() {
            if let Some(raw) = series.value.raw(&mut scratch) {
                visitor.series(&self.spec, &series.rendered, &raw);
            }
        }
    }
}

impl<V, const N: usize> fmt::Debug for Family<V, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Family")
            .field("spec", &self.spec)
            .field("cap", &self.cap)
            .finish_non_exhaustive()
    }
}

/// One series of a family: cheap to clone; keep it where it is used often.
pub struct Handle<V, const N: usize>(Arc<Series<V, N>>);

impl<V, const N: usize> Clone for Handle<V, N> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<V, const N: usize> Deref for Handle<V, N> {
    type Target = V;

    #[inline(always)]
    fn deref(&self) -> &V {
        &self.0.value
    }
}

impl<V: fmt::Debug, const N: usize> fmt::Debug for Handle<V, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.value.fmt(f)
    }
}

/// A series with its label values and their rendering.
struct Series<V, const N: usize> {
    value: V,
    /// Value `i` ends at `ends[i]` of `text`.
    ends: [u32; N],
    text: Box<str>,
    rendered: Box<[u8]>,
}

impl<V, const N: usize> Series<V, N> {
    fn new(names: &'static [&'static str], values: &[&str; N], value: V) -> Self {
        let mut ends = [0; N];
        let mut text = String::with_capacity(values.iter().map(|value| value.len()).sum());
        for (end, value) in ends.iter_mut().zip(values) {
            text.push_str(value);
            *end = u32::try_from(text.len()).expect("label values of less than 4 GiB");
        }
        let mut rendered = Vec::new();
        text::write_labels(&mut rendered, Labels::of_slice(names, values));
        Self {
            value,
            ends,
            text: text.into_boxed_str(),
            rendered: rendered.into_boxed_slice(),
        }
    }

    fn is(&self, values: &[&str; N]) -> bool {
        let mut start = 0;
        values.iter().zip(self.ends).all(|(value, end)| {
            let own = &self.text.as_bytes()[start..end as usize];
            start = end as usize;
            own == value.as_bytes()
        })
    }

    fn labels(&self, names: &'static [&'static str]) -> Labels<'_> {
        Labels {
            names,
            values: Values::Packed {
                text: &self.text,
                ends: &self.ends,
            },
            extra: None,
            rendered: &self.rendered,
        }
    }
}

impl<V, const N: usize> Item for Series<V, N> {
    /// Compares by the first label's value, then the second's, and so on.
    fn order(&self, other: &Self) -> Ordering {
        let values = |series: &Self, i: usize| {
            let start = if i == 0 { 0 } else { series.ends[i - 1] };
            start as usize..series.ends[i] as usize
        };
        (0..N)
            .map(|i| self.text[values(self, i)].cmp(&other.text[values(other, i)]))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }
}

/// Prefetches a cache line.
#[inline(always)]
fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing the program sees, from any address; SSE is part of x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Hashes label values eight bytes at a time with folded multiplications, from a seed of this process.
#[inline]
fn hash_of<const N: usize>(values: &[&str; N]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = seed();
    let fold = |a: u64, b: u64| {
        let wide = u128::from(a) * u128::from(b);
        wide as u64 ^ (wide >> 64) as u64
    };
    for value in values {
        let bytes = value.as_bytes();
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            hash = fold(hash ^ u64::from_le_bytes(*word), ODD);
        }
        // Including the length makes ("ab", "c") and ("a", "bc") differ.
        hash = fold(hash ^ last_word(bytes, rest), ODD ^ bytes.len() as u64);
    }
    hash
}

/// Returns a word with the bytes of `rest`, the last 0 to 7 of `bytes`; it may contain others too.
#[inline(always)]
fn last_word(bytes: &[u8], rest: &[u8]) -> u64 {
    if let Some(word) = bytes.last_chunk::<8>() {
        return u64::from_le_bytes(*word);
    }
    match (rest.first_chunk::<4>(), rest.last_chunk::<4>(), rest) {
        (Some(first), Some(last), _) => {
            u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last))
        }
        (_, _, [first, .., last]) => {
            let middle = rest[rest.len() / 2];
            u64::from(*first) << 16 | u64::from(middle) << 8 | u64::from(*last)
        }
        (_, _, [only]) => u64::from(*only),
        _ => 0,
    }
}

/// Returns a random number, fixed for this process: an attacker who chooses label values cannot choose collisions.
fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| RandomState::new().hash_one(0) | 1)
}

#[cfg(test)]
mod tests;
