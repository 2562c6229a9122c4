//! Letters in the other case, one character for one, as Go's `strings.ToLower` and `ToUpper` do it.
//!
//! **Invariant:** a text keeps its number of characters: where Unicode's full mapping has several, its simple mapping
//! is used.

/// Returns `text` in lower case.
pub(super) fn lower(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            'İ' => 'i',
            c => single(c, c.to_lowercase()),
        })
        .collect()
}

/// Returns `text` in upper case.
pub(super) fn upper(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            // Greek letters with an iota below: the capital is one character, the full mapping has two.
            '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' => {
                char::from_u32(c as u32 + 8).unwrap_or(c)
            }
            '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => char::from_u32(c as u32 + 9).unwrap_or(c),
            c => single(c, c.to_uppercase()),
        })
        .collect()
}

/// Returns the one character of `mapped`, or `c` when there are more.
fn single(c: char, mut mapped: impl Iterator<Item = char>) -> char {
    match (mapped.next(), mapped.next()) {
        (Some(only), None) => only,
        _ => c,
    }
}
