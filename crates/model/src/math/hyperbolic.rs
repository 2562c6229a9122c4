//! Hyperbolic functions and their inverses.

use super::{exp, ln, ln_1p, polynomial};
use std::f64::consts::LN_2;

const TWO_TO_28: f64 = (1u64 << 28) as f64;

/// Returns the hyperbolic sine.
#[must_use]
pub fn sinh(x: f64) -> f64 {
    const P: [f64; 4] = [
        -0.263_056_321_339_749_706_281_948_9e2,
        -0.289_421_135_598_956_380_728_466_036_6e4,
        -0.899_127_202_203_950_935_539_801_351_1e5,
        -0.630_767_364_049_771_699_118_478_724_6e6,
    ];
    const Q: [f64; 4] = [
        1.0,
        -0.173_678_953_558_233_699_533_450_911e3,
        0.152_151_737_879_001_907_069_648_517_6e5,
        -0.630_767_364_049_771_699_121_207_727_7e6,
    ];
    let size = x.abs();
    let result = if size > 21.0 {
        exp(size) * 0.5
    } else if size > 0.5 {
        let e = exp(size);
        (e - 1.0 / e) * 0.5
    } else {
        let square = size * size;
        polynomial(square, &P) * size / polynomial(square, &Q)
    };
    result.copysign(x)
}

/// Returns the hyperbolic cosine.
#[must_use]
pub fn cosh(x: f64) -> f64 {
    let e = exp(x.abs());
    if x.abs() > 21.0 {
        e * 0.5
    } else {
        (e + 1.0 / e) * 0.5
    }
}

/// Returns the hyperbolic tangent.
#[must_use]
pub fn tanh(x: f64) -> f64 {
    /// From half of it on, the result is 1.
    const LN_2_TO_127: f64 = 8.802_969_193_111_305_429_598_8e1;
    const P: [f64; 3] = [
        -9.643_991_794_250_522_386_28e-1,
        -9.928_772_310_019_185_865_64e1,
        -1.614_687_684_417_084_479_52e3,
    ];
    const Q: [f64; 4] = [
        1.0,
        1.128_116_784_916_329_314_02e2,
        2.235_488_390_601_004_485_83e3,
        4.844_063_053_251_254_860_48e3,
    ];
    let size = x.abs();
    if size > 0.5 * LN_2_TO_127 {
        1f64.copysign(x)
    } else if size >= 0.625 {
        (1.0 - 2.0 / (exp(2.0 * size) + 1.0)).copysign(x)
    } else if x == 0.0 {
        x
    } else {
        let square = x * x;
        x + x * square * polynomial(square, &P) / polynomial(square, &Q)
    }
}

/// Returns the inverse of the hyperbolic sine.
#[must_use]
pub fn asinh(x: f64) -> f64 {
    if !x.is_finite() {
        return x;
    }
    let size = x.abs();
    let result = if size > TWO_TO_28 {
        ln(size) + LN_2
    } else if size > 2.0 {
        ln(2.0 * size + 1.0 / ((size * size + 1.0).sqrt() + size))
    } else if size < 1.0 / TWO_TO_28 {
        size
    } else {
        ln_1p(size + size * size / (1.0 + (1.0 + size * size).sqrt()))
    };
    result.copysign(x)
}

/// Returns the inverse of the hyperbolic cosine.
#[must_use]
pub fn acosh(x: f64) -> f64 {
    if x.is_nan() || x < 1.0 {
        f64::NAN
    } else if x == 1.0 {
        0.0
    } else if x >= TWO_TO_28 {
        ln(x) + LN_2
    } else if x > 2.0 {
        ln(2.0 * x - 1.0 / (x + (x * x - 1.0).sqrt()))
    } else {
        let t = x - 1.0;
        ln_1p(t + (2.0 * t + t * t).sqrt())
    }
}

/// Returns the inverse of the hyperbolic tangent.
#[must_use]
pub fn atanh(x: f64) -> f64 {
    let size = x.abs();
    if x.is_nan() || size > 1.0 {
        return f64::NAN;
    }
    if size == 1.0 {
        return f64::INFINITY.copysign(x);
    }
    let double = size + size;
    let result = if size < 1.0 / TWO_TO_28 {
        size
    } else if size < 0.5 {
        0.5 * ln_1p(double + double * size / (1.0 - size))
    } else {
        0.5 * ln_1p(double / (1.0 - size))
    };
    result.copysign(x)
}
