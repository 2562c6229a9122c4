//! Sums and averages over a window's histograms.
//!
//! **Invariant:** sums are compensated; conflicting reset hints and reconciled bounds are noted once.

use super::{
    FunctionId,
    window::{NoteSink, OverCall, Place, Window},
};
use crate::{
    eval::Value,
    notes::{HistogramOperation, Note},
};
use narthex_model::{
    Histogram,
    histogram::{HistogramSum, IncompatibleBuckets, ResetHint},
};
use std::sync::Arc;

/// Computes the sum or the average.
pub(super) fn fold(
    call: &OverCall,
    window: &Window<'_>,
    at: &Place<'_>,
    note: &mut NoteSink<'_>,
) -> Option<Value> {
    let histograms = window.histograms.values;
    let (first, others) = histograms.split_first()?;
    let is_average = call.function == FunctionId::AvgOverTime;
    let mut fold = HistogramFold::new(is_average, (**first).clone());
    let mut reconciled = false;
    for h in others {
        let Ok(differed) = fold.add(h) else {
            note(Note::mixed_exponential_custom(&at.metric_name(), call.span));
            return None;
        };
        reconciled |= differed;
    }
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
    Some(Value::Histogram(Arc::new(fold.finish())))
}

/// A compensated sum or mean of histograms.
pub(crate) enum HistogramFold {
    Sum(Box<HistogramSum>),
    Mean(Box<HistogramMean>),
}

impl HistogramFold {
    pub(crate) fn new(is_average: bool, first: Histogram) -> Self {
        match is_average {
            true => Self::Mean(Box::new(HistogramMean::new(first))),
            false => Self::Sum(Box::new(HistogramSum::new(first))),
        }
    }

    /// Adds a histogram; reports whether custom bounds were reconciled.
    pub(crate) fn add(&mut self, h: &Histogram) -> Result<bool, IncompatibleBuckets> {
        match self {
            Self::Sum(sum) => sum.add(h).map(|notes| notes.bounds_reconciled),
            Self::Mean(mean) => mean.add(h),
        }
    }

    pub(crate) fn finish(self) -> Histogram {
        match self {
            Self::Sum(sum) => sum.finish(),
            Self::Mean(mean) => mean.finish(),
        }
    }
}

/// A compensated mean of histograms that does not overflow.
#[derive(Clone, Debug)]
pub(crate) struct HistogramMean {
    count: f64,
    sum: HistogramSum,
    running: bool,
}

impl HistogramMean {
    fn new(first: Histogram) -> Self {
        Self {
            count: 1.0,
            sum: HistogramSum::new(first),
            running: false,
        }
    }

    fn add(&mut self, h: &Histogram) -> Result<bool, IncompatibleBuckets> {
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

    fn finish(mut self) -> Histogram {
        if !self.running {
            self.sum.divide(self.count);
        }
        self.sum.finish()
    }
}
