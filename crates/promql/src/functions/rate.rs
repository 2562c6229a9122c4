//! `rate`, `increase`, `delta`, `irate`, `idelta`.
//!
//! **Invariant:** the dense kernel ([`Axis`]) and the general one give the same bits for the same samples.

use super::{
    FunctionId, extended, rate_histograms,
    window::{NoteSink, OverCall, Place, Point, Timed, Window},
};
use crate::{
    ast::Extension,
    eval::Value,
    math::seconds,
    notes::{
        HistogramOperation::{Addition, Subtraction},
        Note,
    },
};
use narthex_model::{
    Histogram,
    cell::{self, ABSENT},
    histogram::ResetHint,
};
use std::{ops::Range, sync::Arc};

impl OverCall {
    pub(super) fn is_counter(&self) -> bool {
        matches!(
            self.function,
            FunctionId::Rate | FunctionId::Increase | FunctionId::Irate
        )
    }

    /// Reports whether a single float without a start time has no value.
    pub(crate) fn needs_two(&self) -> bool {
        let extrapolates = matches!(
            self.function,
            FunctionId::Rate | FunctionId::Increase | FunctionId::Delta
        );
        extrapolates && self.extension == Extension::None
    }

    pub(super) fn is_per_second(&self) -> bool {
        matches!(self.function, FunctionId::Rate | FunctionId::Irate)
    }
}

/// Computes `rate`, `increase` or `delta` with extrapolation to the range's edges.
pub(super) fn extrapolated(
    call: &OverCall,
    window: &Window<'_>,
    at: &Place<'_>,
    note: &mut NoteSink<'_>,
) -> Option<Value> {
    if window.is_mixed() {
        note(Note::mixed_floats_histograms(&at.metric_name(), call.span));
        return None;
    }
    if call.extension != Extension::None {
        return extended::rate(call, window, at, note);
    }
    if window.floats.is_empty() {
        histograms(call, window, at, note)
    } else {
        floats(call, window, at, note)
    }
}

fn floats(
    call: &OverCall,
    window: &Window<'_>,
    at: &Place<'_>,
    note: &mut NoteSink<'_>,
) -> Option<Value> {
    let floats = &window.floats;
    let (first, last) = (floats.values.first()?, floats.values.last()?);
    let mut result = last - first;
    let counter = call.is_counter();
    if counter {
        let mut overlap = false;
        for i in 1..floats.len() {
            let (before, x) = (floats.values[i - 1], floats.values[i]);
            let mut reset = x < before;
            if !floats.starts_ms.is_empty() {
                overlap |= floats.overlaps_at(i);
                reset |= floats.restarts_at(i);
            }
            if reset {
                result += before;
            }
        }
        if overlap {
            note(Note::start_time_overlap(&at.metric_name(), call.span));
        }
    }
    let range = SampledRange::new(call, floats.times_ms, at.end_ms);
    let start = if counter {
        range.start_inside(floats.start_ms(0))
    } else {
        None
    };
    if start.is_some() {
        // A counter that started inside the range counted from zero there.
        result += first;
    }
    let factor = range.factor(
        call,
        start,
        counter && result > 0.0 && *first >= 0.0,
        *first,
        result,
    )?;
    Some(Value::Float(result * factor))
}

fn histograms(
    call: &OverCall,
    window: &Window<'_>,
    at: &Place<'_>,
    note: &mut NoteSink<'_>,
) -> Option<Value> {
    let histograms = &window.histograms;
    let counter = call.is_counter();
    let first = histograms.values.first()?;
    let mut result: Option<Histogram> = None;
    if histograms.len() > 1 {
        result = Some(rate_histograms::increase(call, histograms, at, note)?);
    }
    let range = SampledRange::new(call, histograms.times_ms, at.end_ms);
    let start = if counter {
        range.start_inside(histograms.start_ms(0))
    } else {
        None
    };
    if start.is_some() {
        match &mut result {
            None => result = Some((**first).clone()),
            Some(sum) => rate_histograms::combine(sum, first, Addition, call, at, note)?,
        }
    }
    let count = result.as_ref().map_or(0.0, |h| h.count);
    let toward_zero = counter && count > 0.0 && first.count >= 0.0;
    let factor = range.factor(call, start, toward_zero, first.count, count)?;
    let mut result = result?;
    result.scale(factor);
    Some(Value::Histogram(Arc::new(result)))
}

/// Position of a window's samples in its range.
#[derive(Clone, Copy, Debug)]
struct SampledRange {
    range_start_ms: i64,
    first_ms: i64,
    last_ms: i64,
    to_start: f64,
    to_end: f64,
    sampled: f64,
    mean_gap: f64,
    gaps: f64,
}

