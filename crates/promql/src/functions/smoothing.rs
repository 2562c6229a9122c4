//! `double_exponential_smoothing`.
//!
//! **Invariant:** both factors are strictly between 0 and 1.

use super::window::{NoteSink, OverCall, Place, Window};
use crate::{error::QueryError, eval::Value, notes::Note};

pub(super) fn double_exponential(
    call: &OverCall,
    window: &Window<'_>,
    at: &Place<'_>,
    note: &mut NoteSink<'_>,
) -> Result<Option<Value>, QueryError> {
    let (smoothing, trend) = (at.arg(0), at.arg(1));
    for (factor, name) in [(smoothing, "smoothing"), (trend, "trend")] {
        if factor <= 0.0 || factor >= 1.0 {
            let symbol = if name == "smoothing" { "sf" } else { "tf" };
            let text =
                format!("invalid {name} factor. Expected: 0 < {symbol} < 1, got: {factor:.6}");
            return Err(QueryError::Execution(text));
        }
    }
    let values = window.floats.values;
    if !values.is_empty() && !window.histograms.is_empty() {
        note(Note::histogram_ignored_in_range(
            &at.metric_name(),
            call.span,
        ));
    }
    let [first, second, ..] = values else {
        return Ok(None);
    };
    let (mut before, mut level, mut slope) = (0.0, *first, second - first);
    for (i, x) in values.iter().enumerate().skip(1) {
        if i > 1 {
            slope = trend * (level - before) + (1.0 - trend) * slope;
        }
        let next = smoothing * x + (1.0 - smoothing) * (level + slope);
        (before, level) = (level, next);
    }
    Ok(Some(Value::Float(level)))
}
