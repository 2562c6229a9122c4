//! The Prometheus text format 0.0.4.

mod hint;
mod lex;
mod parser;
mod pass;
mod resolve;
mod tables;
#[cfg(test)]
mod tests;
mod writer;

pub use parser::{ParseOptions, Round, RoundStats, TextParser};
pub use resolve::{KeepLabels, Resolver};
pub use writer::TextWriter;

/// The content type of the text format.
pub const TEXT_CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Counts the sample lines of a body: those that are neither blank nor comments.
#[must_use]
pub fn count_samples(body: &[u8]) -> usize {
    let line_starts = std::iter::once(0).chain(memchr::memchr_iter(b'\n', body).map(|at| at + 1));
    line_starts
        .filter(|at| !matches!(body.get(*at), None | Some(b'#' | b'\n')))
        .count()
}
