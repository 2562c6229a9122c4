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
mod problem;

pub use lints::{Lint, lint};
pub use problem::Problem;

use crate::{format::Format, parser::Parser, resolve::KeepLabels, round::ParseOptions};
use narthex_model::LabelSet;
use problem::MOST;

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
