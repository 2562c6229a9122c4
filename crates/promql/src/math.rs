//! Go's `math` where Rust's differs, compensated summation, and seconds.
//!
//! **Invariant:** every result has the same bits as Go's function (or is NaN when Go's is).

/// Returns the smaller value; NaN if either is NaN, and −0 below 0.
#[must_use]
pub(crate) fn min(a: f64, b: f64) -> f64 {
    if a == f64::NEG_INFINITY || b == f64::NEG_INFINITY {
        f64::NEG_INFINITY
    } else if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a == 0.0 && b == 0.0 {
        if a.is_sign_negative() { a } else { b }
    } else if a < b {
        a
    } else {
        b
    }
}

/// Returns the larger value; NaN if either is NaN, and 0 above −0.
#[must_use]
pub(crate) fn max(a: f64, b: f64) -> f64 {
    if a == f64::INFINITY || b == f64::INFINITY {
        f64::INFINITY
    } else if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a == 0.0 && b == 0.0 {
        if a.is_sign_negative() { b } else { a }
    } else if a > b {
        a
    } else {
        b
    }
}

/// Returns milliseconds as seconds.
#[expect(clippy::cast_precision_loss, reason = "times stay below 2^53 ms")]
pub(crate) fn seconds(ms: i64) -> f64 {
    ms as f64 / 1000.0
}

pub(crate) use narthex_model::histogram::kahan_add;
