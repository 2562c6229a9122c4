//! The expected order of an origin's lines, front-coded.
//!
//! An entry gives the number of bytes a line's series text shares with the previous one, and the bytes that follow
//! them. While lines are as expected, all compared data is in the first-level cache: the previous line and a short
//! suffix. Comment lines between samples are compared by length and hash. A line may carry a time or an exemplar: the
//! text after its value is read, not expected.
//!
//! **Invariant:** an entry matches only directly after the entry before it; `run` therefore starts at the first
//! entry or after a line that `series_hash` found.

use super::lex::{Cursor, Dialect, Tail};
use crate::{
    cells::{Cells, SKIP},
    hash::{hash, hasher},
    number,
};
use std::hash::Hasher as _;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Entry {
    shared: u8,
    suffix_len: u16,
    has_comments: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Comments {
    len: u32,
    hash: u64,
}

/// The lines of an origin's last body.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct LineTemplate {
    entries: Vec<Entry>,
    targets: Vec<u32>,
    suffixes: Vec<u8>,
    comments: Vec<Comments>,
    /// Comments after the last sample.
    trailer: Option<Comments>,
}

/// Position in the template at which a run of expected lines may begin.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    pub(super) entry: usize,
    suffix: usize,
    comments: usize,
}

/// Destination of a run's values.
pub(super) struct Reading<'a> {
    pub(super) dialect: Dialect,
    pub(super) cells: &'a mut Cells,
    pub(super) rich: &'a mut Vec<Rich>,
}

/// A line of a run with more than a value.
#[derive(Debug)]
pub(super) struct Rich {
    pub(super) target: u32,
    /// Whether its value is the first of its column.
    pub(super) is_first: bool,
    pub(super) tail: Tail,
}

/// End of a run.
pub(super) struct Run {
    /// Entry expected for the next line.
    pub(super) place: Place,
    /// Offset of the next line.
    pub(super) at: usize,
    /// Offset of the line of the entry before `place`.
    pub(super) previous: usize,
}

impl LineTemplate {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns a hash of all contents, valid within this process.
    pub(super) fn hash(&self) -> u64 {
        let mut hasher = hasher();
        // One word for each line: field by field, the hash would cost a tenth of what learning the line does.
        for (entry, target) in self.entries.iter().zip(&self.targets) {
            let shape = u32::from(entry.shared) << 24
                | u32::from(entry.suffix_len) << 8
                | u32::from(entry.has_comments);
            hasher.write_u64(u64::from(shape) << 32 | u64::from(*target));
        }
        hasher.write(&self.suffixes);
        for block in self.comments.iter().chain(&self.trailer) {
            hasher.write_u32(block.len);
            hasher.write_u64(block.hash);
        }
        hasher.finish()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
            + self.targets.capacity() * size_of::<u32>()
            + self.suffixes.capacity()
            + self.comments.capacity() * size_of::<Comments>()
    }

