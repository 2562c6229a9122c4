//! Violations of a format, with their positions.

use crate::error::ParseError;
use std::fmt;

/// A violation of a format, with its position.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// Offset of the line or byte concerned.
    pub offset: usize,
    /// Line, from 1.
    pub line: usize,
    /// Description of the problem.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl Problem {
    pub(super) fn from_error(error: &ParseError) -> Self {
        Self {
            offset: error.offset,
            line: error.line,
            message: error.kind.to_string(),
        }
    }

    pub(super) fn at(body: &[u8], offset: usize, message: impl Into<String>) -> Self {
        let before = body.get(..offset).unwrap_or(body);
        Self {
            offset,
            line: memchr::memchr_iter(b'\n', before).count() + 1,
            message: message.into(),
        }
    }
}

/// Most problems listed.
pub(super) const MOST: usize = 1_000;
