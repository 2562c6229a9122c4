//! Case conversion character by character, as Go's `strings.ToLower` and `ToUpper` do it.
//!
//! **Invariant:** the number of characters stays the same: where Unicode's full mapping yields several, the simple
//! mapping is used.

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
            // Greek letters with iota subscript: the capital is one character, but the full mapping yields two.
            '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' => {
                char::from_u32(c as u32 + 8).unwrap_or(c)
            }
            '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => char::from_u32(c as u32 + 9).unwrap_or(c),
            c => single(c, c.to_uppercase()),
        })
        .collect()
}

/// Returns the single character of `mapped`, or `c` if there are several.
fn single(c: char, mut mapped: impl Iterator<Item = char>) -> char {
    match (mapped.next(), mapped.next()) {
        (Some(only), None) => only,
        _ => c,
    }
}
