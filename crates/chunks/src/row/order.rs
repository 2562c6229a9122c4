//! The order of columns inside a strip: neighbours should need similar widths, or stay unchanged together.
//!
//! Invariant: an order is a permutation of `0..n`; the bytes carry it, so readers need not know how it was chosen.

use super::BLOCK_COLUMNS;
use crate::bits::{get_bits, pack, packed_len, unzigzag, width_of};
use crate::decimal::RAW;
use crate::error::ChunkError;

/// Rows watched before choosing an order: a rough one early, because the first rows cost most, then a good one.
const ROUGH_ROWS: u8 = 4;
const WATCH_ROWS: u8 = 16;

/// Rows over which the good order must save what writing it costs.
const EARN_ROWS: usize = 60;

const SIGNED: u8 = 0x80;

/// Observations of the last rows about each column, by position.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    rows: u8,
    changes: Vec<u8>,
    /// Width of the widest difference without its sign; the top bit records that one was negative.
    widths: Vec<u8>,
}

impl Watch {
    /// Notes the differences of a block that begins at `from`.
    pub(crate) fn note(&mut self, from: usize, d: &[i64], exps: &[u8]) {
        let end = from + d.len();
        if self.changes.len() < end {
            self.changes.resize(end, 0);
            self.widths.resize(end, 0);
        }
        let seen = self.changes[from..end]
            .iter_mut()
            .zip(&mut self.widths[from..end]);
        for ((changes, width), (&d, &exp)) in seen.zip(d.iter().zip(exps)) {
            *changes += u8::from(d != 0);
            let signed = exp != RAW && d < 0;
            let magnitude = if exp == RAW {
                d as u64
            } else {
                d.unsigned_abs()
            };
            let w = width_of(magnitude) as u8;
            *width = (*width & 0x7f).max(w) | (*width & SIGNED) | if signed { SIGNED } else { 0 };
        }
    }

    /// Ends a row of `n` columns; returns an order to adopt, if one saves more than writing it costs.
    pub(crate) fn end_row(&mut self, n: usize) -> Option<Vec<u16>> {
        self.rows += 1;
        match self.rows {
            ROUGH_ROWS => self.choose(n, usize::from(WATCH_ROWS - ROUGH_ROWS)),
            WATCH_ROWS => self.choose(n, EARN_ROWS),
            _ => None,
        }
    }

    /// Reports whether nothing is left to learn.
    pub(crate) fn is_done(&self) -> bool {
        self.rows >= WATCH_ROWS
    }

    /// Moves the observations to their columns' places in `order`.
    pub(crate) fn reorder(&mut self, order: &[u16]) {
        self.changes.resize(order.len(), 0);
        self.widths.resize(order.len(), 0);
        permute(&mut self.changes, order);
        permute(&mut self.widths, order);
    }

    fn choose(&self, n: usize, earn_rows: usize) -> Option<Vec<u16>> {
        let key = |p: &u16| {
            let p = usize::from(*p);
            let changes = self.changes.get(p).copied().unwrap_or(0);
            let width = self.widths.get(p).copied().unwrap_or(0);
            let signed = u8::from(width & SIGNED != 0);
            let class = match changes {
                0 => 0,
                c if c < self.rows / 4 => 1,
                _ => 2,
            };
            (class, (width & 0x7f) + signed, signed)
        };
        let mut order: Vec<u16> = (0..n as u16).collect();
        let before = self.cost_bits(&order);
        order.sort_by_key(key);
        let after = self.cost_bits(&order);
        let price = order_len(n) * 8;
        (before.saturating_sub(after) * earn_rows > price).then_some(order)
    }

    /// Estimates the bits of a row in `order`.
    fn cost_bits(&self, order: &[u16]) -> usize {
        let block_cost = |block: &[u16]| {
            let (mut width, mut signed, mut changes) = (0, 0, 0);
            for &p in block {
                let w = self.widths.get(usize::from(p)).copied().unwrap_or(0);
                width = width.max(usize::from(w & 0x7f));
                signed |= usize::from(w >> 7);
                changes += usize::from(self.changes.get(usize::from(p)).copied().unwrap_or(0));
            }
            let rows = usize::from(self.rows.max(1));
            let width = width + signed;
            let dense = width * block.len();
            let sparse = (width * changes).div_ceil(rows) + block.len();
            dense.min(sparse) + if changes == 0 { 0 } else { 8 }
        };
        order.chunks(BLOCK_COLUMNS).map(block_cost).sum()
    }
}

