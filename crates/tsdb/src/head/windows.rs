//! The newest rows of some columns of a strip, decoded: rules and dashboards ask for the same columns again after every few rows.
//!
//! A window is made when columns are asked for the second time, and goes on with every row that was stored since. The
//! newest row of a page is decoded once for all of them. Most rows are kept as columns, those of a long window packed as in a
//! block: one column of a row costs as much to decode as several, one column of a strip almost nothing.
//!
//! **Invariant:** a window has, of consecutive rows, what decoding them would give. They are visible, hence never taken
//! back, and hold no histograms.

use super::row_chunk::OpenRowChunk;
use narthex_chunks::{
    column::{ColumnEncoder, decode_column},
    quick,
    row::{MAX_COLUMNS as PAGE_COLUMNS, RowBack},
};
use narthex_model::{
    cell::{ABSENT, Cell},
    storage::{Budget, Layout, Lease, Tile, TimeRange},
};
use std::{ops::Range, sync::Arc};

/// Most rows of a short window, five minutes of one in ten seconds: of more it matters what they take.
const MOST_SHORT_ROWS: usize = 32;
/// Most rows and cells of a window at all: more is rarely asked for, and takes long to pack.
const MOST_ROWS: usize = 1024;
const MOST_CELLS: usize = 64 << 10;
/// Most rows behind the columns; when there are more, they join them.
const MOST_BEHIND: usize = 8;
/// Most windows of a strip.
const MOST_WINDOWS: usize = 64;
/// Rows stored since a window was read after which it is decoded anew, and after which it is dropped.
const FEW_ROWS: u64 = 8;
const IDLE_ROWS: u64 = 32;
/// Rows beyond those asked for that a window has after it was shortened.
const LEFT_ROWS: usize = 4;

/// Columns from which on a page's newest row is kept: few are decoded as fast.
const MANY_COLUMNS: usize = 32;

/// Memory of what the strips of a head keep decoded.
#[derive(Debug)]
pub(crate) struct DecodedMemory {
    windows: Budget,
    /// Those of many rows and columns, which would take all: for their size they save least.
    large: Budget,
    /// Apart, because windows take all that they get, and nothing is worth as much as the newest rows.
    newest: Budget,
}

/// Most bytes of all windows, of the large ones, and of all newest rows.
const MOST_WINDOW_BYTES: u64 = 24 << 20;
const MOST_LARGE_BYTES: u64 = 8 << 20;
const MOST_NEWEST_BYTES: u64 = 8 << 20;
/// Cells of which a long window is large: to decode fewer columns of a row takes almost as long, but theirs take less room.
const LARGE_CELLS: usize = 1 << 10;

impl DecodedMemory {
    /// Returns shares of `memory`.
    pub(crate) fn new(memory: &Budget) -> Self {
        let share = |name, percent, most: u64| {
            let most = memory.percent(percent).min(most);
            memory.share(name, most, memory.percent(50))
        };
        Self {
            windows: share("windows", 2, MOST_WINDOW_BYTES),
            large: share("large windows", 1, MOST_LARGE_BYTES),
            newest: share("newest rows", 1, MOST_NEWEST_BYTES),
        }
    }

    /// Returns the memory of a window of so many cells.
    fn of_window(&self, form: Form, cells: usize) -> &Budget {
        match form {
            Form::Long if cells >= LARGE_CELLS => &self.large,
            Form::Short | Form::Long => &self.windows,
        }
    }
}

/// The windows of a strip.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    all: Vec<Asked>,
    newest: NewestRow,
}

/// Columns that were asked for.
#[derive(Debug)]
struct Asked {
    form: Form,
    columns: Arc<[u32]>,
    /// Rows of the strip when they were last read.
    read_at: u64,
    /// `None` while they were asked for once: a strip has many such, which take little.
    window: Option<Box<Window>>,
}

/// The newest row of one page, decoded once for all who read it. It is visible: another one never gets its number.
#[derive(Debug, Default)]
struct NewestRow {
    /// Page, and number after the row's; `None` while nothing is decoded.
    of: Option<(usize, u64)>,
    cells: Vec<f64>,
    lease: Option<Lease>,
}

/// The newest rows of some columns. A strip may have many, so each is small.
#[derive(Debug)]
pub(crate) struct Window {
    /// The strip's number of the first row.
    first_row: u64,
    /// No row before the first is at or after this.
    from_ms: i64,
    /// Time of the first row, from which those of all count.
    base_ms: i64,
    /// Its first rows.
    packed: Packed,
    /// The others.
    behind: Option<Box<Behind>>,
    series: u32,
    /// Most rows that were asked for.
    asked: u32,
    lease: Lease,
}

