//! Symbols of repetitions, with the bits behind them (RFC 1951, 3.2.5).

use super::code::Bits;

/// The farthest that deflate can refer back, in bytes.
pub(crate) const FARTHEST: usize = 1 << 15;
/// The longest repetition that deflate can name.
pub(crate) const LONGEST: usize = 258;
/// Literals, the end of a block, and lengths of repetitions.
pub(crate) const LITERALS: usize = 286;
/// The symbol that ends a block.
pub(crate) const END: usize = 256;
pub(crate) const DISTANCES: usize = 30;

/// The head of a gzip member: deflate, no name, no time, no system.
pub(crate) const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// Returns the symbol of a repetition's length, 3 to 258, and the bits after it.
pub(crate) fn length_symbol(length: u32) -> (usize, Bits) {
    let rest = length - 3;
    if length == 258 {
        return (285, Bits::default());
    }
    if rest < 8 {
        return (257 + rest as usize, Bits::default());
    }
    let count = rest.ilog2() - 2;
    let symbol = 257 + 4 * (count + 1) + (rest >> count & 3);
    (symbol as usize, low_bits(rest, count))
}

/// Returns the symbol of a distance, 1 to [`FARTHEST`], and the bits after it.
#[inline]
pub(crate) fn distance_symbol(distance: u32) -> (usize, Bits) {
    let rest = distance - 1;
    if rest < 4 {
        return (rest as usize, Bits::default());
    }
    let count = rest.ilog2() - 1;
    let symbol = 2 * (count + 1) + (rest >> count & 1);
    (symbol as usize, low_bits(rest, count))
}

#[inline]
fn low_bits(number: u32, count: u32) -> Bits {
    Bits {
        bits: u64::from(number & ((1 << count) - 1)),
        count,
    }
}

/// Returns a distance as it is written.
#[inline]
pub(crate) fn distance(codes: &[Bits], distance: u32) -> Bits {
    let (symbol, more) = distance_symbol(distance);
    codes[symbol].then(more)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some rows of the tables of RFC 1951, 3.2.5.
    #[test]
    fn lengths_and_distances_have_deflates_symbols() {
        for (length, symbol, bits, count) in [
            (3, 257, 0, 0),
            (10, 264, 0, 0),
            (11, 265, 0, 1),
            (18, 268, 1, 1),
            (19, 269, 0, 2),
            (130, 280, 15, 4),
            (131, 281, 0, 5),
            (257, 284, 30, 5),
            (258, 285, 0, 0),
        ] {
            assert_eq!(length_symbol(length), (symbol, Bits { bits, count }));
        }
        for (distance, symbol, bits, count) in [
            (1, 0, 0, 0),
            (4, 3, 0, 0),
            (5, 4, 0, 1),
            (8, 5, 1, 1),
            (193, 15, 0, 6),
            (24_576, 28, 8191, 13),
            (32_768, 29, 8191, 13),
        ] {
            assert_eq!(distance_symbol(distance), (symbol, Bits { bits, count }));
        }
    }
}
