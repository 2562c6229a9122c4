//! Formats numbers for people.

use crate::record::summary::Spread;

/// Returns three significant digits, or all digits of a whole number.
pub(crate) fn digits(value: f64) -> String {
    // Decide by the rounded value: 0.9996 is 1.00.
    let places = match value.abs() {
        v if v.fract() == 0.0 || v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.9995 => 2,
        v if v >= 0.01 => 3,
        _ => 4,
    };
    format!("{value:.places$}")
}

/// Returns the median, and the spread if there was more than one value.
pub(crate) fn spread(spread: &Spread) -> String {
    spread.shown("", digits)
}

/// Returns a ratio with its spread, such as `6.7x (6.1..7.2)`.
pub(crate) fn ratio(ratio: &Spread) -> String {
    ratio.shown("x", digits)
}

/// Returns a figure's name with its unit.
pub(crate) fn name(key: &str, unit: &str) -> String {
    if unit.is_empty() {
        key.to_owned()
    } else {
        format!("{key}, {unit}")
    }
}

/// Describes a ratio, such as `3.4 times as much`.
pub(super) fn compared(ratio: f64) -> String {
    match ratio {
        r if r >= 1.95 => format!("{} times as much", two_digits(r)),
        r if r >= 1.05 => format!("{:.0} % more", (r - 1.0) * 100.0),
        r if r > 0.95 => "about as much".to_owned(),
        r if r > 0.55 => format!("{:.0} % less", (1.0 - r) * 100.0),
        r if r > 0.0 => format!("1/{} as much", two_digits(1.0 / r)),
        _ => "nothing".to_owned(),
    }
}

/// Rounds to two digits, the precision of a ratio.
fn two_digits(ratio: f64) -> String {
    if ratio < 9.95 {
        return format!("{ratio:.1}").trim_end_matches(".0").to_owned();
    }
    digits(ratio.round())
}

#[cfg(test)]
mod tests;
