//! Elementary functions to the last digit that Prometheus shows.
//!
//! Libraries of C differ in their last digits, and so do processors. These are the classic algorithms that Go uses:
//! those of FreeBSD's msun for logarithms and inverse hyperbolic functions, of Cephes for circular functions and `tanh`,
//! of Hart and Cheney for `sinh`, of Shibata (2010) with fused multiplication for `exp`.
//!
//! **Invariant:** on every machine the bits are those of Go on amd64 with fused multiplication, or both are NaN. The one
//! exception is [`ln`] of a subnormal number, which is right here.

#![allow(
    clippy::excessive_precision,
    clippy::unreadable_literal,
    reason = "constants have the digits they are published with"
)]

mod circular;
mod hyperbolic;
mod logarithm;
mod power;

pub use circular::{acos, asin, atan, atan2, cos, sin, tan};
pub use hyperbolic::{acosh, asinh, atanh, cosh, sinh, tanh};
pub use logarithm::{ln, ln_1p, log2, log10};
pub use power::{exp, exp2, pow};

/// Splits a number into a fraction of at least a half and less than one, and a power of two.
fn split(x: f64) -> (f64, i32) {
    if x == 0.0 || !x.is_finite() {
        return (x, 0);
    }
    let (x, shift) = normal(x);
    let bits = x.to_bits();
    let fraction = f64::from_bits(bits & !EXPONENT | 1022 << 52);
    (fraction, exponent(bits) - 1022 + shift)
}

/// Returns `fraction` × 2^`power`.
fn join(fraction: f64, power: i32) -> f64 {
    if fraction == 0.0 || !fraction.is_finite() {
        return fraction;
    }
    let (x, shift) = normal(fraction);
    let bits = x.to_bits();
    let power = power
        .saturating_add(shift)
        .saturating_add(exponent(bits) - 1023);
    match power {
        ..-1075 => 0f64.copysign(x),
        1024.. => f64::INFINITY.copysign(x),
        // A subnormal result is rounded once.
        -1075..-1022 => with_power(bits, power + 53) * f64::from_bits((1023 - 53) << 52),
        _ => with_power(bits, power),
    }
}

const EXPONENT: u64 = 0x7ff << 52;

fn exponent(bits: u64) -> i32 {
    i32::from((bits >> 52) as u16 & 0x7ff)
}

fn with_power(bits: u64, power: i32) -> f64 {
    let biased = u64::from((power + 1023).unsigned_abs());
    f64::from_bits(bits & !EXPONENT | biased << 52)
}

/// Returns a normal number with the power of two that makes it `x`.
fn normal(x: f64) -> (f64, i32) {
    if x.abs() < f64::MIN_POSITIVE {
        (x * f64::from_bits((1023 + 52) << 52), -52)
    } else {
        (x, 0)
    }
}

/// Evaluates a polynomial whose coefficients begin with that of the highest power.
fn polynomial(x: f64, coefficients: &[f64]) -> f64 {
    let (first, rest) = coefficients
        .split_first()
        .expect("a polynomial has a coefficient");
    rest.iter().fold(*first, |sum, c| sum * x + c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_split_and_joined() {
        for x in [1.0, -0.75, 5e-324, f64::MIN_POSITIVE, f64::MAX, 1e-310] {
            let (fraction, power) = split(x);
            assert!((0.5..1.0).contains(&fraction.abs()), "{x}");
            assert_eq!(join(fraction, power), x);
        }
        assert_eq!(join(1.0, 1024), f64::INFINITY);
        assert_eq!(join(-1.0, -1076).to_bits(), (-0f64).to_bits());
        assert_eq!(join(0.75, -1074), 5e-324);
    }

    #[test]
    fn special_values() {
        let inf = f64::INFINITY;
        assert_eq!(
            (exp(-inf), exp(inf), exp(710.0), exp(-1e300)),
            (0.0, inf, inf, 0.0)
        );
        assert_eq!(
            (ln(0.0), ln(inf), ln(5e-324)),
            (-inf, inf, -744.4400719213812)
        );
        assert_eq!(
            (log2(8.0), log2(5e-324), exp2(-1074.0)),
            (3.0, -1074.0, 5e-324)
        );
        assert_eq!(
            (pow(-8.0, 3.0), pow(0.0, -1.0), pow(-0.0, -1.0)),
            (-512.0, inf, -inf)
        );
        assert_eq!((pow(f64::NAN, 0.0), pow(1.0, f64::NAN)), (1.0, 1.0));
        assert_eq!(
            (atan2(0.0, -1.0), tanh(100.0), acosh(1.0)),
            (std::f64::consts::PI, 1.0, 0.0)
        );
        for nan in [
            ln(-1.0),
            pow(-1.0, 0.5),
            sin(inf),
            asin(1.5),
            acosh(0.5),
            atanh(2.0),
        ] {
            assert!(nan.is_nan());
        }
    }
}
