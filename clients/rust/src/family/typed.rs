//! Families whose label sets are types.
//!
//! **Invariant:** a place of the dense table has the series of its label set, which is never removed.

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use super::Handle;
use super::core::{Core, Series};
use crate::counter::CounterValue;
use crate::gauge::GaugeValue;
use crate::histogram::{self, HistogramValue};
use crate::label::Labels;
use crate::metric::{Metric, RawVisitor, Spec, Value, sealed};
use crate::native::{self, NativeHistogramValue, NativeOptions};
use crate::point::SeriesVisitor;
use crate::shards::Reader;
use crate::summary::{self, DEFAULT_AGE_BUCKETS, DEFAULT_MAX_AGE, SummaryValue};
use crate::visit::MetricType;

/// Most label sets of a type whose series are found by number; a table of this length takes 64 KiB.
const DENSE_MAX: usize = 4096;

/// Counters with the labels of a type.
pub type CounterFamily<L> = TypedFamily<CounterValue, L>;
/// Gauges with the labels of a type.
pub type GaugeFamily<L> = TypedFamily<GaugeValue, L>;
/// Histograms with the labels of a type.
pub type HistogramFamily<L> = TypedFamily<HistogramValue, L>;
/// Native histograms with the labels of a type.
pub type NativeHistogramFamily<L> = TypedFamily<NativeHistogramValue, L>;
/// Summaries with the labels of a type.
pub type SummaryFamily<L> = TypedFamily<SummaryValue, L>;

/// Metrics that share a name and differ in the values of `L`'s labels; `const`-constructible, so it can be a `static`.
///
/// If the values of all labels can be counted (enums and `bool`) and have at most 4,096 combinations, a series is found
/// by its number, without hashing.
pub struct TypedFamily<V, L> {
    core: Core<V>,
    dense: OnceLock<Box<[Place<V>]>>,
    labels: PhantomData<fn(L)>,
}

type Place<V> = OnceLock<Arc<Series<V>>>;

impl<V, L: Labels> TypedFamily<V, L> {
    /// Length of the dense table; 0 without one.
    const DENSE: usize = if L::COMBINATIONS <= DENSE_MAX {
        L::COMBINATIONS
    } else {
        0
    };

    const fn from_spec(mut spec: Spec) -> Self {
        spec.labels = L::NAMES;
        Self {
            core: Core::new(spec),
            dense: OnceLock::new(),
            labels: PhantomData,
        }
    }

    /// Sets the maximum number of series, besides the overflow series.
    #[must_use]
    pub const fn with_cap(mut self, series: usize) -> Self {
        self.core.cap = series;
        self
    }
}

impl<L: Labels> CounterFamily<L> {
    /// Creates a family of counters without a series.
    #[must_use]
    pub const fn new(name: &'static str, help: &'static str) -> Self {
        Self::from_spec(Spec::new(name, help, MetricType::Counter))
    }
}

impl<L: Labels> GaugeFamily<L> {
    /// Creates a family of gauges without a series.
    #[must_use]
    pub const fn new(name: &'static str, help: &'static str) -> Self {
        Self::from_spec(Spec::new(name, help, MetricType::Gauge))
    }
}

impl<L: Labels> HistogramFamily<L> {
    /// Creates a family of histograms without a series; `bounds` as in [`Histogram::new`](crate::Histogram::new).
    ///
    /// # Panics
    ///
    /// With more than [`MAX_BOUNDS`](crate::MAX_BOUNDS) bounds; for a `static` that is a compile error.
    #[must_use]
    pub const fn new(name: &'static str, help: &'static str, bounds: &'static [f64]) -> Self {
        Self::from_spec(histogram::spec(name, help, bounds))
    }
}

impl<L: Labels> NativeHistogramFamily<L> {
    /// Creates a family of native histograms without a series.
    #[must_use]
    pub const fn new(name: &'static str, help: &'static str, options: NativeOptions) -> Self {
        Self::from_spec(native::spec(name, help, options))
    }
}

