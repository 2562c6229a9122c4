//! Batches: the unit of writing, checking and losing.
//!
//! ```text
//! file   = magic "NRTHXWAL" (8), version u32, number u32, crc u32, batch*
//! batch  = marker u16, counter u16, length u32, crc u32, body[length]     (all little-endian)
//! ```
//! The file's checksum (CRC-32C) covers the bytes before it, so that a damaged version is not taken for a newer one.
//! Files of version 1 lack it. A batch's checksum covers counter, length and body. The counter increases by one with
//! every batch of a file, so that a reader knows how many were lost in a damaged stretch.
//!
//! **Invariant:** a batch that `Scanner` returns has the bytes that were written; everything else is reported as
//! damage, or, at the very end of the last file, is the clean end of what reached the kernel. Damage of the header
//! costs only the header.

use crate::{
    error::{TsdbError, io_error},
    io::ReadFile,
};
use std::path::{Path, PathBuf};

/// First bytes of every WAL file.
pub(crate) const MAGIC: [u8; 8] = *b"NRTHXWAL";
/// Format version this release writes: 3, for which histograms are changes of those before.
pub(crate) const VERSION: u32 = 3;
/// Bytes before the first batch. Every version from 2 on starts with them, so that any release can check them.
pub(crate) const FILE_HEADER_BYTES: usize = 20;
/// Bytes that the header's checksum covers; all of the header in version 1.
const CHECKED_BYTES: usize = 16;
pub(crate) const BATCH_HEADER_BYTES: usize = 12;
const MARKER: u16 = 0xb57e;
/// Longest batch: a greater length is damage, not a reason to allocate.
pub(crate) const MAX_BATCH_BYTES: usize = 256 << 20;
/// Bytes read from the disk at once.
const WINDOW_BYTES: usize = 1 << 20;

/// Returns the header of WAL file `number`.
pub(crate) fn file_header(number: u32) -> [u8; FILE_HEADER_BYTES] {
    let mut header = [0; FILE_HEADER_BYTES];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..CHECKED_BYTES].copy_from_slice(&number.to_le_bytes());
    let crc = crc32c(&header[..CHECKED_BYTES]);
    header[CHECKED_BYTES..].copy_from_slice(&crc.to_le_bytes());
    header
}

/// Verdict on the first bytes of a file.
#[derive(Debug, Eq, PartialEq)]
enum Header {
    /// Batches start at this offset.
    Good(u64),
    /// Intact, but of an unknown version.
    Newer(u32),
    Damaged(&'static str),
}

/// Judges the first bytes of a file.
fn judge(bytes: &[u8]) -> Header {
    let bytes = &bytes[..bytes.len().min(FILE_HEADER_BYTES)];
    if bytes.len() < CHECKED_BYTES {
        return Header::Damaged("the file ends within its header");
    }
    let number = |at: usize| {
        let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
        word.map(u32::from_le_bytes)
    };
    if bytes[..8] != MAGIC {
        return Header::Damaged("it does not begin as a log file does");
    }
    let version = number(8).unwrap_or_default();
    if number(CHECKED_BYTES) == Some(crc32c(&bytes[..CHECKED_BYTES])) {
        return match version {
            2..=VERSION => Header::Good(FILE_HEADER_BYTES as u64),
            other => Header::Newer(other),
        };
    }
    // Version 1 has a batch there, or nothing.
    let batch = bytes.get(CHECKED_BYTES..CHECKED_BYTES + 2);
    if version == 1 && batch.is_none_or(|marker| marker == MARKER.to_le_bytes()) {
        return Header::Good(CHECKED_BYTES as u64);
    }
    Header::Damaged("the checksum of the file's header is wrong")
}

fn crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// Completes a batch whose body follows room for the header.
pub(crate) fn seal(batch: &mut [u8], counter: u16) {
    let len =
        u32::try_from(batch.len() - BATCH_HEADER_BYTES).expect("a batch is shorter than its limit");
    batch[..2].copy_from_slice(&MARKER.to_le_bytes());
    batch[2..4].copy_from_slice(&counter.to_le_bytes());
    batch[4..8].copy_from_slice(&len.to_le_bytes());
    let crc = checksum(batch);
    batch[8..12].copy_from_slice(&crc.to_le_bytes());
}

/// Corrects the checksum of every batch whose length fits the file, for fuzzing.
pub(crate) fn mend(bytes: &mut [u8]) {
    let mut at = match judge(bytes) {
        Header::Good(batches) => batches as usize,
        Header::Newer(_) | Header::Damaged(_) => FILE_HEADER_BYTES,
    };
    let mut counter = 0;
    while let Some(header) = bytes.get(at..at + BATCH_HEADER_BYTES) {
        let len = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
        let end = at
            .saturating_add(BATCH_HEADER_BYTES)
            .saturating_add(len)
            .min(bytes.len());
        seal(&mut bytes[at..end], counter);
        counter = counter.wrapping_add(1);
        at = end;
    }
}

/// Returns the checksum of a batch's counter, length and body.
fn checksum(batch: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&batch[2..8]), &batch[BATCH_HEADER_BYTES..])
}

