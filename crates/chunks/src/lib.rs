//! Codecs for columns of samples: pure functions and small structs over slices.
//!
//! * [`row`]: rows of a strip as differences to the row before; the head's and the log's bytes.
//! * [`column`]: one series' cells over many rows, for blocks; smallest of several forms.
//! * [`times`]: the rows' times.
//! * [`packed`]: plain bit packing.
//! * [`histogram`]: one native histogram, as rows, chunks and log hold it.
//!
//! It does no I/O, keeps no files and knows no labels. Every decoder takes bytes from outside: it checks every
//! length and returns an error, it never panics. Numbers are little-endian. Bytes: docs/format/chunk.md.

#![forbid(unsafe_code)]

mod bits;
pub mod column;
mod decimal;
mod error;
#[doc(hidden)]
pub mod fuzz;
pub mod histogram;
pub mod packed;
pub mod row;
pub mod times;

pub use error::ChunkError;
