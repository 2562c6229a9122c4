//! The expected order of an origin's lines, front-coded.
//!
//! An entry says how many bytes a line's series text shares with the one before and what follows them. While lines
//! come as expected, everything that is compared is in the first-level cache: the line before and a short suffix.
//! Comment lines between samples are compared by length and hash.
//!
//! **Invariant:** an entry matches only directly behind the entry before it; `run` therefore starts at the first
//! entry or behind a line that `series_hash` found.

use crate::number;
use narthex_model::{ColumnId, bits::BitSet};
use std::{
    hash::{BuildHasher, Hasher},
    sync::OnceLock,
};

/// Marks an entry whose line is parsed and skipped: its series was dropped.
pub(super) const SKIP: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    shared: u8,
    suffix_len: u16,
    has_comments: bool,
}

#[derive(Clone, Copy, Debug)]
struct Comments {
    len: u32,
    hash: u64,
}

/// The lines an origin sent last time.
#[derive(Debug, Default)]
pub(super) struct Hint {
    entries: Vec<Entry>,
    columns: Vec<u32>,
    suffixes: Vec<u8>,
    comments: Vec<Comments>,
    /// Comments behind the last sample.
    trailer: Option<Comments>,
}

/// Where in the hint a run of expected lines may begin.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    pub(super) entry: usize,
    suffix: usize,
    comments: usize,
}

/// What a run reads into.
pub(super) struct Cells<'a> {
    pub(super) values: &'a mut [f64],
    pub(super) present: &'a mut BitSet,
    pub(super) skipped: usize,
    pub(super) repeated: usize,
}

impl Cells<'_> {
    #[inline]
    pub(super) fn put(&mut self, column: u32, value: f64) -> bool {
        if column == SKIP {
            self.skipped += 1;
            return false;
        }
        let at = column as usize;
        if self.present.contains(at) {
            self.repeated += 1;
            return false;
        }
        self.present.insert(at);
        self.values[at] = value;
        true
    }
}

/// Where a run ended.
pub(super) struct Run {
    /// The entry the next line should be.
    pub(super) place: Place,
    /// Where the next line starts.
    pub(super) at: usize,
    /// Where the line of the entry before `place` starts.
    pub(super) previous: usize,
}

impl Hint {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
            + self.columns.capacity() * size_of::<u32>()
            + self.suffixes.capacity()
            + self.comments.capacity() * size_of::<Comments>()
    }

    /// Reads lines from `at` for as long as they come as expected.
    ///
    /// `previous` is where the series text of the line before starts (equal to what the entry before describes);
    /// it is not looked at for the first entry.
    pub(super) fn run(
        &self,
        body: &[u8],
        mut at: usize,
        mut previous: usize,
        mut place: Place,
        cells: &mut Cells<'_>,
    ) -> Run {
        while let (Some(entry), Some(column)) =
            (self.entries.get(place.entry), self.columns.get(place.entry))
        {
            let mut start = at;
            let mut comments = place.comments;
            if entry.has_comments {
                let Some(expected) = self.comments.get(comments) else {
                    break;
                };
                let Some(block) = body.get(at..at + expected.len as usize) else {
                    break;
                };
                if hash(block) != expected.hash {
                    break;
                }
                start += block.len();
                comments += 1;
            }
            let (shared, len) = (usize::from(entry.shared), usize::from(entry.suffix_len));
            let value_at = start + shared + len;
            let suffix = &self.suffixes[place.suffix..place.suffix + len];
            let Some(series) = body.get(start..value_at) else {
                break;
            };
            if series[shared..] != *suffix || body[previous..previous + shared] != series[..shared]
            {
                break;
            }
            let Some((value, next)) =
                number::read_plain_line(body, value_at).or_else(|| general(body, value_at))
            else {
                break;
            };
            cells.put(*column, value);
            previous = start;
            at = next;
            place = Place {
                entry: place.entry + 1,
                suffix: place.suffix + len,
                comments,
            };
        }
        Run {
            place,
            at,
            previous,
        }
    }

    /// Reports whether `rest` is what followed the last sample.
    pub(super) fn ends_with(&self, rest: &[u8]) -> bool {
        match self.trailer {
            None => rest.is_empty(),
            Some(expected) => rest.len() == expected.len as usize && hash(rest) == expected.hash,
        }
    }

    /// Lists, for every entry, the hash of its series text and the place behind it.
    pub(super) fn index(&self) -> Vec<(u64, Place)> {
        let mut series = Vec::new();
        let mut place = Place::default();
        let mut all = Vec::with_capacity(self.entries.len());
        for entry in &self.entries {
            let len = usize::from(entry.suffix_len);
            series.truncate(usize::from(entry.shared));
            series.extend_from_slice(&self.suffixes[place.suffix..place.suffix + len]);
            let comments = place.comments + usize::from(entry.has_comments);
            place = Place {
                entry: place.entry + 1,
                suffix: place.suffix + len,
                comments,
            };
            all.push((hash(&series), place));
        }
        all
    }

    pub(super) fn column_before(&self, place: Place) -> u32 {
        self.columns
            .get(place.entry.wrapping_sub(1))
            .copied()
            .unwrap_or(SKIP)
    }
}

