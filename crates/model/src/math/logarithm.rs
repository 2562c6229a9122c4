//! Logarithms.
//!
//! **Invariant:** powers of two have exact binary logarithms.

use super::{polynomial, split};
use std::f64::consts::{FRAC_1_SQRT_2, LOG2_E, LOG10_E, SQRT_2};

/// ln 2 in two parts, of which the first has zeros at its end: multiples of it are exact.
const LN_2_HIGH: f64 = 6.931_471_803_691_238_164_90e-1;
const LN_2_LOW: f64 = 1.908_214_929_270_587_700_02e-10;

/// Coefficients of s² in (ln(1 + f) − f + hfsq) / s, where s = f / (2 + f).
const L: [f64; 7] = [
    6.666_666_666_666_735_130e-1,
    3.999_999_999_940_941_908e-1,
    2.857_142_874_366_239_149e-1,
    2.222_219_843_214_978_396e-1,
    1.818_357_216_161_805_012e-1,
    1.531_383_769_920_937_332e-1,
    1.479_819_860_511_658_591e-1,
];

/// Returns the natural logarithm.
#[must_use]
pub fn ln(x: f64) -> f64 {
    if x == 0.0 {
        return f64::NEG_INFINITY;
    }
    if x < 0.0 {
        return f64::NAN;
    }
    if !x.is_finite() {
        return x;
    }
    let (mut fraction, power) = split(x);
    let mut k = f64::from(power);
    if fraction <= FRAC_1_SQRT_2 {
        fraction *= 2.0;
        k -= 1.0;
    }
    let f = fraction - 1.0;
    let s = f / (2.0 + f);
    let (s2, s4) = (s * s, (s * s) * (s * s));
    let odd = s2 * polynomial(s4, &[L[6], L[4], L[2], L[0]]);
    let even = s4 * polynomial(s4, &[L[5], L[3], L[1]]);
    let half_square = 0.5 * f * f;
    let low = s * (half_square + (odd + even)) + k * LN_2_LOW;
    k * LN_2_HIGH - ((half_square - low) - f)
}

/// Returns the binary logarithm.
#[must_use]
pub fn log2(x: f64) -> f64 {
    let (fraction, power) = split(x);
    if fraction == 0.5 {
        return f64::from(power - 1);
    }
    ln(fraction) * LOG2_E + f64::from(power)
}

/// Returns the decimal logarithm.
#[must_use]
pub fn log10(x: f64) -> f64 {
    ln(x) * LOG10_E
}

/// Returns the natural logarithm of 1 + `x`, exact for small `x` too.
#[must_use]
pub fn ln_1p(x: f64) -> f64 {
    const SMALL: f64 = 1.0 / (1u64 << 29) as f64;
    const TINY: f64 = 1.0 / (1u64 << 54) as f64;
    if x < -1.0 || x.is_nan() {
        return f64::NAN;
    }
    if x == -1.0 {
        return f64::NEG_INFINITY;
    }
    if x == f64::INFINITY {
        return x;
    }
    let size = x.abs();
    if size < TINY {
        return x;
    }
    if size < SMALL {
        return x - x * x * 0.5;
    }
    let reduced = Reduced::new(x);
    let Reduced {
        f, k, correction, ..
    } = reduced;
    let half_square = 0.5 * f * f;
    if reduced.is_tiny {
        if f == 0.0 {
            return if k == 0.0 {
                0.0
            } else {
                k * LN_2_HIGH + (correction + k * LN_2_LOW)
            };
        }
        let rest = half_square * (1.0 - 0.666_666_666_666_666_66 * f);
        return if k == 0.0 {
            f - rest
        } else {
            k * LN_2_HIGH - ((rest - (k * LN_2_LOW + correction)) - f)
        };
    }
    let s = f / (2.0 + f);
    let z = s * s;
    let rest = z * polynomial(z, &[L[6], L[5], L[4], L[3], L[2], L[1], L[0]]);
    if k == 0.0 {
        f - (half_square - s * (half_square + rest))
    } else {
        let low = s * (half_square + rest) + (k * LN_2_LOW + correction);
        k * LN_2_HIGH - ((half_square - low) - f)
    }
}

/// 1 + x as 2^k × (1 + f), with what was lost when 1 was added.
struct Reduced {
    f: f64,
    k: f64,
    correction: f64,
    /// Whether |f| < 2^-20.
    is_tiny: bool,
}

impl Reduced {
    fn new(x: f64) -> Self {
        const MANTISSA: u64 = (1 << 52) - 1;
        const OF_SQRT_2: u64 = 0x0006_a09e_667f_3bcd;
        let near_one = x > FRAC_1_SQRT_2 - 1.0 && x.abs() < SQRT_2 - 1.0;
        if near_one {
            return Self {
                f: x,
                k: 0.0,
                correction: 0.0,
                is_tiny: false,
            };
        }
        let is_large = x.abs() >= (1u64 << 53) as f64;
        let sum = if is_large { x } else { 1.0 + x };
        let bits = sum.to_bits();
        let mut k = super::exponent(bits) - 1023;
        let correction = match k {
            _ if is_large => 0.0,
            1.. => (1.0 - (sum - x)) / sum,
            _ => (x - (sum - 1.0)) / sum,
        };
        let mut mantissa = bits & MANTISSA;
        let fraction = if mantissa < OF_SQRT_2 {
            f64::from_bits(mantissa | 1023 << 52)
        } else {
            k += 1;
            let half = f64::from_bits(mantissa | 1022 << 52);
            mantissa = ((1 << 52) - mantissa) >> 2;
            half
        };
        Self {
            f: fraction - 1.0,
            k: f64::from(k),
            correction,
            is_tiny: mantissa == 0,
        }
    }
}