/// Rows as columns: their times, unless they are regular, then one column after the other.
#[derive(Debug)]
struct Packed {
    form: Form,
    rows: u32,
    /// From row to row; 0 if the times are listed.
    step_ms: u32,
    bytes: Box<[u8]>,
}

/// Rows as they are: their times, and the cells of one row after the other.
#[derive(Debug, Default)]
struct Behind {
    offsets_ms: Vec<u32>,
    cells: Vec<f64>,
}

/// What a window is made for: a short one is copied fastest, a long one takes least memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Form {
    Short,
    Long,
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
        memory: &DecodedMemory,
    ) -> Option<(&Window, Range<usize>)> {
        let (at, found) = [Form::Short, Form::Long]
            .into_iter()
            .find_map(|form| self.find_form(form, open, columns, rows, range, memory))?;
        let Asked {
            read_at, window, ..
        } = &mut self.all[at];
        let window = window.as_mut()?;
        window.asked = window.asked.max(found.len() as u32);
        *read_at = rows.1;
        Some((window, found))
    }

    fn find_form(
        &mut self,
        form: Form,
        open: &OpenRowChunk,
        columns: &Arc<[u32]>,
        rows: (u64, u64),
        range: TimeRange,
        memory: &DecodedMemory,
    ) -> Option<(usize, Range<usize>)> {
        // A selection that is kept has the same list each time; `learn` finds that of another with the same columns.
        let same = |asked: &Asked| asked.form == form && Arc::ptr_eq(&asked.columns, columns);
        let at = self.all.iter().position(same)?;
        let window = self.all[at].window.as_mut()?;
        if window
            .follow(columns, open, rows.1, &mut self.newest, &memory.newest)
            .is_none()
        {
            self.all.swap_remove(at);
            return None;
        }
        Some((at, window.rows_within(rows, range)?))
    }

    /// Returns the cells of a page's newest row, which must be visible; `None` if they are not worth being kept.
    pub(crate) fn newest_row(
        &mut self,
        open: &OpenRowChunk,
        page: usize,
        memory: &DecodedMemory,
    ) -> Option<&[f64]> {
        self.newest.cells(open, page, &memory.newest)
    }

    /// Keeps what was decoded of `columns`, if they were asked for before.
    pub(crate) fn learn(
        &mut self,
        columns: &Arc<[u32]>,
        decoded: &Decoded<'_>,
        newest_row: u64,
        memory: &DecodedMemory,
    ) {
        let Decoded {
            first_row, tile, ..
        } = decoded;
        let rows = tile.times_ms.len();
        let Some(form) = form_of(columns, tile) else {
            return;
        };
        if newest_row > first_row + rows as u64 + FEW_ROWS {
            return;
        }
        let same = |own: &&mut Asked| own.form == form && own.columns == *columns;
        let Some(asked) = self.all.iter_mut().find(same) else {
            self.prune(newest_row);
            if self.all.len() < MOST_WINDOWS {
                // Few strips are asked for many.
                self.all.reserve_exact(1);
                self.all.push(Asked {
                    form,
                    columns: Arc::clone(columns),
                    read_at: newest_row,
                    window: None,
                });
            }
            return;
        };
        asked.columns = Arc::clone(columns);
        // What there was makes room first.
        asked.window = None;
        let memory = memory.of_window(form, rows * columns.len());
        asked.window = Window::of(form, decoded, memory).map(Box::new);
        if asked.window.is_some() {
            asked.read_at = newest_row;
        }
    }

    /// Drops what has not been read for long before row `newest_row`.
    pub(crate) fn prune(&mut self, newest_row: u64) {
        let is_read = |asked: &Asked| asked.read_at + IDLE_ROWS >= newest_row;
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
        let state = open.known_state(page)?;
        if state.columns() < MANY_COLUMNS {
            return None;
        }
        let bytes = (state.columns() * size_of::<f64>()) as u64;
        match &mut self.lease {
            Some(lease) => lease.resize(bytes).ok()?,
            none => *none = Some(memory.lease(bytes).ok()?),
        }
        self.cells.clear();
        match published.rows().checked_sub(1) {
            Some(row) => {
                let row = row.checked_sub(published.pages.get(page)?.first)?;
                let mut back = RowBack::new(state.clone());
                back.step(open.row(page, row)?).ok()?;
                self.cells.extend_from_slice(back.cells());
            }
            // The row is in the chunk before; its floats are known.
            None => {
                self.cells.resize(state.columns(), ABSENT);
                let floats = state.floats();
                floats.for_each(|(column, value)| self.cells[column] = value);
            }
        }
        self.of = Some(of);
        Some(&self.cells)
    }
}

