//! The difference of a column's histogram to the one before it, which leads from either to the other.
//!
//! Bytes: docs/format/chunk.md.
//!
//! Invariant: what is applied and undone, or undone and applied, leaves a state as it was.

use super::state::{BEFORE_BUCKETS, COUNT, Fit, HistogramState, ascend, indexes, numbers, slots};
use super::{decode_histogram, encode_histogram, get_spans, put_spans};
use crate::bits::{Reader, put_signed, put_sized};
use crate::decimal::{MAX_EXP, RAW, find_exp, from_int, to_int};
use crate::error::ChunkError;
use crate::row::blocks::{BlockWriter, Blocks};
use crate::row::walk::Columns;
use crate::row::{BLOCK_COLUMNS, MAX_COLUMNS};
use narthex_model::Histogram;
use narthex_model::histogram::Span;
use std::ops::RangeFrom;

/// The new histogram as a whole; without `OLD` it is the column's first.
const NEW: u8 = 1;
/// The old histogram as a whole; without `NEW` it was the column's last.
const OLD: u8 = 2;
/// New spans and old ones.
const SPANS: u8 = 4;
const SUM: u8 = 8;
/// The count changed by as much as all buckets together, and is left out.
const DERIVED: u8 = 16;
const NUMBERS: u8 = 32;
/// A bitmap of the blocks in which a number changed precedes them.
const BITMAP: u8 = 64;

/// From here on the number says how many bytes of the sum's bits changed, less so many.
const SUM_BYTES: u8 = 16;

/// Appends the change from `state` to `now`, which the state becomes; one of both must be there.
pub(crate) fn put_change(
    state: &mut Option<HistogramState>,
    now: Option<&Histogram>,
    out: &mut Vec<u8>,
) {
    if let (Some(before), Some(now)) = (state.as_mut(), now) {
        let (fit, exp) = before.fit(now);
        if fit != Fit::None && put_difference(before, now, exp, fit == Fit::Spans, out) {
            return;
        }
    }
    let before = state.take().map(|state| state.to_histogram());
    let new = now.map_or(0, |_| NEW);
    out.push(new | before.as_ref().map_or(0, |_| OLD));
    for whole in [now, before.as_ref()].into_iter().flatten() {
        let mut bytes = Vec::new();
        encode_histogram(whole, &mut bytes);
        put_sized(&bytes, out);
    }
    *state = now.map(HistogramState::new);
}

/// Appends a difference in numbers, and in spans; reports whether there is one.
fn put_difference(
    state: &mut HistogramState,
    now: &Histogram,
    exp: u8,
    respanned: bool,
    out: &mut Vec<u8>,
) -> bool {
    let now_numbers: Box<[i64]> = numbers(now, exp).collect();
    let difference = |(before, after): (&i64, &i64)| match exp {
        RAW => before ^ after,
        _ => after.wrapping_sub(*before),
    };
    let between =
        |before: &[i64], after: &[i64]| before.iter().zip(after).map(difference).collect();
    let mut spans = None;
    let mut d: Vec<i64> = if respanned {
        let new = [now.positive_spans.clone(), now.negative_spans.clone()];
        let Some(slots) = Slots::new(state, &new) else {
            return false;
        };
        spans = Some(new);
        let before = slots.spread::<true>(&state.numbers);
        between(&before, &slots.spread::<false>(&now_numbers))
    } else {
        between(&state.numbers, &now_numbers)
    };
    if d.len() > MAX_COLUMNS {
        return false;
    }
    let head = out.len();
    out.push(0);
    let mut flags = 0;
    if let Some(new) = &spans {
        flags |= SPANS;
        let old = [&state.layout.positive_spans, &state.layout.negative_spans];
        new.iter()
            .chain(old)
            .for_each(|spans| put_spans(spans, out));
    }
    if state.sum != now.sum.to_bits() {
        flags |= SUM;
        put_sum(f64::from_bits(state.sum), now.sum, out);
    }
    if exp != RAW && d[COUNT] == observations(&d) {
        flags |= DERIVED;
        d[COUNT] = 0;
    }
    if d.iter().any(|d| *d != 0) {
        flags |= NUMBERS;
        let mut writer = BlockWriter::new(out, d.len().div_ceil(BLOCK_COLUMNS));
        for (index, some) in d.chunks(BLOCK_COLUMNS).enumerate() {
            let mut block = [0; BLOCK_COLUMNS];
            block[..some.len()].copy_from_slice(some);
            let raw = if exp == RAW { u32::MAX } else { 0 };
            writer.put_block(index, some.len(), &block, raw);
        }
        if writer.finish() {
            flags |= BITMAP;
        }
    }
    out[head] = flags;
    state.sum = now.sum.to_bits();
    match spans {
        Some(spans) => state.set_spans(spans, now_numbers),
        None => state.numbers = now_numbers,
    }
    true
}

