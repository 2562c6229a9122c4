//! A group's metric family: its shape, its numbers, and its lines of the page.
//!
//! **Invariant:** there is one cell for each part of the shape, and the lines show these numbers. A shape never
//! changes: pushes of the same series share it and only change numbers.

use crate::grouping::Grouping;
use narthex_client::write_number;
use narthex_expfmt::Escaping;
use narthex_model::{
    Histogram, LabelHash, LabelSet, METRIC_NAME, MetricType,
    cell::{self, Cell},
    labels::{is_legacy_metric_name, is_legacy_name},
};
use std::sync::Arc;

/// A family's metadata and metrics, without numbers.
#[derive(Debug, PartialEq)]
pub(crate) struct Shape {
    pub(crate) name: Arc<str>,
    pub(crate) metric_type: MetricType,
    pub(crate) help: Arc<str>,
    pub(crate) metrics: Vec<Metric>,
    /// Meaning of each cell.
    pub(crate) parts: Vec<Part>,
}

/// One metric: a label set and a range of cells, which follows the previous metric's.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Metric {
    /// Labels without the name, the group's labels, `le` and `quantile`.
    pub(crate) labels: LabelSet,
    pub(crate) parts_end: usize,
}

/// Role of a cell in its metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Part {
    Value,
    /// A bucket or a quantile.
    Point(f64),
    Sum,
    Count,
    /// A native histogram.
    Native,
}

impl Shape {
    /// Iterates over the metrics with their cells.
    pub(crate) fn metrics(&self) -> impl Iterator<Item = (&Metric, std::ops::Range<usize>)> {
        let mut start = 0;
        self.metrics.iter().map(move |metric| {
            let range = start..metric.parts_end;
            start = metric.parts_end;
            (metric, range)
        })
    }

    /// Returns a hash that identifies a metric among all groups', the group's labels included.
    pub(crate) fn identity(&self, metric: &Metric, common: LabelHash) -> u128 {
        (LabelHash::of_label(METRIC_NAME, &self.name) + metric.labels.hash() + common).bits()
    }
}

/// Time of a cell without a time of its own.
pub(crate) const NO_TIME: i64 = i64::MIN;

/// The numbers of a family.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    pub(crate) cells: Vec<f64>,
    /// Native histograms, which cells refer to.
    pub(crate) natives: Vec<Arc<Histogram>>,
    /// Times of the cells, or empty if none has one of its own.
    pub(crate) times_ms: Vec<i64>,
}

impl Numbers {
    /// Reports whether all are the same, bit for bit.
    pub(crate) fn are(&self, other: &Self) -> bool {
        let same = |(a, b): (&f64, &f64)| a.to_bits() == b.to_bits();
        self.cells.len() == other.cells.len()
            && self.cells.iter().zip(&other.cells).all(same)
            && self.natives == other.natives
            && self.times_ms == other.times_ms
    }

    /// Returns a cell's own time.
    pub(crate) fn time_ms(&self, at: usize) -> Option<i64> {
        let time_ms = self.times_ms.get(at).copied();
        time_ms.filter(|time_ms| *time_ms != NO_TIME)
    }

    /// Returns the native histogram that a cell refers to.
    pub(crate) fn native(&self, at: usize) -> Option<&Arc<Histogram>> {
        match Cell::decode(*self.cells.get(at)?) {
            Cell::Histogram(native) => self.natives.get(native as usize),
            _ => None,
        }
    }
}

/// A family of a body.
#[derive(Clone, Debug)]
pub(crate) struct Incoming {
    pub(crate) shape: Arc<Shape>,
    pub(crate) numbers: Numbers,
}

/// One state of a group's family.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) shape: Arc<Shape>,
    pub(crate) numbers: Numbers,
    lines: Vec<u8>,
    /// For each cell, the end and the length of its number in the lines, its time included.
    marks: Vec<(u32, u8)>,
}

impl Content {
    /// Renders a family.
    pub(crate) fn new(shape: Arc<Shape>, numbers: Numbers, grouping: &Grouping) -> Self {
        let mut content = Self {
            lines: Vec::new(),
            marks: Vec::new(),
            shape,
            numbers,
        };
        let writer = content.render(grouping, Escaping::Underscores);
        let (mut lines, marks) = (writer.lines, writer.marks);
        lines.shrink_to_fit();
        (content.lines, content.marks) = (lines, marks);
        content
    }

