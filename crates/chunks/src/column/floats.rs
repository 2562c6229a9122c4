//! Columns of floats alone, which all others consist of.
//!
//! Invariant: buffers are scratch only; the bytes depend on the floats alone.

use super::ints::{IntEncoder, decode_ints, decode_runs_as_floats, is_of_runs};
use super::{kind, xor};
use crate::bits::{Reader, put_signed};
use crate::decimal::{FAST_LIMIT, MAGIC, MAX_EXP, POW10, find_exp, to_int};
use crate::error::ChunkError;
use std::ops::Range;

/// Encodes floats; reuses its buffers between columns.
#[derive(Debug, Default)]
pub(super) struct FloatEncoder {
    ints: Vec<i64>,
    encoder: IntEncoder,
}

impl FloatEncoder {
    /// Appends a column of floats in the smallest form.
    pub(super) fn encode(&mut self, values: &[f64], out: &mut Vec<u8>) {
        let first = values[0].to_bits();
        if values.iter().all(|v| v.to_bits() == first) {
            match find_exp(values[0], 0) {
                Some((exp, int)) => {
                    out.push(kind::CONST_INT | exp << 4);
                    put_signed(out, int);
                }
                None => {
                    out.push(kind::CONST_RAW);
                    out.extend_from_slice(&first.to_le_bytes());
                }
            }
            return;
        }
        match self.find_ints(values) {
            Some(exp) => self.encoder.encode(&self.ints, exp, out),
            None => {
                out.push(kind::XOR);
                xor::encode(values, out);
            }
        }
    }

    /// Converts all values to integers at the smallest exponent that fits them all.
    fn find_ints(&mut self, values: &[f64]) -> Option<u8> {
        let mut exp = 0;
        self.ints.resize(values.len(), 0);
        'exp: loop {
            for (v, m) in values.chunks(64).zip(self.ints.chunks_mut(64)) {
                if fast_ints(v, POW10[usize::from(exp)], m) {
                    continue;
                }
                for (&v, m) in v.iter().zip(m) {
                    if let Some(int) = to_int(v, exp) {
                        *m = int;
                    } else {
                        exp = find_exp(v, exp)?.0;
                        continue 'exp;
                    }
                }
            }
            return Some(exp);
        }
    }
}

/// Converts values in bulk; returns whether every conversion was exact.
fn fast_ints(values: &[f64], p: f64, ints: &mut [i64]) -> bool {
    let mut missed = 0;
    for (&v, m) in values.iter().zip(ints) {
        let t = v * p + MAGIC;
        let r = t - MAGIC;
        let inside = r.abs() < FAST_LIMIT;
        missed |= ((r / p).to_bits() ^ v.to_bits()) | u64::from(!inside);
        *m = (t.to_bits() as i64).wrapping_sub(MAGIC.to_bits() as i64);
    }
    missed == 0
}

/// Decodes the floats of a column whose first byte is `head`, of which those of `wanted` rows are written.
pub(super) fn decode_floats(
    head: u8,
    r: &mut Reader<'_>,
    wanted: &Range<usize>,
    out: &mut [f64],
) -> Result<(), ChunkError> {
    match head & 15 {
        kind::CONST_RAW => {
            out.fill(f64::from_bits(r.u64_le()?));
            Ok(())
        }
        kind::XOR => xor::decode(r, out),
        _ => {
            let exp = head >> 4;
            if exp > MAX_EXP {
                return Err(r.malformed("exponent"));
            }
            let n = out.len();
            if is_of_runs(head & 15) {
                let out = &mut out[wanted.start.min(n)..wanted.end.min(n)];
                decode_runs_as_floats(head & 15, r, n, wanted.start, out)?;
                scale(out, exp);
                return Ok(());
            }
            decode_ints(head, r, n, wanted, |at, ints| {
                let places = at..at + ints.len();
                if places.end > wanted.start {
                    to_floats(ints, exp, &mut out[places]);
                }
            })
        }
    }
}

/// Writes `ints` as floats.
#[inline]
fn to_floats(ints: &[i64], exp: u8, out: &mut [f64]) {
    for (v, m) in out.iter_mut().zip(ints) {
        *v = *m as f64;
    }
    scale(out, exp);
}

/// Moves the decimal point of integers by `exp` places.
#[inline]
fn scale(out: &mut [f64], exp: u8) {
    if exp > 0 {
        let p = POW10[usize::from(exp)];
        out.iter_mut().for_each(|v| *v /= p);
    }
}
