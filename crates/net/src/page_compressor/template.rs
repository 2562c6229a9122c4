//! Compressed text of a page with places for its numbers.
//!
//! **Invariant:** a piece's bits are written only after its text was compared with the page; so what a repetition refers
//! to, which is in this or an earlier piece, is there.

use super::matches::{Repeat, Search, Token};
use super::skeleton::{NUMBER, Skeleton};
use crate::deflate::code::{self, BitWriter, Bits};
use crate::deflate::symbols::{
    DISTANCES, END, FARTHEST, HEAD, LITERALS, distance, distance_symbol, length_symbol,
};

/// A step that copies its bits and nothing else.
const NO_PIECE: u32 = u32::MAX;

/// A page's text, compressed.
#[derive(Debug)]
pub(super) struct Template {
    text: Skeleton,
    /// Where the steps of each piece end.
    steps_ends: Vec<u32>,
    steps: Vec<Step>,
    /// The head of the member and of its block, with the bits of a byte that is begun.
    head: (Vec<u8>, Bits),
    /// Codes of bytes and of the end of the block.
    literals: Vec<Bits>,
    distances: Vec<Bits>,
    /// Where pieces begin in the page at hand.
    starts: Vec<u32>,
}

/// Some bits, then the distance of a repetition if it is one over numbers.
#[derive(Debug, Clone, Copy)]
struct Step {
    bits: u64,
    piece: u32,
    /// The repetition's place in its piece less that of the original in its own, and above it the number of `bits`.
    shift_and_count: u32,
}

/// Bits of a step's shift: enough for pieces of [`super::LONGEST_BYTES`], with a sign.
const SHIFT_BITS: u32 = 24;

impl Step {
    fn new(bits: Bits, piece: u32, shift: isize) -> Self {
        let shift = (shift as u32) & ((1 << SHIFT_BITS) - 1);
        Self {
            bits: bits.bits,
            piece,
            shift_and_count: shift | bits.count << SHIFT_BITS,
        }
    }

    fn bits(self) -> Bits {
        Bits {
            bits: self.bits,
            count: self.shift_and_count >> SHIFT_BITS,
        }
    }

    fn shift(self) -> i32 {
        (self.shift_and_count << (32 - SHIFT_BITS)) as i32 >> (32 - SHIFT_BITS)
    }
}

impl Template {
    /// Compresses the text of `page`.
    pub(super) fn new(text: Skeleton, page: &[u8]) -> Self {
        let starts = starts(&text, page);
        let (mut tokens, mut tokens_ends) = (Vec::new(), Vec::new());
        let mut search = Search::new(&text, &starts);
        for at in 0..text.ends.len() {
            search.cut(at, &mut tokens);
            tokens_ends.push(tokens.len());
        }
        let (literals, distances) = codes(&tokens, &text, page);
        let mut template = Self {
            head: head(&literals, &distances),
            steps_ends: Vec::with_capacity(tokens_ends.len()),
            steps: Vec::new(),
            text,
            literals,
            distances,
            starts,
        };
        let mut from = 0;
        for (at, end) in tokens_ends.into_iter().enumerate() {
            template.add_steps(at as u32, &tokens[from..end]);
            from = end;
        }
        template.steps.shrink_to_fit();
        template
    }

    fn add_steps(&mut self, piece: u32, tokens: &[Token]) {
        let mut begun = Bits::default();
        for token in tokens {
            let (bits, to_add) = match token {
                Token::Literal(byte) => (self.literals[usize::from(*byte)], None),
                Token::Repeat(repeat) if repeat.piece == piece as usize => {
                    let distance = distance(&self.distances, repeat.distance as u32);
                    (self.length(repeat).then(distance), None)
                }
                Token::Repeat(repeat) => (self.length(repeat), Some(repeat)),
            };
            if begun.count + bits.count > Bits::MOST {
                self.steps.push(Step::new(begun, NO_PIECE, 0));
                begun = Bits::default();
            }
            begun = begun.then(bits);
            if let Some(repeat) = to_add {
                let step = Step::new(begun, repeat.piece as u32, repeat.shift);
                self.steps.push(step);
                begun = Bits::default();
            }
        }
        if begun.count > 0 {
            self.steps.push(Step::new(begun, NO_PIECE, 0));
        }
        self.steps_ends.push(self.steps.len() as u32);
    }

    fn length(&self, repeat: &Repeat) -> Bits {
        let (symbol, more) = length_symbol(repeat.length as u32);
        self.literals[symbol].then(more)
    }

