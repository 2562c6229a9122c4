//! Metadata of a block, available without opening its index.
//!
//! **Invariant:** the file's footer and the database's manifest hold the same values.

use crate::bytes::{Malformed, Reader, put_signed, put_varint};
use std::fmt;

/// Unique, permanent id of a block: 48 bits of milliseconds since 1970, then 80 bits that make it unique.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BlockId(pub u128);

const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

impl BlockId {
    /// Returns the id of a block created at `time_ms`; `unique` must differ between blocks of one millisecond.
    #[must_use]
    pub fn new(time_ms: i64, unique: u128) -> Self {
        let time = u128::from(time_ms.max(0).cast_unsigned()) & ((1 << 48) - 1);
        Self(time << 80 | unique & ((1 << 80) - 1))
    }

    /// Returns the block's creation time, ms since 1970.
    #[must_use]
    pub fn time_ms(self) -> i64 {
        i64::try_from(self.0 >> 80).unwrap_or(i64::MAX)
    }

    /// Parses the output of `Display`: 26 characters of Crockford's base 32.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 26 || !text.starts_with(|c| ('0'..='7').contains(&c)) {
            return None;
        }
        let digit = |c: u8| ALPHABET.iter().position(|a| *a == c);
        let number = text
            .bytes()
            .try_fold(0u128, |id, c| Some(id << 5 | digit(c)? as u128))?;
        Some(Self(number))
    }
}

impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for shift in (0..26).rev() {
            let digit = (self.0 >> (shift * 5)) & 31;
            write!(f, "{}", char::from(ALPHABET[digit as usize]))?;
        }
        Ok(())
    }
}

/// A block's identity, extent and sources.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct BlockMeta {
    /// Block id; the file's name is `<id>.block`.
    pub id: BlockId,
    /// Time of the oldest cell, inclusive.
    pub min_time_ms: i64,
    /// Time of the newest cell, inclusive.
    pub max_time_ms: i64,
    /// Number of strips.
    pub strips: u64,
    /// Number of series, counted once per strip that has them.
    pub series: u64,
    /// Number of cells that are not absent.
    pub samples: u64,
    /// Number of merges that led to it: 0 for a flush.
    pub level: u8,
    /// Blocks it was merged from; itself for a flush.
    pub sources: Vec<BlockId>,
    /// Length of the file, bytes.
    pub bytes: u64,
}

impl BlockMeta {
    /// Returns the name of the block's file.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("{}.block", self.id)
    }

    /// Appends everything but `bytes`, which is the file's own length.
    pub(crate) fn encode_into(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.0.to_le_bytes());
        put_signed(out, self.min_time_ms);
        put_signed(out, self.max_time_ms);
        put_varint(out, self.strips);
        put_varint(out, self.series);
        put_varint(out, self.samples);
        out.push(self.level);
        put_varint(out, self.sources.len() as u64);
        for source in &self.sources {
            out.extend_from_slice(&source.0.to_le_bytes());
        }
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut meta = Self {
            id: BlockId(u128::from_le_bytes(r.array()?)),
            min_time_ms: r.signed()?,
            max_time_ms: r.signed()?,
            strips: r.varint()?,
            series: r.varint()?,
            samples: r.varint()?,
            level: r.byte()?,
            ..Self::default()
        };
        for _ in 0..r.varint()? {
            meta.sources.push(BlockId(u128::from_le_bytes(r.array()?)));
        }
        Ok(meta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time_and_print_both_ways() {
        let old = BlockId::new(1_700_000_000_000, u128::MAX);
        let new = BlockId::new(1_700_000_000_001, 0);
        assert!(old < new && old.to_string() < new.to_string());
        for id in [old, new, BlockId(0), BlockId(u128::MAX)] {
            assert_eq!(BlockId::parse(&id.to_string()), Some(id));
        }
        assert_eq!(BlockId::parse("01"), None);
        assert_eq!(BlockId::parse("80000000000000000000000000"), None);
        assert_eq!(BlockId::parse("0000000000000000000000000U"), None);
    }
}
