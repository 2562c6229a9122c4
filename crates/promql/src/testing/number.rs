//! Number parsing for scripts.

use crate::fmt::parse_number;

/// Splits a signed number off the front.
pub(super) fn number(text: &str) -> Result<(f64, &str), String> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let bytes = unsigned.as_bytes();
    let mut end = 0;
    if bytes.first().is_some_and(u8::is_ascii_alphabetic) {
        end = 3.min(bytes.len());
    } else {
        while let Some(byte) = bytes.get(end) {
            let exponent_sign =
                matches!(byte, b'+' | b'-') && end > 0 && matches!(bytes[end - 1], b'e' | b'E');
            if !byte.is_ascii_digit()
                && !matches!(byte, b'.' | b'_' | b'e' | b'E')
                && !exponent_sign
            {
                break;
            }
            end += 1;
        }
    }
    let digits = unsigned.get(..end).ok_or("bad number")?;
    let value = parse_number(digits).map_err(|e| format!("error parsing number: {e}"))?;
    Ok((
        if text.starts_with('-') { -value } else { value },
        &unsigned[end..],
    ))
}
