//! Go's literals.
//!
//! **Invariant:** what Go's `strconv` rejects is rejected; bytes that are not UTF-8 become U+FFFD.

/// Returns the text of a quoted or raw literal.
pub(super) fn unquote(literal: &str) -> Option<String> {
    if let Some(raw) = literal.strip_prefix('`') {
        return Some(raw.strip_suffix('`')?.replace('\r', ""));
    }
    let inner = literal.strip_prefix('"')?.strip_suffix('"')?;
    let (mut bytes, mut rest) = (Vec::with_capacity(inner.len()), inner);
    while !rest.is_empty() {
        let (unit, behind) = unit(rest, '"')?;
        match unit {
            Unit::Byte(byte) => bytes.push(byte),
            Unit::Char(c) => bytes.extend(c.encode_utf8(&mut [0; 4]).bytes()),
        }
        rest = behind;
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the character of a literal such as `'a'`.
pub(super) fn unquote_char(literal: &str) -> Option<char> {
    let inner = literal.strip_prefix('\'')?.strip_suffix('\'')?;
    match unit(inner, '\'')? {
        (Unit::Byte(byte), "") => Some(char::from(byte)),
        (Unit::Char(c), "") => Some(c),
        _ => None,
    }
}

/// Parses like `strconv.ParseInt(text, 0, 64)`.
pub(super) fn integer(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.get(..2) {
        Some("0x") => (16, lower.get(2..)?),
        Some("0o") => (8, lower.get(2..)?),
        Some("0b") => (2, lower.get(2..)?),
        _ if lower.len() > 1 && lower.starts_with('0') => (8, lower.get(1..)?),
        _ => (10, &*lower),
    };
    if digits.starts_with(['+', '-']) || digits.ends_with('_') || digits.contains("__") {
        return None;
    }
    let magnitude = i128::from_str_radix(&digits.replace('_', ""), radix).ok()?;
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
}

enum Unit {
    Byte(u8),
    Char(char),
}

/// Splits the first character or escape off.
fn unit(text: &str, quote: char) -> Option<(Unit, &str)> {
    let mut chars = text.chars();
    let first = chars.next()?;
    if first == quote || first == '\n' {
        return None;
    }
    if first != '\\' {
        return Some((Unit::Char(first), chars.as_str()));
    }
    let escape = chars.next()?;
    let rest = chars.as_str();
    let code = |length: usize, radix| {
        let digits = rest.get(..length)?;
        let valid = digits.chars().all(|c| c.is_digit(radix));
        let code = u32::from_str_radix(digits, radix).ok().filter(|_| valid)?;
        Some((code, rest.get(length..)?))
    };
    let plain = match escape {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        '\\' => '\\',
        c if c == quote => c,
        'x' => {
            let (code, rest) = code(2, 16)?;
            return Some((Unit::Byte(u8::try_from(code).ok()?), rest));
        }
        'u' | 'U' => {
            let (code, rest) = code(if escape == 'u' { 4 } else { 8 }, 16)?;
            return Some((Unit::Char(char::from_u32(code)?), rest));
        }
        '0'..='7' => {
            let digits = text.get(1..4)?;
            let code = u32::from_str_radix(digits, 8).ok()?;
            return Some((Unit::Byte(u8::try_from(code).ok()?), text.get(4..)?));
        }
        _ => return None,
    };
    Some((Unit::Char(plain), rest))
}