    /// Returns the lines with names escaped as given.
    pub(crate) fn lines_as(&self, grouping: &Grouping, escaping: Escaping) -> Vec<u8> {
        self.render(grouping, escaping).lines
    }

    fn render(&self, grouping: &Grouping, escaping: Escaping) -> LineWriter<'_> {
        let mut writer = LineWriter {
            shape: &self.shape,
            escaping,
            lines: Vec::with_capacity(self.numbers.cells.len() * 64),
            marks: Vec::with_capacity(self.numbers.cells.len()),
        };
        let mut labels = Vec::new();
        for (metric, range) in self.shape.metrics() {
            labels.clear();
            write_pairs(&mut labels, &metric.labels, grouping, escaping);
            writer.metric(self, &labels, range);
        }
        writer
    }

    /// Returns the family with other numbers; `shape` must equal its own.
    pub(crate) fn with(&self, shape: Arc<Shape>, numbers: Numbers, grouping: &Grouping) -> Self {
        // Each native histogram is a cell's.
        if !self.numbers.natives.is_empty() {
            return Self::new(shape, numbers, grouping);
        }
        let mut lines = Vec::with_capacity(self.lines.len() + numbers.cells.len());
        let mut marks = Vec::with_capacity(self.marks.len());
        let mut from = 0;
        for (at, ((end, len), value)) in self.marks.iter().zip(&numbers.cells).enumerate() {
            let end = *end as usize;
            let before = (self.numbers.cells[at], self.numbers.time_ms(at));
            if (before.0.to_bits(), before.1) == (value.to_bits(), numbers.time_ms(at)) {
                // It is copied with what follows.
                let end = lines.len() + end - from;
                marks.push(mark(end - usize::from(*len), end));
                continue;
            }
            lines.extend_from_slice(&self.lines[from..end - usize::from(*len)]);
            let start = lines.len();
            write_sample(&mut lines, *value, numbers.time_ms(at));
            marks.push(mark(start, lines.len()));
            from = end;
        }
        lines.extend_from_slice(&self.lines[from..]);
        Self {
            shape,
            numbers,
            lines,
            marks,
        }
    }

    /// Returns the lines of the family's samples.
    pub(crate) fn lines(&self) -> &[u8] {
        &self.lines
    }
}

/// Writes lines, and records where their numbers are.
struct LineWriter<'a> {
    shape: &'a Shape,
    escaping: Escaping,
    lines: Vec<u8>,
    marks: Vec<(u32, u8)>,
}

impl LineWriter<'_> {
    fn metric(&mut self, content: &Content, labels: &[u8], range: std::ops::Range<usize>) {
        let parts = &self.shape.parts[range.clone()];
        let is_classic = parts.iter().any(|part| *part != Part::Native);
        for (part, at) in parts.iter().zip(range) {
            let sample = (content.numbers.cells[at], content.numbers.time_ms(at));
            match part {
                Part::Value => self.line("", labels, None, sample),
                Part::Point(bound) if self.shape.metric_type == MetricType::Summary => {
                    self.line("", labels, Some(("quantile", *bound)), sample);
                }
                Part::Point(bound) => self.line("_bucket", labels, Some(("le", *bound)), sample),
                Part::Sum => self.line("_sum", labels, None, sample),
                Part::Count => self.line("_count", labels, None, sample),
                // The text format cannot express more of a native histogram.
                Part::Native if !is_classic => {
                    if let Some(native) = content.numbers.native(at) {
                        let (open, time) = (Some(("le", f64::INFINITY)), sample.1);
                        self.line("_bucket", labels, open, (native.count, time));
                        self.line("_sum", labels, None, (native.sum, time));
                        self.line("_count", labels, None, (native.count, time));
                    }
                }
                Part::Native => {}
            }
        }
    }

    fn line(
        &mut self,
        suffix: &str,
        labels: &[u8],
        bound: Option<(&str, f64)>,
        (value, time_ms): (f64, Option<i64>),
    ) {
        let out = &mut self.lines;
        let name = self.escaping.name(&self.shape.name);
        let mut before = b'{';
        if is_legacy_metric_name(&name) {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(suffix.as_bytes());
        } else {
            out.push(b'{');
            write_quoted(out, &format!("{name}{suffix}"));
            before = b',';
        }
        if !labels.is_empty() {
            out.push(before);
            out.extend_from_slice(labels);
            before = b',';
        }
        if let Some((label, bound)) = bound {
            out.push(before);
            out.extend_from_slice(label.as_bytes());
            out.extend_from_slice(b"=\"");
            write_number(out, bound);
            out.push(b'"');
            before = b',';
        }
        if before == b',' {
            out.push(b'}');
        }
        out.push(b' ');
        let start = out.len();
        write_sample(out, value, time_ms);
        self.marks.push(mark(start, out.len()));
        out.push(b'\n');
    }
}

