//! Circular functions and their inverses.
//!
//! **Invariant:** an angle of any size is reduced with as many digits of π as its own take.

use super::polynomial;
use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};

/// π / 4 in three parts; products of the first two with a number of octants are exact.
const QUARTER: [f64; 3] = [
    7.853_981_256_484_985_351_56e-1,
    3.774_894_707_930_798_176_68e-8,
    2.695_151_429_079_059_526_45e-15,
];

const SIN: [f64; 6] = [
    1.589_623_015_765_465_680_60e-10,
    -2.505_074_776_285_780_728_66e-8,
    2.755_731_362_138_572_452_13e-6,
    -1.984_126_982_958_953_859_96e-4,
    8.333_333_333_322_118_588_78e-3,
    -1.666_666_666_666_663_072_95e-1,
];
const COS: [f64; 6] = [
    -1.135_853_652_138_768_173_00e-11,
    2.087_570_084_197_473_167_78e-9,
    -2.755_731_417_929_673_881_12e-7,
    2.480_158_728_885_170_453_48e-5,
    -1.388_888_888_887_305_641_16e-3,
    4.166_666_666_666_659_292_18e-2,
];

/// Returns the sine of an angle in radians.
#[must_use]
pub fn sin(x: f64) -> f64 {
    if x == 0.0 || x.is_nan() {
        return x;
    }
    if x.is_infinite() {
        return f64::NAN;
    }
    let (octant, z) = reduced(x.abs());
    let result = if octant & 3 == 2 {
        cos_near_zero(z)
    } else {
        sin_near_zero(z)
    };
    if (x < 0.0) == (octant & 4 == 0) {
        -result
    } else {
        result
    }
}

/// Returns the cosine of an angle in radians.
#[must_use]
pub fn cos(x: f64) -> f64 {
    if !x.is_finite() {
        return f64::NAN;
    }
    let (octant, z) = reduced(x.abs());
    let result = if octant & 3 == 2 {
        sin_near_zero(z)
    } else {
        cos_near_zero(z)
    };
    if matches!(octant & 7, 2 | 4) {
        -result
    } else {
        result
    }
}

/// Returns the tangent of an angle in radians.
#[must_use]
pub fn tan(x: f64) -> f64 {
    const P: [f64; 3] = [
        -1.309_369_391_813_837_776_46e4,
        1.153_516_648_385_874_161_40e6,
        -1.795_652_519_764_848_779_88e7,
    ];
    const Q: [f64; 5] = [
        1.0,
        1.368_129_634_706_929_546_78e4,
        -1.320_892_344_402_109_674_47e6,
        2.500_838_018_233_579_158_39e7,
        -5.386_957_559_294_546_298_81e7,
    ];
    if x == 0.0 || x.is_nan() {
        return x;
    }
    if x.is_infinite() {
        return f64::NAN;
    }
    let (octant, z) = reduced(x.abs());
    let square = z * z;
    let mut result = if square > 1e-14 {
        z + z * (square * polynomial(square, &P) / polynomial(square, &Q))
    } else {
        z
    };
    if octant & 2 == 2 {
        result = -1.0 / result;
    }
    if x < 0.0 { -result } else { result }
}

fn sin_near_zero(z: f64) -> f64 {
    let square = z * z;
    z + z * square * polynomial(square, &SIN)
}

fn cos_near_zero(z: f64) -> f64 {
    let square = z * z;
    1.0 - 0.5 * square + square * square * polynomial(square, &COS)
}

/// Returns the even octant that an angle is nearest to, and the angle from there.
fn reduced(x: f64) -> (u64, f64) {
    if x >= (1u64 << 29) as f64 {
        return reduced_with_all_digits(x);
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive and below 2^30"
    )]
    let octant = (x * (4.0 / PI)) as u64;
    let octant = octant + (octant & 1);
    let count = octant as f64;
    let rest = ((x - count * QUARTER[0]) - count * QUARTER[1]) - count * QUARTER[2];
    (octant & 7, rest)
}

