//! Instant selectors: the newest sample within the lookback.
//!
//! **Invariant:** the lookback is open to the left; a staleness marker ends a series until its next sample. The rows
//! to read are found once for all series of a batch.

use super::{
    Eval, Outcome, Sink,
    gaps::{NO_ROW, Newest},
    scan::{Instants, Part, Piece, Reader},
    stored::{Emitted, RowsSink, StoredRows},
};
use crate::{
    ast::Extension,
    plan::{Select, Steps},
    span::Span,
    trace::Phase,
};
use narthex_model::{
    Histogram,
    cell::{self, ABSENT, Cell},
    storage::{Batch, LastCell, Tile, TimeRange},
};
use std::{ops::Range, sync::Arc};

/// The part of the found sample to return.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Wanted {
    Value,
    /// The sample's time, in seconds.
    Time,
    /// The counter's start time, in seconds.
    StartTime,
    /// The time of a float sample, in milliseconds; a histogram itself.
    TimeMs,
}

/// Parameters of the search for a sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct SampleSearch {
    pub(super) wanted: Wanted,
    pub(super) lookback_ms: i64,
}

impl Eval<'_> {
    pub(super) fn stream_select(
        &self,
        select: &Select,
        span: Span,
        steps: Steps,
        sink: &mut RowsSink<'_>,
    ) -> Outcome<()> {
        let batches = self.batches(select.selector)?;
        if select.extension == Extension::Smoothed {
            let mut sink = |block| sink(Emitted::Block(block));
            return self.stream_smoothed(select, span, &batches, steps, &mut sink);
        }
        let look = self.search_for_values();
        self.select_from(
            select,
            &batches,
            steps,
            look,
            |_, rows| Ok(rows),
            |rows| self.emit_rows(rows, sink),
        )
    }

    /// Reads the samples that `select` finds, passes them to `make` on the thread that reads them, and what it returns to
    /// `emit` in order.
    pub(super) fn select_made<T: Send>(
        &self,
        select: &Select,
        steps: Steps,
        make: impl Fn(&Eval<'_>, StoredRows) -> Outcome<T> + Sync,
        emit: impl FnMut(T) -> Outcome<()>,
    ) -> Outcome<()> {
        let batches = self.batches(select.selector)?;
        let look = self.search_for_values();
        self.select_from(select, &batches, steps, look, make, emit)
    }

    fn search_for_values(&self) -> SampleSearch {
        SampleSearch {
            wanted: Wanted::Value,
            lookback_ms: self.rules.lookback_ms,
        }
    }

    /// Reads samples from `batches` according to `select`, as blocks.
    pub(super) fn select_blocks(
        &self,
        select: &Select,
        batches: &[Arc<dyn Batch>],
        steps: Steps,
        look: SampleSearch,
        sink: &mut Sink<'_>,
    ) -> Outcome<()> {
        self.select_from(
            select,
            batches,
            steps,
            look,
            |_, rows| Ok(rows),
            |rows| self.emit_rows(rows, &mut |rows| sink(self.whole(rows, steps.count)?)),
        )
    }

    /// Reads samples from `batches` according to `select`; see [`Eval::select_made`].
    fn select_from<T: Send>(
        &self,
        select: &Select,
        batches: &[Arc<dyn Batch>],
        steps: Steps,
        look: SampleSearch,
        make: impl Fn(&Eval<'_>, StoredRows) -> Outcome<T> + Sync,
        mut emit: impl FnMut(T) -> Outcome<()>,
    ) -> Outcome<()> {
        let SampleSearch {
            wanted,
            lookback_ms,
        } = look;
        let references: Vec<i64> = steps.times_ms().map(|t| select.reference_ms(t)).collect();
        let (Some(first), Some(last)) = (references.first(), references.last()) else {
            return Ok(());
        };
        // Open to the left: a sample exactly the lookback ago is too old.
        let range = TimeRange::new(first.saturating_sub(lookback_ms).saturating_add(1), *last);
        let _steps = self.memory.room_for_steps(steps.count)?;
        // Without its buckets, a histogram's resets depend on the one before it.
        if steps.count == 1 && !select.stats_only {
            return self.newest_of(batches, range, wanted, &mut |rows| emit(make(self, rows)?));
        }
        let read = |eval: &Eval<'_>, part: &Part<'_>| {
            let tile = part.tile;
            let reached = reached(&tile.times_ms, &references, lookback_ms);
            let windows = windows(&tile.times_ms, &references[reached.clone()], lookback_ms);
            let rows_at = |steps: &Range<usize>| {
                let mut rows = part.rows(reached.start + steps.start..reached.start + steps.end);
                rows.series.extend_from_slice(part.numbers());
                rows
            };
            let plain = wanted == Wanted::Value && tile.histograms.is_empty();
            let rows = match tile.float_rows().filter(|_| plain) {
                Some(floats) => {
                    let found = newest_of_all(&windows, floats);
                    let steps = span(&found, |row| *row != NO_ROW);
                    let mut rows = rows_at(&steps);
                    take_rows(tile, &found[steps], &mut rows);
                    rows
                }
                None => {
                    let steps = span(&windows, |window| !window.is_empty());
                    let mut rows = rows_at(&steps);
                    let windows = &windows[steps];
                    if plain {
                        newest_floats(tile, windows, &mut rows);
                    } else {
                        for series in 0..rows.len() {
                            let only = select.stats_only;
                            newest_cells(tile, series, windows, wanted, only, &mut rows);
                        }
                    }
                    rows.drop_empty_rows();
                    rows
                }
            };
            eval.count_rows(&rows);
            make(eval, rows)
        };
        self.scan(batches, range, steps.count, read, emit)
    }

    /// Reads one instant: a store finds the newest cells faster than it decodes all.
    fn newest_of(
        &self,
        batches: &[Arc<dyn Batch>],
        range: TimeRange,
        wanted: Wanted,
        emit: &mut dyn FnMut(StoredRows) -> Outcome<()>,
    ) -> Outcome<()> {
        let all = Instants { batches, first: 0 };
        let read = |eval: &Eval<'_>, piece: Piece<'_>, reader: &mut Reader| {
            eval.newest_of_piece(piece, range, wanted, reader)
        };
        self.in_order(all, read, |of_batches: Vec<StoredRows>| {
            of_batches.into_iter().try_for_each(&mut *emit)
        })
    }

    /// Finds the newest cells of some series; also returns how many there are.
    fn newest_of_piece(
        &self,
        piece: Piece<'_>,
        range: TimeRange,
        wanted: Wanted,
        reader: &mut Reader,
    ) -> Outcome<(Vec<StoredRows>, u64)> {
        let (mut all, mut samples) = (Vec::new(), 0);
        let is_value = matches!(wanted, Wanted::Value | Wanted::TimeMs);
        let weight = |last: &LastCell| if is_value { last.weight() } else { 1 };
        let alive = piece.batches.iter().filter(|batch| !batch.has_ended(range));
        for batch in alive {
            self.ctx.stop.check()?;
            let Reader {
                chunk,
                newest,
                hold,
                ..
            } = reader;
            chunk.clear();
            chunk.extend(piece.numbers(&**batch));
            // The number of rows is irrelevant here, and computing it may cost the store a search.
            self.memory.count_series(chunk.len());
            let bytes = chunk.len() * size_of::<Option<LastCell>>();
            self.memory.change(hold, 0, bytes as u64)?;
            newest.clear();
            self.traced(Phase::Read, || batch.last(chunk, range, newest, self.ctx))?;
            let mut rows = StoredRows::new(batch, 0..1);
            for (series, last) in chunk.iter().zip(&*newest) {
                samples += last.as_ref().map_or(0, weight);
                let Some(last) = last.as_ref().filter(|last| !cell::is_stale(last.cell)) else {
                    continue;
                };
                self.count_first(weight(last));
                let value = one_cell(last, wanted, &mut rows);
                rows.dense &= cell::is_float(value);
                rows.cells.push(value);
                rows.series.push(*series);
            }
            all.push(rows);
        }
        Ok((all, samples))
    }
}

/// Returns the reference times at which a window may have any of the rows.
fn reached(times_ms: &[i64], references: &[i64], width_ms: i64) -> Range<usize> {
    let (Some(first), Some(last)) = (times_ms.first(), times_ms.last()) else {
        return 0..0;
    };
    let start = references.partition_point(|reference| reference < first);
    let end = references.partition_point(|reference| reference.saturating_sub(width_ms) < *last);
    start..end.max(start)
}

/// Returns, for each reference time, the rows within the `width_ms` before it, open to the left.
pub(super) fn windows(times_ms: &[i64], references: &[i64], width_ms: i64) -> Vec<Range<usize>> {
    let (mut from, mut to) = (0, 0);
    let window = |reference: &i64| {
        let oldest = reference.saturating_sub(width_ms);
        while times_ms.get(to).is_some_and(|t| t <= reference) {
            to += 1;
        }
        while times_ms.get(from).is_some_and(|t| *t <= oldest) {
            from += 1;
        }
        from..to.max(from)
    };
    references.iter().map(window).collect()
}

/// Returns the range from the first of `all` for which `holds` to the last.
pub(super) fn span<T>(all: &[T], holds: impl Fn(&T) -> bool) -> Range<usize> {
    let first = all.iter().position(&holds).unwrap_or(0);
    let end = all.iter().rposition(&holds).map_or(0, |last| last + 1);
    first..end
}

/// Returns the wanted part of a sample.
fn one_cell(last: &LastCell, wanted: Wanted, rows: &mut StoredRows) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "times stay below 2^53 ms")]
    let float = |ms: i64| ms as f64;
    match (wanted, &last.histogram) {
        (Wanted::Value | Wanted::TimeMs, Some(histogram)) => {
            rows.add_histogram(Arc::clone(histogram))
        }
        (Wanted::Value, None) => last.cell,
        (Wanted::Time, _) => float(last.time_ms) / 1000.0,
        (Wanted::TimeMs, None) => float(last.time_ms),
        (Wanted::StartTime, _) => float(last.start_time_ms) / 1000.0,
    }
}

