//! Errors of requests.

use http::StatusCode;
use std::fmt;

/// Reason for refusing a request, in the Pushgateway's words where it has them.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum PushError {
    /// The path does not name a group.
    Path {
        /// Description of the error.
        detail: String,
    },
    /// The body is malformed.
    Body {
        /// Line of a text, from 1.
        line: Option<usize>,
        /// Description of the error.
        detail: String,
    },
    /// The metrics contradict each other or those of other groups, or carry timestamps.
    Inconsistent {
        /// Description of the contradiction.
        detail: String,
    },
    /// The body exceeds the limit.
    TooLarge {
        /// The limit in bytes.
        limit_bytes: usize,
    },
    /// The body did not arrive in time.
    Slow {
        /// Time waited, in seconds.
        waited_seconds: u64,
    },
    /// Too many requests are being worked on, or too many bytes are being read.
    Busy {
        /// Which limit is exceeded.
        detail: String,
    },
    /// The sink refuses samples; nothing was stored.
    Storage {
        /// Description of the failure.
        detail: String,
    },
    /// The journal could not be written; nothing was stored.
    Journal {
        /// Description of the failure.
        detail: String,
    },
}

impl PushError {
    /// Refuses a body; `line` is the line of a text, from 1.
    pub(crate) fn body(line: impl Into<Option<usize>>, detail: impl Into<String>) -> Self {
        Self::Body {
            line: line.into(),
            detail: detail.into(),
        }
    }

    /// Refuses for want of room.
    pub(crate) fn busy(limit: impl fmt::Display) -> Self {
        Self::Busy {
            detail: limit.to_string(),
        }
    }

    /// Returns the status of the response.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Path { .. } | Self::Body { .. } | Self::Inconsistent { .. } => {
                StatusCode::BAD_REQUEST
            }
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Slow { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::Busy { .. } | Self::Storage { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::Journal { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl fmt::Display for PushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path { detail } | Self::Body { line: None, detail } => f.write_str(detail),
            Self::Body {
                line: Some(line),
                detail,
            } => write!(f, "text format parsing error in line {line}: {detail}"),
            Self::Inconsistent { detail } => write!(
                f,
                "pushed metrics are invalid or inconsistent with existing metrics: {detail}"
            ),
            Self::TooLarge { limit_bytes } => {
                write!(f, "the body is longer than {limit_bytes} bytes")
            }
            Self::Slow { waited_seconds } => {
                write!(f, "the body did not arrive within {waited_seconds} s")
            }
            Self::Busy { detail } => write!(f, "the gateway is busy: {detail}"),
            Self::Storage { detail } => write!(f, "the samples cannot be stored: {detail}"),
            Self::Journal { detail } => write!(f, "the journal cannot be written: {detail}"),
        }
    }
}

impl std::error::Error for PushError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_reads_well_and_has_its_status() {
        let detail = || "d".to_owned();
        for (error, status, text) in [
            (PushError::Path { detail: detail() }, 400, "d"),
            (
                PushError::Body {
                    line: None,
                    detail: detail(),
                },
                400,
                "d",
            ),
            (
                PushError::Body {
                    line: Some(7),
                    detail: detail(),
                },
                400,
                "text format parsing error in line 7: d",
            ),
            (
                PushError::Inconsistent { detail: detail() },
                400,
                "pushed metrics are invalid or inconsistent with existing metrics: d",
            ),
            (
                PushError::TooLarge { limit_bytes: 7 },
                413,
                "the body is longer than 7 bytes",
            ),
            (
                PushError::Slow { waited_seconds: 7 },
                408,
                "the body did not arrive within 7 s",
            ),
            (
                PushError::Busy { detail: detail() },
                503,
                "the gateway is busy: d",
            ),
            (
                PushError::Storage { detail: detail() },
                503,
                "the samples cannot be stored: d",
            ),
            (
                PushError::Journal { detail: detail() },
                500,
                "the journal cannot be written: d",
            ),
        ] {
            assert_eq!(
                (error.status().as_u16(), error.to_string().as_str()),
                (status, text)
            );
        }
    }
}