/// A value the plain form does not cover, up to the newline; `None` when the line has a timestamp or an error.
#[cold]
fn general(body: &[u8], from: usize) -> Option<(f64, usize)> {
    let rest = body.get(from..)?;
    let len = memchr::memchr(b'\n', rest)?;
    let value = number::read(&rest[..len])?;
    Some((value, from + len + 1))
}

/// Builds the hint for the next round from the lines of this one.
#[derive(Debug, Default)]
pub(super) struct Learner {
    hint: Hint,
    previous: (usize, usize),
    behind: usize,
}

impl Learner {
    pub(super) fn with_capacity(lines: usize) -> Self {
        let mut learner = Self::default();
        learner.hint.entries.reserve_exact(lines);
        learner.hint.columns.reserve_exact(lines);
        learner
    }

    /// Learns one sample line: series text at `start..value_at`, the next line at `next`.
    ///
    /// The series text includes the blanks before the value. One longer than 65,535 bytes beyond what it shares
    /// with the line before cannot be coded: learning reports `false` and the line stays unexpected.
    pub(super) fn line(
        &mut self,
        body: &[u8],
        start: usize,
        value_at: usize,
        next: usize,
        column: ColumnIdOrSkip,
    ) -> bool {
        let series = &body[start..value_at];
        let before = &body[self.previous.0..self.previous.1];
        let limit = series.len().min(before.len()).min(usize::from(u8::MAX));
        let shared = (0..limit)
            .find(|&at| series[at] != before[at])
            .unwrap_or(limit);
        let block = &body[self.behind..start];
        self.behind = next;
        let Ok(suffix_len) = u16::try_from(series.len() - shared) else {
            return false;
        };
        if !block.is_empty() {
            self.hint.comments.push(comments(block));
        }
        #[expect(clippy::cast_possible_truncation, reason = "bounded by u8::MAX above")]
        self.hint.entries.push(Entry {
            shared: shared as u8,
            suffix_len,
            has_comments: !block.is_empty(),
        });
        self.hint.columns.push(column.0);
        self.hint.suffixes.extend_from_slice(&series[shared..]);
        self.previous = (start, value_at);
        true
    }

    pub(super) fn finish(mut self, body: &[u8]) -> Hint {
        let rest = &body[self.behind..];
        self.hint.trailer = (!rest.is_empty()).then(|| comments(rest));
        self.hint.entries.shrink_to_fit();
        self.hint.columns.shrink_to_fit();
        self.hint.suffixes.shrink_to_fit();
        self.hint.comments.shrink_to_fit();
        self.hint
    }
}

/// A column, or `SKIP`.
#[derive(Clone, Copy, Debug)]
pub(super) struct ColumnIdOrSkip(pub(super) u32);

impl From<Option<ColumnId>> for ColumnIdOrSkip {
    fn from(column: Option<ColumnId>) -> Self {
        Self(column.map_or(SKIP, |column| column.0))
    }
}

fn comments(block: &[u8]) -> Comments {
    // A body is far below 4 GiB; one that is not would only fail to match.
    Comments {
        len: u32::try_from(block.len()).unwrap_or(u32::MAX),
        hash: hash(block),
    }
}

/// Hashes bytes from outside with a seed of this process.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    static SEED: OnceLock<foldhash::quality::RandomState> = OnceLock::new();
    let mut hasher = SEED.get_or_init(Default::default).build_hasher();
    hasher.write(bytes);
    hasher.finish()
}
