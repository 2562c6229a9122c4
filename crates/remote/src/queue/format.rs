//! Files of the queue: header, entries, checksums. Bytes: docs/format/remote-queue.md.
//!
//! **Invariant:** an entry counts as a whole or not at all; a header or entry is used only after its checksum was
//! compared.

use std::path::{Path, PathBuf};

const MAGIC: [u8; 8] = *b"NRTHXRWQ";
pub(super) const VERSION: u32 = 2;
pub(super) const HEADER_BYTES: usize = 32;
const MARKER: [u8; 2] = 0xe57a_u16.to_le_bytes();
/// Bytes before an entry's body: marker, length and checksum.
pub(super) const ENTRY_HEAD_BYTES: usize = 10;
/// Longest body of an entry.
pub(super) const ENTRY_BYTES: usize = 1 << 28;

/// Record tags within an entry.
pub(crate) mod tag {
    pub(crate) const COUNTS: u8 = 1;
    pub(crate) const SET: u8 = 2;
    pub(crate) const FAMILY: u8 = 3;
    pub(crate) const STRIP: u8 = 4;
    pub(crate) const COLUMNS: u8 = 5;
    pub(crate) const STARTS: u8 = 6;
    pub(crate) const EXEMPLAR: u8 = 7;
    pub(crate) const ROW: u8 = 8;
    pub(crate) const KEY_ROW: u8 = 9;
    pub(crate) const SPARSE: u8 = 10;
    pub(crate) const SERIES: u8 = 11;
}

/// Kinds of samples outside of rows.
pub(crate) mod kind {
    pub(crate) const FLOAT: u8 = 0;
    pub(crate) const STALE: u8 = 1;
    pub(crate) const HISTOGRAM: u8 = 2;
    /// Added when a start time follows.
    pub(crate) const STARTED: u8 = 0x80;
}

/// The beginning of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Header {
    pub(super) number: u64,
    /// Samples in all files before this one, since the queue was created.
    pub(super) first_sample: u64,
}

/// Why a header cannot be used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum HeaderFault {
    /// Its checksum is wrong, or it is no header.
    Damaged,
    /// It is of a newer release.
    Newer(u32),
}

impl Header {
    pub(super) fn encode(self) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[12..20].copy_from_slice(&self.number.to_le_bytes());
        header[20..28].copy_from_slice(&self.first_sample.to_le_bytes());
        let crc = crc32c(&[&header[..28]]);
        header[28..].copy_from_slice(&crc.to_le_bytes());
        header
    }

    pub(super) fn decode(header: &[u8; HEADER_BYTES]) -> Result<Self, HeaderFault> {
        let crc = crc32c(&[&header[..28]]).to_le_bytes();
        if header[..8] != MAGIC || header[28..] != crc {
            return Err(HeaderFault::Damaged);
        }
        match number_at(header, 8, 4) as u32 {
            1..=VERSION => Ok(Self {
                number: number_at(header, 12, 8),
                first_sample: number_at(header, 20, 8),
            }),
            newer => Err(HeaderFault::Newer(newer)),
        }
    }
}

/// Reads a little-endian number of `len` bytes, at most 8.
pub(super) fn number_at(bytes: &[u8], at: usize, len: usize) -> u64 {
    let bytes = bytes.get(at..at + len).unwrap_or_default();
    bytes
        .iter()
        .rev()
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Begins an entry at the end of `out`; returns where it begins.
pub(super) fn begin_entry(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; ENTRY_HEAD_BYTES]);
    start
}

/// Ends the entry that begins at `start`; returns `false` if its body is too long.
pub(super) fn end_entry(out: &mut [u8], start: usize) -> bool {
    let (head, body) = out[start..].split_at_mut(ENTRY_HEAD_BYTES);
    if body.len() > ENTRY_BYTES {
        return false;
    }
    let len = (body.len() as u32).to_le_bytes();
    head[..2].copy_from_slice(&MARKER);
    head[2..6].copy_from_slice(&len);
    head[6..].copy_from_slice(&crc32c(&[&len, body]).to_le_bytes());
    true
}

