//! Runs of a strip's row chunks, each of which becomes one strip of a block.
//!
//! Row chunks end for reasons of their own (a new file of the WAL, rows enough): a block with a strip for each would have
//! several times the strips that its readers have to look at.

use super::FlushError;
use crate::head::{read::decode_row_chunk, row_chunk::RowChunk};
use narthex_model::{
    Histogram, cell,
    storage::{Context, Tile},
};
use std::{collections::VecDeque, ops::Range, sync::Arc};

/// Most rows of a run of several row chunks: so many of a page are in memory at once.
const MOST_ROWS: usize = 512;

/// Columns transposed together, so that each cache line of a row is used whole.
const ABREAST: usize = 8;

/// Consecutive row chunks of one window.
pub(super) struct Run {
    row_chunks: Vec<Arc<RowChunk>>,
    window: i64,
}

/// The cells of a page of a run.
pub(super) struct PageCells {
    pub(super) columns: Range<u32>,
    rows: usize,
    /// Column by column.
    cells: Vec<f64>,
    /// The histograms that cells refer to.
    pub(super) histograms: Vec<Arc<Histogram>>,
}

impl Run {
    /// Divides a strip's row chunks, in order, into runs.
    pub(super) fn divide(row_chunks: Vec<Arc<RowChunk>>, window_ms: i64) -> VecDeque<Self> {
        let mut runs: VecDeque<Self> = VecDeque::new();
        for row_chunk in row_chunks {
            let window = row_chunk.time_ms(0).div_euclid(window_ms);
            match runs.back_mut() {
                Some(run) if run.window == window && run.goes_on_with(&row_chunk) => {
                    run.row_chunks.push(row_chunk);
                }
                _ => runs.push_back(Self {
                    row_chunks: vec![row_chunk],
                    window,
                }),
            }
        }
        runs
    }

    fn goes_on_with(&self, next: &RowChunk) -> bool {
        let last = self.row_chunks.last();
        last.is_some_and(|last| last.end_row() == next.first_row)
            && self.rows() + next.rows() <= MOST_ROWS
    }

    pub(super) fn window(&self) -> i64 {
        self.window
    }

    /// Returns the number of the first row, counted from the strip's start.
    pub(super) fn first_row(&self) -> u64 {
        self.row_chunks.first().map_or(0, |first| first.first_row)
    }

    pub(super) fn rows(&self) -> usize {
        self.row_chunks.iter().map(|chunk| chunk.rows()).sum()
    }

    pub(super) fn times_ms(&self) -> Vec<i64> {
        let chunks = self.row_chunks.iter();
        chunks
            .flat_map(|chunk| (0..chunk.rows()).map(|row| chunk.time_ms(row)))
            .collect()
    }

    /// Returns the number of pages; row chunks before a strip grew have fewer.
    pub(super) fn pages(&self) -> usize {
        let pages = self.row_chunks.iter().map(|chunk| chunk.pages.len());
        pages.max().unwrap_or_default()
    }

    /// Decodes a page.
    ///
    /// # Errors
    /// Fails on malformed bytes.
    pub(super) fn page(&self, page: usize) -> Result<PageCells, FlushError> {
        let rows = self.rows();
        let mut cells = PageCells {
            columns: 0..0,
            rows,
            cells: Vec::new(),
            histograms: Vec::new(),
        };
        let (mut tile, mut first) = (Tile::default(), 0);
        for chunk in &self.row_chunks {
            if page < chunk.pages.len() {
                let columns = decode_row_chunk(chunk, page, &mut tile, &Context::unlimited())
                    .map_err(FlushError::Decode)?;
                cells.add(first, columns, &mut tile);
            }
            first += chunk.rows();
        }
        Ok(cells)
    }
}

impl PageCells {
    /// Returns the cells of a column.
    pub(super) fn column(&self, at: usize) -> &[f64] {
        &self.cells[at * self.rows..][..self.rows]
    }

    /// Adds the rows of a tile from row `first` on.
    fn add(&mut self, first: usize, columns: Range<u32>, tile: &mut Tile) {
        if columns.end > self.columns.end || self.columns.is_empty() {
            self.columns = columns;
            self.cells
                .resize(self.columns.len() * self.rows, cell::ABSENT);
        }
        let base = self.histograms.len();
        if base > 0 && !tile.histograms.is_empty() {
            for value in &mut tile.cells {
                *value = cell::rebased(*value, base).unwrap_or(*value);
            }
        }
        self.histograms.append(&mut tile.histograms);
        for from in (0..tile.series).step_by(ABREAST) {
            let to = tile.series.min(from + ABREAST);
            for (row, cells) in tile.cells.chunks_exact(tile.series).enumerate() {
                for (column, value) in (from..).zip(&cells[from..to]) {
                    self.cells[column * self.rows + first + row] = *value;
                }
            }
        }
    }
}
