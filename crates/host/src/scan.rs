//! Parsers of procfs text: numbers, fields and lines, without UTF-8 checks, allocation or float parsing.
//!
//! Invariant: every function accepts any bytes and terminates; a number that does not fit is rejected.

use crate::error::ParseError;

/// Splits off the next line, without its newline.
pub(crate) fn next_line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    if rest.is_empty() {
        return None;
    }
    let text: &'a [u8] = rest;
    match memchr::memchr(b'\n', text) {
        Some(at) => {
            *rest = &text[at + 1..];
            Some(&text[..at])
        }
        None => {
            *rest = &[];
            Some(text)
        }
    }
}

/// Calls `each` with every line.
///
/// # Errors
/// Fails when `each` says what it expected in a line.
pub(crate) fn each_line<'a>(
    text: &'a [u8],
    each: impl FnMut(&'a [u8]) -> Result<(), &'static str>,
) -> Result<(), ParseError> {
    each_line_below(0, text, each)
}

/// Like [`each_line`], without the first lines.
pub(crate) fn each_line_below<'a>(
    header_lines: u32,
    mut text: &'a [u8],
    mut each: impl FnMut(&'a [u8]) -> Result<(), &'static str>,
) -> Result<(), ParseError> {
    let mut number = 0;
    while let Some(line) = next_line(&mut text) {
        number += 1;
        if number > header_lines {
            each(line).map_err(|expected| ParseError {
                line: number,
                expected,
            })?;
        }
    }
    Ok(())
}

/// Splits off the next field, skipping blanks before it; `None` at the end of the line.
pub(crate) fn next_field<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let text: &'a [u8] = rest;
    let start = text.iter().position(|b| !is_blank(*b))?;
    let text = &text[start..];
    let end = text.iter().position(|b| is_blank(*b)).unwrap_or(text.len());
    *rest = &text[end..];
    Some(&text[..end])
}

/// Parses the next field as a decimal number. `Ok(None)` at the end of the line, `Err` if it is not a number.
pub(crate) fn next_u64(rest: &mut &[u8]) -> Result<Option<u64>, NotANumber> {
    match next_field(rest) {
        Some(field) => number(field).map(Some).ok_or(NotANumber),
        None => Ok(None),
    }
}

/// A field was present, but it is not a decimal number of 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotANumber;

/// Parses all of `digits` as a decimal number.
pub(crate) fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    // 19 digits always fit: only longer numbers pay for the checks.
    if digits.len() <= 19 {
        let mut value = 0_u64;
        for byte in digits {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            value = value * 10 + u64::from(digit);
        }
        return Some(value);
    }
    digits.iter().try_fold(0_u64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// Parses `12.34` into the value a float parser would give: digits as an integer, divided once by a power of ten.
/// Exact (correctly rounded) while the digits fit 53 bits and there are at most 15 decimals; `None` otherwise.
pub(crate) fn decimal(text: &[u8]) -> Option<f64> {
    let (whole, fraction) = match memchr::memchr(b'.', text) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &[][..]),
    };
    if fraction.len() > 15 || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let mut value = if whole.is_empty() { 0 } else { number(whole)? };
    let mut scale = 1_u64;
    for byte in fraction {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
        scale *= 10;
    }
    (value <= 1 << 53).then(|| value as f64 / scale as f64)
}

/// Parses any number a float parser accepts, whole numbers on a fast path. NaN is rejected.
pub(crate) fn float(text: &[u8]) -> Option<f64> {
    let (digits, sign) = match text.strip_prefix(b"-") {
        Some(digits) => (digits, -1.0),
        None => (text, 1.0),
    };
    match number(digits) {
        Some(value) => Some(value as f64 * sign),
        None => {
            let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
            (!value.is_nan()).then_some(value)
        }
    }
}

/// Parses all of `digits` as a number in base 16, with or without `0x`.
pub(crate) fn hex(digits: &[u8]) -> Option<u64> {
    let digits = digits.strip_prefix(b"0x").unwrap_or(digits);
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, byte| {
        let digit = char::from(*byte).to_digit(16)?;
        Some(value << 4 | u64::from(digit))
    })
}

/// Trims blanks and newlines at both ends, as sysfs readers do.
pub(crate) fn trim(text: &[u8]) -> &[u8] {
    text.trim_ascii()
}

/// Returns the bytes before the first zero.
pub(crate) fn until_nul(bytes: &[u8]) -> &[u8] {
    &bytes[..memchr::memchr(0, bytes).unwrap_or(bytes.len())]
}

/// Formats a device's address as sysfs does.
pub(crate) fn mac(address: &[u8]) -> String {
    let bytes: Vec<String> = address.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(":")
}

/// Converts kernel bytes to a label value: each run of invalid UTF-8 becomes one replacement character.
pub(crate) fn label_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let mut in_invalid_run = false;
    for chunk in bytes.utf8_chunks() {
        if !chunk.valid().is_empty() {
            text.push_str(chunk.valid());
            in_invalid_run = false;
        }
        if !chunk.invalid().is_empty() && !in_invalid_run {
            text.push(char::REPLACEMENT_CHARACTER);
            in_invalid_run = true;
        }
    }
    text
}

/// Calls `each` with the words and values of the section that begins with a line with this beginning. A line without
/// `word: value` begins another section.
pub(crate) fn section_lines<'a>(
    mut text: &'a [u8],
    section: &[u8],
    mut each: impl FnMut(&'a [u8], &'a [u8]),
) {
    let mut is_in = false;
    while let Some(line) = next_line(&mut text) {
        let line = trim(line);
        let at = memchr::memchr(b':', line);
        match at.map(|at| (trim(&line[..at]), trim(&line[at + 1..]))) {
            Some((word, value)) if !value.is_empty() => {
                if is_in {
                    each(word, value);
                }
            }
            _ => is_in = line.starts_with(section),
        }
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

#[cfg(test)]
mod tests;
