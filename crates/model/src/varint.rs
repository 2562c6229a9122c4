//! LEB128 varints and zigzag numbers, as used by the log, blocks, chunks and protobuf.
//!
//! **Invariant:** reading never leaves its slice. Everything is inlined: callers are innermost loops.

/// Longest encoding of a varint.
pub const MAX_VARINT_BYTES: usize = 10;

/// Maps small magnitudes of either sign to small unsigned values.
#[inline(always)]
#[must_use]
pub const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

/// Undoes [`zigzag`].
#[inline(always)]
#[must_use]
pub const fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

/// Appends `value` as a varint.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends `value` as a zigzag varint.
#[inline]
pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, zigzag(value));
}

/// Reads the varint that `bytes` begins with; returns its value and length.
///
/// Bits beyond the 64th are cut off, as Go's protobuf does; [`read_exact_varint`] rejects them. Returns `None` when
/// `bytes` end early or the first [`MAX_VARINT_BYTES`] bytes do not end the varint.
#[inline]
#[must_use]
pub fn read_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (at, byte) in bytes.iter().take(MAX_VARINT_BYTES).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if *byte < 0x80 {
            return Some((value, at + 1));
        }
    }
    None
}

/// Like [`read_varint`], but also rejects a value of more than 64 bits.
#[inline]
#[must_use]
pub fn read_exact_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let fits = |len: usize| len < MAX_VARINT_BYTES || bytes.get(len - 1) <= Some(&1);
    read_varint(bytes).filter(|(_, len)| fits(*len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_overlong_ones_do_not() {
        for value in [0, 1, 127, 128, 1 << 35, u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            assert_eq!(read_exact_varint(&bytes), Some((value, bytes.len())));
            assert_eq!(read_varint(&bytes[..bytes.len() - 1]), None);
            assert_eq!(unzigzag(zigzag(value.cast_signed())), value.cast_signed());
        }
        assert_eq!(
            [0, 1, 2, 3, u64::MAX].map(unzigzag),
            [0, -1, 1, -2, i64::MIN]
        );
        let mut wide = [0xff; 11];
        assert_eq!(read_varint(&wide), None);
        wide[9] = 2;
        assert_eq!(read_varint(&wide), Some((u64::MAX >> 1, 10)));
        assert_eq!(read_exact_varint(&wide), None);
    }
}
