//! Problems of a body, beyond those that matter to a scrape.
//!
//! A scrape accepts whatever it can read; here a body is compared with its format's specification. [`check`] finds
//! violations of the specification, [`lint`] violations of Prometheus' conventions.
//!
//! **Invariant:** a body in which [`check`] finds no problem can be parsed.

mod families;
mod family;
mod histogram;
mod lints;

pub use lints::{Lint, lint};

use crate::{
    error::ParseError, format::Format, parser::Parser, resolve::KeepLabels, round::ParseOptions,
};
use narthex_model::LabelSet;
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
    fn from_error(error: &ParseError) -> Self {
        Self {
            offset: error.offset,
            line: error.line,
            message: error.kind.to_string(),
        }
    }

    fn at(body: &[u8], offset: usize, message: impl Into<String>) -> Self {
        let before = body.get(..offset).unwrap_or(body);
        Self {
            offset,
            line: memchr::memchr_iter(b'\n', before).count() + 1,
            message: message.into(),
        }
    }
}

/// Most problems listed.
const MOST: usize = 1_000;

/// Lists violations of the format's specification in a body, in order; nothing after a malformed line, and at most a
/// thousand.
#[must_use]
pub fn check(format: Format, body: &[u8]) -> Vec<Problem> {
    let mut parser = Parser::new(LabelSet::empty(), ParseOptions::default());
    let parsed = parser.parse(format, body, 0, &mut KeepLabels);
    let unreadable = parsed.err().map(|error| Problem::from_error(&error));
    let mut problems = match format {
        Format::Protobuf => Vec::new(),
        Format::Text | Format::OpenMetrics => families::check(format, body),
    };
    problems.sort_by_key(|problem| problem.offset);
    if let Some(unreadable) = unreadable {
        problems.retain(|problem| problem.offset < unreadable.offset);
        problems.push(unreadable);
    }
    problems.truncate(MOST);
    problems
}
