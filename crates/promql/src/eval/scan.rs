//! The one way samples come out of the store: batches, part by part, as tiles.
//!
//! **Invariant:** a part's tile and result stay small, whatever a batch has; both are held while they are worked on, and
//! between two parts it is asked whether the query is still wanted.

use super::{Block, Eval, Hold, Outcome, Series, Sink, block::Identity};
use narthex_model::{
    cell,
    storage::{Batch, Layout, Tile, TimeRange},
};
use std::sync::{Arc, atomic::Ordering};

/// How many cells a tile should have: it stays in the second-level cache.
const TILE_CELLS: usize = 64 << 10;
/// How many series are looked at together at most.
pub(super) const LAST_SERIES: usize = 4096;

/// Some series of a batch, decoded.
pub(super) struct Part<'a> {
    batch: &'a Arc<dyn Batch>,
    chunk: &'a [u32],
    /// Their samples, one series after the other.
    pub(super) tile: &'a Tile,
}

impl Part<'_> {
    /// Returns who the tile's series are.
    pub(super) fn series(&self) -> Vec<Series> {
        stored(self.batch, self.chunk)
    }
}

impl Eval<'_> {
    /// Decodes `batches` within `range` and hands them to `work`, whose results have `steps` steps.
    pub(super) fn scan(
        &self,
        batches: &[Arc<dyn Batch>],
        range: TimeRange,
        steps: usize,
        mut work: impl FnMut(&Part<'_>) -> Outcome<()>,
    ) -> Outcome<()> {
        let mut tile = Tile::default();
        for batch in batches {
            let rows = batch.rows(range);
            if rows == 0 {
                continue;
            }
            let weight = usize::try_from(self.cell_weight.load(Ordering::Relaxed)).unwrap_or(1);
            let least = if weight > 1 { 1 } else { 16 };
            let size = (TILE_CELLS / weight / rows.max(steps)).clamp(least, LAST_SERIES);
            self.for_parts(batch, size, |chunk| {
                let _hold = self.read(batch, chunk, range, &mut tile)?;
                let tile = &tile;
                work(&Part { batch, chunk, tile })
            })?;
        }
        Ok(())
    }

    /// Gives a finished block to `sink`, unless it has no series.
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

    /// Decodes a part of a batch; the hold is for the tile and the samples that are in it.
    fn read(
        &self,
        batch: &Arc<dyn Batch>,
        chunk: &[u32],
        range: TimeRange,
        tile: &mut Tile,
    ) -> Outcome<Hold> {
        let cells = (batch.rows(range) * chunk.len()) as u64;
        let mut hold = self.memory.take(0, cells * size_of::<f64>() as u64)?;
        batch.read(chunk, range, Layout::SeriesMajor, tile, self.ctx)?;
        let (samples, bytes) = held_by(tile);
        self.memory.count_read(samples);
        hold.join(self.memory.take(samples, bytes)?);
        if tile.histograms.len() * 2 > tile.cells.len() {
            // From here on fewer at once: a cell is not 8 bytes but a histogram.
            let of_cell = 1 + bytes / (tile.cells.len() * size_of::<f64>()) as u64;
            self.cell_weight.fetch_max(of_cell, Ordering::Relaxed);
        }
        Ok(hold)
    }
}

/// Counts the samples of a tile, histograms by their weight, and the bytes it takes besides its cells.
fn held_by(tile: &Tile) -> (u64, u64) {
    let starts = size_of_val(&*tile.start_times_ms) as u64;
    if tile.facts.all_floats {
        return (tile.cells.len() as u64, starts);
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

/// Returns series as a batch has them.
pub(super) fn stored(batch: &Arc<dyn Batch>, chunk: &[u32]) -> Vec<Series> {
    let series = |index: &u32| Series {
        identity: Identity::Stored {
            batch: Arc::clone(batch),
            index: *index,
            bare: false,
        },
        drop_name: false,
    };
    chunk.iter().map(series).collect()
}
