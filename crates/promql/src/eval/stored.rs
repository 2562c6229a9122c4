//! Rows of stored series, no longer than the steps where the series may have samples.
//!
//! Targets that come and go leave many series that lived for a few steps of a query. What reads them computes these
//! steps alone, and an aggregation adds them where they belong; every other consumer gets whole rows.
//!
//! **Invariant:** `cells.len() == series.len() * width`, one series after the other; a histogram cell's index is below
//! `histograms.len()`; no cell is a staleness marker; `dense` is true only if every cell is a float.

use super::{Block, Eval, Outcome, ROW_BYTES, Series, block::stored_labels};
use narthex_model::{
    Histogram, LabelSet,
    cell::{self, ABSENT},
    storage::Batch,
};
use std::{ops::Range, sync::Arc};

/// Rows of some series of a batch.
#[derive(Clone)]
pub(super) struct StoredRows {
    pub(super) batch: Arc<dyn Batch>,
    /// The batch's series of each row.
    pub(super) series: Vec<u32>,
    /// Whether the names are left out, or to be dropped from the final result.
    pub(super) bare: bool,
    pub(super) drop_name: bool,
    /// The first column's step.
    pub(super) from: usize,
    /// Cells of a row.
    pub(super) width: usize,
    pub(super) cells: Vec<f64>,
    pub(super) histograms: Vec<Arc<Histogram>>,
    pub(super) dense: bool,
}

/// Results that an operator passes on.
pub(super) enum Emitted {
    Stored(StoredRows),
    Block(Block),
}

impl Emitted {
    /// Returns the number of series.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Stored(rows) => rows.len(),
            Self::Block(block) => block.len(),
        }
    }

    /// Returns the labels of a row.
    pub(super) fn labels(&self, row: usize) -> LabelSet {
        match self {
            Self::Stored(rows) => stored_labels(&*rows.batch, rows.series[row], rows.bare),
            Self::Block(block) => block.series[row].labels(),
        }
    }

    /// Returns the step of a row's first cell, its cells, and the histograms they refer to.
    pub(super) fn row(&self, row: usize) -> (usize, &[f64], &[Arc<Histogram>]) {
        match self {
            Self::Stored(rows) => (rows.from, rows.row(row), &rows.histograms),
            Self::Block(block) => (0, block.row(row), &block.histograms),
        }
    }
}

/// Consumer of a stream's results.
pub(super) type RowsSink<'s> = dyn FnMut(Emitted) -> Outcome<()> + 's;

impl StoredRows {
    /// Returns no rows yet, of series of `batch` at `steps`.
    pub(super) fn new(batch: &Arc<dyn Batch>, steps: Range<usize>) -> Self {
        Self {
            batch: Arc::clone(batch),
            series: Vec::new(),
            bare: false,
            drop_name: false,
            from: steps.start,
            width: steps.len(),
            cells: Vec::new(),
            histograms: Vec::new(),
            dense: true,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.series.len()
    }

    pub(super) fn row(&self, row: usize) -> &[f64] {
        &self.cells[row * self.width..(row + 1) * self.width]
    }

    /// Returns the identity of a row.
    pub(super) fn series_of(&self, row: usize) -> Series {
        self.stored(self.series[row])
    }

    /// Returns the identity of a series of the batch, as that of a row.
    pub(super) fn stored(&self, index: u32) -> Series {
        Series::stored(&self.batch, index, self.bare, self.drop_name)
    }

    /// Drops the names: at once, or marked for the end of the query.
    pub(super) fn forget_names(&mut self, delayed: bool) {
        if delayed {
            self.drop_name = true;
        } else {
            self.bare = true;
        }
    }

    /// Stores a histogram and returns the cell that refers to it.
    pub(super) fn add_histogram(&mut self, histogram: Arc<Histogram>) -> f64 {
        cell::push_histogram(&mut self.histograms, histogram)
    }

    /// Drops empty rows.
    pub(super) fn drop_empty_rows(&mut self) {
        if self.dense {
            return;
        }
        let (width, mut to) = (self.width, 0);
        for from in 0..self.len() {
            if self.row(from).iter().all(|cell| cell::is_absent(*cell)) {
                continue;
            }
            self.cells
                .copy_within(from * width..(from + 1) * width, to * width);
            self.series[to] = self.series[from];
            to += 1;
        }
        self.series.truncate(to);
        self.cells.truncate(to * width);
    }

    /// Returns the memory of the rows in bytes if they were `width` cells long, shared histograms included.
    pub(super) fn heap_bytes(&self, width: usize) -> u64 {
        let histograms = self.histograms.iter();
        let histograms: usize = histograms.map(|h| size_of_val(h) + h.heap_bytes()).sum();
        (self.len() * (ROW_BYTES + width * size_of::<f64>()) + histograms) as u64
    }

    /// Counts samples, with histograms by their weight.
    pub(super) fn weight(&self) -> u64 {
        if self.dense {
            return self.cells.len() as u64;
        }
        let floats = self.cells.iter().filter(|cell| cell::is_float(**cell));
        let histograms = self.cells.iter().filter_map(|value| {
            let cell::Cell::Histogram(index) = cell::Cell::decode(*value) else {
                return None;
            };
            Some(self.histograms.get(index as usize)?.weight() as u64)
        });
        floats.count() as u64 + histograms.sum::<u64>()
    }
}

impl Block {
    /// Appends rows, absent at the steps they do not have.
    pub(super) fn append_stored(&mut self, rows: StoredRows) {
        let base = self.histograms.len();
        let whole = rows.width == self.steps;
        self.dense = (self.dense || self.series.is_empty()) && rows.dense && whole;
        self.series
            .extend((0..rows.len()).map(|row| rows.series_of(row)));
        let before = rows.from;
        let after = self.steps - rows.from - rows.width;
        self.cells.reserve(rows.len() * self.steps);
        for row in 0..rows.len() {
            self.cells.extend(std::iter::repeat_n(ABSENT, before));
            if rows.histograms.is_empty() {
                self.cells.extend_from_slice(rows.row(row));
            } else {
                let cells = rows.row(row).iter();
                self.cells
                    .extend(cells.map(|cell| cell::rebased(*cell, base).unwrap_or(ABSENT)));
            }
            self.cells.extend(std::iter::repeat_n(ABSENT, after));
        }
        self.histograms.extend(rows.histograms);
    }
}

impl Eval<'_> {
    /// Takes memory for rows, and for as many cells in each as `width`.
    pub(super) fn hold_for(&self, rows: &StoredRows, width: usize) -> Outcome<super::Hold> {
        self.memory.acquire(rows.weight(), rows.heap_bytes(width))
    }

    /// Returns whole rows with their hold.
    pub(super) fn whole(&self, emitted: Emitted, steps: usize) -> Outcome<Block> {
        match emitted {
            Emitted::Block(block) => Ok(block),
            Emitted::Stored(rows) => {
                let hold = self.hold_for(&rows, steps)?;
                let mut block = Block::new(steps);
                block.append_stored(rows);
                block.hold = hold;
                Ok(block)
            }
        }
    }

    /// Passes rows to `sink`, unless there are none.
    pub(super) fn emit_rows(&self, rows: StoredRows, sink: &mut RowsSink<'_>) -> Outcome<()> {
        if rows.len() == 0 || rows.width == 0 {
            return Ok(());
        }
        sink(Emitted::Stored(rows))
    }
}
