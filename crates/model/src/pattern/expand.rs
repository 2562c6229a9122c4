//! Replacement templates: `$1`, `${1}`, `$name`, `${name}` and `$$`, with the meaning of Go's `Regexp.Expand`.
//!
//! **Invariant:** a group that does not exist or did not match expands to nothing; a malformed reference is literal
//! text.

use regex::Captures;
use std::sync::OnceLock;

/// A parsed replacement.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Template(Vec<Piece>);

#[derive(Clone, Debug, Eq, PartialEq)]
enum Piece {
    Text(Box<str>),
    Number(usize),
    Name(Box<str>),
}

impl Template {
    /// Parses a replacement; every text is valid.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            literal.push_str(before);
            rest = after;
            if let Some(after) = rest.strip_prefix('$') {
                literal.push('$');
                rest = after;
                continue;
            }
            let Some((name, after)) = reference(rest) else {
                literal.push('$');
                continue;
            };
            rest = after;
            if !literal.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut literal).into()));
            }
            pieces.push(piece(name));
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal.into()));
        }
        Self(pieces)
    }

    /// Returns the text of a template without group references.
    #[must_use]
    pub fn constant(&self) -> Option<&str> {
        match &*self.0 {
            [] => Some(""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    pub(super) fn fill(&self, names: &[Option<Box<str>>], captures: &Captures<'_>) -> String {
        self.pieces(names, captures).collect()
    }

    /// Like `fill`, up to a length in bytes; beyond it, returns the length the result would have.
    pub(super) fn fill_up_to(
        &self,
        names: &[Option<Box<str>>],
        captures: &Captures<'_>,
        most_bytes: usize,
    ) -> Result<String, usize> {
        let lengths = self.pieces(names, captures).map(str::len);
        let length = lengths.fold(0, usize::saturating_add);
        if length > most_bytes {
            return Err(length);
        }
        Ok(self.fill(names, captures))
    }

    fn pieces<'a>(
        &'a self,
        names: &'a [Option<Box<str>>],
        captures: &'a Captures<'_>,
    ) -> impl Iterator<Item = &'a str> {
        self.0.iter().map(|piece| {
            let group = match piece {
                Piece::Text(literal) => return &**literal,
                Piece::Number(number) => Some(*number),
                Piece::Name(name) => named(names, captures, name),
            };
            let matched = group.and_then(|group| captures.get(group));
            matched.map_or("", |matched| matched.as_str())
        })
    }
}

/// Returns the first group of this name that matched.
fn named(names: &[Option<Box<str>>], captures: &Captures<'_>, name: &str) -> Option<usize> {
    (0..names.len())
        .filter(|&group| names.get(group).and_then(Option::as_deref) == Some(name))
        .find(|&group| captures.get(group).is_some())
}

/// Splits a reference, without its dollar sign, from the text after it.
fn reference(text: &str) -> Option<(&str, &str)> {
    let (braced, text) = match text.strip_prefix('{') {
        Some(inner) => (true, inner),
        None => (false, text),
    };
    let rest = text.trim_start_matches(is_word);
    let name = &text[..text.len() - rest.len()];
    if name.is_empty() {
        return None;
    }
    match braced {
        true => rest.strip_prefix('}').map(|rest| (name, rest)),
        false => Some((name, rest)),
    }
}

/// Reports whether `c` may occur in a reference's name: a letter or decimal digit of any script, or `_`.
fn is_word(c: char) -> bool {
    static BEYOND_ASCII: OnceLock<regex::Regex> = OnceLock::new();
    if c.is_ascii() {
        return c.is_ascii_alphanumeric() || c == '_';
    }
    let class = BEYOND_ASCII.get_or_init(|| {
        regex::Regex::new(r"[\p{gc=L}\p{gc=Nd}]").expect("a class of known categories")
    });
    class.is_match(c.encode_utf8(&mut [0; 4]))
}

fn piece(name: &str) -> Piece {
    let number = name.bytes().all(|byte| byte.is_ascii_digit())
        && (name.len() == 1 || !name.starts_with('0'));
    match name.parse() {
        // Go counts up to 10^8 and treats larger numbers as names.
        Ok(group) if number && name.len() <= 9 => Piece::Number(group),
        _ => Piece::Name(name.into()),
    }
}
