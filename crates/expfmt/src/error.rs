//! Errors with positions.

use std::{error::Error, fmt};

/// A body that is not in the format it claims, and where.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ParseError {
    /// Offset of the offending byte in the body.
    pub offset: usize,
    /// Line of the offending byte, from 1.
    pub line: usize,
    /// Column of the offending byte, in bytes from 1.
    pub column: usize,
    /// What is wrong there.
    pub kind: ParseErrorKind,
}

/// What is wrong with a body.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// Something else was expected.
    Expected {
        /// What would have been right.
        what: &'static str,
        /// What is there, shortened.
        found: String,
    },
    /// Not a number as the format writes them.
    Number {
        /// The text, shortened.
        text: String,
    },
    /// Not a whole number of milliseconds.
    Timestamp {
        /// The text, shortened.
        text: String,
    },
    /// A label occurs twice in one series.
    DuplicateLabel {
        /// Its name.
        name: String,
    },
    /// Bytes that are not UTF-8.
    NotUtf8,
    /// A series without a metric name.
    NoMetricName,
    /// The body ends inside a line.
    UnexpectedEnd,
    /// The origin's resolver refuses a series.
    Refused {
        /// Why.
        reason: String,
    },
    /// More series than allowed.
    TooManySeries {
        /// The limit.
        limit: usize,
    },
}

impl ParseError {
    /// Positions `kind` at `offset` of `body`.
    pub(crate) fn at(body: &[u8], offset: usize, kind: ParseErrorKind) -> Self {
        let before = body.get(..offset).unwrap_or(body);
        let line_start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
        Self {
            offset,
            line: memchr::memchr_iter(b'\n', before).count() + 1,
            column: before.len() - line_start + 1,
            kind,
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {}, column {}: {}",
            self.line, self.column, self.kind
        )
    }
}

impl fmt::Display for ParseErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expected { what, found } => write!(f, "expected {what}, got {found:?}"),
            Self::Number { text } => write!(f, "not a number: {text:?}"),
            Self::Timestamp { text } => write!(f, "not a timestamp in milliseconds: {text:?}"),
            Self::DuplicateLabel { name } => write!(f, "label {name:?} occurs twice"),
            Self::NotUtf8 => f.write_str("invalid UTF-8"),
            Self::NoMetricName => f.write_str("metric name not set"),
            Self::UnexpectedEnd => f.write_str("unexpected end of input"),
            Self::Refused { reason } => f.write_str(reason),
            Self::TooManySeries { limit } => write!(f, "more than {limit} series"),
        }
    }
}

impl Error for ParseError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_reads_well() {
        let kinds = [
            ParseErrorKind::Expected {
                what: "a value",
                found: "}".into(),
            },
            ParseErrorKind::Number { text: "x".into() },
            ParseErrorKind::Timestamp { text: "1.5".into() },
            ParseErrorKind::DuplicateLabel { name: "a".into() },
            ParseErrorKind::NotUtf8,
            ParseErrorKind::NoMetricName,
            ParseErrorKind::UnexpectedEnd,
            ParseErrorKind::TooManySeries { limit: 3 },
        ];
        let shown: Vec<String> = kinds
            .into_iter()
            .map(|kind| ParseError::at(b"a 1\nb x\n", 6, kind).to_string())
            .collect();
        assert_eq!(
            shown,
            [
                "line 2, column 3: expected a value, got \"}\"",
                "line 2, column 3: not a number: \"x\"",
                "line 2, column 3: not a timestamp in milliseconds: \"1.5\"",
                "line 2, column 3: label \"a\" occurs twice",
                "line 2, column 3: invalid UTF-8",
                "line 2, column 3: metric name not set",
                "line 2, column 3: unexpected end of input",
                "line 2, column 3: more than 3 series",
            ]
        );
    }
}
