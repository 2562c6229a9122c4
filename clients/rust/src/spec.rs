//! What a metric declares: constant, and checked when it is registered.

use std::time::Duration;

use crate::visit::MetricType;

/// A metric's declaration; checked when it is registered.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) kind: MetricType,
    pub(crate) labels: &'static [&'static str],
    /// A histogram's bounds.
    pub(crate) bounds: &'static [f64],
    /// A summary's quantiles.
    pub(crate) quantiles: &'static [f64],
    /// How long an observation counts in a summary's quantiles, and in how many steps it ages.
    pub(crate) max_age: Duration,
    pub(crate) age_buckets: u32,
    /// A native histogram's resolution and limits.
    pub(crate) native: Option<NativeSpec>,
}

impl Spec {
    pub(crate) const fn new(name: &'static str, help: &'static str, kind: MetricType) -> Self {
        Self {
            name,
            help,
            kind,
            labels: &[],
            bounds: &[],
            quantiles: &[],
            max_age: Duration::ZERO,
            age_buckets: 0,
            native: None,
        }
    }
}

/// The part of [`NativeOptions`](crate::NativeOptions) that a classic histogram has not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NativeSpec {
    pub(crate) schema: i8,
    pub(crate) zero_threshold: f64,
    pub(crate) max_zero_threshold: f64,
    pub(crate) max_buckets: usize,
    pub(crate) min_reset: Duration,
}
