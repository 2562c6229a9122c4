//! Reads values from a checked tree.
//!
//! **Invariant:** an absent or null key reads as its kind's zero value: defaults are in the tree already.

use super::{ConfigError, keys::KeyKind};
use narthex_model::duration;
use narthex_yaml::{Node, Scalar, Value};
use std::time::Duration;

/// What configurations read from nodes.
pub(super) trait Access {
    fn node(&self) -> &Node;

    /// Returns the values of a list under `key`, to be changed.
    fn items_mut(&mut self, key: &str) -> &mut [Node];

    /// Returns an error at this node's position.
    fn error(&self, message: impl Into<String>) -> ConfigError {
        ConfigError::at(self.node().line, self.node().column, message)
    }

    /// Returns the value under `key` unless it is null.
    fn given(&self, key: &str) -> Option<&Node> {
        self.node().get(key).filter(|node| !node.is_null())
    }

    /// Reports whether `key` has a value that is not a default.
    fn is_written(&self, key: &str) -> bool {
        self.node().get(key).is_some_and(|node| node.line > 0)
    }

    /// Returns a scalar's text; empty for any other node.
    fn as_text(&self) -> &str {
        self.node().scalar().map_or("", |scalar| &scalar.text)
    }

    fn text_of(&self, key: &str) -> &str {
        self.node().get(key).map_or("", Node::as_text)
    }

    fn scalar_of<T>(&self, key: &str, read: fn(&Scalar) -> Option<T>) -> Option<T> {
        self.node().get(key)?.scalar().and_then(read)
    }

    fn flag(&self, key: &str) -> bool {
        self.scalar_of(key, Scalar::boolean).unwrap_or_default()
    }

    fn count(&self, key: &str) -> u64 {
        u64::try_from(self.whole(key)).unwrap_or_default()
    }

    fn limit(&self, key: &str) -> usize {
        usize::try_from(self.whole(key)).unwrap_or(usize::MAX)
    }

    fn whole(&self, key: &str) -> i128 {
        self.scalar_of(key, Scalar::integer).unwrap_or_default()
    }

    fn float(&self, key: &str) -> f64 {
        self.scalar_of(key, Scalar::float).unwrap_or_default()
    }

    fn period(&self, key: &str) -> Duration {
        parse_period(self.text_of(key)).unwrap_or_default()
    }

    /// Returns the section's interval; without one, that of scrapes in the file's `root`.
    fn own_or_scrape_interval(&self, root: &Node) -> Duration {
        let own = Some(self.period("interval")).filter(|period| !period.is_zero());
        let global = || Some(root.get("global")?.period("scrape_interval"));
        own.or_else(global).unwrap_or_default()
    }

    /// Returns a size in bytes; it may be negative.
    fn size_of(&self, key: &str) -> i64 {
        parse_size(self.text_of(key)).unwrap_or_default()
    }

    /// Returns a size in bytes, 0 for a negative one.
    fn bytes_of(&self, key: &str) -> u64 {
        u64::try_from(self.size_of(key)).unwrap_or_default()
    }

    fn items(&self, key: &str) -> &[Node] {
        self.node().get(key).map_or(&[], Node::list)
    }

    fn texts(&self, key: &str) -> Vec<String> {
        all_texts(self.items(key))
    }

    /// Returns the pairs of a mapping, sorted by name.
    fn pairs(&self, key: &str) -> Vec<(&str, &Node)> {
        let pairs = self.node().get(key).map_or(&[][..], Node::entries).iter();
        let mut pairs: Vec<_> = pairs.map(|(word, node)| (&*word.text, node)).collect();
        pairs.sort_by_key(|(name, _)| *name);
        pairs
    }

    fn labels(&self, key: &str) -> Vec<(String, String)> {
        let pair = |(name, value): (&str, &Node)| (name.to_owned(), value.as_text().to_owned());
        self.pairs(key).into_iter().map(pair).collect()
    }

    fn params(&self, key: &str) -> Vec<(String, Vec<String>)> {
        let pair = |(name, values): (&str, &Node)| (name.to_owned(), all_texts(values.list()));
        self.pairs(key).into_iter().map(pair).collect()
    }

