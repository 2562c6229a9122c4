//! Functions over ranges of samples.
//!
//! **Invariant:** a window is open to the left and closed to the right; its rows are found once for all series that
//! share a time axis; staleness markers are not samples.

use super::{
    Block, Eval, Outcome, Scalars, Series,
    call::absent_labels,
    gaps::{Gaps, Grid, Windows},
    rows,
    scan::Part,
    select,
    stored::{Emitted, RowsSink, StoredRows},
};
use crate::{
    ast::Extension,
    functions::{
        FunctionId,
        over::apply,
        over_floats::{FloatKernel, FloatRow},
        rate::Axis,
        window::{OverCall, Row, Samples},
    },
    notes::Note,
    plan::{Over, Source, Steps, Subquery, Window},
};
use narthex_model::{
    Histogram, LabelSet, METRIC_NAME, MatchOp, Matcher,
    cell::{self, ABSENT},
    histogram::ResetHint,
    storage::{Pace, TimeRange},
};
use std::{collections::HashSet, ops::Range, sync::Arc};

/// Samples of some series on one time axis, one series after the other.
struct Input<'a> {
    /// Number of series.
    series: usize,
    times_ms: &'a [i64],
    cells: &'a [f64],
    histograms: &'a [Arc<Histogram>],
    start_times_ms: &'a [i64],
    /// In how many rows every cell is a float, if all later ones are staleness markers.
    float_rows: Option<usize>,
    /// Whether the input is the result of a subquery.
    computed: bool,
    stats_only: bool,
}

impl<'a> Input<'a> {
    fn cells_of(&self, series: usize) -> &'a [f64] {
        let rows = self.times_ms.len();
        &self.cells[series * rows..(series + 1) * rows]
    }

    fn starts_of(&self, series: usize) -> &'a [i64] {
        let rows = self.times_ms.len();
        let starts = self.start_times_ms.get(series * rows..(series + 1) * rows);
        starts.unwrap_or_default()
    }

    fn has_only_floats(&self) -> bool {
        self.histograms.is_empty() && self.start_times_ms.is_empty()
    }
}

/// What to compute.
struct Job<'a> {
    call: &'a OverCall,
    args: &'a [Scalars],
    steps: Steps,
}

/// Returns the identity of a series of the input.
type SeriesOf<'a> = dyn Fn(usize) -> Series + 'a;

/// Results of some series.
#[derive(Default)]
struct Output {
    /// The series, by their places in the input, that have a row.
    kept: Vec<u32>,
    cells: Vec<f64>,
    histograms: Vec<Arc<Histogram>>,
    /// Whether every cell is a float.
    dense: bool,
    /// Where the next row begins.
    begin: usize,
    /// Whether no other series needs a note about a metric that may not be a counter.
    noted: bool,
}

impl Output {
    fn has_only_floats(&self) -> bool {
        let all = |cells: &[f64]| cells.iter().fold(true, |all, x| all & cell::is_float(*x));
        self.histograms.is_empty() && all(&self.cells)
    }
}

/// One series' samples and the windows over them.
#[derive(Clone, Copy)]
struct RowPlace<'a> {
    samples: Row<'a>,
    windows: &'a [Range<usize>],
    ends_ms: &'a [i64],
    /// The first of the windows' steps.
    from: usize,
}

