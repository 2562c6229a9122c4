//! Blocks: immutable, checksummed, self-contained files of samples with their index.
//!
//! A block is written once, under a temporary name, from strips in order; it becomes visible through the database's
//! manifest, never by itself. Cells are in pages of about 16 KiB, each with a checksum: some columns of a wide strip, or of
//! several narrow ones. The index stores once what many series share: label pairs, label sets, and the sets of each
//! strip's columns.
//! Bytes: docs/format/block.md.
//!
//! **Invariant:** every byte of a file is covered by a checksum that is compared before the byte is used; damage
//! fails only the reads that need the damaged page or section, with path and offset.

mod batch;
mod cache;
mod chosen;
mod cursor;
mod dictionary;
mod exemplars;
mod file;
mod format;
mod fuzz;
mod groups;
mod listing;
mod meta;
mod page;
mod pool;
mod postings;
mod reader;
mod resolver;
mod select;
mod set_table;
mod sets;
mod strip_table;
mod strips;
#[cfg(test)]
mod tests;
mod times;
mod writer;

pub use cache::BlockCache;
pub(crate) use cursor::{StripCursor, StripSource};
pub(crate) use exemplars::SeriesExemplar;
pub(crate) use format::MAX_ROWS;
pub use fuzz::fuzz_block;
pub use meta::{BlockId, BlockMeta};
pub(crate) use pool::{FilePool, GONE, PENDING, with_suffix};
pub use reader::Block;
pub(crate) use select::FoundStrips;
pub(crate) use writer::{BlockWriter, ColumnInput};
