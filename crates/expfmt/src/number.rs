//! Numbers of the text formats, read exactly.
//!
//! **Invariant:** `read` accepts what Go's `ParseFloat` accepts without its newer forms (no underscores, no hex),
//! gives the same bits, and turns every NaN into Go's.

use narthex_client::write_number;
use narthex_model::cell;

/// Digits up to which any integer is exact in an `f64`.
const EXACT_DIGITS: usize = 15;

const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// Reads a plain decimal that ends at a newline: the form of nearly every line.
///
/// Returns the value and the offset after the newline, or `None` when the text needs the general reader.
/// Up to 15 digits, an optional minus, an optional point and an optional exponent, which Go writes from a million on:
/// an integer and a power of ten, both exact, of which the quotient or the product is rounded once.
#[inline]
pub(crate) fn read_plain_line(body: &[u8], start: usize) -> Option<(f64, usize)> {
    let mut at = start;
    let negative = body.get(at) == Some(&b'-');
    at += usize::from(negative);
    let first = at;
    let (mut integer, mut fraction_from) = (0u64, None);
    let (mut exponent, mut next) = (0, None);
    loop {
        let byte = *body.get(at)?;
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            integer = integer.wrapping_mul(10).wrapping_add(u64::from(digit));
        } else if byte == b'.' && fraction_from.is_none() {
            fraction_from = Some(at + 1);
        } else if byte == b'\n' {
            break;
        } else if byte == b'e' {
            let (read, behind) = read_exponent(body, at + 1)?;
            (exponent, next) = (read, Some(behind));
            break;
        } else {
            return None;
        }
        at += 1;
    }
    let decimals = fraction_from.map_or(0, |from| at - from);
    let digits = at - first - usize::from(fraction_from.is_some());
    if digits == 0 || digits > EXACT_DIGITS {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "at most 15 digits are exact")]
    let integer = integer as f64;
    let magnitude = match exponent.checked_sub(decimals) {
        Some(power) => integer * POWERS.get(power)?,
        None => integer / POWERS.get(decimals - exponent)?,
    };
    let value = if negative { -magnitude } else { magnitude };
    Some((value, next.unwrap_or(at + 1)))
}

/// Reads a positive exponent of at most two digits that ends at a newline; returns it and the offset after the newline.
fn read_exponent(body: &[u8], at: usize) -> Option<(usize, usize)> {
    let rest = body.get(at..)?;
    let plus = usize::from(rest.starts_with(b"+"));
    let (digits, length) = match rest.get(plus..)? {
        [one, b'\n', ..] => ([b'0', *one], 2),
        [ten, one, b'\n', ..] => ([*ten, *one], 3),
        _ => return None,
    };
    let [ten, one] = digits.map(|digit| usize::from(digit.wrapping_sub(b'0')));
    (ten <= 9 && one <= 9).then_some((10 * ten + one, at + plus + length))
}

/// Parses any number of the text formats; returns `None` if it is invalid.
pub(crate) fn read(text: &[u8]) -> Option<f64> {
    let unsigned = text
        .strip_prefix(b"-")
        .or(text.strip_prefix(b"+"))
        .unwrap_or(text);
    let infinite = || {
        let value = if text.starts_with(b"-") {
            f64::NEG_INFINITY
        } else {
            f64::INFINITY
        };
        Some(value)
    };
    match unsigned.first()? {
        b'0'..=b'9' | b'.' => {
            let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
            // Go refuses an out-of-range number instead of rounding it to infinity.
            value.is_finite().then_some(value)
        }
        _ if unsigned.eq_ignore_ascii_case(b"inf")
            || unsigned.eq_ignore_ascii_case(b"infinity") =>
        {
            infinite()
        }
        _ if text.eq_ignore_ascii_case(b"nan") => Some(cell::NAN),
        _ => None,
    }
}

/// Parses a whole number of milliseconds; returns `None` if it is invalid or does not fit.
pub(crate) fn read_timestamp(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    text.parse().ok()
}

/// Parses seconds with a fraction, OpenMetrics' form of times, into whole milliseconds truncated towards zero.
pub(crate) fn read_seconds(text: &[u8]) -> Option<i64> {
    let seconds = read(text)?;
    seconds.is_finite().then(|| to_ms(seconds))
}

/// Converts seconds to whole milliseconds, truncated towards zero; one that does not fit becomes `i64::MIN`, as in Go.
pub(crate) fn to_ms(seconds: f64) -> i64 {
    let ms = seconds * 1000.0;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "the fraction of a millisecond is cut, and the range is checked"
    )]
    let ms = if ms.abs() < i64::MAX as f64 {
        ms as i64
    } else {
        i64::MIN
    };
    ms
}

