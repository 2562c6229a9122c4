//! Moving columns' numbers by the differences of a row.
//!
//! Invariant: what is moved forwards and back is as it was.

use super::BLOCK_COLUMNS;
use super::blocks::Blocks;
use super::order::difference;
use crate::decimal::{RAW, to_float};

/// Destination of decoded cells; `()` when only the state matters.
pub(crate) trait Cells {
    fn set(&mut self, column: u16, value: f64);
    const WANTED: bool;
}

impl Cells for () {
    fn set(&mut self, _: u16, _: f64) {}
    const WANTED: bool = false;
}

impl Cells for [f64] {
    #[inline(always)]
    fn set(&mut self, column: u16, value: f64) {
        if let Some(cell) = self.get_mut(usize::from(column)) {
            *cell = value;
        }
    }
    const WANTED: bool = true;
}

/// The numbers of columns, and where their cells are.
pub(crate) struct Columns<'a> {
    pub(crate) last: &'a mut [i64],
    pub(crate) exp: &'a [u8],
    pub(crate) order: &'a [u16],
}

impl Columns<'_> {
    /// Moves all columns by a row's differences, forwards or back; writes those that changed to `cells`.
    pub(crate) fn walk<C: Cells + ?Sized, const BACK: bool>(
        self,
        blocks: &Blocks<'_>,
        cells: &mut C,
    ) {
        let mut z = [0u64; BLOCK_COLUMNS];
        for block in blocks.iter() {
            block.unpack(&mut z);
            let from = block.index * BLOCK_COLUMNS;
            let to = from + block.block_columns;
            let of_block = Columns {
                last: &mut self.last[from..to],
                exp: &self.exp[from..to],
                order: &self.order[from..to],
            };
            if block.sparse {
                of_block.move_some::<C, BACK>(block.mask, block.plain, &z, cells);
            } else {
                of_block.move_all::<C, BACK>(block.plain, &z, cells);
            }
        }
    }

    #[inline]
    fn move_all<C: Cells + ?Sized, const BACK: bool>(
        self,
        plain: bool,
        z: &[u64; BLOCK_COLUMNS],
        cells: &mut C,
    ) {
        let Self { last, exp, order } = self;
        for (((last, &exp), &column), &z) in last.iter_mut().zip(exp).zip(order).zip(z) {
            step::<BACK>(last, exp, difference(z, plain, exp));
            if C::WANTED {
                cells.set(column, to_float(*last, exp));
            }
        }
    }

    #[inline]
    fn move_some<C: Cells + ?Sized, const BACK: bool>(
        self,
        mut mask: u32,
        plain: bool,
        z: &[u64; BLOCK_COLUMNS],
        cells: &mut C,
    ) {
        let mut slot = 0;
        while mask != 0 {
            let k = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            step::<BACK>(
                &mut self.last[k],
                self.exp[k],
                difference(z[slot], plain, self.exp[k]),
            );
            slot += 1;
            if C::WANTED {
                cells.set(self.order[k], to_float(self.last[k], self.exp[k]));
            }
        }
    }
}

/// Moves a column by a difference, forwards or back.
#[inline(always)]
pub(crate) fn step<const BACK: bool>(last: &mut i64, exp: u8, d: i64) {
    *last = match (exp == RAW, BACK) {
        (true, _) => *last ^ d,
        (false, false) => last.wrapping_add(d),
        (false, true) => last.wrapping_sub(d),
    };
}