/// Adds up the numbers of all buckets, or what they changed by.
fn observations(numbers: &[i64]) -> i64 {
    let buckets = numbers[COUNT + 1..].iter();
    buckets.fold(0, |all: i64, number| all.wrapping_add(*number))
}

/// Reports whether a change, taken forwards or back, leaves a histogram.
pub(crate) fn exists<const BACK: bool>(bytes: &[u8]) -> bool {
    let ends = if BACK { NEW } else { OLD };
    bytes
        .first()
        .is_none_or(|flags| flags & (NEW | OLD) != ends)
}

/// Takes the change in `bytes` from one side to the other: forwards, or back.
///
/// # Errors
/// Fails on malformed bytes, or on a state that is not what the change begins with.
pub(crate) fn apply<const BACK: bool>(
    state: &mut Option<HistogramState>,
    bytes: &[u8],
) -> Result<(), ChunkError> {
    let mut r = Reader::new(bytes);
    let flags = r.byte()?;
    let bad = r.malformed("histogram change");
    if flags & !(NEW | OLD) == 0 && flags != 0 {
        let mut whole = |flag: u8| match flags & flag {
            0 => Ok(None),
            _ => decode_histogram(r.sized()?).map(Some),
        };
        let (new, old) = (whole(NEW)?, whole(OLD)?);
        let (from, to) = if BACK { (new, old) } else { (old, new) };
        if from.is_some() != state.is_some() {
            return Err(bad);
        }
        *state = to.as_ref().map(HistogramState::new);
    } else {
        let state = state.as_mut().filter(|_| flags & (NEW | OLD | 0x80) == 0);
        apply_difference::<BACK>(state.ok_or(bad)?, flags, &mut r)?;
    }
    r.end()
}

fn apply_difference<const BACK: bool>(
    state: &mut HistogramState,
    flags: u8,
    r: &mut Reader<'_>,
) -> Result<(), ChunkError> {
    let mut slots = None;
    if flags & SPANS != 0 {
        let mut read = || Ok([get_spans(r, MAX_COLUMNS)?, get_spans(r, MAX_COLUMNS)?]);
        let (new, old): ([Vec<Span>; 2], [Vec<Span>; 2]) = (read()?, read()?);
        let (from, to) = if BACK { (new, old) } else { (old, new) };
        let is_from =
            from[0] == state.layout.positive_spans && from[1] == state.layout.negative_spans;
        let found = Slots::new(state, &to).filter(|_| is_from);
        let found = found.ok_or_else(|| r.malformed("histogram spans"))?;
        state.numbers = found.spread::<true>(&state.numbers);
        slots = Some((found, to));
    }
    if flags & SUM != 0 {
        state.sum = get_sum::<BACK>(r, f64::from_bits(state.sum))?;
    }
    let before = observations(&state.numbers);
    if flags & NUMBERS != 0 {
        if state.numbers.len() > MAX_COLUMNS {
            return Err(r.malformed("histogram change"));
        }
        let (blocks, len) = Blocks::parse(r.rest(), flags & BITMAP != 0, state.numbers.len())?;
        r.slice(len)?;
        let columns = Columns {
            last: &mut state.numbers,
            exp: match state.layout.exp {
                RAW => &[RAW; MAX_COLUMNS],
                _ => &[0; MAX_COLUMNS],
            },
            order: &[0; MAX_COLUMNS],
        };
        columns.walk::<(), BACK>(&blocks, &mut ());
    }
    if flags & DERIVED != 0 {
        let change = observations(&state.numbers).wrapping_sub(before);
        state.numbers[COUNT] = state.numbers[COUNT].wrapping_add(change);
    }
    if let Some((slots, spans)) = slots {
        let numbers = slots.gather(&state.numbers);
        state.set_spans(
            spans,
            numbers.ok_or_else(|| r.malformed("histogram spans"))?,
        );
    }
    Ok(())
}

