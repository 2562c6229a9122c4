//! gzip for pages of lines.
//!
//! A line of an exposition is the line before it with a few bytes changed, so matches are looked for there and nowhere
//! else: in step from the beginning, and again behind the next quote. There is no search and no window, and codes are
//! the same for every page: compressing a line costs two to three times what writing it does.
//!
//! **Invariant:** what is written is a gzip member (RFC 1952) of one block with dynamic codes (RFC 1951); every match
//! lies in the line directly before.

mod codes;
mod crc;

use std::iter;

use self::codes::{Code, Codes};
use self::crc::Crc;

/// Fewer common bytes are written as literals.
const MATCH_MIN: usize = 4;
/// Most bytes that one match copies.
const MATCH_MAX: usize = 258;
/// How far back a match may begin.
const DISTANCE_MAX: usize = 32_768;
/// Length of `# HELP ` and `# TYPE `.
const KEYWORD: usize = 7;

/// Kinds of bytes: what ends a line, and behind what lines are alike again.
const LINE_FEED: u8 = 1;
const SAMPLE_EDGE: u8 = 2;
const COMMENT_EDGE: u8 = 4;
static KINDS: [u8; 256] = {
    let mut kinds = [0; 256];
    kinds[b'\n' as usize] = LINE_FEED;
    kinds[b'"' as usize] = SAMPLE_EDGE;
    kinds[b'{' as usize] = SAMPLE_EDGE;
    kinds[b' ' as usize] = COMMENT_EDGE;
    kinds
};

/// Compresses lines as they come.
pub(crate) struct Compressor {
    codes: &'static Codes,
    bits: Bits,
    crc: Crc,
    length: u32,
    /// The last line of all that was written.
    last: Vec<u8>,
}

impl Compressor {
    /// Begins a member.
    pub(crate) fn new() -> Self {
        let codes = Codes::get();
        let mut bits = Bits::default();
        // Deflate, no time, no name, an unknown system.
        bits.bytes
            .extend_from_slice(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255]);
        codes.head().for_each(|code| bits.write(code));
        Self {
            codes,
            bits,
            crc: Crc::new(),
            length: 0,
            last: Vec::new(),
        }
    }

    /// Compresses whole lines.
    pub(crate) fn write(&mut self, text: &[u8]) {
        self.crc.add(text);
        self.length = self.length.wrapping_add(text.len() as u32);
        let last = std::mem::take(&mut self.last);
        let (mut before, mut rest) = (&last[..], text);
        while !rest.is_empty() {
            let line;
            (line, rest) = rest.split_at(self.line(rest, before));
            before = line;
        }
        self.last = before.to_vec();
    }

    /// Appends what was made since the last call.
    pub(crate) fn take_into(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.bits.bytes);
    }

    /// Ends the member.
    pub(crate) fn finish(mut self, out: &mut Vec<u8>) {
        self.bits.write(self.codes.end());
        self.bits.end();
        self.take_into(out);
        out.extend_from_slice(&self.crc.value().to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
    }

    /// Compresses the first line of a text behind another line; returns its length.
    fn line(&mut self, text: &[u8], before: &[u8]) -> usize {
        let is_comment = text.starts_with(b"# ");
        let edge = if is_comment {
            COMMENT_EDGE
        } else {
            SAMPLE_EDGE
        };
        // A sample repeats the name in the comment before it.
        let skipped = if !is_comment && before.starts_with(b"# ") {
            KEYWORD
        } else {
            0
        };
        let (mut at, mut other) = (0, skipped.min(before.len()));
        loop {
            let common = common(&text[at..], &before[other..]);
            let distance = before.len() - other + at;
            let next = at + common;
            if common >= MATCH_MIN && distance <= DISTANCE_MAX {
                self.copy(common, distance);
            } else {
                for byte in &text[at..next] {
                    self.bits.write(self.codes.literal(*byte));
                }
            }
            at = next;
            other += common;
            // The line before has a line feed only at its end.
            if common > 0 && text[at - 1] == b'\n' {
                return at;
            }
            let is_edge = |byte: &u8| KINDS[usize::from(*byte)] & edge != 0;
            let other_edge = before[other..].iter().position(is_edge);
            let stop = if other_edge.is_some() { edge } else { 0 };
            at += self.literals(&text[at..], stop | LINE_FEED);
            let (Some(byte), Some(other_edge)) = (text.get(at), other_edge) else {
                return at;
            };
            if at > next && text[at - 1] == b'\n' {
                return at;
            }
            other += other_edge;
            // Two edges of different kinds are passed, or the next round would end here as well.
            if *byte != before[other] {
                self.bits.write(self.codes.literal(*byte));
                at += 1;
                other += 1;
            }
        }
    }

    /// Writes bytes up to one of these kinds, or through a line feed; returns how many.
    #[inline]
    fn literals(&mut self, text: &[u8], stop: u8) -> usize {
        for (i, byte) in text.iter().enumerate() {
            let kind = KINDS[usize::from(*byte)] & stop;
            if kind & !LINE_FEED != 0 {
                return i;
            }
            self.bits.write(self.codes.literal(*byte));
            if kind != 0 {
                return i + 1;
            }
        }
        text.len()
    }

    fn copy(&mut self, mut length: usize, distance: usize) {
        while length > MATCH_MAX {
            // What is left must not be shorter than a match may be.
            let part = MATCH_MAX.min(length - MATCH_MIN);
            self.bits.write(self.codes.length(part));
            self.bits.write(self.codes.distance(distance));
            length -= part;
        }
        self.bits.write(self.codes.length(length));
        self.bits.write(self.codes.distance(distance));
    }
}

/// Returns how many bytes two slices begin with together.
#[inline]
fn common(a: &[u8], b: &[u8]) -> usize {
    let (words_a, words_b) = (a.as_chunks::<8>().0, b.as_chunks::<8>().0);
    for (i, (a, b)) in iter::zip(words_a, words_b).enumerate() {
        let differing = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differing != 0 {
            return 8 * i + differing.trailing_zeros() as usize / 8;
        }
    }
    let compared = 8 * words_a.len().min(words_b.len());
    let rest = iter::zip(&a[compared..], &b[compared..]);
    compared + rest.take_while(|(a, b)| a == b).count()
}

/// Bits in deflate's order, the lowest first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    waiting: u64,
    /// Less than 32.
    count: u32,
}

impl Bits {
    #[inline]
    fn write(&mut self, code: Code) {
        self.waiting |= u64::from(code.bits) << self.count;
        self.count += u32::from(code.len);
        if self.count >= 32 {
            self.bytes
                .extend_from_slice(&(self.waiting as u32).to_le_bytes());
            self.waiting >>= 32;
            self.count -= 32;
        }
    }

    /// Fills the last byte.
    fn end(&mut self) {
        let used = self.count.div_ceil(8) as usize;
        self.bytes
            .extend_from_slice(&self.waiting.to_le_bytes()[..used]);
        (self.waiting, self.count) = (0, 0);
    }
}

#[cfg(test)]
mod tests;
