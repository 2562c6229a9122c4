//! The column encoder: picks the form, writes it.
//!
//! Invariant: buffers are scratch only; the bytes depend on the cells alone.

use narthex_model::cell;

use super::ints::IntEncoder;
use super::{kind, states, xor};
use crate::bits::put_signed;
use crate::decimal::{FAST_LIMIT, MAGIC, POW10, find_exp, to_int};

/// Encodes columns; reuses its buffers between columns.
#[derive(Debug, Default)]
pub struct ColumnEncoder {
    ints: Vec<i64>,
    floats: Vec<f64>,
    encoder: IntEncoder,
}

impl ColumnEncoder {
    /// Returns an encoder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends `cells` (one per row, markers included); a histogram cell is an index into the encoded `histograms`.
    ///
    /// # Panics
    /// Panics when a cell's index is beyond `histograms`.
    pub fn encode(&mut self, cells: &[f64], histograms: &[&[u8]], out: &mut Vec<u8>) {
        if cells.is_empty() {
            return;
        }
        if cells.iter().all(|c| cell::is_float(*c)) {
            return self.encode_floats(cells, out);
        }
        let mut floats = std::mem::take(&mut self.floats);
        floats.clear();
        floats.extend(cells.iter().copied().filter(|c| cell::is_float(*c)));
        states::encode(cells, !floats.is_empty(), histograms, out);
        if !floats.is_empty() {
            self.encode_floats(&floats, out);
        }
        self.floats = floats;
    }

    fn encode_floats(&mut self, values: &[f64], out: &mut Vec<u8>) {
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
