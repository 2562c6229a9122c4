//! A decoder of a few columns that skips all other payloads.
//!
//! Invariant: a pick's state equals what the full decoder would hold for its column.

use narthex_model::cell::{self, ABSENT, STALE};

use super::order::difference;
use super::state::RowState;
use super::wire::{Known, RowView};
use super::{BLOCK_COLUMNS, MAX_COLUMNS};
use crate::decimal::{RAW, to_float};
use crate::error::ChunkError;

/// Decodes chosen columns forwards from a key row.
#[derive(Clone, Debug)]
pub struct ColumnPick {
    wanted: Vec<u32>,
    picks: Vec<Pick>,
    present: Vec<u64>,
    cells: Vec<f64>,
    /// Number of the strip's columns; `None` before the first row.
    columns: Option<usize>,
    time_ms: i64,
    step_ms: i64,
}

#[derive(Clone, Copy, Debug)]
struct Pick {
    position: usize,
    /// Index among the requested columns.
    index: usize,
    last: i64,
    exp: u8,
}

impl ColumnPick {
    /// Returns a decoder of `columns`, in any order; its first row must be a key row.
    #[must_use]
    pub fn new(columns: &[u32]) -> Self {
        Self {
            wanted: columns.to_vec(),
            picks: vec![],
            present: vec![],
            cells: vec![ABSENT; columns.len()],
            columns: None,
            time_ms: 0,
            step_ms: 0,
        }
    }

    /// Steps to the row at the front of `bytes`; returns the number of bytes used.
    ///
    /// # Errors
    /// Fails on malformed bytes; the decoder must not be used afterwards.
    pub fn step(&mut self, bytes: &[u8]) -> Result<usize, ChunkError> {
        self.step_with(bytes, |_, _| {})
    }

    /// Steps like [`ColumnPick::step`] and passes on requested histograms: index among the requested columns, bytes.
    ///
    /// # Errors
    /// Fails on malformed bytes; the decoder must not be used afterwards.
    pub fn step_with<'r>(
        &mut self,
        bytes: &'r [u8],
        mut histogram: impl FnMut(usize, &'r [u8]),
    ) -> Result<usize, ChunkError> {
        let view = RowView::parse(bytes, self.columns.map_or(Known::Nothing, Known::Before))?;
        if let (None, Some(snapshot)) = (self.columns, view.snapshot()) {
            let state = RowState::from_snapshot(snapshot)?;
            (self.time_ms, self.step_ms) = (state.time_ms, state.step_ms);
            self.start(&state);
        }
        self.columns = Some(view.columns);
        self.step_ms = self.step_ms.wrapping_add(view.step_change_ms);
        self.time_ms = self.time_ms.wrapping_add(self.step_ms);
        self.apply(&view)?;
        self.write_cells(&view, &mut histogram);
        Ok(view.len)
    }

    /// Returns the time of the current row, ms.
    #[must_use]
    pub fn time_ms(&self) -> i64 {
        self.time_ms
    }

    /// Returns one cell per requested column; cells that refer to histograms hold the index among those columns.
    #[must_use]
    pub fn cells(&self) -> &[f64] {
        &self.cells
    }

    fn start(&mut self, state: &RowState) {
        self.present.clone_from(&state.present);
        for (position, &column) in state.order.iter().enumerate() {
            self.add(
                usize::from(column),
                position,
                state.last[position],
                state.exp[position],
            );
        }
    }

    fn add(&mut self, column: usize, position: usize, last: i64, exp: u8) {
        for (index, _) in self
            .wanted
            .iter()
            .enumerate()
            .filter(|w| *w.1 as usize == column)
        {
            self.picks.push(Pick {
                position,
                index,
                last,
                exp,
            });
        }
    }

    fn apply(&mut self, view: &RowView<'_>) -> Result<(), ChunkError> {
        if view.columns > view.columns_before {
            self.present.resize(view.columns.div_ceil(64), 0);
            for column in view.columns_before..view.columns {
                self.present[column / 64] |= 1 << (column % 64);
                self.add(column, column, 0, 0);
            }
        }
        if let Some(order) = view.order() {
            for pick in &mut self.picks {
                let from = order.iter().position(|&p| usize::from(p) == pick.position);
                pick.position = from.expect("an order is a permutation");
            }
        }
        if let Some(toggles) = view.toggles() {
            toggles.flip(&mut self.present);
        }
        for switch in view.switches() {
            for pick in self
                .picks
                .iter_mut()
                .filter(|p| p.position == switch.position)
            {
                let base = switch.apply(pick.last).filter(|_| pick.exp == switch.old);
                pick.last = base.ok_or(BAD_SWITCH)?;
                pick.exp = switch.new;
            }
        }
        self.add_differences(view);
        Ok(())
    }

    fn add_differences(&mut self, view: &RowView<'_>) {
        for pick in &mut self.picks {
            let block = view.blocks.find(pick.position / BLOCK_COLUMNS);
            let at = pick.position % BLOCK_COLUMNS;
            if let Some((block, z)) = block.and_then(|b| b.value(at).map(|z| (b, z))) {
                let d = difference(z, block.plain, pick.exp);
                pick.last = if pick.exp == RAW {
                    pick.last ^ d
                } else {
                    pick.last.wrapping_add(d)
                };
            }
        }
    }

    fn is_present(&self, column: usize) -> bool {
        self.present
            .get(column / 64)
            .is_some_and(|w| w >> (column % 64) & 1 == 1)
    }

    fn write_cells<'r>(&mut self, view: &RowView<'r>, histogram: &mut impl FnMut(usize, &'r [u8])) {
        self.cells.fill(ABSENT);
        for pick in &self.picks {
            if self.is_present(self.wanted[pick.index] as usize) {
                self.cells[pick.index] = to_float(pick.last, pick.exp);
            }
        }
        let Some(events) = view.events() else { return };
        let mut stale = [0u64; MAX_COLUMNS / 64];
        if let (true, Some(toggles)) = (events.gone_are_stale, view.toggles()) {
            toggles.flip(&mut stale);
        }
        for column in events.stale.iter() {
            stale[column / 64] |= 1 << (column % 64);
        }
        for (index, &column) in self.wanted.iter().enumerate() {
            let c = column as usize;
            let ends = stale.get(c / 64).is_some_and(|w| w >> (c % 64) & 1 == 1);
            if ends && !self.is_present(c) {
                self.cells[index] = STALE;
            }
        }
        for (column, bytes) in events.histograms.iter() {
            for index in (0..self.wanted.len()).filter(|i| self.wanted[*i] as usize == column) {
                self.cells[index] = cell::histogram(index as u32);
                histogram(index, bytes);
            }
        }
    }
}

const BAD_SWITCH: ChunkError = ChunkError::Malformed {
    what: "exponent switch",
    offset: 0,
};
