//! Numbers in Prometheus' text format: Go's `strconv.FormatFloat(v, 'g', -1, 64)`.
//!
//! **Invariant:** the shortest digits that read back as the same number; exponent form when the decimal exponent is
//! below -4 or above 5, with a sign and at least two digits; `+Inf`, `-Inf`, `NaN`.

/// Whole numbers below this are exact in a float, so their digits are the shortest.
const EXACT: f64 = 9_007_199_254_740_992.0;
/// Decimal exponents from here on are printed in exponent form.
const EXPONENT_FROM: i32 = 6;
/// Decimal exponents below this are printed in exponent form.
const EXPONENT_BELOW: i32 = -4;
/// Maximum digits of a shortest representation.
const MAX_DIGITS: usize = 17;

/// Appends a number.
#[inline]
pub fn write(out: &mut Vec<u8>, v: f64) {
    if v.abs() < EXACT && v.trunc() == v && (v != 0.0 || v.is_sign_positive()) {
        if v < 0.0 {
            out.push(b'-');
        }
        write_whole(out, v.abs() as u64);
    } else if !write_thousandths(out, v) {
        write_fraction(out, v);
    }
}

/// Appends a number with at most three decimals, the form of most gauges, if `v` is one in the plain range.
///
/// Up to nine digits identify a single float, so they are the shortest.
fn write_thousandths(out: &mut Vec<u8>, v: f64) -> bool {
    let magnitude = v.abs();
    if !(0.001..1e6).contains(&magnitude) {
        return false;
    }
    let thousandths = (magnitude * 1000.0).round();
    if thousandths / 1000.0 != magnitude {
        return false;
    }
    if v < 0.0 {
        out.push(b'-');
    }
    let thousandths = thousandths as u32;
    out.extend_from_slice(digits(u64::from(thousandths / 1000), &mut [0; 20]));
    let decimals = thousandths % 1000;
    let digits =
        [decimals / 100, decimals / 10 % 10, decimals % 10].map(|digit| b'0' + digit as u8);
    let len = match digits {
        [_, b'0', b'0'] => 1,
        [_, _, b'0'] => 2,
        _ => 3,
    };
    out.push(b'.');
    out.extend_from_slice(&digits[..len]);
    true
}

/// Returns the decimal digits of a whole number, written at the end of the buffer two at a time.
#[inline]
pub(crate) fn digits(mut n: u64, buffer: &mut [u8; 20]) -> &[u8] {
    let mut at = buffer.len();
    while n >= 100 {
        at -= 2;
        buffer[at..at + 2].copy_from_slice(&PAIRS[(n % 100) as usize]);
        n /= 100;
    }
    if n >= 10 {
        at -= 2;
        buffer[at..at + 2].copy_from_slice(&PAIRS[n as usize]);
    } else {
        at -= 1;
        buffer[at] = b'0' + n as u8;
    }
    &buffer[at..]
}

/// `00` to `99`.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut n = 0;
    while n < 100 {
        pairs[n] = [b'0' + (n / 10) as u8, b'0' + (n % 10) as u8];
        n += 1;
    }
    pairs
};

/// Returns a number's text.
pub(crate) fn to_string(v: f64) -> String {
    let mut out = Vec::new();
    write(&mut out, v);
    String::from_utf8(out).expect("numbers are ASCII")
}

fn write_whole(out: &mut Vec<u8>, n: u64) {
    let mut buffer = [0; 20];
    let digits = digits(n, &mut buffer);
    if digits.len() <= EXPONENT_FROM as usize {
        out.extend_from_slice(digits);
    } else {
        let significant = digits
            .iter()
            .rposition(|digit| *digit != b'0')
            .map_or(1, |last| last + 1);
        write_exponent_form(out, &digits[..significant], digits.len() as i32 - 1);
    }
}

