//! Quantiles and fractions of classic histograms.
//!
//! **Invariant:** before interpolation, bounds ascend and counts never decrease; the highest bound must be +Inf, or
//! there is no result.

use crate::notes::Monotonicity;
use narthex_model::cell::NAN;

/// A cumulative bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bucket {
    pub(crate) upper: f64,
    pub(crate) count: f64,
}

/// Differences this small relative to the counts are rounding errors, not observations.
const TOLERANCE: f64 = 1e-12;

/// Parses the value of `le`.
pub(super) fn parse_bound(text: &str) -> Option<f64> {
    // Rust also accepts "infinity" in any case, as Go does, but Go accepts no sign before NaN.
    if text.is_empty() || text.trim() != text {
        None
    } else {
        text.parse().ok()
    }
}

/// Returns the `q`-quantile, and the corrections needed to make the counts monotonic.
pub(super) fn quantile(q: f64, buckets: &mut Vec<Bucket>) -> (f64, Option<Monotonicity>) {
    if q.is_nan() {
        return (NAN, None);
    }
    if q < 0.0 {
        return (f64::NEG_INFINITY, None);
    }
    if q > 1.0 {
        return (f64::INFINITY, None);
    }
    if !prepare(buckets) {
        return (NAN, None);
    }
    let bent = make_monotonic(buckets);
    let [.., _, last] = buckets.as_slice() else {
        return (NAN, bent);
    };
    let observations = last.count;
    if observations == 0.0 {
        return (NAN, bent);
    }
    let mut rank = q * observations;
    let top = buckets.len() - 1;
    let at =
        buckets[..top].partition_point(|b| b.count < rank || b.count.is_nan() || rank.is_nan());
    if at == top {
        return (buckets[top - 1].upper, bent);
    }
    if at == 0 && buckets[0].upper <= 0.0 {
        return (buckets[0].upper, bent);
    }
    let (mut lower, upper, mut count) = (0.0, buckets[at].upper, buckets[at].count);
    if at > 0 {
        lower = buckets[at - 1].upper;
        count -= buckets[at - 1].count;
        rank -= buckets[at - 1].count;
    }
    (lower + (upper - lower) * (rank / count), bent)
}

/// Returns the fraction of observations between two values.
pub(super) fn fraction(lower: f64, upper: f64, buckets: &mut Vec<Bucket>) -> f64 {
    if !prepare(buckets) {
        return NAN;
    }
    let count = buckets[buckets.len() - 1].count;
    if count == 0.0 || lower.is_nan() || upper.is_nan() {
        return NAN;
    }
    if lower >= upper {
        return 0.0;
    }
    // With a positive first bound, no observation was negative.
    let first = if buckets[0].upper <= 0.0 {
        f64::NEG_INFINITY
    } else {
        0.0
    };
    let rank_of = |value: f64| {
        let (mut rank, mut from) = (0.0, first);
        for bucket in buckets.iter() {
            if from >= value {
                return rank;
            }
            if bucket.upper > value {
                // The lowest bucket has no width to interpolate over.
                return if from == f64::NEG_INFINITY {
                    bucket.count
                } else {
                    rank + (bucket.count - rank) * (value - from) / (bucket.upper - from)
                };
            }
            (rank, from) = (bucket.count, bucket.upper);
        }
        count
    };
    (rank_of(upper).min(count) - rank_of(lower).min(count)) / count
}

/// Sorts, merges equal bounds, and reports whether the highest bound is +Inf.
fn prepare(buckets: &mut Vec<Bucket>) -> bool {
    buckets.sort_by(|a, b| {
        a.upper
            .partial_cmp(&b.upper)
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    if buckets.last().is_none_or(|b| b.upper != f64::INFINITY) {
        return false;
    }
    buckets.dedup_by(|next, kept| {
        let same = next.upper == kept.upper;
        if same {
            kept.count += next.count;
        }
        same
    });
    true
}

fn make_monotonic(buckets: &mut [Bucket]) -> Option<Monotonicity> {
    let mut bent: Option<Monotonicity> = None;
    let mut before = buckets.first()?.count;
    for bucket in buckets.iter_mut().skip(1) {
        if bucket.count == before {
            continue;
        }
        if almost_equal(before, bucket.count, TOLERANCE) {
            bucket.count = before;
        } else if bucket.count < before {
            let difference = before - bucket.count;
            bucket.count = before;
            let m = bent.get_or_insert(Monotonicity {
                min_bucket: f64::INFINITY,
                max_bucket: f64::NEG_INFINITY,
                max_diff: 0.0,
            });
            m.min_bucket = m.min_bucket.min(bucket.upper);
            m.max_bucket = m.max_bucket.max(bucket.upper);
            m.max_diff = m.max_diff.max(difference);
        } else {
            before = bucket.count;
        }
    }
    bent
}

/// Reports whether two floats differ by less than `epsilon` of their sum.
pub(crate) fn almost_equal(a: f64, b: f64, epsilon: f64) -> bool {
    if narthex_model::cell::is_stale(a) || narthex_model::cell::is_stale(b) {
        return narthex_model::cell::is_stale(a) && narthex_model::cell::is_stale(b);
    }
    if (a.is_nan() && b.is_nan()) || a == b {
        return true;
    }
    let (sum, difference) = (a.abs() + b.abs(), (a - b).abs());
    if a == 0.0 || b == 0.0 || sum < f64::MIN_POSITIVE {
        return difference < epsilon * f64::MIN_POSITIVE;
    }
    difference / sum.min(f64::MAX) < epsilon
}