/// Decides what window of `columns` keeps the rows of `tile`, if one may.
fn form_of(columns: &[u32], tile: &Tile) -> Option<Form> {
    let page = |column: &u32| *column as usize / PAGE_COLUMNS;
    let rows = tile.times_ms.len();
    let is_of_one_page = columns.first().map(page) == columns.last().map(page);
    let is_kept = rows > 0 && rows <= MOST_ROWS && rows * columns.len() <= MOST_CELLS;
    if !is_kept || !tile.histograms.is_empty() || !is_of_one_page {
        return None;
    }
    Some(match rows <= MOST_SHORT_ROWS {
        true => Form::Short,
        false => Form::Long,
    })
}

impl Packed {
    /// Packs rows of these times, whose cells of each column `cells_of` adds.
    fn new(
        form: Form,
        offsets_ms: &[u32],
        columns: usize,
        mut cells_of: impl FnMut(usize, &mut Vec<f64>),
    ) -> Self {
        let mut encoder = ColumnEncoder::new();
        let rows = offsets_ms.len();
        let step_ms = step_of(offsets_ms);
        let mut bytes = Vec::new();
        if step_ms == 0 {
            bytes.extend(
                offsets_ms
                    .iter()
                    .flat_map(|offset_ms| offset_ms.to_le_bytes()),
            );
        }
        let mut cells = Vec::with_capacity(rows);
        for column in 0..columns {
            cells.clear();
            cells_of(column, &mut cells);
            if form == Form::Short {
                quick::encode(&cells, &mut bytes);
                continue;
            }
            let at = bytes.len();
            bytes.extend_from_slice(&[0; LEN_BYTES]);
            encoder.encode(&cells, &[], &mut bytes);
            let len = u32::try_from(bytes.len() - at - LEN_BYTES);
            let len = len.expect("few cells take less than 4 GiB");
            bytes[at..at + LEN_BYTES].copy_from_slice(&len.to_le_bytes());
        }
        Self {
            form,
            rows: rows as u32,
            step_ms,
            bytes: bytes.into(),
        }
    }

    fn rows(&self) -> usize {
        self.rows as usize
    }

    /// Returns the listed times.
    fn listed(&self) -> &[[u8; TIME_BYTES]] {
        let rows = if self.step_ms == 0 { self.rows() } else { 0 };
        self.bytes[..rows * TIME_BYTES].as_chunks().0
    }

    /// Returns the time of a row, from the first row's.
    fn offset_ms(&self, row: usize) -> u32 {
        match self.listed().get(row) {
            Some(bytes) => u32::from_le_bytes(*bytes),
            None => row as u32 * self.step_ms,
        }
    }

    /// Returns the number of rows before a time, from the first row's.
    fn rows_before(&self, offset_ms: i64) -> usize {
        if self.step_ms == 0 {
            let is_before =
                |own: &[u8; TIME_BYTES]| i64::from(u32::from_le_bytes(*own)) < offset_ms;
            return self.listed().partition_point(is_before);
        }
        let steps = offset_ms
            .max(0)
            .cast_unsigned()
            .div_ceil(u64::from(self.step_ms));
        steps.min(u64::from(self.rows)) as usize
    }

    /// Returns the bytes of all columns.
    fn columns(&self) -> &[u8] {
        &self.bytes[size_of_val(self.listed())..]
    }

    /// Decodes all rows of the column at the beginning of `bytes`; returns the bytes of those behind it.
    fn decode<'a>(&self, bytes: &'a [u8], out: &mut [f64]) -> &'a [u8] {
        const WHAT: &str = "what was just encoded";
        if self.form == Form::Short {
            return quick::decode(bytes, out).expect(WHAT);
        }
        let (len, bytes) = bytes.split_first_chunk::<LEN_BYTES>().expect(WHAT);
        let (column, bytes) = bytes.split_at(u32::from_le_bytes(*len) as usize);
        decode_column(column, out, &mut Vec::new()).expect(WHAT);
        bytes
    }
}

