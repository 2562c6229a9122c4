//! The line formats: text 0.0.4 and OpenMetrics.

mod common;
pub(crate) mod lex;
mod line_template;
mod memory;
mod pass;
mod pool;
mod tables;
#[cfg(test)]
mod tests;

pub use common::CommonLabels;
pub(crate) use common::common_labels;
pub(crate) use lex::Dialect;
pub use lex::unescape;
pub(crate) use memory::{LineMemory, Walked};
pub(crate) use pass::walk;
