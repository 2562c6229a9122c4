//! Instant selectors with `smoothed`: interpolation between the samples around an instant.
//!
//! **Invariant:** samples are searched within the lookback on both sides; after the last sample its value continues.

use super::{Block, Eval, Outcome, Sink, Value, scan::Part, select};
use crate::{
    functions::extended::{interpolate, interpolate_histograms},
    functions::window::Samples,
    notes::Note,
    plan::{Select, Steps},
    span::Span,
};
use narthex_model::{
    Histogram,
    cell::{self, ABSENT},
    histogram::ResetHint,
    storage::{Batch, TimeRange},
};
use std::sync::Arc;

impl Eval<'_> {
    pub(super) fn stream_smoothed(
        &self,
        select: &Select,
        span: Span,
        batches: &[Arc<dyn Batch>],
        steps: Steps,
        sink: &mut Sink<'_>,
    ) -> Outcome<()> {
        let lookback_ms = self.rules.lookback_ms;
        let references: Vec<i64> = steps.times_ms().map(|t| select.reference_ms(t)).collect();
        let (Some(first), Some(last)) = (references.first(), references.last()) else {
            return Ok(());
        };
        let range = TimeRange::new(
            first.saturating_sub(lookback_ms) + 1,
            last.saturating_add(lookback_ms),
        );
        let _steps = self.memory.room_for_steps(steps.count)?;
        let reach: Vec<i64> = references
            .iter()
            .map(|t| t.saturating_add(lookback_ms))
            .collect();
        let read = |eval: &Eval<'_>, part: &Part<'_>| {
            let windows = select::windows(&part.tile.times_ms, &reach, 2 * lookback_ms);
            let mut pace = self.ctx.stop.pace();
            let mut block = Block::new(steps.count);
            block.series = part.series();
            let mut samples = Samples::default();
            for (at, series) in block.series.iter().enumerate() {
                let (tile, name) = (part.tile, || series.metric_name());
                let axis = (&*tile.times_ms, &[][..]);
                samples.gather(axis, tile.series_cells(at), &tile.histograms, Arc::clone);
                for (rows, reference) in windows.iter().zip(&references) {
                    let window = samples.window(rows);
                    pace.spend(8 + window.work() / window.len().max(1))?;
                    let mut note = |note: Note| eval.notes().add(note);
                    let (floats, histograms) = (window.floats, window.histograms);
                    let value = if window.is_mixed() {
                        note(Note::mixed_floats_histograms(&name(), span));
                        None
                    } else if floats.is_empty() {
                        let (times_ms, values) = (histograms.times_ms, histograms.values);
                        histogram_at(times_ms, values, *reference, span, &name, &mut note)
                    } else {
                        float_at(floats.times_ms, floats.values, *reference).map(Value::Float)
                    };
                    block.cells.push(match value {
                        None => ABSENT,
                        Some(Value::Float(x)) => x,
                        Some(Value::Histogram(h)) => cell::push_histogram(&mut block.histograms, h),
                    });
                }
            }
            block.drop_empty_rows();
            Ok(block)
        };
        let emit = |block| self.emit(block, sink);
        self.scan(batches, range, steps.count, read, emit)
    }
}

fn float_at(times_ms: &[i64], values: &[f64], t: i64) -> Option<f64> {
    let next = times_ms.partition_point(|time| *time < t);
    if times_ms.get(next) == Some(&t) {
        return values.get(next).copied();
    }
    let before = next.checked_sub(1)?;
    match values.get(next) {
        Some(x) => Some(interpolate(
            (times_ms[before], values[before]),
            (times_ms[next], *x),
            t,
            false,
        )),
        None => values.get(before).copied(),
    }
}

fn histogram_at(
    times_ms: &[i64],
    values: &[Arc<Histogram>],
    t: i64,
    span: Span,
    name: &dyn Fn() -> String,
    note: &mut dyn FnMut(Note),
) -> Option<Value> {
    let next = times_ms.partition_point(|time| *time < t);
    if times_ms.get(next) == Some(&t) {
        return values.get(next).map(|h| Value::Histogram(Arc::clone(h)));
    }
    let before = next.checked_sub(1)?;
    let a = &values[before];
    let Some(b) = values.get(next) else {
        // The hint relates the sample to its predecessor, not to this instant.
        let held = Histogram {
            reset_hint: ResetHint::Unknown,
            ..(**a).clone()
        };
        return Some(Value::Histogram(Arc::new(held)));
    };
    if a.uses_custom_buckets() != b.uses_custom_buckets() {
        note(Note::mixed_exponential_custom(&name(), span));
        return None;
    }
    let counter = a.reset_hint != ResetHint::Gauge || b.reset_hint != ResetHint::Gauge;
    match interpolate_histograms(
        (times_ms[before], a),
        (times_ms[next], b),
        t,
        counter,
        span,
        note,
    ) {
        Ok(h) => Some(Value::Histogram(Arc::new(h))),
        Err(_) => {
            note(Note::mixed_exponential_custom(&name(), span));
            None
        }
    }
}
