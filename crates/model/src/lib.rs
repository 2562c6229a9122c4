//! The vocabulary of Narthex: labels, samples, schemas, frames and the storage traits.
//!
//! It holds the types and contracts that all other crates share. It has no I/O, async, formats or engine.
//!
//! *Identity is resolved once, afterwards only numbers move.* A [`Schema`] says which series one origin reports;
//! a [`Frame`] is one round of numbers for it. A [`storage::Sink`] takes frames; a [`storage::Store`] gives back
//! tiles of cells. Times are milliseconds since the Unix epoch, `i64`, in names ending in `_ms`.

pub mod bits;
pub mod cell;
pub mod date;
pub mod duration;
mod frame;
#[doc(hidden)]
pub mod fuzz;
pub mod histogram;
pub mod labels;
pub mod matcher;
pub mod math;
mod mem;
pub mod metadata;
mod named;
pub mod pattern;
pub mod protobuf;
mod recent;
pub mod relabel;
mod schema;
pub mod storage;
pub mod sync;
pub mod varint;

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;

pub use frame::{Exemplar, Frame};
pub use histogram::Histogram;
pub use labels::{Label, LabelHash, LabelSet, LabelSetBuilder, METRIC_NAME, NameScheme};
pub use matcher::{MatchOp, Matcher};
pub use mem::MemStore;
pub use metadata::{Family, MetricType};
pub use pattern::{CompileError, KeptPatterns, Pattern, PatternError, Patterns, Template};
pub use recent::Recent;
pub use schema::{Column, ColumnId, FamilyId, Schema, SchemaDiff, SchemaEdit};
