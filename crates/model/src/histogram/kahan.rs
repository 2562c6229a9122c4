//! Compensated summation.
//!
//! **Invariant:** an infinite sum has no compensation, so that it stays infinite.

/// Adds `value` to the sum `sum` with compensation `c` (Neumaier's variant of Kahan's method).
#[must_use]
#[inline]
pub fn kahan_add(value: f64, sum: f64, c: f64) -> (f64, f64) {
    let total = sum + value;
    let c = if total.is_infinite() {
        0.0
    } else if sum.abs() >= value.abs() {
        c + ((sum - total) + value)
    } else {
        c + ((value - total) + sum)
    };
    (total, c)
}
