//! Columns that stay in memory: a third of what they are as floats, and decoded about as fast as floats are copied.
//!
//! A column of integers or decimals is its least integer and what each row has more, in as many bytes as the largest
//! difference needs; any other column is the bits of its cells. The first byte has the number of these bytes in its low four
//! bits and the exponent in the high four.
//!
//! Invariant: decoding restores every cell bit for bit, markers included. The bytes are never on disk and may change.

use crate::{
    decimal::{FAST_LIMIT, MAGIC, MAX_EXP, POW10, find_exp},
    error::ChunkError,
};

/// Most bytes of a difference.
const MOST_WIDTH: usize = 4;
/// Instead of that number: every cell is kept as it is, or all are the same.
const RAW: u8 = 8;
const SAME: u8 = 9;

/// Appends `cells`, one column.
pub fn encode(cells: &[f64], out: &mut Vec<u8>) {
    let Some(first) = cells.first() else {
        return;
    };
    if cells.iter().all(|cell| cell.to_bits() == first.to_bits()) {
        out.push(SAME);
        out.extend_from_slice(&first.to_le_bytes());
        return;
    }
    let Some(frame) = Frame::of(cells) else {
        out.push(RAW);
        out.extend(cells.iter().flat_map(|cell| cell.to_le_bytes()));
        return;
    };
    out.push(frame.width as u8 | frame.exp << 4);
    out.extend_from_slice(&frame.least.to_le_bytes());
    let factor = POW10[usize::from(frame.exp)];
    for cell in cells {
        let more = (round(cell * factor) - frame.least) as u32;
        out.extend_from_slice(&more.to_le_bytes()[..frame.width]);
    }
}

/// Decodes `out.len()` rows of the column at the beginning of `bytes`; returns the bytes behind it.
///
/// # Errors
/// Fails on bytes that are too short or do not begin a column; `out` is then undefined.
#[inline]
pub fn decode<'a>(bytes: &'a [u8], out: &mut [f64]) -> Result<&'a [u8], ChunkError> {
    if out.is_empty() {
        return Ok(bytes);
    }
    let (&[head], bytes) = split(bytes)?;
    let (kind, exp) = (head & 15, head >> 4);
    if kind == RAW {
        return each(bytes, out, f64::from_le_bytes);
    }
    let (first, bytes) = split(bytes)?;
    let first = f64::from_le_bytes(*first);
    if kind == SAME {
        out.fill(first);
        return Ok(bytes);
    }
    if exp > MAX_EXP {
        let what = "exponent";
        return Err(ChunkError::Malformed { what, offset: 0 });
    }
    let more = |more: u32| first + f64::from(more);
    let bytes = match kind {
        1 => each(bytes, out, |[a]: [u8; 1]| more(a.into()))?,
        2 => each(bytes, out, |of| more(u16::from_le_bytes(of).into()))?,
        3 => each(bytes, out, |[a, b, c]: [u8; 3]| {
            more(u32::from_le_bytes([a, b, c, 0]))
        })?,
        4 => each(bytes, out, |of| more(u32::from_le_bytes(of)))?,
        _ => {
            let what = "width";
            return Err(ChunkError::Malformed { what, offset: 0 });
        }
    };
    if exp > 0 {
        let factor = POW10[usize::from(exp)];
        out.iter_mut().for_each(|cell| *cell /= factor);
    }
    Ok(bytes)
}

/// Integers of a column.
struct Frame {
    exp: u8,
    least: f64,
    /// Bytes of a difference to the least.
    width: usize,
}

impl Frame {
    /// Returns the frame in which all cells are integers of few bytes, if there is one.
    fn of(cells: &[f64]) -> Option<Self> {
        let mut exp = 0;
        for cell in cells {
            if integer(*cell, POW10[usize::from(exp)]).is_none() {
                (exp, _) = find_exp(*cell, exp + 1)?;
            }
        }
        let factor = POW10[usize::from(exp)];
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for cell in cells {
            let integer = integer(*cell, factor)?;
            (least, most) = (least.min(integer), most.max(integer));
        }
        let bits = u64::BITS - ((most - least) as u64).leading_zeros();
        let width = bits.div_ceil(8).max(1) as usize;
        (width <= MOST_WIDTH).then_some(Self { exp, least, width })
    }
}

/// Returns the integer that is the cell times a power of ten, if it restores the cell and sums with others are exact.
#[inline]
fn integer(cell: f64, factor: f64) -> Option<f64> {
    let scaled = cell * factor;
    // 0 added to −0 has other bits; what is no number is not less.
    let integer = round(scaled) + 0.0;
    let restores = (integer / factor).to_bits() == cell.to_bits();
    (scaled.abs() < FAST_LIMIT && restores).then_some(integer)
}

