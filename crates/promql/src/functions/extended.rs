//! `rate`, `increase` and `delta` with `anchored` and `smoothed`.
//!
//! **Invariant:** the result covers exactly the range: its edges are the adjacent samples (anchored) or interpolated
//! (smoothed), and nothing is extrapolated.

use super::{
    rate_histograms,
    window::{NoteSink, OverCall, Place, View, Window},
};
use crate::{
    ast::Extension,
    eval::Value,
    notes::{HistogramOperation, Note},
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
        if times_ms[last] <= start_ms || (smoothed && times_ms[first] > end_ms) {
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

    fn interpolates_start(&self, times_ms: &[i64]) -> bool {
        self.smoothed && times_ms[self.first] < self.start_ms
    }

    fn interpolates_end(&self, times_ms: &[i64]) -> bool {
        self.smoothed && self.last > 0 && times_ms[self.last] > self.end_ms
    }
}

fn floats(call: &OverCall, window: &Window<'_>, at: &Place<'_>) -> Option<Value> {
    let View {
        times_ms, values, ..
    } = window.floats;
    let edges = Edges::new(call, times_ms, at.end_ms)?;
    let counter = call.is_counter();
    let (left, right) = float_edges(&edges, times_ms, values, counter);
    let mut result = right - left;
    if counter {
        let from = edges.first + usize::from(times_ms[edges.first] <= edges.start_ms);
        let to = edges.last + usize::from(times_ms[edges.last] < edges.end_ms);
        let mut before = left;
        for x in values
            .get(from..to)
            .unwrap_or_default()
            .iter()
            .chain([&right])
        {
            if *x < before {
                result += before;
            }
            before = *x;
        }
    }
    if call.is_per_second() {
        result /= call.range_seconds;
    }
    Some(Value::Float(result))
}

fn float_edges(edges: &Edges, times_ms: &[i64], values: &[f64], counter: bool) -> (f64, f64) {
    let between = |i: usize, t: i64| {
        interpolate(
            (times_ms[i], values[i]),
            (times_ms[i + 1], values[i + 1]),
            t,
            counter,
        )
    };
    let left = if edges.interpolates_start(times_ms) {
        between(edges.first, edges.start_ms)
    } else {
        values[edges.first]
    };
    let right = if edges.interpolates_end(times_ms) {
        between(edges.last - 1, edges.end_ms)
    } else {
        values[edges.last]
    };
    (left, right)
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
    let Some(last) = times_ms.len().checked_sub(1) else {
        return Vec::new();
    };
    let head = &times_ms[..last];
    let first = head.partition_point(|t| *t <= start_ms).saturating_sub(1);
    let last = if smoothed {
        head.partition_point(|t| *t < end_ms)
    } else {
        last
    };
    if times_ms[last] <= start_ms {
        return Vec::new();
    }
    let edges = Edges {
        start_ms,
        end_ms,
        first,
        last,
        smoothed,
    };
    let (left, right) = float_edges(&edges, times_ms, values, false);
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
    match result.subtract(&left) {
        Err(_) => {
            note(Note::mixed_exponential_custom(&at.metric_name(), call.span));
            return None;
        }
        Ok(notes) if notes.bounds_reconciled => {
            note(Note::bounds_reconciled(
                HistogramOperation::Subtraction,
                call.span,
            ));
        }
        Ok(_) => {}
    }
    if counter
        && let Some(lost) = lost_in_resets(call, &edges, times_ms, values, &left, &right, at, note)?
    {
        rate_histograms::add(&mut result, &lost, call, at, note)?;
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
                Some(sum) => rate_histograms::add(sum, before, call, at, note)?,
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
        note(Note::bounds_reconciled(
            HistogramOperation::Subtraction,
            span,
        ));
    }
    result.scale(fraction);
    if result.add(a.1)?.bounds_reconciled {
        note(Note::bounds_reconciled(HistogramOperation::Addition, span));
    }
    Ok(result)
}
