//! What a query answers.
//!
//! **Invariant:** the label sets of a vector or matrix are distinct; a matrix is sorted by labels, its points by time.

use crate::eval::Hold;
use narthex_model::{Histogram, LabelSet};
use std::sync::Arc;

/// A query's answer with what there is to say about it.
#[derive(Debug)]
pub struct QueryResult {
    /// The answer.
    pub value: Value,
    /// What may make the answer wrong.
    pub warnings: Vec<String>,
    /// What may make the question wrong.
    pub infos: Vec<String>,
    /// What it took.
    pub stats: QueryStats,
    /// The memory of `value`: to be kept for as long as that is.
    pub held: Held,
}

/// Memory that an answer takes, given back when this is dropped.
#[derive(Debug, Default)]
pub struct Held {
    hold: Hold,
}

impl Held {
    pub(crate) fn new(hold: Hold) -> Self {
        Self { hold }
    }

    /// Returns how much it is.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.hold.bytes()
    }
}

/// What evaluating a query took.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct QueryStats {
    /// The most samples held at once.
    pub peak_samples: u64,
    /// Samples read from the store.
    pub samples_read: u64,
}

/// An answer.
#[derive(Clone, Debug)]
pub enum Value {
    /// One number.
    Scalar {
        /// When.
        time_ms: i64,
        /// The number.
        value: f64,
    },
    /// One text.
    String {
        /// When.
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

/// One series' sample.
#[derive(Clone, Debug)]
pub struct VectorSample {
    /// The series.
    pub labels: LabelSet,
    /// When.
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

/// One series' samples.
#[derive(Clone, Debug)]
pub struct MatrixSeries {
    /// The series.
    pub labels: LabelSet,
    /// Its numbers.
    pub floats: Vec<(i64, f64)>,
    /// Its native histograms.
    pub histograms: Vec<(i64, Arc<Histogram>)>,
}
