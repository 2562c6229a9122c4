//! Errors as the API reports them.
//!
//! **Invariant:** every `errorType` has the status code that Prometheus sends for it.

use http::StatusCode;
use narthex_model::storage::{OverBudget, StopReason, StorageError};
use narthex_promql::{ErrorKind, QueryError};

/// A failed call.
#[derive(Debug)]
pub(crate) struct ApiError {
    pub(crate) kind: ErrorType,
    pub(crate) message: String,
}

/// The API's `errorType`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ErrorType {
    BadData,
    Execution,
    CostLimit,
    Timeout,
    Canceled,
    Internal,
    Unavailable,
    /// Too many calls at once: the same call may succeed later.
    Busy,
    /// A request that exceeds a limit.
    TooLarge,
}

impl ErrorType {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::BadData | Self::TooLarge => "bad_data",
            Self::Execution => "execution",
            Self::CostLimit => "cost_limit",
            Self::Timeout => "timeout",
            Self::Canceled => "canceled",
            Self::Internal => "internal",
            Self::Unavailable | Self::Busy => "unavailable",
        }
    }

    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::BadData => StatusCode::BAD_REQUEST,
            Self::Execution | Self::CostLimit => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Timeout | Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            // nginx' code for a client that closed the request; Prometheus uses it too.
            Self::Canceled => StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST),
            Self::Internal | Self::Unavailable => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl ApiError {
    pub(crate) fn new(kind: ErrorType, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { kind, message }
    }

    pub(crate) fn bad_data(message: impl Into<String>) -> Self {
        Self::new(ErrorType::BadData, message)
    }

    /// Returns an error about one parameter, in Prometheus' words.
    pub(crate) fn parameter(name: &str, message: impl std::fmt::Display) -> Self {
        Self::bad_data(format!("invalid parameter \"{name}\": {message}"))
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorType::Internal, message)
    }
}

impl From<QueryError> for ApiError {
    fn from(error: QueryError) -> Self {
        let kind = match error.kind() {
            ErrorKind::BadData => ErrorType::BadData,
            ErrorKind::Execution => ErrorType::Execution,
            ErrorKind::CostLimit => ErrorType::CostLimit,
            ErrorKind::Timeout => ErrorType::Timeout,
            ErrorKind::Canceled => ErrorType::Canceled,
            ErrorKind::Internal => ErrorType::Internal,
        };
        if kind == ErrorType::BadData {
            return Self::parameter("query", error);
        }
        Self::new(kind, error.to_string())
    }
}

impl From<OverBudget> for ApiError {
    fn from(over: OverBudget) -> Self {
        StorageError::from(over).into()
    }
}

impl From<StopReason> for ApiError {
    fn from(reason: StopReason) -> Self {
        StorageError::from(reason).into()
    }
}

impl From<StorageError> for ApiError {
    fn from(error: StorageError) -> Self {
        let kind = match &error {
            StorageError::OverBudget(_) => ErrorType::Execution,
            StorageError::Stopped(StopReason::TimedOut) => ErrorType::Timeout,
            StorageError::Stopped(StopReason::Canceled) => ErrorType::Canceled,
            StorageError::Stopped(_) => ErrorType::Unavailable,
            _ => ErrorType::Internal,
        };
        Self::new(kind, error.to_string())
    }
}
