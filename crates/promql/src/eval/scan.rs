//! Reads all samples from the store: batches, part by part, as tiles.
//!
//! **Invariant:** a part's tile and result stay small, whatever the batch's size; both are held while in use, and
//! between two parts the stop is checked.

use super::{Block, Eval, Hold, Outcome, Series, Sink, block::Identity, stored::StoredRows};
use crate::trace::Phase;
use narthex_model::{
    cell,
    storage::{Batch, Layout, Tile, TimeRange},
};
use std::{
    ops::Range,
    sync::{Arc, atomic::Ordering},
};

/// Target size of a tile in cells: it stays in the second-level cache.
const TILE_CELLS: usize = 64 << 10;
/// Most series processed together.
pub(super) const LAST_SERIES: usize = 4096;

/// Some series of a batch, decoded.
pub(super) struct Part<'a> {
    batch: &'a Arc<dyn Batch>,
    chunk: &'a [u32],
    /// The samples, one series after the other.
    pub(super) tile: &'a Tile,
}

impl Part<'_> {
    /// Returns the identities of the tile's series.
    pub(super) fn series(&self) -> Vec<Series> {
        stored(self.batch, self.chunk)
    }

    /// Returns the identity of one of the tile's series.
    pub(super) fn one(&self, at: usize) -> Series {
        stored_one(self.batch, self.chunk[at])
    }

    /// Returns no rows yet, at `steps`.
    pub(super) fn rows(&self, steps: Range<usize>) -> StoredRows {
        StoredRows::new(self.batch, steps)
    }

    /// Returns the batch's number of each of the tile's series.
    pub(super) fn numbers(&self) -> &[u32] {
        self.chunk
    }
}

impl Eval<'_> {
    /// Decodes `batches` within `range` and passes them to `work`; its results have `steps` steps.
    pub(super) fn scan(
        &self,
        batches: &[Arc<dyn Batch>],
        range: TimeRange,
        steps: usize,
        mut work: impl FnMut(&Part<'_>) -> Outcome<()>,
    ) -> Outcome<()> {
        let mut tile = Tile::default();
        let mut hold = Hold::default();
        for batch in batches {
            let rows = batch.rows(range);
            if rows == 0 {
                continue;
            }
            self.memory.count_series(batch.len());
            let weight = usize::try_from(self.cell_weight.load(Ordering::Relaxed)).unwrap_or(1);
            let least = if weight > 1 { 1 } else { 16 };
            let size = (TILE_CELLS / weight / rows.max(steps)).clamp(least, LAST_SERIES);
            self.for_parts(batch, size, |chunk| {
                let cells = rows * chunk.len();
                self.memory
                    .change(&mut hold, 0, (cells * size_of::<f64>()) as u64)?;
                self.traced(Phase::Read, || {
                    batch.read(chunk, range, Layout::SeriesMajor, &mut tile, self.ctx)
                })?;
                self.hold_tile(&tile, cells, &mut hold)?;
                let tile = &tile;
                work(&Part { batch, chunk, tile })
            })?;
        }
        Ok(())
    }

    /// Passes a finished block to `sink`, unless it has no series.
    pub(super) fn emit(&self, block: Block, sink: &mut Sink<'_>) -> Outcome<()> {
        if block.len() == 0 {
            return Ok(());
        }
        sink(self.charge(block)?)
    }

    /// Splits a batch into parts of at most `size` series.
    pub(super) fn for_parts(
        &self,
        batch: &Arc<dyn Batch>,
        size: usize,
        mut work: impl FnMut(&[u32]) -> Outcome<()>,
    ) -> Outcome<()> {
        let series = u32::try_from(batch.len()).unwrap_or(u32::MAX);
        let all: Vec<u32> = (0..series).collect();
        for chunk in all.chunks(size) {
            self.ctx.stop.check()?;
            work(chunk)?;
        }
        Ok(())
    }

    /// Makes `hold` cover a tile for which `cells` cells were leased, and its samples.
    fn hold_tile(&self, tile: &Tile, cells: usize, hold: &mut Hold) -> Outcome<()> {
        let (samples, bytes) = held_by(tile);
        self.count_read(samples);
        let of_cells = (cells * size_of::<f64>()) as u64;
        self.memory.change(hold, samples, of_cells + bytes)?;
        if tile.histograms.len() * 2 > tile.cells.len() {
            // Read fewer at once from here on: a cell may be a histogram rather than 8 bytes.
            let of_cell = 1 + bytes / (tile.cells.len() * size_of::<f64>()) as u64;
            self.cell_weight.fetch_max(of_cell, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Counts the samples of a tile, with histograms by their weight, and its memory besides the cells.
fn held_by(tile: &Tile) -> (u64, u64) {
    let starts = size_of_val(&*tile.start_times_ms) as u64;
    if let Some(rows) = tile.float_rows() {
        return ((rows * tile.series) as u64, starts);
    }
    let floats = tile.cells.iter().filter(|cell| cell::is_float(**cell));
    let mut samples = floats.count() as u64;
    let mut bytes = starts;
    for histogram in &tile.histograms {
        samples += histogram.weight() as u64;
        bytes += (size_of_val(histogram) + histogram.heap_bytes()) as u64;
    }
    (samples, bytes)
}

/// Returns the identities of a batch's series.
pub(super) fn stored(batch: &Arc<dyn Batch>, chunk: &[u32]) -> Vec<Series> {
    let series = |index: &u32| stored_one(batch, *index);
    chunk.iter().map(series).collect()
}

fn stored_one(batch: &Arc<dyn Batch>, index: u32) -> Series {
    Series {
        identity: Identity::Stored {
            batch: Arc::clone(batch),
            index,
            bare: false,
        },
        drop_name: false,
    }
}
