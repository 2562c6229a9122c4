//! The cursor: what of the queue was acknowledged, durable after every batch.
//!
//! Two slots are written in turn, each with a number and a checksum; the intact one with the higher number counts. So a
//! write that is cut short leaves the one before.
//!
//! **Invariant:** a shard's position only moves forward, and never past what the destination has acknowledged.

use super::{
    bytes::Reader,
    format::{crc32c, number_at},
};
use narthex_model::varint::put_varint;
use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

const MAGIC: [u8; 8] = *b"NRTHXRWC";
const VERSION: u32 = 1;
/// Bytes from one slot to the next.
const SLOT_BYTES: u64 = 64 << 10;
/// Bytes of a slot before its body: magic, version, length, checksum.
const HEAD_BYTES: usize = 20;
/// Most shards of a range; a slot has room for all of them in two ranges.
pub(crate) const MAX_SHARDS: usize = 1024;

/// A place between two samples of a queue.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Position {
    /// Number of the file.
    pub(crate) file: u64,
    /// Offset of an entry, in bytes; 0 is the file's beginning.
    pub(crate) offset: u64,
    /// Number of items of the entry before the place.
    pub(crate) index: u64,
    /// Samples before the place, since the queue was created; lost ones included.
    pub(crate) sample: u64,
}

impl Position {
    /// Returns the beginning of a file, before which `sample` samples are.
    pub(crate) fn start_of(file: u64, sample: u64) -> Self {
        Self {
            file,
            sample,
            ..Self::default()
        }
    }
}

/// A part of the queue that is being sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct PendingRange {
    /// The beginning of the file that it ends before; `None` for the range that grows.
    pub(crate) until: Option<Position>,
    /// What each shard has acknowledged; a series belongs to a shard by its hash.
    pub(crate) shards: Vec<Position>,
}

impl PendingRange {
    /// Returns the place before which everything is acknowledged.
    pub(crate) fn low(&self) -> Position {
        self.shards.iter().copied().min().unwrap_or_default()
    }
}

/// The file that holds the ranges.
#[derive(Debug)]
pub(crate) struct CursorFile {
    file: File,
    path: PathBuf,
    written: u64,
}

impl CursorFile {
    /// Opens the cursor in a queue's directory; returns its ranges, oldest first, none if it is new.
    ///
    /// A damaged cursor counts as new, and is reported.
    ///
    /// # Errors
    /// Fails if the file cannot be opened or read, or is of a newer release.
    pub(crate) fn open(dir: &Path) -> io::Result<(Self, Vec<PendingRange>)> {
        let path = dir.join("cursor");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)?;
        let mut newest: Option<(u64, Vec<PendingRange>)> = None;
        let mut is_damaged = false;
        for slot in [0, SLOT_BYTES] {
            match read_slot(&file, slot)? {
                Slot::Empty => {}
                Slot::Damaged => is_damaged = true,
                Slot::Newer(version) => {
                    let text = format!(
                        "{}: a cursor of version {version}, this release knows {VERSION}",
                        path.display()
                    );
                    return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                }
                Slot::Written(number, ranges) => {
                    if newest.as_ref().is_none_or(|(known, _)| *known < number) {
                        newest = Some((number, ranges));
                    }
                }
            }
        }
        if is_damaged {
            tracing::warn!(
                file = path.display().to_string(),
                started_over = newest.is_none(),
                "A slot of a remote write cursor is damaged."
            );
        }
        let (written, ranges) = newest.unwrap_or_default();
        let cursor = Self {
            file,
            path,
            written,
        };
        Ok((cursor, ranges))
    }

    /// Writes the ranges, oldest first; when it returns, they outlive the process.
    ///
    /// # Errors
    /// Fails if they cannot be written; the ones before stay.
    pub(crate) fn write(&mut self, ranges: &[PendingRange]) -> io::Result<()> {
        let number = self.written + 1;
        let slot = (number % 2) * SLOT_BYTES;
        let bytes = encode(number, ranges);
        self.file.write_all_at(&bytes, slot).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", self.path.display()))
        })?;
        self.written = number;
        Ok(())
    }
}

