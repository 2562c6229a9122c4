//! The newest rows of some columns of a strip, decoded: rules ask for the same columns again after every few rows.
//!
//! A window is made when columns are asked for the second time, and goes on with every row that was stored since. The
//! newest row of a page is decoded once for all of them.
//!
//! **Invariant:** a window has, of consecutive rows, what decoding them would give. They are visible, hence never taken
//! back, and hold no histograms.

use super::row_chunk::OpenRowChunk;
use narthex_chunks::row::{MAX_COLUMNS as PAGE_COLUMNS, RowBack};
use narthex_model::{
    cell::{ABSENT, Cell},
    storage::{Budget, Layout, Lease, Tile, TimeRange},
};
use std::{ops::Range, sync::Arc};

/// Most rows and cells of a window: more is rarely asked for, and decoding it is most of a query's work anyway.
const MOST_ROWS: usize = 64;
const MOST_CELLS: usize = 4096;
/// Most windows of a strip.
const MOST_WINDOWS: usize = 64;
/// Rows stored since a window was read after which it is decoded anew, and after which it is dropped.
const FEW_ROWS: u64 = 8;
const IDLE_ROWS: u64 = 32;
/// Rows beyond those asked for that a window has at most, and after it was shortened.
const SPARE_ROWS: usize = 12;
const LEFT_ROWS: usize = 4;

/// Columns from which on a page's newest row is kept: few are decoded as fast.
const MANY_COLUMNS: usize = 32;

/// The windows of a strip.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    all: Vec<Window>,
    newest: NewestRow,
}

/// The newest row of one page, decoded once for all who read it. It is visible: another one never gets its number.
#[derive(Debug, Default)]
struct NewestRow {
    /// Page, and number after the row's; `None` while nothing is decoded.
    of: Option<(usize, u64)>,
    cells: Vec<f64>,
    lease: Option<Lease>,
}

#[derive(Debug)]
pub(crate) struct Window {
    columns: Arc<[u32]>,
    /// The strip's number of the first row.
    first_row: u64,
    times_ms: Vec<i64>,
    /// One row after the other.
    cells: Vec<f64>,
    /// Most rows that were asked for.
    asked: usize,
    /// Rows of the strip when it was last read.
    read_at: u64,
    /// `None` while its columns were asked for once.
    lease: Option<Lease>,
}

/// Rows that were decoded, for a window.
pub(crate) struct Decoded<'a> {
    pub(crate) first_row: u64,
    pub(crate) tile: &'a Tile,
}

impl Windows {
    /// Returns the window of `columns` and its rows within `range` that `rows` of the strip show, if it has all of them.
    pub(crate) fn find(
        &mut self,
        open: &OpenRowChunk,
        columns: &Arc<[u32]>,
        rows: (u64, u64),
        range: TimeRange,
        memory: &Budget,
    ) -> Option<(&Window, Range<usize>)> {
        // A selection that is kept has the same list each time; `learn` finds that of another with the same columns.
        let same = |window: &Window| Arc::ptr_eq(&window.columns, columns);
        let at = self.all.iter().position(same)?;
        let window = &mut self.all[at];
        window.lease.as_ref()?;
        if window
            .follow(open, rows.1, &mut self.newest, memory)
            .is_none()
        {
            self.all.swap_remove(at);
            return None;
        }
        let window = &mut self.all[at];
        let found = window.rows_within(rows, range)?;
        window.asked = window.asked.max(found.len());
        window.read_at = rows.1;
        Some((&self.all[at], found))
    }

    /// Returns the cells of a page's newest row, which must be visible; `None` if they are not worth being kept.
    pub(crate) fn newest_row(
        &mut self,
        open: &OpenRowChunk,
        page: usize,
        memory: &Budget,
    ) -> Option<&[f64]> {
        self.newest.cells(open, page, memory)
    }

