//! The column decoder, and the facts a column's first bytes reveal without decoding.
//!
//! Invariant: decoding consumes all bytes or fails.

use narthex_model::{Histogram, cell};

use super::floats::decode_floats;
use super::{kind, states};
use crate::bits::Reader;
use crate::error::ChunkError;
use std::{ops::Range, sync::Arc};

/// Facts known about a column before decoding it; `false` means unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ColumnFacts {
    /// Every cell is a float.
    pub all_floats: bool,
    /// Every cell has the same bits.
    pub constant: bool,
    /// Every cell is an integer.
    pub integers: bool,
    /// No cell is less than its predecessor.
    pub no_decrease: bool,
}

/// Decodes one cell per row into `out`; appends histograms to `histograms`, where cells refer to them.
///
/// Returns with how many floats the column begins, if all its other cells are known to be staleness markers.
///
/// # Errors
/// Fails on bytes that are too short, too long or not a chunk of `out.len()` rows; `out` is then undefined.
pub fn decode_column(
    bytes: &[u8],
    out: &mut [f64],
    histograms: &mut Vec<Arc<Histogram>>,
) -> Result<Option<usize>, ChunkError> {
    let all = 0..out.len();
    decode_rows(bytes, &all, out, histograms)
}

/// Decodes as `decode_column` does, but the cells of `wanted` rows alone: others in `out` are undefined.
///
/// # Errors
/// As `decode_column`.
pub fn decode_rows(
    bytes: &[u8],
    wanted: &Range<usize>,
    out: &mut [f64],
    histograms: &mut Vec<Arc<Histogram>>,
) -> Result<Option<usize>, ChunkError> {
    let mut r = Reader::new(bytes);
    if out.is_empty() {
        return r.end().map(|()| None);
    }
    let mut leading = None;
    let head = r.byte()?;
    if head != kind::STATES {
        decode_floats(head, &mut r, wanted, out)?;
        leading = Some(out.len());
    } else if let Some(floats) = states::read_ended(&mut r, out.len()) {
        let head = r.byte()?;
        let (floats, markers) = out.split_at_mut(floats);
        decode_floats(head, &mut r, wanted, floats)?;
        markers.fill(cell::STALE);
        leading = Some(floats.len());
    } else {
        let floats = states::decode(&mut r, wanted, out, histograms)?;
        if floats > 0 {
            let head = r.byte()?;
            // The floats are decoded to the front, then spread out from the back.
            let states: Vec<f64> = out.to_vec();
            decode_floats(head, &mut r, &(0..floats), &mut out[..floats])?;
            spread(&states, floats, out);
        }
    }
    r.end().map(|()| leading)
}

/// Returns the facts that the first bytes of a chunk reveal.
#[must_use]
pub fn column_facts(bytes: &[u8]) -> ColumnFacts {
    let mut r = Reader::new(bytes);
    let Ok(head) = r.byte() else {
        return ColumnFacts::default();
    };
    let exp = head >> 4;
    let constant = matches!(head & 15, kind::CONST_INT | kind::CONST_RAW);
    let all_floats = head & 15 != kind::STATES;
    let integers = all_floats && exp == 0 && !matches!(head & 15, kind::CONST_RAW | kind::XOR);
    let mut no_decrease = head & 15 == kind::CONST_INT;
    let plain_delta = kind::FOR | kind::FOR_DELTA;
    if head & 15 & !kind::FOR_GCD == plain_delta {
        let _ = r.byte().and_then(|_| r.signed());
        // Without patches every difference is at least the reference.
        no_decrease = r.signed().is_ok_and(|reference| reference >= 0);
    }
    ColumnFacts {
        all_floats,
        constant,
        integers,
        no_decrease,
    }
}

/// Moves `floats` values from the front of `out` to where `states` has floats, and the markers to the rest.
fn spread(states: &[f64], floats: usize, out: &mut [f64]) {
    let mut left = floats;
    for (r, state) in states.iter().enumerate().rev() {
        if cell::is_float(*state) && left > 0 {
            left -= 1;
            out[r] = out[left];
        } else {
            out[r] = *state;
        }
    }
}