fn encode(number: u64, ranges: &[PendingRange]) -> Vec<u8> {
    let mut bytes = vec![0; HEAD_BYTES];
    put_varint(&mut bytes, number);
    put_varint(&mut bytes, ranges.len() as u64);
    for range in ranges {
        let until = range.until.unwrap_or_default();
        put_varint(&mut bytes, until.file);
        put_varint(&mut bytes, until.sample);
        put_varint(&mut bytes, range.shards.len() as u64);
        for at in &range.shards {
            for value in [at.file, at.offset, at.index, at.sample] {
                put_varint(&mut bytes, value);
            }
        }
    }
    let (head, body) = bytes.split_at_mut(HEAD_BYTES);
    let len = u32::try_from(body.len()).unwrap_or(u32::MAX);
    head[..8].copy_from_slice(&MAGIC);
    head[8..12].copy_from_slice(&VERSION.to_le_bytes());
    head[12..16].copy_from_slice(&len.to_le_bytes());
    let crc = crc32c(&[&head[..16], body]);
    head[16..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

enum Slot {
    Empty,
    Damaged,
    Newer(u32),
    Written(u64, Vec<PendingRange>),
}

fn read_slot(file: &File, at: u64) -> io::Result<Slot> {
    let mut bytes = vec![0; SLOT_BYTES as usize];
    let mut got = 0;
    while got < bytes.len() {
        match file.read_at(&mut bytes[got..], at + got as u64)? {
            0 => break,
            more => got += more,
        }
    }
    bytes.truncate(got);
    Ok(decode(&bytes))
}

fn decode(bytes: &[u8]) -> Slot {
    if bytes.iter().all(|byte| *byte == 0) {
        return Slot::Empty;
    }
    let len = number_at(bytes, 12, 4) as usize;
    let Some(body) = bytes.get(HEAD_BYTES..HEAD_BYTES.saturating_add(len)) else {
        return Slot::Damaged;
    };
    let crc = u64::from(crc32c(&[&bytes[..16], body]));
    if bytes[..8] != MAGIC || number_at(bytes, 16, 4) != crc {
        return Slot::Damaged;
    }
    let version = number_at(bytes, 8, 4) as u32;
    if version != VERSION {
        return Slot::Newer(version);
    }
    match read_body(body) {
        Some((number, ranges)) => Slot::Written(number, ranges),
        None => Slot::Damaged,
    }
}

fn read_body(body: &[u8]) -> Option<(u64, Vec<PendingRange>)> {
    let mut reader = Reader::new(body);
    let number = reader.varint().ok()?;
    let mut ranges = Vec::new();
    for _ in 0..reader.varint().ok()? {
        let until = Position::start_of(reader.varint().ok()?, reader.varint().ok()?);
        let shards = reader.varint().ok()?;
        if !(1..=MAX_SHARDS as u64).contains(&shards) {
            return None;
        }
        let mut position = || {
            Some(Position {
                file: reader.varint().ok()?,
                offset: reader.varint().ok()?,
                index: reader.varint().ok()?,
                sample: reader.varint().ok()?,
            })
        };
        let shards = (0..shards).map(|_| position()).collect::<Option<_>>()?;
        let until = Some(until).filter(|until| until.file != 0);
        ranges.push(PendingRange { until, shards });
    }
    Some((number, ranges))
}

/// Reads any bytes as a slot and as its body, for fuzzing: what is accepted is written the same way again.
pub(super) fn fuzz(bytes: &[u8]) {
    if let Some((number, ranges)) = read_body(bytes) {
        let again = decode(&encode(number, &ranges));
        assert!(matches!(again, Slot::Written(n, same) if n == number && same == ranges));
    }
    // What is accepted has a checksum, which hardly any bytes have.
    drop(decode(bytes));
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_testkit::TempDir;

    fn range(sample: u64) -> PendingRange {
        let at = |sample| Position {
            file: 3,
            offset: 1 << 30,
            index: 7,
            sample,
        };
        PendingRange {
            until: (sample > 5).then_some(Position::start_of(9, 77)),
            shards: vec![at(sample), at(sample + 1)],
        }
    }

    #[test]
    fn the_last_whole_write_counts() {
        let dir = TempDir::new("cursor");
        let (mut cursor, ranges) = CursorFile::open(dir.path()).unwrap();
        assert_eq!(ranges, []);
        cursor.write(&[range(1)]).unwrap();
        cursor.write(&[range(6), range(2)]).unwrap();
        let (_, ranges) = CursorFile::open(dir.path()).unwrap();
        assert_eq!(ranges, [range(6), range(2)]);
        assert_eq!(range(6).low().sample, 6);

        // The second write went to the first slot: damaged, the other one counts.
        let path = dir.join("cursor");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[30] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let (mut cursor, ranges) = CursorFile::open(dir.path()).unwrap();
        assert_eq!(ranges, [range(1)]);
        // And the next write replaces the damaged one.
        cursor.write(&[range(3)]).unwrap();
        let (_, ranges) = CursorFile::open(dir.path()).unwrap();
        assert_eq!(ranges, [range(3)]);

        std::fs::write(&path, vec![b'x'; 100_000]).unwrap();
        assert_eq!(CursorFile::open(dir.path()).unwrap().1, []);
    }

    #[test]
    fn as_many_shards_as_allowed_fit_a_slot() {
        let most = PendingRange {
            until: Some(Position {
                file: u64::MAX >> 20,
                ..Position::default()
            }),
            shards: vec![
                Position {
                    file: 1 << 30,
                    offset: 1 << 35,
                    index: 1 << 30,
                    sample: 1 << 50,
                };
                MAX_SHARDS
            ],
        };
        assert!(encode(1 << 50, &[most.clone(), most]).len() as u64 <= SLOT_BYTES);
    }
}