/// Returns the row of the newest sample in each window, for series that all have floats in the first rows, as many as
/// `floats`, and have ended then.
fn newest_of_all(windows: &[Range<usize>], floats: usize) -> Vec<usize> {
    let last = |window: &Range<usize>| {
        let last = window.clone().next_back();
        last.filter(|row| *row < floats).unwrap_or(NO_ROW)
    };
    windows.iter().map(last).collect()
}

/// Copies the cells at `found` of each series of a tile.
fn take_rows(tile: &Tile, found: &[usize], rows: &mut StoredRows) {
    rows.dense = !found.contains(&NO_ROW);
    rows.cells.reserve(rows.len() * found.len());
    for series in 0..rows.len() {
        take_row(tile.series_cells(series), found, rows);
    }
}

fn take_row(cells: &[f64], found: &[usize], rows: &mut StoredRows) {
    let value = |row: &usize| cells.get(*row).copied().unwrap_or(ABSENT);
    rows.cells.extend(found.iter().map(value));
}

/// Appends a row for each series of a tile without histograms: the newest sample in each window.
fn newest_floats(tile: &Tile, windows: &[Range<usize>], rows: &mut StoredRows) {
    let mut newest = Newest::default();
    rows.cells.reserve(rows.len() * windows.len());
    for series in 0..rows.len() {
        let cells = tile.series_cells(series);
        let found = newest.rows(cells, windows);
        rows.dense &= !found.contains(&NO_ROW);
        take_row(cells, found, rows);
    }
}

