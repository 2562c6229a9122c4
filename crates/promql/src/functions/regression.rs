//! `deriv` and `predict_linear`: linear regression over a window's floats.
//!
//! **Invariant:** sums are compensated, and a constant series has slope 0 exactly.

use super::window::{NoteSink, OverCall, Place, View, Window};
use crate::{eval::Value, functions::FunctionId, math::kahan_add, notes::Note};
use narthex_model::cell::NAN;

pub(super) fn linear(
    call: &OverCall,
    window: &Window<'_>,
    at: &Place<'_>,
    note: &mut NoteSink<'_>,
) -> Option<Value> {
    let floats = &window.floats;
    if !floats.is_empty() && !window.histograms.is_empty() {
        note(Note::histogram_ignored_in_range(
            &at.metric_name(),
            call.span,
        ));
    }
    if floats.len() < 2 {
        return None;
    }
    let value = if call.function == FunctionId::Deriv {
        // An origin near the samples, so that large timestamps do not cost precision.
        line(floats, floats.times_ms[0]).0
    } else {
        let (slope, intercept) = line(floats, at.time_ms);
        slope * at.arg(0) + intercept
    };
    Some(Value::Float(value))
}

/// Returns the slope per second and the value at `origin_ms`.
fn line(floats: &View<'_, f64>, origin_ms: i64) -> (f64, f64) {
    let first = floats.values[0];
    if floats.values.iter().all(|y| *y == first) {
        return if first.is_infinite() {
            (NAN, NAN)
        } else {
            (0.0, first)
        };
    }
    let (mut x_sum, mut y_sum, mut xy_sum, mut xx_sum) =
        ((0.0, 0.0), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0));
    let mut count = 0.0;
    for (time_ms, y) in floats.times_ms.iter().zip(floats.values) {
        count += 1.0;
        #[expect(clippy::cast_precision_loss, reason = "differences stay below 2^53 ms")]
        let x = (time_ms - origin_ms) as f64 / 1e3;
        x_sum = kahan_add(x, x_sum.0, x_sum.1);
        y_sum = kahan_add(*y, y_sum.0, y_sum.1);
        xy_sum = kahan_add(x * y, xy_sum.0, xy_sum.1);
        xx_sum = kahan_add(x * x, xx_sum.0, xx_sum.1);
    }
    let (x, y, xy, xx) = (
        x_sum.0 + x_sum.1,
        y_sum.0 + y_sum.1,
        xy_sum.0 + xy_sum.1,
        xx_sum.0 + xx_sum.1,
    );
    let slope = (xy - x * y / count) / (xx - x * x / count);
    (slope, y / count - slope * x / count)
}
