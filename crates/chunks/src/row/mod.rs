//! The row codec: a strip's rows as differences to the previous row, with the same bytes in the head and the WAL.
//!
//! Each column is an integer with 0..=12 decimals, or raw bits. A row stores, in blocks of 32 columns, the
//! change of each integer (or the XOR of the bits), with columns permuted so that neighbours need similar widths.
//! Absence, stale events and exponent switches are short lists beside the numbers, so they never disturb a column.
//! Bytes: docs/format/chunk.md.
//!
//! Invariant: encoder and decoder hold equal [`RowState`]s after the same rows, and every row can be undone,
//! so rows decode forwards from a key row and backwards from the encoder's state.

pub(crate) mod blocks;
mod decode;
mod encode;
mod histograms;
mod order;
mod pick;
mod state;
mod switch;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod walk;
mod wire;

pub use decode::{RowBack, RowDecoder};
pub use encode::{Row, RowEncoder};
pub use pick::{ColumnPick, PickBack};
pub use state::RowState;

/// Most columns a strip may have; callers split wider ones into pages.
pub const MAX_COLUMNS: usize = 1024;

/// Columns that share one control byte.
pub(crate) const BLOCK_COLUMNS: usize = 32;

/// Header flags, one bit each.
pub(crate) mod flag {
    pub(crate) const TIME: u8 = 1;
    pub(crate) const KEY: u8 = 2;
    pub(crate) const GROW: u8 = 4;
    pub(crate) const ORDER: u8 = 8;
    pub(crate) const PRESENCE: u8 = 16;
    pub(crate) const EVENTS: u8 = 32;
    pub(crate) const SWITCHES: u8 = 64;
    pub(crate) const BITMAP: u8 = 128;
}

/// Flags of the event list.
pub(crate) mod event {
    /// Every column whose presence ended in this row is stale.
    pub(crate) const GONE_ARE_STALE: u8 = 1;
    /// A list of stale columns follows.
    pub(crate) const STALE: u8 = 2;
    /// Histograms follow, each by itself: logs before version 3 have them so.
    pub(crate) const HISTOGRAMS: u8 = 4;
    /// Changes of histograms follow.
    pub(crate) const CHANGES: u8 = 8;
    /// They are of all columns that have had one.
    pub(crate) const SAME_COLUMNS: u8 = 16;
}

/// Flags of a key row's snapshot.
pub(crate) mod snap {
    pub(crate) const ORDER: u8 = 1;
    pub(crate) const EXPS: u8 = 2;
    pub(crate) const PRESENCE: u8 = 4;
    pub(crate) const VALUES: u8 = 8;
    pub(crate) const HISTOGRAMS: u8 = 16;
}
