//! What is wrong with a body, beyond what a scrape minds.
//!
//! A scrape takes what it can read; here a body is held against its format's specification. [`check`] finds what the
//! specification forbids, [`lint`] what it allows and Prometheus' conventions advise against.
//!
//! **Invariant:** a body that [`check`] finds nothing wrong with can be parsed.

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

/// Something a format forbids, and where.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// Offset of the line or byte it is about.
    pub offset: usize,
    /// Line, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl Problem {
    fn of(error: &ParseError) -> Self {
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

/// The most problems that are listed.
const MOST: usize = 1_000;

/// Lists what the specification of its format forbids about a body, in order; nothing behind a line that cannot be
/// read, and not more than a thousand.
#[must_use]
pub fn check(format: Format, body: &[u8]) -> Vec<Problem> {
    let mut parser = Parser::new(LabelSet::empty(), ParseOptions::default());
    let parsed = parser.parse(format, body, 0, &mut KeepLabels);
    let unreadable = parsed.err().map(|error| Problem::of(&error));
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
