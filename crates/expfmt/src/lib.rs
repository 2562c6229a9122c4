//! Exposition formats, parsed and written against a schema.
//!
//! [`Parser`] turns one origin's bodies into frames and, round after round, compares each piece with the expected one
//! so that only values are parsed; [`Writer`] renders frames of a schema from pieces made once; both sides of the
//! negotiation are here too; [`Exposition`] shows the newest samples of many sources on one page. Formats are text 0.0.4, OpenMetrics 1.0 and delimited protobuf messages with native
//! histograms. HTTP, scheduling and relabelling are elsewhere (a [`Resolver`] decides a series' final labels).
//!
//! ```
//! use narthex_expfmt::{Format, KeepLabels, ParseOptions, Parser};
//! use narthex_model::LabelSet;
//!
//! let common = LabelSet::new([("job", "api")]);
//! let mut parser = Parser::new(common, ParseOptions::default());
//! let round = parser.parse(Format::Text, b"up 1\n", 1_000, &mut KeepLabels)?;
//! assert_eq!(round.frame.values(), [1.0]);
//! # Ok::<(), narthex_expfmt::ParseError>(())
//! ```

#![forbid(unsafe_code)]

mod body_builder;
mod buckets;
mod cells;
mod check;
mod error;
mod escape;
mod exemplars;
mod exposition;
mod families;
mod format;
#[doc(hidden)]
pub mod fuzz;
mod groups;
mod hash;
mod message_types;
mod number;
mod parser;
mod proto;
mod resolve;
mod round;
mod text;
mod writer;

pub use check::{Lint, Problem, check, lint};
pub use error::{ParseError, ParseErrorKind};
pub use escape::{Escaping, unescape_name};
pub use exposition::{Exposition, ExpositionMemory, register_metrics};
pub use format::{Format, Negotiated, ScrapeProtocol, UnknownType, accept_header};
pub use number::bound_text;
pub use parser::{Parser, common_labels};
pub use resolve::{KeepLabels, Resolver};
pub use round::{MoreSample, ParseOptions, Round, RoundStats};
pub use text::{CommonLabels, unescape};
pub use writer::{Writer, escape, write_name, write_name_as, write_quoted};
