//! `integral`: the area below a window's floats.
//!
//! **Invariant:** NaN counts as 0; sums are compensated; two finite samples never overflow on the way to their mean.

use super::window::{NoteSink, OverCall, Place, View};
use crate::{
    math::{kahan_add, seconds},
    notes::Note,
};

/// What the function is between two samples.
#[derive(Clone, Copy)]
enum Rule {
    /// The value of the earlier sample.
    Left,
    /// The value of the later sample.
    Right,
    /// The line between both.
    Trapezoid,
}

/// Returns the integral over seconds by the rule that the argument names.
pub(super) fn integral(
    call: &OverCall,
    floats: &View<'_, f64>,
    at: &Place<'_>,
    note: &mut NoteSink<'_>,
) -> f64 {
    let rule = match at.args.first() {
        None => Rule::Trapezoid,
        Some(0.0) => Rule::Left,
        Some(1.0) => Rule::Right,
        Some(2.0) => Rule::Trapezoid,
        Some(other) => {
            note(Note::invalid_integral_strategy(*other, call.second_span));
            Rule::Trapezoid
        }
    };
    let (mut sum, mut lost) = (0.0, 0.0);
    let pairs = floats.values.windows(2).zip(floats.times_ms.windows(2));
    for (values, times_ms) in pairs {
        let ([earlier, later], [from_ms, to_ms]) = (values, times_ms) else {
            continue;
        };
        let (value, value_lost) = between(rule, number(*earlier), number(*later));
        if value != 0.0 || value_lost != 0.0 {
            let seconds = seconds(to_ms - from_ms);
            (sum, lost) = kahan_add(value * seconds, sum, lost + value_lost * seconds);
        }
    }
    if sum.is_infinite() { sum } else { sum + lost }
}

fn number(x: f64) -> f64 {
    if x.is_nan() { 0.0 } else { x }
}

/// Returns the mean value between two samples, and what its rounding lost.
fn between(rule: Rule, earlier: f64, later: f64) -> (f64, f64) {
    match rule {
        Rule::Left => (earlier, 0.0),
        Rule::Right => (later, 0.0),
        Rule::Trapezoid => {
            let (sum, lost) = kahan_add(later, earlier, 0.0);
            if sum.is_infinite() && earlier.is_finite() && later.is_finite() {
                kahan_add(later / 2.0, earlier / 2.0, 0.0)
            } else {
                (sum / 2.0, lost / 2.0)
            }
        }
    }
}
