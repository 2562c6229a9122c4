//! Pages: the cells of consecutive columns of one strip, or of several strips of the same width, with one checksum.
//!
//! Page = flags u8, chunks varint, chunk lengths, start times if flagged, chunks, CRC32C of everything before it.
//! Lengths are bit-packed in groups of 32 chunks, each with its own width, because constants, most of a real
//! exporter, take few bits.
//!
//! **Invariant:** a page is read independently of all others; its checksum is compared before it is used.

use super::format::checksum;
use crate::bytes::{Malformed, Reader, put_signed, put_varint};
use narthex_chunks::packed::{pack, packed_len, unpack, width_of};

/// Chunk bytes at which a page is closed.
pub(crate) const TARGET_BYTES: usize = 16 << 10;
/// Chunks whose lengths share a width.
const GROUP: usize = 32;
/// Bytes of the checksum at the end.
const CRC: usize = 4;

const WITH_STARTS: u8 = 1;

/// First row of each start time of a counter: row, ms.
pub(crate) type Starts = Vec<(u32, i64)>;

/// Collects chunks until a page is full.
#[derive(Debug, Default)]
pub(crate) struct PageBuilder {
    chunks: Vec<u8>,
    lens: Vec<u64>,
    starts: Vec<(u32, Starts)>,
}

impl PageBuilder {
    /// Adds a column of a strip; `encode` appends its chunk.
    pub(crate) fn add(&mut self, starts: &[(u32, i64)], encode: impl FnOnce(&mut Vec<u8>)) {
        let before = self.chunks.len();
        encode(&mut self.chunks);
        if !starts.is_empty() {
            self.starts.push((self.lens.len() as u32, starts.to_vec()));
        }
        self.lens.push((self.chunks.len() - before) as u64);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.chunks.len() >= TARGET_BYTES
    }

    /// Appends the page to `out`, returns its length, and starts the next one.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) -> usize {
        let start = out.len();
        out.push(if self.starts.is_empty() {
            0
        } else {
            WITH_STARTS
        });
        put_varint(out, self.lens.len() as u64);
        for group in self.lens.chunks(GROUP) {
            let width = group.iter().copied().map(width_of).max().unwrap_or(0);
            out.push(width as u8);
            pack(group, width, out);
        }
        if !self.starts.is_empty() {
            put_varint(out, self.starts.len() as u64);
            for (column, starts) in &self.starts {
                put_varint(out, u64::from(*column));
                put_varint(out, starts.len() as u64);
                for (row, start_ms) in starts {
                    put_varint(out, u64::from(*row));
                    put_signed(out, *start_ms);
                }
            }
        }
        out.append(&mut self.chunks);
        let crc = checksum(&out[start..]);
        out.extend_from_slice(&crc.to_le_bytes());
        self.lens.clear();
        self.starts.clear();
        out.len() - start
    }
}

/// A page in memory.
#[derive(Debug, Default)]
pub(crate) struct Page {
    bytes: Box<[u8]>,
    /// Offset of each chunk's start, then of the last one's end.
    offsets: Vec<u32>,
    starts: Vec<(u32, Starts)>,
}

/// A checksum mismatch.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum PageError {
    Checksum { expected: u32, got: u32 },
    Malformed(Malformed),
}

impl Page {
    /// Checks a page and finds its chunks.
    pub(crate) fn open(bytes: Vec<u8>) -> Result<Self, PageError> {
        let short = Malformed {
            offset: bytes.len(),
            what: "page length",
        };
        let body = bytes
            .len()
            .checked_sub(CRC)
            .ok_or(PageError::Malformed(short))?;
        let stored = bytes[body..].try_into().expect("four bytes are left");
        let (expected, got) = (u32::from_le_bytes(stored), checksum(&bytes[..body]));
        if expected != got {
            return Err(PageError::Checksum { expected, got });
        }
        let mut page = Self::default();
        page.read(&bytes[..body]).map_err(PageError::Malformed)?;
        page.bytes = bytes.into_boxed_slice();
        Ok(page)
    }

