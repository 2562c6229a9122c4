//! Number parsing with Go's rules.
//!
//! **Invariant:** a leading `0` means octal when all digits are octal, `0x`, `0o` and `0b` are prefixes, and
//! underscores may separate digits, as in `strconv.ParseInt(s, 0, 64)` followed by `ParseFloat`.

use narthex_model::cell;

/// Parses an unsigned number of the query language.
///
/// # Errors
/// Fails with Go's text when the number is invalid or too large.
pub fn parse_number(text: &str) -> Result<f64, String> {
    let fail = |what: &str| {
        let text = super::quote(text);
        Err(format!("strconv.ParseFloat: parsing {text}: {what}"))
    };
    if let Some(value) = parse_integer(text) {
        #[expect(
            clippy::cast_precision_loss,
            reason = "integers beyond 2^53 round as in Go"
        )]
        return Ok(value as f64);
    }
    let lower = text.to_ascii_lowercase();
    match lower.as_str() {
        "inf" | "+inf" | "infinity" | "+infinity" => return Ok(f64::INFINITY),
        "-inf" | "-infinity" => return Ok(f64::NEG_INFINITY),
        "nan" => return Ok(cell::NAN),
        _ => {}
    }
    if !text.contains(|c: char| c.is_ascii_digit()) || lower.contains(['x', 'n', 'f']) {
        return fail("invalid syntax");
    }
    match text.replace('_', "").parse::<f64>() {
        Ok(value) if value.is_infinite() => fail("value out of range"),
        Ok(value) => Ok(value),
        Err(_) => fail("invalid syntax"),
    }
}

/// Parses like `strconv.ParseInt(text, 0, 64)`.
#[must_use]
pub fn parse_integer(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let mut prefixes = [("0x", 16), ("0o", 8), ("0b", 2), ("0", 8)].into_iter();
    let prefixed = prefixes.find_map(|(prefix, base)| Some((base, lower.strip_prefix(prefix)?)));
    let (base, digits) = match prefixed.filter(|_| lower != "0") {
        // An underscore may directly follow a prefix.
        Some((base, digits)) => (base, digits.strip_prefix('_').unwrap_or(digits)),
        None => (10, lower.as_str()),
    };
    let separated = !digits.starts_with('_') && !digits.ends_with('_') && !digits.contains("__");
    if digits.is_empty() || !separated || digits.starts_with(['+', '-']) {
        return None;
    }
    let magnitude = i128::from_str_radix(&digits.replace('_', ""), base).ok()?;
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_go_reads_them() {
        for (text, value) in [
            ("1_000.5", 1000.5),
            ("1_000", 1000.0),
            ("010", 8.0),
            ("08", 8.0),
            ("0x_1F", 31.0),
            ("0b11", 3.0),
            ("1_0e1_0", 1e11),
            ("9223372036854775808", 9223372036854775808.0),
            ("2.", 2.0),
            (".5", 0.5),
            ("iNf", f64::INFINITY),
            ("00.5", 0.5),
            ("0", 0.0),
        ] {
            assert_eq!(parse_number(text), Ok(value), "{text}");
        }
        assert!(parse_number("NaN").unwrap().is_nan());
        assert_eq!(
            parse_number("0x"),
            Err("strconv.ParseFloat: parsing \"0x\": invalid syntax".to_owned())
        );
        assert_eq!(
            parse_number("1e999"),
            Err("strconv.ParseFloat: parsing \"1e999\": value out of range".to_owned())
        );
    }
}