impl SampledRange {
    #[expect(clippy::cast_precision_loss, reason = "differences stay below 2^53 ms")]
    fn new(call: &OverCall, times_ms: &[i64], end_ms: i64) -> Self {
        let range_start_ms = end_ms.saturating_sub(call.range_ms);
        let (first_ms, last_ms) = (times_ms[0], times_ms[times_ms.len() - 1]);
        let gaps = (times_ms.len() - 1) as f64;
        let sampled = (last_ms - first_ms) as f64 / 1000.0;
        Self {
            range_start_ms,
            first_ms,
            last_ms,
            to_start: (first_ms - range_start_ms) as f64 / 1000.0,
            to_end: (end_ms - last_ms) as f64 / 1000.0,
            sampled,
            mean_gap: if gaps > 0.0 { sampled / gaps } else { 0.0 },
            gaps,
        }
    }

    /// Returns the counter's start time if it is inside the range, before the first sample.
    fn start_inside(&self, start_ms: i64) -> Option<i64> {
        (start_ms != 0 && start_ms > self.range_start_ms && start_ms < self.first_ms)
            .then_some(start_ms)
    }

    /// Returns the factor for the increase between the first and the last sample.
    ///
    /// The increase is extrapolated to an edge closer than 1.1 mean gaps, and by half a mean gap to one further away;
    /// with `toward_zero`, a counter is never extrapolated below zero.
    fn factor(
        &self,
        call: &OverCall,
        start: Option<i64>,
        toward_zero: bool,
        first: f64,
        increase: f64,
    ) -> Option<f64> {
        let (mut to_start, mut to_end, mut sampled) = (self.to_start, self.to_end, self.sampled);
        let threshold = self.mean_gap * 1.1;
        if let Some(start_ms) = start {
            to_start = 0.0;
            sampled = seconds(self.last_ms - start_ms);
        } else if self.gaps == 0.0 {
            return None;
        } else {
            if to_start >= threshold {
                to_start = self.mean_gap / 2.0;
            }
            if toward_zero {
                let to_zero = sampled * (first / increase);
                if to_zero < to_start {
                    to_start = to_zero;
                }
            }
        }
        if to_end >= threshold {
            to_end = self.mean_gap / 2.0;
        }
        let mut factor = if sampled == 0.0 {
            1.0
        } else {
            (sampled + to_start + to_end) / sampled
        };
        if call.is_per_second() {
            factor /= call.range_seconds;
        }
        Some(factor)
    }
}

/// Computes `irate` or `idelta` from the last two samples.
pub(super) fn instant(
    call: &OverCall,
    window: &Window<'_>,
    at: &Place<'_>,
    note: &mut NoteSink<'_>,
) -> Option<Value> {
    let (before, after) = last_two(window)?;
    let interval_ms = after.time_ms - before.time_ms;
    if interval_ms == 0 {
        return None;
    }
    let seconds = seconds(interval_ms);
    let counter = call.is_counter();
    let reset = after.restarts_after(&before);
    match (before.value, after.value) {
        (Point::Float(x), Point::Float(y)) => {
            let change = if counter && (y < x || reset) {
                y
            } else {
                y - x
            };
            Some(Value::Float(if counter {
                change / seconds
            } else {
                change
            }))
        }
        (Point::Histogram(x), Point::Histogram(y)) => {
            let gauges = [x, y]
                .iter()
                .filter(|h| h.reset_hint == ResetHint::Gauge)
                .count();
            if counter && gauges > 0 {
                note(Note::histogram_not_counter(&at.metric_name(), call.span));
            }
            if !counter && gauges < 2 {
                note(Note::histogram_not_gauge(&at.metric_name(), call.span));
            }
            let mut change = (**y).clone();
            if !counter || (!reset && !y.is_reset_after(x)) {
                rate_histograms::combine(&mut change, x, Subtraction, call, at, note)?;
            }
            change.reset_hint = ResetHint::Gauge;
            change.compact();
            if counter {
                change.divide(seconds);
            }
            Some(Value::Histogram(Arc::new(change)))
        }
        _ => {
            note(Note::mixed_floats_histograms(&at.metric_name(), call.span));
            None
        }
    }
}

fn last_two<'a>(window: &Window<'a>) -> Option<(Timed<'a>, Timed<'a>)> {
    let (floats, histograms) = (window.floats, window.histograms);
    let tail = |count: usize| count.saturating_sub(2)..count;
    let of_floats = tail(floats.len()).map(|at| floats.timed(at, |x| Point::Float(*x)));
    let of_histograms = tail(histograms.len()).map(|at| histograms.timed(at, Point::Histogram));
    let mut last: Vec<Timed<'a>> = of_floats.chain(of_histograms).collect();
    last.sort_by_key(|sample| sample.time_ms);
    match last.as_slice() {
        [.., before, after] => Some((*before, *after)),
        _ => None,
    }
}

