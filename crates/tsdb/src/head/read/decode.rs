//! Decoding rows of a row chunk into a tile.
//!
//! Few columns of a page are picked, skipping all others; many are decoded together. Rows nearer to the row chunk's last one
//! than to its first are decoded backwards, from the state after it: the encoder's, or what the next row chunk begins with.
//!
//! **Invariant:** every requested cell is written, or was absent; malformed bytes are an error.

use crate::head::{
    row_chunk::{OpenRowChunk, PageRows, RowChunk},
    strip::PAGE_COLUMNS,
};
use narthex_chunks::{
    ChunkError,
    histogram::HistogramState,
    row::{ColumnPick, PickBack, RowBack, RowDecoder, RowState},
};
use narthex_model::{
    Histogram,
    cell::{self, Cell},
    storage::{Context, Layout, StopReason, StorageError, Tile},
};
use std::{borrow::Cow, ops::Range, path::PathBuf, sync::Arc};

/// Reason rows could not be decoded.
pub(super) enum Failed {
    Bytes {
        row: u64,
        page: usize,
        error: ChunkError,
    },
    Stopped(StopReason),
}

impl Failed {
    pub(super) fn into_storage(self, place: impl FnOnce() -> PathBuf) -> StorageError {
        match self {
            Self::Stopped(reason) => reason.into(),
            Self::Bytes { row, page, error } => {
                let detail = format!("row {row}, page {page}: {error}");
                StorageError::Corrupt {
                    path: place(),
                    offset: 0,
                    detail,
                }
            }
        }
    }
}

/// Columns to decode, by page.
pub(super) struct Picks {
    pages: Vec<OfPage>,
}

struct OfPage {
    page: usize,
    /// Column within the page, and the tile's series it is written to.
    columns: Vec<u32>,
    series: Vec<usize>,
    /// Whether the series are consecutive, and the columns too.
    series_run: bool,
    run: bool,
}

/// Whole rows are decoded when more than one in this many columns is wanted.
const PICK_RATIO: usize = 2;
/// Rows between checks for a stop.
const STOP_ROWS: usize = 64;

impl OfPage {
    fn filtered(&self, keep: impl Fn(u32) -> bool) -> Self {
        let kept = self
            .columns
            .iter()
            .zip(&self.series)
            .filter(|(column, _)| keep(**column));
        let (columns, series) = kept.map(|(column, series)| (*column, *series)).unzip();
        Self {
            page: self.page,
            columns,
            series,
            series_run: false,
            run: false,
        }
    }
}

impl Picks {
    /// Sorts `columns` by page; the tile's series are their indexes in the list.
    pub(super) fn new(columns: &[u32]) -> Self {
        let mut pages: Vec<OfPage> = Vec::new();
        for (series, column) in columns.iter().enumerate() {
            let page = *column as usize / PAGE_COLUMNS;
            let at = match pages.iter().rposition(|of| of.page == page) {
                Some(at) => at,
                None => {
                    let most = PAGE_COLUMNS.min(columns.len() - series);
                    pages.push(OfPage {
                        page,
                        columns: Vec::with_capacity(most),
                        series: Vec::with_capacity(most),
                        series_run: true,
                        run: true,
                    });
                    pages.len() - 1
                }
            };
            let of = &mut pages[at];
            let before = of.columns.last().zip(of.series.last());
            if let Some((column_before, series_before)) = before {
                of.series_run &= series_before + 1 == series;
                of.run &= of.series_run && column_before + 1 == *column % PAGE_COLUMNS as u32;
            }
            of.columns.push(*column % PAGE_COLUMNS as u32);
            of.series.push(series);
        }
        Self { pages }
    }

    /// Returns the pages that have any of the columns.
    pub(super) fn pages(&self) -> impl Iterator<Item = usize> {
        self.pages.iter().map(|of| of.page)
    }
}

/// Writes the cells of `rows` into `tile`, the first of them as row `to_row`; `state_of` returns the state after the
/// last row of a page, where known.
pub(super) fn decode(
    row_chunk: &RowChunk,
    state_of: &dyn Fn(usize) -> Option<RowState>,
    rows: Range<usize>,
    picks: &Picks,
    to_row: usize,
    tile: &mut Tile,
    ctx: &Context,
) -> Result<(), Failed> {
    each_page(row_chunk, &rows, picks, ctx, |of, page, own| {
        let out = Writer {
            of,
            tile: &mut *tile,
            to_row: to_row + page.first + own.start - rows.start,
        };
        let mut reader = page.reader();
        let state = || state_of(of.page).map(Cow::Owned);
        decode_page(row_chunk, page, own, state, |row| reader.row(row), out, ctx)
    })
}

