//! Non-float cells: their positions, and which are stale or histograms.
//!
//! After the first byte: flags; positions of the floats, as runs or as a bitmap; stale rows; rows of histograms, and
//! these. A chunk of only the floats follows.
//!
//! Invariant: the number of floats read equals the number the following chunk decodes to.

use narthex_model::Histogram;
use narthex_model::cell::{self, ABSENT, Cell, STALE};
use std::{ops::Range, sync::Arc};

use super::kind;
use crate::bits::{Reader, put_varint};
use crate::error::ChunkError;
use crate::histogram::decode_histogram;

const BITMAP: u8 = 1;
const STALE_ROWS: u8 = 2;
/// Histograms, each by itself: blocks before version 3 have them so.
const HISTOGRAMS: u8 = 4;
const FLOATS: u8 = 8;
const GROUPS: u8 = 16;

/// Appends everything but the histograms and the floats.
pub(crate) fn encode(cells: &[f64], floats: bool, out: &mut Vec<u8>) {
    let rows = |wanted: fn(f64) -> bool| (0..cells.len()).filter(move |r| wanted(cells[*r]));
    let stale: Vec<usize> = rows(cell::is_stale).collect();
    let is_histogram = |cell| matches!(Cell::decode(cell), Cell::Histogram(_));
    let with_histogram: Vec<usize> = rows(is_histogram).collect();
    let mut flags = 0;
    flags |= if stale.is_empty() { 0 } else { STALE_ROWS };
    flags |= if with_histogram.is_empty() { 0 } else { GROUPS };
    flags |= if floats { FLOATS } else { 0 };
    out.push(kind::STATES);
    let flags_at = out.len();
    out.push(flags);
    if floats {
        put_runs(cells, out);
        let bitmap = cells.len().div_ceil(8);
        if out.len() - flags_at - 1 > bitmap {
            out.truncate(flags_at + 1);
            out[flags_at] |= BITMAP;
            out.resize(flags_at + 1 + bitmap, 0);
            for r in rows(cell::is_float) {
                out[flags_at + 1 + r / 8] |= 1 << (r % 8);
            }
        }
    }
    if !stale.is_empty() {
        put_rows(stale.iter().copied(), stale.len(), out);
    }
    if !with_histogram.is_empty() {
        put_rows(with_histogram.iter().copied(), with_histogram.len(), out);
    }
}

/// Appends run lengths, alternating from non-floats to floats; the last run is implied.
fn put_runs(cells: &[f64], out: &mut Vec<u8>) {
    let starts_with_float = cell::is_float(cells[0]);
    let lens: Vec<usize> = cells
        .chunk_by(|a, b| cell::is_float(*a) == cell::is_float(*b))
        .map(<[f64]>::len)
        .collect();
    put_varint(
        out,
        (lens.len() as u64 - 1) << 1 | u64::from(starts_with_float),
    );
    for len in &lens[..lens.len() - 1] {
        put_varint(out, *len as u64);
    }
}

fn put_rows(rows: impl Iterator<Item = usize>, count: usize, out: &mut Vec<u8>) {
    put_varint(out, count as u64);
    let mut next = 0;
    for r in rows {
        put_varint(out, (r - next) as u64);
        next = r + 1;
    }
}

