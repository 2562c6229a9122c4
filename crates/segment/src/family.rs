//! Metrics of a segment: name, type and the cells that a series of it has.

use crate::quantile::Buckets;
use narthex_model::MetricType;

/// Types of metrics in a segment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum MetricKind {
    /// A float that only grows.
    Counter,
    /// A whole number that only grows.
    WholeCounter,
    /// A float that is set.
    Gauge,
    /// Counts of observations in buckets.
    Histogram,
    /// Counts of observations in many small buckets, from which quantiles are computed.
    Summary,
}

impl MetricKind {
    /// Returns the type that queries know it by.
    #[must_use]
    pub fn metric_type(self) -> MetricType {
        match self {
            Self::Counter | Self::WholeCounter => MetricType::Counter,
            Self::Gauge => MetricType::Gauge,
            Self::Histogram => MetricType::Histogram,
            Self::Summary => MetricType::Summary,
        }
    }
}

/// How the gauges of several workers become one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum GaugeMerge {
    Sum = 0,
    Least = 1,
    Greatest = 2,
    /// The one that was set last.
    Last = 3,
    /// None: each keeps its worker's label.
    Each = 4,
}

impl GaugeMerge {
    /// All of them, each at the place of its number in a record.
    pub(crate) const ALL: [Self; 5] = [
        Self::Sum,
        Self::Least,
        Self::Greatest,
        Self::Last,
        Self::Each,
    ];
}

/// What a series' cells mean.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    Counter,
    WholeCounter,
    Gauge(GaugeMerge),
    /// Ascending upper bounds; the last bucket has none.
    Histogram(Box<[f64]>),
    Summary(Box<SummaryShape>),
}

/// How a summary counts, and what is computed from it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SummaryShape {
    pub(crate) buckets: Buckets,
    pub(crate) quantiles: Box<[f64]>,
    /// How long an observation counts in the quantiles.
    pub(crate) max_age_ms: i64,
    /// In how many steps it ages.
    pub(crate) steps: u16,
}

/// Cells of a summary before its buckets: the sum, and the observations that are not numbers.
pub(crate) const SUMMARY_HEAD: usize = 2;

impl Shape {
    /// Returns the number of cells of a series.
    pub(crate) fn cells(&self) -> usize {
        match self {
            Self::Counter | Self::WholeCounter => 1,
            // The value and when it was set.
            Self::Gauge(_) => 2,
            // The sum, a bucket for each bound and one above.
            Self::Histogram(bounds) => bounds.len() + 2,
            Self::Summary(summary) => SUMMARY_HEAD + summary.buckets.len(),
        }
    }

    /// Returns the number of samples of a series.
    pub(crate) fn samples(&self) -> usize {
        match self {
            Self::Counter | Self::WholeCounter | Self::Gauge(_) => 1,
            Self::Histogram(bounds) => bounds.len() + 3,
            Self::Summary(summary) => summary.quantiles.len() + 2,
        }
    }

    pub(crate) fn is_gauge(&self) -> bool {
        matches!(self, Self::Gauge(_))
    }

    /// Reports whether a cell holds a float; the others hold whole numbers.
    pub(crate) fn is_float(&self, cell: usize) -> bool {
        match self {
            Self::WholeCounter => false,
            Self::Counter | Self::Gauge(_) | Self::Histogram(_) | Self::Summary(_) => cell == 0,
        }
    }

    pub(crate) fn kind(&self) -> MetricKind {
        match self {
            Self::Counter => MetricKind::Counter,
            Self::WholeCounter => MetricKind::WholeCounter,
            Self::Gauge(_) => MetricKind::Gauge,
            Self::Histogram(_) => MetricKind::Histogram,
            Self::Summary(_) => MetricKind::Summary,
        }
    }

    /// Returns the label that the samples of a series add, or nothing.
    pub(crate) fn own_label(&self) -> &'static str {
        match self {
            Self::Histogram(_) => "le",
            Self::Summary(_) => "quantile",
            Self::Counter | Self::WholeCounter | Self::Gauge(_) => "",
        }
    }
}

/// A metric as a record describes it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Family {
    pub(crate) name: Box<str>,
    pub(crate) unit: Box<str>,
    pub(crate) help: Box<str>,
    pub(crate) shape: Shape,
    /// After how long without an update a series is not shown; 0 for never. Summaries have an age of their own.
    pub(crate) idle_ms: u64,
}

impl Family {
    /// Returns the number of cells of a series: those of its shape, and when it was updated if that matters and its
    /// shape does not say it.
    pub(crate) fn cells(&self) -> usize {
        self.shape.cells() + usize::from(self.idle_ms > 0 && !self.shape.is_gauge())
    }

    /// Returns the cell that says when a series was updated, if that matters.
    pub(crate) fn time_cell(&self) -> Option<usize> {
        (self.idle_ms > 0).then(|| self.cells() - 1)
    }

    /// Returns every name under which its samples appear.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> + '_ {
        let suffixes: &[&str] = match self.shape {
            Shape::Histogram(_) => &["", "_bucket", "_sum", "_count"],
            Shape::Summary(_) => &["", "_sum", "_count"],
            Shape::Counter | Shape::WholeCounter | Shape::Gauge(_) => &[""],
        };
        suffixes
            .iter()
            .map(|suffix| format!("{}{suffix}", self.name))
    }
}
