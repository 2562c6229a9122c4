//! Floats in Go's `e`, `f` and `g` formats.
//!
//! **Invariant:** the digits are the shortest that parse as the same float, unless a precision is given.

/// Formats like `strconv.FormatFloat(v, 'f', -1, 64)`: never an exponent.
#[must_use]
pub fn float_f(value: f64) -> String {
    special(value).unwrap_or_else(|| value.to_string())
}

/// Formats like `strconv.FormatFloat(v, 'e', -1, 64)`: always an exponent, of at least two digits.
#[must_use]
pub fn float_e(value: f64) -> String {
    special(value).unwrap_or_else(|| go_exponent(&format!("{value:e}")))
}

/// Formats like `%.3g` for three `digits`, at least one: an exponent only where it is shorter.
#[must_use]
pub fn float_digits(value: f64, digits: usize) -> String {
    if let Some(text) = special(value) {
        return text;
    }
    let scientific = format!("{value:.*e}", digits.saturating_sub(1));
    let (mantissa, exponent) = split(&scientific);
    let last = i32::try_from(digits).unwrap_or(i32::MAX) - 1;
    if !(-4..=last).contains(&exponent) {
        return with_exponent(trimmed(mantissa), exponent);
    }
    let decimals = usize::try_from(last - exponent).unwrap_or(0);
    trimmed(&format!("{value:.decimals$}")).to_owned()
}

/// Writes the exponent of Rust's `1.5e5` as Go does: `1.5e+05`.
#[must_use]
pub fn go_exponent(scientific: &str) -> String {
    let (mantissa, exponent) = split(scientific);
    with_exponent(mantissa, exponent)
}

/// Cuts off zeros at the end of a fraction.
fn trimmed(text: &str) -> &str {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    }
}

fn special(value: f64) -> Option<String> {
    if value.is_nan() {
        return Some("NaN".to_owned());
    }
    value
        .is_infinite()
        .then(|| if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned())
}

fn split(scientific: &str) -> (&str, i32) {
    let (mantissa, exponent) = scientific
        .split_once('e')
        .expect("LowerExp writes an exponent");
    (
        mantissa,
        exponent.parse().expect("LowerExp writes a small exponent"),
    )
}

fn with_exponent(mantissa: &str, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}