    /// Compresses a page with this text into `scratch`; returns the number of bytes, or `None` if the page has another
    /// text or there is little to gain.
    pub(super) fn fill(&mut self, page: &[u8], scratch: &mut Vec<u8>) -> Option<usize> {
        let room = page.len() / 2 + 64;
        if scratch.len() < room {
            scratch.resize(room, 0);
        }
        scratch
            .get_mut(..self.head.0.len())?
            .copy_from_slice(&self.head.0);
        let mut out = BitWriter::new(&mut scratch[..room], self.head.0.len(), self.head.1);
        self.write_page(page, &mut out)?;
        out.write(self.literals[END])?;
        // Fills the last byte, and makes room for what follows it.
        out.write(Bits { bits: 0, count: 7 })?;
        let (end, _) = out.end();
        let sums = scratch.get_mut(end..end + 8)?;
        sums[..4].copy_from_slice(&libdeflater::crc32(page).to_le_bytes());
        sums[4..].copy_from_slice(&(page.len() as u32).to_le_bytes());
        Some(end + 8)
    }

    fn write_page(&mut self, page: &[u8], out: &mut BitWriter<'_>) -> Option<()> {
        let (mut at, mut piece_start, mut step) = (0, 0, 0);
        let pieces = self.text.ends.len();
        for piece in 0..pieces {
            let (end, steps_end) = (
                self.text.ends[piece] as usize,
                self.steps_ends[piece] as usize,
            );
            let text = &self.text.text[piece_start..end];
            if !page.get(at..)?.starts_with(text) {
                return None;
            }
            self.starts[piece] = at as u32;
            for one in &self.steps[step..steps_end] {
                out.write(one.bits())?;
                if one.piece != NO_PIECE {
                    let between = at as u32 - self.starts[one.piece as usize];
                    let far = between.wrapping_add_signed(one.shift());
                    if far as usize > FARTHEST {
                        return None;
                    }
                    out.write(distance(&self.distances, far))?;
                }
            }
            at += text.len();
            if piece + 1 < pieces {
                at += write_number(&self.literals, &page[at..], out)?;
            }
            (piece_start, step) = (end, steps_end);
        }
        (at == page.len()).then_some(())
    }
}

/// Writes bytes up to the end of the line; returns how many, or `None` if one has no code.
fn write_number(literals: &[Bits], line: &[u8], out: &mut BitWriter<'_>) -> Option<usize> {
    /// With fewer bits, another code fits.
    const FULL: u32 = Bits::MOST - 15;
    let mut begun = Bits::default();
    let mut length = 0;
    for byte in line.iter().take_while(|byte| **byte != b'\n') {
        let code = literals[usize::from(*byte)];
        if code.count == 0 {
            return None;
        }
        begun = begun.then(code);
        if begun.count > FULL {
            out.write(begun)?;
            begun = Bits::default();
        }
        length += 1;
    }
    out.write(begun)?;
    Some(length)
}

/// Returns where pieces begin in the page that they were read from.
fn starts(text: &Skeleton, page: &[u8]) -> Vec<u32> {
    let mut at = 0;
    let pieces = (0..text.ends.len()).map(|piece| {
        let start = at;
        at += text.piece(piece).len();
        let number = page[at..].iter().position(|byte| *byte == b'\n');
        at += number.unwrap_or(page.len() - at);
        start as u32
    });
    pieces.collect()
}

/// Returns codes of literals and of distances that suit these tokens and the numbers between them.
fn codes(tokens: &[Token], text: &Skeleton, page: &[u8]) -> (Vec<Bits>, Vec<Bits>) {
    let mut literals = [0; LITERALS];
    // With other numbers, distances are others too.
    let mut distances = [1; DISTANCES];
    for token in tokens {
        match token {
            Token::Literal(byte) => literals[usize::from(*byte)] += 1,
            Token::Repeat(repeat) => {
                literals[length_symbol(repeat.length as u32).0] += 1;
                distances[distance_symbol(repeat.distance as u32).0] += 1;
            }
        }
    }
    let mut in_numbers = [0_u32; 256];
    for byte in page {
        in_numbers[usize::from(*byte)] += 1;
    }
    for byte in &text.text {
        in_numbers[usize::from(*byte)] -= 1;
    }
    for (count, more) in literals.iter_mut().zip(in_numbers) {
        *count += more;
    }
    // Other numbers have other bytes.
    for byte in NUMBER {
        literals[usize::from(*byte)] += 1;
    }
    literals[END] = 1;
    (code::codes(&literals), code::codes(&distances))
}

/// Returns the head of a member whose only block has these codes.
fn head(literals: &[Bits], distances: &[Bits]) -> (Vec<u8>, Bits) {
    let mut head = vec![0; 1 << 10];
    head[..HEAD.len()].copy_from_slice(&HEAD);
    let mut out = BitWriter::new(&mut head, HEAD.len(), Bits::default());
    code::write_block_start(literals, distances, &mut out).expect("a kilobyte is enough");
    let (length, begun) = out.end();
    head.truncate(length);
    (head, begun)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_keep_bits_and_shifts() {
        let bits = Bits {
            bits: (1 << 56) - 1,
            count: 56,
        };
        for shift in [0, 1, -1, 32_767, -32_767] {
            let step = Step::new(bits, 7, shift);
            assert_eq!((step.bits(), step.shift()), (bits, shift as i32));
        }
    }
}