/// Returns the step between times if it is always the same, or else 0.
fn step_of(offsets_ms: &[u32]) -> u32 {
    let step_ms = offsets_ms.get(1).copied().unwrap_or(1);
    let mut regular = (0u64..).map(|row| row * u64::from(step_ms));
    let is_regular = offsets_ms
        .iter()
        .all(|offset_ms| regular.next() == Some(u64::from(*offset_ms)));
    if is_regular { step_ms } else { 0 }
}

/// Bytes of a time, and of the length before a column of a long window.
const TIME_BYTES: usize = size_of::<u32>();
const LEN_BYTES: usize = size_of::<u32>();

impl Window {
    fn rows(&self) -> usize {
        let behind = self.behind.as_ref();
        self.packed.rows() + behind.map_or(0, |behind| behind.offsets_ms.len())
    }

    fn series(&self) -> usize {
        self.series as usize
    }

    fn end_row(&self) -> u64 {
        self.first_row + self.rows() as u64
    }

    /// Returns the times of all rows, from the first row's.
    fn offsets_ms(&self) -> impl Iterator<Item = u32> {
        let packed = (0..self.packed.rows()).map(|row| self.packed.offset_ms(row));
        let behind = self.behind.iter().flat_map(|behind| &behind.offsets_ms);
        packed.chain(behind.copied())
    }

    /// Returns the first row at or after `time_ms`.
    fn row_at(&self, time_ms: i64) -> usize {
        let offset_ms = time_ms.saturating_sub(self.base_ms);
        let at = self.packed.rows_before(offset_ms);
        match &self.behind {
            Some(behind) if at == self.packed.rows() => {
                let own = &behind.offsets_ms;
                at + own.partition_point(|own| i64::from(*own) < offset_ms)
            }
            _ => at,
        }
    }

    /// Leases what the window takes by now; `None` if there is no memory for it.
    fn lease(&mut self) -> Option<()> {
        let behind = self.behind.as_ref().map_or(0, |behind| {
            let times = behind.offsets_ms.capacity() * size_of::<u32>();
            size_of::<Behind>() + times + behind.cells.capacity() * size_of::<f64>()
        });
        let bytes = size_of::<Self>() + self.packed.bytes.len() + behind;
        self.lease.resize(bytes as u64).ok()
    }

    /// Returns the window of rows; `None` if they are too far apart, or there is no memory for them.
    fn of(form: Form, decoded: &Decoded<'_>, memory: &Budget) -> Option<Self> {
        let Decoded {
            first_row,
            from_ms,
            tile,
        } = decoded;
        let rows = tile.times_ms.len();
        let base_ms = *tile.times_ms.first()?;
        let last_ms = *tile.times_ms.last()?;
        u32::try_from(last_ms - base_ms).ok()?;
        // Room for the cells as they are, as long as it is not known what they take packed.
        let row_bytes = size_of::<u32>() + tile.series * size_of::<f64>();
        let bytes = size_of::<Self>() + rows * row_bytes;
        let lease = memory.lease(bytes as u64).ok()?;
        let offsets = tile.times_ms.iter();
        let offsets: Vec<u32> = offsets.map(|time_ms| (time_ms - base_ms) as u32).collect();
        let packed = Packed::new(form, &offsets, tile.series, |series, cells| {
            cells.extend((0..rows).map(|row| tile.get(row, series)));
        });
        let mut window = Self {
            first_row: *first_row,
            from_ms: *from_ms,
            base_ms,
            packed,
            behind: None,
            series: u32::try_from(tile.series).ok()?,
            asked: rows as u32,
            lease,
        };
        window.lease()?;
        Some(window)
    }

