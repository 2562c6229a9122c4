//! Functions over ranges of samples.
//!
//! **Invariant:** a window is open to the left and closed to the right; its rows are found once for all series that
//! share a time axis; staleness markers are not samples.

use super::{
    Block, Eval, Outcome, Scalars, Series, Sink,
    gaps::{Gaps, Grid, Windows},
    rows, select,
};
use crate::{
    ast::Extension,
    functions::{
        FunctionId,
        over::apply,
        window::{OverCall, Row, Samples},
    },
    notes::Note,
    plan::{Over, Source, Steps, Subquery, Window},
};
use narthex_model::{
    Histogram,
    cell::{self, ABSENT, Cell},
    histogram::ResetHint,
    storage::{Pace, TimeRange},
};
use std::{collections::HashSet, ops::Range, sync::Arc};

/// Samples of some series on one time axis, one series after the other.
struct Input<'a> {
    times_ms: &'a [i64],
    cells: &'a [f64],
    histograms: &'a [Arc<Histogram>],
    start_times_ms: &'a [i64],
    all_floats: bool,
    /// Whether the input is the result of a subquery.
    computed: bool,
    stats_only: bool,
}

/// One series' samples and the windows over them.
#[derive(Clone, Copy)]
struct RowPlace<'a> {
    samples: Row<'a>,
    windows: &'a [Range<usize>],
    ends_ms: &'a [i64],
}

