//! The one error of this crate: what was wrong with bytes or arguments, and where.
//!
//! Invariant: every decoder of outside bytes ends in one of these or in a value, never in a panic.

use std::fmt;

/// Says why bytes could not be decoded or a row could not be encoded; offsets count from the start of the slice given.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChunkError {
    /// The bytes end before `needed` more could be read at `offset`.
    Truncated {
        /// Where reading began.
        offset: usize,
        /// Bytes missing at least.
        needed: usize,
    },
    /// A field holds a value that no encoder writes.
    Malformed {
        /// The field.
        what: &'static str,
        /// Where it begins.
        offset: usize,
    },
    /// Bytes follow the end of the value.
    Trailing {
        /// Where the value ended.
        offset: usize,
    },
    /// A decoder without state was given a row that is not a key row.
    NotAKeyRow,
    /// A row or strip has more or fewer columns than it may.
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