fn write_fraction(out: &mut Vec<u8>, v: f64) {
    if !v.is_finite() {
        let text: &[u8] = if v.is_nan() {
            b"NaN"
        } else if v > 0.0 {
            b"+Inf"
        } else {
            b"-Inf"
        };
        out.extend_from_slice(text);
        return;
    }
    if v.is_sign_negative() {
        out.push(b'-');
    }
    let mut digits = [0; MAX_DIGITS];
    let (len, exponent) = shortest(v.abs(), &mut digits);
    let digits = &digits[..len];
    if !(EXPONENT_BELOW..EXPONENT_FROM).contains(&exponent) {
        write_exponent_form(out, digits, exponent);
    } else if exponent < 0 {
        out.extend_from_slice(&b"0.0000"[..1 + exponent.unsigned_abs() as usize]);
        out.extend_from_slice(digits);
    } else {
        let whole = exponent as usize + 1;
        let (before, after) = digits.split_at(whole.min(len));
        out.extend_from_slice(before);
        out.extend_from_slice(&b"000000"[..whole - before.len()]);
        if !after.is_empty() {
            out.push(b'.');
            out.extend_from_slice(after);
        }
    }
}

/// Returns the shortest digits that read back as a finite positive number, as [`decimal`] does.
#[cfg(feature = "fast-digits")]
fn shortest(v: f64, digits: &mut [u8; MAX_DIGITS]) -> (usize, i32) {
    decimal(zmij::Buffer::new().format_finite(v).as_bytes(), digits)
}

#[cfg(not(feature = "fast-digits"))]
use self::shortest_by_std as shortest;

/// The same with the standard library alone: a page of fractions takes twice as long.
#[cfg(any(test, not(feature = "fast-digits")))]
fn shortest_by_std(v: f64, digits: &mut [u8; MAX_DIGITS]) -> (usize, i32) {
    use std::io::Write;
    // 17 digits, a point, and an exponent of four characters with its `e`.
    let mut text = [0; 32];
    let mut rest = &mut text[..];
    write!(rest, "{v:e}").expect("a number has at most 24 characters");
    let len = 32 - rest.len();
    decimal(&text[..len], digits)
}

/// Splits a shortest representation (`12.5`, `0.001`, `1.5e-7`, `1e21`) into its significant digits and the decimal
/// exponent of the first one. Zero is one digit with exponent 0.
fn decimal(text: &[u8], digits: &mut [u8; MAX_DIGITS]) -> (usize, i32) {
    let (mantissa, mut exponent) = match text.iter().position(|byte| *byte == b'e') {
        Some(e) => (&text[..e], parse_exponent(&text[e + 1..])),
        None => (text, 0),
    };
    let point = mantissa
        .iter()
        .position(|byte| *byte == b'.')
        .unwrap_or(mantissa.len());
    let is_digit = |byte: &&u8| byte.is_ascii_digit();
    let leading_zeros = mantissa
        .iter()
        .filter(is_digit)
        .take_while(|byte| **byte == b'0')
        .count();
    let mut len = 0;
    // A representation may have more digits than are significant, as in 100000000000000000000.0, but only zeros.
    for byte in mantissa
        .iter()
        .filter(is_digit)
        .skip(leading_zeros)
        .take(MAX_DIGITS)
    {
        digits[len] = *byte;
        len += 1;
    }
    while len > 0 && digits[len - 1] == b'0' {
        len -= 1;
    }
    if len == 0 {
        digits[0] = b'0';
        return (1, 0);
    }
    exponent += point as i32 - 1 - leading_zeros as i32;
    (len, exponent)
}

fn parse_exponent(text: &[u8]) -> i32 {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    let value = digits
        .iter()
        .fold(0, |value, digit| value * 10 + i32::from(digit - b'0'));
    if negative { -value } else { value }
}

fn write_exponent_form(out: &mut Vec<u8>, significant: &[u8], exponent: i32) {
    out.push(significant[0]);
    if significant.len() > 1 {
        out.push(b'.');
        out.extend_from_slice(&significant[1..]);
    }
    out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
    let magnitude = exponent.unsigned_abs();
    if magnitude < 10 {
        out.push(b'0');
    }
    out.extend_from_slice(digits(u64::from(magnitude), &mut [0; 20]));
}

#[cfg(test)]
mod tests;
