//! Character classes and escapes.
//!
//! **Invariant:** under the flag `i`, a class is folded before it is negated, as in Go; the `regex` crate also folds
//! and negates each pair of brackets in that order.

use super::{
    PatternError, cost,
    names::{self, MAX, Range},
};
use std::fmt::Write;

/// A class that contains no character.
pub(super) const NOTHING: &str = r"[^\x{0}-\x{10ffff}]";

/// A class that contains every character.
const EVERYTHING: &str = r"[\x{0}-\x{10ffff}]";

/// Largest class whose characters are listed one by one.
const LISTED: usize = 16;

/// A class in brackets.
pub(super) struct Class {
    pub(super) text: String,
    /// Its characters, when they are few and case-sensitive.
    pub(super) exact: Option<Vec<String>>,
    /// Peak memory of compiling it, in bytes.
    pub(super) cost_bytes: u64,
}

/// The parts of a class, in the order they were read.
#[derive(Default)]
struct Body {
    text: String,
    ranges: Vec<Range>,
    /// Whether it contains more than ranges.
    nested: bool,
    /// Whether it contains a Unicode property.
    unicode: bool,
    cost_bytes: u64,
}

impl Body {
    fn range(&mut self, low: u32, high: u32) {
        self.ranges.push((low, high));
        self.cost_bytes = self.cost_bytes.saturating_add(cost::range(low, high));
        // Surrogates cannot be written, and no text contains one.
        let low = if (0xd800..=0xdfff).contains(&low) {
            0xe000
        } else {
            low
        };
        let high = if (0xd800..=0xdfff).contains(&high) {
            0xd7ff
        } else {
            high
        };
        if low <= high {
            write_range(&mut self.text, low, high);
        }
    }

    fn group(&mut self, ranges: &[Range], negated: bool) {
        self.nested = true;
        let of_ranges = ranges.len() as u64 * cost::ASCII_RANGE;
        let negation = if negated { cost::ANY } else { 0 };
        self.cost_bytes = self.cost_bytes.saturating_add(of_ranges + negation);
        self.text.push_str(if negated { "[^" } else { "[" });
        for (low, high) in ranges {
            write_range(&mut self.text, *low, *high);
        }
        self.text.push(']');
    }

    fn unicode(&mut self, class: &str, negated: bool) {
        self.nested = true;
        self.unicode = true;
        self.cost_bytes = self.cost_bytes.saturating_add(cost::NAMED_CLASS);
        match (class, negated) {
            ("", true) => self.text.push_str(EVERYTHING),
            ("", false) => {}
            (class, true) => self.text.push_str(&format!("[^{class}]")),
            (class, false) => self.text.push_str(class),
        }
    }

    fn finish(self, negated: bool, fold: bool) -> Class {
        let text = match (self.text.is_empty(), negated) {
            (true, false) => NOTHING.to_owned(),
            (true, true) => EVERYTHING.to_owned(),
            (false, _) => {
                let opening = if negated { "[^" } else { "[" };
                let class = format!("{opening}{}]", self.text);
                if fold { format!("(?i:{class})") } else { class }
            }
        };
        let exact = (!negated && !fold && !self.nested)
            .then(|| listed(&self.ranges))
            .flatten();
        let mut cost_bytes = self.cost_bytes + cost::CLASS;
        if negated {
            cost_bytes += cost::ANY;
        }
        if fold {
            cost_bytes = cost_bytes.saturating_mul(2) + cost::ANY;
        }
        if self.unicode {
            // Joining more properties costs no more, as the number of characters is bounded.
            cost_bytes += cost::PROPERTY;
        }
        Class {
            text,
            exact,
            cost_bytes,
        }
    }
}

fn write_range(text: &mut String, low: u32, high: u32) {
    write!(text, r"\x{{{low:x}}}-\x{{{high:x}}}").expect("writing to a string cannot fail");
}

fn listed(ranges: &[Range]) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for &(low, high) in ranges {
        if all.len() + (high - low) as usize >= LISTED {
            return None;
        }
        all.extend((low..=high).filter_map(char::from_u32).map(String::from));
    }
    Some(all)
}

/// Parses the class at the beginning of `start`, which is a `[`; returns it and the rest.
pub(super) fn bracketed(start: &str, fold: bool) -> Result<(Class, &str), PatternError> {
    let mut rest = start.get(1..).unwrap_or_default();
    let negated = rest.starts_with('^');
    if negated {
        rest = rest.get(1..).unwrap_or_default();
    }
    let mut body = Body::default();
    // A closing bracket is literal at the beginning of a class.
    let mut first = true;
    loop {
        if !first && let Some(behind) = rest.strip_prefix(']') {
            return Ok((body.finish(negated, fold), behind));
        }
        first = false;
        if let Some(behind) = item(&mut body, rest)? {
            rest = behind;
            continue;
        }
        let item = rest;
        let (low, behind) = class_character(rest, start)?;
        rest = behind;
        let mut high = low;
        let to = rest
            .strip_prefix('-')
            .filter(|behind| !behind.is_empty() && !behind.starts_with(']'));
        if let Some(behind) = to {
            (high, rest) = class_character(behind, start)?;
            if high < low {
                let quoted = &item[..item.len() - rest.len()];
                return Err(bad_range(quoted));
            }
        }
        body.range(low, high);
    }
}

