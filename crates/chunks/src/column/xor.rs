//! Non-decimal floats: bits XORed with the previous value's, in blocks of 32.
//!
//! Each block: a control byte (0xff: nothing changed; else bit 6 sparse, bit 7 shifted, low six bits width − 1),
//! the shift, the mask, the packed XORs without their trailing zero bits.
//!
//! Invariant: the result does not depend on the machine's float arithmetic; only bits move.

use crate::bits::{Reader, pack, packed_len, unpack, width_of};
use crate::error::ChunkError;

const BLOCK: usize = 32;
const SPARSE: u8 = 0x40;
const SHIFTED: u8 = 0x80;
const STILL: u8 = 0xff;

/// Appends `values`, which must not be empty.
pub(crate) fn encode(values: &[f64], out: &mut Vec<u8>) {
    let mut before = values[0].to_bits();
    out.extend_from_slice(&before.to_le_bytes());
    for block in values[1..].chunks(BLOCK) {
        let mut z = [0u64; BLOCK];
        let mut any = 0;
        for (z, v) in z.iter_mut().zip(block) {
            *z = v.to_bits() ^ before;
            before = v.to_bits();
            any |= *z;
        }
        if any == 0 {
            out.push(STILL);
            continue;
        }
        let shift = any.trailing_zeros();
        let width = width_of(any >> shift);
        let changed = z.iter().filter(|z| **z != 0).count();
        let mask = z
            .iter()
            .enumerate()
            .fold(0u32, |m, (k, z)| m | u32::from(*z != 0) << k);
        let mask_len = block.len().div_ceil(8);
        let sparse = packed_len(changed, width) + mask_len < packed_len(block.len(), width);
        let mut control = (width - 1) as u8;
        control |= if sparse { SPARSE } else { 0 };
        // The shift costs a byte, so it must save more than one; and 0xff is taken.
        let shift = if shift >= 2 && control != STILL & !SHIFTED {
            shift
        } else {
            0
        };
        let width = width_of(any >> shift);
        control = (width - 1) as u8 | control & SPARSE;
        out.push(control | if shift > 0 { SHIFTED } else { 0 });
        if shift > 0 {
            out.push(shift as u8);
        }
        z.iter_mut().for_each(|z| *z >>= shift);
        if sparse {
            out.extend_from_slice(&mask.to_le_bytes()[..mask_len]);
            let kept: Vec<u64> = z.iter().copied().filter(|z| *z != 0).collect();
            pack(&kept, width, out);
        } else {
            pack(&z[..block.len()], width, out);
        }
    }
}

/// Reads `out.len()` values.
pub(crate) fn decode(r: &mut Reader<'_>, out: &mut [f64]) -> Result<(), ChunkError> {
    let Some((first, rest)) = out.split_first_mut() else {
        return Err(r.malformed("chunk without rows"));
    };
    let mut before = r.u64_le()?;
    *first = f64::from_bits(before);
    for block in rest.chunks_mut(BLOCK) {
        let control = r.byte()?;
        if control == STILL {
            block.fill(f64::from_bits(before));
            continue;
        }
        let width = u32::from(control & 0x3f) + 1;
        let shift = if control & SHIFTED != 0 { r.byte()? } else { 0 };
        if u32::from(shift) + width > 64 {
            return Err(r.malformed("shift"));
        }
        let mut mask = u32::MAX >> (BLOCK - block.len());
        let every = mask;
        if control & SPARSE != 0 {
            let mut b = [0u8; 4];
            let len = block.len().div_ceil(8);
            b[..len].copy_from_slice(r.slice(len)?);
            mask = u32::from_le_bytes(b);
            if mask & !every != 0 {
                return Err(r.malformed("mask"));
            }
        }
        let count = mask.count_ones() as usize;
        let mut z = [0u64; BLOCK];
        unpack(r.slice(packed_len(count, width))?, width, &mut z[..count])?;
        let mut slot = 0;
        for (k, v) in block.iter_mut().enumerate() {
            if mask >> k & 1 == 1 {
                before ^= z[slot] << shift;
                slot += 1;
            }
            *v = f64::from_bits(before);
        }
    }
    Ok(())
}