/// Fills `out` with markers, and zeroes where floats belong; returns the number of floats.
///
/// Appends histograms to `histograms`; their cells' indexes count from its start.
pub(crate) fn decode(
    r: &mut Reader<'_>,
    wanted: &Range<usize>,
    out: &mut [f64],
    histograms: &mut Vec<Arc<Histogram>>,
) -> Result<usize, ChunkError> {
    let flags = r.byte()?;
    let known = BITMAP | STALE_ROWS | HISTOGRAMS | FLOATS | GROUPS;
    if flags & !known != 0 || flags & (HISTOGRAMS | GROUPS) == HISTOGRAMS | GROUPS {
        return Err(r.malformed("state flags"));
    }
    out.fill(ABSENT);
    let mut floats = 0;
    if flags & FLOATS != 0 {
        floats = if flags & BITMAP == 0 {
            read_runs(r, out)?
        } else {
            read_bitmap(r, out)?
        };
        if floats == 0 {
            return Err(r.malformed("float count"));
        }
    }
    if flags & STALE_ROWS != 0 {
        read_rows(r, out, |_| STALE)?;
    }
    if flags & (HISTOGRAMS | GROUPS) != 0 {
        let first = histograms.len();
        let count = read_rows(r, out, |k| cell::histogram((first + k) as u32))?;
        if flags & HISTOGRAMS != 0 {
            for _ in 0..count {
                histograms.push(Arc::new(decode_histogram(r.sized()?)?));
            }
            return Ok(floats);
        }
        let has_histogram = |row: &usize| matches!(Cell::decode(out[*row]), Cell::Histogram(_));
        let rows: Vec<usize> = (0..out.len()).filter(has_histogram).collect();
        super::histograms::read(r, count, |k| wanted.contains(&rows[k]), histograms)?;
    }
    Ok(floats)
}

/// Reads the states of a series that ended: floats, then only staleness markers; returns the number of floats.
///
/// `None`, with nothing read, if these are not the states.
#[inline]
pub(crate) fn read_ended(r: &mut Reader<'_>, rows: usize) -> Option<usize> {
    const FLOATS_THEN_OTHERS: u64 = 1 << 1 | 1;
    let mut ahead = *r;
    let flags = ahead.byte().ok()?;
    let floats = if flags == FLOATS | STALE_ROWS {
        if ahead.varint().ok()? != FLOATS_THEN_OTHERS {
            return None;
        }
        ahead.count(rows, "run").ok()?
    } else if flags == FLOATS | STALE_ROWS | BITMAP {
        let bitmap = ahead.slice(rows.div_ceil(8)).ok()?;
        let ones = bitmap.iter().map(|byte| byte.count_ones() as usize).sum();
        let is_float = |row: &usize| bitmap[row / 8] >> (row % 8) & 1 == 1;
        if (0..rows).take_while(is_float).count() != ones {
            return None;
        }
        ones
    } else {
        return None;
    };
    let stale = ahead.count(rows, "row count").ok()?;
    if floats == 0 || stale == 0 || floats + stale != rows || ahead.varint().ok()? != floats as u64
    {
        return None;
    }
    for _ in 1..stale {
        if ahead.varint().ok()? != 0 {
            return None;
        }
    }
    *r = ahead;
    Some(floats)
}

fn read_runs(r: &mut Reader<'_>, out: &mut [f64]) -> Result<usize, ChunkError> {
    let head = r.count(2 * out.len() + 1, "run count")?;
    let mut float = head & 1 == 1;
    let mut floats = 0;
    let mut rest = out;
    for run in 0..=head >> 1 {
        let last = run == head >> 1;
        let len = if last {
            rest.len()
        } else {
            r.count(rest.len(), "run")?
        };
        let (cells, after) = rest.split_at_mut(len);
        if float {
            cells.fill(0.0);
            floats += len;
        }
        float = !float;
        rest = after;
    }
    Ok(floats)
}

fn read_bitmap(r: &mut Reader<'_>, out: &mut [f64]) -> Result<usize, ChunkError> {
    let bitmap = r.slice(out.len().div_ceil(8))?;
    let mut floats = 0;
    for (k, cell) in out.iter_mut().enumerate() {
        if bitmap[k / 8] >> (k % 8) & 1 == 1 {
            *cell = 0.0;
            floats += 1;
        }
    }
    Ok(floats)
}

/// Writes `value(k)` to the k-th listed row, which must still be absent; returns the number of listed rows.
fn read_rows(
    r: &mut Reader<'_>,
    out: &mut [f64],
    value: impl Fn(usize) -> f64,
) -> Result<usize, ChunkError> {
    let count = r.count(out.len(), "row count")?;
    let mut next = 0;
    for k in 0..count {
        let malformed = r.malformed("row");
        let at = next + r.count(out.len(), "row")?;
        match out.get_mut(at) {
            Some(cell) if cell::is_absent(*cell) => *cell = value(k),
            _ => return Err(malformed),
        }
        next = at + 1;
    }
    Ok(count)
}