    /// Reads lines from `at` for as long as they are as expected.
    ///
    /// `previous` is the offset of the previous line's series text (equal to the one the previous entry describes);
    /// it is ignored for the first entry.
    // Inlined into its one caller, the walk: a separate function takes six instructions more per line.
    #[inline]
    pub(super) fn run(
        &self,
        body: &[u8],
        mut at: usize,
        mut previous: usize,
        mut place: Place,
        into: &mut Reading<'_>,
    ) -> Run {
        while let (Some(entry), Some(target)) =
            (self.entries.get(place.entry), self.targets.get(place.entry))
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
            match number::read_plain_line(body, value_at) {
                Some((value, next)) => {
                    into.cells.insert(*target, value);
                    at = next;
                }
                None => match general(body, value_at, *target, into) {
                    Some(next) => at = next,
                    None => break,
                },
            }
            previous = start;
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

    /// Reports whether `rest` equals the text after the last sample.
    pub(super) fn ends_with(&self, rest: &[u8]) -> bool {
        match self.trailer {
            None => rest.is_empty(),
            Some(expected) => rest.len() == expected.len as usize && hash(rest) == expected.hash,
        }
    }

    /// Lists, for every entry, the hash of its series text and the position after it.
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

    /// Returns the target of the entry before a place.
    pub(super) fn target_before(&self, place: Place) -> u32 {
        self.targets
            .get(place.entry.wrapping_sub(1))
            .copied()
            .unwrap_or(SKIP)
    }
}

/// Reads a value outside the plain form, and the text after it; returns `None` when the line has an error.
#[cold]
fn general(body: &[u8], from: usize, target: u32, into: &mut Reading<'_>) -> Option<usize> {
    let mut cursor = Cursor::new(body, from, into.dialect);
    // The preceding text holds the blank that the dialect demands before a value.
    let tail = cursor.tail().ok()?;
    let is_first = into.cells.insert(target, tail.value);
    let end = tail.end;
    if tail.time_ms.is_some() || tail.exemplar.is_some() {
        into.rich.push(Rich {
            target,
            is_first,
            tail,
        });
    }
    Some(end)
}

/// Builds the template for the next round from the lines of this one.
#[derive(Debug, Default)]
pub(super) struct Learner {
    template: LineTemplate,
    previous: (usize, usize),
    behind: usize,
}

impl Learner {
    pub(super) fn with_capacity(lines: usize) -> Self {
        let mut learner = Self::default();
        learner.template.entries.reserve_exact(lines);
        learner.template.targets.reserve_exact(lines);
        learner
    }

    /// Learns one sample line: series text at `start..value_at`, the next line at `next`.
    ///
    /// The series text includes the blanks before the value. One with more than 65,535 bytes beyond the prefix it
    /// shares with the previous line cannot be coded: the method returns `false` and the line stays unexpected.
    pub(super) fn line(
        &mut self,
        body: &[u8],
        start: usize,
        value_at: usize,
        next: usize,
        target: u32,
    ) -> bool {
        let series = &body[start..value_at];
        let before = &body[self.previous.0..self.previous.1];
        let shared = shared_prefix(series, before).min(usize::from(u8::MAX));
        let block = &body[self.behind..start];
        self.behind = next;
        let Ok(suffix_len) = u16::try_from(series.len() - shared) else {
            return false;
        };
        if !block.is_empty() {
            self.template.comments.push(comments(block));
        }
        #[expect(clippy::cast_possible_truncation, reason = "bounded by u8::MAX above")]
        self.template.entries.push(Entry {
            shared: shared as u8,
            suffix_len,
            has_comments: !block.is_empty(),
        });
        self.template.targets.push(target);
        self.template.suffixes.extend_from_slice(&series[shared..]);
        self.previous = (start, value_at);
        true
    }

    /// Leaves out what is before `next`: a line that stays unexpected must not be taken for a comment before the one after it.
    pub(super) fn pass_over(&mut self, next: usize) {
        self.behind = next;
    }

    pub(super) fn finish(mut self, body: &[u8]) -> LineTemplate {
        let rest = &body[self.behind..];
        self.template.trailer = (!rest.is_empty()).then(|| comments(rest));
        self.template.entries.shrink_to_fit();
        self.template.targets.shrink_to_fit();
        self.template.suffixes.shrink_to_fit();
        self.template.comments.shrink_to_fit();
        self.template
    }
}

/// Returns the number of bytes with which both texts begin.
fn shared_prefix(a: &[u8], b: &[u8]) -> usize {
    let words = a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0);
    let mut at = 0;
    for (a, b) in words {
        let different = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if different != 0 {
            return at + different.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = a[at..].iter().zip(&b[at..]);
    at + rest.take_while(|(a, b)| a == b).count()
}

fn comments(block: &[u8]) -> Comments {
    // A body is far below 4 GiB; a larger one would only fail to match.
    Comments {
        len: u32::try_from(block.len()).unwrap_or(u32::MAX),
        hash: hash(block),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_prefixes_end_at_the_first_other_byte() {
        let text: Vec<u8> = (0..40).collect();
        for len in 0..=text.len() {
            assert_eq!(shared_prefix(&text[..len], &text), len);
            let mut other = text.clone();
            if let Some(byte) = other.get_mut(len) {
                *byte = 255;
            }
            assert_eq!(shared_prefix(&text, &other), len);
        }
    }
}