/// Writes a value, and its time if it has one, as Go's text format does: zero has no sign.
fn write_sample(out: &mut Vec<u8>, value: f64, time_ms: Option<i64>) {
    write_number(out, if value == 0.0 { 0.0 } else { value });
    if let Some(time_ms) = time_ms {
        out.push(b' ');
        out.extend_from_slice(time_ms.to_string().as_bytes());
    }
}

/// Returns the end and the length of a number.
fn mark(start: usize, end: usize) -> (u32, u8) {
    // A family's lines are shorter than its body and labels together, and both are limited.
    let end_at = u32::try_from(end).expect("a family's lines are below 4 GiB");
    (end_at, (end - start) as u8)
}

/// Writes `{…}` with all labels of a metric, the group's included, sorted by name.
pub(crate) fn write_labels(
    out: &mut Vec<u8>,
    local: &LabelSet,
    grouping: &Grouping,
    escaping: Escaping,
) {
    out.push(b'{');
    write_pairs(out, local, grouping, escaping);
    out.push(b'}');
}

/// Writes all labels of a metric as [`write_labels`] does, without the braces.
fn write_pairs(out: &mut Vec<u8>, local: &LabelSet, grouping: &Grouping, escaping: Escaping) {
    let start = out.len();
    each_label(local, grouping, |name, value| {
        if out.len() > start {
            out.push(b',');
        }
        let name = escaping.name(name);
        if is_legacy_name(&name) {
            out.extend_from_slice(name.as_bytes());
        } else {
            write_quoted(out, &name);
        }
        out.push(b'=');
        write_quoted(out, value);
    });
}

/// Calls `take` with all labels of a metric, the group's included, sorted by name; `instance` is always among those of
/// a group.
pub(crate) fn each_label(local: &LabelSet, grouping: &Grouping, mut take: impl FnMut(&str, &str)) {
    let has_instance = grouping.labels().is_empty()
        || grouping.get("instance").is_some()
        || local.get("instance").is_some();
    let own = local.iter().map(|label| (label.name(), label.value()));
    let group = grouping.labels().iter();
    let group = group.map(|(name, value)| (name.as_str(), value.as_str()));
    let mut all: Vec<(&str, &str)> = own.chain(group).collect();
    if !has_instance {
        all.push(("instance", ""));
    }
    all.sort_unstable();
    for (name, value) in all {
        take(name, value);
    }
}

/// Writes the comment lines of a family.
pub(crate) fn write_head(out: &mut Vec<u8>, shape: &Shape, escaping: Escaping) {
    let name = escaping.name(&shape.name);
    let write_name = |out: &mut Vec<u8>| {
        if is_legacy_metric_name(&name) {
            out.extend_from_slice(name.as_bytes());
        } else {
            write_quoted(out, &name);
        }
    };
    if !shape.help.is_empty() {
        out.extend_from_slice(b"# HELP ");
        write_name(out);
        out.push(b' ');
        escape(out, &shape.help, false);
        out.push(b'\n');
    }
    out.extend_from_slice(b"# TYPE ");
    write_name(out);
    out.push(b' ');
    out.extend_from_slice(type_word(shape.metric_type).as_bytes());
    out.push(b'\n');
}

/// Returns the text format's word for a type.
pub(crate) fn type_word(metric_type: MetricType) -> &'static str {
    match metric_type {
        MetricType::Counter => "counter",
        MetricType::Gauge | MetricType::Info | MetricType::StateSet => "gauge",
        MetricType::Histogram | MetricType::GaugeHistogram => "histogram",
        MetricType::Summary => "summary",
        MetricType::Unknown => "untyped",
    }
}

fn write_quoted(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    escape(out, text, true);
    out.push(b'"');
}

fn escape(out: &mut Vec<u8>, text: &str, quotes: bool) {
    for byte in text.bytes() {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'"' if quotes => out.extend_from_slice(b"\\\""),
            _ => out.push(byte),
        }
    }
}

/// Returns a cell that refers to a native histogram.
pub(crate) fn native_cell(at: usize) -> f64 {
    cell::histogram(u32::try_from(at).expect("a family has fewer than 2^32 histograms"))
}