/// Writes the cells of `rows` of an open row chunk into `tile`, as `decode` does; every page's state after the last row is known.
pub(super) fn decode_open(
    open: &OpenRowChunk,
    rows: Range<usize>,
    picks: &Picks,
    tile: &mut Tile,
    ctx: &Context,
) -> Result<(), Failed> {
    each_page(open.published(), &rows, picks, ctx, |of, page, own| {
        let out = Writer {
            of,
            tile: &mut *tile,
            to_row: page.first + own.start - rows.start,
        };
        let state = || open.known_state(of.page).map(Cow::Borrowed);
        let bytes = |row| open.row(of.page, row).unwrap_or_default();
        decode_page(open.published(), page, own, state, bytes, out, ctx)
    })
}

/// Passes each wanted page of a row chunk to `work`, with its wanted columns and which of its rows are among `rows`.
fn each_page<'p>(
    row_chunk: &'p RowChunk,
    rows: &Range<usize>,
    picks: &Picks,
    ctx: &Context,
    mut work: impl FnMut(&OfPage, &'p PageRows, Range<usize>) -> Result<(), Failed>,
) -> Result<(), Failed> {
    for (count, of) in picks.pages.iter().enumerate() {
        if count > 0 {
            ctx.stop.check().map_err(Failed::Stopped)?;
        }
        let Some(page) = row_chunk.pages.get(of.page) else {
            continue;
        };
        let from = rows.start.max(page.first);
        if from >= rows.end {
            continue;
        }
        // A column that this row chunk never saw may collide with another's position, defined in a lost part of the WAL.
        let first = (of.page * PAGE_COLUMNS) as u32;
        let has_seen = |column: u32| row_chunk.has_seen(first + column);
        let filtered;
        let of = if of.columns.iter().all(|column| has_seen(*column)) {
            of
        } else {
            filtered = of.filtered(has_seen);
            &filtered
        };
        if !of.columns.is_empty() {
            work(of, page, from - page.first..rows.end - page.first)?;
        }
    }
    Ok(())
}

/// Writes the cells of some rows of a page, `own`, counted from its first; `state` returns the state after its last row, where known,
/// and `bytes` those of a row.
fn decode_page<'p>(
    row_chunk: &RowChunk,
    page: &PageRows,
    own: Range<usize>,
    state: impl FnOnce() -> Option<Cow<'p, RowState>>,
    bytes: impl FnMut(usize) -> &'p [u8],
    mut out: Writer<'_>,
    ctx: &Context,
) -> Result<(), Failed> {
    let OfPage {
        page: number,
        columns,
        ..
    } = out.of;
    let bad = |row: usize, error| Failed::Bytes {
        row: row_chunk.first_row + (page.first + row) as u64,
        page: *number,
        error,
    };
    let of_page = row_chunk.columns.saturating_sub(number * PAGE_COLUMNS);
    let few = columns.len() * PICK_RATIO < of_page.min(PAGE_COLUMNS);
    let is_near = page.rows() - own.start < own.end;
    let forwards = 0..own.end;
    let backwards = (own.start..page.rows()).rev();
    match (is_near.then(state).flatten(), few) {
        (Some(state), true) => {
            let decoder = PickBack::new(&state, columns);
            each_row(decoder, bytes, backwards, &own, &mut out, ctx, bad)
        }
        (Some(state), false) => {
            let decoder = RowBack::new(state.into_owned());
            each_row(decoder, bytes, backwards, &own, &mut out, ctx, bad)
        }
        (None, true) => {
            let decoder = ColumnPick::new(columns);
            each_row(decoder, bytes, forwards, &own, &mut out, ctx, bad)
        }
        (None, false) => {
            let decoder = RowDecoder::new();
            each_row(decoder, bytes, forwards, &own, &mut out, ctx, bad)
        }
    }
}

/// Decodes all rows of one page of a row chunk, time-major; returns the columns.
///
/// # Errors
/// Fails on malformed bytes.
pub(crate) fn decode_row_chunk(
    row_chunk: &RowChunk,
    page: usize,
    tile: &mut Tile,
    ctx: &Context,
) -> Result<Range<u32>, StorageError> {
    let from = (page * PAGE_COLUMNS) as u32;
    let to = row_chunk.columns.min((page + 1) * PAGE_COLUMNS) as u32;
    let columns: Vec<u32> = (from..to).collect();
    let times_ms: Vec<i64> = (0..row_chunk.rows())
        .map(|row| row_chunk.time_ms(row))
        .collect();
    tile.shape(Layout::TimeMajor, &times_ms, columns.len(), cell::ABSENT);
    decode(
        row_chunk,
        &|_| None,
        0..row_chunk.rows(),
        &Picks::new(&columns),
        0,
        tile,
        ctx,
    )
    .map_err(|failed| failed.into_storage(|| PathBuf::from("head")))?;
    Ok(from..to)
}

