//! Codecs for columns of samples: pure functions and small structs over slices.
//!
//! * [`row`]: rows of a strip as differences to the previous row; the bytes of the head and the WAL.
//! * [`column`]: one series' cells over many rows, for blocks; the smallest of several forms.
//! * [`times`]: the rows' timestamps.
//! * [`packed`]: plain bit packing.
//! * [`quick`]: one series' cells over a few rows, kept in memory and read again and again.
//! * [`histogram`]: one native histogram, as stored in rows, chunks and the WAL.
//!
//! It does no I/O, keeps no files and knows no labels. Every decoder takes untrusted bytes: it checks every
//! length and returns an error, never panics. Numbers are little-endian. Bytes: docs/format/chunk.md.

#![forbid(unsafe_code)]

mod bits;
pub mod column;
mod decimal;
mod error;
#[doc(hidden)]
pub mod fuzz;
pub mod histogram;
pub mod packed;
pub mod quick;
pub mod row;
pub mod times;

pub use error::ChunkError;
