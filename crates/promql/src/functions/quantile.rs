//! Quantiles of lists of values.
//!
//! **Invariant:** NaN sorts below everything; between two ranks the value is interpolated linearly.

use narthex_model::cell::NAN;
use std::cmp::Ordering;

/// Sorts the values and returns the `q`-quantile.
pub(crate) fn quantile(q: f64, values: &mut [f64]) -> f64 {
    if values.is_empty() || q.is_nan() {
        return NAN;
    }
    if q < 0.0 {
        return f64::NEG_INFINITY;
    }
    if q > 1.0 {
        return f64::INFINITY;
    }
    values.sort_by(|a, b| nan_first(*a, *b));
    interpolated(q, values.len(), |at| values[at])
}

/// Returns the `q`-quantile, 0 to 1, of `count` values, of which `sorted` returns each by its number in their order.
pub(super) fn interpolated(q: f64, count: usize, sorted: impl Fn(usize) -> f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "lists stay below 2^53 entries")]
    let last = (count - 1) as f64;
    let rank = q * last;
    let (lower, weight) = (rank.floor().max(0.0), rank - rank.floor());
    let upper = (lower + 1.0).min(last);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and the last index"
    )]
    let at = |x: f64| sorted(x as usize);
    if weight == 0.0 {
        // An infinite neighbour has no share in the value, and infinity times zero is NaN.
        return at(lower);
    }
    at(lower) * (1.0 - weight) + at(upper) * weight
}

/// Compares floats, with NaN below everything.
pub(crate) fn nan_first(a: f64, b: f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
    }
}
