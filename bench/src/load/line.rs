//! Parser of one line of the text format: enough to replace a label's value and to query the series.
//!
//! **Invariant:** the parts are slices of the line; a malformed line yields `None`, never a guess.

/// A sample's line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub(crate) name: &'a str,
    pub(crate) labels: Vec<Label<'a>>,
    pub(crate) value: &'a str,
    pub(crate) timestamp: Option<&'a str>,
}

/// A label as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Label<'a> {
    pub(crate) name: &'a str,
    /// With its escapes, without quotes.
    pub(crate) value: &'a str,
}

impl<'a> Line<'a> {
    /// Parses a line without its line break; `None` for comments, empty and malformed lines.
    pub(crate) fn parse(line: &'a str) -> Option<Self> {
        let line = line.trim_matches([' ', '\t']);
        if line.starts_with('#') {
            return None;
        }
        let end = line.find(['{', ' ', '\t'])?;
        let (name, mut rest) = line.split_at(end);
        let mut labels = Vec::new();
        if let Some(inside) = rest.strip_prefix('{') {
            rest = parse_labels(inside, &mut labels)?;
        }
        let mut words = rest.split_ascii_whitespace();
        let (value, timestamp) = (words.next()?, words.next());
        let is_line = !name.is_empty() && words.next().is_none();
        is_line.then_some(Self {
            name,
            labels,
            value,
            timestamp,
        })
    }
}

/// Parses labels up to the closing brace; returns the rest of the line.
fn parse_labels<'a>(mut rest: &'a str, labels: &mut Vec<Label<'a>>) -> Option<&'a str> {
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if let Some(after) = rest.strip_prefix('}') {
            return Some(after);
        }
        let (name, after) = rest.split_once('=')?;
        let quoted = after.trim_start().strip_prefix('"')?;
        let end = end_of_value(quoted)?;
        let (value, after) = quoted.split_at(end);
        labels.push(Label {
            name: name.trim_end(),
            value,
        });
        rest = after.get(1..)?;
    }
}

/// Returns the position of the closing quote.
fn end_of_value(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })
}

/// Returns a label's value without its escapes.
pub(crate) fn unescape(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => match chars.next() {
                Some('n') => text.push('\n'),
                Some(other) => text.push(other),
                None => text.push('\\'),
            },
            (c, _) => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests;
