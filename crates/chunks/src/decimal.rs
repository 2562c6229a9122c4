//! Floats as integers times a power of ten.
//!
//! Invariant: `to_int(v, e) == Some(m)` exactly when `from_int(m, e)` has the bits of `v` and |m| < 2^53;
//! so −0, NaN with any payload, infinities and denormals never become integers.

/// The highest exponent: twelve decimals (nanosecond sums need nine to twelve).
pub(crate) const MAX_EXP: u8 = 12;

/// The exponent of columns stored as raw bits.
pub(crate) const RAW: u8 = 15;

/// Powers of ten by exponent; NaN where no integer exists, so that no value fits it.
pub(crate) const POW10: [f64; 16] = [
    1.0,
    1e1,
    1e2,
    1e3,
    1e4,
    1e5,
    1e6,
    1e7,
    1e8,
    1e9,
    1e10,
    1e11,
    1e12,
    f64::NAN,
    f64::NAN,
    f64::NAN,
];

/// Integer powers of ten by exponent.
pub(crate) const IPOW10: [i64; 13] = [
    1,
    10,
    100,
    1_000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    100_000_000,
    1_000_000_000,
    10_000_000_000,
    100_000_000_000,
    1_000_000_000_000,
];

/// Rounds to the nearest integer, ties to even, when added and subtracted again; valid below [`FAST_LIMIT`].
pub(crate) const MAGIC: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52
/// Magnitude from which on values need [`to_int`].
pub(crate) const FAST_LIMIT: f64 = 2_251_799_813_685_248.0; // 2^51
const LIMIT: f64 = 9_007_199_254_740_992.0; // 2^53

/// Returns the integer that represents `v` exactly with `exp` decimals, if there is one.
#[inline]
pub(crate) fn to_int(v: f64, exp: u8) -> Option<i64> {
    let p = POW10[usize::from(exp & 15)];
    let r = (v * p).round_ties_even();
    // The comparison also refuses NaN.
    if r.abs() < LIMIT && (r / p).to_bits() == v.to_bits() && (r != 0.0 || r.is_sign_positive()) {
        Some(r as i64)
    } else {
        None
    }
}

/// Returns the least exponent in `from..=12` at which `v` is an integer, and that integer.
pub(crate) fn find_exp(v: f64, from: u8) -> Option<(u8, i64)> {
    if !v.is_finite() {
        return None;
    }
    (from..=MAX_EXP).find_map(|e| to_int(v, e).map(|m| (e, m)))
}

/// Returns the float that `m` represents with `exp` decimals (0..=12).
#[inline]
pub(crate) fn from_int(m: i64, exp: u8) -> f64 {
    if exp == 0 {
        m as f64
    } else {
        m as f64 / POW10[usize::from(exp & 15)]
    }
}

/// Returns the float of a column's state: raw bits, or an integer otherwise.
#[inline]
pub(crate) fn to_float(last: i64, exp: u8) -> f64 {
    if exp == RAW {
        f64::from_bits(last as u64)
    } else {
        from_int(last, exp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_values_become_integers() {
        assert_eq!(find_exp(12.345, 0), Some((3, 12345)));
        assert_eq!(find_exp(-7.0, 0), Some((0, -7)));
        assert_eq!(find_exp(0.0, 0), Some((0, 0)));
        assert_eq!(
            find_exp(9_007_199_254_740_991.0, 0),
            Some((0, 9_007_199_254_740_991))
        );
        let odd = [
            -0.0,
            f64::NAN,
            f64::from_bits(0x7ff8_0000_0000_1234),
            f64::INFINITY,
            f64::NEG_INFINITY,
            5e-324,
            9_007_199_254_740_992.0,
            1e300,
            std::f64::consts::PI,
            0.1 + 0.2,
        ];
        for v in odd {
            assert_eq!(find_exp(v, 0), None, "{v:?}");
        }
    }
}