/// Rounds what is below the limit.
#[inline]
fn round(value: f64) -> f64 {
    value + MAGIC - MAGIC
}

#[inline]
fn split<const N: usize>(bytes: &[u8]) -> Result<(&[u8; N], &[u8]), ChunkError> {
    bytes
        .split_first_chunk()
        .ok_or_else(|| ChunkError::Truncated {
            offset: 0,
            needed: N - bytes.len(),
        })
}

/// Sets each cell from the next `N` bytes; returns those behind them.
#[inline(always)]
fn each<'a, const N: usize>(
    bytes: &'a [u8],
    out: &mut [f64],
    cell: impl Fn([u8; N]) -> f64,
) -> Result<&'a [u8], ChunkError> {
    let needed = out.len() * N;
    let Some((of_rows, rest)) = bytes.split_at_checked(needed) else {
        return Err(ChunkError::Truncated {
            offset: 0,
            needed: needed - bytes.len(),
        });
    };
    // Four at a time: columns are too short for what a compiler makes of a plain loop.
    let (fours, ones) = of_rows.as_chunks::<N>().0.as_chunks::<4>();
    let (out_fours, out_ones) = out.as_chunks_mut::<4>();
    for (out, four) in out_fours.iter_mut().zip(fours) {
        *out = four.map(&cell);
    }
    for (out, bytes) in out_ones.iter_mut().zip(ones) {
        *out = cell(*bytes);
    }
    Ok(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_model::cell::{ABSENT, NAN, STALE};
    use narthex_testkit::rng::SplitMix64;

    /// Returns the bytes of a column, which must be decoded from them alone, and from them with others behind.
    fn encoded(cells: &[f64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(cells, &mut bytes);
        let len = bytes.len();
        bytes.extend_from_slice(b"next");
        let mut out = vec![1.5; cells.len()];
        assert_eq!(decode(&bytes, &mut out), Ok(&b"next"[..]), "{cells:?}");
        let bits = |cells: &[f64]| cells.iter().map(|c| c.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&out), bits(cells), "{cells:?}");
        for short in 0..len {
            let missing = decode(&bytes[..short], &mut out);
            assert!(missing.is_err(), "{short} bytes of {cells:?}");
        }
        bytes.truncate(len);
        bytes
    }

    #[test]
    fn a_column_takes_the_bytes_of_its_range() {
        let size = |cells: &[f64]| encoded(cells).len();
        assert_eq!(size(&[]), 0);
        assert_eq!(size(&[0.5; 40]), 9);
        assert_eq!(size(&[ABSENT; 40]), 9);
        assert_eq!(size(&[1e9, 1e9 + 255.0]), 9 + 2);
        assert_eq!(size(&[-1.0, 0.0, 255.0]), 9 + 6);
        assert_eq!(size(&[0.001, 17.0, 65.536]), 9 + 6);
        assert_eq!(size(&[0.001, 17.0, 65.537]), 9 + 9);
        assert_eq!(size(&[0.0, 4_294_967_295.0]), 9 + 8);
        assert_eq!(size(&[0.0, 4_294_967_296.0]), 1 + 16);
        let most = FAST_LIMIT;
        assert_eq!(size(&[most, most - 1.0]), 1 + 16, "sums may not be exact");
        for odd in [-0.0, ABSENT, STALE, NAN, f64::INFINITY, 1.0 / 3.0, 1e300] {
            assert_eq!(size(&[1.0, odd, 2.0]), 1 + 24, "{odd}");
        }
    }

    #[test]
    fn any_cells_come_back() {
        let mut random = SplitMix64::new(1);
        for _ in 0..2_000 {
            let (rows, digits) = (random.below(40), random.below(16) as i32);
            let range = 1 << random.below(54);
            let of_range = |random: &mut SplitMix64| {
                let sign = [1.0, -1.0][random.index(2)];
                sign * random.below(range) as f64 / 10_f64.powi(digits)
            };
            let offset = of_range(&mut random);
            let cells = (0..rows).map(|_| match random.below(500) {
                0 => *random.pick(&[-0.0, ABSENT, STALE, NAN, f64::NEG_INFINITY]),
                1 => f64::from_bits(random.next_u64()),
                _ => offset + of_range(&mut random),
            });
            encoded(&cells.collect::<Vec<f64>>());
        }
    }

    #[test]
    fn bytes_that_begin_no_column_are_refused() {
        for head in [0, 5, 7, 10, 15, 0xd1] {
            let bytes = [head; 100];
            assert!(decode(&bytes, &mut [0.0; 3]).is_err(), "{head}");
        }
    }
}
