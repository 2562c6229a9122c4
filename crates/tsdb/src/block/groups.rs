//! Strips that wait to share pages.
//!
//! A query over many strips wants few columns of each. With pages of its own for each strip it would read all columns to
//! find one, so strips of the same width wait for each other, and a page holds a few columns of all of them. Most are
//! targets of one job, whose columns differ in little; those of others only make a query read more.
//!
//! **Invariant:** what waits is bounded in bytes and in groups; a page is little larger than one of a single strip.

use super::page::{PageBuilder, Starts, TARGET_BYTES};

/// Bytes of a group whose turn has come.
const GROUP_BYTES: usize = 256 << 10;
/// Most strips of a group.
const MOST_STRIPS: usize = 1024;
/// Most bytes that wait, in all groups.
const MOST_BYTES: usize = 512 << 10;
/// Most groups that wait.
const MOST_GROUPS: usize = 16;

/// The encoded columns of a strip.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    starts: Vec<(u32, Starts)>,
}

/// Strips of the same width.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// The strips by number, with their columns.
    strips: Vec<(usize, Chunks)>,
    /// Bytes of each column in all strips.
    column_bytes: Vec<usize>,
    bytes: usize,
}

/// Groups that wait for more strips; the one that was extended last is the last.
#[derive(Debug, Default)]
pub(super) struct Groups {
    waiting: Vec<Group>,
    bytes: usize,
}

impl Chunks {
    /// Adds a column; `encode` appends its chunk.
    pub(super) fn add(&mut self, starts: &[(u32, i64)], encode: impl FnOnce(&mut Vec<u8>)) {
        if !starts.is_empty() {
            self.starts.push((self.ends.len() as u32, starts.to_vec()));
        }
        encode(&mut self.bytes);
        self.ends.push(
            u32::try_from(self.bytes.len()).expect("a strip's chunks are written before 4 GiB"),
        );
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Reports whether the strip is so wide that its pages hold few of its columns anyway.
    pub(super) fn is_wide(&self) -> bool {
        self.bytes.len() >= GROUP_BYTES / 2
    }

    pub(super) fn columns(&self) -> usize {
        self.ends.len()
    }

    /// Returns the bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<u32>()
    }

    /// Forgets all columns.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.starts.clear();
    }

    /// Adds a column to a page.
    pub(super) fn copy_into(&self, column: usize, page: &mut PageBuilder) {
        let range = self.begin(column)..self.ends[column] as usize;
        let starts = self
            .starts
            .binary_search_by_key(&(column as u32), |of| of.0);
        let starts = starts.map_or(&[][..], |at| &self.starts[at].1);
        page.add(starts, |out| out.extend_from_slice(&self.bytes[range]));
    }

    fn begin(&self, column: usize) -> usize {
        column
            .checked_sub(1)
            .map_or(0, |before| self.ends[before] as usize)
    }
}

impl Group {
    /// Returns the strips by number, with their columns.
    pub(super) fn strips(&self) -> &[(usize, Chunks)] {
        &self.strips
    }

    fn add(&mut self, strip: usize, chunks: Chunks) {
        self.bytes += chunks.bytes();
        for (column, bytes) in self.column_bytes.iter_mut().enumerate() {
            *bytes += chunks.ends[column] as usize - chunks.begin(column);
        }
        self.strips.push((strip, chunks));
    }

    /// Reports whether waiting for more strips would gain nothing: a page has no room for more of them.
    fn is_full(&self) -> bool {
        self.bytes >= GROUP_BYTES
            || self.strips.len() >= MOST_STRIPS
            || self.column_bytes.iter().any(|bytes| *bytes >= TARGET_BYTES)
    }
}

impl Groups {
    /// Returns the bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a strip by its number; returns a group whose pages are to be written now.
    pub(super) fn add(&mut self, strip: usize, mut chunks: Chunks) -> Option<Group> {
        chunks.bytes.shrink_to_fit();
        let at = self
            .waiting
            .iter()
            .rposition(|group| group.column_bytes.len() == chunks.columns());
        let mut group = match at {
            Some(at) => self.waiting.remove(at),
            None => Group {
                column_bytes: vec![0; chunks.columns()],
                ..Group::default()
            },
        };
        self.bytes += chunks.bytes();
        group.add(strip, chunks);
        let is_full = group.is_full();
        self.waiting.push(group);
        if is_full {
            self.take(self.waiting.len() - 1)
        } else if self.bytes > MOST_BYTES || self.waiting.len() > MOST_GROUPS {
            self.take(0)
        } else {
            None
        }
    }

    /// Returns a group that waits, if any does.
    pub(super) fn next(&mut self) -> Option<Group> {
        self.take(0)
    }

    fn take(&mut self, at: usize) -> Option<Group> {
        let group = (at < self.waiting.len()).then(|| self.waiting.remove(at))?;
        self.bytes -= group.bytes;
        Some(group)
    }
}