/// Reduces an angle as Payne and Hanek do: multiplied with the digits of 4 / π that matter for it.
fn reduced_with_all_digits(x: f64) -> (u64, f64) {
    /// Binary digits of 4 / π, beginning with the one before the point.
    const DIGITS: [u64; 20] = [
        0x0000_0000_0000_0001,
        0x45f3_06dc_9c88_2a53,
        0xf84e_afa3_ea69_bb81,
        0xb6c5_2b32_7887_2083,
        0xfca2_c757_bd77_8ac3,
        0x6e48_dc74_849b_a5c0,
        0x0c92_5dd4_13a3_2439,
        0xfc3b_d639_6253_4e7d,
        0xd104_6bea_5d76_8909,
        0xd338_e04d_68be_fc82,
        0x7323_ac73_06a6_73e9,
        0x3908_bf17_7bf2_5076,
        0x3ff1_2fff_bc0b_301f,
        0xde5e_2316_b414_da3e,
        0xda6c_fd9e_4f96_136e,
        0x9e8c_7ecd_3cbf_d45a,
        0xea4f_758f_d7cb_e2f6,
        0x7a0e_73ef_14a5_25d4,
        0xd7f6_bf62_3f1a_ba10,
        0xac06_608d_f8f6_d757,
    ];
    let bits = x.to_bits();
    let mantissa = bits & ((1 << 52) - 1) | 1 << 52;
    // Where the product's digits before the point begin.
    let at = (super::exponent(bits) - 1023 - 52 + 61).unsigned_abs();
    let (word, shift) = (at as usize / 64, at % 64);
    let digits = |n: usize| {
        let high = DIGITS[word + n] << shift;
        high | DIGITS[word + n + 1].checked_shr(64 - shift).unwrap_or(0)
    };
    let product = |n: usize| u128::from(digits(n)) * u128::from(mantissa);
    let low = product(1).wrapping_add(product(2) >> 64);
    let all = low.wrapping_add(u128::from(digits(0).wrapping_mul(mantissa)) << 64);
    #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
    let (high, low) = ((all >> 64) as u64, all as u64);
    let octant = high >> 61;
    let fraction = high << 3 | low >> 61;
    let zeros = fraction.leading_zeros();
    // Only a fraction that begins with a dozen zeros gets digits of `low`; Go takes three of them twice.
    let more = low.checked_shr(63 - zeros.min(63)).unwrap_or(0);
    let mantissa = (fraction.checked_shl(zeros + 1).unwrap_or(0) | more) >> 12;
    let exponent = u64::from(1023 - (zeros + 1));
    let rest = f64::from_bits(exponent << 52 | mantissa);
    if octant & 1 == 1 {
        ((octant + 1) & 7, (rest - 1.0) * FRAC_PI_4)
    } else {
        (octant, rest * FRAC_PI_4)
    }
}

/// Returns the angle with a sine.
#[must_use]
pub fn asin(x: f64) -> f64 {
    let size = x.abs();
    if x == 0.0 {
        return x;
    }
    if size > 1.0 || x.is_nan() {
        return f64::NAN;
    }
    let cosine = (1.0 - size * size).sqrt();
    let result = if size > 0.7 {
        FRAC_PI_2 - positive_atan(cosine / size)
    } else {
        positive_atan(size / cosine)
    };
    result.copysign(x)
}

/// Returns the angle with a cosine.
#[must_use]
pub fn acos(x: f64) -> f64 {
    FRAC_PI_2 - asin(x)
}

/// Returns the angle with a tangent.
#[must_use]
pub fn atan(x: f64) -> f64 {
    if x == 0.0 {
        x
    } else if x > 0.0 {
        positive_atan(x)
    } else {
        -positive_atan(-x)
    }
}

/// Returns the angle of the point (`x`, `y`).
#[must_use]
pub fn atan2(y: f64, x: f64) -> f64 {
    if y.is_nan() || x.is_nan() {
        return f64::NAN;
    }
    if y == 0.0 {
        return if x.is_sign_positive() {
            y
        } else {
            PI.copysign(y)
        };
    }
    match (x.is_infinite(), y.is_infinite()) {
        _ if x == 0.0 => return FRAC_PI_2.copysign(y),
        (true, true) if x > 0.0 => return FRAC_PI_4.copysign(y),
        (true, true) => return (3.0 * FRAC_PI_4).copysign(y),
        (true, false) if x > 0.0 => return 0f64.copysign(y),
        (true, false) => return PI.copysign(y),
        (false, true) => return FRAC_PI_2.copysign(y),
        (false, false) => {}
    }
    let angle = atan(y / x);
    match x < 0.0 {
        true if angle <= 0.0 => angle + PI,
        true => angle - PI,
        false => angle,
    }
}

/// Returns the angle with a positive tangent.
fn positive_atan(x: f64) -> f64 {
    /// What π / 2 has beyond its float.
    const MORE: f64 = 6.123_233_995_736_765_886_130e-17;
    const TAN_3_8_PI: f64 = 2.414_213_562_373_095_048_80;
    if x <= 0.66 {
        small_atan(x)
    } else if x > TAN_3_8_PI {
        FRAC_PI_2 - small_atan(1.0 / x) + MORE
    } else {
        FRAC_PI_4 + small_atan((x - 1.0) / (x + 1.0)) + 0.5 * MORE
    }
}

fn small_atan(x: f64) -> f64 {
    const P: [f64; 5] = [
        -8.750_608_600_031_904_122_785e-1,
        -1.615_753_718_733_365_076_637e1,
        -7.500_855_792_314_704_667_340e1,
        -1.228_866_684_490_136_173_410e2,
        -6.485_021_904_942_025_371_773e1,
    ];
    const Q: [f64; 6] = [
        1.0,
        2.485_846_490_142_306_297_962e1,
        1.650_270_098_316_988_542_046e2,
        4.328_810_604_912_902_668_951e2,
        4.853_903_996_359_136_964_868e2,
        1.945_506_571_482_613_964_425e2,
    ];
    let z = x * x;
    x * (z * polynomial(z, &P) / polynomial(z, &Q)) + x
}
