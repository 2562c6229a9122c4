//! Common parts of all metrics: a name, a help text, a way to be read, a switch.
//!
//! **Invariant:** a metric never changes its [`Spec`].

use std::ops::Deref;
use std::time::Duration;

use crate::lanes::Reader;
use crate::visit::{Extra, Labels, MetricType, Sample, Visitor};

/// A metric or family of metrics that can be registered. Implemented by this crate's types only.
pub trait Metric: sealed::Metric {
    /// Switches counting and exposition on or off at run time; counted values stay.
    ///
    /// A metric that is off costs its callers one load and does not appear in expositions.
    fn set_enabled(&self, enabled: bool);

    /// Returns whether the metric is switched on.
    fn is_enabled(&self) -> bool;
}

pub(crate) mod sealed {
    use super::{RawVisitor, Reader, Spec, Visitor};

    /// The part of a metric that only this crate uses.
    pub trait Metric: Send + Sync {
        fn spec(&self) -> Spec;
        fn visit(&self, reader: &Reader, visitor: &mut dyn Visitor);
        fn visit_raw(&self, reader: &Reader, visitor: &mut dyn RawVisitor);
    }
}

/// A metric's declaration; checked when it is registered.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) kind: MetricType,
    pub(crate) labels: &'static [&'static str],
    /// A histogram's bounds.
    pub(crate) bounds: &'static [f64],
    /// A summary's quantiles.
    pub(crate) quantiles: &'static [f64],
    /// How long an observation counts in a summary's quantiles, and in how many steps it ages.
    pub(crate) max_age: Duration,
    pub(crate) age_buckets: u32,
}

impl Spec {
    pub(crate) const fn new(name: &'static str, help: &'static str, kind: MetricType) -> Self {
        Self {
            name,
            help,
            kind,
            labels: &[],
            bounds: &[],
            quantiles: &[],
            max_age: Duration::ZERO,
            age_buckets: 0,
        }
    }
}

/// Value of one series: the part that differs between counter, gauge, histogram and summary.
pub trait Value: Send + Sync + Sized + 'static {
    /// Creates a series of a family that declares `spec`.
    fn create(spec: &Spec) -> Self;
    fn set_enabled(&self, enabled: bool);
    fn is_enabled(&self) -> bool;
    /// Passes the samples of the series to `put`; none while it is switched off.
    fn samples(&self, scratch: &mut Scratch<'_>, put: &mut dyn FnMut(Part<'_>, f64));
    /// Returns what was counted; `None` while it is switched off.
    fn raw<'s>(&self, scratch: &'s mut Scratch<'_>) -> Option<Raw<'s>>;
}

/// What a series counted, as it adds up over processes.
#[derive(Clone, Copy, Debug)]
pub enum Raw<'a> {
    Counter(f64),
    Gauge(f64),
    /// Observations of each bucket alone, the last one for what is above all bounds.
    Histogram {
        sum: f64,
        buckets: &'a [u64],
    },
    /// The same with [`Coarse`](crate::summary::Coarse) buckets, and observations that are not numbers.
    Summary {
        sum: f64,
        nan: u64,
        buckets: &'a [u64],
    },
}

impl Raw<'_> {
    /// Returns a number that only falls when the series begins anew.
    pub(crate) fn count(&self) -> f64 {
        match self {
            Self::Counter(value) => *value,
            Self::Gauge(_) => 0.0,
            Self::Histogram { buckets, .. } => buckets.iter().sum::<u64>() as f64,
            Self::Summary { nan, buckets, .. } => (nan + buckets.iter().sum::<u64>()) as f64,
        }
    }
}

/// Receives every series of a registry, in no particular order.
pub trait RawVisitor {
    /// Receives a series; its labels as the text format writes them, or nothing without labels.
    fn series(&mut self, spec: &Spec, labels: &[u8], raw: &Raw<'_>);
}

/// Which sample of a series it is.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    pub(crate) suffix: &'static str,
    pub(crate) extra: Option<Extra<'a>>,
}

impl Part<'_> {
    pub(crate) const PLAIN: Part<'static> = Part::suffix("");

    pub(crate) const fn suffix(suffix: &'static str) -> Part<'static> {
        Part {
            suffix,
            extra: None,
        }
    }
}

/// Buffers reused for reading the series of one family.
pub struct Scratch<'a> {
    pub(crate) reader: &'a Reader,
    pub(crate) spec: Spec,
    pub(crate) cells: Vec<u64>,
    /// The family's `le` or `quantile` values as text.
    pub(crate) extras: Vec<String>,
}

impl<'a> Scratch<'a> {
    pub(crate) fn new(reader: &'a Reader, spec: &Spec) -> Self {
        let numbers = spec.bounds.iter().chain(spec.quantiles);
        Self {
            reader,
            spec: *spec,
            cells: Vec::new(),
            extras: numbers
                .map(|number| crate::number::to_string(*number))
                .collect(),
        }
    }
}

/// A metric with one series.
#[derive(Debug)]
pub struct Single<V> {
    spec: Spec,
    value: V,
}

impl<V> Single<V> {
    pub(crate) const fn from_parts(spec: Spec, value: V) -> Self {
        Self { spec, value }
    }
}

impl<V> Deref for Single<V> {
    type Target = V;

    #[inline(always)]
    fn deref(&self) -> &V {
        &self.value
    }
}

impl<V: Value> Metric for Single<V> {
    fn set_enabled(&self, enabled: bool) {
        self.value.set_enabled(enabled);
    }

    fn is_enabled(&self) -> bool {
        self.value.is_enabled()
    }
}

impl<V: Value> sealed::Metric for Single<V> {
    fn spec(&self) -> Spec {
        self.spec
    }

    fn visit(&self, reader: &Reader, visitor: &mut dyn Visitor) {
        let mut scratch = Scratch::new(reader, &self.spec);
        let mut family = FamilyVisit::new(self.spec, visitor);
        family.series(&self.value, &mut scratch, Labels::NONE);
    }

    fn visit_raw(&self, reader: &Reader, visitor: &mut dyn RawVisitor) {
        let mut scratch = Scratch::new(reader, &self.spec);
        if let Some(raw) = self.value.raw(&mut scratch) {
            visitor.series(&self.spec, b"", &raw);
        }
    }
}

/// Passes a family's head to the visitor before its first sample, and not at all without one.
pub(crate) struct FamilyVisit<'a> {
    spec: Spec,
    visitor: &'a mut dyn Visitor,
    begun: bool,
}

impl<'a> FamilyVisit<'a> {
    pub(crate) fn new(spec: Spec, visitor: &'a mut dyn Visitor) -> Self {
        Self {
            spec,
            visitor,
            begun: false,
        }
    }

    pub(crate) fn series(
        &mut self,
        value: &impl Value,
        scratch: &mut Scratch<'_>,
        labels: Labels<'_>,
    ) {
        value.samples(scratch, &mut |part, number| {
            self.sample(part, labels, number);
        });
    }

    pub(crate) fn sample(&mut self, part: Part<'_>, labels: Labels<'_>, value: f64) {
        let Spec {
            name, help, kind, ..
        } = self.spec;
        if !self.begun {
            self.begun = true;
            self.visitor.family(name, help, kind);
        }
        self.visitor.sample(&Sample {
            name,
            suffix: part.suffix,
            labels: labels.with_extra(part.extra),
            value,
        });
    }
}
