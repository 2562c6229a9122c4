//! promtool's format, as Prometheus' model prints values.

use super::{
    answer::{Answer, Labels},
    sorted, text,
};
use narthex_promql::fmt::quote;
use std::fmt::Write as _;

/// Formats a metric: `name{a="b", c="d"}`.
pub(super) fn metric(labels: &Labels) -> String {
    let name = labels.get("__name__").map_or("", String::as_str);
    let others = labels.iter().filter(|(label, _)| *label != "__name__");
    let others: Vec<String> = others.map(pair).collect();
    match others.is_empty() {
        true if !name.is_empty() => name.to_owned(),
        _ => format!("{name}{{{}}}", others.join(", ")),
    }
}

fn pair((name, value): (&String, &String)) -> String {
    format!("{}={}", label_name(name), quote(value))
}

/// Quotes names that are not legacy ones.
fn label_name(name: &str) -> String {
    let is_legacy = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_plain = name.chars().all(is_legacy) && !name.starts_with(|c: char| c.is_ascii_digit());
    if is_plain && !name.is_empty() {
        name.to_owned()
    } else {
        quote(name)
    }
}

/// Formats a query's value.
pub(super) fn answer(answer: &Answer) -> String {
    let mut out = String::new();
    match answer {
        Answer::Scalar(point) => {
            let _ = writeln!(out, "scalar: {} @[{}]", point.text, text::time(point.time));
        }
        Answer::Text { text, .. } => {
            let _ = writeln!(out, "{text}");
        }
        Answer::Vector(all) => {
            for series in all {
                let name = metric(&series.labels);
                for (time, value) in series.samples() {
                    let _ = writeln!(out, "{name} => {value} @[{}]", text::time(time));
                }
            }
        }
        Answer::Matrix(all) => {
            for series in sorted(all.iter().collect()) {
                let _ = writeln!(out, "{} =>", metric(&series.labels));
                for (time, value) in series.samples() {
                    let _ = writeln!(out, "{value} @[{}]", text::time(time));
                }
            }
        }
    }
    if out.is_empty() {
        out.push('\n');
    }
    out
}

/// Formats label sets, one a line.
pub(super) fn label_sets(sets: &[Labels]) -> String {
    let line = |set: &Labels| {
        let pairs: Vec<String> = set.iter().map(pair).collect();
        format!("{{{}}}\n", pairs.join(", "))
    };
    sets.iter().map(line).collect()
}