impl Eval<'_> {
    pub(super) fn stream_over(
        &self,
        over: &Over,
        steps: Steps,
        sink: &mut Sink<'_>,
    ) -> Outcome<()> {
        if over.function == FunctionId::AbsentOverTime {
            return self.absent_over_time(over, steps, sink);
        }
        let delayed = self.rules.delayed_name_removal;
        let keeps_name = matches!(
            over.function,
            FunctionId::LastOverTime | FunctionId::FirstOverTime
        );
        let unique = delayed
            || keeps_name
            || match &over.source {
                Source::Window(window) => {
                    window.select.one_name && !self.rules.type_and_unit_labels
                }
                Source::Subquery(subquery) => self.stays_distinct(&subquery.inner),
            };
        if unique {
            return self.windows_of(over, steps, sink);
        }
        // Without their names, two series may become equal.
        let mut whole = Block::new(steps.count);
        let mut seen = HashSet::new();
        self.windows_of(over, steps, &mut |block| {
            if !block.series.iter().all(|s| seen.insert(s.labels().hash())) {
                return Err(rows::same_labels());
            }
            whole.append(block);
            Ok(())
        })?;
        sink(whole)
    }

    fn windows_of(&self, over: &Over, steps: Steps, sink: &mut Sink<'_>) -> Outcome<()> {
        let mut args = Vec::with_capacity(over.args.len());
        for arg in &over.args {
            args.push(self.scalar(arg, steps)?);
        }
        match &over.source {
            Source::Window(window) => self.over_window(over, window, &args, steps, sink),
            Source::Subquery(subquery) => self.over_subquery(over, subquery, &args, steps, sink),
        }
    }

    fn over_window(
        &self,
        over: &Over,
        window: &Window,
        args: &[Scalars],
        steps: Steps,
        sink: &mut Sink<'_>,
    ) -> Outcome<()> {
        let lookback_ms = self.rules.lookback_ms;
        let (before_ms, after_ms) = match window.select.extension {
            Extension::None => (0, 0),
            Extension::Anchored => (lookback_ms, 0),
            Extension::Smoothed => (lookback_ms, lookback_ms),
        };
        let ends_ms: Vec<i64> = steps
            .times_ms()
            .map(|t| window.select.reference_ms(t))
            .collect();
        let (Some(first), Some(last)) = (ends_ms.first(), ends_ms.last()) else {
            return Ok(());
        };
        let oldest = first.saturating_sub(window.range_ms + before_ms);
        let range = TimeRange::new(oldest.saturating_add(1), last.saturating_add(after_ms));
        let _steps = self.memory.room_for_steps(steps.count)?;
        let call = self.over_call(
            over,
            window.range_ms,
            window.range_seconds,
            window.select.extension,
        );
        let reach: Vec<i64> = ends_ms
            .iter()
            .map(|end| end.saturating_add(after_ms))
            .collect();
        let width_ms = window.range_ms + before_ms + after_ms;
        let mut windows = Windows {
            rows: Vec::new(),
            ends_ms,
        };
        let batches = self.prepared.batches(window.select.selector, self.ctx)?;
        self.scan(&batches, range, steps.count, |part| {
            let tile = part.tile;
            windows.rows = select::windows(&tile.times_ms, &reach, width_ms);
            let known_starts =
                self.rules.start_times && tile.start_times_ms.iter().any(|t| *t != 0);
            let input = Input {
                times_ms: &tile.times_ms,
                cells: &tile.cells,
                histograms: &tile.histograms,
                start_times_ms: if known_starts {
                    &tile.start_times_ms
                } else {
                    &[]
                },
                all_floats: tile.facts.all_floats,
                computed: false,
                stats_only: window.select.stats_only,
            };
            let block = self.apply_over(&call, &input, part.series(), &windows, args, steps)?;
            self.emit(block, sink)
        })
    }

    fn over_subquery(
        &self,
        over: &Over,
        subquery: &Subquery,
        args: &[Scalars],
        steps: Steps,
        sink: &mut Sink<'_>,
    ) -> Outcome<()> {
        let reference = |t: i64| {
            subquery
                .at_ms
                .unwrap_or(t)
                .saturating_sub(subquery.offset_ms)
        };
        let _steps = self.memory.room_for_steps(steps.count)?;
        let _inner_steps = self.memory.room_for_steps(subquery.steps.count)?;
        let ends_ms: Vec<i64> = steps.times_ms().map(reference).collect();
        let times_ms: Vec<i64> = subquery.steps.times_ms().collect();
        let rows = select::windows(&times_ms, &ends_ms, subquery.range_ms);
        let windows = Windows { rows, ends_ms };
        let call = self.over_call(
            over,
            subquery.range_ms,
            subquery.range_seconds,
            Extension::None,
        );
        self.stream(&subquery.inner, subquery.steps, &mut |inner| {
            let input = Input {
                times_ms: &times_ms,
                cells: &inner.cells,
                histograms: &inner.histograms,
                start_times_ms: &[],
                all_floats: inner.dense,
                computed: true,
                stats_only: false,
            };
            let block = self.apply_over(&call, &input, inner.series, &windows, args, steps)?;
            self.emit(block, sink)
        })
    }

    fn over_call(
        &self,
        over: &Over,
        range_ms: i64,
        range_seconds: f64,
        extension: Extension,
    ) -> OverCall {
        OverCall {
            function: over.function,
            range_ms,
            range_seconds,
            extension,
            one_name: matches!(&over.source, Source::Window(w) if w.select.one_name),
            span: over.source_span,
            first_span: over.first_span,
        }
    }

    /// Computes one output row for each input series; empty rows are left out.
    fn apply_over(
        &self,
        call: &OverCall,
        input: &Input<'_>,
        series: Vec<Series>,
        windows: &Windows,
        args: &[Scalars],
        steps: Steps,
    ) -> Outcome<Block> {
        let keeps_name = matches!(
            call.function,
            FunctionId::LastOverTime | FunctionId::FirstOverTime
        );
        let delayed = self.rules.delayed_name_removal;
        let mut block = Block::new(steps.count);
        block.cells.reserve(series.len() * steps.count);
        let floats_only = input.histograms.is_empty() && input.start_times_ms.is_empty();
        let gapless =
            (floats_only && input.all_floats).then(|| Grid::gapless(call, input.times_ms, windows));
        let row_count = input.times_ms.len();
        let (mut gaps, mut samples) = (Gaps::default(), Samples::default());
        let mut pace = self.ctx.stop.pace();
        let mut noted = false;
        for (at, mut series) in series.into_iter().enumerate() {
            let begin = block.cells.len();
            let cells = &input.cells[at * row_count..(at + 1) * row_count];
            pace.spend(cells.len() + steps.count)?;
            if floats_only {
                let found = match &gapless {
                    Some(grid) => Some((grid, cells)),
                    None => gaps.close(call, input.times_ms, windows, cells),
                };
                let Some((grid, cells)) = found else {
                    continue;
                };
                match &grid.axis {
                    Some(axis) => axis.row(cells, &mut block.cells),
                    None => {
                        let times_ms = &grid.times_ms;
                        let place = RowPlace {
                            samples: Row::Floats { times_ms, cells },
                            windows: &grid.windows,
                            ends_ms: &windows.ends_ms,
                        };
                        self.general_row(call, place, &series, args, steps, &mut block, &mut pace)?;
                    }
                }
            } else {
                let starts = input
                    .start_times_ms
                    .get(at * row_count..(at + 1) * row_count)
                    .unwrap_or_default();
                gather(input, cells, starts, &mut samples);
                let place = RowPlace {
                    samples: Row::Mixed(&samples),
                    windows: &windows.rows,
                    ends_ms: &windows.ends_ms,
                };
                self.general_row(call, place, &series, args, steps, &mut block, &mut pace)?;
            }
            let row = &block.cells[begin..];
            if row.iter().all(|x| cell::is_absent(*x)) {
                block.cells.truncate(begin);
                continue;
            }
            if !noted && matches!(call.function, FunctionId::Rate | FunctionId::Increase) {
                let looked = self.note_non_counter(call, &series, row);
                noted = looked && call.one_name && !self.rules.type_and_unit_labels;
            }
            if !keeps_name || series.drop_name {
                series.forget_name(delayed);
            }
            block.series.push(series);
        }
        block.look_for_gaps();
        Ok(block)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the inner loop's whole state, kept apart for the fast path"
    )]
    fn general_row(
        &self,
        call: &OverCall,
        place: RowPlace<'_>,
        series: &Series,
        args: &[Scalars],
        steps: Steps,
        block: &mut Block,
        pace: &mut Pace<'_>,
    ) -> Outcome<()> {
        let mut scalars = vec![0.0; args.len()];
        for (step, rows) in place.windows.iter().enumerate() {
            let window = place.samples.window(rows);
            if window.is_empty() {
                block.cells.push(ABSENT);
                continue;
            }
            pace.spend(window.work())?;
            for (to, from) in scalars.iter_mut().zip(args) {
                *to = from[step];
            }
            let at = crate::functions::window::Place {
                time_ms: steps.time_ms(step),
                end_ms: place.ends_ms[step],
                args: &scalars,
                series,
            };
            let mut note = |note: Note| self.notes().add(note);
            let cell = match apply(call, &window, &at, &mut note)? {
                None => ABSENT,
                Some(super::Value::Float(x)) => cell::canonical(x),
                Some(super::Value::Histogram(h)) => block.add_histogram(h),
            };
            block.cells.push(cell);
        }
        Ok(())
    }

    /// Adds an info note for a rate of a metric that may not be a counter; reports whether there was anything to
    /// judge.
    fn note_non_counter(&self, call: &OverCall, series: &Series, row: &[f64]) -> bool {
        if !row.iter().any(|x| cell::is_float(*x)) {
            return false;
        }
        let name = series.metric_name();
        if name.is_empty() {
            return false;
        }
        if self.rules.type_and_unit_labels {
            let labels = series.labels();
            let kind = labels.get("__type__").unwrap_or_default();
            if kind != "counter" && kind != "histogram" {
                self.notes()
                    .add(Note::possible_non_counter_type(&name, kind, call.span));
            }
        } else if !["_total", "_sum", "_count", "_bucket"]
            .iter()
            .any(|suffix| name.ends_with(suffix))
        {
            self.notes()
                .add(Note::possible_non_counter(&name, call.span));
        }
        true
    }

    fn absent_over_time(&self, over: &Over, steps: Steps, sink: &mut Sink<'_>) -> Outcome<()> {
        let _found = self.memory.room_for_steps(steps.count)?;
        let mut found = vec![false; steps.count];
        self.windows_of(over, steps, &mut |block| {
            for row in 0..block.len() {
                for (found, x) in found.iter_mut().zip(block.row(row)) {
                    *found |= !cell::is_absent(*x);
                }
            }
            Ok(())
        })?;
        if found.iter().all(|found| *found) {
            return Ok(());
        }
        let labels = match &over.source {
            Source::Window(window) => super::call::absent_labels(&window.select.matchers),
            Source::Subquery(_) => narthex_model::LabelSet::empty(),
        };
        let mut block = Block::new(steps.count);
        let mut series = Series::new(labels);
        series.drop_name = true;
        block.series.push(series);
        block.cells = found
            .iter()
            .map(|found| if *found { ABSENT } else { 1.0 })
            .collect();
        sink(self.charge(block)?)
    }
}

/// Collects the samples of one series, floats and histograms separately.
fn gather(input: &Input<'_>, cells: &[f64], starts: &[i64], samples: &mut Samples) {
    samples.clear();
    let mut previous: Option<Arc<Histogram>> = None;
    for (row, value) in cells.iter().enumerate() {
        let start = starts.get(row).copied();
        match Cell::decode(*value) {
            Cell::Absent | Cell::Stale => {}
            Cell::Float(x) => samples.floats.push(row, input.times_ms[row], x, start),
            Cell::Histogram(index) => {
                let Some(histogram) = input.histograms.get(index as usize) else {
                    continue;
                };
                let mut histogram = Arc::clone(histogram);
                let hinted = matches!(histogram.reset_hint, ResetHint::Reset | ResetHint::NotReset);
                if input.computed && hinted {
                    // A subquery may skip or repeat samples, so a hint about the preceding sample is void.
                    Arc::make_mut(&mut histogram).reset_hint = ResetHint::Unknown;
                }
                if input.stats_only {
                    let full = histogram;
                    histogram = Arc::new(full.without_buckets(previous.as_deref()));
                    previous = Some(full);
                }
                samples
                    .histograms
                    .push(row, input.times_ms[row], histogram, start);
            }
        }
    }
}
