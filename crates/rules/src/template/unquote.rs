//! Go's literals.
//!
//! **Invariant:** what Go's `strconv` rejects is rejected; bytes that are not UTF-8 become U+FFFD.

use narthex_promql::lex;

/// Returns the text of a quoted or raw literal.
pub(super) fn unquote(literal: &str) -> Option<String> {
    let bytes = lex::unquote(literal).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    // Carriage returns are not part of a raw literal.
    let is_raw = literal.starts_with('`');
    Some(if is_raw {
        text.replace('\r', "")
    } else {
        text.into_owned()
    })
}

/// Returns the character of a literal such as `'a'`.
pub(super) fn unquote_char(literal: &str) -> Option<char> {
    let bytes = lex::unquote(literal).ok()?;
    if let [byte] = bytes[..] {
        return Some(char::from(byte));
    }
    // Several bytes are one character as it is or by its number, not by escapes of bytes.
    let escape = literal.strip_prefix("'\\");
    if escape.is_some_and(|escape| !escape.starts_with(['u', 'U'])) {
        return None;
    }
    let mut chars = str::from_utf8(&bytes).ok()?.chars();
    chars.next().filter(|_| chars.as_str().is_empty())
}
