//! Reads all samples from the store: batches, part by part, as tiles.
//!
//! **Invariant:** a part's tile and result stay small, whatever the batch's size; both are held while in use, and the
//! stop is polled after some hundred microseconds of parts. Results come in the parts' order, and do not depend on where parts end.

use super::{Block, Eval, Hold, Outcome, Series, Sink, stored::StoredRows};
use crate::trace::Phase;
use narthex_model::{
    cell,
    storage::{Batch, Helper, LastCell, Layout, Tile, TimeRange},
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
/// Least work of a piece, unless nothing else is left: threads that share pieces wait for each other with each.
const PIECE_WORK: usize = 48 << 10;

/// Most work between two polls of the stop, unless a part is more: reading the clock costs as much as reading a few cells.
const UNCHECKED_WORK: usize = 16 << 10;

/// What a scan reads, piece by piece.
pub(super) trait Pieces<'b>: Send {
    /// Returns what to read next.
    fn next(&mut self, eval: &Eval<'_>) -> Option<Piece<'b>>;

    /// Reports whether anything may be left.
    fn has_more(&self) -> bool;
}

/// Some small batches, or some series of a large one, to be read.
#[derive(Clone, Copy)]
pub(super) struct Piece<'b> {
    pub(super) batches: &'b [Arc<dyn Batch>],
    /// First series, and most of each.
    first: u32,
    series: u32,
    /// What reading it costs, in cells.
    work: usize,
}

impl Piece<'_> {
    /// Returns the numbers of a batch's series that belong to the piece.
    pub(super) fn numbers(&self, batch: &dyn Batch) -> Range<u32> {
        let series = u32::try_from(batch.len()).unwrap_or(u32::MAX);
        self.first..series.min(self.first.saturating_add(self.series))
    }
}

/// What is left of a scan.
pub(super) struct Parts<'b> {
    /// The batches of which something is left.
    batches: &'b [Arc<dyn Batch>],
    range: TimeRange,
    steps: usize,
    /// Series of the first batch that were handed out.
    begun: u32,
}

impl<'b> Pieces<'b> for Parts<'b> {
    fn next(&mut self, eval: &Eval<'_>) -> Option<Piece<'b>> {
        let all = self.batches;
        let (first, mut piece) = (self.begun, None);
        for (at, batch) in all.iter().enumerate() {
            let rows = batch.rows(self.range);
            let left = match u32::try_from(batch.len()) {
                Ok(series) if rows > 0 => series - self.begun,
                _ => 0,
            };
            let most = self.most_series(rows, eval);
            if piece.is_some() && left > most {
                break;
            }
            if self.begun == 0 {
                eval.memory.count_series(left as usize);
            }
            let series = left.min(most);
            let piece = piece.get_or_insert(Piece {
                batches: &[],
                first,
                series,
                work: 0,
            });
            piece.series = piece.series.max(series);
            piece.work += PART_WORK + rows.max(self.steps) * series as usize;
            piece.batches = all.get(..=at).unwrap_or_default();
            if left > most {
                self.begun += series;
                return Some(*piece);
            }
            self.begun = 0;
            self.batches = all.get(at + 1..).unwrap_or_default();
            if first > 0 || piece.work >= PIECE_WORK {
                break;
            }
        }
        piece
    }

    fn has_more(&self) -> bool {
        !self.batches.is_empty()
    }
}

impl Parts<'_> {
    /// Returns the most series with so many rows that are decoded together.
    fn most_series(&self, rows: usize, eval: &Eval<'_>) -> u32 {
        let weight = usize::try_from(eval.cell_weight.load(Ordering::Relaxed)).unwrap_or(1);
        let least = if weight > 1 { 1 } else { 16 };
        let most = (TILE_CELLS / weight / rows.max(self.steps).max(1)).clamp(least, LAST_SERIES);
        u32::try_from(most).unwrap_or(u32::MAX)
    }
}

/// What is left to read of one instant.
pub(super) struct Instants<'b> {
    pub(super) batches: &'b [Arc<dyn Batch>],
    /// Series of the first batch that were read.
    pub(super) first: u32,
}

