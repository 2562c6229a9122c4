//! Common parts of all metrics: a name, a help text, a way to be read, a switch.
//!
//! **Invariant:** a metric never changes its [`Spec`].

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::clock::unix_ms;
use crate::exemplar::Exemplar;
use crate::point::{NativePoint, Point, Reading, SeriesVisitor, Wants};
use crate::range::Range;
use crate::shards::Reader;
pub(crate) use crate::spec::Spec;
use crate::texts::Texts;
use crate::visit::SampleLabels;

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
    use super::{RawVisitor, Reader, SeriesVisitor, Spec};

    /// The part of a metric that only this crate uses.
    pub trait Metric: Send + Sync {
        fn spec(&self) -> Spec;
        /// Notes that the metric is exposed from now on.
        fn registered(&self) {}
        fn visit(&self, reader: &Reader, visitor: &mut dyn SeriesVisitor);
        fn visit_raw(&self, reader: &Reader, visitor: &mut dyn RawVisitor);
    }
}

/// Value of one series: the part that differs between counter, gauge, histogram and summary.
pub trait Value: Send + Sync + Sized + 'static {
    /// Whether all that is exposed is a number, and sometimes an exemplar.
    const IS_NUMBER: bool = false;

    /// Creates a series of a family that declares `spec`.
    fn create(spec: &Spec) -> Self;
    /// Returns the range whose switch is the value's.
    fn range(&self) -> &Range;
    /// Returns what is exposed; `None` while it is switched off.
    fn read<'s>(&self, scratch: &'s mut Scratch<'_>) -> Option<Point<'s>>;
    /// Returns the number that is exposed; `None` while it is switched off, or for what is no number.
    fn number(&self, _: &Reader) -> Option<f64> {
        None
    }
    /// Returns whether there ever was an exemplar.
    fn has_exemplar(&self) -> bool {
        false
    }
    /// Returns when the value began anew, in milliseconds since 1970; 0 if it never did.
    fn restarted_ms(&self) -> u64 {
        0
    }
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

/// Buffers reused for reading the series of one family.
pub struct Scratch<'a> {
    pub(crate) reader: &'a Reader,
    pub(crate) spec: Spec,
    pub(crate) wants_exemplars: bool,
    pub(crate) cells: Vec<u64>,
    /// Values of a summary's quantiles.
    pub(crate) values: Vec<f64>,
    pub(crate) exemplars: Vec<Option<Arc<Exemplar>>>,
    pub(crate) native: NativePoint,
}

impl<'a> Scratch<'a> {
    pub(crate) fn new(reader: &'a Reader, spec: &Spec, wants_exemplars: bool) -> Self {
        Self {
            reader,
            spec: *spec,
            wants_exemplars,
            cells: Vec::new(),
            values: Vec::new(),
            exemplars: Vec::new(),
            native: NativePoint::default(),
        }
    }
}

/// A metric with one series.
#[derive(Debug)]
pub struct Single<V> {
    spec: Spec,
    value: V,
    /// When it was first registered, in milliseconds since 1970; 0 before.
    created_ms: AtomicU64,
}

impl<V> Single<V> {
    pub(crate) const fn from_parts(spec: Spec, value: V) -> Self {
        Self {
            spec,
            value,
            created_ms: AtomicU64::new(0),
        }
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
        self.value.range().set_enabled(enabled);
    }

    fn is_enabled(&self) -> bool {
        self.value.range().is_enabled()
    }
}

impl<V: Value> sealed::Metric for Single<V> {
    fn spec(&self) -> Spec {
        self.spec
    }

    fn registered(&self) {
        // Fails if it was registered before: then it has counted since.
        let _ = self
            .created_ms
            .compare_exchange(0, unix_ms(), Relaxed, Relaxed);
    }

    fn visit(&self, reader: &Reader, visitor: &mut dyn SeriesVisitor) {
        let mut family = FamilyVisit::new(reader, self.spec, visitor);
        let created_ms = self.created_ms.load(Relaxed);
        family.series(&self.value, SampleLabels::NONE, created_ms);
    }

    fn visit_raw(&self, reader: &Reader, visitor: &mut dyn RawVisitor) {
        let mut scratch = Scratch::new(reader, &self.spec, false);
        if let Some(raw) = self.value.raw(&mut scratch) {
            visitor.series(&self.spec, b"", &raw);
        }
    }
}

/// Passes a family's head to the visitor before its first series, and not at all without one.
pub(crate) struct FamilyVisit<'a> {
    spec: Spec,
    scratch: Scratch<'a>,
    visitor: &'a mut dyn SeriesVisitor,
    /// What the visitor reads.
    pub(crate) wants: Wants,
    begun: bool,
}

impl<'a> FamilyVisit<'a> {
    pub(crate) fn new(reader: &'a Reader, spec: Spec, visitor: &'a mut dyn SeriesVisitor) -> Self {
        let wants = visitor.wants();
        Self {
            spec,
            scratch: Scratch::new(reader, &spec, wants.exemplars),
            visitor,
            wants,
            begun: false,
        }
    }

    pub(crate) fn series(&mut self, value: &impl Value, labels: SampleLabels<'_>, created_ms: u64) {
        // Before the value is read: reading may be what restarts it afterwards.
        let created_ms = created_ms.max(value.restarted_ms());
        if let Some(point) = value.read(&mut self.scratch) {
            begin(&mut self.begun, self.visitor, &self.spec);
            self.visitor.series(&Reading {
                labels,
                created_ms,
                point,
            });
        }
    }

    /// Passes series that are numbers; `None` is switched off.
    pub(crate) fn numbers(&mut self, lines: &Texts, values: &[Option<f64>]) {
        if values.iter().any(Option::is_some) {
            begin(&mut self.begun, self.visitor, &self.spec);
            self.visitor.numbers(lines, values);
        }
    }

    /// Passes a value that is counted elsewhere.
    pub(crate) fn point(&mut self, labels: SampleLabels<'_>, point: Point<'_>) {
        begin(&mut self.begun, self.visitor, &self.spec);
        self.visitor.series(&Reading {
            labels,
            created_ms: 0,
            point,
        });
    }
}

fn begin(begun: &mut bool, visitor: &mut dyn SeriesVisitor, spec: &Spec) {
    if !std::mem::replace(begun, true) {
        visitor.family(spec);
    }
}
