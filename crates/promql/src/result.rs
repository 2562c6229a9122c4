//! Query results.
//!
//! **Invariant:** the label sets of a vector or matrix are distinct; a matrix is sorted by labels, its points by time.

use crate::{eval::Hold, trace::Trace};
use narthex_model::{Histogram, LabelSet, storage::Lease};
use std::sync::Arc;

/// A query's value with its notes and statistics.
#[derive(Debug)]
pub struct QueryResult {
    /// The value.
    pub value: Value,
    /// Reasons why the value may be wrong.
    pub warnings: Vec<String>,
    /// Reasons why the query may be wrong.
    pub infos: Vec<String>,
    /// Statistics of the evaluation.
    pub stats: QueryStats,
    /// Where the time went, if the query asked for it.
    pub trace: Option<Trace>,
    /// The memory of `value`; keep it as long as the value.
    pub held: ResultMemory,
}

/// Memory of a result, given back on drop.
#[derive(Debug, Default)]
pub struct ResultMemory {
    hold: Hold,
    /// Of steps that were not evaluated.
    reused: Option<Lease>,
}

impl ResultMemory {
    /// Returns the memory of a result whose query has ended.
    pub(crate) fn new(hold: Hold) -> Self {
        hold.trim();
        Self { hold, reused: None }
    }

    /// Adds the memory of steps that were not evaluated.
    pub(crate) fn add(&mut self, reused: Option<Lease>) {
        self.reused = reused;
    }

    /// Returns the number of bytes held.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.hold.bytes() + self.reused.as_ref().map_or(0, Lease::bytes)
    }
}

/// Statistics of an evaluation.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct QueryStats {
    /// Most samples held at once.
    pub peak_samples: u64,
    /// Samples read from the store.
    pub samples_read: u64,
    /// Series found by all selectors together.
    pub series: u64,
    /// Samples by step, if the query asked for them.
    pub steps: Option<StepSamples>,
    /// Steps that an earlier evaluation had; samples are counted for the others.
    pub reused_steps: u64,
}

/// Samples that the steps of a query use, as Prometheus counts them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct StepSamples {
    /// Time of the first step, in milliseconds since the epoch.
    pub start_ms: i64,
    /// Time between steps, in milliseconds.
    pub step_ms: i64,
    /// Samples used by each step, as if it were a query of its own.
    pub used: Vec<u64>,
    /// Samples of each step that no step before it has read.
    pub read: Vec<u64>,
}

/// A query's value.
#[derive(Clone, Debug)]
pub enum Value {
    /// One number.
    Scalar {
        /// The evaluation time.
        time_ms: i64,
        /// The number.
        value: f64,
    },
    /// One string.
    String {
        /// The evaluation time.
        time_ms: i64,
        /// The text.
        text: String,
    },
    /// Series with one sample each.
    Vector(Vec<VectorSample>),
    /// Series with many samples each.
    Matrix(Vec<MatrixSeries>),
}

impl Value {
    /// Returns the API's `resultType`.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Scalar { .. } => "scalar",
            Self::String { .. } => "string",
            Self::Vector(_) => "vector",
            Self::Matrix(_) => "matrix",
        }
    }
}

/// One sample of a series.
#[derive(Clone, Debug)]
pub struct VectorSample {
    /// The series.
    pub labels: LabelSet,
    /// The sample's time.
    pub time_ms: i64,
    /// The sample.
    pub value: SampleValue,
}

/// A sample.
#[derive(Clone, Debug)]
pub enum SampleValue {
    /// A number.
    Float(f64),
    /// A native histogram.
    Histogram(Arc<Histogram>),
}

/// The samples of one series.
#[derive(Clone, Debug)]
pub struct MatrixSeries {
    /// The series.
    pub labels: LabelSet,
    /// The float samples, by time.
    pub floats: Vec<(i64, f64)>,
    /// The native histograms, by time.
    pub histograms: Vec<(i64, Arc<Histogram>)>,
}

impl MatrixSeries {
    /// Returns the memory of the series in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        let points = size_of_val(&*self.floats) + size_of_val(&*self.histograms);
        let histograms = self.histograms.iter().map(|(_, h)| h.heap_bytes());
        2 * size_of::<Self>() + self.labels.heap_bytes() + points + histograms.sum::<usize>()
    }
}
