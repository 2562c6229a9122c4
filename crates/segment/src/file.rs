//! One segment: opened once, copied once per round.
//!
//! **Invariant:** the kernel copies the file; it is never mapped. A file that another process shortens is an error, not a
//! signal.

use crate::{
    SegmentError,
    layout::{FIXED_BYTES, HEADER_BYTES, Header, Marks, array_at, u64_at},
    records::Records,
};
use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::Path,
};

/// `O_NOFOLLOW | O_NONBLOCK`: neither a link nor a pipe is a segment.
pub(crate) const OPEN_FLAGS: i32 = if cfg!(any(target_arch = "aarch64", target_arch = "arm")) {
    0o100_000 | 0o4_000
} else {
    0o400_000 | 0o4_000
};
/// Copies begin at a multiple of this, as in the file, so that the kernel copies whole cells at once.
const ALIGNMENT: usize = 64;

/// What a segment is copied from.
pub(crate) trait Input {
    /// Returns the current length in bytes.
    fn length(&self) -> io::Result<u64>;

    /// Copies bytes; fails with `UnexpectedEof` if there are fewer.
    fn copy(&self, out: &mut [u8], at: u64) -> io::Result<()>;
}

impl Input for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn copy(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        self.read_exact_at(out, at)
    }
}

impl Input for &[u8] {
    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn copy(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let part = self.get(at..).and_then(|rest| rest.get(..out.len()));
        out.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// An open segment with what its last copy contained.
#[derive(Debug)]
pub(crate) struct SegmentFile<I = File> {
    input: I,
    pub(crate) header: Header,
    pub(crate) marks: Marks,
    pub(crate) records: Records,
    fixed: [u8; FIXED_BYTES],
    copy: Copy,
    /// Most bytes in use of a segment that is copied.
    bytes_max: u64,
}

impl SegmentFile {
    /// Opens a file and copies it for the first time. Returns also what is wrong behind its header.
    ///
    /// # Errors
    /// Fails when it cannot be read or its header is not one.
    pub(crate) fn open(path: &Path) -> Result<(Self, Option<SegmentError>), SegmentError> {
        Self::open_within(path, |_| u64::MAX)
    }

    /// Opens a file as `open` does, and copies nothing but the header if it uses more bytes than its owner may.
    ///
    /// # Errors
    /// As `open`.
    pub(crate) fn open_within(
        path: &Path,
        bytes_max: impl FnOnce(u32) -> u64,
    ) -> Result<(Self, Option<SegmentError>), SegmentError> {
        let mut options = OpenOptions::new();
        let file = options.read(true).custom_flags(OPEN_FLAGS).open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            let reason = "not a regular file";
            return Err(SegmentError::Header { reason });
        }
        Self::new(file, bytes_max(metadata.uid()))
    }
}

impl<I: Input> SegmentFile<I> {
    /// Copies a segment for the first time. Returns also what is wrong behind its header.
    ///
    /// # Errors
    /// As `open`.
    pub(crate) fn new(
        input: I,
        bytes_max: u64,
    ) -> Result<(Self, Option<SegmentError>), SegmentError> {
        let mut copy = Copy::default();
        copy.read(&input, 0, 0, HEADER_BYTES)?;
        let header = Header::parse(copy.bytes())?;
        let mut segment = Self {
            input,
            marks: Marks::default(),
            records: Records::default(),
            fixed: array_at(copy.bytes(), 0),
            header,
            copy,
            bytes_max,
        };
        let error = segment.read().err();
        Ok((segment, error))
    }

    /// Returns what it is copied from.
    pub(crate) fn input(&self) -> &I {
        &self.input
    }

    /// Copies as `read` does unless the segment uses more than `bytes_max` bytes.
    ///
    /// # Errors
    /// As `read`, and when it uses more.
    pub(crate) fn read_within(&mut self, bytes_max: u64) -> Result<(), SegmentError> {
        self.bytes_max = bytes_max;
        self.read()
    }

