//! Families whose samples a function pushes when they are read.
//!
//! **Invariant:** a sample has exactly the labels its family declares; the compiler counts them.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use crate::encode::write_labels;
use crate::metric::{FamilyVisit, Metric, Raw, RawVisitor, Spec, sealed};
use crate::point::{Point, Reading, SeriesVisitor};
use crate::shards::Reader;
use crate::visit::{MetricType, SampleLabels};

/// Declares a family with `N` labels for [`Registry::register_fn`](crate::Registry::register_fn).
#[derive(Clone, Copy, Debug)]
pub struct Desc<const N: usize> {
    spec: Spec,
}

impl<const N: usize> Desc<N> {
    /// Declares a counter.
    #[must_use]
    pub const fn counter(
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str; N],
    ) -> Self {
        Self::new(name, help, MetricType::Counter, labels)
    }

    /// Declares a gauge.
    #[must_use]
    pub const fn gauge(
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str; N],
    ) -> Self {
        Self::new(name, help, MetricType::Gauge, labels)
    }

    const fn new(
        name: &'static str,
        help: &'static str,
        kind: MetricType,
        labels: &'static [&'static str; N],
    ) -> Self {
        let mut spec = Spec::new(name, help, kind);
        spec.labels = labels;
        Self { spec }
    }
}

/// Receives the samples of one family.
pub struct Samples<'a, const N: usize> {
    spec: Spec,
    family: FamilyVisit<'a>,
}

impl<const N: usize> Samples<'_, N> {
    /// Adds a sample; label values in the order the labels were declared.
    pub fn push(&mut self, labels: &[&str; N], value: f64) {
        let labels = SampleLabels::of_slice(self.spec.labels, labels);
        let point = match self.spec.kind {
            MetricType::Counter => Point::Counter {
                value,
                exemplar: None,
            },
            _ => Point::Gauge(value),
        };
        self.family.point(labels, point);
    }
}

impl<const N: usize> std::fmt::Debug for Samples<'_, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Samples")
            .field("names", &self.spec.labels)
            .finish_non_exhaustive()
    }
}

/// A [`Desc`] with its function.
pub(crate) struct Collector<F, const N: usize> {
    spec: Spec,
    on: AtomicBool,
    collect: F,
}

impl<F, const N: usize> Collector<F, N>
where
    F: Fn(&mut Samples<'_, N>) + Send + Sync,
{
    pub(crate) fn new(desc: Desc<N>, collect: F) -> Self {
        Self {
            spec: desc.spec,
            on: AtomicBool::new(true),
            collect,
        }
    }
}

impl<F, const N: usize> Metric for Collector<F, N>
where
    F: Fn(&mut Samples<'_, N>) + Send + Sync,
{
    fn set_enabled(&self, enabled: bool) {
        self.on.store(enabled, Relaxed);
    }

    fn is_enabled(&self) -> bool {
        self.on.load(Relaxed)
    }
}

impl<F, const N: usize> sealed::Metric for Collector<F, N>
where
    F: Fn(&mut Samples<'_, N>) + Send + Sync,
{
    fn spec(&self) -> Spec {
        self.spec
    }

    fn visit(&self, reader: &Reader, visitor: &mut dyn SeriesVisitor) {
        if self.on.load(Relaxed) {
            (self.collect)(&mut Samples {
                spec: self.spec,
                family: FamilyVisit::new(reader, self.spec, visitor),
            });
        }
    }

    fn visit_raw(&self, reader: &Reader, visitor: &mut dyn RawVisitor) {
        let (spec, labels) = (self.spec, Vec::new());
        self.visit(
            reader,
            &mut AsRaw {
                spec,
                labels,
                visitor,
            },
        );
    }
}

/// Passes samples as raw numbers.
struct AsRaw<'a> {
    spec: Spec,
    labels: Vec<u8>,
    visitor: &'a mut dyn RawVisitor,
}

impl SeriesVisitor for AsRaw<'_> {
    fn family(&mut self, _: &Spec) {}

    fn series(&mut self, reading: &Reading<'_>) {
        let raw = match reading.point {
            Point::Counter { value, .. } => Raw::Counter(value),
            Point::Gauge(value) => Raw::Gauge(value),
            Point::Histogram { .. } | Point::Summary { .. } => return,
        };
        self.labels.clear();
        write_labels(&mut self.labels, reading.labels);
        self.visitor.series(&self.spec, &self.labels, &raw);
    }
}
