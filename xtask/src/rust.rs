//! The part of Rust's lexical grammar needed to count lines outside tests without a parser.
//!
//! Invariant: [`blank`] keeps every byte's position and every newline, so a line number in its output is a line number
//! in the source.

use std::ops::Range;

/// Replaces comments and the contents of string and character literals by spaces.
pub(crate) fn blank(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => line_end(source, at),
            b'/' if bytes.get(at + 1) == Some(&b'*') => block_comment_end(bytes, at),
            b'"' => string_end(bytes, at),
            b'r' if starts_raw(bytes, at) => raw_string_end(source, at).unwrap_or(at + 1),
            b'\'' => char_end(source, at),
            _ => at + 1,
        };
        if end > at + 1 {
            // The quotes stay, so that `fn f(x: &str = "…")`-like shapes keep their tokens apart.
            for byte in &mut out[at..end] {
                if *byte != b'\n' {
                    *byte = b' ';
                }
            }
        }
        at = end;
    }
    String::from_utf8(out).expect("whole characters were replaced by ASCII")
}

/// Returns the byte ranges of items under `#[cfg(test)]`, attribute included, in blanked text.
pub(crate) fn test_regions(blanked: &str) -> Vec<Range<usize>> {
    let mut regions = Vec::new();
    let mut from = 0;
    while let Some(found) = blanked[from..].find("#[cfg(test)]") {
        let start = from + found;
        let end = item_end(blanked, start + "#[cfg(test)]".len());
        regions.push(start..end);
        from = end;
    }
    regions
}

/// Returns the 1-based line of a byte offset.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at]
        .iter()
        .filter(|b| **b == b'\n')
        .count()
}

/// Returns the offset after the item that starts at `at`: its matching brace, or its semicolon.
pub(crate) fn item_end(blanked: &str, at: usize) -> usize {
    match body_start(blanked.as_bytes(), at) {
        Some(open) => brace_end(blanked.as_bytes(), open),
        None => blanked[at..]
            .find(';')
            .map_or(blanked.len(), |semicolon| at + semicolon + 1),
    }
}

/// Returns the first `{` outside parentheses and brackets, unless a `;` comes first.
fn body_start(bytes: &[u8], at: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (i, byte) in bytes.iter().enumerate().skip(at) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b';' if depth == 0 => return None,
            b'{' if depth == 0 => return Some(i),
            _ => {}
        }
    }
    None
}

fn brace_end(bytes: &[u8], open: usize) -> usize {
    let mut depth = 0usize;
    for (i, byte) in bytes.iter().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return i + 1;
        }
    }
    bytes.len()
}

fn continues_word(bytes: &[u8], at: usize) -> bool {
    at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_')
}

/// Returns whether an `r` begins a word, or follows only the `b` or `c` of a byte or C string.
fn starts_raw(bytes: &[u8], at: usize) -> bool {
    !continues_word(bytes, at)
        || (matches!(bytes[at - 1], b'b' | b'c') && !continues_word(bytes, at - 1))
}

fn line_end(source: &str, at: usize) -> usize {
    source[at..].find('\n').map_or(source.len(), |n| at + n)
}

fn block_comment_end(bytes: &[u8], at: usize) -> usize {
    let mut depth = 0usize;
    let mut i = at;
    while i + 1 < bytes.len() {
        match &bytes[i..i + 2] {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                i += 1;
                continue;
            }
        }
        i += 2;
        if depth == 0 {
            return i;
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut i = at + 1;
    while i < bytes.len() {
        match bytes[i] {
            b'\\' => i += 2,
            b'"' => return i + 1,
            _ => i += 1,
        }
    }
    bytes.len()
}

/// Returns the end of `r"…"` or `r#"…"#`, or `None` when `r` starts something else.
fn raw_string_end(source: &str, at: usize) -> Option<usize> {
    let rest = &source[at + 1..];
    let (hashes, text) = rest.split_at(rest.len() - rest.trim_start_matches('#').len());
    let text = text.strip_prefix('"')?;
    let end = text.split_once(&format!("\"{hashes}"));
    Some(end.map_or(source.len(), |(_, behind)| source.len() - behind.len()))
}

/// Returns the end of a character literal, or the next byte when the quote starts a lifetime.
fn char_end(source: &str, at: usize) -> usize {
    let mut chars = source[at + 1..].char_indices();
    match chars.next() {
        Some((_, '\\')) => {
            let rest = source.as_bytes().get(at + 3..).unwrap_or_default();
            rest.iter()
                .position(|b| *b == b'\'')
                .map_or(source.len(), |n| at + 3 + n + 1)
        }
        Some(_) => match chars.next() {
            Some((offset, '\'')) => at + 1 + offset + 1,
            _ => at + 1,
        },
        None => at + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_comments_go_and_positions_stay() {
        let source = "let a = \"}\\\"{\"; // }\nlet b = br#\"}\"}\"#; /* } /* } */ } */ let c = '}'; let d: &'a str = '\\''; x";
        let blanked = blank(source);
        assert_eq!(blanked.len(), source.len());
        assert!(
            !blanked.contains('}') && !blanked.contains('{'),
            "{blanked}"
        );
        assert_eq!(blanked.find("let b"), source.find("let b"));
        assert!(
            blanked.contains("&'a str") && blanked.ends_with("; x"),
            "{blanked}"
        );
    }

    #[test]
    fn test_items_are_regions() {
        let source = "fn a() {}\n#[cfg(test)]\nmod tests {\n  fn b() { }\n}\n#[cfg(test)]\nuse x::y;\nfn c() {}";
        let blanked = blank(source);
        let regions: Vec<_> = test_regions(&blanked)
            .into_iter()
            .map(|r| &blanked[r])
            .collect();
        assert_eq!(regions.len(), 2);
        assert!(
            regions[0].ends_with("}\n}") && regions[1].ends_with("use x::y;"),
            "{regions:?}"
        );
    }
}
