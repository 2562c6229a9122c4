//! Errors of registering a metric.
//!
//! **Invariant:** each error names the metric or file concerned.

use std::error;
use std::fmt;
use std::io;

/// Reason that a metric was rejected. Nothing of it is registered then.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// The name is not `[a-zA-Z_:][a-zA-Z0-9_:]*`.
    InvalidName {
        /// The metric's name.
        name: String,
    },
    /// A label name cannot be used with this metric.
    InvalidLabel {
        /// The metric's name.
        metric: String,
        /// The label's name.
        label: String,
        /// Why it cannot be used.
        reason: &'static str,
    },
    /// Another metric already exposes a name that this one would expose.
    Duplicate {
        /// The metric's name.
        metric: String,
        /// The name both expose: the metric's own, or one with `_bucket`, `_sum` or `_count`.
        exposed: String,
    },
    /// A histogram's bounds do not ascend strictly, or one is not finite.
    InvalidBound {
        /// The metric's name.
        metric: String,
        /// Index of the offending bound.
        index: usize,
        /// The offending bound.
        bound: f64,
    },
    /// A summary's quantiles do not ascend strictly, or one is outside 0 to 1.
    InvalidQuantile {
        /// The metric's name.
        metric: String,
        /// The offending quantile.
        quantile: f64,
    },
    /// A `/proc` file that a metric is read from cannot be read.
    Unreadable {
        /// The file.
        path: String,
        /// The kernel's error.
        kind: io::ErrorKind,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidName { name } => {
                write!(
                    f,
                    "{name:?} is no metric name: want [a-zA-Z_:][a-zA-Z0-9_:]*"
                )
            }
            Self::InvalidLabel {
                metric,
                label,
                reason,
            } => write!(f, "metric {metric}: label {label:?} {reason}"),
            Self::Duplicate { metric, exposed } if metric == exposed => {
                write!(f, "metric {metric} is already registered")
            }
            Self::Duplicate { metric, exposed } => {
                write!(
                    f,
                    "metric {metric}: {exposed} is already exposed by another metric"
                )
            }
            Self::InvalidBound {
                metric,
                index,
                bound,
            } => write!(
                f,
                "metric {metric}: bound {bound} at position {index} is not finite or not above the one before"
            ),
            Self::InvalidQuantile { metric, quantile } => write!(
                f,
                "metric {metric}: quantile {quantile} is outside 0 to 1 or not above the one before"
            ),
            Self::Unreadable { path, kind } => write!(f, "read {path}: {kind}"),
        }
    }
}

impl error::Error for Error {}
