//! Varints, zigzag and bit packing shared by all codecs.
//!
//! Invariant: readers never index past their slice; packed values lie little-endian, lowest bit first,
//! so that eight values of width `w` fill exactly `w` bytes.

use crate::error::ChunkError;
use narthex_model::varint::{MAX_VARINT_BYTES, read_exact_varint};
pub(crate) use narthex_model::varint::{put_signed, put_varint, unzigzag, zigzag};

/// Returns how many bits `v` needs (0 for 0).
#[inline(always)]
#[must_use]
pub const fn width_of(v: u64) -> u32 {
    64 - v.leading_zeros()
}

/// Returns how many bytes `count` values of `width` bits take.
#[inline(always)]
#[must_use]
pub const fn packed_len(count: usize, width: u32) -> usize {
    (count * width as usize).div_ceil(8)
}

/// A cursor over untrusted bytes; every read is bounds-checked.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    pub(crate) fn malformed(&self, what: &'static str) -> ChunkError {
        ChunkError::Malformed {
            what,
            offset: self.at,
        }
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8, ChunkError> {
        let b = *self.bytes.get(self.at).ok_or(ChunkError::Truncated {
            offset: self.at,
            needed: 1,
        })?;
        self.at += 1;
        Ok(b)
    }

    #[inline]
    pub(crate) fn slice(&mut self, len: usize) -> Result<&'a [u8], ChunkError> {
        let left = self.bytes.len() - self.at;
        if len > left {
            return Err(ChunkError::Truncated {
                offset: self.at,
                needed: len - left,
            });
        }
        let taken = &self.bytes[self.at..self.at + len];
        self.at += len;
        Ok(taken)
    }

    #[inline]
    pub(crate) fn u64_le(&mut self) -> Result<u64, ChunkError> {
        let b = self.slice(8)?;
        Ok(u64::from_le_bytes(
            b.try_into().expect("eight bytes were taken"),
        ))
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64, ChunkError> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        self.at -= 1;
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<u64, ChunkError> {
        let rest = self.rest();
        if let Some((value, len)) = read_exact_varint(rest) {
            self.at += len;
            return Ok(value);
        }
        self.at += rest.len().min(MAX_VARINT_BYTES);
        if rest.len() < MAX_VARINT_BYTES {
            return self.byte().map(u64::from);
        }
        Err(self.malformed("varint"))
    }

    #[inline]
    pub(crate) fn signed(&mut self) -> Result<i64, ChunkError> {
        self.varint().map(unzigzag)
    }

    /// Reads a varint of one byte and one of one or two, without a branch that depends on which it is; `None` if they are longer
    /// or near the end.
    #[inline]
    pub(crate) fn short_pair(&mut self) -> Option<(usize, u64)> {
        let word = u32::from_le_bytes(*self.rest().first_chunk()?);
        let has_two = word >> 15 & 1;
        if word & (0x80 | has_two << 23) != 0 {
            return None;
        }
        self.at += 2 + has_two as usize;
        let second = (word >> 8 & 0x7f) | ((word >> 16 << 7) * has_two);
        Some((word as usize & 0x7f, u64::from(second & 0x3fff)))
    }

    /// Reads bytes behind their number.
    pub(crate) fn sized(&mut self) -> Result<&'a [u8], ChunkError> {
        let len = self.count(self.rest().len(), "length")?;
        self.slice(len)
    }

    /// Fails unless everything was read.
    pub(crate) fn end(&self) -> Result<(), ChunkError> {
        match self.rest() {
            [] => Ok(()),
            _ => Err(ChunkError::Trailing { offset: self.at }),
        }
    }

    /// Reads a varint count, refusing one above `max`.
    #[inline]
    pub(crate) fn count(&mut self, max: usize, what: &'static str) -> Result<usize, ChunkError> {
        let offset = self.at;
        match self.varint()? {
            v if v <= max as u64 => Ok(v as usize),
            _ => Err(ChunkError::Malformed { what, offset }),
        }
    }
}

