//! A decoder of a few columns that skips the payload of all others.
//!
//! Invariant: picks ascend by position, so that one pass over a row's blocks serves them all.

use narthex_model::cell::{self, ABSENT, STALE};

use super::order::difference;
use super::state::RowState;
use super::wire::{Known, RowView};
use super::{LANES, MAX_COLUMNS};
use crate::decimal::{RAW, from_lane};
use crate::error::ChunkError;

/// Decodes chosen columns forwards from a key row.
#[derive(Clone, Debug)]
pub struct ColumnPick {
    wanted: Vec<u32>,
    picks: Vec<Pick>,
    present: Vec<u64>,
    columns: Option<usize>,
    time_ms: i64,
    step_ms: i64,
    cells: Vec<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Pick {
    position: usize,
    /// Index among the wanted columns.
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
            columns: None,
            time_ms: 0,
            step_ms: 0,
            cells: vec![ABSENT; columns.len()],
        }
    }

    /// Steps to the row at the front of `bytes`; returns the bytes used.
    ///
    /// # Errors
    /// Bad bytes; the decoder must not be used any more then.
    pub fn step(&mut self, bytes: &[u8]) -> Result<usize, ChunkError> {
        self.step_with(bytes, |_, _| {})
    }

    /// Steps like [`ColumnPick::step`] and hands out wanted histograms: index among the wanted columns, bytes.
    ///
    /// # Errors
    /// Bad bytes; the decoder must not be used any more then.
    pub fn step_with<'r>(
        &mut self,
        bytes: &'r [u8],
        mut histogram: impl FnMut(usize, &'r [u8]),
    ) -> Result<usize, ChunkError> {
        let view = RowView::parse(bytes, self.columns.map_or(Known::Nothing, Known::Before))?;
        if let (None, Some(snapshot)) = (self.columns, view.snapshot) {
            self.start(&RowState::from_snapshot(snapshot)?);
        }
        self.step_ms = self.step_ms.wrapping_add(view.step_change_ms);
        self.time_ms = self.time_ms.wrapping_add(self.step_ms);
        self.grow(view.columns_before, view.columns);
        if let Some(order) = &view.order {
            for pick in &mut self.picks {
                let from = order.iter().position(|&p| usize::from(p) == pick.position);
                pick.position = from.expect("an order is a permutation");
            }
            self.picks.sort_by_key(|p| p.position);
        }
        if let Some(toggles) = &view.toggles {
            toggles.flip(&mut self.present);
        }
        self.move_picks(&view)?;
        self.write_cells(&view, &mut histogram);
        Ok(view.len)
    }

    /// Returns the time of the row stepped to, ms.
    #[must_use]
    pub fn time_ms(&self) -> i64 {
        self.time_ms
    }

    /// Returns one cell for each wanted column; cells that refer to histograms count among the wanted columns.
    #[must_use]
    pub fn cells(&self) -> &[f64] {
        &self.cells
    }

    fn start(&mut self, state: &RowState) {
        self.time_ms = state.time_ms;
        self.step_ms = state.step_ms;
        self.present.clone_from(&state.present);
        for (position, &column) in state.order.iter().enumerate() {
            for (index, _) in self
                .wanted
                .iter()
                .enumerate()
                .filter(|w| *w.1 == u32::from(column))
            {
                let (last, exp) = (state.last[position], state.exp[position]);
                self.picks.push(Pick {
                    position,
                    index,
                    last,
                    exp,
                });
            }
        }
    }

    fn grow(&mut self, before: usize, columns: usize) {
        self.columns = Some(columns);
        if columns == before {
            return;
        }
        self.present.resize(columns.div_ceil(64), 0);
        for column in before..columns {
            self.present[column / 64] |= 1 << (column % 64);
            for (index, _) in self
                .wanted
                .iter()
                .enumerate()
                .filter(|w| *w.1 as usize == column)
            {
                self.picks.push(Pick {
                    position: column,
                    index,
                    last: 0,
                    exp: 0,
                });
            }
        }
    }

    fn move_picks(&mut self, view: &RowView<'_>) -> Result<(), ChunkError> {
        for switch in &view.switches {
            for pick in self
                .picks
                .iter_mut()
                .filter(|p| p.position == switch.position)
            {
                let base = switch.apply(pick.last).filter(|_| pick.exp == switch.old);
                pick.last = base.ok_or(ChunkError::Malformed {
                    what: "lane switch",
                    offset: 0,
                })?;
                pick.exp = switch.new;
            }
        }
        let mut picks = self.picks.iter_mut().peekable();
        for block in view.blocks.iter() {
            while let Some(pick) = picks.next_if(|p| p.position / LANES <= block.index) {
                if pick.position / LANES < block.index {
                    continue;
                }
                if let Some(z) = block.lane(pick.position % LANES) {
                    let d = difference(z, block.plain, pick.exp);
                    pick.last = if pick.exp == RAW {
                        pick.last ^ d
                    } else {
                        pick.last.wrapping_add(d)
                    };
                }
            }
            if picks.peek().is_none() {
                break;
            }
        }
        Ok(())
    }

    fn write_cells<'r>(&mut self, view: &RowView<'r>, histogram: &mut impl FnMut(usize, &'r [u8])) {
        self.cells.fill(ABSENT);
        let is_present = |c: usize| {
            self.present
                .get(c / 64)
                .is_some_and(|w| w >> (c % 64) & 1 == 1)
        };
        for pick in &self.picks {
            if is_present(self.wanted[pick.index] as usize) {
                self.cells[pick.index] = from_lane(pick.last, pick.exp);
            }
        }
        let Some(events) = &view.events else { return };
        let mut stale = [0u64; MAX_COLUMNS / 64];
        if let (true, Some(toggles)) = (events.gone_are_stale, &view.toggles) {
            toggles.flip(&mut stale);
        }
        for column in events.stale.iter() {
            stale[column / 64] |= 1 << (column % 64);
        }
        for (index, &column) in self.wanted.iter().enumerate() {
            let c = column as usize;
            if stale.get(c / 64).is_some_and(|w| w >> (c % 64) & 1 == 1) && !is_present(c) {
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