/// What the bytes at an offset begin with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Found<'a> {
    Entry(&'a [u8]),
    /// What may be an entry is longer than the bytes: so many are needed.
    Short(usize),
    /// Not an entry.
    Damage(&'static str),
}

/// Looks for an entry at the front of `bytes`.
pub(super) fn entry_at(bytes: &[u8]) -> Found<'_> {
    let Some(head) = bytes.first_chunk::<ENTRY_HEAD_BYTES>() else {
        return Found::Short(ENTRY_HEAD_BYTES);
    };
    if head[..2] != MARKER {
        return Found::Damage("no entry begins here");
    }
    let len = number_at(head, 2, 4) as usize;
    if len > ENTRY_BYTES {
        return Found::Damage("an entry of impossible length");
    }
    let Some(body) = bytes.get(ENTRY_HEAD_BYTES..ENTRY_HEAD_BYTES + len) else {
        return Found::Short(ENTRY_HEAD_BYTES + len);
    };
    if crc32c(&[&head[2..6], body]).to_le_bytes() != head[6..] {
        return Found::Damage("an entry with another checksum");
    }
    Found::Entry(body)
}

/// Returns the offset of the first intact entry in `bytes`.
pub(super) fn next_entry(bytes: &[u8]) -> Option<usize> {
    let pairs = bytes.windows(MARKER.len()).enumerate();
    let marked = pairs.filter(|(_, pair)| **pair == MARKER);
    marked
        .map(|(at, _)| at)
        .find(|at| matches!(entry_at(&bytes[*at..]), Found::Entry(_)))
}

/// Returns the CRC-32C of the parts, one after the other.
pub(crate) fn crc32c(parts: &[&[u8]]) -> u32 {
    parts
        .iter()
        .fold(0, |crc, part| crc32c::crc32c_append(crc, part))
}

/// Returns the path of file `number`.
pub(super) fn path_of(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:08}.queue"))
}

/// Returns the number in a file's name.
pub(super) fn number_of(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?.strip_suffix(".queue")?;
    let digits = name.len() >= 8 && name.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| name.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back_and_damaged_ones_are_told_apart() {
        let header = Header {
            number: 7,
            first_sample: 1 << 40,
        };
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes), Ok(header));
        for at in 0..HEADER_BYTES {
            let mut damaged = bytes;
            damaged[at] ^= 1;
            assert_eq!(Header::decode(&damaged), Err(HeaderFault::Damaged));
        }
        let mut newer = bytes;
        newer[8] = 9;
        let crc = crc32c(&[&newer[..28]]).to_le_bytes();
        newer[28..].copy_from_slice(&crc);
        assert_eq!(Header::decode(&newer), Err(HeaderFault::Newer(9)));
    }

    #[test]
    fn entries_are_found_behind_damage() {
        let mut bytes = Vec::new();
        for body in [&b"first"[..], b"second"] {
            let start = begin_entry(&mut bytes);
            bytes.extend_from_slice(body);
            assert!(end_entry(&mut bytes, start));
        }
        assert_eq!(entry_at(&bytes), Found::Entry(b"first"));
        let second = ENTRY_HEAD_BYTES + 5;
        assert_eq!(entry_at(&bytes[second..]), Found::Entry(b"second"));
        assert_eq!(entry_at(&bytes[..12]), Found::Short(15));
        assert_eq!(entry_at(&bytes[..3]), Found::Short(10));
        bytes[12] ^= 1;
        assert_eq!(
            entry_at(&bytes),
            Found::Damage("an entry with another checksum")
        );
        assert_eq!(next_entry(&bytes), Some(second));
        assert_eq!(next_entry(&bytes[..second + 3]), None);
        assert_eq!(next_entry(&[]), None);
    }

    #[test]
    fn names_hold_numbers() {
        let path = path_of(Path::new("/d"), 42);
        assert_eq!(path, Path::new("/d/00000042.queue"));
        assert_eq!(number_of(&path), Some(42));
        for name in ["42.queue", "0000004x.queue", "00000042", "cursor"] {
            assert_eq!(number_of(Path::new(name)), None, "{name}");
        }
    }
}
