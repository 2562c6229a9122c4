//! A metric family: its shape and its numbers.
//!
//! **Invariant:** there is one cell for each part of the shape. A shape never changes: pushes of the same series share it
//! and only change numbers.

use narthex_expfmt::{Escaping, escape, write_name_as};
use narthex_model::{
    Histogram, LabelSet, MetricType,
    cell::{self, Cell},
    labels::is_legacy_metric_name,
};
use std::sync::Arc;

/// A family's metadata and metrics, without numbers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shape {
    pub(crate) name: Arc<str>,
    pub(crate) metric_type: MetricType,
    pub(crate) help: Arc<str>,
    pub(crate) metrics: Vec<Metric>,
    /// Meaning of each cell.
    pub(crate) parts: Vec<Part>,
}

/// One metric: a label set and a range of cells, which follows the previous metric's.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Metric {
    /// Labels without the name, the group's labels, `le` and `quantile`.
    pub(crate) labels: LabelSet,
    pub(crate) parts_end: usize,
}

/// Role of a cell in its metric.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    Value,
    /// A bucket or a quantile.
    Point(f64),
    Sum,
    Count,
    /// A native histogram.
    Native,
}

impl PartialEq for Part {
    /// Compares bounds bit for bit: a bound that is not a number is the same as itself.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Point(one), Self::Point(other)) => one.to_bits() == other.to_bits(),
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl Part {
    /// Returns the suffix of its series' name, and the label with its bound if it has one.
    pub(crate) fn suffix(
        self,
        metric_type: MetricType,
    ) -> (&'static str, Option<(&'static str, f64)>) {
        match self {
            Self::Value | Self::Native => ("", None),
            Self::Sum => ("_sum", None),
            Self::Count => ("_count", None),
            Self::Point(bound) if metric_type == MetricType::Summary => {
                ("", Some(("quantile", bound)))
            }
            Self::Point(bound) => ("_bucket", Some(("le", bound))),
        }
    }
}

impl Shape {
    pub(crate) fn new(name: Arc<str>, metric_type: MetricType, help: Arc<str>) -> Self {
        Self {
            name,
            metric_type,
            help,
            metrics: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// Adds a metric of the parts that were added since the last one.
    pub(crate) fn end_metric(&mut self, labels: LabelSet) {
        let parts_end = self.parts.len();
        self.metrics.push(Metric { labels, parts_end });
    }

    /// Iterates over the metrics with their cells.
    pub(crate) fn metrics(&self) -> impl Iterator<Item = (&Metric, std::ops::Range<usize>)> {
        let mut start = 0;
        self.metrics.iter().map(move |metric| {
            let range = start..metric.parts_end;
            start = metric.parts_end;
            (metric, range)
        })
    }
}

/// Time of a cell without a time of its own.
pub(crate) const NO_TIME: i64 = i64::MIN;

/// The numbers of a family.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    pub(crate) cells: Vec<f64>,
    /// Native histograms, which cells refer to.
    pub(crate) natives: Vec<Arc<Histogram>>,
    /// Times of the cells, or empty if none has one of its own.
    pub(crate) times_ms: Vec<i64>,
}

impl Numbers {
    /// Reports whether all are values without times.
    pub(crate) fn is_plain(&self) -> bool {
        self.natives.is_empty() && self.times_ms.is_empty()
    }

    /// Adds the numbers of a family.
    pub(crate) fn append(&mut self, family: View<'_>) {
        if self.is_plain() && family.numbers.is_plain() {
            self.cells.extend_from_slice(family.cells());
            return;
        }
        (0..family.cells().len()).for_each(|at| self.push(family, at));
    }

    /// Adds a cell of a family.
    pub(crate) fn push(&mut self, family: View<'_>, at: usize) {
        let before = self.cells.len();
        self.cells.push(match family.native(at) {
            Some(native) => {
                self.natives.push(Arc::clone(native));
                native_cell(self.natives.len() - 1)
            }
            None => family.cells()[at],
        });
        let time_ms = family.time_ms(at);
        if time_ms.is_some() || !self.times_ms.is_empty() {
            self.times_ms.resize(before, NO_TIME);
            self.times_ms.push(time_ms.unwrap_or(NO_TIME));
        }
    }

    /// Returns a cell's own time.
    pub(crate) fn time_ms(&self, at: usize) -> Option<i64> {
        let time_ms = self.times_ms.get(at).copied();
        time_ms.filter(|time_ms| *time_ms != NO_TIME)
    }

