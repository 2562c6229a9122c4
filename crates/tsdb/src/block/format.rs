//! The frame of a block file: header, section table, footer, checksums.
//!
//! **Invariant:** the footer is written last, so a file without a valid one was never finished.

use super::meta::BlockMeta;
use crate::bytes::{Malformed, Reader, put_varint};

/// The first eight bytes.
pub(crate) const MAGIC: [u8; 8] = *b"NARTHEXB";
/// The last eight bytes.
pub(crate) const END_MAGIC: [u8; 8] = *b"BXEHTRAN";
/// Version this release writes, and the newest it reads.
pub(crate) const VERSION: u32 = 3;
/// The oldest version it reads.
pub(crate) const OLDEST_VERSION: u32 = 1;
/// The version from which strips may share pages.
pub(crate) const WITH_SHARED_PAGES: u32 = 2;
/// Magic, version, checksum of both.
pub(crate) const HEADER_LEN: usize = 16;
/// Length and checksum of the footer, version, magic.
pub(crate) const TAIL_LEN: usize = 20;

/// Most rows a strip may have.
pub(crate) const MAX_ROWS: u32 = 1 << 20;

/// Sections of the index, in the order they are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SectionKind {
    /// Label names and values.
    Dictionary = 1,
    /// Label sets.
    Sets = 2,
    /// Sets by label pair.
    Postings = 3,
    /// Strips: labels, times, pages.
    Strips = 4,
    /// Metadata of metric families.
    Families = 5,
    /// Exemplars; a block without any lacks the section.
    Exemplars = 6,
}

impl SectionKind {
    pub(crate) const ALL: [Self; 6] = [
        Self::Dictionary,
        Self::Sets,
        Self::Postings,
        Self::Strips,
        Self::Families,
        Self::Exemplars,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Dictionary => "dictionary",
            Self::Sets => "label sets",
            Self::Postings => "postings",
            Self::Strips => "strips",
            Self::Families => "families",
            Self::Exemplars => "exemplars",
        }
    }
}

/// Position of a section.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct SectionPlace {
    pub(crate) kind: u8,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) crc: u32,
}

/// Contents of the footer.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Footer {
    pub(crate) version: u32,
    pub(crate) meta: BlockMeta,
    pub(crate) sections: Vec<SectionPlace>,
}

/// Returns the CRC32C of `bytes`.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

pub(crate) fn header() -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let crc = checksum(&header[..12]);
    header[12..].copy_from_slice(&crc.to_le_bytes());
    header
}

impl Footer {
    /// Returns the bytes that end a file: the footer and its tail.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.meta.encode_into(&mut out);
        put_varint(&mut out, self.sections.len() as u64);
        for section in &self.sections {
            out.push(section.kind);
            put_varint(&mut out, section.offset);
            put_varint(&mut out, section.len);
            out.extend_from_slice(&section.crc.to_le_bytes());
        }
        let mut tail = [0; TAIL_LEN];
        tail[..4].copy_from_slice(&(out.len() as u32).to_le_bytes());
        tail[4..8].copy_from_slice(&self.version.to_le_bytes());
        // The checksum covers the footer and the tail's length and version fields.
        out.extend_from_slice(&tail[..8]);
        let crc = checksum(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&END_MAGIC);
        out
    }

    pub(crate) fn decode(bytes: &[u8], version: u32) -> Result<Self, Malformed> {
        let mut r = Reader::new(bytes);
        let meta = BlockMeta::read(&mut r)?;
        let mut sections = Vec::new();
        for _ in 0..r.varint()? {
            let kind = r.byte()?;
            let (offset, len) = (r.varint()?, r.varint()?);
            let crc = u32::from_le_bytes(r.array()?);
            sections.push(SectionPlace {
                kind,
                offset,
                len,
                crc,
            });
        }
        if r.is_empty() {
            Ok(Self {
                version,
                meta,
                sections,
            })
        } else {
            Err(r.malformed("end of the footer"))
        }
    }
}

/// Reads a `u32` of a table at `at`.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Result<u32, Malformed> {
    let end = at.checked_add(4);
    let word = end.and_then(|end| bytes.get(at..end)).ok_or(Malformed {
        offset: at,
        what: "table",
    })?;
    Ok(u32::from_le_bytes(
        word.try_into().expect("four bytes were sliced"),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::meta::BlockId;
    use super::*;

    #[test]
    fn footers_round_trip_and_refuse_shortened_bytes() {
        let meta = BlockMeta {
            id: BlockId(7),
            min_time_ms: -5,
            max_time_ms: 1 << 50,
            series: 3,
            level: 2,
            sources: vec![BlockId(1), BlockId(u128::MAX)],
            ..BlockMeta::default()
        };
        let place = SectionPlace {
            kind: 3,
            offset: 99,
            len: 1 << 40,
            crc: 0xdead_beef,
        };
        let footer = Footer {
            version: VERSION,
            meta,
            sections: vec![place],
        };
        let bytes = footer.encode();
        let len = bytes.len() - TAIL_LEN;
        assert_eq!(Footer::decode(&bytes[..len], VERSION), Ok(footer));
        for short in 0..len {
            assert!(Footer::decode(&bytes[..short], VERSION).is_err());
        }
        assert!(Footer::decode(&bytes, VERSION).is_err());
    }
}