/// Appends bytes behind their number.
pub(crate) fn put_sized(bytes: &[u8], out: &mut Vec<u8>) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends `values`, each in its low `width` bits (0..=64); bits above must be zero.
pub fn pack(values: &[u64], width: u32, out: &mut Vec<u8>) {
    let start = out.len();
    let len = packed_len(values.len(), width);
    out.resize(start + len + 16, 0);
    pack_into(values, width, &mut out[start..]);
    out.truncate(start + len);
}

/// Packs `values` into the front of `dst`, which must be 16 bytes longer than the packed values.
#[inline]
pub(crate) fn pack_into(values: &[u64], width: u32, dst: &mut [u8]) {
    let mut sink = BitSink {
        dst,
        at: 0,
        acc: 0,
        fill: 0,
    };
    match width {
        0 => {}
        1..=14 => {
            let (quads, rest) = values.as_chunks::<4>();
            for q in quads {
                let low = q[0] | q[1] << width;
                let high = q[2] | q[3] << width;
                sink.push(low | high << (2 * width), 4 * width);
            }
            rest.iter().for_each(|&v| sink.push(v, width));
        }
        15..=28 => {
            let (pairs, rest) = values.as_chunks::<2>();
            for p in pairs {
                sink.push(p[0] | p[1] << width, 2 * width);
            }
            rest.iter().for_each(|&v| sink.push(v, width));
        }
        29..=56 => values.iter().for_each(|&v| sink.push(v, width)),
        _ => {
            for &v in values {
                sink.push(v & 0xffff_ffff, 32);
                sink.push(v >> 32, width - 32);
            }
        }
    }
    sink.flush();
}

/// Writes up to 56 bits at a time by overlapping eight-byte stores.
struct BitSink<'a> {
    dst: &'a mut [u8],
    at: usize,
    acc: u64,
    fill: u32,
}

impl BitSink<'_> {
    #[inline(always)]
    fn push(&mut self, v: u64, bits: u32) {
        self.acc |= v << self.fill;
        self.flush();
        let total = self.fill + bits;
        self.at += (total >> 3) as usize;
        // `total` is at most 63: 7 bits left over plus 56 added.
        self.acc >>= total & !7;
        self.fill = total & 7;
    }

    #[inline(always)]
    fn flush(&mut self) {
        self.dst[self.at..self.at + 8].copy_from_slice(&self.acc.to_le_bytes());
    }
}

/// Reads `out.len()` values of `width` bits (0..=64) from the front of `src`.
///
/// # Errors
/// Fails when `src` is shorter than the packed values, or `width` is above 64.
pub fn unpack(src: &[u8], width: u32, out: &mut [u64]) -> Result<(), ChunkError> {
    if width > 64 {
        return Err(ChunkError::Malformed {
            what: "width",
            offset: 0,
        });
    }
    let len = packed_len(out.len(), width);
    if src.len() < len {
        return Err(ChunkError::Truncated {
            offset: src.len(),
            needed: len - src.len(),
        });
    }
    if width == 0 {
        out.fill(0);
        return Ok(());
    }
    // Eight-byte loads reach past the last value, so values near the end are read from a padded copy.
    let (groups, rest) = out.as_chunks_mut::<8>();
    let w = width as usize;
    let safe = if src.len() < 8 {
        0
    } else {
        ((src.len() - 8) / w).min(groups.len())
    };
    unpack_groups(src, width, &mut groups[..safe]);
    let mut pad = [0u8; 72];
    for (g, group) in groups.iter_mut().enumerate().skip(safe) {
        pad[..w].copy_from_slice(&src[g * w..(g + 1) * w]);
        unpack8(&pad, width, group);
    }
    if !rest.is_empty() {
        let tail = &src[groups.len() * w..len];
        pad[..tail.len()].copy_from_slice(tail);
        let mut last = [0u64; 8];
        unpack8(&pad, width, &mut last);
        rest.copy_from_slice(&last[..rest.len()]);
    }
    Ok(())
}