    /// Returns the native histogram that a cell refers to.
    pub(crate) fn native(&self, at: usize) -> Option<&Arc<Histogram>> {
        match Cell::decode(*self.cells.get(at)?) {
            Cell::Histogram(native) => self.natives.get(native as usize),
            _ => None,
        }
    }
}

/// A family with its numbers.
#[derive(Clone, Debug)]
pub(crate) struct Family {
    pub(crate) shape: Arc<Shape>,
    pub(crate) numbers: Numbers,
}

impl Family {
    /// Returns a view of it.
    pub(crate) fn view(&self) -> View<'_> {
        View {
            shape: &self.shape,
            numbers: &self.numbers,
            start: 0,
        }
    }
}

/// A family whose numbers are among others'.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) shape: &'a Arc<Shape>,
    pub(crate) numbers: &'a Numbers,
    /// Where its cells begin.
    pub(crate) start: usize,
}

impl<'a> View<'a> {
    /// Returns the family's cells.
    pub(crate) fn cells(&self) -> &'a [f64] {
        &self.numbers.cells[self.start..self.start + self.shape.parts.len()]
    }

    /// Returns a cell's own time.
    pub(crate) fn time_ms(&self, at: usize) -> Option<i64> {
        self.numbers.time_ms(self.start + at)
    }

    /// Returns the native histogram that a cell refers to.
    pub(crate) fn native(&self, at: usize) -> Option<&'a Arc<Histogram>> {
        self.numbers.native(self.start + at)
    }

    /// Returns a copy of its numbers.
    pub(crate) fn own_numbers(&self) -> Numbers {
        let mut numbers = Numbers::default();
        numbers.append(*self);
        numbers
    }

    /// Returns the family with those cells only that `keep` is true for, given the metric's place and the part. A metric
    /// without cells is left out.
    pub(crate) fn filtered(&self, keep: impl Fn(usize, Part) -> bool) -> Family {
        let shape = &**self.shape;
        let (name, help) = (Arc::clone(&shape.name), Arc::clone(&shape.help));
        let mut kept = Shape::new(name, shape.metric_type, help);
        let mut numbers = Numbers::default();
        for (place, (metric, range)) in shape.metrics().enumerate() {
            let before = kept.parts.len();
            for at in range.filter(|at| keep(place, shape.parts[*at])) {
                kept.parts.push(shape.parts[at]);
                numbers.push(*self, at);
            }
            if kept.parts.len() > before {
                kept.end_metric(metric.labels.clone());
            }
        }
        Family {
            shape: Arc::new(kept),
            numbers,
        }
    }

    /// Reports whether its numbers are the same as another's, bit for bit.
    pub(crate) fn has_numbers_of(&self, other: View<'_>) -> bool {
        let same = |(a, b): (&f64, &f64)| a.to_bits() == b.to_bits();
        let (cells, others) = (self.cells(), other.cells());
        if self.numbers.is_plain() && other.numbers.is_plain() {
            return cells.len() == others.len() && cells.iter().zip(others).all(same);
        }
        cells.len() == others.len()
            && (0..cells.len()).all(|at| {
                let values = match (self.native(at), other.native(at)) {
                    (None, None) => same((&cells[at], &others[at])),
                    (one, other) => one == other,
                };
                values && self.time_ms(at) == other.time_ms(at)
            })
    }
}

/// Writes the comment lines of a family.
pub(crate) fn write_head(out: &mut Vec<u8>, shape: &Shape, escaping: Escaping) {
    let name = escaping.name(&shape.name);
    let is_bare = is_legacy_metric_name(&name);
    if !shape.help.is_empty() {
        out.extend_from_slice(b"# HELP ");
        write_name_as(out, &name, is_bare);
        out.push(b' ');
        escape(out, &shape.help, false);
        out.push(b'\n');
    }
    out.extend_from_slice(b"# TYPE ");
    write_name_as(out, &name, is_bare);
    out.push(b' ');
    out.extend_from_slice(type_word(shape.metric_type).as_bytes());
    out.push(b'\n');
}

/// Returns the text format's word for a type.
pub(crate) fn type_word(metric_type: MetricType) -> &'static str {
    match metric_type {
        MetricType::Counter => "counter",
        MetricType::Gauge | MetricType::Info | MetricType::StateSet => "gauge",
        MetricType::Histogram | MetricType::GaugeHistogram => "histogram",
        MetricType::Summary => "summary",
        MetricType::Unknown => "untyped",
    }
}

/// Returns a cell that refers to a native histogram.
pub(crate) fn native_cell(at: usize) -> f64 {
    cell::histogram(u32::try_from(at).expect("a family has fewer than 2^32 histograms"))
}
