//! Errors of a store.

use super::{OverBudget, StopReason};
use std::{error::Error, fmt, path::PathBuf};

/// An error from a store's read or write.
#[derive(Debug)]
#[non_exhaustive]
pub enum StorageError {
    /// The operation needs more memory than its budget allows.
    OverBudget(OverBudget),
    /// The work was asked to end.
    Stopped(StopReason),
    /// Bytes on disk differ from what was written.
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Offset in the file, in bytes.
        offset: u64,
        /// Description of the damage.
        detail: String,
    },
    /// The operating system reported an error.
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Operation attempted, as a verb: `open`, `write`, `fsync`.
        operation: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// An earlier failure makes writing unsafe until a restart.
    Poisoned {
        /// The failure.
        cause: String,
    },
    /// One operation failed; the store keeps working.
    Internal {
        /// Operation attempted, as a verb and its object: `encode a row`.
        operation: &'static str,
        /// Why it failed.
        cause: String,
    },
    /// The store does not support the operation.
    Unsupported {
        /// The operation.
        what: &'static str,
    },
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OverBudget(over) => over.fmt(f),
            Self::Stopped(reason) => reason.fmt(f),
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
            Self::Io {
                path,
                operation,
                source,
            } => write!(f, "{operation} {}: {source}", path.display()),
            Self::Poisoned { cause } => write!(f, "storage stopped accepting writes: {cause}"),
            Self::Internal { operation, cause } => write!(f, "cannot {operation}: {cause}"),
            Self::Unsupported { what } => write!(f, "{what} is not supported by this store"),
        }
    }
}

impl Error for StorageError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::OverBudget(over) => Some(over),
            Self::Stopped(reason) => Some(reason),
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<OverBudget> for StorageError {
    fn from(over: OverBudget) -> Self {
        Self::OverBudget(over)
    }
}

impl From<StopReason> for StorageError {
    fn from(reason: StopReason) -> Self {
        Self::Stopped(reason)
    }
}
