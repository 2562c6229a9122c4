//! Instant selectors: the newest sample within the lookback.
//!
//! **Invariant:** the lookback is open to the left; a staleness marker ends a series until its next sample. The rows
//! to read are found once for all series of a batch.

use super::{
    Block, Eval, Outcome, Sink,
    gaps::{NO_ROW, Newest},
    scan::{LAST_SERIES, stored},
};
use crate::{
    ast::Extension,
    plan::{Select, Steps},
    span::Span,
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
        sink: &mut Sink<'_>,
    ) -> Outcome<()> {
        let batches = self.prepared.batches(select.selector, self.ctx)?;
        if select.extension == Extension::Smoothed {
            return self.stream_smoothed(select, span, &batches, steps, sink);
        }
        let look = SampleSearch {
            wanted: Wanted::Value,
            lookback_ms: self.rules.lookback_ms,
        };
        self.select_from(select, &batches, steps, look, sink)
    }

    /// Reads samples from `batches` according to `select`.
    pub(super) fn select_from(
        &self,
        select: &Select,
        batches: &[Arc<dyn Batch>],
        steps: Steps,
        look: SampleSearch,
        sink: &mut Sink<'_>,
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
            return self.newest_of(batches, range, wanted, sink);
        }
        self.scan(batches, range, steps.count, |part| {
            let windows = windows(&part.tile.times_ms, &references, lookback_ms);
            let mut block = Block::new(steps.count);
            block.series = part.series();
            block.cells.reserve(block.len() * steps.count);
            block.dense = true;
            if wanted == Wanted::Value && part.tile.histograms.is_empty() {
                newest_floats(part.tile, &windows, &mut block);
            } else {
                for series in 0..block.len() {
                    newest(
                        part.tile,
                        series,
                        &windows,
                        wanted,
                        select.stats_only,
                        &mut block,
                    );
                }
            }
            block.drop_empty_rows();
            self.emit(block, sink)
        })
    }

    /// Reads one instant: a store finds the newest cells faster than it decodes all.
    fn newest_of(
        &self,
        batches: &[Arc<dyn Batch>],
        range: TimeRange,
        wanted: Wanted,
        sink: &mut Sink<'_>,
    ) -> Outcome<()> {
        let mut found: Vec<Option<LastCell>> = Vec::new();
        for batch in batches.iter().filter(|batch| !batch.has_ended(range)) {
            // The number of rows is irrelevant here, and computing it may cost the store a search.
            self.for_parts(batch, LAST_SERIES, |chunk| {
                let count = chunk.len() as u64;
                let bytes = count * size_of::<Option<LastCell>>() as u64;
                let _hold = self.memory.acquire(0, bytes)?;
                found.clear();
                batch.last(chunk, range, &mut found, self.ctx)?;
                self.memory
                    .count_read(found.iter().flatten().count() as u64);
                let mut block = Block::new(1);
                block.dense = true;
                for (series, last) in stored(batch, chunk).into_iter().zip(&found) {
                    let Some(last) = last.as_ref().filter(|last| !cell::is_stale(last.cell)) else {
                        continue;
                    };
                    let value = one_cell(last, wanted, &mut block);
                    block.dense &= cell::is_float(value);
                    block.cells.push(value);
                    block.series.push(series);
                }
                self.emit(block, sink)
            })?;
        }
        Ok(())
    }
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

/// Returns the wanted part of a sample.
fn one_cell(last: &LastCell, wanted: Wanted, block: &mut Block) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "times stay below 2^53 ms")]
    let float = |ms: i64| ms as f64;
    match (wanted, &last.histogram) {
        (Wanted::Value | Wanted::TimeMs, Some(histogram)) => {
            block.add_histogram(Arc::clone(histogram))
        }
        (Wanted::Value, None) => last.cell,
        (Wanted::Time, _) => float(last.time_ms) / 1000.0,
        (Wanted::TimeMs, None) => float(last.time_ms),
        (Wanted::StartTime, _) => float(last.start_time_ms) / 1000.0,
    }
}

/// Appends a row for each series of a tile without histograms: the newest sample in each window.
fn newest_floats(tile: &Tile, windows: &[Range<usize>], block: &mut Block) {
    let last = |window: &Range<usize>| window.clone().next_back().unwrap_or(NO_ROW);
    let gapless: Vec<usize> = if tile.facts.all_floats {
        windows.iter().map(last).collect()
    } else {
        Vec::new()
    };
    let mut newest = Newest::default();
    for series in 0..block.len() {
        let cells = tile.series_cells(series);
        let rows = if tile.facts.all_floats {
            &gapless
        } else {
            newest.rows(cells, windows)
        };
        block.dense &= !rows.contains(&NO_ROW);
        let value = |row: &usize| cells.get(*row).copied().unwrap_or(ABSENT);
        block.cells.extend(rows.iter().map(value));
    }
}

/// Appends one row: the newest sample in each window.
fn newest(
    tile: &Tile,
    series: usize,
    windows: &[Range<usize>],
    wanted: Wanted,
    stats_only: bool,
    block: &mut Block,
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
            block.cells.push(ABSENT);
            block.dense = false;
            continue;
        };
        #[expect(clippy::cast_precision_loss, reason = "times stay below 2^53 ms")]
        let value = match (wanted, Cell::decode(cells[row])) {
            (Wanted::Value | Wanted::TimeMs, Cell::Histogram(index)) => {
                block.dense = false;
                // Most steps have the same histogram as the one before.
                match last_index {
                    Some((seen, cell)) if seen == index => cell,
                    _ => {
                        let found = histogram_at(tile, cells, row, index, stats_only);
                        let cell = found.map_or(ABSENT, |h| block.add_histogram(h));
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
        block.cells.push(value);
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