impl<L: Labels> SummaryFamily<L> {
    /// Creates a family of summaries without a series; `quantiles` as in [`Summary::new`](crate::Summary::new).
    #[must_use]
    pub const fn new(name: &'static str, help: &'static str, quantiles: &'static [f64]) -> Self {
        let (age, steps) = (DEFAULT_MAX_AGE, DEFAULT_AGE_BUCKETS);
        Self::from_spec(summary::spec(name, help, quantiles, age, steps))
    }
}

impl<V: Value, L: Labels> TypedFamily<V, L> {
    /// Returns the series with these labels; creates it if needed. Above the cap, returns the overflow series, as
    /// [`Family::with`](crate::Family::with) does.
    #[must_use]
    pub fn with<K: Labels<Static = L>>(&self, labels: &K) -> Handle<V> {
        Handle(match self.place(labels) {
            Some(place) => match place.get() {
                Some(series) => Arc::clone(series),
                None => self.first(place, labels),
            },
            None => labels.with_values(|values| self.core.with(values)),
        })
    }

    /// Calls `f` with the series, like [`TypedFamily::with`]; faster, because it makes no handle.
    ///
    /// `f` should be short: series removed meanwhile are freed after it.
    #[inline]
    pub fn update<K: Labels<Static = L>, R>(&self, labels: &K, f: impl Fn(&V) -> R) -> R {
        match self.place(labels) {
            Some(place) => match place.get() {
                Some(series) => f(&series.value),
                None => f(&self.first(place, labels).value),
            },
            None => labels.with_values(|values| self.core.update(values, &f)),
        }
    }

    /// Removes a series; returns whether it existed. Handles to it stay usable, but are not exposed.
    ///
    /// Does not compile for labels whose values can all be counted: their series are found by number, and stay.
    pub fn remove<K: Labels<Static = L>>(&self, labels: &K) -> bool {
        const {
            assert!(Self::DENSE == 0, "series that are found by number stay");
        }
        labels.with_values(|values| self.core.remove(values))
    }

    /// Returns the number of series.
    #[must_use]
    pub fn len(&self) -> usize {
        self.core.index.len()
    }

    /// Returns whether the family has no series.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many look-ups returned the overflow series because the family was full.
    #[must_use]
    pub fn overflows(&self) -> u64 {
        self.core.overflows.load(Relaxed)
    }

    /// Returns the place of a label set in the dense table, if there is one.
    #[inline(always)]
    fn place<K: Labels>(&self, labels: &K) -> Option<&Place<V>> {
        if Self::DENSE == 0 {
            return None;
        }
        let table = match self.dense.get() {
            Some(table) => table,
            None => self.table(),
        };
        table.get(labels.index())
    }

    #[cold]
    fn table(&self) -> &[Place<V>] {
        self.dense
            .get_or_init(|| (0..Self::DENSE).map(|_| OnceLock::new()).collect())
    }

    /// Finds a series by its values, and puts it in its place unless it is the overflow series.
    #[cold]
    fn first<K: Labels>(&self, place: &Place<V>, labels: &K) -> Arc<Series<V>> {
        labels.with_values(|values| {
            let series = self.core.with(values);
            if series.is(values) {
                // Fails if another thread was faster, with the same series.
                let _ = place.set(Arc::clone(&series));
            }
            series
        })
    }
}

impl<V: Value, L: Labels> Metric for TypedFamily<V, L> {
    fn set_enabled(&self, enabled: bool) {
        self.core.set_enabled(enabled);
    }

    fn is_enabled(&self) -> bool {
        self.core.is_enabled()
    }
}

impl<V: Value, L: Labels> sealed::Metric for TypedFamily<V, L> {
    fn spec(&self) -> Spec {
        self.core.spec
    }

    fn visit(&self, reader: &Reader, visitor: &mut dyn SeriesVisitor) {
        self.core.visit(reader, visitor);
    }

    fn visit_raw(&self, reader: &Reader, visitor: &mut dyn RawVisitor) {
        self.core.visit_raw(reader, visitor);
    }
}

impl<V, L> fmt::Debug for TypedFamily<V, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedFamily")
            .field("spec", &self.core.spec)
            .field("cap", &self.core.cap)
            .finish_non_exhaustive()
    }
}
