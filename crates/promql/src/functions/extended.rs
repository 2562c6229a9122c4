//! `rate`, `increase` and `delta` with `anchored` and `smoothed`.
//!
//! **Invariant:** the result covers exactly the range: its edges are the adjacent samples (anchored) or interpolated
//! (smoothed), and nothing is extrapolated.

use super::{
    rate_histograms,
    starts::is_start_reset,
    window::{NoteSink, OverCall, Place, View, Window},
};
use crate::{
    ast::Extension,
    eval::Value,
    notes::{
        HistogramOperation::{Addition, Subtraction},
        Note,
    },
    span::Span,
};
use narthex_model::{
    Histogram,
    histogram::{IncompatibleBuckets, ResetHint},
};
use std::sync::Arc;

/// Computes the extended function for a window that extends beyond the range.
pub(super) fn rate(
    call: &OverCall,
    window: &Window<'_>,
    at: &Place<'_>,
    note: &mut NoteSink<'_>,
) -> Option<Value> {
    if window.floats.is_empty() {
        histograms(call, window, at, note)
    } else {
        floats(call, window, at)
    }
}

/// The samples next to the range's edges.
struct Edges {
    start_ms: i64,
    end_ms: i64,
    first: usize,
    last: usize,
    smoothed: bool,
}

impl Edges {
    fn new(call: &OverCall, times_ms: &[i64], end_ms: i64) -> Option<Self> {
        let smoothed = call.extension == Extension::Smoothed;
        let start_ms = end_ms.saturating_sub(call.range_ms);
        Self::between(times_ms, start_ms, end_ms, smoothed)
    }

    fn between(times_ms: &[i64], start_ms: i64, end_ms: i64, smoothed: bool) -> Option<Self> {
        let mut last = times_ms.len().checked_sub(1)?;
        let head = &times_ms[..last];
        let first = head.partition_point(|t| *t <= start_ms).saturating_sub(1);
        if smoothed {
            last = head.partition_point(|t| *t < end_ms);
        }
        if times_ms[last] <= start_ms {
            return None;
        }
        Some(Self {
            start_ms,
            end_ms,
            first,
            last,
            smoothed,
        })
    }

    /// Reports whether all samples are behind the range.
    fn begins_late(&self, times_ms: &[i64]) -> bool {
        self.smoothed && times_ms[self.first] > self.end_ms
    }

    fn interpolates_start(&self, times_ms: &[i64]) -> bool {
        self.smoothed && times_ms[self.first] < self.start_ms
    }

    fn interpolates_end(&self, times_ms: &[i64]) -> bool {
        self.smoothed && self.last > 0 && times_ms[self.last] > self.end_ms
    }
}

fn floats(call: &OverCall, window: &Window<'_>, at: &Place<'_>) -> Option<Value> {
    let view = window.floats;
    let times_ms = view.times_ms;
    let edges = Edges::new(call, times_ms, at.end_ms)?;
    let counter = call.is_counter();
    let points = Points {
        view,
        edges: &edges,
        counter,
        visible_ms: edges.start_ms.saturating_sub(call.lookback_ms),
    };
    if edges.begins_late(times_ms) && !points.starts_inside() {
        return None;
    }
    let (left, right) = (points.left(), points.right());
    let mut result = right.value - left.value;
    if counter {
        let from = edges.first + usize::from(times_ms[edges.first] <= edges.start_ms);
        let to = edges.last + usize::from(times_ms[edges.last] < edges.end_ms);
        // Added up apart, as the order decides about last digits.
        let (mut before, mut lost) = (left, 0.0);
        for point in (from..to).map(|i| points.get(i)).chain([right]) {
            if point.value < before.value || point.starts_after(&before) {
                lost += before.value;
            }
            before = point;
        }
        result += lost;
    }
    if call.is_per_second() {
        result /= call.range_seconds;
    }
    Some(Value::Float(result))
}

/// A sample, with when its counter started; 0 if that is unknown.
#[derive(Clone, Copy)]
struct Point {
    time_ms: i64,
    value: f64,
    start_ms: i64,
}

impl Point {
    /// Returns the zero that a counter is at when it starts.
    fn zero(&self) -> Self {
        Self {
            time_ms: self.start_ms,
            value: 0.0,
            ..*self
        }
    }

    fn starts_after(&self, before: &Self) -> bool {
        is_start_reset(before.start_ms, before.time_ms, self.start_ms, self.time_ms)
    }

    /// Reports whether the counter started behind a time; then it was not there before.
    fn starts_behind(&self, ms: i64) -> bool {
        self.start_ms > ms
            && self.time_ms > ms
            && is_start_reset(ms, ms, self.start_ms, self.time_ms)
    }
}

