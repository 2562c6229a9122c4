//! The codes of literals, lengths and distances: one table for every page.
//!
//! Made once from how often a page of lines has each symbol; a page that is unlike that only becomes longer.
//!
//! **Invariant:** every symbol has a code of at most 15 bits, and each alphabet is complete, as readers demand.

use std::iter;
use std::sync::OnceLock;

/// Symbols of literals and lengths; 256 ends a block.
const SYMBOLS: usize = 286;
const END: usize = 256;
const FIRST_LENGTH: usize = 257;
const DISTANCES: usize = 30;
const LENGTH_MAX: usize = 258;
/// Distances up to this have a code of their own in the table.
const NEAR: usize = 1024;
/// Longest code that deflate allows.
const CODE_MAX: u8 = 15;

/// Some bits, the lowest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Code {
    pub(super) bits: u32,
    pub(super) len: u8,
}

impl Code {
    /// Returns this code and another one behind it.
    fn then(self, bits: u32, len: u8) -> Self {
        Self {
            bits: self.bits | bits << self.len,
            len: self.len + len,
        }
    }
}

/// All codes, lengths and distances with their extra bits.
pub(super) struct Codes {
    symbols: [Code; SYMBOLS],
    /// Lengths of the codes, as the block's head has them.
    lens: Vec<u8>,
    lengths: [Code; LENGTH_MAX + 1],
    near: [Code; NEAR + 1],
    distances: [Code; DISTANCES],
}

impl Codes {
    pub(super) fn get() -> &'static Self {
        static CODES: OnceLock<Box<Codes>> = OnceLock::new();
        CODES.get_or_init(|| Box::new(Self::new()))
    }

    fn new() -> Self {
        let mut symbols = [Code::default(); SYMBOLS];
        let mut distances = [Code::default(); DISTANCES];
        let mut lens = assign(&symbol_weights(), &mut symbols);
        lens.extend(assign(&distance_weights(), &mut distances));
        let mut codes = Self {
            symbols,
            lens,
            lengths: [Code::default(); LENGTH_MAX + 1],
            near: [Code::default(); NEAR + 1],
            distances,
        };
        for length in 3..=LENGTH_MAX {
            let (symbol, extra, extra_len) = length_symbol(length);
            codes.lengths[length] = symbols[FIRST_LENGTH + symbol].then(extra, extra_len);
        }
        for distance in 1..=NEAR {
            codes.near[distance] = codes.far(distance);
        }
        codes
    }

    #[inline]
    pub(super) fn literal(&self, byte: u8) -> Code {
        self.symbols[usize::from(byte)]
    }

    /// Returns the code of a length from 3 to 258.
    #[inline]
    pub(super) fn length(&self, length: usize) -> Code {
        self.lengths[length]
    }

    /// Returns the code of a distance from 1 to 32,768.
    #[inline]
    pub(super) fn distance(&self, distance: usize) -> Code {
        match self.near.get(distance) {
            Some(code) => *code,
            None => self.far(distance),
        }
    }

    fn far(&self, distance: usize) -> Code {
        let (symbol, extra, extra_len) = distance_symbol(distance);
        self.distances[symbol].then(extra, extra_len)
    }

    pub(super) fn end(&self) -> Code {
        self.symbols[END]
    }

    /// Returns the head of the last block of a member: all lengths of codes, each in four bits.
    pub(super) fn head(&self) -> impl Iterator<Item = Code> {
        let code = |bits, len| Code { bits, len };
        // The last block, dynamic codes, 286 symbols, 30 distances, 19 lengths of codes of lengths.
        let kind = [
            code(1, 1),
            code(2, 2),
            code(29, 5),
            code(29, 5),
            code(15, 4),
        ];
        // Of these codes, the three for repetitions have none and the sixteen others 4 bits.
        let widths = (0..19).map(move |i| code(if i < 3 { 0 } else { 4 }, 3));
        // A code's bits come with the highest first.
        let lens = self.lens.iter();
        let lens = lens.map(move |len| code(u32::from(len.reverse_bits() >> 4), 4));
        kind.into_iter().chain(widths).chain(lens)
    }
}

/// Returns the symbol of a length, counted from 257, and its extra bits.
fn length_symbol(length: usize) -> (usize, u32, u8) {
    if length == LENGTH_MAX {
        return (28, 0, 0);
    }
    step(length - 3, 4)
}

/// Returns the symbol of a distance and its extra bits.
fn distance_symbol(distance: usize) -> (usize, u32, u8) {
    step(distance - 1, 2)
}

