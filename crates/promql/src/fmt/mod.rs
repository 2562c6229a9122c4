//! Go's formats for numbers and strings, used in Prometheus' texts.
//!
//! **Invariant:** every function gives exactly the text of the named Go verb.

mod float;
mod number;
#[cfg(test)]
mod tests;

pub use float::{float_digits, float_e, float_f, go_exponent};
pub use narthex_model::histogram::format_g as float_g;
pub use number::{parse_integer, parse_number};

use narthex_model::labels::is_legacy_name;
use std::fmt::Write as _;

/// Formats `text` like `%q`.
#[must_use]
pub fn quote(text: &str) -> String {
    quote_bytes(text.as_bytes())
}

/// Formats a label's name: as it is if it needs no quotes.
pub(crate) fn quote_name(name: &str) -> String {
    match is_legacy_name(name) {
        true => name.to_owned(),
        false => quote(name),
    }
}

/// Formats bytes like `%q`; invalid UTF-8 becomes `\xNN`.
#[must_use]
pub fn quote_bytes(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == '"' {
                out.push_str("\\\"");
            } else {
                push_escaped(&mut out, c);
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out.push('"');
    out
}

/// Formats a character as `%q` does a rune; the end of the text is rune −1, which prints as U+FFFD.
#[must_use]
pub fn quote_char(c: Option<char>) -> String {
    let mut out = String::from("'");
    match c.unwrap_or('\u{fffd}') {
        '\'' => out.push_str("\\'"),
        c => push_escaped(&mut out, c),
    }
    out.push('\'');
    out
}

/// Formats a character like `%#U`: `U+0071 'q'`.
#[must_use]
pub fn unicode_point(c: char) -> String {
    let code = format!("U+{:04X}", u32::from(c));
    if is_print(c) {
        format!("{code} '{c}'")
    } else {
        code
    }
}

fn push_escaped(out: &mut String, c: char) {
    let code = u32::from(c);
    let _ = match c {
        '\\' => out.write_str("\\\\"),
        '\u{7}' => out.write_str("\\a"),
        '\u{8}' => out.write_str("\\b"),
        '\u{c}' => out.write_str("\\f"),
        '\n' => out.write_str("\\n"),
        '\r' => out.write_str("\\r"),
        '\t' => out.write_str("\\t"),
        '\u{b}' => out.write_str("\\v"),
        c if is_print(c) => out.write_char(c),
        _ if code < 0x20 || code == 0x7f => write!(out, "\\x{code:02x}"),
        _ if code < 0x1_0000 => write!(out, "\\u{code:04x}"),
        _ => write!(out, "\\U{code:08x}"),
    };
}

/// Approximates `unicode.IsPrint`: letters, marks, numbers, punctuation, symbols and the ASCII space.
fn is_print(c: char) -> bool {
    if c.is_ascii() {
        return (' '..='~').contains(&c);
    }
    if c.is_alphanumeric() {
        return true;
    }
    // std's table of unprintable characters serves Debug, which also escapes combining marks.
    !c.is_whitespace() && !c.is_control() && c.escape_debug().len() == 1
}
