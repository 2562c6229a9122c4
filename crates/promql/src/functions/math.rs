//! Functions of one float.
//!
//! **Invariant:** special values behave as in Go's `math` package.

use super::FunctionId;

/// Returns the function of a float for `id`.
pub(crate) fn function(id: FunctionId) -> Option<fn(f64) -> f64> {
    use FunctionId as F;
    Some(match id {
        F::Abs => f64::abs,
        F::Ceil => f64::ceil,
        F::Floor => f64::floor,
        F::Exp => f64::exp,
        F::Sqrt => f64::sqrt,
        F::Ln => f64::ln,
        F::Log2 => f64::log2,
        F::Log10 => f64::log10,
        F::Sin => f64::sin,
        F::Cos => f64::cos,
        F::Tan => f64::tan,
        F::Asin => f64::asin,
        F::Acos => f64::acos,
        F::Atan => f64::atan,
        F::Sinh => f64::sinh,
        F::Cosh => f64::cosh,
        F::Tanh => f64::tanh,
        F::Asinh => f64::asinh,
        F::Acosh => f64::acosh,
        F::Atanh => f64::atanh,
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
