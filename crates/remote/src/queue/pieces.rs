//! Files of the queue in pieces: intact entries and what is damaged between them.
//!
//! **Invariant:** memory is that of the longest entry, except where a file is damaged.

use super::{
    bytes::Reader,
    decode::EntryHead,
    format::{ENTRY_HEAD_BYTES, Found, HEADER_BYTES, entry_at, next_entry},
};
use std::{fs::File, io, os::unix::fs::FileExt as _};

/// Bytes read at once.
const READ_BYTES: usize = 128 << 10;

/// Splits a file into entries and damaged parts.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    buffer: Vec<u8>,
    /// Offset of the buffer's first byte in the file.
    base: u64,
    /// Where in the buffer the next piece begins.
    at: usize,
}

/// Place of an entry's body in the buffer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Body {
    start: usize,
    end: usize,
}

/// A part of a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Piece {
    Entry {
        offset: u64,
        body: Body,
    },
    /// No intact entry begins between these offsets.
    Damage {
        from: u64,
        to: u64,
        detail: &'static str,
    },
    End,
}

impl Pieces {
    pub(super) fn begin_at(&mut self, offset: u64) {
        self.buffer.clear();
        self.base = offset;
        self.at = 0;
    }

    pub(super) fn body(&self, body: &Body) -> &[u8] {
        self.buffer.get(body.start..body.end).unwrap_or_default()
    }

    /// Returns the next piece of the file, of which `end` bytes are there.
    pub(super) fn next(&mut self, file: &File, end: u64) -> io::Result<Piece> {
        let offset = self.base + self.at as u64;
        let left = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX);
        if left == 0 {
            return Ok(Piece::End);
        }
        self.fill(file, ENTRY_HEAD_BYTES.min(left), end)?;
        loop {
            let detail = match entry_at(self.rest(left)) {
                Found::Entry(body) => {
                    let start = self.at + ENTRY_HEAD_BYTES;
                    let body = Body {
                        start,
                        end: start + body.len(),
                    };
                    self.at = body.end;
                    return Ok(Piece::Entry { offset, body });
                }
                Found::Short(needed) if needed <= left => {
                    if self.fill(file, needed, end)? {
                        continue;
                    }
                    "the file is shorter than it was"
                }
                Found::Short(_) => "the file ends in the middle of an entry",
                Found::Damage(detail) => detail,
            };
            let to = self.skip_damage(file, left, end)?;
            return Ok(Piece::Damage {
                from: offset,
                to,
                detail,
            });
        }
    }

    /// Moves on to the next intact entry, or to the end; returns its offset.
    fn skip_damage(&mut self, file: &File, left: usize, end: u64) -> io::Result<u64> {
        // Damage is rare, and files are bounded: the rest is read at once.
        self.fill(file, left, end)?;
        let rest = self.rest(left);
        let len = rest.len();
        let next = next_entry(rest.get(1..).unwrap_or_default());
        self.at += next.map_or(len, |at| at + 1);
        // What a file lost at its end is passed over too.
        Ok(next.map_or(end, |_| self.base + self.at as u64))
    }

    fn rest(&self, left: usize) -> &[u8] {
        let rest = self.buffer.get(self.at..).unwrap_or_default();
        rest.get(..left).unwrap_or(rest)
    }

    /// Reads until `needed` bytes are there, or the file ends; returns whether they are.
    fn fill(&mut self, file: &File, needed: usize, end: u64) -> io::Result<bool> {
        if self.buffer.len() - self.at >= needed {
            return Ok(true);
        }
        self.buffer.drain(..self.at);
        self.base += self.at as u64;
        self.at = 0;
        if needed <= READ_BYTES && self.buffer.capacity() > 4 * READ_BYTES {
            // A long entry is rare; its memory is not kept.
            self.buffer.shrink_to(2 * READ_BYTES);
        }
        while self.buffer.len() < needed {
            let from = self.base + self.buffer.len() as u64;
            let room = usize::try_from(end.saturating_sub(from)).unwrap_or(usize::MAX);
            let more = room.min(needed.max(READ_BYTES) - self.buffer.len());
            let len = self.buffer.len();
            self.buffer.resize(len + more, 0);
            let read = file.read_at(&mut self.buffer[len..], from);
            self.buffer
                .truncate(len + read.as_ref().copied().unwrap_or(0));
            match read {
                Ok(0) => return Ok(false),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// Returns how many samples a file of an earlier process holds, of `bytes` bytes.
pub(super) fn samples_in(file: &File, bytes: u64) -> io::Result<u64> {
    let mut samples = 0;
    let mut pieces = Pieces::default();
    pieces.begin_at((HEADER_BYTES as u64).min(bytes));
    loop {
        match pieces.next(file, bytes)? {
            Piece::End => return Ok(samples),
            Piece::Damage { .. } => {}
            Piece::Entry { body, .. } => {
                let head = EntryHead::read(&mut Reader::new(pieces.body(&body)));
                let head = head.unwrap_or_default();
                samples = samples.max(head.first.saturating_add(head.samples));
            }
        }
    }
}
