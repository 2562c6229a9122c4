//! Positions in a query text.
//!
//! **Invariant:** offsets are bytes, `start <= end`, both at most the length of the query.

use std::fmt;

/// A byte range of the query.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// Builds the span `start..end`.
    #[must_use]
    pub fn new(start: u32, end: u32) -> Self {
        Self { start, end }
    }

    /// Returns the span from the start of `self` to the end of `last`.
    #[must_use]
    pub fn to(self, last: Self) -> Self {
        Self {
            start: self.start,
            end: last.end,
        }
    }

    /// Returns a `Display` of the start as `line:column`, both from 1, columns in bytes, as in Prometheus.
    #[must_use]
    pub fn start_in(self, query: &str) -> Position<'_> {
        Position {
            start: self.start as usize,
            query,
            line_offset: 0,
        }
    }
}

/// A start position with its text; `Display` writes `line:column`.
#[derive(Clone, Copy, Debug)]
pub struct Position<'a> {
    start: usize,
    query: &'a str,
    line_offset: usize,
}

impl Position<'_> {
    /// Adds lines that precede the query in a larger file.
    #[must_use]
    pub fn after_lines(self, lines: usize) -> Self {
        Self {
            line_offset: lines,
            ..self
        }
    }
}

impl fmt::Display for Position<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.query.is_empty() {
            return f.write_str("unknown position");
        }
        let Some(before) = self.query.as_bytes().get(..self.start) else {
            return f.write_str("invalid position");
        };
        let line = before.iter().filter(|b| **b == b'\n').count() + 1 + self.line_offset;
        let column = before.iter().rev().take_while(|b| **b != b'\n').count() + 1;
        write!(f, "{line}:{column}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_bytes_from_one() {
        let query = "a +\n  b";
        assert_eq!(Span::new(0, 1).start_in(query).to_string(), "1:1");
        assert_eq!(Span::new(6, 7).start_in(query).to_string(), "2:3");
        assert_eq!(
            Span::new(6, 7).start_in(query).after_lines(4).to_string(),
            "6:3"
        );
        assert_eq!(
            Span::new(9, 9).start_in(query).to_string(),
            "invalid position"
        );
        assert_eq!(Span::new(0, 0).start_in("").to_string(), "unknown position");
    }
}
