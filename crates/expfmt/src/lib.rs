//! Exposition formats, parsed and written against a schema.
//!
//! It is: [`TextParser`], which turns one origin's bodies of text format 0.0.4 into frames and, round after round,
//! compares each line with the expected one so that only values are parsed; and [`TextWriter`], which renders
//! frames of a schema from prefixes made once. It is not: HTTP, scheduling or relabelling (a [`Resolver`] decides
//! what a series is called).
//!
//! ```
//! use narthex_expfmt::{KeepLabels, ParseOptions, TextParser};
//! use narthex_model::LabelSet;
//!
//! let common = LabelSet::new([("job", "api")]);
//! let mut parser = TextParser::new(common, ParseOptions::default());
//! let round = parser.parse(b"up 1\n", 1_000, &mut KeepLabels)?;
//! assert_eq!(round.frame.values(), [1.0]);
//! # Ok::<(), narthex_expfmt::ParseError>(())
//! ```

mod error;
#[doc(hidden)]
pub mod fuzz;
mod number;
mod text;

pub use error::{ParseError, ParseErrorKind};
pub use text::{
    KeepLabels, ParseOptions, Resolver, Round, RoundStats, TEXT_CONTENT_TYPE, TextParser,
    TextWriter, count_samples,
};
