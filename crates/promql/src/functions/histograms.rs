//! Functions of one native histogram.
//!
//! **Invariant:** an empty histogram divides by zero, as in Prometheus: the results are NaN.

use super::FunctionId;
use crate::math::kahan_add;
use narthex_model::Histogram;

/// Returns the function of a histogram for `id`.
pub(crate) fn function(id: FunctionId) -> Option<fn(&Histogram) -> f64> {
    use FunctionId as F;
    Some(match id {
        F::HistogramCount => |h| h.count,
        F::HistogramSum => |h| h.sum,
        F::HistogramAvg => |h| h.sum / h.count,
        F::HistogramStdvar => variance,
        F::HistogramStddev => |h| variance(h).sqrt(),
        _ => return None,
    })
}

/// Estimates the variance, representing each bucket by its middle.
fn variance(h: &Histogram) -> f64 {
    let mean = h.sum / h.count;
    let (mut sum, mut lost) = (0.0, 0.0);
    for bucket in h.buckets().iter().filter(|b| b.count != 0.0) {
        let middle = if h.uses_custom_buckets() {
            (bucket.upper + bucket.lower) / 2.0
        } else if bucket.lower <= 0.0 && bucket.upper >= 0.0 {
            0.0
        } else {
            let middle = (bucket.upper * bucket.lower).sqrt();
            if bucket.upper < 0.0 { -middle } else { middle }
        };
        let delta = middle - mean;
        (sum, lost) = kahan_add(bucket.count * delta * delta, sum, lost);
    }
    (sum + lost) / h.count
}
