//! Powers.
//!
//! **Invariant:** powers that are whole numbers are multiplied, never computed by logarithms.

use super::{join, logarithm::ln, polynomial, split};
use std::f64::consts::LOG2_E;

/// Returns e to the power of `x`.
#[must_use]
pub fn exp(x: f64) -> f64 {
    const LN_2_HIGH: f64 = 0.693_147_180_559_662_956_511_601_805_686_950_683_593_75;
    const LN_2_LOW: f64 = 0.282_352_905_630_315_771_225_884_481_750_134_360_255_254_120_68e-12;
    const OVERFLOW: f64 = 7.097_827_128_933_84e2;
    /// Inverse factorials, from that of 8 down.
    const TAYLOR: [f64; 8] = [
        2.480_158_730_158_730_158_7e-5,
        1.984_126_984_126_984_127_0e-4,
        1.388_888_888_888_888_888_9e-3,
        8.333_333_333_333_333_333_3e-3,
        4.166_666_666_666_666_666_7e-2,
        1.666_666_666_666_666_666_7e-1,
        0.5,
        1.0,
    ];
    if x.is_nan() {
        return x;
    }
    if x > OVERFLOW {
        return f64::INFINITY;
    }
    let power = (x * LOG2_E).round_ties_even();
    if power < -1075.0 {
        return 0.0;
    }
    // A sixteenth of the rest, whose exponential is squared four times.
    let rest = power.mul_add(-LN_2_LOW, power.mul_add(-LN_2_HIGH, x)) * 0.0625;
    let taylor = TAYLOR[1..]
        .iter()
        .fold(TAYLOR[0], |sum, c| sum.mul_add(rest, *c));
    let mut less_one = rest * taylor;
    for _ in 0..3 {
        less_one *= less_one + 2.0;
    }
    let fraction = (less_one + 2.0).mul_add(less_one, 1.0);
    #[expect(clippy::cast_possible_truncation, reason = "between -1075 and 1024")]
    scaled(fraction, power as i32)
}

/// Multiplies by a power of two in two steps when the result is subnormal.
fn scaled(fraction: f64, power: i32) -> f64 {
    let two_to = |power: i32| f64::from_bits(u64::from((power + 1023).unsigned_abs()) << 52);
    match power {
        1024.. => f64::INFINITY,
        -1022..1024 => fraction * two_to(power),
        -1075..-1022 => fraction * two_to(power + 1022) * f64::MIN_POSITIVE,
        _ => 0.0,
    }
}

/// Returns 2 to the power of `x`.
#[must_use]
pub fn exp2(x: f64) -> f64 {
    const LN_2_HIGH: f64 = 6.931_471_803_691_238_164_90e-1;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_700_02e-10;
    const P: [f64; 5] = [
        4.138_136_797_057_238_460_39e-8,
        -1.653_390_220_546_525_153_90e-6,
        6.613_756_321_437_934_361_17e-5,
        -2.777_777_777_701_559_338_42e-3,
        1.666_666_666_666_666_574_15e-1,
    ];
    if x.is_nan() {
        return x;
    }
    if x > 1_023.999_999_999_999_9 {
        return f64::INFINITY;
    }
    if x < -1074.0 {
        return 0.0;
    }
    let power = (x + 0.5f64.copysign(x)).trunc();
    let rest = x - power;
    let (high, low) = (rest * LN_2_HIGH, -rest * LN_2_LOW);
    let r = high - low;
    let t = r * r;
    let c = r - t * polynomial(t, &P);
    let y = 1.0 - ((low - (r * c) / (2.0 - c)) - high);
    #[expect(clippy::cast_possible_truncation, reason = "between -1074 and 1024")]
    join(y, power as i32)
}

/// Returns `x` to the power of `y`.
#[must_use]
pub fn pow(x: f64, y: f64) -> f64 {
    special(x, y).unwrap_or_else(|| finite(x, y))
}

/// Returns the powers that no multiplication gives.
fn special(x: f64, y: f64) -> Option<f64> {
    if y == 0.0 || x == 1.0 {
        return Some(1.0);
    }
    if y == 1.0 {
        return Some(x);
    }
    if x.is_nan() || y.is_nan() {
        return Some(f64::NAN);
    }
    if x == 0.0 || x == f64::NEG_INFINITY {
        // The power of −∞ is that of −0 with the other sign.
        let (rises, negative) = ((y < 0.0) == (x == 0.0), x.is_sign_negative() && is_odd(y));
        let size = if rises { f64::INFINITY } else { 0.0 };
        return Some(if negative { -size } else { size });
    }
    if y.is_infinite() {
        return Some(match x.abs() < 1.0 {
            _ if x == -1.0 => 1.0,
            shrinks if shrinks == (y > 0.0) => 0.0,
            _ => f64::INFINITY,
        });
    }
    if x == f64::INFINITY {
        return Some(if y < 0.0 { 0.0 } else { f64::INFINITY });
    }
    if y.abs() == 0.5 {
        return Some(if y > 0.0 { x.sqrt() } else { 1.0 / x.sqrt() });
    }
    if x < 0.0 && y.fract() != 0.0 {
        return Some(f64::NAN);
    }
    (y.abs() >= (1u64 << 63) as f64).then_some(match x.abs() < 1.0 {
        _ if x == -1.0 => 1.0,
        shrinks if shrinks == (y > 0.0) => 0.0,
        _ => f64::INFINITY,
    })
}

fn is_odd(y: f64) -> bool {
    y.abs() < (1u64 << 53) as f64 && (y % 2.0).abs() == 1.0
}

fn finite(x: f64, y: f64) -> f64 {
    let mut whole = y.abs().trunc();
    let mut part = y.abs() - whole;
    let mut product = 1.0;
    let mut power = 0i32;
    if part != 0.0 {
        if part > 0.5 {
            part -= 1.0;
            whole += 1.0;
        }
        product = exp(part * ln(x));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "below 2^63, as larger powers are special"
    )]
    let mut left = whole as u64;
    let (mut square, mut of_square) = split(x);
    while left != 0 {
        if of_square.abs() > 1 << 12 {
            // One of the squares to come counts, and takes the result out of range.
            power += of_square;
            break;
        }
        if left & 1 == 1 {
            product *= square;
            power += of_square;
        }
        square *= square;
        of_square *= 2;
        if square < 0.5 {
            square += square;
            of_square -= 1;
        }
        left >>= 1;
    }
    if y < 0.0 {
        join(1.0 / product, -power)
    } else {
        join(product, power)
    }
}
