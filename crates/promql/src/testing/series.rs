//! Series with expanding values: `up{job="a"} 1 2x3 _x2 0+10x4 stale {{count:1}}x2`.
//!
//! ```text
//! line  = labels { " " item }
//! item  = "_" | "_x" n | "stale" | number | number "x" n | number ("+"|"-") number "x" n
//!       | histogram | histogram "x" n | histogram ("+"|"-") histogram "x" n
//! ```
//!
//! **Invariant:** `x n` means n more values after the first, `_x n` n missing ones.

use super::{
    histogram::{Literal, parse_literal},
    number::number,
};
use narthex_model::{Histogram, LabelSet, cell};
use std::sync::Arc;

/// Most values one line may expand to.
const MAX_VALUES: u64 = 100_000;

/// One value of a line.
#[derive(Clone, Debug)]
pub enum SeriesValue {
    /// No sample.
    Missing,
    /// A float; a staleness marker for `stale`.
    Float(f64),
    /// A native histogram.
    Histogram {
        /// The histogram.
        histogram: Arc<Histogram>,
        /// Whether the line specifies a reset hint, which is then compared.
        hint_given: bool,
    },
}

/// Parses a line into labels and values.
///
/// # Errors
/// Fails with a description of the error.
pub fn parse_series(line: &str) -> Result<(LabelSet, Vec<SeriesValue>), String> {
    parse_series_within(line, &mut Limits::unlimited())
}

/// Like `parse_series`, taking the memory of the values from `room`.
pub(super) fn parse_series_within(
    line: &str,
    room: &mut Limits,
) -> Result<(LabelSet, Vec<SeriesValue>), String> {
    let end = end_of_metric(line);
    let labels =
        crate::parse::parse_metric_with(line[..end].trim_end(), super::reference_options().parse)
            .map_err(|e| e.to_string())?;
    Ok((labels, parse_values(&line[end..], room)?))
}

/// Bounds on a script's expansion: a few bytes can expand to 100,000 values, and a pattern to any number of classes.
#[derive(Debug)]
pub(super) struct Limits {
    /// Bytes left for values.
    pub(super) value_bytes: usize,
    /// Bytes left for patterns.
    pub(super) pattern_bytes: usize,
}

impl Limits {
    pub(super) fn unlimited() -> Self {
        Self {
            value_bytes: usize::MAX,
            pattern_bytes: usize::MAX,
        }
    }

    /// Takes memory for `count` values with `heap_bytes` each.
    pub(super) fn values(&mut self, count: u64, heap_bytes: usize) -> Result<(), String> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let bytes = count.saturating_mul(size_of::<SeriesValue>() + heap_bytes);
        self.value_bytes = self
            .value_bytes
            .checked_sub(bytes)
            .ok_or("too many values")?;
        Ok(())
    }

    /// Takes memory for a pattern.
    pub(super) fn pattern(&mut self, text: &str) -> Result<(), String> {
        self.pattern_bytes = self
            .pattern_bytes
            .checked_sub(text.len())
            .ok_or("too many patterns")?;
        Ok(())
    }
}

/// Returns the end of the labels.
pub(super) fn end_of_metric(line: &str) -> usize {
    // A number is no name, whatever follows its dot.
    let dots = line.starts_with(char::is_alphabetic);
    let in_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':') || (dots && c == '.');
    let word = line.len() - line.trim_start_matches(in_name).len();
    if !line[word..].starts_with('{') {
        return word;
    }
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in line[word..].char_indices() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some('"' | '\'') if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if matches!(c, '"' | '\'' | '`') => quote = Some(c),
            None if c == '}' => return word + at + 1,
            None => {}
        }
    }
    line.len()
}

fn parse_values(text: &str, room: &mut Limits) -> Result<Vec<SeriesValue>, String> {
    let mut values = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        rest = if rest.starts_with("{{") {
            histograms(rest, &mut values, room)?
        } else {
            floats(rest, &mut values, room)?
        };
        if !rest.is_empty() && !rest.starts_with([' ', '\t']) {
            return Err(format!("unexpected {rest:?} in series values"));
        }
        rest = rest.trim_start();
        if values.len() as u64 > MAX_VALUES {
            return Err("too many values".to_owned());
        }
    }
    Ok(values)
}

fn floats<'a>(
    text: &'a str,
    values: &mut Vec<SeriesValue>,
    room: &mut Limits,
) -> Result<&'a str, String> {
    let end = text.find([' ', '\t']).unwrap_or(text.len());
    let (item, rest) = text.split_at(end);
    if let Some(tail) = item.strip_prefix('_') {
        let count = if tail.is_empty() { 1 } else { times(tail)? };
        room.values(count, 0)?;
        values.extend((0..count).map(|_| SeriesValue::Missing));
        return Ok(rest);
    }
    if item == "stale" {
        room.values(1, 0)?;
        values.push(SeriesValue::Float(cell::STALE));
        return Ok(rest);
    }
    let (mut value, tail) = number(item)?;
    if tail.is_empty() {
        room.values(1, 0)?;
        values.push(SeriesValue::Float(value));
        return Ok(rest);
    }
    let (step, tail) = if tail.starts_with(['+', '-']) {
        number(tail)?
    } else {
        (0.0, tail)
    };
    let count = times(tail)?;
    room.values(count + 1, 0)?;
    for _ in 0..=count {
        values.push(SeriesValue::Float(value));
        value += step;
    }
    Ok(rest)
}

/// Parses `x<n>`.
pub(super) fn times(text: &str) -> Result<u64, String> {
    let count = text.strip_prefix('x').and_then(|n| n.parse::<u64>().ok());
    count
        .filter(|n| *n <= MAX_VALUES)
        .ok_or_else(|| format!("invalid repetition {text:?} in series values"))
}

fn histograms<'a>(
    text: &'a str,
    values: &mut Vec<SeriesValue>,
    room: &mut Limits,
) -> Result<&'a str, String> {
    let (base, rest) = parse_literal(text)?;
    let mut push = |histogram: &Histogram, hint_given: bool| -> Result<(), String> {
        room.values(1, size_of::<Histogram>() + histogram.heap_bytes())?;
        values.push(SeriesValue::Histogram {
            histogram: Arc::new(histogram.clone()),
            hint_given,
        });
        Ok(())
    };
    let end = |rest: &str| rest.find([' ', '\t']).unwrap_or(rest.len());
    if rest.starts_with('x') {
        let (count, tail) = rest.split_at(end(rest));
        for _ in 0..=times(count)? {
            push(&base.histogram, base.hint_given)?;
        }
        return Ok(tail);
    }
    let Some(step_text) = rest
        .strip_prefix(['+', '-'])
        .filter(|text| text.starts_with("{{"))
    else {
        push(&base.histogram, base.hint_given)?;
        return Ok(rest);
    };
    let (step, tail): (Literal, &str) = parse_literal(step_text)?;
    let (count, tail) = tail.split_at(end(tail));
    let mut current = base.histogram;
    push(&current, step.hint_given)?;
    for _ in 0..times(count)? {
        let (from, to) = (step.histogram.histogram_schema, current.histogram_schema);
        if to > from {
            return Err(format!(
                "error combining histograms: cannot merge from schema {from} to {to}"
            ));
        }
        let added = if rest.starts_with('+') {
            current.add(&step.histogram)
        } else {
            current.subtract(&step.histogram)
        };
        added.map_err(|e| e.to_string())?;
        push(&current, step.hint_given)?;
    }
    Ok(tail)
}
