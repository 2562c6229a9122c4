//! The state that encoder and decoder share after a row.
//!
//! Invariant: `order` is a permutation of the columns; presence bits from the column count on are clear.

use super::blocks::{BlockWriter, Blocks};
use super::histograms::HistogramColumns;
use super::order::{order_len, permute, put_order, read_order, unpermute};
use super::walk::{Cells, Columns};
use super::wire::{Known, RowView};
use super::{BLOCK_COLUMNS, MAX_COLUMNS, snap};
use crate::bits::{Reader, put_signed, put_varint};
use crate::decimal::{RAW, to_float};
use crate::error::ChunkError;

/// The last row of a strip and its columns' exponents and order; 11 bytes a column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowState {
    /// Integer or bits of each column's last value, by position.
    pub(crate) last: Vec<i64>,
    /// Exponent of each column, by position.
    pub(crate) exp: Vec<u8>,
    /// Column at each position.
    pub(crate) order: Vec<u16>,
    /// Columns that have a value in the last row.
    pub(crate) present: Vec<u64>,
    /// Number of columns without a value in the last row.
    pub(crate) absent: usize,
    /// Last histogram of each column that has had one and has not ended since.
    pub(crate) histograms: HistogramColumns,
    pub(crate) time_ms: i64,
    pub(crate) step_ms: i64,
}

impl RowState {
    /// Returns the state before the key row at the front of `row`; `None` when it was the encoder's first.
    ///
    /// # Errors
    /// Fails on malformed bytes or a row without a snapshot.
    pub fn before(row: &[u8]) -> Result<Option<Self>, ChunkError> {
        let view = RowView::parse(row, Known::Nothing)?;
        let snapshot = view.snapshot().ok_or(ChunkError::NotAKeyRow)?;
        let state = Self::from_snapshot(snapshot, |_| true)?;
        Ok((state.columns() > 0).then_some(state))
    }

