//! The rows of a strip as a batch: one time axis for all its columns.
//!
//! **Invariant:** row chunks are fetched once, at the first read that neither a window nor the few newest rows, where they are, answer;
//! the newest values come from the encoder's state, without decoding, if nothing newer than the view has been stored.

use super::{
    Visible,
    decode::{Failed, Picks, decode, decode_open},
};
use crate::head::{
    row_chunk::RowChunk,
    strip::{PAGE_COLUMNS, Strip, StripSnapshot, StripState},
    windows::{Decoded, DecodedMemory, Window},
};
use narthex_chunks::row::{RowBack, RowState};
use narthex_model::{
    ColumnId, LabelHash, LabelSet, Schema,
    cell::{self, Cell},
    storage::{Batch, Context, LastCell, Layout, SeriesKey, StorageError, Tile, TimeRange},
};
use std::{
    borrow::Cow,
    ops::Range,
    path::PathBuf,
    sync::{Arc, OnceLock},
};

/// Selected columns of one strip.
pub(crate) struct StripBatch {
    strip: Arc<Strip>,
    schema: Schema,
    columns: Arc<[u32]>,
    /// Rows: from inclusive, to exclusive.
    row_range: (u64, u64),
    range: TimeRange,
    /// An upper bound of the rows within a range, that of the selector.
    most_rows: (TimeRange, usize),
    start_times: bool,
    decoded: Arc<DecodedMemory>,
    /// Row chunks as they were at the first read.
    fetched: OnceLock<Vec<Arc<RowChunk>>>,
}

/// Rows that an instant selector may step back before everything is decoded.
const LAST_STEPS: usize = 8;
/// Series that take so little that whoever reads them polls the stop often enough.
const FEW_SERIES: usize = 64;
/// Rows of a strip that are decoded at most while its writer waits, which takes some microseconds.
const NEWEST_ROWS: usize = 64;

/// Polls the stop before reading some series, unless they are few.
fn poll_for(series: &[u32], ctx: &Context) -> Result<(), StorageError> {
    if series.len() > FEW_SERIES {
        ctx.stop.check()?;
    }
    Ok(())
}

impl StripBatch {
    /// Returns columns of a visible strip, of which there may be rows within `range`.
    pub(super) fn new(
        visible: Visible,
        columns: Arc<[u32]>,
        range: TimeRange,
        start_times: bool,
        decoded: Arc<DecodedMemory>,
    ) -> Self {
        Self {
            strip: visible.strip,
            schema: visible.schema,
            columns,
            row_range: visible.snapshot.rows,
            range: visible.range,
            most_rows: (range, visible.rows),
            start_times,
            decoded,
            fetched: OnceLock::new(),
        }
    }

    fn fetched(&self) -> &[Arc<RowChunk>] {
        self.fetched.get_or_init(|| {
            let mut row_chunks = self.strip.lock().row_chunks();
            row_chunks.retain(|row_chunk| {
                row_chunk.first_row < self.row_range.1 && row_chunk.end_row() > self.row_range.0
            });
            row_chunks
        })
    }

    /// Passes the window that has all rows within `range` to `work`, if there is one.
    fn in_window<T>(
        &self,
        range: TimeRange,
        work: impl FnOnce(&Window, Range<usize>) -> T,
    ) -> Option<T> {
        if self.start_times || self.fetched.get().is_some() {
            return None;
        }
        let mut state = self.strip.lock();
        let StripState { windows, open, .. } = &mut *state;
        let (window, rows) =
            windows.find(open, &self.columns, self.row_range, range, &self.decoded)?;
        Some(work(window, rows))
    }

    /// Keeps the rows within `range`, which a tile has with all columns, if they are consecutive.
    fn keep_window(&self, pieces: &[(usize, usize, usize)], range: TimeRange, tile: &Tile) {
        let number = |(at, row): (usize, usize)| self.fetched()[at].first_row + row as u64;
        let Some((at, from, _)) = pieces.first() else {
            return;
        };
        let follows = |two: &[(usize, usize, usize)]| {
            let [(before, _, end), (at, from, _)] = two else {
                return false;
            };
            number((*before, *end)) == number((*at, *from))
        };
        if self.start_times || !pieces.windows(2).all(follows) {
            return;
        }
        let decoded = self.decoded(&self.fetched()[*at], *from, range, tile);
        let mut state = self.strip.lock();
        let windows = &mut state.windows;
        windows.learn(&self.columns, &decoded, self.row_range.1, &self.decoded);
    }

