//! A strip's selected series as a batch of the storage contract.
//!
//! **Invariant:** labels and times are in memory; only cells are read later, page by page through the cache.

use super::chosen::ChosenStrip;
use super::page::Page;
use super::reader::{Block, Index};
use super::strip_table::StripTable;
use super::strips::LastPage;
use super::times::Times;
use narthex_chunks::column::{column_facts, decode_rows};
use narthex_model::cell::{self, Cell};
use narthex_model::storage::{
    Batch, Context, LastCell, Layout, Lease, StorageError, Tile, TimeRange,
};
use narthex_model::{LabelHash, LabelSet};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// Columns decoded before they are transposed into a time-major tile together.
const ABREAST: usize = 8;

/// What the batches of a selection have in common.
#[derive(Debug)]
pub(super) struct BatchSource {
    pub(super) block: Arc<Block>,
    pub(super) index: Arc<Index>,
    pub(super) table: Arc<StripTable>,
    /// Memory of what was found, and of the selection, held while that or a batch of it lives.
    pub(super) _leases: (Arc<Lease>, Lease),
}

/// Series of one strip.
#[derive(Debug)]
pub(super) struct BlockBatch {
    source: Arc<BatchSource>,
    strip: ChosenStrip,
    start_times: bool,
}

impl BlockBatch {
    pub(super) fn new(source: Arc<BatchSource>, strip: ChosenStrip, start_times: bool) -> Self {
        Self {
            source,
            strip,
            start_times,
        }
    }

    fn times(&self) -> &Times {
        &self.strip.times
    }

    fn local_set(&self, series: usize) -> &LabelSet {
        self.strip
            .columns
            .labels(series, &self.source.block, &self.source.index)
    }
}

impl BlockBatch {
    fn corrupt(&self, at: u32, what: &narthex_chunks::ChunkError) -> StorageError {
        let offset = self.strip.known.pages.offset();
        let detail = format!("unreadable chunk of {}: {what}", self.labels(at as usize));
        self.source.block.corrupt(offset, detail).into()
    }
}

impl Batch for BlockBatch {
    fn len(&self) -> usize {
        self.strip.columns.columns.len()
    }

    fn labels(&self, series: usize) -> LabelSet {
        self.strip.common().union(self.local_set(series))
    }

    fn common(&self) -> Option<&LabelSet> {
        Some(self.strip.common())
    }

    fn local(&self, series: usize) -> Option<&LabelSet> {
        Some(self.local_set(series))
    }

    fn common_names(&self) -> Option<u64> {
        Some(self.strip.known.names)
    }

    fn common_order(&self) -> Option<u64> {
        Some(self.strip.known.order)
    }

    fn label(&self, series: usize, name: &str) -> Option<Cow<'_, str>> {
        let value = self
            .local_set(series)
            .get(name)
            .or_else(|| self.strip.common().get(name));
        value.map(Cow::Borrowed)
    }

    fn identity(&self, series: usize) -> LabelHash {
        self.strip.common().hash() + self.strip.columns.hashes[series]
    }

    fn time_range(&self) -> TimeRange {
        self.strip.known.range
    }

    fn rows(&self, range: TimeRange) -> usize {
        self.times().rows_in(range).len()
    }

    fn read(
        &self,
        series: &[u32],
        range: TimeRange,
        layout: Layout,
        tile: &mut Tile,
        ctx: &Context,
    ) -> Result<(), StorageError> {
        let rows = self.times().rows_in(range);
        tile.clear(layout);
        self.times().append(rows.clone(), &mut tile.times_ms);
        tile.fill(series.len(), cell::ABSENT);
        if self.start_times {
            tile.start_times_ms.resize(tile.cells.len(), 0);
        }
        tile.facts.no_decrease = true;
        if rows.is_empty() || series.is_empty() {
            tile.facts.all_floats = true;
            tile.facts.no_histograms = true;
            return Ok(());
        }
        let mut columns = ColumnReader::new(self);
        if layout == Layout::SeriesMajor && rows.len() == self.times().len() {
            columns.whole(series, &rows, tile, ctx)?;
        } else {
            columns.part(series, &rows, tile, ctx)?;
        }
        if self.start_times {
            for (k, &at) in series.iter().enumerate() {
                columns.start_times(at, k, &rows, tile);
            }
        }
        if let Floats::Same(floats) = columns.floats {
            let floats = floats.clamp(rows.start, rows.end) - rows.start;
            tile.facts.all_floats = floats == rows.len();
            tile.facts.ended_after = Some(floats).filter(|floats| *floats < rows.len());
        }
        tile.facts.no_histograms = tile.histograms.is_empty();
        Ok(())
    }

    fn last(
        &self,
        series: &[u32],
        range: TimeRange,
        out: &mut Vec<Option<LastCell>>,
        ctx: &Context,
    ) -> Result<(), StorageError> {
        let rows = self.times().rows_in(range);
        if rows.is_empty() {
            out.resize(out.len() + series.len(), None);
            return Ok(());
        }
        let begin = out.len();
        let mut columns = ColumnReader::new(self);
        let mut cells = vec![0.0; self.times().len()];
        for (count, at) in series.iter().enumerate() {
            if count % 64 == 0 {
                ctx.stop.check()?;
            }
            match columns.newest(*at, &rows, &mut cells) {
                Ok(found) => out.push(found),
                Err(error) => {
                    self.source.block.leave_out(error, ctx)?;
                    out.push(None);
                }
            }
        }
        if rows.end == self.times().len() && series.iter().copied().eq(0..self.len() as u32) {
            let last_ms = self.times().last_ms();
            let ends = |found: &Option<LastCell>| {
                let stale = found.as_ref().filter(|last| cell::is_stale(last.cell));
                stale.map(|last| last.time_ms) == last_ms
            };
            if out[begin..].iter().all(ends) {
                let ChosenStrip { known, columns, .. } = &self.strip;
                columns.note_ended(&self.source.table, known.place);
            }
        }
        Ok(())
    }

    fn has_ended(&self, range: TimeRange) -> bool {
        let ChosenStrip { known, columns, .. } = &self.strip;
        columns.have_ended(&self.source.table, known.place, range)
    }
}

