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
    special(value).unwrap_or_else(|| {
        let scientific = format!("{value:e}");
        let (mantissa, exponent) = split(&scientific);
        with_exponent(mantissa, exponent)
    })
}

/// Formats like `%.2g`: two significant digits.
#[must_use]
pub fn float_g2(value: f64) -> String {
    if let Some(text) = special(value) {
        return text;
    }
    let scientific = format!("{value:.1e}");
    let (mantissa, exponent) = split(&scientific);
    let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
    if !(-4..2).contains(&exponent) {
        return with_exponent(mantissa, exponent);
    }
    let decimals = usize::try_from(1 - exponent).unwrap_or(0);
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
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