/// A decoder of rows in one direction.
trait Decoder<'p> {
    /// Whether it decodes nothing but the wanted columns.
    const PICKS: bool;

    /// Steps to a row; passes on its histograms with their column, or index among the wanted ones.
    fn step(
        &mut self,
        row: &'p [u8],
        histogram: impl FnMut(usize, &HistogramState),
    ) -> Result<(), ChunkError>;

    fn cells(&self) -> &[f64];
}

macro_rules! decoders {
    ($($decoder:ty, picks: $picks:literal;)+) => {$(
        impl<'p> Decoder<'p> for $decoder {
            const PICKS: bool = $picks;

            fn step(
                &mut self,
                row: &'p [u8],
                histogram: impl FnMut(usize, &HistogramState),
            ) -> Result<(), ChunkError> {
                self.step_with(row, histogram).map(drop)
            }

            fn cells(&self) -> &[f64] {
                self.cells()
            }
        }
    )+};
}

decoders! {
    RowDecoder, picks: false;
    RowBack<'p>, picks: false;
    ColumnPick, picks: true;
    PickBack<'p>, picks: true;
}

/// Decodes rows of a page, of which `bytes` returns each, in the order `through`, and writes those of `rows`.
fn each_row<'p, D: Decoder<'p>>(
    mut decoder: D,
    mut bytes: impl FnMut(usize) -> &'p [u8],
    through: impl Iterator<Item = usize>,
    rows: &Range<usize>,
    out: &mut Writer<'_>,
    ctx: &Context,
    bad: impl Fn(usize, ChunkError) -> Failed,
) -> Result<(), Failed> {
    let mut histograms = Vec::new();
    for row in through {
        let is_wanted = rows.contains(&row);
        let stepped = decoder.step(bytes(row), |at, state| {
            if is_wanted {
                histograms.push((at, Arc::new(state.to_histogram())));
            }
        });
        stepped.map_err(|error| bad(row, error))?;
        if is_wanted {
            let to = row - rows.start;
            match D::PICKS {
                true => out.picked(to, decoder.cells()),
                false => out.row(to, decoder.cells()),
            }
            for (at, histogram) in histograms.drain(..) {
                match D::PICKS {
                    true => out.picked_histogram(to, at, histogram),
                    false => out.histogram(to, at, histogram),
                }
            }
        }
        check(row, ctx)?;
    }
    Ok(())
}

fn check(row: usize, ctx: &Context) -> Result<(), Failed> {
    if row.is_multiple_of(STOP_ROWS) {
        ctx.stop.check().map_err(Failed::Stopped)
    } else {
        Ok(())
    }
}

/// Writes the cells of a page's rows to their places in the tile.
struct Writer<'t> {
    of: &'t OfPage,
    tile: &'t mut Tile,
    to_row: usize,
}

impl Writer<'_> {
    /// Writes a whole row; histograms follow one by one.
    fn row(&mut self, row: usize, cells: &[f64]) {
        let row = self.to_row + row;
        if self.of.run && self.tile.layout == Layout::TimeMajor {
            let known = cells.get(self.of.columns[0] as usize..).unwrap_or_default();
            let known = &known[..known.len().min(self.of.columns.len())];
            let to = self.tile.at(row, self.of.series[0]);
            self.tile.cells[to..to + known.len()].copy_from_slice(known);
            return;
        }
        for (column, series) in self.of.columns.iter().zip(&self.of.series) {
            let to = self.tile.at(row, *series);
            self.tile.cells[to] = cells.get(*column as usize).copied().unwrap_or(cell::ABSENT);
        }
    }

    fn histogram(&mut self, row: usize, column: usize, histogram: Arc<Histogram>) {
        for index in 0..self.of.columns.len() {
            if self.of.columns[index] as usize == column {
                self.picked_histogram(row, index, Arc::clone(&histogram));
            }
        }
    }

    fn picked(&mut self, row: usize, cells: &[f64]) {
        if self.of.series_run && self.tile.layout == Layout::TimeMajor {
            let to = self.tile.at(self.to_row + row, self.of.series[0]);
            self.tile.cells[to..to + cells.len()].copy_from_slice(cells);
            return;
        }
        for (value, series) in cells.iter().zip(&self.of.series) {
            let to = self.tile.at(self.to_row + row, *series);
            self.tile.cells[to] = *value;
        }
    }

    fn picked_histogram(&mut self, row: usize, index: usize, histogram: Arc<Histogram>) {
        let to = self.tile.at(self.to_row + row, self.of.series[index]);
        debug_assert!(matches!(
            Cell::decode(self.tile.cells[to]),
            Cell::Histogram(_)
        ));
        self.tile.cells[to] = cell::push_histogram(&mut self.tile.histograms, histogram);
    }
}
