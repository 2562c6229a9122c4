//! The line formats: text 0.0.4 and OpenMetrics.

mod common;
mod lex;
mod line_template;
mod memory;
mod pass;
mod pool;
mod tables;
#[cfg(test)]
mod tests;

pub use common::CommonLabels;
pub(crate) use common::common_labels;
pub(crate) use lex::{Comment, Cursor, Memo, Tail, exemplar};
pub(crate) use memory::{LineMemory, Walked};
pub(crate) use pass::walk;

/// Line format of a body.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Dialect {
    /// Blanks and comments anywhere, times in milliseconds.
    #[default]
    Text,
    /// Single blanks, exemplars, units, times in seconds, an end mark.
    OpenMetrics,
}