    /// Returns the state after `rows`, the first of which must be a key row; `None` of no rows.
    ///
    /// # Errors
    /// Fails on malformed bytes.
    pub fn after<'r>(rows: impl IntoIterator<Item = &'r [u8]>) -> Result<Option<Self>, ChunkError> {
        let mut last: Option<Self> = None;
        for row in rows {
            let known = last
                .as_ref()
                .map_or(Known::Nothing, |state| Known::Before(state.columns()));
            let view = RowView::parse(row, known)?;
            let mut state = match last.take() {
                Some(state) => state,
                None => {
                    let snapshot = view.snapshot().ok_or(ChunkError::NotAKeyRow)?;
                    Self::from_snapshot(snapshot, |_| true)?
                }
            };
            state.apply(&view, &mut ())?;
            last = Some(state);
        }
        Ok(last)
    }

    /// Returns the number of columns.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.order.len()
    }

    /// Returns the time of the last row, ms.
    #[must_use]
    pub fn time_ms(&self) -> i64 {
        self.time_ms
    }

    /// Reports whether `column` has a float in the last row.
    #[must_use]
    #[inline]
    pub fn is_present(&self, column: usize) -> bool {
        self.present
            .get(column / 64)
            .is_some_and(|w| w >> (column % 64) & 1 == 1)
    }

    /// Returns the float that `column` has in the last row.
    #[must_use]
    pub fn value(&self, column: usize) -> Option<f64> {
        if !self.is_present(column) {
            return None;
        }
        let position = self.order.iter().position(|&c| usize::from(c) == column)?;
        Some(to_float(self.last[position], self.exp[position]))
    }

    /// Lists the floats of the last row with their columns, in no particular order.
    pub fn floats(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        let columns = self.order.iter().map(|column| usize::from(*column));
        let floats = columns.zip(self.last.iter().zip(&self.exp));
        let present = floats.filter(|(column, _)| self.is_present(*column));
        present.map(|(column, (last, exp))| (column, to_float(*last, *exp)))
    }

    /// Returns the heap bytes held.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.last.capacity() * 8
            + self.exp.capacity()
            + self.order.capacity() * 2
            + self.present.capacity() * 8
            + self.histogram_bytes()
    }

    /// Returns the heap bytes held by the last histograms.
    #[must_use]
    pub fn histogram_bytes(&self) -> usize {
        self.histograms.heap_bytes()
    }

    /// Adds present columns at the end.
    pub(crate) fn grow(&mut self, to: usize) {
        let (before, added) = (self.columns(), to.saturating_sub(self.columns()));
        if added > before / 8 {
            // A strip gets most of its columns in its first row.
            self.order.reserve_exact(added);
            self.last.reserve_exact(added);
            self.exp.reserve_exact(added);
        }
        if added == 0 {
            return;
        }
        self.order.extend((before..to).map(|column| column as u16));
        self.last.resize(to, 0);
        self.exp.resize(to, 0);
        self.present.resize(to.div_ceil(64), 0);
        for (word, first) in self.present.iter_mut().zip((0..).step_by(64)) {
            let (from, end) = (before.clamp(first, first + 64), to.clamp(first, first + 64));
            if from < end {
                *word |= (u64::MAX >> (64 - (end - from))) << (from - first);
            }
        }
    }

    /// Drops the columns from `to` on, which must be last in the order.
    fn shrink(&mut self, to: usize) {
        self.order.truncate(to);
        self.last.truncate(to);
        self.exp.truncate(to);
        self.present.truncate(to.div_ceil(64));
        if let (Some(word), 1..) = (self.present.last_mut(), to % 64) {
            *word &= (1 << (to % 64)) - 1;
        }
    }

    pub(crate) fn reorder(&mut self, order: &[u16]) {
        permute(&mut self.last, order);
        permute(&mut self.exp, order);
        permute(&mut self.order, order);
    }

    pub(crate) fn count_absent(&mut self) {
        let present: u32 = self.present.iter().map(|w| w.count_ones()).sum();
        self.absent = self.columns() - present as usize;
    }

    /// Advances from the previous row to the row `view`; writes changed columns to `cells`.
    /// Returns whether all cells must be rewritten, because an absent column returned or columns were added.
    pub(crate) fn apply<C: Cells + ?Sized>(
        &mut self,
        view: &RowView<'_>,
        cells: &mut C,
    ) -> Result<bool, ChunkError> {
        self.step_ms = self.step_ms.wrapping_add(view.step_change_ms);
        self.time_ms = self.time_ms.wrapping_add(self.step_ms);
        let mut refresh = view.columns != view.columns_before;
        if refresh {
            self.grow(view.columns);
        }
        if let Some(order) = view.order() {
            self.reorder(order);
        }
        if let Some(toggles) = view.toggles() {
            toggles.flip(&mut self.present);
            self.count_absent();
            refresh = true;
        }
        if let Some(list) = view.histograms() {
            self.histograms
                .change::<false>(list, view.columns, |_| true)?;
        }
        for switch in view.switches() {
            let at = switch.position;
            let base = switch
                .apply(self.last[at])
                .filter(|_| self.exp[at] == switch.old);
            self.last[at] = base.ok_or(ChunkError::Malformed {
                what: "exponent switch",
                offset: 0,
            })?;
            self.exp[at] = switch.new;
        }
        self.walk::<C, false>(&view.blocks, cells);
        // A restarted column can reach its new value without any difference.
        for switch in view.switches() {
            let at = switch.position;
            cells.set(self.order[at], to_float(self.last[at], self.exp[at]));
        }
        Ok(refresh)
    }

    /// Goes back from the row `view` to its predecessor; undoes [`RowState::apply`].
    pub(crate) fn undo<C: Cells + ?Sized>(
        &mut self,
        view: &RowView<'_>,
        cells: &mut C,
    ) -> Result<bool, ChunkError> {
        self.walk::<C, true>(&view.blocks, cells);
        let malformed = ChunkError::Malformed {
            what: "exponent switch",
            offset: 0,
        };
        for switch in view.switches() {
            let at = switch.position;
            let last = switch
                .undo(self.last[at])
                .filter(|_| self.exp[at] == switch.new);
            self.last[at] = last.ok_or(malformed.clone())?;
            self.exp[at] = switch.old;
            cells.set(self.order[at], to_float(self.last[at], self.exp[at]));
        }
        if let Some(list) = view.histograms() {
            self.histograms
                .change::<true>(list, view.columns, |_| true)?;
        }
        let mut refresh = false;
        if let Some(toggles) = view.toggles() {
            toggles.flip(&mut self.present);
            refresh = true;
        }
        if let Some(order) = view.order() {
            unpermute(&mut self.last, order);
            unpermute(&mut self.exp, order);
            unpermute(&mut self.order, order);
        }
        if view.columns != view.columns_before {
            let kept = self.order[..view.columns_before].iter();
            if kept.clone().any(|&c| usize::from(c) >= view.columns_before) {
                return Err(ChunkError::Malformed {
                    what: "column growth",
                    offset: 0,
                });
            }
            self.shrink(view.columns_before);
        }
        self.count_absent();
        self.time_ms = self.time_ms.wrapping_sub(self.step_ms);
        self.step_ms = self.step_ms.wrapping_sub(view.step_change_ms);
        Ok(refresh)
    }

    fn walk<C: Cells + ?Sized, const BACK: bool>(&mut self, blocks: &Blocks<'_>, cells: &mut C) {
        let columns = Columns {
            last: &mut self.last,
            exp: &self.exp,
            order: &self.order,
        };
        columns.walk::<C, BACK>(blocks, cells);
    }

    /// Appends this state as a key row's snapshot.
    pub(crate) fn put_snapshot(&self, out: &mut Vec<u8>) {
        let n = self.columns();
        put_varint(out, n as u64);
        put_signed(out, self.time_ms);
        put_signed(out, self.step_ms);
        let ordered = self
            .order
            .iter()
            .enumerate()
            .any(|(p, &c)| p != usize::from(c));
        let mut flags = 0;
        for (set, bit) in [
            (ordered, snap::ORDER),
            (self.exp.iter().any(|e| *e != 0), snap::EXPS),
            (self.absent > 0, snap::PRESENCE),
            (self.last.iter().any(|l| *l != 0), snap::VALUES),
            (!self.histograms.is_empty(), snap::HISTOGRAMS),
        ] {
            flags |= if set { bit } else { 0 };
        }
        out.push(flags);
        if ordered {
            put_order(&self.order, out);
        }
        if flags & snap::EXPS != 0 {
            for run in self.exp.chunk_by(|a, b| a == b) {
                put_varint(out, (run.len() as u64) << 4 | u64::from(run[0]));
            }
        }
        if flags & snap::PRESENCE != 0 {
            out.extend(
                self.present
                    .iter()
                    .flat_map(|w| w.to_le_bytes())
                    .take(n.div_ceil(8)),
            );
        }
        if flags & snap::HISTOGRAMS != 0 {
            self.histograms.put_all(out);
        }
        if flags & snap::VALUES != 0 {
            let at = out.len();
            out.push(0);
            let mut writer = BlockWriter::new(out, n.div_ceil(BLOCK_COLUMNS));
            for (index, (last, exp)) in self
                .last
                .chunks(BLOCK_COLUMNS)
                .zip(self.exp.chunks(BLOCK_COLUMNS))
                .enumerate()
            {
                let mut d = [0i64; BLOCK_COLUMNS];
                d[..last.len()].copy_from_slice(last);
                writer.put_block(index, last.len(), &d, raw_mask(exp));
            }
            let bitmap = writer.finish();
            out[at] = u8::from(bitmap);
        }
    }

    /// Reads a key row's snapshot; of the histograms it decodes those of `wanted` columns.
    pub(crate) fn from_snapshot(
        bytes: &[u8],
        wanted: impl Fn(usize) -> bool,
    ) -> Result<Self, ChunkError> {
        let mut r = Reader::new(bytes);
        let n = r.count(MAX_COLUMNS, "column count")?;
        let mut state = Self {
            time_ms: r.signed()?,
            step_ms: r.signed()?,
            ..Self::default()
        };
        state.grow(n);
        let flags = r.byte()?;
        if flags & snap::ORDER != 0 {
            let offset = r.offset();
            state.order = read_order(r.slice(order_len(n))?, n, offset)?;
        }
        if flags & snap::EXPS != 0 {
            let mut at = 0;
            while at < n {
                let offset = r.offset();
                let run = r.count(n << 4 | 15, "exponent run")?;
                let (len, exp) = (run >> 4, (run & 15) as u8);
                if len == 0 || len > n - at || !super::switch::is_exponent(exp) {
                    return Err(ChunkError::Malformed {
                        what: "exponent run",
                        offset,
                    });
                }
                state.exp[at..at + len].fill(exp);
                at += len;
            }
        }
        if flags & snap::PRESENCE != 0 {
            let bitmap = r.slice(n.div_ceil(8))?;
            let mut words = vec![0u64; n.div_ceil(64)];
            for (k, &b) in bitmap.iter().enumerate() {
                words[k / 8] |= u64::from(b) << (k % 8 * 8);
            }
            if words
                .iter()
                .zip(&state.present)
                .any(|(w, all)| w & !all != 0)
            {
                return Err(r.malformed("presence bitmap"));
            }
            state.present = words;
            state.count_absent();
        }
        if flags & snap::HISTOGRAMS != 0 {
            state.histograms = HistogramColumns::read_all(&mut r, n, wanted)?;
        }
        if flags & snap::VALUES != 0 {
            let bitmap = r.byte()? != 0;
            let (blocks, len) = Blocks::parse(r.rest(), bitmap, n)?;
            state.walk::<(), false>(&blocks, &mut ());
            r.slice(len)?;
        }
        r.end()?;
        Ok(state)
    }
}

/// Returns a mask of the raw columns of a block.
pub(crate) fn raw_mask(exp: &[u8]) -> u32 {
    exp.iter()
        .enumerate()
        .fold(0, |mask, (k, &e)| mask | u32::from(e == RAW) << k)
}
