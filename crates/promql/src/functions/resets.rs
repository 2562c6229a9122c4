//! `resets` and `changes`: counts of differences between adjacent samples.
//!
//! **Invariant:** floats and histograms are one sequence in time; a transition between a float and a histogram is
//! always both a reset and a change.

use super::window::{OverCall, Place, Point, Timed, Window};
use crate::{ast::Extension, eval::Value};

pub(super) fn resets(call: &OverCall, window: &Window<'_>, at: &Place<'_>) -> Option<Value> {
    count_pairs(call, window, at, |before, after| {
        match (before.value, after.value) {
            (Point::Float(x), Point::Float(y)) => y < x || after.restarts_after(before),
            (Point::Histogram(x), Point::Histogram(y)) => {
                after.restarts_after(before) || y.is_reset_after(x)
            }
            _ => true,
        }
    })
}

pub(super) fn changes(call: &OverCall, window: &Window<'_>, at: &Place<'_>) -> Option<Value> {
    count_pairs(call, window, at, |before, after| {
        match (before.value, after.value) {
            (Point::Float(x), Point::Float(y)) => x != y && !(x.is_nan() && y.is_nan()),
            (Point::Histogram(x), Point::Histogram(y)) => !x.same_data(y),
            _ => true,
        }
    })
}

fn count_pairs(
    call: &OverCall,
    window: &Window<'_>,
    at: &Place<'_>,
    differs: impl Fn(&Timed<'_>, &Timed<'_>) -> bool,
) -> Option<Value> {
    let window = if call.extension == Extension::Anchored {
        anchored(window, at.end_ms.saturating_sub(call.range_ms))?
    } else {
        *window
    };
    let (floats, histograms) = (&window.floats, &window.histograms);
    let (mut f, mut h) = (0, 0);
    let mut next = || {
        let float_first = match (floats.times_ms.get(f), histograms.times_ms.get(h)) {
            (Some(a), Some(b)) => a < b,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => return None,
        };
        Some(if float_first {
            f += 1;
            floats.timed(f - 1, |x| Point::Float(*x))
        } else {
            h += 1;
            histograms.timed(h - 1, Point::Histogram)
        })
    };
    let mut before = next()?;
    let mut count = 0.0;
    while let Some(after) = next() {
        count += f64::from(differs(&before, &after));
        before = after;
    }
    Some(Value::Float(count))
}

/// Keeps the newest sample at or before the range's start, of either kind, and all later ones.
fn anchored<'a>(window: &Window<'a>, start_ms: i64) -> Option<Window<'a>> {
    let (floats, histograms) = (window.floats, window.histograms);
    let f = floats.times_ms.partition_point(|t| *t <= start_ms);
    let h = histograms.times_ms.partition_point(|t| *t <= start_ms);
    if f >= floats.len() && h >= histograms.len() {
        return None;
    }
    let (from_f, from_h) = match (f, h) {
        (0, 0) => (0, 0),
        (_, 0) => (f - 1, h),
        (0, _) => (f, h - 1),
        _ if floats.times_ms[f - 1] >= histograms.times_ms[h - 1] => (f - 1, h),
        _ => (f, h - 1),
    };
    Some(Window {
        floats: floats.from(from_f),
        histograms: histograms.from(from_h),
    })
}
