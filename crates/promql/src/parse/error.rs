//! Parse errors with their positions.
//!
//! **Invariant:** the text is Prometheus': `1:28: parse error: unexpected identifier "baz"`.

use crate::span::Span;
use std::{error::Error, fmt};

/// The first error in a query.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ParseError {
    /// Description of the error.
    pub message: String,
    /// Position of the error.
    pub span: Span,
    /// The query.
    pub query: String,
    /// Number of lines before the query in its file.
    pub line_offset: usize,
}

impl ParseError {
    pub(crate) fn new(message: &str, span: Span, query: &str) -> Self {
        Self {
            message: message.to_owned(),
            span,
            query: query.to_owned(),
            line_offset: 0,
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let position = self
            .span
            .start_in(&self.query)
            .after_lines(self.line_offset);
        write!(f, "{position}: parse error: {}", self.message)
    }
}

impl Error for ParseError {}