/// The slots of two layouts together: for each number of either, its place in one and in the other.
struct Slots {
    places: Vec<(Option<u32>, Option<u32>)>,
    /// How many numbers the second has.
    len: usize,
}

impl Slots {
    /// Joins the slots of a state and of other spans; `None` when buckets are not in order, or too many.
    fn new(state: &HistogramState, to: &[Vec<Span>; 2]) -> Option<Self> {
        let from = [&state.layout.positive_spans, &state.layout.negative_spans];
        if !from.into_iter().chain(to).all(|spans| ascend(spans)) {
            return None;
        }
        let len = |spans: [&Vec<Span>; 2]| BEFORE_BUCKETS + slots(spans[0]) + slots(spans[1]);
        let [positive, negative] = to;
        let to_len = len([positive, negative]);
        if len(from) + to_len > MAX_COLUMNS {
            return None;
        }
        let mut places: Vec<_> = (0..BEFORE_BUCKETS as u32)
            .map(|at| (Some(at), Some(at)))
            .collect();
        let (mut own, mut other) = (BEFORE_BUCKETS as u32.., BEFORE_BUCKETS as u32..);
        for (from, to) in from.into_iter().zip(to) {
            let (mut from, mut to) = (indexes(from).peekable(), indexes(to).peekable());
            while let Some(least) = from.peek().into_iter().chain(to.peek()).min().copied() {
                let place =
                    |has: Option<i64>, places: &mut RangeFrom<u32>| has.and_then(|_| places.next());
                let in_from = place(from.next_if_eq(&least), &mut own);
                places.push((in_from, place(to.next_if_eq(&least), &mut other)));
            }
        }
        Some(Self {
            places,
            len: to_len,
        })
    }

    /// Returns numbers of one side for all slots; 0 for those that it has not.
    fn spread<const FROM: bool>(&self, numbers: &[i64]) -> Box<[i64]> {
        let place = |(from, to): &(Option<u32>, Option<u32>)| if FROM { *from } else { *to };
        let number = |slot| place(slot).map_or(0, |at| numbers[at as usize]);
        self.places.iter().map(number).collect()
    }

    /// Returns the second side's numbers; `None` when others are not 0.
    fn gather(&self, all: &[i64]) -> Option<Box<[i64]>> {
        let mut numbers = Vec::with_capacity(self.len);
        for ((_, to), number) in self.places.iter().zip(all) {
            match to {
                Some(_) => numbers.push(*number),
                None if *number == 0 => {}
                None => return None,
            }
        }
        Some(numbers.into())
    }
}

/// Appends how a sum changed: as an integer with some decimals, or as bits.
fn put_sum(before: f64, now: f64, out: &mut Vec<u8>) {
    let mut exp = 0;
    while let (Some((own, _)), Some((other, _))) = (find_exp(before, exp), find_exp(now, exp)) {
        exp = own.max(other);
        if let (Some(before), Some(now)) = (to_int(before, exp), to_int(now, exp)) {
            out.push(exp);
            return put_signed(out, now - before);
        }
    }
    let bits = (before.to_bits() ^ now.to_bits()).to_le_bytes();
    let len = bits
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    out.push(SUM_BYTES + len as u8);
    out.extend_from_slice(&bits[..len]);
}

/// Reads how a sum changed; returns the bits of what it became.
fn get_sum<const BACK: bool>(r: &mut Reader<'_>, sum: f64) -> Result<u64, ChunkError> {
    let bad = r.malformed("sum");
    let form = r.byte()?;
    if form <= MAX_EXP {
        let change = r.signed()?;
        let sum = to_int(sum, form).ok_or(bad)?;
        let sum = if BACK {
            sum.wrapping_sub(change)
        } else {
            sum.wrapping_add(change)
        };
        return Ok(from_int(sum, form).to_bits());
    }
    let len = form
        .checked_sub(SUM_BYTES)
        .filter(|len| *len <= 8)
        .ok_or(bad)?;
    let mut bits = [0; 8];
    bits[..usize::from(len)].copy_from_slice(r.slice(usize::from(len))?);
    Ok(sum.to_bits() ^ u64::from_le_bytes(bits))
}

#[cfg(test)]
mod tests;