/// Returns the encoded length of an order of `n` columns, bytes.
pub(crate) fn order_len(n: usize) -> usize {
    packed_len(n, index_width(n))
}

/// Appends `order`, bit-packed.
pub(crate) fn put_order(order: &[u16], out: &mut Vec<u8>) {
    let values: Vec<u64> = order.iter().map(|&c| u64::from(c)).collect();
    pack(&values, index_width(order.len()), out);
}

/// Reads an order of `n` columns from `bytes`, which is [`order_len`] long.
pub(crate) fn read_order(bytes: &[u8], n: usize, offset: usize) -> Result<Vec<u16>, ChunkError> {
    let width = index_width(n);
    let mut seen = [0u64; super::MAX_COLUMNS / 64];
    let mut order = Vec::with_capacity(n);
    for k in 0..n {
        let c = if width == 0 {
            0
        } else {
            get_bits(bytes, k * width as usize, width) as usize
        };
        let fresh = c < n && seen[c / 64] >> (c % 64) & 1 == 0;
        if !fresh {
            return Err(ChunkError::Malformed {
                what: "column order",
                offset,
            });
        }
        seen[c / 64] |= 1 << (c % 64);
        order.push(c as u16);
    }
    Ok(order)
}

fn index_width(n: usize) -> u32 {
    width_of(n.saturating_sub(1) as u64)
}

/// Rearranges `items` so that place `p` holds the item from `order[p]`.
pub(crate) fn permute<T: Copy>(items: &mut [T], order: &[u16]) {
    let old = items.to_vec();
    for (item, &from) in items.iter_mut().zip(order) {
        *item = old[usize::from(from)];
    }
}

/// Undoes [`permute`].
pub(crate) fn unpermute<T: Copy>(items: &mut [T], order: &[u16]) {
    let moved = items.to_vec();
    for (&item, &to) in moved.iter().zip(order) {
        items[usize::from(to)] = item;
    }
}

/// Decodes a zigzag difference; raw columns and plain blocks pass through.
#[inline(always)]
pub(crate) fn difference(z: u64, plain: bool, exp: u8) -> i64 {
    if plain || exp == RAW {
        z as i64
    } else {
        unzigzag(z)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_round_trip_and_must_be_permutations() {
        for n in [1usize, 2, 3, 33, 588, 1024] {
            let order: Vec<u16> = (0..n as u16).rev().collect();
            let mut bytes = vec![];
            put_order(&order, &mut bytes);
            assert_eq!(bytes.len(), order_len(n));
            assert_eq!(read_order(&bytes, n, 0).expect("permutation"), order);
            if n > 1 {
                let zeros = vec![0; order_len(n)];
                assert!(read_order(&zeros, n, 0).is_err());
            }
        }
        let mut items = ['a', 'b', 'c'];
        permute(&mut items, &[2, 0, 1]);
        assert_eq!(items, ['c', 'a', 'b']);
        unpermute(&mut items, &[2, 0, 1]);
        assert_eq!(items, ['a', 'b', 'c']);
    }

    #[test]
    fn still_columns_and_similar_widths_gather() {
        let mut watch = Watch::default();
        for _ in 0..WATCH_ROWS {
            let d: Vec<i64> = (0..96).map(|c| [0, 5, -90_000][c % 3]).collect();
            for (b, d) in d.chunks(BLOCK_COLUMNS).enumerate() {
                watch.note(b * BLOCK_COLUMNS, d, &[0; BLOCK_COLUMNS]);
            }
            watch.end_row(96);
        }
        let order = watch.choose(96, EARN_ROWS).expect("worth it");
        assert!(order[..32].iter().all(|c| c % 3 == 0));
        assert!(order[32..64].iter().all(|c| c % 3 == 1));
        assert_eq!(difference(3, false, 0), -2);
    }
}
