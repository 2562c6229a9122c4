//! The column codec: one series' cells over the rows of a block strip, in the smallest of several forms.
//!
//! First byte: kind in the low four bits, exponent (0..=12 decimals) in the high four. The number of rows is not
//! stored: it belongs to the strip. Bytes: docs/format/chunk.md.
//!
//! Invariant: decoding restores every cell bit for bit and refuses bytes that are too short or too long.

mod decode;
mod encode;
mod floats;
mod histograms;
mod ints;
mod states;
#[cfg(test)]
mod tests;
mod xor;

pub use decode::{ColumnFacts, column_facts, decode_column, decode_rows};
pub use encode::ColumnEncoder;
pub(crate) use ints::{IntEncoder, decode_ints};

/// Chunk kinds, the low four bits of the first byte.
pub(crate) mod kind {
    /// One integer for all rows.
    pub(crate) const CONST_INT: u8 = 0;
    /// One float's bits for all rows.
    pub(crate) const CONST_RAW: u8 = 1;
    /// The first integer and a few changes.
    pub(crate) const SPARSE: u8 = 2;
    /// XORed bits in blocks.
    pub(crate) const XOR: u8 = 3;
    /// Cells that are not all floats, around a chunk of the floats.
    pub(crate) const STATES: u8 = 7;
    /// Frame of reference; the low bits say whether of values or of differences.
    pub(crate) const FOR: u8 = 8;
    pub(crate) const FOR_DELTA: u8 = 1;
    pub(crate) const FOR_GCD: u8 = 2;
    pub(crate) const FOR_PATCH: u8 = 4;
}