impl Eval<'_> {
    pub(super) fn stream_over(
        &self,
        over: &Over,
        steps: Steps,
        sink: &mut RowsSink<'_>,
    ) -> Outcome<()> {
        if over.function == FunctionId::AbsentOverTime {
            let labels = match &over.source {
                Source::Window(window) => absent_labels(&window.select.matchers),
                Source::Subquery(_) => LabelSet::empty(),
            };
            let mut series = Series::new(labels);
            series.drop_name = true;
            let mut sink = |block| sink(Emitted::Block(block));
            return self.absent(series, steps, &mut sink, |found| {
                let mut rows = |rows| found(self.whole(rows, steps.count)?);
                self.windows_of(over, steps, &mut rows)
            });
        }
        let delayed = self.rules.delayed_name_removal;
        let unique = delayed
            || keeps_name(over.function)
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
        self.windows_of(over, steps, &mut |rows| {
            let block = self.whole(rows, steps.count)?;
            if !block.series.iter().all(|s| seen.insert(s.hash())) {
                return Err(rows::same_labels());
            }
            whole.append(block);
            Ok(())
        })?;
        sink(Emitted::Block(whole))
    }

    fn windows_of(&self, over: &Over, steps: Steps, sink: &mut RowsSink<'_>) -> Outcome<()> {
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
        sink: &mut RowsSink<'_>,
    ) -> Outcome<()> {
        let lookback_ms = self.rules.lookback_ms;
        let (before_ms, after_ms) = window.select.extension.reach_ms(lookback_ms);
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
        let call = self.over_call(over);
        let reach: Vec<i64> = ends_ms
            .iter()
            .map(|end| end.saturating_add(after_ms))
            .collect();
        let width_ms = window.range_ms + before_ms + after_ms;
        let job = Job {
            call: &call,
            args,
            steps,
        };
        let batches = self.batches(window.select.selector)?;
        self.scan(
            &batches,
            range,
            steps.count,
            |eval, part| eval.over_part(&job, part, (&reach, width_ms), &ends_ms, window),
            |rows| self.emit_rows(rows, sink),
        )
    }

    /// Computes the rows of a part, at the steps where it may have any; windows reach back by a width from some times.
    fn over_part(
        &self,
        job: &Job<'_>,
        part: &Part<'_>,
        (reach, width_ms): (&[i64], i64),
        ends_ms: &[i64],
        window: &Window,
    ) -> Outcome<StoredRows> {
        let tile = part.tile;
        let known_starts = self.rules.start_times && tile.start_times_ms.iter().any(|t| *t != 0);
        let mut input = Input {
            series: tile.series,
            times_ms: &tile.times_ms,
            cells: &tile.cells,
            histograms: &tile.histograms,
            start_times_ms: if known_starts {
                &tile.start_times_ms
            } else {
                &[]
            },
            float_rows: None,
            computed: false,
            stats_only: window.select.stats_only,
        };
        let floats_only = input.has_only_floats();
        input.float_rows = tile.float_rows().filter(|_| floats_only);
        let end = input.float_rows.unwrap_or(tile.times_ms.len());
        let rows = select::windows(&tile.times_ms[..end], reach, width_ms);
        self.count_windows(tile, &rows);
        // Of a single float these make nothing.
        let least = if floats_only && job.call.needs_two() {
            2
        } else {
            1
        };
        let alive = select::span(&rows, |rows| rows.len() >= least);
        let windows = Windows {
            from: alive.start,
            rows: &rows[alive.clone()],
            ends_ms: &ends_ms[alive.clone()],
        };
        let out = self.apply_over(job, &input, &windows, &|at| part.one(at))?;
        let numbers = part.numbers();
        let mut rows = part.rows(alive);
        let kept = out.kept.iter().map(|at| numbers[*at as usize]);
        rows.series.extend(kept);
        rows.dense = out.dense;
        (rows.cells, rows.histograms) = (out.cells, out.histograms);
        if !keeps_name(job.call.function) {
            rows.forget_names(self.rules.delayed_name_removal);
        }
        Ok(rows)
    }

    fn over_subquery(
        &self,
        over: &Over,
        subquery: &Subquery,
        args: &[Scalars],
        steps: Steps,
        sink: &mut RowsSink<'_>,
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
        let windows = Windows {
            from: 0,
            rows: &rows,
            ends_ms: &ends_ms,
        };
        let delayed = self.rules.delayed_name_removal;
        let call = self.over_call(over);
        let job = Job {
            call: &call,
            args,
            steps,
        };
        let mut take = |inner: Block| {
            let input = Input {
                series: inner.len(),
                times_ms: &times_ms,
                cells: &inner.cells,
                histograms: &inner.histograms,
                start_times_ms: &[],
                float_rows: inner.dense.then_some(times_ms.len()),
                computed: true,
                stats_only: false,
            };
            let series = |at: usize| inner.series[at].clone();
            let out = self.apply_over(&job, &input, &windows, &series)?;
            let mut block = Block::new(steps.count);
            block.series = out.kept.iter().map(|at| series(*at as usize)).collect();
            for series in &mut block.series {
                if !keeps_name(over.function) || series.drop_name {
                    series.forget_name(delayed);
                }
            }
            block.dense = out.dense;
            (block.cells, block.histograms) = (out.cells, out.histograms);
            self.emit(block, &mut |block| sink(Emitted::Block(block)))
        };
        let inner = &subquery.inner;
        let (outcome, counts) = self.counted_apart(subquery.steps, || {
            self.stream(inner, subquery.steps, &mut take)
        });
        self.count_subquery(counts, windows.rows);
        outcome
    }

    fn over_call(&self, over: &Over) -> OverCall {
        let (range_ms, range_seconds, extension, name) = match &over.source {
            Source::Window(window) => {
                let mut matchers = window.select.matchers.iter();
                let is_name = |m: &&Matcher| m.op == MatchOp::Equal && &*m.name == METRIC_NAME;
                let (ms, seconds) = (window.range_ms, window.range_seconds);
                (ms, seconds, window.select.extension, matchers.find(is_name))
            }
            Source::Subquery(s) => (s.range_ms, s.range_seconds, Extension::None, None),
        };
        OverCall {
            function: over.function,
            range_ms,
            range_seconds,
            lookback_ms: self.rules.lookback_ms,
            extension,
            one_name: name.is_some(),
            counter_name: name.is_some_and(|matcher| is_counter_name(&matcher.value)),
            span: over.source_span,
            first_span: over.first_span,
            second_span: over.args.first().map(|arg| arg.span).unwrap_or_default(),
        }
    }

    /// Computes one output row for each input series; empty rows are left out.
    fn apply_over(
        &self,
        job: &Job<'_>,
        input: &Input<'_>,
        windows: &Windows<'_>,
        series_of: &SeriesOf<'_>,
    ) -> Outcome<Output> {
        let may_note = matches!(job.call.function, FunctionId::Rate | FunctionId::Increase);
        let mut out = Output {
            noted: !may_note || (job.call.counter_name && !self.rules.type_and_unit_labels),
            ..Output::default()
        };
        if windows.rows.is_empty() {
            return Ok(out);
        }
        out.cells.reserve(input.series * windows.rows.len());
        if input.has_only_floats() {
            self.over_floats(job, input, windows, series_of, &mut out)?;
        } else {
            self.over_mixed(job, input, windows, series_of, &mut out)?;
        }
        Ok(out)
    }

    fn over_floats(
        &self,
        job: &Job<'_>,
        input: &Input<'_>,
        windows: &Windows<'_>,
        series_of: &SeriesOf<'_>,
        out: &mut Output,
    ) -> Outcome<()> {
        let Job { call, args, .. } = *job;
        let grid = |rows: usize| (Grid::gapless(call, &input.times_ms[..rows], windows), rows);
        let gapless = input.float_rows.map(grid);
        let axis = gapless.as_ref().and_then(|(grid, _)| grid.axis.as_ref());
        let whole = axis.is_some_and(Axis::is_whole);
        let steps_of_windows = windows.from..windows.from + windows.rows.len();
        let argument = args.first().map(|arg| &arg[steps_of_windows]);
        let mut kernel = FloatKernel::new(call, argument);
        let mut gaps = Gaps::default();
        let mut pace = self.ctx.stop.pace();
        for at in 0..input.series {
            let cells = input.cells_of(at);
            pace.spend(cells.len() + windows.rows.len())?;
            let found = match &gapless {
                Some((grid, rows)) => Some((grid, &cells[..*rows])),
                None => gaps.close(call, input.times_ms, windows, cells),
            };
            let Some((grid, cells)) = found else {
                continue;
            };
            let times_ms = &grid.times_ms;
            match (&grid.axis, &mut kernel) {
                (Some(axis), _) => axis.row(cells, &mut out.cells),
                (None, Some(kernel)) => {
                    let row = FloatRow {
                        times_ms,
                        values: cells,
                        windows: &grid.windows,
                    };
                    kernel.row(row, &mut out.cells, &mut pace)?;
                }
                (None, None) => {
                    let place = RowPlace {
                        samples: Row::Floats { times_ms, cells },
                        windows: &grid.windows,
                        ends_ms: windows.ends_ms,
                        from: windows.from,
                    };
                    let series = series_of(at);
                    self.general_row(job, place, &series, out, &mut pace)?;
                }
            }
            self.keep_row(job, at, whole, series_of, out);
        }
        out.dense = whole || out.has_only_floats();
        Ok(())
    }

    fn over_mixed(
        &self,
        job: &Job<'_>,
        input: &Input<'_>,
        windows: &Windows<'_>,
        series_of: &SeriesOf<'_>,
        out: &mut Output,
    ) -> Outcome<()> {
        let mut samples = Samples::default();
        let mut pace = self.ctx.stop.pace();
        for at in 0..input.series {
            let cells = input.cells_of(at);
            pace.spend(cells.len() + windows.rows.len())?;
            gather(input, cells, input.starts_of(at), &mut samples);
            let place = RowPlace {
                samples: Row::Mixed(&samples),
                windows: windows.rows,
                ends_ms: windows.ends_ms,
                from: windows.from,
            };
            let series = series_of(at);
            self.general_row(job, place, &series, out, &mut pace)?;
            self.keep_row(job, at, false, series_of, out);
        }
        out.dense = out.has_only_floats();
        Ok(())
    }

    /// Keeps the row that was computed for series `at`, unless it is empty.
    fn keep_row(
        &self,
        job: &Job<'_>,
        at: usize,
        whole: bool,
        series_of: &SeriesOf<'_>,
        out: &mut Output,
    ) {
        let begin = std::mem::replace(&mut out.begin, out.cells.len());
        if whole && out.noted {
            out.kept.push(at as u32);
            return;
        }
        let row = &out.cells[begin..];
        if row.iter().all(|x| cell::is_absent(*x)) {
            out.cells.truncate(begin);
            out.begin = begin;
            return;
        }
        if !out.noted {
            let looked = self.note_non_counter(job.call, &series_of(at), row);
            out.noted = looked && job.call.one_name && !self.rules.type_and_unit_labels;
        }
        out.kept.push(at as u32);
    }

    fn general_row(
        &self,
        job: &Job<'_>,
        place: RowPlace<'_>,
        series: &Series,
        out: &mut Output,
        pace: &mut Pace<'_>,
    ) -> Outcome<()> {
        let Job { call, args, steps } = *job;
        let mut scalars = vec![0.0; args.len()];
        for (step, rows) in place.windows.iter().enumerate() {
            let window = place.samples.window(rows);
            if window.is_empty() {
                out.cells.push(ABSENT);
                continue;
            }
            pace.spend(window.work())?;
            for (to, from) in scalars.iter_mut().zip(args) {
                *to = from[place.from + step];
            }
            let at = crate::functions::window::Place {
                time_ms: steps.time_ms(place.from + step),
                end_ms: place.ends_ms[step],
                args: &scalars,
                series,
            };
            let mut note = |note: Note| self.notes().add(note);
            let cell = match apply(call, &window, &at, &mut note)? {
                None => ABSENT,
                Some(super::Value::Float(x)) => cell::canonical(x),
                Some(super::Value::Histogram(h)) => cell::push_histogram(&mut out.histograms, h),
            };
            out.cells.push(cell);
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
        } else if !is_counter_name(&name) {
            self.notes()
                .add(Note::possible_non_counter(&name, call.span));
        }
        true
    }
}

/// Reports whether a metric with this name should be a counter.
fn is_counter_name(name: &str) -> bool {
    let mut suffixes = ["_total", "_sum", "_count", "_bucket"].iter();
    suffixes.any(|suffix| name.ends_with(suffix))
}

fn keeps_name(function: FunctionId) -> bool {
    matches!(
        function,
        FunctionId::LastOverTime | FunctionId::FirstOverTime
    )
}

/// Collects the samples of one series, floats and histograms separately.
fn gather(input: &Input<'_>, cells: &[f64], starts_ms: &[i64], samples: &mut Samples) {
    let mut previous: Option<Arc<Histogram>> = None;
    let axis = (input.times_ms, starts_ms);
    samples.gather(axis, cells, input.histograms, |histogram| {
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
        histogram
    });
}