/// One intact batch.
pub(crate) struct Batch<'a> {
    /// Offset of its body in the file.
    pub(crate) body_offset: u64,
    /// Number of batches missing before it.
    pub(crate) lost: u32,
    pub(crate) body: &'a [u8],
}

/// Next item of a WAL file.
pub(crate) enum Scanned<'a> {
    Batch(Batch<'a>),
    /// Bytes from `offset` to `end` are not the ones written.
    Damage {
        offset: u64,
        end: u64,
        detail: String,
    },
    /// The file ends in the middle of a batch that starts at `offset`, or in zeros.
    Torn {
        offset: u64,
    },
    End,
}

/// Reads the batches of one file in order.
pub(crate) struct Scanner<'f> {
    file: &'f dyn ReadFile,
    path: PathBuf,
    file_len: u64,
    buffer: Vec<u8>,
    /// Offset of `buffer` in the file.
    buffer_at: u64,
    /// Offset of the next read.
    at: u64,
    batches_at: u64,
    /// Defect of the header, until it is reported.
    bad_header: Option<&'static str>,
    next_counter: u16,
    lost_count_unknown: bool,
    /// Bytes that the search for the next batch may still checksum.
    search_bytes: u64,
}

impl<'f> Scanner<'f> {
    /// Checks the header of a WAL file.
    ///
    /// # Errors
    /// Fails when the file cannot be read or is of a newer version. A damaged header is the first thing scanned.
    pub(crate) fn open(file: &'f dyn ReadFile, path: &Path) -> Result<Self, TsdbError> {
        let file_len = file.len_bytes().map_err(io_error(path, "stat"))?;
        let mut header = [0; FILE_HEADER_BYTES];
        let len = file_len.min(FILE_HEADER_BYTES as u64) as usize;
        let header = &mut header[..len];
        file.read_exact_at(0, header)
            .map_err(io_error(path, "read"))?;
        let (mut at, mut bad_header) = (0, None);
        match judge(header) {
            Header::Good(batches) => at = batches,
            Header::Damaged(what) => bad_header = Some(what),
            Header::Newer(got) => {
                return Err(TsdbError::Version {
                    path: path.to_owned(),
                    got,
                    expected: VERSION,
                });
            }
        }
        Ok(Self {
            file,
            path: path.to_owned(),
            file_len,
            buffer: Vec::new(),
            buffer_at: at,
            at,
            batches_at: at,
            bad_header,
            next_counter: 0,
            lost_count_unknown: false,
            search_bytes: file_len.saturating_mul(8).saturating_add(1 << 20),
        })
    }

    /// Reports whether the file's header is intact and has a checksum.
    pub(crate) fn is_current(&self) -> bool {
        self.bad_header.is_none() && self.batches_at == FILE_HEADER_BYTES as u64
    }