    /// Keeps what was decoded of `columns`, if they were asked for before.
    pub(crate) fn learn(
        &mut self,
        columns: &Arc<[u32]>,
        decoded: &Decoded<'_>,
        newest_row: u64,
        memory: &Budget,
    ) {
        let Decoded { first_row, tile } = decoded;
        let rows = tile.times_ms.len();
        if !is_worth_a_window(columns, tile) || newest_row > first_row + rows as u64 + FEW_ROWS {
            return;
        }
        let Some(window) = self.all.iter_mut().find(|own| own.columns == *columns) else {
            self.prune(newest_row);
            if self.all.len() < MOST_WINDOWS {
                self.all.push(Window::asked_for(columns, newest_row));
            }
            return;
        };
        window.columns = Arc::clone(columns);
        let most = (rows + SPARE_ROWS) * (size_of::<i64>() + columns.len() * size_of::<f64>());
        window.lease = memory.lease(most as u64).ok();
        if window.lease.is_some() {
            window.fill(*first_row, tile);
            window.read_at = newest_row;
        }
    }

    /// Drops what has not been read for long before row `newest_row`.
    pub(crate) fn prune(&mut self, newest_row: u64) {
        let is_read = |window: &Window| window.read_at + IDLE_ROWS >= newest_row;
        if !self.all.iter().all(is_read) {
            self.all.retain(is_read);
        }
    }
}

impl NewestRow {
    /// Returns the cells of the newest row of a page; `None` if they are not worth being kept.
    fn cells(&mut self, open: &OpenRowChunk, page: usize, memory: &Budget) -> Option<&[f64]> {
        let published = open.published();
        let of = (page, published.end_row());
        if self.of == Some(of) {
            return Some(&self.cells);
        }
        self.of = None;
        let row = published.rows().checked_sub(1)?;
        let row = row.checked_sub(published.pages.get(page)?.first)?;
        let state = open.state(page)?;
        if state.columns() < MANY_COLUMNS {
            return None;
        }
        let bytes = (state.columns() * size_of::<f64>()) as u64;
        match &mut self.lease {
            Some(lease) => lease.resize(bytes).ok()?,
            none => *none = Some(memory.lease(bytes).ok()?),
        }
        let mut back = RowBack::new(state.clone());
        back.step(open.row(page, row)?).ok()?;
        self.cells.clear();
        self.cells.extend_from_slice(back.cells());
        self.of = Some(of);
        Some(&self.cells)
    }
}

/// Reports whether a window of `columns` may have the rows of `tile`.
fn is_worth_a_window(columns: &[u32], tile: &Tile) -> bool {
    let page = |column: &u32| *column as usize / PAGE_COLUMNS;
    let rows = tile.times_ms.len();
    let is_small = (1..=MOST_ROWS).contains(&rows)
        && (rows + SPARE_ROWS) * columns.len() <= MOST_CELLS
        && tile.histograms.is_empty();
    is_small && columns.first().map(page) == columns.last().map(page)
}

impl Window {
    fn asked_for(columns: &Arc<[u32]>, row: u64) -> Self {
        Self {
            columns: Arc::clone(columns),
            first_row: 0,
            times_ms: Vec::new(),
            cells: Vec::new(),
            asked: 0,
            read_at: row,
            lease: None,
        }
    }

    fn end_row(&self) -> u64 {
        self.first_row + self.times_ms.len() as u64
    }

    fn fill(&mut self, first_row: u64, tile: &Tile) {
        let rows = tile.times_ms.len();
        (self.first_row, self.asked) = (first_row, rows);
        self.times_ms = Vec::with_capacity(rows + SPARE_ROWS);
        self.times_ms.extend_from_slice(&tile.times_ms);
        self.cells = Vec::with_capacity((rows + SPARE_ROWS) * tile.series);
        for row in 0..rows {
            let cells = (0..tile.series).map(|series| tile.get(row, series));
            self.cells.extend(cells);
        }
    }

