//! Percent-encoding of URLs and forms with the rules of Go's `net/url`.
//!
//! Invariant: a `%` without two hexadecimal digits after it is an error; the library alone would keep it.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_decode, utf8_percent_encode};

/// All characters except RFC 3986's unreserved ones.
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
/// Characters that `url.URL` escapes in a path.
const PATH: &AsciiSet = &COMPONENT
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b'/')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');
/// Characters that must not appear in a request line.
const UNPRINTABLE: &AsciiSet = &CONTROLS.add(b' ');

/// Escapes a name or a value of a query, with a blank as `%20`.
#[must_use]
pub fn escape_component(text: &str) -> String {
    utf8_percent_encode(text, COMPONENT).to_string()
}

/// Escapes a name or a value of a form, with a blank as `+` (`url.QueryEscape`).
#[must_use]
pub fn escape_form(text: &str) -> String {
    escape_component(text).replace("%20", "+")
}

/// Escapes a path (`url.URL.EscapedPath`).
#[must_use]
pub fn escape_path(text: &str) -> String {
    utf8_percent_encode(text, PATH).to_string()
}

/// Escapes only blanks, controls and non-ASCII characters.
pub(crate) fn escape_unprintable(text: &str) -> impl Iterator<Item = &str> {
    utf8_percent_encode(text, UNPRINTABLE)
}

/// Unescapes a path or credentials.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    is_well_formed(text.as_bytes()).then(|| percent_decode(text.as_bytes()).collect())
}

/// Unescapes a form's name or value, where `+` is a blank; invalid UTF-8 is replaced.
#[must_use]
pub fn decode_form(text: &[u8]) -> Option<Cow<'_, str>> {
    if !text.iter().any(|byte| matches!(byte, b'+' | b'%')) {
        return Some(String::from_utf8_lossy(text));
    }
    if !is_well_formed(text) {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len());
    for (at, part) in text.split(|byte| *byte == b'+').enumerate() {
        bytes.extend((at > 0).then_some(b' '));
        bytes.extend(percent_decode(part));
    }
    let text = String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    Some(Cow::Owned(text))
}

/// Reports whether two hexadecimal digits follow every `%`.
pub(crate) fn is_well_formed(text: &[u8]) -> bool {
    text.split(|byte| *byte == b'%').skip(1).all(|part| {
        let digits = part.get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_those_of_go() {
        assert_eq!(escape_form("a b&c=d/é"), "a+b%26c%3Dd%2F%C3%A9");
        assert_eq!(escape_component("a b~"), "a%20b~");
        assert_eq!(escape_path("/a b/$&+,:;=@?"), "/a%20b/$&+,:;=@%3F");
        let printable: String = escape_unprintable("/a b?<é>\n").collect();
        assert_eq!(printable, "/a%20b?<%C3%A9>%0A");
    }

    #[test]
    fn broken_escapes_are_refused() {
        assert_eq!(decode("a%2Bb+").as_deref(), Some(&b"a+b+"[..]));
        assert_eq!(decode_form(b"a%2Bb+%ff").as_deref(), Some("a+b \u{fffd}"));
        for text in ["%", "%2", "%zz", "%%20", "a%2+"] {
            assert_eq!(
                (decode(text), decode_form(text.as_bytes())),
                (None, None),
                "{text}"
            );
        }
    }
}