/// The samples of a window, seen from its edges.
struct Points<'a> {
    view: View<'a, f64>,
    edges: &'a Edges,
    counter: bool,
    /// From when on starts are believed.
    visible_ms: i64,
}

impl Points<'_> {
    fn get(&self, i: usize) -> Point {
        Point {
            time_ms: self.view.times_ms[i],
            value: self.view.values[i],
            start_ms: self.view.start_ms(i),
        }
    }

    /// Reports whether the counter of the first sample, which is behind the range, started within or before it.
    fn starts_inside(&self) -> bool {
        let first = self.get(self.edges.first);
        self.counter
            && first.starts_behind(self.visible_ms)
            && !first.starts_behind(self.edges.end_ms)
    }

    fn left(&self) -> Point {
        let (first, at_ms) = (self.get(self.edges.first), self.edges.start_ms);
        if first.time_ms == at_ms {
            return first;
        }
        let mut start_ms = if first.start_ms > at_ms {
            0
        } else {
            first.start_ms
        };
        let value = if first.time_ms > at_ms {
            self.lone(first, at_ms)
        } else {
            let (mut from, mut to) = (first, self.get(self.edges.first + 1));
            if self.counter && to.starts_behind(at_ms) {
                to = to.zero();
            } else if self.counter && to.starts_after(&from) {
                start_ms = to.start_ms;
                from = to.zero();
            }
            self.between(from, to, at_ms)
        };
        Point {
            time_ms: at_ms,
            value,
            start_ms,
        }
    }

    fn right(&self) -> Point {
        let (last, at_ms) = (self.get(self.edges.last), self.edges.end_ms);
        let mut start_ms = if last.start_ms > at_ms {
            0
        } else {
            last.start_ms
        };
        let value = if last.time_ms <= at_ms {
            last.value
        } else if self.edges.last == 0 {
            self.lone(last, at_ms)
        } else {
            let (mut from, mut to) = (self.get(self.edges.last - 1), last);
            if self.counter && to.starts_behind(at_ms) {
                start_ms = from.start_ms;
                to = to.zero();
            } else if self.counter && to.starts_after(&from) {
                from = to.zero();
            }
            self.between(from, to, at_ms)
        };
        Point {
            time_ms: at_ms,
            value,
            start_ms,
        }
    }

    /// Returns the value at a time that no sample precedes.
    fn lone(&self, point: Point, at_ms: i64) -> f64 {
        if !self.counter || !point.starts_behind(self.visible_ms) {
            point.value
        } else if self.edges.smoothed && !point.starts_behind(at_ms) {
            self.between(point.zero(), point, at_ms)
        } else {
            0.0
        }
    }

    fn between(&self, from: Point, to: Point, at_ms: i64) -> f64 {
        if self.edges.smoothed {
            let (a, b) = ((from.time_ms, from.value), (to.time_ms, to.value));
            interpolate(a, b, at_ms, self.counter)
        } else {
            from.value
        }
    }
}

/// Interpolates linearly between two samples at `t`; a counter that was reset starts from zero.
pub(crate) fn interpolate(a: (i64, f64), b: (i64, f64), t: i64, counter: bool) -> f64 {
    let from = if counter && b.1 < a.1 { 0.0 } else { a.1 };
    #[expect(clippy::cast_precision_loss, reason = "differences stay below 2^53 ms")]
    let (part, whole) = ((t - a.0) as f64, (b.0 - a.0) as f64);
    from + (b.1 - from) * part / whole
}

/// Returns the samples of a range with values at both its edges, for a range that is itself the result.
pub(crate) fn extend(
    times_ms: &[i64],
    values: &[f64],
    start_ms: i64,
    end_ms: i64,
    smoothed: bool,
) -> Vec<(i64, f64)> {
    let Some(edges) = Edges::between(times_ms, start_ms, end_ms, smoothed) else {
        return Vec::new();
    };
    let (first, last) = (edges.first, edges.last);
    let points = Points {
        view: View {
            times_ms,
            values,
            starts_ms: &[],
        },
        edges: &edges,
        counter: false,
        visible_ms: start_ms,
    };
    let (left, right) = (points.left().value, points.right().value);
    let from = first + usize::from(times_ms[first] <= start_ms);
    let to = last + usize::from(times_ms[last] < end_ms);
    let inside = times_ms.iter().copied().zip(values.iter().copied());
    let mut points = vec![(start_ms, left)];
    points.extend(inside.take(to).skip(from));
    points.push((end_ms, right));
    points
}

