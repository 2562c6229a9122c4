//! Go's formats of numbers.
//!
//! **Invariant:** digits, exponents and signs are those of Go's `strconv`, from the exact decimal value.

use narthex_model::histogram::format_g;
use narthex_promql::fmt::{float_digits, float_e, go_exponent};

/// More digits than the exact value of any float has behind its point; Rust's own formats end at 65,535.
const MAX_DIGITS: usize = 1100;

/// Formats like `strconv.FormatFloat` with a verb of `e`, `f` or `g` and a precision; `None` is the shortest form.
pub(super) fn float(value: f64, verb: char, precision: Option<usize>) -> String {
    if !value.is_finite() {
        return format_g(value);
    }
    match (verb, precision) {
        ('f', Some(precision)) => {
            let text = format!("{value:.*}", precision.min(MAX_DIGITS));
            text + &"0".repeat(precision.saturating_sub(MAX_DIGITS))
        }
        ('f', None) => value.to_string(),
        ('e', Some(precision)) => {
            let text = go_exponent(&format!("{value:.*e}", precision.min(MAX_DIGITS)));
            let zeros = "0".repeat(precision.saturating_sub(MAX_DIGITS));
            text.replacen('e', &format!("{zeros}e"), 1)
        }
        ('e', None) => float_e(value),
        (_, None) => format_g(value),
        (_, Some(precision)) => float_digits(value, precision.clamp(1, MAX_DIGITS)),
    }
}

/// Parses like `strconv.ParseFloat(text, 64)`.
///
/// # Errors
/// Fails with Go's text.
pub(super) fn parse(text: &str) -> Result<f64, String> {
    let quoted = narthex_promql::fmt::quote(text);
    let fail = |what: &str| Err(format!("strconv.ParseFloat: parsing {quoted}: {what}"));
    let bare = text.strip_prefix(['+', '-']).unwrap_or(text);
    let negative = text.starts_with('-');
    match &*bare.to_ascii_lowercase() {
        "inf" | "infinity" => {
            return Ok(if negative {
                f64::NEG_INFINITY
            } else {
                f64::INFINITY
            });
        }
        "nan" if bare == text => return Ok(f64::NAN),
        _ => {}
    }
    let plain = bare.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && bare
            .chars()
            .all(|c| c.is_ascii_digit() || ".eE+-".contains(c));
    match text.parse::<f64>() {
        Ok(value) if plain && value.is_infinite() => fail("value out of range"),
        Ok(value) if plain => Ok(value),
        _ => fail("invalid syntax"),
    }
}