    /// Decodes the rows up to number `end` that it lacks; `None` if it has to be made anew.
    fn follow(
        &mut self,
        open: &OpenRowChunk,
        end: u64,
        known: &mut NewestRow,
        memory: &Budget,
    ) -> Option<()> {
        let own_end = self.end_row();
        if end <= own_end {
            return Some(());
        }
        let published = open.published();
        let newest = published.end_row();
        if newest < end || published.first_row > own_end || newest - own_end > FEW_ROWS {
            return None;
        }
        let page = *self.columns.first()? as usize / PAGE_COLUMNS;
        let first = published.first_row + published.pages.get(page)?.first as u64;
        let is_next = end == newest && own_end + 1 == end && own_end >= first;
        if is_next && let Some(cells) = known.cells(open, page, memory) {
            return self.follow_one(open, cells);
        }
        let mut back = RowBack::new(open.state(page)?.clone());
        let mut rows: Vec<Vec<f64>> = Vec::new();
        for row in (own_end..newest).rev() {
            let mut cells = vec![ABSENT; self.columns.len()];
            if row >= first {
                let of_page = usize::try_from(row - first).ok()?;
                back.step(open.row(page, of_page)?).ok()?;
                for (cell, column) in cells.iter_mut().zip(&*self.columns) {
                    if published.has_seen(*column) {
                        let found = back.cells().get(*column as usize % PAGE_COLUMNS);
                        *cell = found.copied().unwrap_or(ABSENT);
                    }
                }
            }
            if row < end {
                rows.push(cells);
            }
        }
        for cells in rows.into_iter().rev() {
            if cells
                .iter()
                .any(|cell| matches!(Cell::decode(*cell), Cell::Histogram(_)))
            {
                return None;
            }
            let row = usize::try_from(self.end_row() - published.first_row).ok()?;
            self.push(published.time_ms(row), cells.into_iter());
        }
        Some(())
    }

    /// Goes on with the newest row, whose cells are known.
    fn follow_one(&mut self, open: &OpenRowChunk, of_row: &[f64]) -> Option<()> {
        let published = open.published();
        let cell = |column: &u32| {
            let found = of_row.get(*column as usize % PAGE_COLUMNS);
            let found = found.filter(|_| published.has_seen(*column));
            found.copied().unwrap_or(ABSENT)
        };
        let columns = Arc::clone(&self.columns);
        let is_histogram = |column: &u32| matches!(Cell::decode(cell(column)), Cell::Histogram(_));
        if columns.iter().any(is_histogram) {
            return None;
        }
        let row = usize::try_from(self.end_row() - published.first_row).ok()?;
        self.push(published.time_ms(row), columns.iter().map(cell));
        Some(())
    }

    fn push(&mut self, time_ms: i64, cells: impl Iterator<Item = f64>) {
        if self.times_ms.len() >= self.asked + SPARE_ROWS {
            let gone = self.times_ms.len() - (self.asked + LEFT_ROWS).min(self.times_ms.len());
            self.times_ms.drain(..gone);
            self.cells.drain(..gone * self.columns.len());
            self.first_row += gone as u64;
        }
        self.times_ms.push(time_ms);
        self.cells.extend(cells);
    }

    /// Returns the rows within `range` that `rows` show; `None` if it may lack some of them.
    fn rows_within(&self, rows: (u64, u64), range: TimeRange) -> Option<Range<usize>> {
        let oldest_ms = *self.times_ms.first()?;
        if oldest_ms > range.min_ms && self.first_row > rows.0 {
            return None;
        }
        let number = |row: u64| {
            let at = row.saturating_sub(self.first_row);
            usize::try_from(at).unwrap_or(usize::MAX)
        };
        let at = |time_ms: i64| self.times_ms.partition_point(|own_ms| *own_ms < time_ms);
        let from = at(range.min_ms).max(number(rows.0));
        let to = at(range.max_ms.saturating_add(1)).min(number(rows.1));
        Some(from..to.max(from))
    }

    /// Copies rows to a tile.
    pub(crate) fn copy(&self, rows: Range<usize>, layout: Layout, tile: &mut Tile) {
        let columns = self.columns.len();
        tile.shape(layout, &self.times_ms[rows.clone()], columns, ABSENT);
        let cells = &self.cells[rows.start * columns..rows.end * columns];
        if layout == Layout::TimeMajor {
            tile.cells.copy_from_slice(cells);
            return;
        }
        for (row, cells) in cells.chunks_exact(columns).enumerate() {
            for (series, cell) in cells.iter().enumerate() {
                tile.cells[series * rows.len() + row] = *cell;
            }
        }
    }
}
