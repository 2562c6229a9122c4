//! Fractions of the exponential bucket bounds.
//!
//! **Invariant:** entry i is 2^(i/256)/2 as Prometheus and its clients define it: some entries are a few units in the
//! last place below the nearest float, and must be, since bounds are compared and printed.

use std::f64::consts::SQRT_2;

/// The roots of two, from the square root on, each the square root of the one before. The first is one float too low, as in
/// Prometheus.
const ROOTS: [f64; 8] = [
    SQRT_2.next_down(),
    1.189207115002721,
    1.0905077326652577,
    1.0442737824274138,
    1.0218971486541166,
    1.0108892860517005,
    1.0054299011128027,
    1.0027112750502025,
];

/// Fractions for `histogram_schema` 8; lower resolutions use every 2^k-th.
///
/// Prometheus' table is the product of the roots that make up an exponent, the largest first: each entry is one of a lower
/// resolution times one root.
pub(super) static FRACTIONS: [f64; 256] = {
    let mut fractions = [0.5; 256];
    let mut at = 1usize;
    while at < fractions.len() {
        let lower = at & (at - 1);
        fractions[at] = fractions[lower] * ROOTS[7 - at.trailing_zeros() as usize];
        at += 1;
    }
    fractions
};
