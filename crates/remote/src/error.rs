//! Errors of requests that were not stored, or not entirely.

use http::StatusCode;
use narthex_model::storage::{OverBudget, StorageError};
use std::{error::Error, fmt, time::Duration};

/// A request that was rejected as a whole or in part; its text is sent to the sender.
#[derive(Debug)]
#[non_exhaustive]
pub enum RemoteError {
    /// The media type, or the message it names, is not accepted.
    ContentType {
        /// The reason, in Prometheus' words.
        detail: String,
    },
    /// The compression is not supported.
    Encoding {
        /// Value of the header.
        encoding: String,
    },
    /// The body is longer than the limit.
    TooLarge {
        /// The limit.
        limit_bytes: usize,
    },
    /// The decompressed body would be longer than the limit.
    Expands {
        /// The limit.
        limit_bytes: usize,
    },
    /// The body is not snappy.
    Snappy,
    /// The connection broke before the body's end.
    Body {
        /// The cause.
        detail: String,
    },
    /// The decompressed body is malformed.
    Malformed {
        /// The cause.
        detail: String,
    },
    /// The request does not continue its session, or the session is not known; its sender begins another one.
    Session {
        /// The reason.
        detail: String,
    },
    /// Some samples were rejected; the others are stored.
    Refused {
        /// The reasons, one per line.
        detail: String,
    },
    /// Other bodies being read use all of their memory.
    Busy {
        /// How long the request waited.
        waited: Duration,
    },
    /// Decoding or storing panicked: the request is not at fault.
    Panicked,
    /// There is currently no memory for the request.
    Memory(OverBudget),
    /// The store rejects writes.
    Storage(StorageError),
}

impl RemoteError {
    /// Returns the status, from which the sender decides whether to retry.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::ContentType { .. } | Self::Encoding { .. } => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Session { .. } => StatusCode::CONFLICT,
            Self::Expands { .. }
            | Self::Snappy
            | Self::Body { .. }
            | Self::Malformed { .. }
            | Self::Refused { .. } => StatusCode::BAD_REQUEST,
            Self::Busy { .. } | Self::Memory(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Panicked | Self::Storage(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ContentType { detail }
            | Self::Body { detail }
            | Self::Malformed { detail }
            | Self::Refused { detail } => f.write_str(detail),
            Self::Encoding { encoding } => write!(
                f,
                "{encoding} encoding (compression) is not accepted by this server; only snappy is acceptable"
            ),
            Self::TooLarge { limit_bytes } => {
                write!(f, "request body exceeds the {limit_bytes} bytes limit")
            }
            Self::Expands { limit_bytes } => {
                write!(f, "decoded size exceeds the {limit_bytes} bytes limit")
            }
            Self::Session { detail } => write!(f, "begin another session: {detail}"),
            Self::Busy { waited } => write!(
                f,
                "no memory for the request's body within {waited:?}: other requests are being read"
            ),
            Self::Panicked => f.write_str("internal error"),
            Self::Snappy => f.write_str("snappy: corrupt input"),
            Self::Memory(over) => over.fmt(f),
            Self::Storage(error) => error.fmt(f),
        }
    }
}

impl Error for RemoteError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Memory(over) => Some(over),
            Self::Storage(error) => Some(error),
            _ => None,
        }
    }
}

impl From<StorageError> for RemoteError {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::OverBudget(over) => Self::Memory(over),
            error => Self::Storage(error),
        }
    }
}

impl From<OverBudget> for RemoteError {
    fn from(over: OverBudget) -> Self {
        Self::Memory(over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_model::storage::Budget;

    #[test]
    fn texts_and_statuses() {
        let detail = || "why".to_owned();
        let storage = StorageError::Unsupported { what: "that" };
        let over = Budget::new("all", 7).lease(8).unwrap_err();
        let shown: Vec<String> = [
            RemoteError::ContentType { detail: detail() },
            RemoteError::Encoding {
                encoding: "gzip".to_owned(),
            },
            RemoteError::TooLarge { limit_bytes: 7 },
            RemoteError::Expands { limit_bytes: 8 },
            RemoteError::Snappy,
            RemoteError::Body { detail: detail() },
            RemoteError::Malformed { detail: detail() },
            RemoteError::Session { detail: detail() },
            RemoteError::Refused { detail: detail() },
            RemoteError::Busy {
                waited: Duration::from_secs(10),
            },
            RemoteError::Panicked,
            RemoteError::Memory(over),
            RemoteError::Storage(storage),
        ]
        .iter()
        .map(|error| format!("{} {error}", error.status().as_u16()))
        .collect();
        assert_eq!(
            shown,
            [
                "415 why",
                "415 gzip encoding (compression) is not accepted by this server; only snappy is acceptable",
                "413 request body exceeds the 7 bytes limit",
                "400 decoded size exceeds the 8 bytes limit",
                "400 snappy: corrupt input",
                "400 why",
                "400 why",
                "409 begin another session: why",
                "400 why",
                "503 no memory for the request's body within 10s: other requests are being read",
                "500 internal error",
                "503 memory budget of all exceeded: 0 of 7 bytes in use, 8 more needed",
                "500 that is not supported by this store",
            ]
        );
    }
}
