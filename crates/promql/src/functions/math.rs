//! Functions of one float.
//!
//! **Invariant:** results have the bits of Go's `math` package.

use super::FunctionId;
use narthex_model::math;

/// Returns the function of a float for `id`.
pub(crate) fn function(id: FunctionId) -> Option<fn(f64) -> f64> {
    use FunctionId as F;
    Some(match id {
        F::Abs => f64::abs,
        F::Ceil => f64::ceil,
        F::Floor => f64::floor,
        F::Exp => math::exp,
        F::Sqrt => f64::sqrt,
        F::Ln => math::ln,
        F::Log2 => math::log2,
        F::Log10 => math::log10,
        F::Sin => math::sin,
        F::Cos => math::cos,
        F::Tan => math::tan,
        F::Asin => math::asin,
        F::Acos => math::acos,
        F::Atan => math::atan,
        F::Sinh => math::sinh,
        F::Cosh => math::cosh,
        F::Tanh => math::tanh,
        F::Asinh => math::asinh,
        F::Acosh => math::acosh,
        F::Atanh => math::atanh,
        // The factor first: its product with a large number does not overflow on the way.
        F::Rad => |x| x * (std::f64::consts::PI / 180.0),
        F::Deg => |x| x * (180.0 / std::f64::consts::PI),
        F::Sgn => |x| {
            if x < 0.0 {
                -1.0
            } else if x > 0.0 {
                1.0
            } else {
                x
            }
        },
        _ => return None,
    })
}

/// Rounds to a multiple of `to`, halves up.
pub(crate) fn round(x: f64, to: f64) -> f64 {
    // The inverse is more precise: 1/0.1 is exactly 10.
    let inverse = 1.0 / to;
    (x * inverse + 0.5).floor() / inverse
}
