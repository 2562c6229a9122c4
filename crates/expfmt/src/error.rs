//! Errors with positions.

use std::{error::Error, fmt};

/// The error of a malformed body, with its position.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ParseError {
    /// Offset of the offending byte in the body.
    pub offset: usize,
    /// Line of the offending byte, from 1.
    pub line: usize,
    /// Column of the offending byte, in bytes from 1.
    pub column: usize,
    /// The defect.
    pub kind: ParseErrorKind,
}

/// Defect of a body.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// Something else was expected.
    Expected {
        /// Expected text.
        what: &'static str,
        /// Actual text, shortened.
        found: String,
    },
    /// An invalid number.
    Number {
        /// The text, shortened.
        text: String,
    },
    /// An invalid time.
    Timestamp {
        /// The text, shortened.
        text: String,
    },
    /// A label occurs twice in one series.
    DuplicateLabel {
        /// Name of the label.
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
        /// The resolver's reason.
        reason: String,
    },
    /// A body that does not end with `# EOF`.
    MissingEof,
    /// Bytes after `# EOF`.
    BehindEof,
    /// An unknown metric type.
    MetricType {
        /// The word, shortened.
        word: String,
    },
    /// A unit that is not the end of its family's name.
    Unit {
        /// The unit.
        unit: String,
        /// The family's name.
        family: String,
    },
    /// A malformed protobuf message.
    Message {
        /// The defect.
        what: &'static str,
    },
    /// A native histogram or a conversion to one that contradicts itself.
    Histogram {
        /// Name of the histogram.
        name: String,
        /// The contradiction.
        what: String,
    },
    /// More samples than the origin's limit.
    SampleLimit,
    /// A native histogram with more buckets than its limit.
    BucketLimit,
    /// A body of mostly new series, where that is refused.
    Replaced,
    /// A line that lacks a label which every line is expected to have.
    LacksCommonLabel,
}

impl ParseError {
    /// Returns the error `kind` at `offset` of `body`.
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
        match &self.kind {
            // About a whole series or body, in Prometheus' words.
            ParseErrorKind::Refused { .. }
            | ParseErrorKind::MissingEof
            | ParseErrorKind::SampleLimit
            | ParseErrorKind::BucketLimit
            | ParseErrorKind::Replaced
            | ParseErrorKind::LacksCommonLabel => self.kind.fmt(f),
            ParseErrorKind::Message { .. } | ParseErrorKind::Histogram { .. } => {
                write!(f, "byte {}: {}", self.offset, self.kind)
            }
            kind => write!(f, "line {}, column {}: {kind}", self.line, self.column),
        }
    }
}

impl fmt::Display for ParseErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expected { what, found } => write!(f, "expected {what}, got {found:?}"),
            Self::Number { text } => write!(f, "not a number: {text:?}"),
            Self::Timestamp { text } => write!(f, "not a timestamp: {text:?}"),
            Self::DuplicateLabel { name } => write!(f, "label {name:?} occurs twice"),
            Self::NotUtf8 => f.write_str("invalid UTF-8"),
            Self::NoMetricName => f.write_str("metric name not set"),
            Self::UnexpectedEnd => f.write_str("unexpected end of input"),
            Self::Refused { reason } => f.write_str(reason),
            Self::MissingEof => f.write_str("data does not end with # EOF"),
            Self::BehindEof => f.write_str("unexpected data after # EOF"),
            Self::MetricType { word } => write!(f, "invalid metric type {word:?}"),
            Self::Unit { unit, family } => {
                write!(f, "unit {unit:?} not a suffix of metric {family:?}")
            }
            Self::Message { what } => f.write_str(what),
            Self::Histogram { name, what } => write!(f, "histogram {name:?}: {what}"),
            Self::SampleLimit => f.write_str("sample limit exceeded"),
            Self::BucketLimit => f.write_str("histogram bucket limit exceeded"),
            Self::Replaced => f.write_str("mostly other series than before"),
            Self::LacksCommonLabel => f.write_str("a series without a label that all others had"),
        }
    }
}

impl Error for ParseError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_reads_well() {
        let text = |text: &str| text.to_owned();
        let cases = [
            (
                ParseErrorKind::Expected {
                    what: "a value",
                    found: text("}"),
                },
                "line 2, column 3: expected a value, got \"}\"",
            ),
            (
                ParseErrorKind::Number { text: text("x") },
                "line 2, column 3: not a number: \"x\"",
            ),
            (
                ParseErrorKind::Timestamp { text: text("1.5") },
                "line 2, column 3: not a timestamp: \"1.5\"",
            ),
            (
                ParseErrorKind::DuplicateLabel { name: text("a") },
                "line 2, column 3: label \"a\" occurs twice",
            ),
            (ParseErrorKind::NotUtf8, "line 2, column 3: invalid UTF-8"),
            (
                ParseErrorKind::NoMetricName,
                "line 2, column 3: metric name not set",
            ),
            (
                ParseErrorKind::UnexpectedEnd,
                "line 2, column 3: unexpected end of input",
            ),
            (
                ParseErrorKind::BehindEof,
                "line 2, column 3: unexpected data after # EOF",
            ),
            (
                ParseErrorKind::MetricType {
                    word: text("gouge"),
                },
                "line 2, column 3: invalid metric type \"gouge\"",
            ),
            (
                ParseErrorKind::Unit {
                    unit: text("s"),
                    family: text("a"),
                },
                "line 2, column 3: unit \"s\" not a suffix of metric \"a\"",
            ),
        ];
        check(cases);
    }

    #[test]
    fn every_kind_about_more_than_a_byte_reads_well() {
        let text = |text: &str| text.to_owned();
        check([
            (
                ParseErrorKind::Message {
                    what: "a field ends behind its message",
                },
                "byte 6: a field ends behind its message",
            ),
            (
                ParseErrorKind::Histogram {
                    name: text("h"),
                    what: text("negative count"),
                },
                "byte 6: histogram \"h\": negative count",
            ),
            (
                ParseErrorKind::Refused {
                    reason: text("label_limit exceeded"),
                },
                "label_limit exceeded",
            ),
            (ParseErrorKind::MissingEof, "data does not end with # EOF"),
            (ParseErrorKind::SampleLimit, "sample limit exceeded"),
            (
                ParseErrorKind::BucketLimit,
                "histogram bucket limit exceeded",
            ),
            (ParseErrorKind::Replaced, "mostly other series than before"),
            (
                ParseErrorKind::LacksCommonLabel,
                "a series without a label that all others had",
            ),
        ]);
    }

    fn check<const N: usize>(cases: [(ParseErrorKind, &str); N]) {
        for (kind, shown) in cases {
            assert_eq!(ParseError::at(b"a 1\nb x\n", 6, kind).to_string(), shown);
        }
    }
}
