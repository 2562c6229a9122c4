//! Pages of metrics in the text format: their lines, and whole pages as maps, so that tests can compare them.
//!
//! **Invariant:** the parts of a line are slices of it; a malformed line yields `None`, never a guess.

use std::collections::BTreeMap;

/// Values by series, written as `name{label="value",…}` with sorted labels and without empty ones.
pub type Samples = BTreeMap<String, f64>;
/// Type and help by family name.
pub type Families = BTreeMap<String, (String, String)>;

/// Writes a series as in [`Samples`].
#[must_use]
pub fn series(name: &str, labels: &[(&str, &str)]) -> String {
    let mut labels: Vec<_> = labels
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .collect();
    labels.sort();
    let labels: Vec<String> = labels
        .iter()
        .map(|(name, value)| format!("{name}={value:?}"))
        .collect();
    if labels.is_empty() {
        name.to_owned()
    } else {
        format!("{name}{{{}}}", labels.join(","))
    }
}

/// Parses text exposition as node_exporter writes it: no timestamps, one blank before the value.
///
/// # Panics
///
/// Panics on any other text.
#[must_use]
pub fn parse_text(text: &str) -> (Samples, Families) {
    let (mut samples, mut families) = (Samples::new(), Families::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap_or((rest, ""));
            families.entry(name.to_owned()).or_default().1 = help.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            families.entry(name.to_owned()).or_default().0 = kind.to_owned();
        } else if !line.is_empty() && !line.starts_with('#') {
            let line = Line::parse(line).expect("a sample");
            let values: Vec<String> = line.labels.iter().map(|l| unescape(l.value)).collect();
            let labels = line.labels.iter().map(|label| label.name);
            let labels: Vec<_> = labels.zip(values.iter().map(String::as_str)).collect();
            let value = line.value.parse().expect("a float");
            samples.insert(series(line.name, &labels), value);
        }
    }
    (samples, families)
}

/// A sample's line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line<'a> {
    /// The name of the metric.
    pub name: &'a str,
    /// Its labels, in their order.
    pub labels: Vec<Label<'a>>,
    /// The value as written.
    pub value: &'a str,
    /// The timestamp, if there is one.
    pub timestamp: Option<&'a str>,
}

/// A label as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label<'a> {
    /// Its name.
    pub name: &'a str,
    /// With its escapes, without quotes.
    pub value: &'a str,
}

impl<'a> Line<'a> {
    /// Parses a line without its line break; `None` for comments, empty and malformed lines.
    #[must_use]
    pub fn parse(line: &'a str) -> Option<Self> {
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
#[must_use]
pub fn unescape(value: &str) -> String {
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
