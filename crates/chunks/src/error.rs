//! The crate's only error type: what was wrong with bytes or arguments, and at which offset.
//!
//! Invariant: decoders of untrusted bytes return a value or one of these errors; they never panic.

use std::fmt;

/// Reason bytes could not be decoded or a row could not be encoded; offsets count from the start of the given slice.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChunkError {
    /// The bytes end before `needed` more can be read at `offset`.
    Truncated {
        /// Offset at which reading began.
        offset: usize,
        /// Least number of missing bytes.
        needed: usize,
    },
    /// A field holds a value that no encoder writes.
    Malformed {
        /// The field.
        what: &'static str,
        /// Offset of the field.
        offset: usize,
    },
    /// Bytes follow the end of the value.
    Trailing {
        /// Offset of the value's end.
        offset: usize,
    },
    /// A decoder without state received a row that is not a key row.
    NotAKeyRow,
    /// A row or strip has too many or too few columns.
    Columns {
        /// Columns given.
        got: usize,
        /// Columns expected (or the highest number allowed).
        expected: usize,
    },
}

impl fmt::Display for ChunkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { offset, needed } => {
                write!(
                    f,
                    "bytes end too early: {needed} more needed at offset {offset}"
                )
            }
            Self::Malformed { what, offset } => write!(f, "bad {what} at offset {offset}"),
            Self::Trailing { offset } => write!(f, "bytes left over after offset {offset}"),
            Self::NotAKeyRow => write!(f, "decoding must begin at a key row"),
            Self::Columns { got, expected } => {
                write!(f, "row has {got} columns where {expected} fit")
            }
        }
    }
}

impl std::error::Error for ChunkError {}
