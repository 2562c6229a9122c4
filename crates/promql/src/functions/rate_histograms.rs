//! The increase of native histograms over a window.
//!
//! **Invariant:** the result is a compacted gauge; resets between samples are compensated, and incompatible
//! histograms give a warning instead of a result.

use super::window::{NoteSink, OverCall, Place, View};
use crate::notes::{
    HistogramOperation::{self, Addition, Subtraction},
    Note,
};
use narthex_model::{Histogram, histogram::ResetHint};
use std::{borrow::Cow, sync::Arc};

/// Returns the increase from the first to the last of at least two histograms.
pub(super) fn increase(
    call: &OverCall,
    histograms: &View<'_, Arc<Histogram>>,
    at: &Place<'_>,
    note: &mut NoteSink<'_>,
) -> Option<Histogram> {
    let counter = call.is_counter();
    let values = histograms.values;
    let (first, second, last) = (values.first()?, values.get(1)?, values.last()?);
    let name = || at.metric_name();
    let gauge = |h: &Histogram| h.reset_hint == ResetHint::Gauge;
    if counter && (gauge(first) || gauge(last)) {
        note(Note::histogram_not_counter(&name(), call.span));
    }
    let resets_at = |i: usize, before: &Histogram| {
        histograms.restarts_at(i) || values[i].is_reset_after(before)
    };
    // After a reset right behind the first histogram, its layout does not matter.
    let mut before = Cow::Borrowed(&**first);
    if counter && resets_at(1, first) {
        before = Cow::Owned(Histogram {
            histogram_schema: second.histogram_schema,
            custom_values: second.custom_values.clone(),
            ..Histogram::default()
        });
    }
    let custom = before.uses_custom_buckets();
    let mixed = |note: &mut NoteSink<'_>| {
        note(Note::mixed_exponential_custom(&name(), call.span));
        None
    };
    if last.uses_custom_buckets() != custom {
        return mixed(note);
    }
    let mut lowest = last.histogram_schema.min(before.histogram_schema);
    if counter {
        for h in &values[1..values.len() - 1] {
            if gauge(h) {
                note(Note::histogram_not_counter(&name(), call.span));
            }
            if h.uses_custom_buckets() != custom {
                return mixed(note);
            }
            lowest = lowest.min(h.histogram_schema);
        }
    }
    let mut result = last.at_schema(lowest);
    combine(&mut result, &before, Subtraction, call, at, note)?;
    if counter {
        make_up_for_resets(call, histograms, &before, &mut result, at, note, resets_at)?;
    } else if !gauge(first) || !gauge(last) {
        note(Note::histogram_not_gauge(&name(), call.span));
    }
    result.reset_hint = ResetHint::Gauge;
    result.compact();
    Some(result)
}

fn make_up_for_resets(
    call: &OverCall,
    histograms: &View<'_, Arc<Histogram>>,
    first: &Histogram,
    result: &mut Histogram,
    at: &Place<'_>,
    note: &mut NoteSink<'_>,
    resets_at: impl Fn(usize, &Histogram) -> bool,
) -> Option<()> {
    let mut overlap = false;
    let mut before = first;
    for (i, h) in histograms.values.iter().enumerate().skip(1) {
        overlap |= histograms.overlaps_at(i);
        if resets_at(i, before) {
            combine(result, before, Addition, call, at, note)?;
        }
        before = h;
    }
    if overlap {
        note(Note::start_time_overlap(&at.metric_name(), call.span));
    }
    Some(())
}

/// Adds `other` to `sum`, or subtracts it; incompatible buckets give a warning and `None`.
pub(super) fn combine(
    sum: &mut Histogram,
    other: &Histogram,
    operation: HistogramOperation,
    call: &OverCall,
    at: &Place<'_>,
    note: &mut NoteSink<'_>,
) -> Option<()> {
    let combined = match operation {
        Subtraction => sum.subtract(other),
        _ => sum.add(other),
    };
    let Ok(notes) = combined else {
        note(Note::mixed_exponential_custom(&at.metric_name(), call.span));
        return None;
    };
    if notes.bounds_reconciled {
        note(Note::bounds_reconciled(operation, call.span));
    }
    Some(())
}
