//! The newest rows of some columns of a strip, decoded: rules and dashboards ask for the same columns again after every few rows.
//!
//! A window is made when columns are asked for the second time, and goes on with every row that was stored since. The
//! newest row of a page is decoded once for all of them. Most rows of a long window are kept as columns, packed as those of a
//! block: one column of a row costs as much to decode as several, one column of a strip almost nothing.
//!
//! **Invariant:** a window has, of consecutive rows, what decoding them would give. They are visible, hence never taken
//! back, and hold no histograms.

use super::row_chunk::OpenRowChunk;
use narthex_chunks::{
    column::{ColumnEncoder, decode_column},
    row::{MAX_COLUMNS as PAGE_COLUMNS, RowBack},
};
use narthex_model::{
    cell::{ABSENT, Cell},
    storage::{Budget, Layout, Lease, Tile, TimeRange},
};
use std::{ops::Range, sync::Arc};

/// Most rows and cells of a window whose rows are kept as they are: more take a fifth of the memory as columns, and are copied
/// from them about as fast.
const MOST_ROWS: usize = 31;
const MOST_CELLS: usize = 4096;
/// Most rows and cells of a window at all: more is rarely asked for, and takes long to pack.
const MOST_PACKED_ROWS: usize = 1024;
const MOST_PACKED_CELLS: usize = 64 << 10;
/// Most rows behind the packed ones; when there are more, they are packed, too.
const MOST_UNPACKED: usize = 8;
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
    kind: Kind,
    columns: Arc<[u32]>,
    /// The strip's number of the first row.
    first_row: u64,
    /// No row before the first is at or after this.
    from_ms: i64,
    /// Time of the first row when the window was made, and times of all rows behind it.
    base_ms: i64,
    offsets_ms: Vec<u32>,
    /// The first rows of a long window.
    packed: Option<Packed>,
    /// The others, one row after the other.
    cells: Vec<f64>,
    /// Most rows that were asked for.
    asked: usize,
    /// Rows of the strip when it was last read.
    read_at: u64,
    /// `None` while its columns were asked for once.
    lease: Option<Lease>,
}

/// Rows as columns.
#[derive(Debug)]
struct Packed {
    rows: usize,
    bytes: Box<[u8]>,
    /// Where each column ends in `bytes`.
    ends: Box<[u32]>,
}

/// How rows are kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Plain,
    Packed,
}

