//! Repetitions in a skeleton's text (LZ77).
//!
//! **Invariant:** neither a repetition nor what it repeats crosses a number: the distance between them depends on how
//! long the numbers in between are, their bytes do not.

use super::skeleton::Skeleton;
use crate::deflate::symbols::{FARTHEST, LONGEST};

/// Of four bytes: three rarely cost fewer bits than themselves.
const SHORTEST: usize = 4;
/// Repetitions this long are taken without looking whether the next byte begins a longer one.
const LONG_ENOUGH: usize = 64;
/// A number may become this much longer before a distance over it is too far.
const GROWTH: usize = 4;
const HASH_BITS: u32 = 15;
const NONE: u32 = u32::MAX;

/// A part of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    Literal(u8),
    Repeat(Repeat),
}

/// Bytes that the text has had before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Repeat {
    pub(super) length: usize,
    /// The piece that is repeated from.
    pub(super) piece: usize,
    /// Position of the repetition in its piece less that of the original in its own.
    pub(super) shift: isize,
    /// Distance between them in the page that was searched.
    pub(super) distance: usize,
}

/// Searches a skeleton's text; `starts` are where its pieces begin in the page.
pub(super) struct Search<'a> {
    skeleton: &'a Skeleton,
    starts: &'a [u32],
    /// The last position for each hash of four bytes.
    last: Vec<u32>,
    /// The position before each one with the same hash.
    before: Vec<u32>,
    /// How many positions are tried.
    tries: usize,
}

/// A piece being cut into tokens.
#[derive(Clone, Copy)]
struct Piece {
    at: usize,
    from: usize,
    end: usize,
}

impl<'a> Search<'a> {
    pub(super) fn new(skeleton: &'a Skeleton, starts: &'a [u32]) -> Self {
        // A long text is searched less thoroughly: a scrape waits for it.
        let tries = ((4 << 20) / skeleton.text.len().max(1)).clamp(4, 64);
        Self {
            skeleton,
            starts,
            last: vec![NONE; 1 << HASH_BITS],
            before: vec![NONE; skeleton.text.len()],
            tries,
        }
    }

    /// Appends a piece's tokens; pieces are cut in their order.
    pub(super) fn cut(&mut self, at: usize, tokens: &mut Vec<Token>) {
        let range = self.skeleton.piece(at);
        let piece = Piece {
            at,
            from: range.start,
            end: range.end,
        };
        let mut position = piece.from;
        let mut found = None;
        while position < piece.end {
            let here = found.take().or_else(|| self.longest(piece, position, 0));
            self.remember(position);
            let Some(repeat) = here else {
                tokens.push(Token::Literal(self.skeleton.text[position]));
                position += 1;
                continue;
            };
            if repeat.length < LONG_ENOUGH {
                found = self.longest(piece, position + 1, repeat.length);
                if found.is_some() {
                    tokens.push(Token::Literal(self.skeleton.text[position]));
                    position += 1;
                    continue;
                }
            }
            tokens.push(Token::Repeat(repeat));
            (position + 1..position + repeat.length).for_each(|at| self.remember(at));
            position += repeat.length;
        }
    }

    fn hash(&self, position: usize) -> Option<usize> {
        let bytes = self.skeleton.text.get(position..position + SHORTEST)?;
        let bytes = u32::from_le_bytes(bytes.try_into().ok()?);
        Some((bytes.wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS)) as usize)
    }

    fn remember(&mut self, position: usize) {
        if let Some(hash) = self.hash(position) {
            self.before[position] = self.last[hash];
            self.last[hash] = position as u32;
        }
    }

    /// Returns the longest repetition at a position that is longer than `than`.
    fn longest(&self, piece: Piece, position: usize, than: usize) -> Option<Repeat> {
        let limit = piece.end.saturating_sub(position).min(LONGEST);
        let mut longest = than.max(SHORTEST - 1);
        if limit <= longest {
            return None;
        }
        let text = &self.skeleton.text[..];
        let mut best = None;
        let mut candidate = self.last[self.hash(position)?];
        for _ in 0..self.tries {
            if candidate == NONE {
                break;
            }
            let from = candidate as usize;
            candidate = self.before[from];
            // Most candidates fail at the byte that would make them longer.
            if text[from + longest] != text[position + longest] {
                continue;
            }
            let same = text[from..].iter().zip(&text[position..position + limit]);
            let same = same.take_while(|(one, other)| one == other).count();
            if same <= longest {
                continue;
            }
            let source = self.skeleton.piece_at(from);
            let length = same.min(self.skeleton.piece(source).end - from);
            let repeat = self.repeat(piece, position, (source, from), length);
            if repeat.distance + GROWTH * (piece.at - source) > FARTHEST {
                break;
            }
            if length > longest && length >= worthwhile(repeat.distance) {
                longest = length;
                best = Some(repeat);
                if length == limit {
                    break;
                }
            }
        }
        best
    }

    fn repeat(
        &self,
        piece: Piece,
        position: usize,
        (source, from): (usize, usize),
        length: usize,
    ) -> Repeat {
        let shift =
            (position - piece.from) as isize - (from - self.skeleton.piece(source).start) as isize;
        let between = (self.starts[piece.at] - self.starts[source]) as isize;
        Repeat {
            length,
            piece: source,
            shift,
            distance: (between + shift) as usize,
        }
    }
}

/// Returns the shortest length that takes fewer bits as a repetition than as it is, about.
fn worthwhile(distance: usize) -> usize {
    match distance {
        0..512 => SHORTEST,
        512..8192 => SHORTEST + 1,
        _ => SHORTEST + 2,
    }
}
