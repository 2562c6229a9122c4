//! Aggregations over a window's floats.
//!
//! **Invariant:** plain functions over slices; sums are compensated wherever Prometheus compensates them.

use super::{
    quantile::quantile,
    window::{View, Window},
};
use crate::{
    eval::Value,
    math::{kahan_add, seconds},
};
use narthex_model::{Histogram, cell::NAN};
use std::sync::Arc;

pub(super) fn sum(values: &[f64]) -> f64 {
    let (sum, lost) = values
        .iter()
        .fold((0.0, 0.0), |(sum, lost), x| kahan_add(*x, sum, lost));
    if sum.is_infinite() { sum } else { sum + lost }
}

/// Returns the mean: the sum divided by the count or, once the sum would overflow, a running mean.
pub(super) fn average(values: &[f64]) -> f64 {
    let mut mean = Mean::new(values.first().copied().unwrap_or(NAN));
    values.iter().skip(1).for_each(|x| mean.add(*x));
    mean.finish()
}

/// A compensated mean that does not overflow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mean {
    count: f64,
    /// The sum, or the mean once `running`.
    value: f64,
    lost: f64,
    running: bool,
}

impl Mean {
    pub(crate) fn new(first: f64) -> Self {
        Self::of_sum(1.0, first, 0.0)
    }

    /// Returns the mean of `count` values with a compensated sum that has not become infinite.
    pub(crate) fn of_sum(count: f64, value: f64, lost: f64) -> Self {
        Self {
            count,
            value,
            lost,
            running: false,
        }
    }

    /// Returns the compensated sum, unless it would be infinite.
    pub(crate) fn sum(&self) -> Option<(f64, f64)> {
        (!self.running).then_some((self.value, self.lost))
    }

    pub(crate) fn add(&mut self, x: f64) {
        self.count += 1.0;
        if !self.running {
            let (sum, lost) = kahan_add(x, self.value, self.lost);
            if !sum.is_infinite() {
                (self.value, self.lost) = (sum, lost);
                return;
            }
            self.running = true;
            self.value /= self.count - 1.0;
            self.lost /= self.count - 1.0;
        }
        let share = (self.count - 1.0) / self.count;
        (self.value, self.lost) = kahan_add(x / self.count, share * self.value, share * self.lost);
    }

    pub(crate) fn finish(self) -> f64 {
        if self.running {
            self.value + self.lost
        } else {
            self.value / self.count + self.lost / self.count
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts stay below 2^53")]
pub(super) fn count(count: usize) -> f64 {
    count as f64
}

pub(super) fn variance(values: &[f64]) -> f64 {
    let (mut count, mut mean, mut mean_lost, mut sum, mut sum_lost) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for x in values {
        count += 1.0;
        let delta = x - (mean + mean_lost);
        (mean, mean_lost) = kahan_add(delta / count, mean, mean_lost);
        (sum, sum_lost) = kahan_add(delta * (x - (mean + mean_lost)), sum, sum_lost);
    }
    (sum + sum_lost) / count
}

/// Returns the time in seconds and the value of the sample that beats all others; every number beats NaN.
pub(super) fn extreme(floats: &View<'_, f64>, beats: impl Fn(f64, f64) -> bool) -> (f64, f64) {
    let mut best = (floats.times_ms[0], floats.values[0]);
    for (time_ms, x) in floats.times_ms.iter().zip(floats.values) {
        if beats(*x, best.1) || best.1.is_nan() {
            best = (*time_ms, *x);
        }
    }
    (seconds(best.0), best.1)
}

pub(super) fn median_deviation(values: &[f64]) -> f64 {
    if values.iter().any(|x| x.is_nan()) {
        return NAN;
    }
    let mut sorted = values.to_vec();
    let median = quantile(0.5, &mut sorted);
    sorted.iter_mut().for_each(|x| *x = (*x - median).abs());
    quantile(0.5, &mut sorted)
}

pub(super) fn first(window: &Window<'_>) -> Option<Value> {
    let (floats, histograms) = (&window.floats, &window.histograms);
    match (floats.times_ms.first(), histograms.times_ms.first()) {
        (Some(f), Some(h)) if f >= h => histogram(histograms.values.first()),
        (Some(_), _) => floats.values.first().map(|x| Value::Float(*x)),
        (None, _) => histogram(histograms.values.first()),
    }
}

pub(super) fn last(window: &Window<'_>) -> Option<Value> {
    let (floats, histograms) = (&window.floats, &window.histograms);
    match (floats.times_ms.last(), histograms.times_ms.last()) {
        (Some(f), Some(h)) if h >= f => histogram(histograms.values.last()),
        (Some(_), _) => floats.values.last().map(|x| Value::Float(*x)),
        (None, _) => histogram(histograms.values.last()),
    }
}

fn histogram(h: Option<&Arc<Histogram>>) -> Option<Value> {
    h.map(|h| Value::Histogram(Arc::clone(h)))
}

pub(super) fn time_of_first(window: &Window<'_>) -> Option<Value> {
    let (floats, histograms) = (window.floats.times_ms, window.histograms.times_ms);
    let first = floats.first().into_iter().chain(histograms.first()).min();
    first.map(|ms| Value::Float(seconds(*ms)))
}

pub(super) fn time_of_last(window: &Window<'_>) -> Option<Value> {
    let (floats, histograms) = (window.floats.times_ms, window.histograms.times_ms);
    let last = floats.last().into_iter().chain(histograms.last()).max();
    // As in Prometheus, samples before the epoch count as the epoch.
    last.map(|ms| Value::Float(seconds((*ms).max(0))))
}
