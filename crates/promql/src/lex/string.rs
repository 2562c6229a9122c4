//! Quoted strings: scanning, and removing quotes and escapes.
//!
//! ```text
//! string = '"' { char | escape } '"' | "'" { char | escape } "'" | "`" { char } "`"
//! escape = "\" ( "a"|"b"|"f"|"n"|"r"|"t"|"v"|"\"|quote | octal octal octal | "x" hex{2} | "u" hex{4} | "U" hex{8} )
//! ```
//!
//! **Invariant:** `\xNN` and octal escapes are single bytes, so a string need not be UTF-8, as in Go.

use super::{Lexer, Tok};
use crate::fmt::unicode_point;
use std::{error::Error, fmt};

impl Lexer<'_> {
    /// Lexes a string whose opening quote has been read.
    pub(super) fn string(&mut self, quote: char) -> Result<Tok, String> {
        loop {
            match self.next_char() {
                None if quote == '`' => return Err("unterminated raw string".to_owned()),
                None => return Err("unterminated quoted string".to_owned()),
                Some(c) if c == quote => return Ok(Tok::Str),
                Some('\u{fffd}') => return Err("invalid UTF-8 rune".to_owned()),
                Some('\n') if quote != '`' => return Err("unterminated quoted string".to_owned()),
                Some('\\') if quote != '`' => self.escape(quote)?,
                Some(_) => {}
            }
        }
    }

    fn escape(&mut self, quote: char) -> Result<(), String> {
        let unterminated = || "escape sequence not terminated".to_owned();
        let first = self.next_char().ok_or_else(unterminated)?;
        let (mut left, base, max) = match first {
            'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '\\' => return Ok(()),
            c if c == quote => return Ok(()),
            '0'..='7' => (3, 8, 255),
            'x' => (2, 16, 255),
            'u' => (4, 16, 0x10_ffff),
            'U' => (8, 16, 0x10_ffff),
            c => return Err(format!("unknown escape sequence {}", unicode_point(c))),
        };
        let mut digit = if base == 8 {
            Some(first)
        } else {
            self.next_char()
        };
        let mut value: u64 = 0;
        while left > 0 {
            let c = digit.ok_or_else(unterminated)?;
            let Some(d) = c.to_digit(base) else {
                return Err(format!(
                    "illegal character {} in escape sequence",
                    unicode_point(c)
                ));
            };
            value = value * u64::from(base) + u64::from(d);
            left -= 1;
            if left > 0 {
                digit = self.next_char();
            }
        }
        if value > max || (0xd800..0xe000).contains(&value) {
            return Err("escape sequence is an invalid Unicode code point".to_owned());
        }
        Ok(())
    }
}

/// The error for a text that is not a quoted string.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UnquoteError;

impl fmt::Display for UnquoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("invalid syntax")
    }
}

impl Error for UnquoteError {}

/// Returns the bytes of a string literal, with quotes removed and escapes resolved.
///
/// # Errors
/// Fails when `literal` is not one complete string literal.
pub fn unquote(literal: &str) -> Result<Vec<u8>, UnquoteError> {
    let quote = literal
        .bytes()
        .next()
        .filter(|b| b"\"'`".contains(b))
        .ok_or(UnquoteError)?;
    if literal.len() < 2 || literal.as_bytes().last() != Some(&quote) {
        return Err(UnquoteError);
    }
    let inner = &literal[1..literal.len() - 1];
    if quote == b'`' {
        return if inner.contains('`') {
            Err(UnquoteError)
        } else {
            Ok(inner.as_bytes().to_vec())
        };
    }
    let mut bytes = Vec::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '\n' => return Err(UnquoteError),
            c if c == char::from(quote) => return Err(UnquoteError),
            '\\' => unescape(&mut chars, quote, &mut bytes)?,
            c => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Ok(bytes)
}

fn unescape(
    chars: &mut std::str::Chars<'_>,
    quote: u8,
    out: &mut Vec<u8>,
) -> Result<(), UnquoteError> {
    let simple = match chars.next().ok_or(UnquoteError)? {
        'a' => 0x07,
        'b' => 0x08,
        'f' => 0x0c,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 0x0b,
        '\\' => b'\\',
        c if c == char::from(quote) => quote,
        'x' => byte(digits(chars, 2, 16, 0)?)?,
        c @ '0'..='7' => byte(digits(chars, 2, 8, c.to_digit(8).ok_or(UnquoteError)?)?)?,
        c @ ('u' | 'U') => {
            let code = digits(chars, if c == 'u' { 4 } else { 8 }, 16, 0)?;
            let c = char::from_u32(code).ok_or(UnquoteError)?;
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            return Ok(());
        }
        _ => return Err(UnquoteError),
    };
    out.push(simple);
    Ok(())
}

fn byte(value: u32) -> Result<u8, UnquoteError> {
    u8::try_from(value).map_err(|_| UnquoteError)
}

fn digits(
    chars: &mut std::str::Chars<'_>,
    count: usize,
    base: u32,
    first: u32,
) -> Result<u32, UnquoteError> {
    let mut value = first;
    for _ in 0..count {
        let digit = chars
            .next()
            .and_then(|c| c.to_digit(base))
            .ok_or(UnquoteError)?;
        value = value.checked_mul(base).ok_or(UnquoteError)? + digit;
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unquotes_as_go_does() {
        for (literal, bytes) in [
            (r#""a""#, b"a".as_slice()),
            (r"'it\'s'", b"it's"),
            (r"`a\n`", br"a\n"),
            (r#""\xff\101\u00e9\n""#, b"\xffA\xc3\xa9\n"),
            (r#""\U0001F600""#, "😀".as_bytes()),
        ] {
            assert_eq!(unquote(literal).as_deref(), Ok(bytes), "{literal}");
        }
        for literal in [
            "",
            "\"",
            "\"a",
            "'a\"",
            r#""\q""#,
            r#""\400""#,
            r#""\ud800""#,
            "\"a\nb\"",
            r#""\'""#,
        ] {
            assert_eq!(unquote(literal), Err(UnquoteError), "{literal}");
        }
    }
}