    fn read(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let mut r = Reader::new(bytes);
        let flags = r.byte()?;
        let chunks = usize::try_from(r.varint()?).map_err(|_| r.malformed("chunks of a page"))?;
        // Where chunks end, at first counted from the first one's start.
        self.offsets = Vec::with_capacity(1 + chunks.min(bytes.len()));
        self.offsets.push(0);
        let mut end = 0;
        while self.chunks() < chunks {
            let count = GROUP.min(chunks - self.chunks());
            let width = u32::from(r.byte()?);
            if width > 32 {
                return Err(r.malformed("width of chunk lengths"));
            }
            let mut group = [0u64; GROUP];
            unpack(
                r.slice(packed_len(count, width))?,
                width,
                &mut group[..count],
            )
            .map_err(|_| r.malformed("chunk lengths"))?;
            for len in &group[..count] {
                end += len;
                if end > bytes.len() as u64 {
                    return Err(r.malformed("chunk length"));
                }
                self.offsets.push(end as u32);
            }
        }
        if flags & WITH_STARTS != 0 {
            self.starts = read_starts(&mut r)?;
        }
        let first = r.offset() as u64;
        if first + end != bytes.len() as u64 {
            return Err(r.malformed("end of the page"));
        }
        self.offsets.iter_mut().for_each(|at| *at += first as u32);
        Ok(())
    }

    /// Returns the number of chunks.
    pub(crate) fn chunks(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Returns the page's chunk `at`.
    pub(crate) fn chunk(&self, at: usize) -> &[u8] {
        &self.bytes[self.offsets[at] as usize..self.offsets[at + 1] as usize]
    }

    /// Returns the start times of the page's chunk `at`.
    pub(crate) fn starts(&self, at: usize) -> &[(u32, i64)] {
        let found = self
            .starts
            .binary_search_by_key(&(at as u32), |starts| starts.0);
        found.map_or(&[], |found| &self.starts[found].1)
    }

    /// Returns the memory held.
    pub(crate) fn bytes(&self) -> usize {
        let starts: usize = self
            .starts
            .iter()
            .map(|starts| starts.1.len() * 16 + 32)
            .sum();
        self.bytes.len() + self.offsets.len() * 4 + starts + size_of::<Self>()
    }
}

fn read_starts(r: &mut Reader<'_>) -> Result<Vec<(u32, Starts)>, Malformed> {
    let mut all: Vec<(u32, Starts)> = Vec::new();
    for _ in 0..r.varint()? {
        let column = r.varint_u32("column")?;
        let mut starts = Vec::new();
        for _ in 0..r.varint()? {
            starts.push((r.varint_u32("row")?, r.signed()?));
        }
        if all.last().is_some_and(|before| before.0 >= column) {
            return Err(r.malformed("start times"));
        }
        all.push((column, starts));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Vec<u8> {
        let mut builder = PageBuilder::default();
        for column in 0..70u32 {
            let starts: Starts = if column == 40 {
                vec![(0, 5), (9, -7)]
            } else {
                vec![]
            };
            builder.add(&starts, |out| {
                out.resize(out.len() + column as usize % 7 * 50, column as u8);
            });
        }
        let mut out = vec![];
        assert_eq!(builder.finish(&mut out), out.len());
        assert!(builder.lens.is_empty() && builder.chunks.is_empty());
        out
    }

    #[test]
    fn chunks_and_start_times_come_back() {
        let page = Page::open(page()).unwrap();
        assert_eq!(page.chunks(), 70);
        for column in 0..70 {
            assert_eq!(page.chunk(column), vec![column as u8; column % 7 * 50]);
        }
        assert_eq!(page.starts(40), [(0, 5), (9, -7)]);
        assert!(page.starts(41).is_empty());
    }

    #[test]
    fn every_flipped_byte_is_found() {
        let bytes = page();
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x10;
            assert!(matches!(Page::open(bytes), Err(PageError::Checksum { .. })));
        }
        assert!(Page::open(vec![]).is_err());
        // Nonsense with a good checksum is not a page either.
        let mut nonsense = vec![0xff; 40];
        let crc = checksum(&nonsense);
        nonsense.extend_from_slice(&crc.to_le_bytes());
        assert!(matches!(Page::open(nonsense), Err(PageError::Malformed(_))));
    }
}
