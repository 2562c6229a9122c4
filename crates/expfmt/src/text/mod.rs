//! The Prometheus text format 0.0.4.

mod hint;
mod lex;
mod parser;
mod resolve;
#[cfg(test)]
mod tests;
mod writer;

pub use parser::{ParseOptions, Round, RoundStats, TextParser};
pub use resolve::{KeepLabels, Resolver};
pub use writer::TextWriter;

/// The content type of the text format.
pub const TEXT_CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