/// What finding the newest cells costs in cells: of a series, and of a batch.
const NEWEST_WORK: usize = 8;
const BATCH_WORK: usize = 128;
/// Least work of a piece of an instant.
const INSTANT_WORK: usize = 8 << 10;

impl<'b> Pieces<'b> for Instants<'b> {
    fn next(&mut self, _eval: &Eval<'_>) -> Option<Piece<'b>> {
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
            return Some(Piece {
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
        Some(Piece {
            batches,
            first,
            series: most,
            work,
        })
    }

    fn has_more(&self) -> bool {
        !self.batches.is_empty()
    }
}

/// What a thread reads parts into.
#[derive(Default)]
pub(super) struct Reader {
    pub(super) chunk: Vec<u32>,
    tile: Tile,
    /// Work since the stop was last polled, in cells.
    unchecked: usize,
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
        (0..self.chunk.len()).map(|at| self.one(at)).collect()
    }

    /// Returns the identity of one of the tile's series.
    pub(super) fn one(&self, at: usize) -> Series {
        Series::stored(self.batch, self.chunk[at], false, false)
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
        let parts = Parts {
            batches,
            range,
            steps,
            begun: 0,
        };
        let read = |eval: &Eval<'_>, piece: Piece<'_>, reader: &mut Reader| {
            let (mut values, mut samples) = (Vec::with_capacity(piece.batches.len()), 0);
            for batch in piece.batches {
                let numbers = piece.numbers(&**batch);
                if let Some((value, more)) = eval.read_part(batch, numbers, range, reader, &work)? {
                    values.push(value);
                    samples += more;
                }
            }
            Ok((values, samples))
        };
        self.in_order(parts, read, |values: Vec<T>| {
            values.into_iter().try_for_each(&mut emit)
        })
    }

    /// Computes `work` of each piece and passes the results to `emit` in the pieces' order. Helpers take part in what is large.
    pub(super) fn in_order<'b, T: Send>(
        &self,
        mut parts: impl Pieces<'b>,
        work: impl Fn(&Eval<'_>, Piece<'b>, &mut Reader) -> Outcome<(T, u64)> + Sync,
        mut emit: impl FnMut(T) -> Outcome<()>,
    ) -> Outcome<()> {
        let mut reader = Reader::default();
        let mut done = 0;
        while let Some(piece) = parts.next(self) {
            done += piece.work;
            let (value, samples) = work(self, piece, &mut reader)?;
            self.count_read(samples)?;
            emit(value)?;
            if parts.has_more() && self.helpers.are_due(done) {
                let helpers: Vec<Helper> =
                    std::iter::from_fn(|| self.helpers.try_acquire()).collect();
                if !helpers.is_empty() {
                    return self.scan_together(parts, helpers, &work, &mut emit);
                }
                done = 0;
            }
        }
        Ok(())
    }

    /// Decodes some series of a batch and computes `work` of them; also returns how many samples were read. Returns `None` if
    /// there are none.
    fn read_part<T>(
        &self,
        batch: &Arc<dyn Batch>,
        numbers: Range<u32>,
        range: TimeRange,
        reader: &mut Reader,
        work: &impl Fn(&Eval<'_>, &Part<'_>) -> Outcome<T>,
    ) -> Outcome<Option<(T, u64)>> {
        let Reader {
            chunk,
            tile,
            unchecked,
            hold,
            ..
        } = reader;
        chunk.clear();
        chunk.extend(numbers);
        let cells = batch.rows(range) * chunk.len();
        *unchecked += PART_WORK + cells;
        if *unchecked >= UNCHECKED_WORK {
            self.ctx.stop.check()?;
            *unchecked = 0;
        }
        if cells == 0 {
            return Ok(None);
        }
        self.memory
            .make_room(hold, (cells * size_of::<f64>()) as u64)?;
        self.traced(Phase::Read, || {
            batch.read(chunk, range, Layout::SeriesMajor, tile, self.ctx)
        })?;
        let samples = self.hold_tile(tile, cells, hold)?;
        let value = work(self, &Part { batch, chunk, tile })?;
        Ok(Some((value, samples)))
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
        // A reader keeps its largest tile's room.
        let bytes_held = (of_cells + bytes).max(hold.bytes());
        self.memory.change(hold, samples, bytes_held)?;
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