/// The dense kernel: windows over series that all have a float in every row.
///
/// Values that depend only on the time axis are computed once for all series. Of a counter that was reset, only the windows
/// around the reset are looked at sample by sample.
#[derive(Debug)]
pub(crate) struct Axis {
    /// Steps before the first window with two samples, and after the last.
    before: usize,
    after: usize,
    /// Rows of the first and the last sample of each window between, which both ascend: twice the same one if there are no two.
    windows: Vec<(u32, u32)>,
    /// Where the windows that are extrapolated alike end, and how they are. Of regular samples they are few.
    kinds: Vec<(usize, Extrapolation)>,
    /// Windows without two samples.
    empty: Vec<usize>,
    kernel: Kernel,
    divide_by: f64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kernel {
    Counter,
    Gauge,
}

/// How the increase between a window's samples is extrapolated to its edges.
#[derive(Clone, Copy, Debug, Default)]
struct Extrapolation {
    /// What the rest follows from: milliseconds from the window's start to its first sample, to the last one, to the
    /// window's end, and the number of gaps.
    of: (i64, i64, i64, usize),
    /// Seconds between the samples, and from them to where the increase is extrapolated.
    to_start: f64,
    sampled: f64,
    to_end: f64,
    /// Factor for an increase whose extrapolation does not end at zero.
    factor: f64,
    /// A counter whose first value exceeds its increase times this does not extrapolate to zero within the window.
    zero_limit: f64,
}

impl Axis {
    /// Returns a kernel for the call, or `None` if only the general one applies.
    pub(crate) fn new(
        call: &OverCall,
        times_ms: &[i64],
        rows: &[Range<usize>],
        ends_ms: &[i64],
    ) -> Option<Self> {
        if !call.needs_two() {
            return None;
        }
        let kernel = if call.is_counter() {
            Kernel::Counter
        } else {
            Kernel::Gauge
        };
        let divide_by = if call.is_per_second() {
            call.range_seconds
        } else {
            1.0
        };
        let is_wide = |rows: &Range<usize>| rows.len() >= 2;
        let before = rows.iter().take_while(|rows| !is_wide(rows)).count();
        let between = &rows[before..];
        let after = between.iter().rev().take_while(|rows| !is_wide(rows));
        let after = after.count();
        let between = &between[..between.len() - after];
        let mut axis = Self {
            before,
            after,
            windows: Vec::with_capacity(between.len()),
            kinds: Vec::new(),
            empty: Vec::new(),
            kernel,
            divide_by,
        };
        for (rows, end_ms) in between.iter().zip(&ends_ms[before..]) {
            if is_wide(rows) {
                axis.add(call, times_ms, rows, *end_ms);
            } else {
                // It counts as extrapolated like the next one.
                axis.empty.push(axis.windows.len());
                axis.windows.push((rows.start as u32, rows.start as u32));
            }
        }
        Some(axis)
    }

    fn add(&mut self, call: &OverCall, times_ms: &[i64], rows: &Range<usize>, end_ms: i64) {
        let (first, last) = (rows.start, rows.end - 1);
        let (first_ms, last_ms) = (times_ms[first], times_ms[last]);
        let of = (
            first_ms - end_ms.saturating_sub(call.range_ms),
            last_ms - first_ms,
            end_ms - last_ms,
            last - first,
        );
        self.windows.push((first as u32, last as u32));
        let end = self.windows.len();
        match self.kinds.last_mut() {
            Some((kind_end, kind)) if kind.of == of => *kind_end = end,
            _ => {
                let range = SampledRange::new(call, &times_ms[rows.clone()], end_ms);
                let kind = Extrapolation::new(of, &range, self.divide_by);
                self.kinds.push((end, kind));
            }
        }
    }

    /// Reports whether every step of every series has a value.
    pub(crate) fn is_whole(&self) -> bool {
        self.before == 0 && self.after == 0 && self.empty.is_empty()
    }

    /// Appends the values of one series.
    pub(crate) fn row(&self, cells: &[f64], out: &mut Vec<f64>) {
        out.extend(std::iter::repeat_n(ABSENT, self.before));
        self.between(cells, out);
        out.extend(std::iter::repeat_n(ABSENT, self.after));
    }

