//! What a series shows, before a format writes it.
//!
//! **Invariant:** every format is written from the same [`Point`]; none reads cells itself.

use std::sync::Arc;

use crate::exemplar::Exemplar;
use crate::spec::Spec;
use crate::texts::Texts;
use crate::visit::SampleLabels;

/// Value of one series.
#[derive(Clone, Copy, Debug)]
pub enum Point<'a> {
    Counter {
        value: f64,
        exemplar: Option<&'a Exemplar>,
    },
    Gauge(f64),
    Histogram {
        sum: f64,
        count: u64,
        /// Observations of each bucket alone; the last one for what is above all bounds.
        buckets: &'a [u64],
        /// One for each bucket, or none at all.
        exemplars: &'a [Option<Arc<Exemplar>>],
        native: Option<&'a NativePoint>,
    },
    Summary {
        sum: f64,
        count: u64,
        /// One for each quantile.
        values: &'a [f64],
    },
}

/// Buckets that were observed, by index, and their counts.
pub(crate) type Side = Vec<(i32, u64)>;

/// The native part of what is exposed.
#[derive(Clone, Debug, Default)]
pub struct NativePoint {
    pub(crate) schema: i8,
    pub(crate) zero_threshold: f64,
    pub(crate) zero_count: u64,
    pub(crate) negative: Side,
    pub(crate) positive: Side,
}

/// One series as it is exposed.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    pub(crate) labels: SampleLabels<'a>,
    /// When it began to count, in milliseconds since 1970; 0 if unknown.
    pub(crate) created_ms: u64,
    pub(crate) point: Point<'a>,
}

/// Receives every family and its series, families in order of their names.
pub trait SeriesVisitor {
    /// Returns what the visitor reads beside values.
    fn wants(&self) -> Wants {
        Wants::default()
    }

    /// Begins a family; its series follow, at least one.
    fn family(&mut self, spec: &Spec);

    /// Receives a series of the family begun last.
    fn series(&mut self, reading: &Reading<'_>);

    /// Receives neighbouring series of the family begun last that show a number each, if it wants numbers: what precedes the
    /// number in each series' line, and the number, `None` where none is shown.
    fn numbers(&mut self, _lines: &Texts, _values: &[Option<f64>]) {}
}

/// What a [`SeriesVisitor`] reads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wants {
    /// Exemplars: what is shown may be replaced by the next sampled observation.
    pub(crate) exemplars: bool,
    /// Labels as lines have them.
    pub(crate) lines: bool,
    /// Labels as messages have them.
    pub(crate) messages: bool,
    /// Numbers, where a series shows nothing else.
    pub(crate) numbers: bool,
}
