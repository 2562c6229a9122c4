//! What can go wrong between a store and its callers.

use super::{OverBudget, StopReason};
use std::{error::Error, fmt, path::PathBuf};

/// A read or write that a store refused or could not do.
#[derive(Debug)]
#[non_exhaustive]
pub enum StorageError {
    /// The work needs more memory than its budget allows.
    OverBudget(OverBudget),
    /// The work was asked to end.
    Stopped(StopReason),
    /// Bytes on disk are not what was written.
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where in the file, in bytes.
        offset: u64,
        /// What is wrong there.
        detail: String,
    },
    /// The operating system refused.
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was attempted, as a verb: `open`, `write`, `fsync`.
        operation: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// An earlier failure makes writing unsafe until a restart.
    Poisoned {
        /// The failure.
        cause: String,
    },
    /// The store failed at this one piece of work; it goes on with all other.
    Internal {
        /// What was attempted, as a verb and its object: `encode a row`.
        operation: &'static str,
        /// Why it failed.
        cause: String,
    },
    /// The store does not do that.
    Unsupported {
        /// What was asked.
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