    /// Reads the newest rows where they are, which takes less than copying their row chunk; returns `false` if others are wanted
    /// too, or many, or if the state after the last row is not known.
    fn read_newest(
        &self,
        (series, picks): (&[u32], &Picks),
        range: TimeRange,
        layout: Layout,
        tile: &mut Tile,
        ctx: &Context,
    ) -> Result<bool, StorageError> {
        if self.start_times || self.fetched.get().is_some() {
            return Ok(false);
        }
        let mut state = self.strip.lock();
        let StripState {
            open,
            sealed,
            windows,
            ..
        } = &mut *state;
        let published = open.published();
        let is_older = |row_chunk: &Arc<RowChunk>| {
            let last = row_chunk.time_range();
            row_chunk.end_row() <= self.row_range.0
                || last.is_none_or(|(_, last_ms)| last_ms < range.min_ms)
        };
        let rows = self.rows_of(published, range);
        let passed = published.rows() - rows.start.min(published.rows());
        if passed > NEWEST_ROWS
            || rows.is_empty()
            || !sealed.back().is_none_or(is_older)
            || !picks.pages().all(|page| open.known_state(page).is_some())
        {
            return Ok(false);
        }
        tile.clear(layout);
        let times_ms = rows.clone().map(|row| published.time_ms(row));
        tile.times_ms.extend(times_ms);
        tile.fill(series.len(), cell::ABSENT);
        decode_open(open, rows.clone(), picks, tile, ctx).map_err(|bad| self.failed(bad))?;
        if self.is_whole(series) {
            let decoded = self.decoded(published, rows.start, range, tile);
            windows.learn(&self.columns, &decoded, self.row_range.1, &self.decoded);
        }
        Ok(true)
    }