/// Rows that were decoded, for a window.
pub(crate) struct Decoded<'a> {
    pub(crate) first_row: u64,
    /// From when on all rows were decoded.
    pub(crate) from_ms: i64,
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
        let (at, found) = [Kind::Plain, Kind::Packed]
            .into_iter()
            .find_map(|kind| self.find_kind(kind, open, columns, rows, range, memory))?;
        let window = &mut self.all[at];
        window.asked = window.asked.max(found.len());
        window.read_at = rows.1;
        Some((&self.all[at], found))
    }

    fn find_kind(
        &mut self,
        kind: Kind,
        open: &OpenRowChunk,
        columns: &Arc<[u32]>,
        rows: (u64, u64),
        range: TimeRange,
        memory: &Budget,
    ) -> Option<(usize, Range<usize>)> {
        // A selection that is kept has the same list each time; `learn` finds that of another with the same columns.
        let same = |window: &Window| window.kind == kind && Arc::ptr_eq(&window.columns, columns);
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
        Some((at, self.all[at].rows_within(rows, range)?))
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
        let Decoded {
            first_row, tile, ..
        } = decoded;
        let rows = tile.times_ms.len();
        let Some(kind) = kind_of(columns, tile) else {
            return;
        };
        if newest_row > first_row + rows as u64 + FEW_ROWS {
            return;
        }
        let same = |own: &&mut Window| own.kind == kind && own.columns == *columns;
        let Some(window) = self.all.iter_mut().find(same) else {
            self.prune(newest_row);
            if self.all.len() < MOST_WINDOWS {
                self.all.push(Window::asked_for(kind, columns, newest_row));
            }
            return;
        };
        window.columns = Arc::clone(columns);
        // Room for the cells as they are, as long as it is not known what they take packed.
        window.lease = memory
            .lease(Window::bytes_of(rows, rows * columns.len(), 0))
            .ok();
        if window.lease.is_none() {
            return;
        }
        if window.fill(kind, decoded).is_some() {
            window.read_at = newest_row;
        } else {
            window.lease = None;
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

/// Decides how a window of `columns` keeps the rows of `tile`, if it may.
fn kind_of(columns: &[u32], tile: &Tile) -> Option<Kind> {
    let page = |column: &u32| *column as usize / PAGE_COLUMNS;
    let rows = tile.times_ms.len();
    let is_of_one_page = columns.first().map(page) == columns.last().map(page);
    if rows == 0 || !tile.histograms.is_empty() || !is_of_one_page {
        return None;
    }
    if rows <= MOST_ROWS && (rows + SPARE_ROWS) * columns.len() <= MOST_CELLS {
        return Some(Kind::Plain);
    }
    let may_be_packed = rows <= MOST_PACKED_ROWS && rows * columns.len() <= MOST_PACKED_CELLS;
    may_be_packed.then_some(Kind::Packed)
}

impl Packed {
    /// Packs `rows` cells of each column, which `cells_of` adds.
    fn new(rows: usize, columns: usize, mut cells_of: impl FnMut(usize, &mut Vec<f64>)) -> Self {
        let mut encoder = ColumnEncoder::new();
        let (mut bytes, mut cells) = (Vec::new(), Vec::with_capacity(rows));
        let ends = (0..columns).map(|column| {
            cells.clear();
            cells_of(column, &mut cells);
            encoder.encode(&cells, &[], &mut bytes);
            u32::try_from(bytes.len()).expect("few cells take less than 4 GiB")
        });
        let ends = ends.collect();
        Self {
            rows,
            bytes: bytes.into(),
            ends,
        }
    }

    fn heap_bytes(&self) -> usize {
        size_of_val(&*self.bytes) + size_of_val(&*self.ends)
    }

    /// Decodes all rows of a column.
    fn decode(&self, column: usize, out: &mut [f64]) {
        let from = column.checked_sub(1).map_or(0, |before| self.ends[before]);
        let bytes = &self.bytes[from as usize..self.ends[column] as usize];
        decode_column(bytes, out, &mut Vec::new()).expect("what was just encoded");
    }
}

impl Window {
    fn asked_for(kind: Kind, columns: &Arc<[u32]>, row: u64) -> Self {
        Self {
            kind,
            columns: Arc::clone(columns),
            first_row: 0,
            from_ms: i64::MAX,
            base_ms: 0,
            offsets_ms: Vec::new(),
            packed: None,
            cells: Vec::new(),
            asked: 0,
            read_at: row,
            lease: None,
        }
    }

    fn end_row(&self) -> u64 {
        self.first_row + self.offsets_ms.len() as u64
    }

    fn time_ms(&self, row: usize) -> i64 {
        self.base_ms + i64::from(self.offsets_ms[row])
    }

    /// Returns the bytes of a window with room for so many times and cells beside the packed ones.
    fn bytes_of(times: usize, cells: usize, packed: usize) -> u64 {
        (size_of::<Self>() + times * size_of::<u32>() + cells * size_of::<f64>() + packed) as u64
    }

    /// Leases what the window takes by now; `None` if there is no memory for it.
    fn lease(&mut self) -> Option<()> {
        let packed = self.packed.as_ref().map_or(0, Packed::heap_bytes);
        let bytes = Self::bytes_of(self.offsets_ms.capacity(), self.cells.capacity(), packed);
        self.lease.as_mut()?.resize(bytes).ok()
    }

    /// Makes the window of rows; `None` if they are too far apart, or take more memory packed than there is.
    fn fill(&mut self, kind: Kind, decoded: &Decoded<'_>) -> Option<()> {
        let Decoded {
            first_row,
            from_ms,
            tile,
        } = decoded;
        let rows = tile.times_ms.len();
        (self.first_row, self.from_ms, self.asked) = (*first_row, *from_ms, rows);
        self.base_ms = *tile.times_ms.first()?;
        let offset = |time_ms: &i64| u32::try_from(time_ms - self.base_ms).ok();
        let offsets: Option<Vec<u32>> = tile.times_ms.iter().map(offset).collect();
        self.offsets_ms = offsets?;
        self.offsets_ms.shrink_to_fit();
        (self.packed, self.cells) = (None, Vec::new());
        if kind == Kind::Packed {
            self.packed = Some(Packed::new(rows, tile.series, |series, cells| {
                cells.extend((0..rows).map(|row| tile.get(row, series)));
            }));
        } else {
            self.cells.reserve_exact(rows * tile.series);
            for row in 0..rows {
                let cells = (0..tile.series).map(|series| tile.get(row, series));
                self.cells.extend(cells);
            }
        }
        self.lease()
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
            self.push(published.time_ms(row), cells.into_iter())?;
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
        self.push(published.time_ms(row), columns.iter().map(cell))
    }

    fn packed_rows(&self) -> usize {
        self.packed.as_ref().map_or(0, |packed| packed.rows)
    }

    /// Adds a row; `None` if there is no memory for it, or it is too long after the first.
    fn push(&mut self, time_ms: i64, cells: impl Iterator<Item = f64>) -> Option<()> {
        let columns = self.columns.len();
        let behind = self.offsets_ms.len() - self.packed_rows();
        if self.packed.is_none() && behind >= self.asked + SPARE_ROWS {
            let gone = behind - (self.asked + LEFT_ROWS).min(behind);
            self.cells.drain(..gone * columns);
            self.forget_times(gone, time_ms);
        } else if self.packed.is_some() && behind == MOST_UNPACKED {
            self.pack(time_ms);
            self.lease()?;
        }
        if self.cells.capacity() < self.cells.len() + columns {
            // Whoever asks after a row asks after many, and what is asked at one time alone has no use for the room.
            let rows = match self.packed {
                Some(_) => MOST_UNPACKED,
                None => SPARE_ROWS,
            };
            self.cells.reserve_exact(rows * columns);
            self.offsets_ms.reserve_exact(rows);
            self.lease()?;
        }
        let offset_ms = u32::try_from(time_ms - self.base_ms).ok()?;
        self.offsets_ms.push(offset_ms);
        self.cells.extend(cells);
        Some(())
    }

    /// Forgets the times of the first `gone` rows, before a row at `time_ms` comes.
    fn forget_times(&mut self, gone: usize, time_ms: i64) {
        self.offsets_ms.drain(..gone);
        self.first_row += gone as u64;
        let first = self.offsets_ms.first().copied().unwrap_or_default();
        self.from_ms = match self.offsets_ms.is_empty() {
            true => time_ms,
            false => self.base_ms + i64::from(first),
        };
        self.offsets_ms
            .iter_mut()
            .for_each(|offset| *offset -= first);
        self.base_ms = self.from_ms;
    }

    /// Packs the rows behind the packed ones with those of them that are still asked for, before a row at `time_ms` comes.
    fn pack(&mut self, time_ms: i64) {
        let Some(packed) = self.packed.take() else {
            return;
        };
        let (columns, all) = (self.columns.len(), self.offsets_ms.len());
        let gone = all.saturating_sub(self.asked + LEFT_ROWS).min(packed.rows);
        let mut before = vec![0.0; packed.rows];
        self.packed = Some(Packed::new(all - gone, columns, |column, cells| {
            packed.decode(column, &mut before);
            cells.extend_from_slice(&before[gone..]);
            cells.extend(self.cells.iter().skip(column).step_by(columns));
        }));
        self.cells.clear();
        self.forget_times(gone, time_ms);
    }

    /// Returns the rows within `range` that `rows` show; `None` if it may lack some of them.
    fn rows_within(&self, rows: (u64, u64), range: TimeRange) -> Option<Range<usize>> {
        if self.from_ms > range.min_ms && self.first_row > rows.0 {
            return None;
        }
        let number = |row: u64| {
            let at = row.saturating_sub(self.first_row);
            usize::try_from(at).unwrap_or(usize::MAX)
        };
        let at = |time_ms: i64| {
            let offset_ms = time_ms.saturating_sub(self.base_ms);
            self.offsets_ms
                .partition_point(|own_ms| i64::from(*own_ms) < offset_ms)
        };
        let from = at(range.min_ms).max(number(rows.0));
        let to = at(range.max_ms.saturating_add(1)).min(number(rows.1));
        Some(from..to.max(from))
    }

    /// Copies rows to a tile.
    pub(crate) fn copy(&self, rows: Range<usize>, layout: Layout, tile: &mut Tile) {
        let columns = self.columns.len();
        tile.clear(layout);
        let times = rows.clone().map(|row| self.time_ms(row));
        tile.times_ms.extend(times);
        tile.series = columns;
        tile.cells.resize(rows.len() * columns, ABSENT);
        let packed = rows.start.min(self.packed_rows())..rows.end.min(self.packed_rows());
        if !packed.is_empty() {
            self.copy_packed(packed.clone(), tile);
        }
        let own = |row: usize| row - self.packed_rows().min(row);
        let cells = &self.cells[own(rows.start) * columns..own(rows.end) * columns];
        if layout == Layout::TimeMajor {
            tile.cells[packed.len() * columns..].copy_from_slice(cells);
            return;
        }
        for (row, cells) in (packed.len()..).zip(cells.chunks_exact(columns)) {
            for (series, cell) in cells.iter().enumerate() {
                tile.cells[series * rows.len() + row] = *cell;
            }
        }
    }

    /// Copies some of the packed rows to the first rows of a tile.
    fn copy_packed(&self, rows: Range<usize>, tile: &mut Tile) {
        let Some(packed) = &self.packed else {
            return;
        };
        let (all, columns) = (tile.times_ms.len(), self.columns.len());
        let is_whole = rows.len() == packed.rows && tile.layout == Layout::SeriesMajor;
        let mut scratch = vec![0.0; if is_whole { 0 } else { packed.rows }];
        for column in 0..columns {
            if is_whole {
                let from = column * all;
                packed.decode(column, &mut tile.cells[from..from + packed.rows]);
                continue;
            }
            packed.decode(column, &mut scratch);
            let cells = &scratch[rows.clone()];
            if tile.layout == Layout::SeriesMajor {
                tile.cells[column * all..][..cells.len()].copy_from_slice(cells);
                continue;
            }
            for (row, cell) in cells.iter().enumerate() {
                tile.cells[row * columns + column] = *cell;
            }
        }
    }
}

#[cfg(test)]
mod tests;