    /// Decodes the rows up to number `end` that it lacks; `None` if it has to be made anew.
    fn follow(
        &mut self,
        columns: &[u32],
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
        let page = *columns.first()? as usize / PAGE_COLUMNS;
        let first = published.first_row + published.pages.get(page)?.first as u64;
        let is_next = end == newest && own_end + 1 == end && own_end >= first;
        if is_next && let Some(cells) = known.cells(open, page, memory) {
            return self.follow_one(columns, open, cells);
        }
        let mut back = RowBack::new(open.known_state(page)?.clone());
        let mut rows: Vec<Vec<f64>> = Vec::new();
        for row in (own_end..newest).rev() {
            let mut cells = vec![ABSENT; columns.len()];
            if row >= first {
                let of_page = usize::try_from(row - first).ok()?;
                back.step(open.row(page, of_page)?).ok()?;
                for (cell, column) in cells.iter_mut().zip(columns) {
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
    fn follow_one(&mut self, columns: &[u32], open: &OpenRowChunk, of_row: &[f64]) -> Option<()> {
        let published = open.published();
        let cell = |column: &u32| {
            let found = of_row.get(*column as usize % PAGE_COLUMNS);
            let found = found.filter(|_| published.has_seen(*column));
            found.copied().unwrap_or(ABSENT)
        };
        let is_histogram = |column: &u32| matches!(Cell::decode(cell(column)), Cell::Histogram(_));
        if columns.iter().any(is_histogram) {
            return None;
        }
        let row = usize::try_from(self.end_row() - published.first_row).ok()?;
        self.push(published.time_ms(row), columns.iter().map(cell))
    }

    /// Adds a row; `None` if there is no memory for it, or it is too long after the first.
    fn push(&mut self, time_ms: i64, cells: impl Iterator<Item = f64>) -> Option<()> {
        if self.rows() - self.packed.rows() == MOST_BEHIND {
            self.pack();
            self.lease()?;
        }
        if self.behind.is_none() {
            // Whoever asks after a row asks after many, and what is asked at one time alone has no use for the room.
            self.behind = Some(Box::new(Behind {
                offsets_ms: Vec::with_capacity(MOST_BEHIND),
                cells: Vec::with_capacity(MOST_BEHIND * self.series()),
            }));
            self.lease()?;
        }
        let offset_ms = u32::try_from(time_ms - self.base_ms).ok()?;
        let behind = self.behind.as_mut()?;
        behind.offsets_ms.push(offset_ms);
        behind.cells.extend(cells);
        Some(())
    }

    /// Packs the rows behind the packed ones with those of them that are still asked for.
    fn pack(&mut self) {
        let Some(mut behind) = self.behind.take() else {
            return;
        };
        let (series, packed) = (self.series(), &self.packed);
        let all = packed.rows() + behind.offsets_ms.len();
        let gone = all.saturating_sub(self.asked as usize + LEFT_ROWS);
        let gone = gone.min(packed.rows());
        let own = (gone..packed.rows()).map(|row| packed.offset_ms(row));
        let mut offsets: Vec<u32> = own.chain(behind.offsets_ms.drain(..)).collect();
        let first = offsets.first().copied().unwrap_or_default();
        let mut before = vec![0.0; packed.rows()];
        let mut left = packed.columns();
        offsets.iter_mut().for_each(|offset_ms| *offset_ms -= first);
        self.packed = Packed::new(packed.form, &offsets, series, |column, cells| {
            left = packed.decode(left, &mut before);
            cells.extend_from_slice(&before[gone..]);
            cells.extend(behind.cells.iter().skip(column).step_by(series));
        });
        behind.cells.clear();
        self.behind = Some(behind);
        if gone > 0 {
            self.first_row += gone as u64;
            self.base_ms += i64::from(first);
            self.from_ms = self.base_ms;
        }
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
        let from = self.row_at(range.min_ms).max(number(rows.0));
        let to = self.row_at(range.max_ms.saturating_add(1));
        let to = to.min(number(rows.1));
        Some(from..to.max(from))
    }

    /// Copies rows to a tile.
    pub(crate) fn copy(&self, rows: Range<usize>, layout: Layout, tile: &mut Tile) {
        let columns = self.series();
        tile.clear(layout);
        let times = self.offsets_ms().skip(rows.start).take(rows.len());
        let times = times.map(|offset_ms| self.base_ms + i64::from(offset_ms));
        tile.times_ms.extend(times);
        tile.series = columns;
        tile.cells.resize(rows.len() * columns, ABSENT);
        let of_packed = self.packed.rows();
        let packed = rows.start.min(of_packed)..rows.end.min(of_packed);
        if !packed.is_empty() {
            self.copy_packed(packed.clone(), tile);
        }
        let Some(behind) = &self.behind else {
            return;
        };
        let own = |row: usize| row - of_packed.min(row);
        let cells = &behind.cells[own(rows.start) * columns..own(rows.end) * columns];
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
        let packed = &self.packed;
        let (all, columns, of_packed) = (tile.times_ms.len(), self.series(), packed.rows());
        let is_whole = rows.len() == of_packed && tile.layout == Layout::SeriesMajor;
        let mut scratch = vec![0.0; if is_whole { 0 } else { of_packed }];
        let mut left = packed.columns();
        for column in 0..columns {
            if is_whole {
                let from = column * all;
                left = packed.decode(left, &mut tile.cells[from..from + of_packed]);
                continue;
            }
            left = packed.decode(left, &mut scratch);
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
