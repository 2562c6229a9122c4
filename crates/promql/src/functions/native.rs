//! Quantiles and fractions of native histograms.
//!
//! **Invariant:** interpolation is linear in the zero bucket and in custom buckets, else on a logarithmic scale.

use crate::{notes::Note, span::Span};
use narthex_model::{
    Histogram,
    cell::NAN,
    histogram::Bucket,
    math::{exp2, log2},
};

/// Returns the `q`-quantile.
pub(super) fn quantile(
    q: f64,
    h: &Histogram,
    name: &str,
    span: Span,
    note: &mut dyn FnMut(Note),
) -> f64 {
    if q < 0.0 {
        return f64::NEG_INFINITY;
    }
    if q > 1.0 {
        return f64::INFINITY;
    }
    if h.count == 0.0 || q.is_nan() {
        return NAN;
    }
    // NaN observations are in no bucket, so with them only counting from below finds the rank.
    let forward = h.sum.is_nan() || q < 0.5;
    let mut buckets = h.buckets();
    let mut rank = if forward {
        q * h.count
    } else {
        (1.0 - q) * h.count
    };
    if !forward {
        buckets.reverse();
    }
    let (mut bucket, mut count, used) = reach(&buckets, rank);
    let custom = h.uses_custom_buckets();
    if custom {
        if bucket.lower == f64::NEG_INFINITY {
            if bucket.upper <= 0.0 {
                return bucket.upper;
            }
            bucket.lower = 0.0;
        } else if bucket.upper == f64::INFINITY {
            return bucket.lower;
        }
    } else if bucket.lower < 0.0 && bucket.upper > 0.0 {
        bucket = one_sided(h, bucket);
    }
    // Rounding may raise the sum of buckets above the count.
    count = count.min(h.count);
    if count < rank {
        if h.sum.is_nan() {
            note(Note::quantile_of_nan(name, span));
            return NAN;
        }
        return bucket.upper;
    }
    rank = if forward {
        rank - (count - bucket.count)
    } else {
        count - rank
    };
    if h.sum.is_nan() {
        // Count the rest to distinguish NaN observations from infinities of both signs.
        count += buckets[used..].iter().map(|b| b.count).sum::<f64>();
        if count < h.count {
            note(Note::quantile_skewed_by_nan(name, span));
        }
    }
    interpolate(bucket, rank / bucket.count, custom)
}

/// Counts buckets up to `rank` observations; returns the last bucket, the count, and the number of buckets.
fn reach(buckets: &[Bucket], rank: f64) -> (Bucket, f64, usize) {
    let (mut bucket, mut count, mut used) = (Bucket::default(), 0.0, 0);
    for b in buckets {
        used += 1;
        bucket = *b;
        if b.count == 0.0 {
            continue;
        }
        count += b.count;
        if count >= rank {
            break;
        }
    }
    (bucket, count, used)
}

/// Returns the value below which a fraction of a bucket's observations is assumed to be.
fn interpolate(bucket: Bucket, fraction: f64, linear: bool) -> f64 {
    if linear || (bucket.lower <= 0.0 && bucket.upper >= 0.0) {
        return bucket.lower + (bucket.upper - bucket.lower) * fraction;
    }
    // Within an exponential bucket, observations are assumed to be spread evenly over the exponents.
    let (lower, upper) = (log2(bucket.lower.abs()), log2(bucket.upper.abs()));
    if bucket.lower > 0.0 {
        exp2(lower + (upper - lower) * fraction)
    } else {
        -exp2(upper + (lower - upper) * (1.0 - fraction))
    }
}

/// Cuts the zero bucket at zero if all observations have the same sign.
fn one_sided(h: &Histogram, mut bucket: Bucket) -> Bucket {
    match (h.negative_buckets.is_empty(), h.positive_buckets.is_empty()) {
        (true, false) => bucket.lower = 0.0,
        (false, true) => bucket.upper = 0.0,
        _ => {}
    }
    bucket
}

/// Returns the fraction of observations between two values.
pub(super) fn fraction(
    lower: f64,
    upper: f64,
    h: &Histogram,
    name: &str,
    span: Span,
    note: &mut dyn FnMut(Note),
) -> f64 {
    if h.count == 0.0 || lower.is_nan() || upper.is_nan() {
        return NAN;
    }
    if lower >= upper {
        return 0.0;
    }
    let buckets = h.buckets();
    let count = if h.sum.is_nan() {
        let total: f64 = buckets.iter().map(|b| b.count).sum();
        if total < h.count {
            note(Note::fraction_without_nan(name, span));
        }
        total
    } else {
        h.count
    };
    let rank_of = |value: f64| {
        let mut rank = 0.0;
        for b in &buckets {
            let mut b = *b;
            let custom = h.uses_custom_buckets();
            let zero = !custom && b.lower <= 0.0 && b.upper >= 0.0;
            if zero {
                b = one_sided(h, b);
            }
            if custom && b.lower == f64::NEG_INFINITY && b.upper > 0.0 {
                // As in quantiles, what is below the first bound is not negative unless the bound is.
                b.lower = 0.0;
            }
            if b.lower >= value {
                return rank;
            }
            if b.upper > value {
                if !(custom || zero) {
                    return rank + b.count * b.fraction_below(value, false);
                }
                // A bucket without a lower bound has no width to interpolate over.
                return if b.lower == f64::NEG_INFINITY {
                    b.count
                } else {
                    rank + b.count * b.fraction_below(value, true)
                };
            }
            rank += b.count;
        }
        count
    };
    (rank_of(upper).min(count) - rank_of(lower).min(count)) / h.count
}