fn histograms(
    call: &OverCall,
    window: &Window<'_>,
    at: &Place<'_>,
    note: &mut NoteSink<'_>,
) -> Option<Value> {
    let View {
        times_ms, values, ..
    } = window.histograms;
    let edges = Edges::new(call, times_ms, at.end_ms)?;
    if edges.begins_late(times_ms) {
        return None;
    }
    let counter = call.is_counter();
    let inside = &values[edges.first..=edges.last];
    let custom = inside[0].uses_custom_buckets();
    for h in inside {
        if h.uses_custom_buckets() != custom {
            note(Note::mixed_exponential_custom(&at.metric_name(), call.span));
            return None;
        }
        if counter && h.reset_hint == ResetHint::Gauge {
            note(Note::histogram_not_counter(&at.metric_name(), call.span));
        }
    }
    let mut between = |i: usize, t: i64| {
        let (a, b) = (
            (times_ms[i], &*values[i]),
            (times_ms[i + 1], &*values[i + 1]),
        );
        interpolate_histograms(a, b, t, counter, call.span, note)
    };
    let left = if edges.interpolates_start(times_ms) {
        between(edges.first, edges.start_ms)
    } else {
        Ok((*values[edges.first]).clone())
    };
    let right = if edges.interpolates_end(times_ms) {
        between(edges.last - 1, edges.end_ms)
    } else {
        Ok((*values[edges.last]).clone())
    };
    let (Ok(left), Ok(right)) = (left, right) else {
        note(Note::mixed_exponential_custom(&at.metric_name(), call.span));
        return None;
    };
    let gauge = |h: &Histogram| h.reset_hint == ResetHint::Gauge;
    if !counter && (!gauge(&left) || !gauge(&right)) {
        note(Note::histogram_not_gauge(&at.metric_name(), call.span));
    }
    let mut result = right.clone();
    rate_histograms::combine(&mut result, &left, Subtraction, call, at, note)?;
    if counter
        && let Some(lost) = lost_in_resets(call, &edges, times_ms, values, &left, &right, at, note)?
    {
        rate_histograms::combine(&mut result, &lost, Addition, call, at, note)?;
    }
    if call.is_per_second() {
        result.divide(call.range_seconds);
    }
    result.reset_hint = ResetHint::Gauge;
    result.compact();
    Some(Value::Histogram(Arc::new(result)))
}

/// Returns the sum lost to resets strictly between the edges; the outer `None` means that the histograms do not add
/// up.
#[expect(
    clippy::too_many_arguments,
    reason = "everything known about the window"
)]
#[expect(
    clippy::option_option,
    reason = "nothing lost and not to be known are two things"
)]
fn lost_in_resets(
    call: &OverCall,
    edges: &Edges,
    times_ms: &[i64],
    values: &[Arc<Histogram>],
    left: &Histogram,
    right: &Histogram,
    at: &Place<'_>,
    note: &mut NoteSink<'_>,
) -> Option<Option<Histogram>> {
    let mut from = edges.first + 1;
    let mut before = left;
    // A reset within the interpolated stretch is already part of the interpolated value.
    if edges.interpolates_start(times_ms) && values[from].is_reset_after(&values[edges.first]) {
        before = &values[from];
        from += 1;
    }
    if from > edges.last {
        return Some(None);
    }
    let mut lost: Option<Histogram> = None;
    for h in values[from..edges.last].iter().map(|h| &**h).chain([right]) {
        if h.is_reset_after(before) {
            match &mut lost {
                None => lost = Some(before.clone()),
                Some(sum) => rate_histograms::combine(sum, before, Addition, call, at, note)?,
            }
        }
        before = h;
    }
    Some(lost)
}

/// Interpolates between two histograms at `t`; a counter that was reset starts from zero.
pub(crate) fn interpolate_histograms(
    a: (i64, &Histogram),
    b: (i64, &Histogram),
    t: i64,
    counter: bool,
    span: Span,
    note: &mut NoteSink<'_>,
) -> Result<Histogram, IncompatibleBuckets> {
    if t == a.0 {
        return Ok(a.1.clone());
    }
    let mut result = b.1.clone();
    if t == b.0 {
        return Ok(result);
    }
    #[expect(clippy::cast_precision_loss, reason = "differences stay below 2^53 ms")]
    let fraction = (t - a.0) as f64 / (b.0 - a.0) as f64;
    if counter && b.1.is_reset_after(a.1) {
        result.scale(fraction);
        return Ok(result);
    }
    if result.subtract(a.1)?.bounds_reconciled {
        note(Note::bounds_reconciled(Subtraction, span));
    }
    result.scale(fraction);
    if result.add(a.1)?.bounds_reconciled {
        note(Note::bounds_reconciled(Addition, span));
    }
    Ok(result)
}
