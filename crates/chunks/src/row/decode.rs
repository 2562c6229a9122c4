//! Decoders of whole rows: forwards from a key row and backwards from the encoder's state.
//!
//! Invariant: after each step `cells` holds one cell per column of the current row, markers included.

use narthex_model::cell::{self, ABSENT, STALE};

use super::MAX_COLUMNS;
use super::state::RowState;
use super::walk::Cells;
use super::wire::{Known, RowView, set_bits};
use crate::decimal::to_float;
use crate::error::ChunkError;
use crate::histogram::HistogramState;

/// Decodes rows forwards.
#[derive(Clone, Debug, Default)]
pub struct RowDecoder {
    state: RowState,
    started: bool,
    cells: Vec<f64>,
}

impl RowDecoder {
    /// Returns a decoder whose first row must be a key row.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Steps to the row at the front of `bytes`; returns the number of bytes used.
    ///
    /// # Errors
    /// Fails on malformed bytes; the decoder must not be used afterwards.
    pub fn step(&mut self, bytes: &[u8]) -> Result<usize, ChunkError> {
        self.step_with(bytes, |_, _| {})
    }

    /// Steps like [`RowDecoder::step`] and passes on each histogram with its column, ascending by column.
    ///
    /// # Errors
    /// Fails on malformed bytes; the decoder must not be used afterwards.
    pub fn step_with(
        &mut self,
        bytes: &[u8],
        histogram: impl FnMut(usize, &HistogramState),
    ) -> Result<usize, ChunkError> {
        let known = if self.started {
            Known::Before(self.state.columns())
        } else {
            Known::Nothing
        };
        let view = RowView::parse(bytes, known)?;
        let mut refresh = false;
        if let (false, Some(snapshot)) = (self.started, view.snapshot()) {
            self.state = RowState::from_snapshot(snapshot, |_| true)?;
            refresh = true;
        }
        self.cells.resize(view.columns, ABSENT);
        refresh |= self.state.apply(&view, self.cells.as_mut_slice())?;
        self.started = true;
        finish_cells(&self.state, refresh, &view, &mut self.cells, histogram)?;
        Ok(view.len)
    }

    /// Returns the time of the current row, ms.
    #[must_use]
    pub fn time_ms(&self) -> i64 {
        self.state.time_ms
    }

    /// Returns one cell per column; cells that refer to histograms count within the row.
    #[must_use]
    pub fn cells(&self) -> &[f64] {
        &self.cells
    }

    /// Returns the state after the current row.
    #[must_use]
    pub fn state(&self) -> &RowState {
        &self.state
    }
}

/// Decodes rows backwards, newest first.
pub struct RowBack<'r> {
    state: RowState,
    current: Option<RowView<'r>>,
    cells: Vec<f64>,
}

impl<'r> RowBack<'r> {
    /// Returns a decoder whose first row is the one after which the encoder was in `state`.
    #[must_use]
    pub fn new(state: RowState) -> Self {
        Self {
            state,
            current: None,
            cells: vec![],
        }
    }

    /// Steps to `row`, the predecessor of the current row.
    ///
    /// # Errors
    /// Fails on malformed bytes; the decoder must not be used afterwards.
    pub fn step(&mut self, row: &'r [u8]) -> Result<(), ChunkError> {
        self.step_with(row, |_, _| {})
    }

    /// Steps like [`RowBack::step`] and passes on each histogram with its column, ascending by column.
    ///
    /// # Errors
    /// Fails on malformed bytes; the decoder must not be used afterwards.
    pub fn step_with(
        &mut self,
        row: &'r [u8],
        histogram: impl FnMut(usize, &HistogramState),
    ) -> Result<(), ChunkError> {
        let mut refresh = true;
        if let Some(newer) = self.current.take() {
            refresh = self.state.undo(&newer, self.cells.as_mut_slice())?;
        }
        self.cells.resize(self.state.columns(), ABSENT);
        let view = RowView::parse(row, Known::After(self.state.columns()))?;
        finish_cells(&self.state, refresh, &view, &mut self.cells, histogram)?;
        self.current = Some(view);
        Ok(())
    }

    /// Returns the time of the current row, ms.
    #[must_use]
    pub fn time_ms(&self) -> i64 {
        self.state.time_ms
    }

    /// Returns one cell per column; there may be fewer columns than in newer rows.
    #[must_use]
    pub fn cells(&self) -> &[f64] {
        &self.cells
    }
}

/// Writes the cells that are not numbers: absent columns and events; passes on histograms.
fn finish_cells(
    state: &RowState,
    refresh: bool,
    view: &RowView<'_>,
    cells: &mut [f64],
    mut histogram: impl FnMut(usize, &HistogramState),
) -> Result<(), ChunkError> {
    if refresh {
        for ((&column, &last), &exp) in state.order.iter().zip(&state.last).zip(&state.exp) {
            cells.set(column, to_float(last, exp));
        }
    }
    if state.absent > 0 {
        for (&word, cells) in state.present.iter().zip(cells.chunks_mut(64)) {
            let mut gone = !word;
            while gone != 0 {
                let k = gone.trailing_zeros() as usize;
                gone &= gone - 1;
                match cells.get_mut(k) {
                    Some(cell) => *cell = ABSENT,
                    None => break,
                }
            }
        }
    }
    let Some(events) = view.events() else {
        return Ok(());
    };
    for column in events.stale.iter() {
        cells.set(column as u16, STALE);
    }
    if let (true, Some(toggles)) = (events.gone_are_stale, view.toggles()) {
        let mut words = [0u64; MAX_COLUMNS / 64];
        toggles.flip(&mut words);
        for (word, present) in words.iter_mut().zip(&state.present) {
            *word &= !present;
        }
        for column in set_bits(&words) {
            cells.set(column as u16, STALE);
        }
    }
    let Some(list) = events.histograms else {
        return Ok(());
    };
    let mut index = 0;
    let (columns, all) = (view.columns, |_| true);
    state.histograms.each(&list, columns, all, |column, state| {
        cells.set(column as u16, cell::histogram(index));
        histogram(column, state);
        index += 1;
    })
}
