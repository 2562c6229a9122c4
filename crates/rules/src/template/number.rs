//! Go's formats of numbers.
//!
//! **Invariant:** digits, exponents and signs are those of Go's `strconv`, from the exact decimal value.

use narthex_model::histogram::format_g;

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
        ('e', precision) => exponent_form(value, precision),
        (_, None) => format_g(value),
        (_, Some(precision)) => shorter(value, precision.clamp(1, MAX_DIGITS)),
    }
}

fn exponent_form(value: f64, precision: Option<usize>) -> String {
    let text = match precision {
        Some(precision) => format!("{value:.*e}", precision.min(MAX_DIGITS)),
        None => format!("{value:e}"),
    };
    let (mantissa, exponent) = split(&text);
    let zeros = precision.unwrap_or_default().saturating_sub(MAX_DIGITS);
    with_exponent(&format!("{mantissa}{}", "0".repeat(zeros)), exponent)
}

/// `%.3g`: at most so many digits, an exponent only where it is shorter.
fn shorter(value: f64, precision: usize) -> String {
    let text = format!("{value:.*e}", precision - 1);
    let (mantissa, exponent) = split(&text);
    let mantissa = if mantissa.contains('.') {
        mantissa.trim_end_matches('0').trim_end_matches('.')
    } else {
        mantissa
    };
    let digits = mantissa.chars().filter(char::is_ascii_digit).count();
    let whole = usize::try_from(exponent + 1).unwrap_or_default();
    let bound = if precision > digits && digits >= whole {
        digits
    } else {
        precision
    };
    if exponent < -4 || exponent >= i32::try_from(bound).unwrap_or(i32::MAX) {
        return with_exponent(mantissa, exponent);
    }
    let point = i32::try_from(digits).unwrap_or(i32::MAX) - (exponent + 1);
    let decimals = usize::try_from(point).unwrap_or_default();
    // The digits beyond are zeros, so this cannot round differently.
    let rounded: f64 = text.parse().unwrap_or(value);
    format!("{rounded:.decimals$}")
}

fn split(text: &str) -> (&str, i32) {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    (mantissa, exponent.parse().unwrap_or_default())
}

fn with_exponent(mantissa: &str, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
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
