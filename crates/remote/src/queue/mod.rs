//! A bounded queue on disk for one destination: rounds as frames, in files, with a durable cursor.
//!
//! A round is written once, as what changed since the round before, and read again to be sent: a destination that is
//! reached gets it from the kernel's cache. Bytes: docs/format/remote-queue.md.
//!
//! **Invariant:** when an append returns, the kernel has the round: `kill -9` loses nothing. What the queue gives up, it
//! gives up file by file, oldest first, and counts. A file is readable without any other.

mod bytes;
mod cursor;
mod decode;
mod dictionary;
mod disk;
mod files;
mod format;
mod pieces;
mod reader;
mod shape;
mod signal;
mod strip;
mod symbols;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use bytes::{Malformed, Reader, put_bytes};
pub(crate) use cursor::{CursorFile, MAX_SHARDS, PendingRange, Position};
pub(crate) use decode::{ExemplarRef, FileDecoder, Item, SeriesRef, Value, Visit};
pub(crate) use files::{Appended, Queue};
#[cfg(test)]
pub(crate) use format::kind;
pub(crate) use format::{crc32c, tag};
pub(crate) use reader::{QueueReader, Read};
pub(crate) use shape::Labelling;
pub(crate) use signal::Signal;
pub(crate) use strip::{
    Cells, Parts, SPARSE, SingleValue, is_set, put_columns, put_exemplar, put_starts, put_value,
};
pub(crate) use symbols::{FamilyRef, Symbols};
pub(crate) use writer::{QueueWriter, SampleWriter};

use std::{error::Error, fmt, io, path::PathBuf};

/// A failure of a queue's files.
#[derive(Debug)]
#[non_exhaustive]
pub enum QueueError {
    /// The operating system reported an error.
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Operation attempted, as a verb: `open`, `write`.
        operation: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The files are of a newer release.
    Newer {
        /// The file.
        path: PathBuf,
        /// Version of its format.
        version: u32,
    },
    /// A round cannot be written.
    Encode {
        /// The cause.
        detail: String,
    },
}

impl QueueError {
    pub(crate) fn io(
        path: impl Into<PathBuf>,
        operation: &'static str,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            path,
            operation,
            source,
        }
    }
}

impl fmt::Display for QueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io {
                path,
                operation,
                source,
            } => write!(f, "{operation} {}: {source}", path.display()),
            Self::Newer { path, version } => write!(
                f,
                "{} has version {version} of the format, which is of a newer release",
                path.display()
            ),
            Self::Encode { detail } => write!(f, "a round cannot be written: {detail}"),
        }
    }
}

impl Error for QueueError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Reads any bytes as a file of the queue and as a cursor, for fuzzing.
pub(crate) fn fuzz(bytes: &[u8]) {
    cursor::fuzz(bytes);
    reader::fuzz(bytes);
}
