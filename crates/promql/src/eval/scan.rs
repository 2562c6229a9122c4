//! Reads all samples from the store: batches, part by part, as tiles.
//!
//! **Invariant:** a part's tile and result stay small, whatever the batch's size; both are held while in use, and
//! between two parts the stop is checked. Results come in the parts' order, and do not depend on where parts end.

use super::{Block, Eval, Hold, Outcome, Series, Sink, block::Identity, stored::StoredRows};
use crate::{helpers::Helper, trace::Phase};
use narthex_model::{
    cell,
    storage::{Batch, LastCell, Layout, Tile, TimeRange},
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

/// What a scan reads, piece by piece.
pub(super) trait Pieces: Send {
    type Piece: Copy + Send;

    /// Returns what to read next.
    fn next(&mut self, eval: &Eval<'_>) -> Option<Self::Piece>;

    /// Reports whether anything may be left.
    fn has_more(&self) -> bool;

    /// Returns what reading a piece costs, in cells.
    fn work(&self, piece: &Self::Piece) -> usize;
}

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

impl<'b> Pieces for Parts<'b> {
    type Piece = Piece<'b>;

    fn next(&mut self, eval: &Eval<'_>) -> Option<Piece<'b>> {
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

    fn has_more(&self) -> bool {
        self.batch.is_some() || !self.batches.is_empty()
    }

    fn work(&self, piece: &Piece<'b>) -> usize {
        PART_WORK + piece.rows.max(self.steps) * piece.series as usize
    }
}

impl<'b> Parts<'b> {
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

/// What is left to read of one instant.
pub(super) struct Instants<'b> {
    pub(super) batches: &'b [Arc<dyn Batch>],
    /// Series of the first batch that were read.
    pub(super) first: u32,
}

/// Some batches, or some series of a large one, whose newest cells are to be found.
#[derive(Clone, Copy)]
pub(super) struct Instant<'b> {
    pub(super) batches: &'b [Arc<dyn Batch>],
    pub(super) first: u32,
    /// Most series of each.
    pub(super) series: u32,
    work: usize,
}

/// What finding the newest cells costs in cells: of a series, and of a batch.
const NEWEST_WORK: usize = 8;
const BATCH_WORK: usize = 128;
/// Least work of a piece of an instant.
const INSTANT_WORK: usize = 8 << 10;

impl<'b> Pieces for Instants<'b> {
    type Piece = Instant<'b>;

    fn next(&mut self, _eval: &Eval<'_>) -> Option<Instant<'b>> {
        let (large, others) = self.batches.split_first()?;
        let most = u32::try_from(LAST_SERIES).unwrap_or(u32::MAX);
        let (first, left) = (
            self.first,
            u32::try_from(large.len()).unwrap_or(u32::MAX) - self.first,
        );
        if first > 0 || left > most {
            let series = left.min(most);
            let work = BATCH_WORK + NEWEST_WORK * series as usize;
            let batches = std::slice::from_ref(large);
            (self.first, self.batches) = if left > most {
                (first + most, self.batches)
            } else {
                (0, others)
            };
            return Some(Instant {
                batches,
                first,
                series,
                work,
            });
        }
        let (mut count, mut work) = (0, 0);
        for batch in self.batches {
            if work >= INSTANT_WORK || batch.len() > LAST_SERIES {
                break;
            }
            work += BATCH_WORK + NEWEST_WORK * batch.len();
            count += 1;
        }
        let (batches, rest) = self.batches.split_at(count);
        self.batches = rest;
        Some(Instant {
            batches,
            first,
            series: most,
            work,
        })
    }

    fn has_more(&self) -> bool {
        !self.batches.is_empty()
    }

    fn work(&self, piece: &Instant<'b>) -> usize {
        piece.work
    }
}

/// What a thread reads parts into.
#[derive(Default)]
pub(super) struct Reader {
    pub(super) chunk: Vec<u32>,
    tile: Tile,
    pub(super) newest: Vec<Option<LastCell>>,
    pub(super) hold: Hold,
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
        emit: impl FnMut(T) -> Outcome<()>,
    ) -> Outcome<()> {
        let parts = Parts {
            batches,
            range,
            steps,
            batch: None,
        };
        let read = |eval: &Eval<'_>, piece: Piece<'_>, reader: &mut Reader| {
            eval.read_part(piece, reader, &work)
        };
        self.in_order(parts, read, emit)
    }

    /// Computes `work` of each piece and passes the results to `emit` in the pieces' order. Helpers take part in what is large.
    pub(super) fn in_order<P: Pieces, T: Send>(
        &self,
        mut parts: P,
        work: impl Fn(&Eval<'_>, P::Piece, &mut Reader) -> Outcome<(T, u64)> + Sync,
        mut emit: impl FnMut(T) -> Outcome<()>,
    ) -> Outcome<()> {
        let mut reader = Reader::default();
        let mut done = 0;
        while let Some(piece) = parts.next(self) {
            done += parts.work(&piece);
            let (value, samples) = work(self, piece, &mut reader)?;
            self.count_read(samples);
            emit(value)?;
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
    fn read_part<T>(
        &self,
        piece: Piece<'_>,
        reader: &mut Reader,
        work: &impl Fn(&Eval<'_>, &Part<'_>) -> Outcome<T>,
    ) -> Outcome<(T, u64)> {
        self.ctx.stop.check()?;
        let Reader {
            chunk, tile, hold, ..
        } = reader;
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