    /// Copies header and cells, and parses records that were added.
    ///
    /// # Errors
    /// Fails when the file is shorter than it says, malformed, or too large; what was parsed before stays.
    pub(crate) fn read(&mut self) -> Result<(), SegmentError> {
        let known = HEADER_BYTES + 8 * self.cells();
        self.copy.read(&self.input, 0, 0, known)?;
        if self.copy.bytes().get(..FIXED_BYTES) != Some(&self.fixed) {
            let reason = "it changed";
            return Err(SegmentError::Header { reason });
        }
        let marks = self.header.marks(self.copy.bytes())?;
        let is_less =
            marks.cells_used < self.marks.cells_used || marks.records_used < self.records.parsed();
        if is_less {
            let reason = "uses less than before";
            return Err(SegmentError::Header { reason });
        }
        if used(&marks) > self.bytes_max {
            return Err(SegmentError::TooMany {
                what: "bytes in use",
                limit: usize::try_from(self.bytes_max).unwrap_or(usize::MAX),
            });
        }
        let end = HEADER_BYTES + 8 * cells(&marks);
        if end > known {
            self.copy
                .read(&self.input, known, known as u64, end - known)?;
        }
        self.marks = marks;
        let parsed = self.records.parsed();
        if marks.records_used == parsed {
            return Ok(());
        }
        let mut added = Copy::default();
        let at = self.header.records_offset + parsed;
        let len = usize::try_from(marks.records_used - parsed).unwrap_or(usize::MAX);
        added.read(&self.input, 0, at, len)?;
        self.records.extend(added.bytes(), marks.cells_used)
    }

    /// Returns a cell of the last copy.
    pub(crate) fn cell(&self, at: usize) -> u64 {
        u64_at(self.copy.bytes(), HEADER_BYTES + 8 * at)
    }

    /// Returns the bytes in use that were copied.
    pub(crate) fn bytes(&self) -> u64 {
        used(&self.marks)
    }

    /// Returns the number of cells copied.
    pub(crate) fn cells(&self) -> usize {
        cells(&self.marks)
    }
}

fn used(marks: &Marks) -> u64 {
    HEADER_BYTES as u64 + 8 * marks.cells_used + marks.records_used
}

fn cells(marks: &Marks) -> usize {
    usize::try_from(marks.cells_used).unwrap_or_default()
}

/// An aligned buffer.
#[derive(Debug, Default)]
struct Copy {
    buffer: Vec<u8>,
    start: usize,
    len: usize,
}

impl Copy {
    fn bytes(&self) -> &[u8] {
        self.buffer
            .get(self.start..self.start + self.len)
            .unwrap_or_default()
    }

    /// Copies `len` bytes from `at` to `place` in the buffer, and ends it there; what is before stays.
    fn read(
        &mut self,
        input: &impl Input,
        place: usize,
        at: u64,
        len: usize,
    ) -> Result<(), SegmentError> {
        let expected = at + len as u64;
        if self.start + place + len > self.buffer.len() {
            // A file may claim more than it has.
            if input.length()? < expected {
                return Err(SegmentError::Truncated { expected });
            }
            self.grow(place, place + len);
        }
        let part = &mut self.buffer[self.start + place..self.start + place + len];
        input.copy(part, at).map_err(|error| {
            if error.kind() == io::ErrorKind::UnexpectedEof {
                return SegmentError::Truncated { expected };
            }
            SegmentError::Io(error)
        })?;
        self.len = place + len;
        Ok(())
    }

    fn grow(&mut self, kept: usize, len: usize) {
        let mut buffer = vec![0; len + ALIGNMENT];
        let start = buffer.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        let old = self.bytes();
        let kept = kept.min(old.len());
        buffer[start..start + kept].copy_from_slice(&old[..kept]);
        (self.buffer, self.start) = (buffer, start);
    }
}