    /// Returns the length the file had when it was opened.
    pub(crate) fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Returns the next item.
    ///
    /// # Errors
    /// Fails when the file cannot be read.
    pub(crate) fn next(&mut self) -> Result<Scanned<'_>, TsdbError> {
        if self.at >= self.file_len {
            return Ok(Scanned::End);
        }
        let start = self.at;
        if let Some(what) = self.bad_header.take() {
            if self.file_len < FILE_HEADER_BYTES as u64 {
                self.at = self.file_len;
                return Ok(Scanned::Torn { offset: start });
            }
            return self.skip(start, what);
        }
        match self.check(start)? {
            Check::Good(len) => Ok(self.hand_out(start, len)),
            Check::Torn if self.only_torn(start)? => {
                self.at = self.file_len;
                Ok(Scanned::Torn { offset: start })
            }
            Check::Torn => self.skip(start, "a batch with a bad length"),
            Check::Bad(what) => self.skip(start, what),
        }
    }

    fn hand_out(&mut self, start: u64, len: usize) -> Scanned<'_> {
        let from = (start - self.buffer_at) as usize;
        self.at = start + len as u64;
        let batch = &self.buffer[from..from + len];
        let counter = u16::from_le_bytes([batch[2], batch[3]]);
        let lost = if self.lost_count_unknown {
            u32::MAX
        } else {
            u32::from(counter.wrapping_sub(self.next_counter))
        };
        self.next_counter = counter.wrapping_add(1);
        self.lost_count_unknown = false;
        Scanned::Batch(Batch {
            body_offset: start + BATCH_HEADER_BYTES as u64,
            lost,
            body: &batch[BATCH_HEADER_BYTES..],
        })
    }

    /// Finds the next intact batch after damage at `start`.
    fn skip(&mut self, start: u64, what: &'static str) -> Result<Scanned<'_>, TsdbError> {
        let mut at = start + 1;
        let mut found = self.file_len;
        while at + (BATCH_HEADER_BYTES as u64) <= self.file_len && self.search_bytes > 0 {
            self.fill(at, BATCH_HEADER_BYTES)?;
            let window = &self.buffer[(at - self.buffer_at) as usize..];
            let [low, high] = MARKER.to_le_bytes();
            let candidate = window.windows(2).position(|pair| pair == [low, high]);
            let Some(offset) = candidate else {
                at += (window.len() - 1) as u64;
                continue;
            };
            at += offset as u64;
            if let Check::Good(_) = self.check(at)? {
                found = at;
                break;
            }
            at += 1;
        }
        // The counter may have wrapped in between.
        self.lost_count_unknown =
            (found - start) / (BATCH_HEADER_BYTES as u64) >= u64::from(u16::MAX);
        self.at = found;
        let detail = format!("{what}; {} bytes skipped", found - start);
        Ok(Scanned::Damage {
            offset: start,
            end: found,
            detail,
        })
    }

    /// Checks the batch at `at`, loading a good one into the buffer.
    fn check(&mut self, at: u64) -> Result<Check, TsdbError> {
        let left = self.file_len - at;
        if left < BATCH_HEADER_BYTES as u64 {
            return Ok(Check::Torn);
        }
        self.fill(at, BATCH_HEADER_BYTES)?;
        let header = &self.buffer[(at - self.buffer_at) as usize..];
        if header[..2] != MARKER.to_le_bytes() {
            return Ok(
                if header[..BATCH_HEADER_BYTES].iter().all(|byte| *byte == 0) {
                    Check::Torn
                } else {
                    Check::Bad("no batch begins here")
                },
            );
        }
        let len = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
        if len > MAX_BATCH_BYTES {
            return Ok(Check::Bad("a batch with an impossible length"));
        }
        let len = len + BATCH_HEADER_BYTES;
        if left < len as u64 {
            return Ok(Check::Torn);
        }
        self.search_bytes = self.search_bytes.saturating_sub(len as u64);
        self.fill(at, len)?;
        let from = (at - self.buffer_at) as usize;
        let batch = &self.buffer[from..from + len];
        let stored = u32::from_le_bytes([batch[8], batch[9], batch[10], batch[11]]);
        Ok(if checksum(batch) == stored {
            Check::Good(len)
        } else {
            Check::Bad("a batch with a wrong checksum")
        })
    }

    /// Reports whether nothing intact follows an incomplete batch at `start`, which makes it the end, not damage.
    fn only_torn(&mut self, start: u64) -> Result<bool, TsdbError> {
        let saved = (self.at, self.lost_count_unknown);
        let found = match self.skip(start, "")? {
            Scanned::Damage { end, .. } => end,
            _ => start,
        };
        (self.at, self.lost_count_unknown) = saved;
        Ok(found >= self.file_len)
    }

    /// Loads at least `len` bytes from `at` into the buffer; the file must have them.
    fn fill(&mut self, at: u64, len: usize) -> Result<(), TsdbError> {
        let inside =
            at >= self.buffer_at && at + len as u64 <= self.buffer_at + self.buffer.len() as u64;
        if inside {
            return Ok(());
        }
        let rest = self.file_len - at;
        let wanted = (len.max(WINDOW_BYTES) as u64).min(rest) as usize;
        self.buffer.resize(wanted, 0);
        self.buffer.shrink_to(WINDOW_BYTES.max(wanted));
        self.buffer_at = at;
        self.file
            .read_exact_at(at, &mut self.buffer)
            .map_err(io_error(&self.path, "read"))
    }
}

enum Check {
    Good(usize),
    Torn,
    Bad(&'static str),
}

#[cfg(test)]
mod tests;