/// Parses a named class inside brackets into `body`; returns `None` if none begins here.
fn item<'a>(body: &mut Body, text: &'a str) -> Result<Option<&'a str>, PatternError> {
    if text.len() > 2
        && let Some(inner) = text.strip_prefix("[:")
        && let Some((name, rest)) = inner.split_once(":]")
    {
        let (name, negated) = match name.strip_prefix('^') {
            Some(name) => (name, true),
            None => (name, false),
        };
        let Some(ranges) = names::posix(name) else {
            return Err(bad_range(&text[..text.len() - rest.len()]));
        };
        body.group(ranges, negated);
        return Ok(Some(rest));
    }
    named(body, text)
}

/// Parses `\d` and its kin or `\p{…}` into `body`; returns `None` if neither begins here.
fn named<'a>(body: &mut Body, text: &'a str) -> Result<Option<&'a str>, PatternError> {
    let Some(letter) = text.strip_prefix('\\').and_then(|text| text.bytes().next()) else {
        return Ok(None);
    };
    let behind = text.get(2..).unwrap_or_default();
    if letter == b'p' || letter == b'P' {
        return unicode(body, text, behind, letter == b'P').map(Some);
    }
    let ranges = names::perl(letter.to_ascii_lowercase());
    Ok(ranges.map(|ranges| {
        body.group(ranges, letter.is_ascii_uppercase());
        behind
    }))
}

/// Parses the name after `\p`.
fn unicode<'a>(
    body: &mut Body,
    start: &'a str,
    behind: &'a str,
    negated: bool,
) -> Result<&'a str, PatternError> {
    let (name, rest) = match behind.strip_prefix('{') {
        Some(inner) => inner.split_once('}').ok_or_else(|| bad_range(start))?,
        None => {
            let length = behind.chars().next().map_or(0, char::len_utf8);
            behind.split_at(length)
        }
    };
    let (name, negated) = match name.strip_prefix('^') {
        Some(name) => (name, !negated),
        None => (name, negated),
    };
    let class =
        names::unicode(name).ok_or_else(|| bad_range(&start[..start.len() - rest.len()]))?;
    body.unicode(&class, negated);
    Ok(rest)
}

/// Parses a class outside brackets at the beginning of `start`, which is a backslash.
pub(super) fn escaped(start: &str, fold: bool) -> Result<Option<(Class, &str)>, PatternError> {
    let mut body = Body::default();
    let rest = named(&mut body, start)?;
    Ok(rest.map(|rest| (body.finish(false, fold), rest)))
}

fn class_character<'a>(text: &'a str, class: &str) -> Result<(u32, &'a str), PatternError> {
    match text.chars().next() {
        None => Err(PatternError::new("missing closing ]", class)),
        Some('\\') => character(text),
        Some(c) => Ok((c as u32, text.get(c.len_utf8()..).unwrap_or_default())),
    }
}

fn bad_range(text: &str) -> PatternError {
    PatternError::new("invalid character class range", text)
}

/// Parses an escaped character at the beginning of `start`, which is a backslash; returns its code and the rest.
pub(super) fn character(start: &str) -> Result<(u32, &str), PatternError> {
    let text = start.get(1..).unwrap_or_default();
    let Some(c) = text.chars().next() else {
        return Err(PatternError::new(
            "trailing backslash at end of expression",
            "",
        ));
    };
    let rest = text.get(c.len_utf8()..).unwrap_or_default();
    let invalid = |rest: &str| {
        let quoted = &start[..start.len() - rest.len()];
        Err(PatternError::new("invalid escape sequence", quoted))
    };
    let control = match c {
        'a' => 7,
        'f' => 12,
        'n' => 10,
        'r' => 13,
        't' => 9,
        'v' => 11,
        'x' => return hexadecimal(rest).or_else(invalid),
        // Another single digit would be a back-reference, which Go does not support.
        '0' => return Ok(octal(text)),
        '1'..='7' if rest.starts_with(|c| matches!(c, '0'..='7')) => return Ok(octal(text)),
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => c as u32,
        _ => return invalid(rest),
    };
    Ok((control, rest))
}

/// Parses one to three octal digits.
fn octal(text: &str) -> (u32, &str) {
    let digits = text
        .bytes()
        .take(3)
        .take_while(|b| matches!(b, b'0'..=b'7'));
    let (mut code, mut length) = (0, 0);
    for digit in digits {
        code = code * 8 + u32::from(digit - b'0');
        length += 1;
    }
    (code, text.get(length..).unwrap_or_default())
}

/// Parses `41` or `{1F600}`; an error holds the text from where parsing stopped.
fn hexadecimal(text: &str) -> Result<(u32, &str), &str> {
    let mut chars = text.chars();
    if let Some(inner) = text.strip_prefix('{') {
        let mut chars = inner.chars();
        let (mut code, mut digits) = (0_u32, 0);
        loop {
            let Some(c) = chars.next() else {
                return Err(chars.as_str());
            };
            match c.to_digit(16) {
                Some(digit) => code = code * 16 + digit,
                None if c == '}' && digits > 0 => return Ok((code, chars.as_str())),
                None => return Err(chars.as_str()),
            }
            digits += 1;
            if code > MAX {
                return Err(chars.as_str());
            }
        }
    }
    let first = chars.next().and_then(|c| c.to_digit(16));
    if chars.as_str().len() == text.len() {
        return Err(text);
    }
    match (first, chars.next().and_then(|c| c.to_digit(16))) {
        (Some(first), Some(second)) => Ok((first * 16 + second, chars.as_str())),
        _ => Err(chars.as_str()),
    }
}
