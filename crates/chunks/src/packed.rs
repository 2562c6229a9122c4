//! Bit packing for related formats: `w`-bit values, lowest bit first.
//!
//! Invariant: `unpack(pack(v, w), w) == v` for values that fit in `w` bits; short bytes are an error.

use crate::bits;
use crate::error::ChunkError;

/// Returns how many bits `v` needs (0 for 0).
#[must_use]
pub const fn width_of(v: u64) -> u32 {
    bits::width_of(v)
}

/// Returns how many bytes `count` values of `width` bits take.
#[must_use]
pub const fn packed_len(count: usize, width: u32) -> usize {
    bits::packed_len(count, width)
}

/// Appends `values`, each in its low `width` bits (0..=64); bits above must be zero.
pub fn pack(values: &[u64], width: u32, out: &mut Vec<u8>) {
    bits::pack(values, width, out);
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
    bits::unpack(src, width, out)
}