    /// Returns what was decoded of the rows within `range`, of which the first is row `from` of a row chunk.
    fn decoded<'t>(
        &self,
        row_chunk: &RowChunk,
        from: usize,
        range: TimeRange,
        tile: &'t Tile,
    ) -> Decoded<'t> {
        let first_row = row_chunk.first_row + from as u64;
        // Before the first row that this view shows, an earlier view may show others.
        let from_ms = if first_row > self.row_range.0 {
            range.min_ms
        } else {
            row_chunk.time_ms(from)
        };
        Decoded {
            first_row,
            from_ms,
            tile,
        }
    }

    fn failed(&self, failed: Failed) -> StorageError {
        let Strip { id, common, .. } = &*self.strip;
        failed.into_storage(|| PathBuf::from(format!("head, strip {id} {common}")))
    }

    /// Reports whether these are all series, in order.
    fn is_whole(&self, series: &[u32]) -> bool {
        series.len() == self.columns.len() && (0u32..).zip(series).all(|(at, one)| at == *one)
    }

    /// Returns the state after the last row of a page, if it can be known: of the strip's last row the encoder has it, of the last
    /// before another chunk that chunk's first row.
    fn state_after(&self, row_chunk: &RowChunk, page: usize) -> Option<RowState> {
        let end = row_chunk.end_row();
        match self.fetched().iter().find(|next| next.first_row == end) {
            Some(_) if row_chunk.is_rebuilt => None,
            Some(next) => {
                let key = next.pages.get(page).filter(|rows| rows.first == 0)?;
                let known = RowState::before(key.row(0)).ok()??;
                let (_, last_ms) = row_chunk.time_range()?;
                (known.time_ms() == last_ms).then_some(known)
            }
            None => self.last_state(row_chunk, page),
        }
    }

    /// Returns the state after the last row of a page of the last row chunk; `None` if rows were stored since.
    fn last_state(&self, row_chunk: &RowChunk, page: usize) -> Option<RowState> {
        let state = self.strip.lock();
        let open = state.open.published();
        // A row that the log refused was taken back together with its chunk's end, so the next one has another chunk.
        let is_last = match open.rows() {
            0 => open.first_row == row_chunk.end_row(),
            _ => open.first_row == row_chunk.first_row && open.end_row() == row_chunk.end_row(),
        };
        if !is_last {
            return None;
        }
        let known = state.open.known_state(page).cloned();
        drop(state);
        known.or_else(|| self.learn_state(row_chunk, page))
    }

    /// Finds the state after the last row of a page of the last row chunk, which a replay copied, for all who read it.
    fn learn_state(&self, row_chunk: &RowChunk, page: usize) -> Option<RowState> {
        let rows = row_chunk.pages.get(page)?;
        let mut reader = rows.reader();
        let found = RowState::after((0..rows.rows()).map(|row| reader.row(row))).ok()??;
        let open = &mut self.strip.lock().open;
        open.learn(page, row_chunk.end_row(), &found);
        Some(found)
    }

    /// Returns the rows of a row chunk within `range` that the view shows.
    fn rows_of(&self, row_chunk: &RowChunk, range: TimeRange) -> Range<usize> {
        let visible = |row: u64| {
            usize::try_from(row.saturating_sub(row_chunk.first_row)).unwrap_or(usize::MAX)
        };
        let from = row_chunk.row_at(range.min_ms);
        let to = row_chunk.row_at(range.max_ms.saturating_add(1));
        let to = to.min(row_chunk.rows()).min(visible(self.row_range.1));
        from.max(visible(self.row_range.0))..to
    }

    /// Lists the rows within `range`: row chunk, first row, row after the last.
    fn pieces(&self, range: TimeRange) -> Vec<(usize, usize, usize)> {
        let mut pieces = Vec::new();
        for (at, row_chunk) in self.fetched().iter().enumerate() {
            let rows = self.rows_of(row_chunk, range);
            if !rows.is_empty() {
                pieces.push((at, rows.start, rows.end));
            }
        }
        pieces
    }

    /// Returns the time of the `rows`th newest row within `range`, or of the oldest if there are fewer.
    fn time_of_row_before(&self, range: TimeRange, rows: usize) -> Option<i64> {
        let mut left = rows;
        let mut found = None;
        for (at, from, to) in self.pieces(range).into_iter().rev() {
            let back = left.min(to - from);
            found = Some(self.fetched()[at].time_ms(to - back));
            left -= back;
            if left == 0 {
                break;
            }
        }
        found
    }

    /// Answers from the newest rows; `None` if they do not suffice.
    fn last_of_open(&self, series: &[u32], range: TimeRange) -> Option<Vec<Option<LastCell>>> {
        let mut state = self.strip.lock();
        let open = state.open.published();
        if self.start_times {
            return None;
        }
        let (skipped, newest_ms) = match open.rows().checked_sub(1) {
            Some(newest) => {
                if open.end_row() < self.row_range.1 || open.first_row >= self.row_range.1 {
                    return None;
                }
                let skipped = usize::try_from(open.end_row() - self.row_range.1).ok()?;
                (skipped, open.time_ms(newest.checked_sub(skipped)?))
            }
            // The encoder goes on from the last row of the chunk that was just sealed.
            None => (0, sealed_ms(&state, self.row_range.1)?),
        };
        if skipped + 1 > LAST_STEPS || !range.contains(newest_ms) {
            return None;
        }
        let mut found: Vec<Option<LastCell>> = vec![None; series.len()];
        let mut wanted: Vec<(usize, u32)> = series
            .iter()
            .enumerate()
            .map(|(at, series)| (at, self.columns[*series as usize]))
            .collect();
        wanted.sort_by_key(|(_, column)| *column / PAGE_COLUMNS as u32);
        for of_page in
            wanted.chunk_by(|a, b| a.1 as usize / PAGE_COLUMNS == b.1 as usize / PAGE_COLUMNS)
        {
            let memory = &self.decoded;
            if skipped > 0 || !newest_of_page(&mut state, newest_ms, of_page, memory, &mut found) {
                last_of_page(&state, of_page, skipped, range, &mut found)?;
            }
        }
        Some(found)
    }
}

/// Returns the time of the row before the open row chunk, if that is empty and no later row than this is visible.
fn sealed_ms(state: &StripState, end_row: u64) -> Option<i64> {
    let sealed = state.sealed.back()?;
    let is_last = sealed.end_row() == end_row && end_row == state.open.published().first_row;
    let (_, last_ms) = sealed.time_range().filter(|_| is_last)?;
    Some(last_ms)
}