/// Appends a number as OpenMetrics prints it: as the text format, with `.0` appended to whole numbers.
pub(crate) fn write_openmetrics(out: &mut Vec<u8>, value: f64) {
    let from = out.len();
    write_number(out, value);
    let looks_whole =
        value.is_finite() && !out[from..].iter().any(|byte| matches!(byte, b'.' | b'e'));
    if looks_whole {
        // Go prints a negative zero as "-0", but OpenMetrics' writer prints "0.0".
        if value == 0.0 {
            out.truncate(from);
            out.push(b'0');
        }
        out.extend_from_slice(b".0");
    }
}

/// Returns the canonical text of an `le` or `quantile` label, or `None` if it is not a number or already canonical.
pub(crate) fn canonical_bound(text: &str) -> Option<String> {
    let value = read(text.as_bytes())?;
    let canonical = openmetrics(value);
    (canonical != text).then_some(canonical)
}

/// Returns the text that the labels `le` and `quantile` of a stored series have for a bound.
#[must_use]
pub fn bound_text(bound: f64) -> String {
    openmetrics(bound)
}

/// Returns a number as OpenMetrics prints it.
pub(crate) fn openmetrics(value: f64) -> String {
    let mut out = Vec::new();
    write_openmetrics(&mut out, value);
    String::from_utf8(out).expect("numbers are ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_have_one_spelling() {
        for (text, canonical) in [
            ("1", "1.0"),
            ("0.5", "0.5"),
            ("-0", "0.0"),
            ("1e5", "100000.0"),
            ("1000000", "1e+06"),
            ("+Inf", "+Inf"),
            ("inf", "+Inf"),
            ("-inf", "-Inf"),
            (".25", "0.25"),
            ("NaN", "NaN"),
        ] {
            let spelled = canonical_bound(text).unwrap_or_else(|| text.to_owned());
            assert_eq!(spelled, canonical, "{text}");
        }
        assert_eq!(canonical_bound("big"), None);
    }

    #[test]
    fn seconds_become_milliseconds() {
        assert_eq!(read_seconds(b"1.5e3"), Some(1_500_000));
        assert_eq!(read_seconds(b"000"), Some(0));
        assert_eq!(read_seconds(b"-1.0019"), Some(-1001));
        assert_eq!(read_seconds(b"1e300"), Some(i64::MIN));
        for text in ["NaN", "Inf", "0x1p3", "1_2", ""] {
            assert_eq!(read_seconds(text.as_bytes()), None, "{text}");
        }
    }

    fn plain(text: &str) -> Option<f64> {
        let line = format!("{text}\n");
        let (value, end) = read_plain_line(line.as_bytes(), 0)?;
        assert_eq!(end, line.len());
        Some(value)
    }

    #[test]
    fn the_plain_form_is_exact() {
        for text in [
            "0",
            "-0",
            "1",
            "123456789012345",
            "0.1",
            "-12.345",
            "5.",
            ".5",
            "99999.9999999999",
            "0.000001",
            "1e5",
            "1.000123456e+09",
            "-1.5e+06",
            "1.23456789012345e2",
            "9.99999999999999e+22",
            "7e+22",
            "0e+00",
        ] {
            let expected: f64 = text.parse().unwrap();
            assert_eq!(
                plain(text).map(f64::to_bits),
                Some(expected.to_bits()),
                "{text}"
            );
        }
        for text in [
            "",
            "-",
            ".",
            "1e",
            "1e+",
            "1e-5",
            "1e+23",
            "1e100",
            "1e5 7",
            "1.2e+0x",
            "1234567890123456",
            "1.234567890123456e+09",
            "+1",
            "1.2.3",
            "NaN",
            "1 5",
            "0x10",
        ] {
            assert_eq!(plain(text), None, "{text}");
        }
        assert_eq!(read_plain_line(b"12", 0), None);
        assert_eq!(read_plain_line(b"1e5", 0), None);
    }

    /// Numbers as Go writes them from a million on.
    #[test]
    fn exponents_are_exact() {
        for at in 0..100_000_u64 {
            let mixed = at.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            #[expect(clippy::cast_precision_loss, reason = "any number will do")]
            let value = (mixed >> (16 + at % 40)) as f64;
            let mut text = Vec::new();
            write_number(&mut text, value);
            let text = String::from_utf8(text).expect("numbers are ASCII");
            if let Some(read) = plain(&text) {
                assert_eq!(read.to_bits(), value.to_bits(), "{text}");
            }
        }
    }

    #[test]
    fn the_general_form_is_gos() {
        assert_eq!(read(b"1e5"), Some(1e5));
        assert_eq!(read(b"+1.5E-3"), Some(1.5e-3));
        assert_eq!(read(b"-Inf"), Some(f64::NEG_INFINITY));
        assert_eq!(read(b"+inFinity"), Some(f64::INFINITY));
        assert_eq!(read(b"nan").map(f64::to_bits), Some(cell::NAN_BITS));
        for text in [
            "", "+", "1e999", "0x1p3", "1_000", "+nan", "-nan", "1,5", "e5", "infin", "1e",
        ] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
    }
}