    fn between(&self, cells: &[f64], out: &mut Vec<f64>) {
        let begin = out.len();
        let mut any_near_zero = false;
        for (windows, kind) in self.by_kind() {
            out.extend(self.windows[windows].iter().map(|window| {
                let (first, increase) = increase_in(cells, *window);
                any_near_zero |= kind.is_near_zero(first, increase);
                cell::canonical(increase * kind.factor)
            }));
        }
        let out = &mut out[begin..];
        self.empty.iter().for_each(|at| out[*at] = ABSENT);
        if self.kernel == Kernel::Gauge {
            return;
        }
        if any_near_zero {
            for (windows, kind) in self.by_kind() {
                for (out, window) in out[windows.clone()].iter_mut().zip(&self.windows[windows]) {
                    let (first, increase) = increase_in(cells, *window);
                    if kind.is_near_zero(first, increase) {
                        *out = self.toward_zero(kind, first, increase);
                    }
                }
            }
        }
        self.add_resets(cells, out);
    }

    /// Returns the windows that are extrapolated alike.
    fn by_kind(&self) -> impl Iterator<Item = (Range<usize>, &Extrapolation)> {
        let mut begin = 0;
        let kinds = self.kinds.iter();
        kinds.map(move |(end, kind)| (std::mem::replace(&mut begin, *end)..*end, kind))
    }

    /// Computes the windows in which a counter was reset.
    fn add_resets(&self, cells: &[f64], out: &mut [f64]) {
        let (mut from, mut to) = (0, 0);
        for begin in (1..cells.len()).step_by(STRETCH) {
            // Whole stretches are compared without branches.
            let stretch = &cells[begin - 1..cells.len().min(begin + STRETCH)];
            let pairs = stretch.windows(2);
            if !pairs.clone().fold(false, |any, pair| any | is_reset(pair)) {
                continue;
            }
            for (row, pair) in (begin..).zip(pairs) {
                if is_reset(pair) {
                    while self
                        .windows
                        .get(to)
                        .is_some_and(|(first, _)| *first < row as u32)
                    {
                        to += 1;
                    }
                    for at in from..to {
                        self.add_reset(at, row, cells, out);
                    }
                    from = to;
                }
            }
        }
    }

    /// Computes a window in which a counter was reset, unless it ends before `row`.
    fn add_reset(&self, at: usize, row: usize, cells: &[f64], out: &mut [f64]) {
        let window = self.windows[at];
        let rows = window.0 as usize..=window.1 as usize;
        if row <= *rows.end() {
            let (first, increase) = increase_in(cells, window);
            let resets = cells[rows].windows(2).filter(|pair| is_reset(pair));
            let increase = resets.fold(increase, |sum, pair| sum + pair[0]);
            let kind = self.kinds.partition_point(|(end, _)| *end <= at);
            out[at] = self.toward_zero(&self.kinds[kind].1, first, increase);
        }
    }

    /// Returns the value of a window whose first sample may be near enough to zero that its increase began there.
    fn toward_zero(&self, kind: &Extrapolation, first: f64, increase: f64) -> f64 {
        let mut to_start = kind.to_start;
        if increase > 0.0 && first >= 0.0 {
            let to_zero = kind.sampled * (first / increase);
            if to_zero < to_start {
                to_start = to_zero;
            }
        }
        let factor = (kind.sampled + to_start + kind.to_end) / kind.sampled / self.divide_by;
        cell::canonical(increase * factor)
    }
}

impl Extrapolation {
    fn new(of: (i64, i64, i64, usize), range: &SampledRange, divide_by: f64) -> Self {
        let threshold = range.mean_gap * 1.1;
        let edge = |distance: f64| {
            if distance >= threshold {
                range.mean_gap / 2.0
            } else {
                distance
            }
        };
        let (to_start, sampled, to_end) = (edge(range.to_start), range.sampled, edge(range.to_end));
        Self {
            of,
            to_start,
            sampled,
            to_end,
            factor: (sampled + to_start + to_end) / sampled / divide_by,
            // Rounded up: near the limit, the exact comparison decides.
            zero_limit: to_start / sampled * (1.0 + 1e-9),
        }
    }

    /// Reports whether a counter may reach zero before the window's start, if it is extrapolated.
    #[inline]
    fn is_near_zero(&self, first: f64, increase: f64) -> bool {
        let is_above = first > increase * self.zero_limit;
        (increase > 0.0) & (first >= 0.0) & !is_above
    }
}

/// Returns a series' first value in a window and by how much the last one is larger.
#[inline]
fn increase_in(cells: &[f64], (first, last): (u32, u32)) -> (f64, f64) {
    let first = cells[first as usize];
    (first, cells[last as usize] - first)
}

/// Samples of a counter that are searched for resets together.
const STRETCH: usize = 32;

/// Reports whether the second of two successive values is lower.
#[inline]
fn is_reset(pair: &[f64]) -> bool {
    pair[1] < pair[0]
}