/// Finds the cells of some columns of one page in its newest row, at `time_ms`; returns `false` unless all have floats there.
fn newest_of_page(
    state: &mut StripState,
    time_ms: i64,
    wanted: &[(usize, u32)],
    memory: &DecodedMemory,
    found: &mut [Option<LastCell>],
) -> bool {
    let Some((_, column)) = wanted.first() else {
        return true;
    };
    let page = *column as usize / PAGE_COLUMNS;
    let in_page = |column: u32| column as usize % PAGE_COLUMNS;
    let StripState {
        open,
        sealed,
        windows,
        ..
    } = state;
    let rows = match (open.published(), sealed.back()) {
        (published, Some(before)) if published.rows() == 0 => before,
        (published, _) => published,
    };
    // The place of a column that the rows never had may have been another's, defined in a lost part of the log.
    if !wanted.iter().all(|(_, column)| rows.has_seen(*column)) {
        return false;
    }
    let few = open.known_state(page).filter(|_| wanted.len() <= 4);
    let is_present =
        |(_, column): &(usize, u32)| few.is_some_and(|known| known.is_present(in_page(*column)));
    let all = if wanted.iter().all(is_present) {
        None
    } else {
        windows.newest_row(open, page, memory)
    };
    let value = |column: u32| match (all, few) {
        (Some(cells), _) => cells.get(in_page(column)).copied(),
        (None, Some(known)) => known.value(in_page(column)),
        (None, None) => None,
    };
    for (at, column) in wanted {
        let Some(value) = value(*column).filter(|value| cell::is_float(*value)) else {
            return false;
        };
        found[*at] = Some(LastCell {
            time_ms,
            cell: value,
            histogram: None,
            start_time_ms: 0,
        });
    }
    true
}

/// Finds the newest cell of the columns of one page; `None` if stepping back a few rows does not find all.
fn last_of_page(
    state: &StripState,
    wanted: &[(usize, u32)],
    skipped: usize,
    range: TimeRange,
    found: &mut [Option<LastCell>],
) -> Option<()> {
    let page = wanted.first()?.1 as usize / PAGE_COLUMNS;
    let open = state.open.published();
    let known = state.open.known_state(page)?;
    let newest = open.rows().checked_sub(1)?;
    let in_page = |column: u32| column as usize % PAGE_COLUMNS;
    let last = |time_ms: i64, cell: f64| {
        Some(LastCell {
            time_ms,
            cell,
            histogram: None,
            start_time_ms: 0,
        })
    };
    let first = open.pages.get(page)?.first;
    let mut back = RowBack::new(known.clone());
    let mut left: Vec<(usize, u32)> = wanted.to_vec();
    for step in 0..LAST_STEPS {
        let row = newest.checked_sub(step).filter(|row| *row >= first)?;
        back.step(state.open.row(page, row - first)?).ok()?;
        if step < skipped {
            continue;
        }
        let time_ms = open.time_ms(row);
        if time_ms < range.min_ms {
            return Some(());
        }
        let cells = back.cells();
        let mut histograms = false;
        left.retain(|(at, column)| {
            let cell = cells
                .get(in_page(*column))
                .filter(|_| open.has_seen(*column));
            match Cell::decode(cell.copied().unwrap_or(cell::ABSENT)) {
                Cell::Absent => true,
                Cell::Histogram(_) => {
                    histograms = true;
                    true
                }
                Cell::Stale => {
                    found[*at] = last(time_ms, cell::STALE);
                    false
                }
                Cell::Float(value) => {
                    found[*at] = last(time_ms, value);
                    false
                }
            }
        });
        if histograms {
            return None;
        }
        if left.is_empty() {
            return Some(());
        }
    }
    None
}

impl Batch for StripBatch {
    fn len(&self) -> usize {
        self.columns.len()
    }

    fn labels(&self, series: usize) -> LabelSet {
        self.strip.common.union(self.local_set(series))
    }

    fn labels_only(&self, series: usize, names: &[&str]) -> LabelSet {
        let local = self.local_set(series).only(names);
        self.strip.common.only(names).union(&local)
    }

    fn common(&self) -> Option<&LabelSet> {
        Some(&self.strip.common)
    }

    fn local(&self, series: usize) -> Option<&LabelSet> {
        Some(self.local_set(series))
    }

    fn common_names(&self) -> Option<u64> {
        Some(self.strip.common_names)
    }

    fn common_order(&self) -> Option<u64> {
        Some(self.strip.common_order)
    }

    fn series_key(&self) -> Option<SeriesKey> {
        Some(SeriesKey {
            strip: self.strip.id,
            columns: Arc::clone(&self.columns),
        })
    }

