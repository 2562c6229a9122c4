//! Families: one metric per combination of label values.
//!
//! **Invariant:** at most `cap` series plus the overflow series exist; a combination of label values has one series.

mod core;
mod typed;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use self::core::{Core, Series};
pub use self::typed::{
    CounterFamily, GaugeFamily, HistogramFamily, NativeHistogramFamily, SummaryFamily, TypedFamily,
};
use crate::counter::CounterValue;
use crate::gauge::GaugeValue;
use crate::histogram::{self, HistogramValue};
use crate::metric::{Metric, RawVisitor, Spec, Value, sealed};
use crate::native::{self, NativeHistogramValue, NativeOptions};
use crate::point::SeriesVisitor;
use crate::shards::Reader;
use crate::summary::{self, DEFAULT_AGE_BUCKETS, DEFAULT_MAX_AGE, SummaryValue};
use crate::visit::MetricType;

/// Default of [`Family::with_cap`].
pub const DEFAULT_SERIES_CAP: usize = 10_000;

/// Value of every label of the series that replaces all combinations above the cap.
pub const OVERFLOW: &str = "_overflow";

/// Counters with `N` labels.
pub type CounterVec<const N: usize> = Family<CounterValue, N>;
/// Gauges with `N` labels.
pub type GaugeVec<const N: usize> = Family<GaugeValue, N>;
/// Histograms with `N` labels.
pub type HistogramVec<const N: usize> = Family<HistogramValue, N>;
/// Native histograms with `N` labels.
pub type NativeHistogramVec<const N: usize> = Family<NativeHistogramValue, N>;
/// Summaries with `N` labels.
pub type SummaryVec<const N: usize> = Family<SummaryValue, N>;

/// One series of a [`CounterVec`].
pub type CounterHandle<const N: usize = 0> = Handle<CounterValue, N>;
/// One series of a [`GaugeVec`].
pub type GaugeHandle<const N: usize = 0> = Handle<GaugeValue, N>;
/// One series of a [`HistogramVec`].
pub type HistogramHandle<const N: usize = 0> = Handle<HistogramValue, N>;
/// One series of a [`NativeHistogramVec`].
pub type NativeHistogramHandle<const N: usize = 0> = Handle<NativeHistogramValue, N>;
/// One series of a [`SummaryVec`].
pub type SummaryHandle<const N: usize = 0> = Handle<SummaryValue, N>;

/// Metrics that share a name and differ in the values of `N` labels; `const`-constructible, so it can be a `static`.
pub struct Family<V, const N: usize> {
    core: Core<V>,
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

impl<const N: usize> NativeHistogramVec<N> {
    /// Creates a family of native histograms without a series.
    #[must_use]
    pub const fn new(
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str; N],
        options: NativeOptions,
    ) -> Self {
        Self::from_spec(native::spec(name, help, options), labels)
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
            core: Core::new(spec),
        }
    }

    /// Sets the maximum number of series, besides the overflow series.
    #[must_use]
    pub const fn with_cap(mut self, series: usize) -> Self {
        self.core.cap = series;
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
        Handle(self.core.with(values))
    }

    /// Calls `f` with the series, like [`Family::with`]; faster, because it makes no handle.
    ///
    /// `f` should be short: series removed meanwhile are freed after it.
    #[inline]
    pub fn update<R>(&self, values: &[&str; N], f: impl Fn(&V) -> R) -> R {
        self.core.update(values, f)
    }

    /// Removes a series; returns whether it existed. Handles to it stay usable, but are not exposed.
    pub fn remove(&self, values: &[&str; N]) -> bool {
        self.core.remove(values)
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
}

impl<V: Value, const N: usize> Metric for Family<V, N> {
    fn set_enabled(&self, enabled: bool) {
        self.core.set_enabled(enabled);
    }

    fn is_enabled(&self) -> bool {
        self.core.is_enabled()
    }
}

impl<V: Value, const N: usize> sealed::Metric for Family<V, N> {
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

impl<V, const N: usize> fmt::Debug for Family<V, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Family")
            .field("spec", &self.core.spec)
            .field("cap", &self.core.cap)
            .finish_non_exhaustive()
    }
}

/// One series of a family: cheap to clone; keep it where it is used often.
///
/// `N` is that of the [`Family`] it is from; it is left out for a family with a type of labels.
pub struct Handle<V, const N: usize = 0>(Arc<Series<V>>);

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
