//! The crate's only error type.
//!
//! **Invariant:** every variant names the file or directory concerned, so one log line is enough to act on.

use crate::io::is_exhausted;
use narthex_model::storage::StorageError;
use std::{error::Error, fmt, io, path::PathBuf};

/// Reason a database cannot be opened, written or closed.
#[derive(Debug)]
#[non_exhaustive]
pub enum TsdbError {
    /// Another process has the data directory open.
    Locked {
        /// The data directory.
        path: PathBuf,
    },
    /// The operating system refused.
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Attempted operation, as a verb: `open`, `write`, `fsync`.
        operation: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// Bytes on disk are not the ones written, in a file without which nothing can be served.
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Offset in the file, bytes.
        offset: u64,
        /// The defect.
        detail: String,
    },
    /// A file was written by a newer release.
    Version {
        /// The file.
        path: PathBuf,
        /// Version found.
        got: u32,
        /// Newest version this release reads.
        expected: u32,
    },
    /// One operation failed; everything else goes on.
    Internal {
        /// Attempted operation, as a verb and its object: `encode a row`.
        operation: &'static str,
        /// Cause of the failure.
        cause: String,
    },
    /// An earlier failure makes writing unsafe until a restart.
    Poisoned {
        /// The failure.
        cause: String,
    },
}

impl fmt::Display for TsdbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked { path } => write!(
                f,
                "data directory {} is in use by another process",
                path.display()
            ),
            Self::Io {
                path,
                operation,
                source,
            } => write!(f, "{operation} {}: {source}", path.display()),
            Self::Corrupt {
                path,
                offset,
                detail,
            } => {
                write!(
                    f,
                    "{} is corrupt at byte {offset}: {detail}",
                    path.display()
                )
            }
            Self::Version {
                path,
                got,
                expected,
            } => write!(
                f,
                "{} has format version {got}, this release reads up to {expected}",
                path.display()
            ),
            Self::Internal { operation, cause } => write!(f, "cannot {operation}: {cause}"),
            Self::Poisoned { cause } => write!(f, "storage stopped accepting writes: {cause}"),
        }
    }
}

impl Error for TsdbError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<TsdbError> for StorageError {
    fn from(error: TsdbError) -> Self {
        match error {
            TsdbError::Io {
                path,
                operation,
                source,
            } => Self::Io {
                path,
                operation,
                source,
            },
            TsdbError::Corrupt {
                path,
                offset,
                detail,
            } => Self::Corrupt {
                path,
                offset,
                detail,
            },
            TsdbError::Poisoned { cause } => Self::Poisoned { cause },
            TsdbError::Internal { operation, cause } => Self::Internal { operation, cause },
            other @ (TsdbError::Locked { .. } | TsdbError::Version { .. }) => Self::Internal {
                operation: "use the data directory",
                cause: other.to_string(),
            },
        }
    }
}

impl Damage {
    /// Converts an error that allows the rest to be served into its damage; returns any other error.
    pub(crate) fn from_error(error: StorageError) -> Result<Self, StorageError> {
        match error {
            StorageError::Corrupt {
                path,
                offset,
                detail,
            } => Ok(Self {
                path,
                offset,
                detail,
            }),
            other => Err(other),
        }
    }

    /// Converts an error that allows the rest to be served for now: damage, and failed reads.
    pub(crate) fn from_unreadable(error: StorageError) -> Result<Self, StorageError> {
        match error {
            StorageError::Io {
                path,
                operation,
                source,
            } if !is_exhausted(&source) => Ok(Self {
                path,
                offset: 0,
                detail: format!("{operation}: {source}"),
            }),
            other => Self::from_error(other),
        }
    }
}

/// Wraps a system error with the path and the verb.
pub(crate) fn io_error(
    path: impl Into<PathBuf>,
    operation: &'static str,
) -> impl FnOnce(io::Error) -> TsdbError {
    let path = path.into();
    move |source| TsdbError::Io {
        path,
        operation,
        source,
    }
}

/// Damage that was found and skipped: everything else is served.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// The defect and what was lost.
    pub detail: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is damaged at byte {}: {}",
            self.path.display(),
            self.offset,
            self.detail
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_says_where() {
        let path = PathBuf::from("/data/wal/00000001");
        let all = [
            TsdbError::Locked { path: path.clone() },
            TsdbError::Io {
                path: path.clone(),
                operation: "write",
                source: io::Error::other("no"),
            },
            TsdbError::Corrupt {
                path: path.clone(),
                offset: 7,
                detail: "bad magic".into(),
            },
            TsdbError::Version {
                path,
                got: 9,
                expected: 1,
            },
        ];
        for error in all {
            let text = error.to_string();
            assert!(text.contains("/data/wal/00000001"), "{text}");
            let error = StorageError::from(error);
            assert!(error.to_string().contains(&text), "{error}");
            assert!(
                !matches!(error, StorageError::Poisoned { .. }),
                "nothing is poisoned: {error}"
            );
        }
        let internal = TsdbError::Internal {
            operation: "encode a row",
            cause: "too many columns".into(),
        };
        assert_eq!(
            internal.to_string(),
            "cannot encode a row: too many columns"
        );
        assert_eq!(
            StorageError::from(internal).to_string(),
            "cannot encode a row: too many columns"
        );
        let poisoned = TsdbError::Poisoned {
            cause: "fsync failed".into(),
        };
        assert_eq!(
            poisoned.to_string(),
            "storage stopped accepting writes: fsync failed"
        );
    }
}