    fn label(&self, series: usize, name: &str) -> Option<Cow<'_, str>> {
        self.local_set(series)
            .get(name)
            .or_else(|| self.strip.common.get(name))
            .map(Cow::Borrowed)
    }

    fn identity(&self, series: usize) -> LabelHash {
        self.strip.common.hash() + self.local_set(series).hash()
    }

    fn time_range(&self) -> TimeRange {
        self.range
    }

    fn rows(&self, range: TimeRange) -> usize {
        let (of, rows) = self.most_rows;
        if range == of {
            return rows;
        }
        if let Some(rows) = self.in_window(range, |_, rows| rows.len()) {
            return rows;
        }
        self.pieces(range)
            .iter()
            .map(|(_, from, to)| to - from)
            .sum()
    }

    fn read(
        &self,
        series: &[u32],
        range: TimeRange,
        layout: Layout,
        tile: &mut Tile,
        ctx: &Context,
    ) -> Result<(), StorageError> {
        poll_for(series, ctx)?;
        let whole = self.is_whole(series);
        let copied =
            whole.then(|| self.in_window(range, |window, rows| window.copy(rows, layout, tile)));
        if copied.flatten().is_some() {
            tile.establish_facts();
            return Ok(());
        }
        let columns: Vec<u32> = series
            .iter()
            .map(|series| self.columns[*series as usize])
            .collect();
        let picks = Picks::new(&columns);
        if self.read_newest((series, &picks), range, layout, tile, ctx)? {
            tile.establish_facts();
            return Ok(());
        }
        let fetched = self.fetched();
        let pieces = self.pieces(range);
        let times = pieces.iter().flat_map(|(at, from, to)| {
            let row_chunk = &fetched[*at];
            (*from..*to).map(|row| row_chunk.time_ms(row))
        });
        tile.clear(layout);
        tile.times_ms.extend(times);
        tile.fill(series.len(), cell::ABSENT);
        let mut row = 0;
        for (at, from, to) in &pieces {
            let row_chunk = &fetched[*at];
            let state_of = |page: usize| self.state_after(row_chunk, page);
            decode(row_chunk, &state_of, *from..*to, &picks, row, tile, ctx)
                .map_err(|bad| self.failed(bad))?;
            row += to - from;
        }
        if self.start_times {
            self.fill_start_times(&pieces, &columns, tile);
        }
        if whole {
            self.keep_window(&pieces, range, tile);
        }
        tile.establish_facts();
        Ok(())
    }

    fn last(
        &self,
        series: &[u32],
        range: TimeRange,
        out: &mut Vec<Option<LastCell>>,
        ctx: &Context,
    ) -> Result<(), StorageError> {
        poll_for(series, ctx)?;
        if let Some(found) = self.last_of_open(series, range) {
            out.extend(found);
            return Ok(());
        }
        last_by_reading(self, series, range, out, ctx)
    }

    fn has_ended(&self, range: TimeRange) -> bool {
        let snapshot = StripSnapshot {
            rows: self.row_range,
            out_of_order: (0, 0),
        };
        range.contains(self.range.max_ms) && self.strip.has_ended(snapshot, range.max_ms)
    }
}

impl StripBatch {
    fn local_set(&self, series: usize) -> &LabelSet {
        &self.schema.column(ColumnId(self.columns[series])).set
    }

    fn fill_start_times(&self, pieces: &[(usize, usize, usize)], columns: &[u32], tile: &mut Tile) {
        tile.start_times_ms.resize(tile.cells.len(), 0);
        let starts = self.strip.lock().starts.clone();
        if starts.is_empty() {
            return;
        }
        let mut to_row = 0;
        for (at, from, to) in pieces {
            let first = self.fetched()[*at].first_row;
            for row in *from..*to {
                for (series, column) in columns.iter().enumerate() {
                    let cell = tile.at(to_row, series);
                    tile.start_times_ms[cell] = starts.at(*column, first + row as u64);
                }
                to_row += 1;
            }
        }
    }
}

/// Finds newest cells in tiles of increasing size, newest first: the newest rows hold almost all of them.
fn last_by_reading(
    batch: &StripBatch,
    series: &[u32],
    range: TimeRange,
    out: &mut Vec<Option<LastCell>>,
    ctx: &Context,
) -> Result<(), StorageError> {
    let start = out.len();
    out.resize(start + series.len(), None);
    let mut left: Vec<usize> = (0..series.len()).collect();
    let mut tile = Tile::default();
    let mut max_ms = range.max_ms;
    let mut rows = LAST_STEPS;
    while !left.is_empty() {
        let Some(min_ms) = batch.time_of_row_before(TimeRange::new(range.min_ms, max_ms), rows)
        else {
            break;
        };
        let wanted: Vec<u32> = left.iter().map(|at| series[*at]).collect();
        batch.read(
            &wanted,
            TimeRange::new(min_ms, max_ms),
            Layout::TimeMajor,
            &mut tile,
            ctx,
        )?;
        let mut missing = Vec::new();
        for (at, place) in left.iter().enumerate() {
            match LastCell::newest_of(&tile, at) {
                Some(found) => out[start + place] = Some(found),
                None => missing.push(*place),
            }
        }
        left = missing;
        max_ms = min_ms - 1;
        rows *= 4;
    }
    Ok(())
}
