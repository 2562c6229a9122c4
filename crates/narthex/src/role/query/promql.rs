//! promtool's format, as Prometheus' model prints values.

use super::{
    answer::{Answer, Histogram, Labels},
    sorted, text,
};
use narthex_promql::fmt::quote;
use std::fmt::Write as _;

/// Formats a metric: `name{a="b", c="d"}`.
pub(super) fn metric(labels: &Labels) -> String {
    let name = labels.get("__name__").map_or("", String::as_str);
    let others = labels.iter().filter(|(label, _)| *label != "__name__");
    let others: Vec<String> = others
        .map(|(name, value)| format!("{}={}", label_name(name), quote(value)))
        .collect();
    if others.is_empty() {
        return if name.is_empty() {
            "{}".to_owned()
        } else {
            name.to_owned()
        };
    }
    format!("{name}{{{}}}", others.join(", "))
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
                for point in &series.points {
                    let time = text::time(point.time);
                    let _ = writeln!(out, "{name} => {} @[{time}]", point.text);
                }
                for (time, histogram) in &series.histograms {
                    let time = text::time(*time);
                    let _ = writeln!(out, "{name} => {} @[{time}]", shown(histogram));
                }
            }
        }
        Answer::Matrix(all) => {
            for series in sorted(all.iter().collect()) {
                let _ = writeln!(out, "{} =>", metric(&series.labels));
                for point in &series.points {
                    let _ = writeln!(out, "{} @[{}]", point.text, text::time(point.time));
                }
                for (time, histogram) in &series.histograms {
                    let _ = writeln!(out, "{} @[{}]", shown(histogram), text::time(*time));
                }
            }
        }
    }
    if out.is_empty() {
        out.push('\n');
    }
    out
}

/// Formats a histogram: `Count: 3, Sum: 2, Buckets: [(0,1]:3]`.
pub(super) fn shown(histogram: &Histogram) -> String {
    let bucket = |bucket: &super::answer::Bucket| {
        let open = if matches!(bucket.rule, 1 | 3) {
            '['
        } else {
            '('
        };
        let close = if matches!(bucket.rule, 0 | 3) {
            ']'
        } else {
            ')'
        };
        format!(
            "{open}{},{}{close}:{}",
            bucket.lower, bucket.upper, bucket.count
        )
    };
    let buckets: Vec<String> = histogram.buckets.iter().map(bucket).collect();
    format!(
        "Count: {}, Sum: {}, Buckets: [{}]",
        histogram.count,
        histogram.sum,
        buckets.join(" ")
    )
}

/// Formats label sets, one a line.
pub(super) fn label_sets(sets: &[Labels]) -> String {
    let pair = |(name, value): (&String, &String)| format!("{}={}", label_name(name), quote(value));
    let line = |set: &Labels| {
        format!(
            "{{{}}}\n",
            set.iter().map(pair).collect::<Vec<_>>().join(", ")
        )
    };
    sets.iter().map(line).collect()
}