/// Appends one row: the newest sample in each window.
fn newest_cells(
    tile: &Tile,
    series: usize,
    windows: &[Range<usize>],
    wanted: Wanted,
    stats_only: bool,
    rows: &mut StoredRows,
) {
    let cells = tile.series_cells(series);
    let base = series * tile.times_ms.len();
    let mut last_index = None;
    for window in windows {
        let found = window
            .clone()
            .rev()
            .find(|row| !cell::is_absent(cells[*row]));
        let Some(row) = found.filter(|row| !cell::is_stale(cells[*row])) else {
            rows.cells.push(ABSENT);
            rows.dense = false;
            continue;
        };
        #[expect(clippy::cast_precision_loss, reason = "times stay below 2^53 ms")]
        let value = match (wanted, Cell::decode(cells[row])) {
            (Wanted::Value | Wanted::TimeMs, Cell::Histogram(index)) => {
                rows.dense = false;
                // Most steps have the same histogram as the one before.
                match last_index {
                    Some((seen, cell)) if seen == index => cell,
                    _ => {
                        let found = histogram_at(tile, cells, row, index, stats_only);
                        let cell = found.map_or(ABSENT, |h| rows.add_histogram(h));
                        last_index = Some((index, cell));
                        cell
                    }
                }
            }
            (Wanted::Value, _) => cells[row],
            (Wanted::Time, _) => tile.times_ms[row] as f64 / 1000.0,
            (Wanted::TimeMs, _) => tile.times_ms[row] as f64,
            (Wanted::StartTime, _) => {
                tile.start_times_ms
                    .get(base + row)
                    .copied()
                    .unwrap_or_default() as f64
                    / 1000.0
            }
        };
        rows.cells.push(value);
    }
}

/// Returns a histogram; without its buckets, its hint records the comparison with the one before it.
fn histogram_at(
    tile: &Tile,
    cells: &[f64],
    row: usize,
    index: u32,
    stats_only: bool,
) -> Option<Arc<Histogram>> {
    let histogram = tile.histograms.get(index as usize)?;
    if !stats_only {
        return Some(Arc::clone(histogram));
    }
    let previous = cells[..row]
        .iter()
        .rev()
        .find_map(|value| match Cell::decode(*value) {
            Cell::Histogram(index) => tile.histograms.get(index as usize),
            _ => None,
        });
    Some(Arc::new(histogram.without_buckets(previous.map(|h| &**h))))
}
