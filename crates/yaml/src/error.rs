//! Errors of texts that are not YAML, with their places.

use std::{error::Error, fmt};

/// A text that is not YAML, or exceeds a limit.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct YamlError {
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1, in characters.
    pub column: usize,
    /// Description of the error.
    pub message: String,
}

impl YamlError {
    pub(crate) fn at(line: usize, column: usize, message: impl Into<String>) -> Self {
        Self {
            line,
            column,
            message: message.into(),
        }
    }
}

impl fmt::Display for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {}, column {}: {}",
            self.line, self.column, self.message
        )
    }
}

impl Error for YamlError {}
