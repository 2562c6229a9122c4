//! Many decoded rows in one matrix, time-major or series-major.
//!
//! Invariant: rows ascend in time in either decoding direction; columns that did not exist are absent.

use narthex_model::cell::{self, ABSENT, Cell};

use super::decode::{RowBack, RowDecoder};
use super::state::RowState;
use crate::error::ChunkError;

/// Memory order of a matrix's cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Cell of row r and column c at `r * columns + c`.
    TimeMajor,
    /// Cell of row r and column c at `c * rows + r`.
    SeriesMajor,
}

/// Decoded rows; the next decoding reuses the buffers.
#[derive(Debug, Default)]
pub struct RowMatrix<'r> {
    columns: usize,
    times_ms: Vec<i64>,
    cells: Vec<f64>,
    histograms: Vec<&'r [u8]>,
}

impl<'r> RowMatrix<'r> {
    /// Returns an empty matrix.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Decodes `rows`, the first of which is a key row, to `columns` columns.
    ///
    /// # Errors
    /// Returns the first bad row's index and error.
    pub fn decode_forward(
        &mut self,
        rows: impl IntoIterator<Item = &'r [u8]>,
        columns: usize,
    ) -> Result<(), (usize, ChunkError)> {
        self.clear(columns);
        let mut decoder = RowDecoder::new();
        for (index, row) in rows.into_iter().enumerate() {
            let first = self.histograms.len();
            decoder
                .step_with(row, |_, bytes| self.histograms.push(bytes))
                .map_err(|e| (index, e))?;
            self.times_ms.push(decoder.time_ms());
            let from = self.cells.len();
            let cells = decoder.cells();
            self.cells
                .extend_from_slice(&cells[..cells.len().min(columns)]);
            self.cells.resize(from + columns, ABSENT);
            if self.histograms.len() > first {
                shift_histograms(&mut self.cells[from..], first);
            }
        }
        Ok(())
    }

    /// Decodes the rows that led to `state`, newest first, to `columns` columns.
    ///
    /// # Errors
    /// Returns the first bad row's index, counted from the newest, and error.
    pub fn decode_backward(
        &mut self,
        state: RowState,
        newest_first: impl IntoIterator<Item = &'r [u8], IntoIter: ExactSizeIterator>,
        columns: usize,
    ) -> Result<(), (usize, ChunkError)> {
        self.clear(columns);
        let rows = newest_first.into_iter();
        let count = rows.len();
        self.times_ms.resize(count, 0);
        self.cells.resize(count * columns, ABSENT);
        let mut decoder = RowBack::new(state);
        for (index, row) in rows.enumerate() {
            decoder.step(row).map_err(|e| (index, e))?;
            let at = count - 1 - index;
            let first = self.histograms.len();
            self.histograms
                .extend(decoder.histograms().map(|(_, bytes)| bytes));
            self.times_ms[at] = decoder.time_ms();
            let cells = decoder.cells();
            let out = &mut self.cells[at * columns..(at + 1) * columns];
            let known = cells.len().min(columns);
            out[..known].copy_from_slice(&cells[..known]);
            if self.histograms.len() > first {
                shift_histograms(out, first);
            }
        }
        Ok(())
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.times_ms.len()
    }

    /// Returns the time of each row, ms, oldest first.
    #[must_use]
    pub fn times_ms(&self) -> &[i64] {
        &self.times_ms
    }

    /// Returns the cells, time-major.
    #[must_use]
    pub fn cells(&self) -> &[f64] {
        &self.cells
    }

    /// Returns the encoded histograms that cells refer to.
    #[must_use]
    pub fn histograms(&self) -> &[&'r [u8]] {
        &self.histograms
    }

    /// Writes the cells of `columns` in `layout` to `out`, which has rows × columns cells.
    ///
    /// # Panics
    /// Panics when the length of `out` is wrong or a column does not exist.
    pub fn copy_columns(&self, columns: &[u32], layout: Layout, out: &mut [f64]) {
        let rows = self.rows();
        assert_eq!(out.len(), rows * columns.len(), "one cell a row and column");
        for (r, row) in self.cells.chunks_exact(self.columns.max(1)).enumerate() {
            for (c, &column) in columns.iter().enumerate() {
                let at = match layout {
                    Layout::TimeMajor => r * columns.len() + c,
                    Layout::SeriesMajor => c * rows + r,
                };
                out[at] = row[column as usize];
            }
        }
    }

    fn clear(&mut self, columns: usize) {
        self.columns = columns;
        self.times_ms.clear();
        self.cells.clear();
        self.histograms.clear();
    }
}

/// Turns histogram indexes within a row into indexes within the matrix.
fn shift_histograms(cells: &mut [f64], first: usize) {
    for c in cells {
        if let Cell::Histogram(index) = Cell::decode(*c) {
            *c = cell::histogram(index + first as u32);
        }
    }
}