/// Finds the chunks of columns, keeping the current page.
struct ColumnReader<'b> {
    batch: &'b BlockBatch,
    page: LastPage,
    floats: Floats,
}

/// How many floats the decoded columns begin with, all their other cells being staleness markers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Floats {
    /// No column was decoded.
    Open,
    Same(usize),
    /// The columns differ, or one has other cells.
    Unlike,
}

impl Floats {
    /// Adds a column's, open if none of its cells could be read.
    fn join(&mut self, column: Self) {
        *self = match (*self, column) {
            (Self::Open, Self::Same(floats)) => Self::Same(floats),
            (Self::Same(known), Self::Same(floats)) if known == floats => Self::Same(known),
            _ => Self::Unlike,
        };
    }
}

impl<'b> ColumnReader<'b> {
    fn new(batch: &'b BlockBatch) -> Self {
        Self {
            batch,
            page: LastPage::default(),
            floats: Floats::Open,
        }
    }

    /// Decodes all rows of `series` into a series-major tile.
    fn whole(
        &mut self,
        series: &[u32],
        rows: &Range<usize>,
        tile: &mut Tile,
        ctx: &Context,
    ) -> Result<(), StorageError> {
        let mut cells = std::mem::take(&mut tile.cells);
        let mut decode = || {
            let of_series = series.iter().zip(cells.chunks_exact_mut(rows.len()));
            for (count, (&at, cells)) in of_series.enumerate() {
                if count % ABREAST == 0 {
                    ctx.stop.check()?;
                }
                self.decode_or_leave_out(at, rows, cells, tile, ctx)?;
            }
            Ok(())
        };
        let decoded = decode();
        tile.cells = cells;
        decoded
    }

    /// Decodes some of the rows of `series`, or in another order.
    fn part(
        &mut self,
        series: &[u32],
        rows: &Range<usize>,
        tile: &mut Tile,
        ctx: &Context,
    ) -> Result<(), StorageError> {
        let total = self.batch.times().len();
        let mut spare = tile.take_spare();
        let room = total * series.len().min(ABREAST);
        if spare.cells.len() < room {
            spare.cells.resize(room, 0.0);
        }
        let scratch = &mut spare.cells;
        for (group, wanted) in series.chunks(ABREAST).enumerate() {
            ctx.stop.check()?;
            for (&at, cells) in wanted.iter().zip(scratch.chunks_exact_mut(total)) {
                self.decode_or_leave_out(at, rows, cells, tile, ctx)?;
            }
            let first = group * ABREAST;
            match tile.layout {
                Layout::SeriesMajor => {
                    let out = tile.cells[first * rows.len()..].chunks_exact_mut(rows.len());
                    for (out, cells) in out.zip(scratch.chunks_exact(total)).take(wanted.len()) {
                        out.copy_from_slice(&cells[rows.clone()]);
                    }
                }
                Layout::TimeMajor => {
                    for (row, out) in rows.clone().zip(tile.cells.chunks_exact_mut(series.len())) {
                        for (c, out) in out[first..first + wanted.len()].iter_mut().enumerate() {
                            *out = scratch[c * total + row];
                        }
                    }
                }
            }
        }
        tile.keep_spare(spare);
        Ok(())
    }

