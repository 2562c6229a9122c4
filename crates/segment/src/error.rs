//! Errors of reading a segment.

use std::{error::Error, fmt, io};

/// Reasons why a segment, or a part of it, was not read.
#[derive(Debug)]
#[non_exhaustive]
pub enum SegmentError {
    /// The kernel refused to read or write.
    Io(io::Error),
    /// The file is shorter than its header says.
    Truncated {
        /// Bytes that were expected.
        expected: u64,
    },
    /// The header is not one of this version.
    Header {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A record is malformed; those before it were read.
    Record {
        /// Offset in the area of records.
        offset: u64,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A metric differs from one of the same application that is in use.
    Conflict {
        /// Name of the metric.
        metric: String,
    },
    /// A limit was reached.
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// The segments of one user take more than they may.
    User {
        /// The user who owns the file.
        uid: u32,
        /// The limit in bytes.
        limit: u64,
    },
    /// Two files have the same identity.
    Duplicate,
    /// Another process reads the directory.
    InUse,
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Truncated { expected } => write!(f, "shorter than {expected} bytes"),
            Self::Header { reason } => write!(f, "header: {reason}"),
            Self::Record { offset, reason } => write!(f, "record at {offset}: {reason}"),
            Self::Conflict { metric } => {
                write!(
                    f,
                    "metric {metric:?} differs from one of the same application"
                )
            }
            Self::TooMany { what, limit } => write!(f, "more than {limit} {what}"),
            Self::User { uid, limit } => {
                write!(f, "the segments of user {uid} use more than {limit} bytes")
            }
            Self::Duplicate => f.write_str("a copy of another segment"),
            Self::InUse => f.write_str("another process reads this directory"),
        }
    }
}

impl Error for SegmentError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for SegmentError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_is_a_sentence() {
        let errors = [
            SegmentError::Io(io::Error::other("broken")),
            SegmentError::Truncated { expected: 9 },
            SegmentError::Header { reason: "magic" },
            SegmentError::Record {
                offset: 8,
                reason: "checksum",
            },
            SegmentError::Conflict {
                metric: "a".to_owned(),
            },
            SegmentError::TooMany {
                what: "series",
                limit: 3,
            },
            SegmentError::User { uid: 7, limit: 9 },
            SegmentError::Duplicate,
            SegmentError::InUse,
        ];
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "broken",
                "shorter than 9 bytes",
                "header: magic",
                "record at 8: checksum",
                "metric \"a\" differs from one of the same application",
                "more than 3 series",
                "the segments of user 7 use more than 9 bytes",
                "a copy of another segment",
                "another process reads this directory",
            ]
        );
    }
}
