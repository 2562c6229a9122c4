//! Query errors.
//!
//! **Invariant:** every error has the kind under which the HTTP API reports it, and Prometheus' text where it has
//! one.

use crate::parse::ParseError;
use narthex_model::{
    CompileError,
    storage::{OverBudget, StopReason, StorageError},
};
use std::{error::Error, fmt};

/// A failed query.
#[derive(Debug)]
#[non_exhaustive]
pub enum QueryError {
    /// The text is not a valid query.
    Parse(ParseError),
    /// The query makes no sense, for example a range of zero.
    Invalid(String),
    /// The data does not allow the operation.
    Execution(String),
    /// The query holds more samples at once than allowed.
    TooManySamples {
        /// The limit.
        limit: u64,
    },
    /// The query reads more series than allowed.
    TooManySeries {
        /// The limit.
        limit: u64,
    },
    /// The query reads more samples than allowed.
    TooManySamplesRead {
        /// The limit.
        limit: u64,
    },
    /// A label of a result is longer than allowed.
    LabelTooLong {
        /// The label's name.
        name: String,
        /// The length of the label's value.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The query needs more memory than allowed.
    OverBudget(OverBudget),
    /// The query timed out.
    TimedOut,
    /// The client is gone, or the process is shutting down.
    Canceled,
    /// The query takes longer than it may where it runs; it begins anew elsewhere.
    Moved,
    /// The store could not be read.
    Storage(StorageError),
}

narthex_model::named! {
    /// The HTTP API's class of an error.
    #[derive(Clone, Copy, Debug, Eq, PartialEq)]
    #[expect(missing_docs, reason = "each is the `errorType` behind it")]
    pub enum ErrorKind {
        BadData = "bad_data",
        Execution = "execution",
        CostLimit = "cost_limit",
        Timeout = "timeout",
        Canceled = "canceled",
        Internal = "internal",
    }
}

impl QueryError {
    /// Returns the error's class in the API.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Parse(_) | Self::Invalid(_) => ErrorKind::BadData,
            Self::Execution(_)
            | Self::TooManySamples { .. }
            | Self::LabelTooLong { .. }
            | Self::OverBudget(_) => ErrorKind::Execution,
            Self::TooManySeries { .. } | Self::TooManySamplesRead { .. } => ErrorKind::CostLimit,
            Self::TimedOut => ErrorKind::Timeout,
            Self::Canceled | Self::Moved => ErrorKind::Canceled,
            Self::Storage(_) => ErrorKind::Internal,
        }
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parse(e) => e.fmt(f),
            Self::Invalid(text) | Self::Execution(text) => f.write_str(text),
            Self::TooManySamples { .. } => f.write_str(
                "query processing would load too many samples into memory in query execution",
            ),
            Self::TooManySeries { .. } => {
                f.write_str("query would load too many series into memory in query execution")
            }
            Self::TooManySamplesRead { .. } => {
                f.write_str("query would read too many samples in query execution")
            }
            Self::LabelTooLong { name, bytes, limit } => write!(
                f,
                "label {} would have a value of {bytes} bytes, more than the limit of {limit}",
                crate::fmt::quote(name)
            ),
            Self::OverBudget(e) => write!(f, "query needs too much memory: {e}"),
            Self::TimedOut => f.write_str("query timed out in expression evaluation"),
            Self::Canceled => f.write_str("query was canceled in expression evaluation"),
            Self::Moved => f.write_str("query was begun anew elsewhere"),
            Self::Storage(e) => write!(f, "expanding series: {e}"),
        }
    }
}

impl Error for QueryError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Parse(e) => Some(e),
            Self::OverBudget(e) => Some(e),
            Self::Storage(e) => Some(e),
            _ => None,
        }
    }
}

impl From<ParseError> for QueryError {
    fn from(error: ParseError) -> Self {
        Self::Parse(error)
    }
}

impl From<StopReason> for QueryError {
    fn from(reason: StopReason) -> Self {
        match reason {
            StopReason::TimedOut => Self::TimedOut,
            StopReason::Moved => Self::Moved,
            _ => Self::Canceled,
        }
    }
}

impl From<OverBudget> for QueryError {
    fn from(over: OverBudget) -> Self {
        Self::OverBudget(over)
    }
}

impl From<CompileError> for QueryError {
    fn from(error: CompileError) -> Self {
        match error {
            CompileError::OverBudget(over) => Self::OverBudget(over),
            CompileError::Stopped(reason) => reason.into(),
            other => Self::Execution(other.to_string()),
        }
    }
}

impl From<StorageError> for QueryError {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::OverBudget(over) => Self::OverBudget(over),
            StorageError::Stopped(reason) => reason.into(),
            other => Self::Storage(other),
        }
    }
}
