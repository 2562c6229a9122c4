//! Histogram literals of test files: `{{schema:1 count:3 sum:5 buckets:[1 2] offset:-1}}`.
//!
//! **Invariant:** every key occurs at most once; an omitted key is zero.

use super::number::number;
use narthex_model::{
    Histogram,
    histogram::{ResetHint, Span},
};

/// A parsed literal.
pub(super) struct Literal {
    pub(super) histogram: Histogram,
    pub(super) hint_given: bool,
}

/// Parses a literal and returns it with the rest of the text.
pub(super) fn parse_literal(text: &str) -> Result<(Literal, &str), String> {
    let inner = text
        .strip_prefix("{{")
        .ok_or("a histogram starts with {{")?;
    let (inner, tail) = inner.split_once("}}").ok_or("a histogram ends with }}")?;
    let mut literal = Literal {
        histogram: Histogram::default(),
        hint_given: false,
    };
    let (mut offset, mut negative_offset) = (0, 0);
    let mut seen: Vec<&str> = Vec::new();
    let mut rest = inner.trim();
    while !rest.is_empty() {
        let (key, value) = rest
            .split_once(':')
            .ok_or_else(|| format!("missing `:` for histogram descriptor {rest:?}"))?;
        let end = if value.starts_with('[') {
            value.find(']').ok_or("a list of buckets ends with ]")? + 1
        } else {
            value.find(' ').unwrap_or(value.len())
        };
        let (value, tail) = value.split_at(end);
        rest = tail.trim_start();
        if seen.contains(&key) {
            return Err(format!("duplicate key {key:?} in histogram"));
        }
        seen.push(key);
        let h = &mut literal.histogram;
        match key {
            "schema" => h.histogram_schema = integer(value)?,
            "offset" => offset = integer(value)?,
            "n_offset" => negative_offset = integer(value)?,
            "sum" => h.sum = float(value)?,
            "count" => h.count = float(value)?,
            "z_bucket" => h.zero_count = float(value)?,
            "z_bucket_w" => h.zero_threshold = float(value)?,
            "buckets" => h.positive_buckets = list(value)?,
            "n_buckets" => h.negative_buckets = list(value)?,
            "custom_values" => h.custom_values = list(value)?,
            "counter_reset_hint" => {
                literal.hint_given = true;
                h.reset_hint = match value {
                    "unknown" => ResetHint::Unknown,
                    "reset" => ResetHint::Reset,
                    "not_reset" => ResetHint::NotReset,
                    "gauge" => ResetHint::Gauge,
                    other => return Err(format!("bad histogram descriptor found: {other:?}")),
                };
            }
            other => return Err(format!("bad histogram descriptor found: {other:?}")),
        }
    }
    let h = &mut literal.histogram;
    h.positive_spans = spans(offset, h.positive_buckets.len());
    h.negative_spans = spans(negative_offset, h.negative_buckets.len());
    Ok((literal, tail))
}

fn spans(offset: i32, buckets: usize) -> Vec<Span> {
    match u32::try_from(buckets) {
        Ok(length) if length > 0 => vec![Span { offset, length }],
        _ => Vec::new(),
    }
}

fn integer(text: &str) -> Result<i32, String> {
    text.parse()
        .map_err(|_| format!("bad integer {text:?} in histogram"))
}

fn float(text: &str) -> Result<f64, String> {
    match number(text)? {
        (value, "") => Ok(value),
        _ => Err(format!("bad number {text:?} in histogram")),
    }
}

fn list(text: &str) -> Result<Vec<f64>, String> {
    let inner = text
        .strip_prefix('[')
        .and_then(|t| t.strip_suffix(']'))
        .ok_or("a list stands in brackets")?;
    inner.split_whitespace().map(float).collect()
}
