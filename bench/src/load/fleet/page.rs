//! A target's page in protobuf, length-delimited metric families: the only format with native histograms.
//!
//! **Invariant:** it has the same contents as the lines of the same round, one message per family, in the same order;
//! native histograms, whose lines only have their counts, are complete.

use narthex_testkit::{
    fleet::{Native, SeriesKind, Target},
    protobuf::{bytes, double, number, varint},
};

/// Media type that a scraper accepts if it can read these pages.
pub(super) const MEDIA_TYPE: &str = "application/vnd.google.protobuf";
/// Media type of delimited metric families, in pushes and in pages.
pub(crate) const METRIC_FAMILIES: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

/// The lines of a round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lines<'a> {
    pub(crate) kinds: &'a [SeriesKind],
    pub(crate) values: &'a [f64],
    pub(crate) natives: &'a [Native],
}

impl<'a> From<&'a Target> for Lines<'a> {
    fn from(target: &'a Target) -> Self {
        Self {
            kinds: target.kinds(),
            values: target.values(),
            natives: target.natives(),
        }
    }
}

/// The parts that are the same in every round and for all targets of a fleet.
#[derive(Debug, PartialEq, Default)]
pub(crate) struct Page {
    families: Box<[Family]>,
    /// For each line: the `le` or the `quantile` it has.
    bounds: Box<[f64]>,
}

#[derive(Debug, PartialEq)]
struct Family {
    /// Name, help and type.
    head: Vec<u8>,
    is_summary: bool,
    metrics: Vec<Metric>,
}

/// The lines of one metric; several for a histogram or a summary.
#[derive(Debug, PartialEq)]
struct Metric {
    /// Its label pairs except those that all lines share.
    labels: Vec<u8>,
    from: usize,
    to: usize,
}

/// Buffers for nested messages, which are preceded by their length.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    family: Vec<u8>,
    value: Vec<u8>,
    bucket: Vec<u8>,
}

impl Page {
    /// Builds a page from lines: each line's comments, its name and its own labels.
    pub(crate) fn new<'a>(lines: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut families: Vec<Family> = Vec::new();
        let mut bounds = Vec::new();
        for (line, (comments, tail)) in lines.enumerate() {
            if !comments.is_empty() {
                families.push(Family::new(comments));
            }
            let (labels, bound) = label_pairs(tail);
            bounds.push(bound.unwrap_or_default());
            let Some(family) = families.last_mut() else {
                continue;
            };
            match family.metrics.last_mut() {
                Some(metric) if metric.labels == labels => metric.to = line + 1,
                _ => family.metrics.push(Metric {
                    labels,
                    from: line,
                    to: line + 1,
                }),
            }
        }
        Self {
            families: families.into(),
            bounds: bounds.into(),
        }
    }

    /// Appends the page of this round; `common` are the label pairs that all lines share.
    pub(crate) fn write(
        &self,
        lines: Lines<'_>,
        common: &[u8],
        stamp_ms: Option<i64>,
        scratch: &mut Scratch,
        page: &mut Vec<u8>,
    ) {
        let mut stamp = Vec::with_capacity(11);
        if let Some(stamp_ms) = stamp_ms {
            number(&mut stamp, 6, stamp_ms.cast_unsigned());
        }
        for family in &self.families {
            scratch.family.clear();
            scratch.family.extend_from_slice(&family.head);
            for metric in &family.metrics {
                let field = self.value(family, metric, lines, scratch);
                let value = &scratch.value;
                let out = &mut scratch.family;
                // Tag and length of a value are two bytes up to 127, three up to 16,383.
                let head = if value.len() < 0x80 { 2 } else { 3 };
                let length = common.len() + metric.labels.len() + head + value.len() + stamp.len();
                varint(out, 4 << 3 | 2);
                varint(out, length as u64);
                out.extend_from_slice(common);
                out.extend_from_slice(&metric.labels);
                bytes(out, field, value);
                out.extend_from_slice(&stamp);
            }
            varint(page, scratch.family.len() as u64);
            page.extend_from_slice(&scratch.family);
        }
    }

    /// Encodes a metric's value; returns the field it belongs in.
    fn value(
        &self,
        family: &Family,
        metric: &Metric,
        lines: Lines<'_>,
        scratch: &mut Scratch,
    ) -> u64 {
        let Scratch {
            value: out, bucket, ..
        } = scratch;
        out.clear();
        let mut field = if family.is_summary { 4 } else { 7 };
        for line in metric.from..metric.to {
            let (value, bound) = (lines.values[line], self.bounds[line]);
            match lines.kinds[line] {
                // A summary's count is a counter among lines.
                SeriesKind::Counter(_) if family.is_summary => number(out, 1, value as u64),
                SeriesKind::Counter(_) => {
                    field = 3;
                    double(out, 1, value);
                }
                SeriesKind::Gauge | SeriesKind::State => {
                    field = 2;
                    double(out, 1, value);
                }
                SeriesKind::Count => number(out, 1, value as u64),
                SeriesKind::Sum => double(out, 2, value),
                // The last bucket is the count; readers add it.
                SeriesKind::Bucket { .. } if bound.is_infinite() => {}
                SeriesKind::Bucket { .. } => {
                    bucket.clear();
                    number(bucket, 1, value as u64);
                    double(bucket, 2, bound);
                    bytes(out, 3, bucket);
                }
                SeriesKind::Quantile(_) => {
                    bucket.clear();
                    double(bucket, 1, bound);
                    double(bucket, 2, value);
                    bytes(out, 3, bucket);
                }
                SeriesKind::Native(at) => lines.natives[at as usize].write(out),
            }
        }
        field
    }
}

impl Family {
    /// Parses a HELP and a TYPE line, as the shapes write them.
    fn new(comments: &str) -> Self {
        let mut words = comments.lines().map(|line| line.splitn(4, ' ').skip(2));
        let mut pair = || {
            let mut words = words.next().into_iter().flatten();
            (
                words.next().unwrap_or_default(),
                words.next().unwrap_or_default(),
            )
        };
        let ((name, help), (_, kind)) = (pair(), pair());
        let mut head = Vec::new();
        bytes(&mut head, 1, name.as_bytes());
        bytes(&mut head, 2, help.as_bytes());
        let type_number = match kind {
            "counter" => 0,
            "gauge" => 1,
            "summary" => 2,
            _ => 4,
        };
        number(&mut head, 3, type_number);
        Self {
            head,
            is_summary: kind == "summary",
            metrics: Vec::new(),
        }
    }
}

/// Encodes `name="value"` pairs, separated and optionally followed by commas; `le` and `quantile` are not labels in
/// these pages.
pub(super) fn label_pairs(labels: &str) -> (Vec<u8>, Option<f64>) {
    let (mut pairs, mut bound) = (Vec::new(), None);
    let labels = labels.trim_end_matches(['}', ' ']);
    let labels = labels.split(',').filter_map(|label| label.split_once('='));
    for (name, value) in labels {
        let value = value.trim_matches('"');
        if matches!(name, "le" | "quantile") {
            bound = value.parse().ok();
            continue;
        }
        let mut pair = Vec::with_capacity(name.len() + value.len() + 4);
        bytes(&mut pair, 1, name.as_bytes());
        bytes(&mut pair, 2, value.as_bytes());
        bytes(&mut pairs, 1, &pair);
    }
    (pairs, bound)
}

#[cfg(test)]
mod tests;