    /// Returns the page of a selected series and the place of its chunk in it; `None` when the page is known to be damaged.
    ///
    /// # Errors
    /// Fails when the page turns out to be damaged.
    fn find(&mut self, at: u32) -> Result<Option<(&Page, usize)>, StorageError> {
        let batch = self.batch;
        let column = batch.strip.columns.columns[at as usize];
        let pages = &batch.strip.known.pages;
        let read = |place| batch.source.block.page(place);
        Ok(self.page.find(pages, column, read)?)
    }

    /// Decodes like `decode`; damaged cells are absent, with a warning.
    fn decode_or_leave_out(
        &mut self,
        at: u32,
        rows: &Range<usize>,
        cells: &mut [f64],
        tile: &mut Tile,
        ctx: &Context,
    ) -> Result<(), StorageError> {
        let floats = match self.decode(at, rows, cells, tile) {
            Ok(floats) => floats,
            Err(error) => {
                self.batch.source.block.leave_out(error, ctx)?;
                Floats::Open
            }
        };
        if floats == Floats::Open {
            cells.fill(cell::ABSENT);
            tile.facts.no_decrease = false;
        }
        self.floats.join(floats);
        Ok(())
    }

    /// Decodes the wanted rows of a series into their places in `cells`, histograms to the tile's table; returns the series'
    /// floats, open if its page is known to be damaged.
    fn decode(
        &mut self,
        at: u32,
        rows: &Range<usize>,
        cells: &mut [f64],
        tile: &mut Tile,
    ) -> Result<Floats, StorageError> {
        let batch = self.batch;
        let corrupt = |what| batch.corrupt(at, &what);
        let Some((page, chunk)) = self.find(at)? else {
            return Ok(Floats::Open);
        };
        let chunk = page.chunk(chunk);
        let mut histograms = Vec::new();
        let floats = decode_rows(chunk, rows, cells, &mut histograms).map_err(corrupt)?;
        tile.facts.no_decrease &= column_facts(chunk).no_decrease;
        if histograms.is_empty() {
            return Ok(floats.map_or(Floats::Unlike, Floats::Same));
        }
        for value in &mut cells[rows.clone()] {
            if let Cell::Histogram(index) = Cell::decode(*value) {
                let histogram = Arc::clone(&histograms[index as usize]);
                *value = cell::push_histogram(&mut tile.histograms, histogram);
            }
        }
        Ok(Floats::Unlike)
    }

    /// Finds a series' newest cell within `rows`, decoding into `cells`; none when its page is known to be damaged.
    ///
    /// # Errors
    /// Fails when the page or the chunk turns out to be damaged.
    fn newest(
        &mut self,
        at: u32,
        rows: &Range<usize>,
        cells: &mut [f64],
    ) -> Result<Option<LastCell>, StorageError> {
        let batch = self.batch;
        let corrupt = |what| batch.corrupt(at, &what);
        let Some((page, chunk)) = self.find(at)? else {
            return Ok(None);
        };
        let mut histograms = Vec::new();
        decode_rows(page.chunk(chunk), rows, cells, &mut histograms).map_err(corrupt)?;
        let Some(row) = rows.clone().rev().find(|row| !cell::is_absent(cells[*row])) else {
            return Ok(None);
        };
        let histogram = match Cell::decode(cells[row]) {
            Cell::Histogram(index) => Some(histograms.swap_remove(index as usize)),
            _ => None,
        };
        let cell = if histogram.is_some() {
            cell::histogram(0)
        } else {
            cells[row]
        };
        Ok(Some(LastCell {
            time_ms: batch.times().time_ms(row),
            cell,
            histogram,
            start_time_ms: if batch.start_times {
                start_at(page, chunk, row).unwrap_or_default()
            } else {
                0
            },
        }))
    }

    /// Fills in the start times of a series, none when its page is damaged.
    fn start_times(&mut self, at: u32, series: usize, rows: &Range<usize>, tile: &mut Tile) {
        let Ok(Some((page, chunk))) = self.find(at) else {
            return;
        };
        for (time, row) in rows.clone().enumerate() {
            if let Some(start_ms) = start_at(page, chunk, row) {
                let place = tile.at(time, series);
                tile.start_times_ms[place] = start_ms;
            }
        }
    }
}

/// Returns the start time of a counter at a row, if it is known.
fn start_at(page: &Page, chunk: usize, row: usize) -> Option<i64> {
    let starts = page.starts(chunk);
    let held = starts.partition_point(|(from, _)| *from as usize <= row);
    Some(starts[held.checked_sub(1)?].1)
}
