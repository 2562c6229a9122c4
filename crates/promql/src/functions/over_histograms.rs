//! Sums and averages over a window's histograms.
//!
//! **Invariant:** sums are compensated; conflicting reset hints and reconciled bounds are noted once.

use super::window::{NoteSink, OverCall, Place, Window};
use crate::{
    eval::Value,
    notes::{HistogramOperation, Note},
};
use narthex_model::{
    Histogram,
    histogram::{HistogramSum, IncompatibleBuckets, ResetHint},
};
use std::sync::Arc;

pub(super) fn sum(
    call: &OverCall,
    window: &Window<'_>,
    at: &Place<'_>,
    note: &mut NoteSink<'_>,
) -> Option<Value> {
    aggregate(call, window, at, note, |histograms, reconciled| {
        let mut sum = HistogramSum::new((*histograms[0]).clone());
        for h in &histograms[1..] {
            *reconciled |= sum.add(h)?.bounds_reconciled;
        }
        Ok(sum.finish())
    })
}

pub(super) fn average(
    call: &OverCall,
    window: &Window<'_>,
    at: &Place<'_>,
    note: &mut NoteSink<'_>,
) -> Option<Value> {
    aggregate(call, window, at, note, |histograms, reconciled| {
        let mut mean = HistogramMean::new((*histograms[0]).clone());
        for h in &histograms[1..] {
            *reconciled |= mean.add(h)?;
        }
        Ok(mean.finish())
    })
}

fn aggregate(
    call: &OverCall,
    window: &Window<'_>,
    at: &Place<'_>,
    note: &mut NoteSink<'_>,
    combine: impl FnOnce(&[Arc<Histogram>], &mut bool) -> Result<Histogram, IncompatibleBuckets>,
) -> Option<Value> {
    let histograms = window.histograms.values;
    let mut reconciled = false;
    let Ok(result) = combine(histograms, &mut reconciled) else {
        note(Note::mixed_exponential_custom(&at.metric_name(), call.span));
        return None;
    };
    let any = |hint| histograms.iter().any(|h| h.reset_hint == hint);
    if any(ResetHint::Reset) && any(ResetHint::NotReset) {
        note(Note::reset_conflict(
            HistogramOperation::Aggregation,
            call.span,
        ));
    }
    if reconciled {
        note(Note::bounds_reconciled(
            HistogramOperation::Aggregation,
            call.span,
        ));
    }
    Some(Value::Histogram(Arc::new(result)))
}

/// A compensated mean of histograms that does not overflow.
#[derive(Clone, Debug)]
pub(crate) struct HistogramMean {
    count: f64,
    sum: HistogramSum,
    running: bool,
}

impl HistogramMean {
    pub(crate) fn new(first: Histogram) -> Self {
        Self {
            count: 1.0,
            sum: HistogramSum::new(first),
            running: false,
        }
    }

    /// Adds a histogram; reports whether custom bounds were reconciled.
    pub(crate) fn add(&mut self, h: &Histogram) -> Result<bool, IncompatibleBuckets> {
        self.count += 1.0;
        if !self.running {
            let mut sum = self.sum.clone();
            let notes = sum.add(h)?;
            if !sum.value.has_overflow() {
                self.sum = sum;
                return Ok(notes.bounds_reconciled);
            }
            self.running = true;
            self.sum.divide(self.count - 1.0);
        }
        self.sum.scale((self.count - 1.0) / self.count);
        let mut share = h.clone();
        share.divide(self.count);
        self.sum.add(&share).map(|notes| notes.bounds_reconciled)
    }

    pub(crate) fn finish(mut self) -> Histogram {
        if !self.running {
            self.sum.divide(self.count);
        }
        self.sum.finish()
    }
}
