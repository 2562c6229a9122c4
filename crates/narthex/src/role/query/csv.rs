//! Comma-separated values, one sample a line, quoted as RFC 4180 says.

use super::{
    answer::{Answer, Labels, Series},
    sorted, text,
};
use std::collections::BTreeSet;

fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn line<'a>(fields: impl Iterator<Item = &'a str>) -> String {
    let fields: Vec<String> = fields.map(field).collect();
    format!("{}\n", fields.join(","))
}

/// Returns a line of names and a function that returns a set's values in their order.
fn columns<'a>(sets: impl Iterator<Item = &'a Labels>) -> Vec<&'a str> {
    let names: BTreeSet<&str> = sets
        .flat_map(|set| set.keys().map(String::as_str))
        .collect();
    names.into_iter().collect()
}

fn values<'a>(set: &'a Labels, names: &'a [&str]) -> impl Iterator<Item = &'a str> {
    names
        .iter()
        .map(|name| set.get(*name).map_or("", String::as_str))
}

/// Formats a query's value: the labels, time and value of each sample.
pub(super) fn answer(answer: &Answer) -> String {
    match answer {
        Answer::Scalar(point) => samples(&[&Series {
            points: vec![point.clone()],
            ..Series::default()
        }]),
        Answer::Text { time, text } => {
            let time = text::time(*time);
            line(["timestamp", "value"].into_iter()) + &line([&*time, text].into_iter())
        }
        Answer::Vector(all) => samples(&all.iter().collect::<Vec<_>>()),
        Answer::Matrix(all) => samples(&sorted(all.iter().collect())),
    }
}

fn samples(all: &[&Series]) -> String {
    let names = columns(all.iter().map(|series| &series.labels));
    let mut out = line(names.iter().copied().chain(["timestamp", "value"]));
    for series in all {
        for (time, value) in series.samples() {
            let time = text::time(time);
            out += &line(values(&series.labels, &names).chain([&*time, &*value]));
        }
    }
    out
}

/// Formats label sets, a column for each label.
pub(super) fn label_sets(sets: &[Labels]) -> String {
    let names = columns(sets.iter());
    let mut out = line(names.iter().copied());
    for set in sets {
        out += &line(values(set, &names));
    }
    out
}

/// Formats one column.
pub(super) fn column(name: &str, all: &[String]) -> String {
    let rows = all.iter().map(|value| line([&**value].into_iter()));
    line([name].into_iter()) + &rows.collect::<String>()
}
