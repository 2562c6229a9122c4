//! Reads all samples from the store: batches, part by part, as tiles.
//!
//! **Invariant:** a part's tile and result stay small, whatever the batch's size; both are held while in use, and
//! between two parts the stop is checked. Results come in the parts' order, and do not depend on where parts end.

use super::{Block, Eval, Hold, Outcome, Series, Sink, block::Identity, stored::StoredRows};
use crate::{helpers::Helper, trace::Phase};
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

/// What a part costs besides its cells, in cells.
const PART_WORK: usize = 1 << 10;

/// Some series of a batch, to be read.
#[derive(Clone, Copy)]
pub(super) struct Piece<'b> {
    batch: &'b Arc<dyn Batch>,
    range: TimeRange,
    first: u32,
    series: u32,
    /// Most rows that they have in the range.
    rows: usize,
}

/// What is left of a scan.
pub(super) struct Parts<'b> {
    /// The batches that were not begun.
    batches: &'b [Arc<dyn Batch>],
    range: TimeRange,
    steps: usize,
    /// The rest of the batch that was.
    batch: Option<Piece<'b>>,
}

impl<'b> Parts<'b> {
    /// Returns what to read next.
    pub(super) fn next(&mut self, eval: &Eval<'_>) -> Option<Piece<'b>> {
        let mut rest = match self.batch.take() {
            Some(rest) => rest,
            None => self.begin(eval)?,
        };
        let weight = usize::try_from(eval.cell_weight.load(Ordering::Relaxed)).unwrap_or(1);
        let least = if weight > 1 { 1 } else { 16 };
        let size = (TILE_CELLS / weight / rest.rows.max(self.steps)).clamp(least, LAST_SERIES);
        let series = rest.series.min(u32::try_from(size).unwrap_or(u32::MAX));
        let piece = Piece { series, ..rest };
        rest.first += series;
        rest.series -= series;
        self.batch = Some(rest).filter(|rest| rest.series > 0);
        Some(piece)
    }

    /// Reports whether anything may be left.
    fn has_more(&self) -> bool {
        self.batch.is_some() || !self.batches.is_empty()
    }

    /// Begins the next batch with rows in the range.
    fn begin(&mut self, eval: &Eval<'_>) -> Option<Piece<'b>> {
        loop {
            let (batch, others) = self.batches.split_first()?;
            self.batches = others;
            let rows = batch.rows(self.range);
            let series = u32::try_from(batch.len()).unwrap_or(u32::MAX);
            if rows > 0 && series > 0 {
                eval.memory.count_series(batch.len());
                return Some(Piece {
                    batch,
                    range: self.range,
                    first: 0,
                    series,
                    rows,
                });
            }
        }
    }
}

/// What a thread reads parts into.
#[derive(Default)]
pub(super) struct Reader {
    chunk: Vec<u32>,
    tile: Tile,
    hold: Hold,
}

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
    /// Decodes `batches` within `range`, computes `work` of each part and passes the results to `emit` in the parts' order;
    /// they have `steps` steps. Helpers take part in what is large.
    pub(super) fn scan<T: Send>(
        &self,
        batches: &[Arc<dyn Batch>],
        range: TimeRange,
        steps: usize,
        work: impl Fn(&Eval<'_>, &Part<'_>) -> Outcome<T> + Sync,
        mut emit: impl FnMut(T) -> Outcome<()>,
    ) -> Outcome<()> {
        let mut parts = Parts {
            batches,
            range,
            steps,
            batch: None,
        };
        let mut reader = Reader::default();
        let mut done = 0;
        while let Some(piece) = parts.next(self) {
            let (value, samples) = self.read_part(piece, &mut reader, &work)?;
            self.count_read(samples);
            emit(value)?;
            done += PART_WORK + piece.rows.max(steps) * piece.series as usize;
            if done >= self.helpers.alone() && parts.has_more() {
                let helpers: Vec<Helper> = std::iter::from_fn(|| self.helpers.take()).collect();
                if !helpers.is_empty() {
                    return self.scan_together(parts, helpers, &work, &mut emit);
                }
                done = 0;
            }
        }
        Ok(())
    }

    /// Decodes a part and computes `work` of it; also returns how many samples were read.
    pub(super) fn read_part<T>(
        &self,
        piece: Piece<'_>,
        reader: &mut Reader,
        work: &impl Fn(&Eval<'_>, &Part<'_>) -> Outcome<T>,
    ) -> Outcome<(T, u64)> {
        self.ctx.stop.check()?;
        let Reader { chunk, tile, hold } = reader;
        chunk.clear();
        chunk.extend(piece.first..piece.first + piece.series);
        let (batch, range) = (piece.batch, piece.range);
        let cells = piece.rows * chunk.len();
        self.memory
            .change(hold, 0, (cells * size_of::<f64>()) as u64)?;
        self.traced(Phase::Read, || {
            batch.read(chunk, range, Layout::SeriesMajor, tile, self.ctx)
        })?;
        let samples = self.hold_tile(tile, cells, hold)?;
        let value = work(self, &Part { batch, chunk, tile })?;
        Ok((value, samples))
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

    /// Makes `hold` cover a tile for which `cells` cells were leased, and its samples, whose number is returned.
    fn hold_tile(&self, tile: &Tile, cells: usize, hold: &mut Hold) -> Outcome<u64> {
        let (samples, bytes) = held_by(tile);
        let of_cells = (cells * size_of::<f64>()) as u64;
        self.memory.change(hold, samples, of_cells + bytes)?;
        if tile.histograms.len() * 2 > tile.cells.len() {
            // Read fewer at once from here on: a cell may be a histogram rather than 8 bytes.
            let of_cell = 1 + bytes / (tile.cells.len() * size_of::<f64>()) as u64;
            self.cell_weight.fetch_max(of_cell, Ordering::Relaxed);
        }
        Ok(samples)
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