/// Returns the place of a number among steps that are 1 wide at first, and twice as wide after each `group` of them
/// from the second on; and where the number is in its step.
fn step(number: usize, group: usize) -> (usize, u32, u8) {
    if number < 2 * group {
        return (number, 0, 0);
    }
    let group_bits = group.ilog2();
    let extra_len = number.ilog2() - group_bits;
    let step = (number >> extra_len) + group * extra_len as usize;
    let extra = number & ((1 << extra_len) - 1);
    (step, extra as u32, extra_len as u8)
}

/// Returns how often symbols appear in some thousand lines whose labels are matches and whose values are not.
fn symbol_weights() -> [u32; SYMBOLS] {
    let mut weights = [1; SYMBOLS];
    let mut set = |bytes: &[u8], weight| {
        for byte in bytes {
            weights[usize::from(*byte)] = weight;
        }
    };
    set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", 8);
    set(b"abcdefghijklmnopqrstuvwxyz", 40);
    set(b"aeinorst", 80);
    set(b"!%&'()*;<>?@[]^`|~$\\", 2);
    set(b"/=,:#_{}", 30);
    set(b" \"", 100);
    set(b"-", 60);
    set(b"+", 250);
    set(b".e", 400);
    set(b"0123456789", 700);
    set(b"\n", 1000);
    // Lengths up to 10, up to 34, up to 114, and above.
    let lengths = [(8, 50), (8, 60), (8, 150), (5, 60)];
    let lengths = lengths
        .iter()
        .flat_map(|(n, weight)| iter::repeat_n(*weight, *n));
    for (weight, length) in weights[FIRST_LENGTH..].iter_mut().zip(lengths) {
        *weight = length;
    }
    weights
}

/// Returns the same for distances: about the length of a line.
fn distance_weights() -> [u32; DISTANCES] {
    std::array::from_fn(|symbol| match symbol {
        0..8 => 1,
        8..10 => 8,
        10..12 => 60,
        12..16 => 200,
        16..18 => 60,
        18..20 => 8,
        _ => 1,
    })
}

/// Gives symbols canonical Huffman codes; returns the codes' lengths.
fn assign(weights: &[u32], codes: &mut [Code]) -> Vec<u8> {
    let lens = huffman(weights);
    let mut next = 0_u32;
    for len in 1..=CODE_MAX {
        next <<= 1;
        for (code, _) in iter::zip(&mut *codes, &lens).filter(|(_, own)| **own == len) {
            let bits = next.reverse_bits() >> (32 - len);
            *code = Code { bits, len };
            next += 1;
        }
    }
    lens
}

/// Returns the lengths of Huffman codes for symbols that appear this often.
fn huffman(weights: &[u32]) -> Vec<u8> {
    // Trees of symbols; the two that appear least often become one until one is left.
    let mut trees: Vec<(u32, Vec<usize>)> = weights
        .iter()
        .copied()
        .zip(0..)
        .map(|(weight, symbol)| (weight, vec![symbol]))
        .collect();
    let mut lens = vec![0; weights.len()];
    while trees.len() > 1 {
        trees.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
        let (Some(least), Some(second)) = (trees.pop(), trees.pop()) else {
            break;
        };
        let weight = least.0 + second.0;
        let symbols = [least.1, second.1].concat();
        for symbol in &symbols {
            lens[*symbol] += 1;
        }
        trees.push((weight, symbols));
    }
    lens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_complete_and_not_too_long() {
        let codes = Codes::get();
        for lens in [&codes.lens[..SYMBOLS], &codes.lens[SYMBOLS..]] {
            assert!(
                lens.iter().all(|len| (1..=CODE_MAX).contains(len)),
                "{lens:?}"
            );
            let used: u32 = lens.iter().map(|len| 1 << (CODE_MAX - len)).sum();
            assert_eq!(used, 1 << CODE_MAX);
        }
    }

    #[test]
    fn symbols_of_lengths_and_distances_are_those_of_the_rfc() {
        let cases = [
            (3, (0, 0, 0)),
            (10, (7, 0, 0)),
            (11, (8, 0, 1)),
            (18, (11, 1, 1)),
            (19, (12, 0, 2)),
        ];
        for (length, symbol) in cases {
            assert_eq!(length_symbol(length), symbol, "{length}");
        }
        assert_eq!(length_symbol(257), (27, 30, 5));
        assert_eq!(length_symbol(258), (28, 0, 0));
        let cases = [
            (1, (0, 0, 0)),
            (4, (3, 0, 0)),
            (5, (4, 0, 1)),
            (6, (4, 1, 1)),
            (257, (16, 0, 7)),
        ];
        for (distance, symbol) in cases {
            assert_eq!(distance_symbol(distance), symbol, "{distance}");
        }
        assert_eq!(distance_symbol(32_768), (29, 8191, 13));
    }
}