/// Reads groups of eight values of `width` (1..=64) bits; `src` holds eight bytes after the last.
fn unpack_groups(src: &[u8], width: u32, groups: &mut [[u64; 8]]) {
    /// Inlined where the width is a constant, so that all shifts are: that halves the time.
    #[inline(always)]
    fn each(src: &[u8], width: u32, groups: &mut [[u64; 8]]) {
        for (g, group) in groups.iter_mut().enumerate() {
            unpack8(&src[g * width as usize..], width, group);
        }
    }
    macro_rules! by_width {
        ($($width:literal)*) => {
            match width {
                $($width => each(src, $width, groups),)*
                _ => each(src, width, groups),
            }
        };
    }
    by_width!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16);
}

/// Reads eight values of `width` (1..=64) bits; `src` holds at least `width` + 8 bytes.
#[inline(always)]
pub(crate) fn unpack8(src: &[u8], width: u32, out: &mut [u64; 8]) {
    let src = &src[..width as usize + 8];
    if width <= 57 {
        let mask = (1u64 << width) - 1;
        for (k, v) in out.iter_mut().enumerate() {
            let bit = k * width as usize;
            *v = load(src, bit >> 3) >> (bit & 7) & mask;
        }
    } else {
        let mask = (1u64 << (width - 32)) - 1;
        for (k, v) in out.iter_mut().enumerate() {
            let bit = k * width as usize;
            let low = load(src, bit >> 3) >> (bit & 7) & 0xffff_ffff;
            let bit = bit + 32;
            *v = low | (load(src, bit >> 3) >> (bit & 7) & mask) << 32;
        }
    }
}

/// Reads one value of `width` (1..=64) bits that begins at bit `bit`; bits past the end of `src` read as zero.
#[inline(always)]
pub(crate) fn get_bits(src: &[u8], bit: usize, width: u32) -> u64 {
    if width <= 57 {
        return load_short(src, bit >> 3) >> (bit & 7) & ((1u64 << width) - 1);
    }
    let low = load_short(src, bit >> 3) >> (bit & 7) & 0xffff_ffff;
    let bit = bit + 32;
    low | (load_short(src, bit >> 3) >> (bit & 7) & ((1u64 << (width - 32)) - 1)) << 32
}

#[inline(always)]
fn load(src: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(src[at..at + 8].try_into().expect("eight bytes were sliced"))
}

#[inline(always)]
fn load_short(src: &[u8], at: usize) -> u64 {
    match src.get(at..).and_then(<[u8]>::first_chunk) {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => load_end(src, at),
    }
}

#[cold]
fn load_end(src: &[u8], at: usize) -> u64 {
    let mut bytes = [0u8; 8];
    let rest = src.get(at..).unwrap_or_default();
    bytes[..rest.len()].copy_from_slice(rest);
    u64::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_every_width_and_count() {
        for width in 0..=64u32 {
            for count in [0usize, 1, 3, 5, 8, 9, 31, 32, 33, 100] {
                let mask = if width == 64 {
                    u64::MAX
                } else {
                    (1u64 << width) - 1
                };
                let values: Vec<u64> = (0..count as u64)
                    .map(|i| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask)
                    .collect();
                let mut bytes = vec![0xaa; 3];
                pack(&values, width, &mut bytes);
                assert_eq!(bytes.len(), 3 + packed_len(count, width));
                let mut back = vec![7u64; count];
                unpack(&bytes[3..], width, &mut back).expect("long enough");
                assert_eq!(values, back, "width {width} count {count}");
                for (i, v) in values.iter().enumerate().filter(|_| width > 0) {
                    assert_eq!(*v, get_bits(&bytes[3..], i * width as usize, width));
                }
                if packed_len(count, width) > 0 {
                    let short = &bytes[3..bytes.len() - 1];
                    assert!(unpack(short, width, &mut back).is_err());
                }
            }
        }
    }

    #[test]
    fn varints_round_trip_and_refuse_overlong() {
        for v in [0, 1, 127, 128, 16_383, 16_384, u64::MAX >> 1, u64::MAX] {
            let mut b = vec![];
            put_varint(&mut b, v);
            assert_eq!(Reader::new(&b).varint(), Ok(v));
            assert_eq!(unzigzag(zigzag(v as i64)), v as i64);
        }
        assert!(Reader::new(&[0xff; 10]).varint().is_err());
        assert!(Reader::new(&[0x80; 11]).varint().is_err());
        assert!(Reader::new(&[0x80; 3]).varint().is_err());
    }
}