    /// Reports whether a value is the zero value of its kind.
    fn is_zero(&self, kind: KeyKind) -> bool {
        match (&self.node().value, kind) {
            (Value::Null, _) => true,
            (Value::List(items), _) => items.is_empty(),
            (Value::Map(pairs), _) => pairs.is_empty(),
            (Value::Scalar(scalar), KeyKind::Bool) => scalar.boolean() != Some(true),
            (Value::Scalar(scalar), KeyKind::Count | KeyKind::Number) => {
                scalar.integer() == Some(0)
            }
            (Value::Scalar(scalar), KeyKind::Float) => scalar.float() == Some(0.0),
            (Value::Scalar(scalar), KeyKind::Period) => {
                parse_period(&scalar.text) == Ok(Duration::ZERO)
            }
            (Value::Scalar(scalar), KeyKind::Size) => parse_size(&scalar.text) == Ok(0),
            (Value::Scalar(scalar), _) => scalar.text.is_empty(),
        }
    }
}

impl Access for Node {
    fn node(&self) -> &Node {
        self
    }

    fn items_mut(&mut self, key: &str) -> &mut [Node] {
        self.get_mut(key).map_or(&mut [], Node::list_mut)
    }
}

fn all_texts(items: &[Node]) -> Vec<String> {
    items.iter().map(|item| item.as_text().to_owned()).collect()
}

/// Parses a period.
///
/// # Errors
/// Fails, in Prometheus' words, on an invalid period.
pub(super) fn parse_period(text: &str) -> Result<Duration, String> {
    if text.is_empty() {
        return Ok(Duration::ZERO);
    }
    let ms = duration::parse(text).map_err(|error| error.to_string())?;
    Ok(Duration::from_millis(ms.unsigned_abs()))
}

/// Formats a period as Prometheus does.
pub(crate) fn show_period(period: Duration) -> String {
    duration::format(i64::try_from(period.as_millis()).unwrap_or(i64::MAX))
}

/// Units of sizes: all are powers of 1024.
const UNITS: [&str; 7] = ["B", "K", "M", "G", "T", "P", "E"];

/// Parses a size: numbers with units, `1GB512MB`. Unlike in flags, a number needs its unit.
///
/// # Errors
/// Fails, in Prometheus' words, on an invalid size.
pub(super) fn parse_size(text: &str) -> Result<i64, String> {
    let invalid = || format!("units: invalid {text}");
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" || text.is_empty() {
        return Ok(0);
    }
    let mut sum = 0.0;
    while !rest.is_empty() {
        let unit = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let number = &rest[..rest.len() - unit.len()];
        let number: f64 = number.parse().map_err(|_| invalid())?;
        let end = unit
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(unit.len());
        let (name, behind) = unit.split_at(end);
        let power = power(name).ok_or_else(|| format!("units: unknown unit {name} in {text}"))?;
        sum += number * 1024_f64.powi(power);
        rest = behind;
    }
    if sum > 9.2e18 {
        return Err(invalid());
    }
    #[expect(clippy::cast_possible_truncation, reason = "checked just above")]
    let bytes = sum as i64;
    Ok(if negative { -bytes } else { bytes })
}

fn power(unit: &str) -> Option<i32> {
    if unit == "B" {
        return Some(0);
    }
    let letter = unit.strip_suffix("iB").or_else(|| unit.strip_suffix('B'))?;
    let index = UNITS.iter().position(|&known| known == letter)?;
    i32::try_from(index).ok().filter(|&power| power > 0)
}

/// Formats a size as Prometheus does: `1GiB512MiB`.
pub(super) fn show_size(bytes: i64) -> String {
    if bytes == 0 {
        return "0B".to_owned();
    }
    let mut text = if bytes < 0 { "-" } else { "" }.to_owned();
    let mut rest = bytes.unsigned_abs();
    for (power, unit) in UNITS.iter().enumerate().rev() {
        let size = 1_u64 << (10 * power);
        if rest >= size {
            let infix = if power > 0 { "iB" } else { "" };
            text.push_str(&format!("{}{unit}{infix}", rest / size));
            rest %= size;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_as_they_are_read() {
        for (text, bytes, shown) in [
            ("15MB", 15 << 20, "15MiB"),
            ("1.5KiB", 1536, "1KiB512B"),
            ("7B", 7, "7B"),
            ("1GB512MB", 1536 << 20, "1GiB512MiB"),
            ("-1MB", -1 << 20, "-1MiB"),
            ("0", 0, "0B"),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
            assert_eq!(show_size(bytes), shown);
        }
        for (text, error) in [
            ("100", "units: unknown unit  in 100"),
            ("1XB", "units: unknown unit XB in 1XB"),
            ("2G", "units: unknown unit G in 2G"),
            ("MB", "units: invalid MB"),
            ("huge", "units: invalid huge"),
        ] {
            assert_eq!(parse_size(text), Err(error.to_owned()), "{text}");
        }
    }
}
