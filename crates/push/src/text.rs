//! Text of families' lines: what all groups of a layout share, with gaps for the labels of a group and for numbers.
//!
//! **Invariant:** a line has its labels sorted by name, whoever they belong to, with `le` and `quantile` behind them.

use crate::{
    family::{Part, Shape, View},
    grouping::Grouping,
};
use narthex_client::write_number;
use narthex_expfmt::{Escaping, write_name_as, write_quoted};
use narthex_model::{
    LabelSet,
    labels::{is_legacy_metric_name, is_legacy_name},
};
use std::ops::Range;

/// Bytes that are copied at once.
const BLOCK: usize = 32;

/// A piece of a text, with at least a block behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece<'a> {
    padded: &'a [u8],
    len: usize,
}

impl<'a> Piece<'a> {
    pub(crate) fn bytes(self) -> &'a [u8] {
        &self.padded[..self.len]
    }

    /// Appends it in whole blocks, then takes back what is too much: cheaper than a copy of any length.
    #[inline]
    pub(crate) fn append_to(self, out: &mut Vec<u8>) {
        let end = out.len() + self.len;
        let (blocks, _) = self.padded.as_chunks::<BLOCK>();
        for block in &blocks[..self.len.div_ceil(BLOCK)] {
            out.extend_from_slice(block);
        }
        out.truncate(end);
    }
}

/// Appends what pieces at the end of a text have behind them.
fn pad(text: &mut Vec<u8>) {
    text.resize(text.len() + BLOCK, 0);
    text.shrink_to_fit();
}

/// Labels of a group as lines have them, without those that a line adds.
#[derive(Debug)]
pub(crate) struct GroupLabels {
    /// With padding.
    text: Vec<u8>,
    /// Where each label ends; a comma separates it from the next one.
    ends: Vec<usize>,
}

impl GroupLabels {
    pub(crate) fn new(grouping: &Grouping, escaping: Escaping) -> Self {
        let mut labels = Self {
            text: Vec::new(),
            ends: Vec::with_capacity(grouping.labels().len()),
        };
        for (name, value) in grouping.labels() {
            if !labels.ends.is_empty() {
                labels.text.push(b',');
            }
            write_label(&mut labels.text, name, value, escaping);
            labels.ends.push(labels.text.len());
        }
        pad(&mut labels.text);
        labels
    }

    /// Returns the text of neighbouring labels.
    fn run(&self, run: Range<usize>) -> Piece<'_> {
        let start = run.start.checked_sub(1).map_or(0, |at| self.ends[at] + 1);
        Piece {
            padded: &self.text[start..],
            len: self.ends[run.end - 1] - start,
        }
    }
}

/// What a gap of a text is filled with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Gap {
    /// Labels of the group: one of the text's runs.
    Labels(u32),
    /// A cell's value.
    Value(u32),
    /// Parts of the native histogram of a cell.
    NativeCount(u32),
    NativeSum(u32),
}

/// A piece of text and the gap behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    end: u32,
    pub(crate) gap: Gap,
}

/// The lines of a family.
#[derive(Debug, Default)]
pub(crate) struct Text {
    /// With padding.
    bytes: Vec<u8>,
    steps: Vec<Step>,
    /// Neighbouring labels of the group, for its gaps.
    runs: Vec<Range<usize>>,
}

impl Text {
    /// Returns the lines of a family in groups with labels of these names, which are sorted.
    pub(crate) fn new(shape: &Shape, names: &[String], escaping: Escaping) -> Self {
        let mut writer = Writer {
            shape,
            names,
            escaping,
            text: Self::default(),
            open: 0..0,
        };
        for (metric, range) in shape.metrics() {
            writer.metric(&metric.labels, range);
        }
        let mut text = writer.text;
        pad(&mut text.bytes);
        text.steps.shrink_to_fit();
        text
    }

    /// Returns the number of steps.
    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    /// Returns the texts of a group's labels, as gaps refer to them.
    pub(crate) fn labels_of<'g>(&self, group: &'g GroupLabels) -> Vec<Piece<'g>> {
        let runs = self.runs.iter();
        runs.map(|run| group.run(run.clone())).collect()
    }

    /// Iterates over a range of steps: the text of each, and the gap behind it.
    pub(crate) fn steps(&self, range: Range<usize>) -> impl Iterator<Item = (Piece<'_>, Gap)> {
        let mut start = range.start.checked_sub(1).map_or(0, |at| self.end(at));
        self.steps[range].iter().map(move |step| {
            let end = step.end as usize;
            let piece = Piece {
                padded: &self.bytes[start..],
                len: end - start,
            };
            start = end;
            (piece, step.gap)
        })
    }

    fn end(&self, at: usize) -> usize {
        self.steps[at].end as usize
    }

    /// Writes all lines of a family.
    pub(crate) fn write(&self, out: &mut Vec<u8>, family: View<'_>, group: &GroupLabels) {
        let labels = self.labels_of(group);
        for (piece, gap) in self.steps(0..self.len()) {
            piece.append_to(out);
            match gap {
                Gap::Labels(run) => labels[run as usize].append_to(out),
                number => write_sample(out, family, number),
            }
        }
    }
}

/// Writes a sample's value, its time if it has one, and a line feed.
#[inline]
pub(crate) fn write_sample(out: &mut Vec<u8>, family: View<'_>, gap: Gap) {
    let (at, value) = match gap {
        Gap::Labels(_) => return,
        Gap::Value(at) => (at, family.numbers.cells[family.start + at as usize]),
        Gap::NativeCount(at) | Gap::NativeSum(at) => {
            let value = family.native(at as usize).map(|native| match gap {
                Gap::NativeCount(_) => native.count,
                _ => native.sum,
            });
            (at, value.unwrap_or_default())
        }
    };
    // Go's text format has no sign before zero.
    write_number(out, if value == 0.0 { 0.0 } else { value });
    if let Some(time_ms) = family.time_ms(at as usize) {
        out.push(b' ');
        out.extend_from_slice(time_ms.to_string().as_bytes());
    }
    out.push(b'\n');
}

/// Writes the text of one family.
struct Writer<'a> {
    shape: &'a Shape,
    names: &'a [String],
    escaping: Escaping,
    text: Text,
    /// Labels of the group that come next.
    open: Range<usize>,
}

impl Writer<'_> {
    fn metric(&mut self, labels: &LabelSet, range: Range<usize>) {
        let shape = self.shape;
        let parts = &shape.parts[range.clone()];
        let is_classic = parts.iter().any(|part| *part != Part::Native);
        for (part, at) in parts.iter().zip(range) {
            // Lines of a family are shorter than its body and labels together, and both are limited.
            let at = u32::try_from(at).expect("a family has fewer than 2^32 series");
            let value = Gap::Value(at);
            match part {
                // The text format cannot express more of a native histogram.
                Part::Native if !is_classic => {
                    let (open, count) = (Some(("le", f64::INFINITY)), Gap::NativeCount(at));
                    self.line("_bucket", labels, open, count);
                    self.line("_sum", labels, None, Gap::NativeSum(at));
                    self.line("_count", labels, None, count);
                }
                Part::Native => {}
                part => {
                    let (suffix, bound) = part.suffix(shape.metric_type);
                    self.line(suffix, labels, bound, value);
                }
            }
        }
    }

    fn line(&mut self, suffix: &str, labels: &LabelSet, bound: Option<(&str, f64)>, number: Gap) {
        let name = self.escaping.name(&self.shape.name);
        let mut before = b'{';
        if is_legacy_metric_name(&name) {
            self.own(name.as_bytes());
            self.own(suffix.as_bytes());
        } else {
            let out = self.own(b"{");
            write_quoted(out, &format!("{name}{suffix}"));
            before = b',';
        }
        self.labels(labels, &mut before);
        if let Some((label, bound)) = bound {
            let out = self.own(&[before]);
            out.extend_from_slice(label.as_bytes());
            out.extend_from_slice(b"=\"");
            write_number(out, bound);
            out.push(b'"');
            before = b',';
        }
        if before == b',' {
            self.own(b"}");
        }
        self.own(b" ");
        self.gap(number);
    }

    /// Writes the labels of a metric and of its group, sorted by name; `instance` is always among those of a group.
    fn labels(&mut self, local: &LabelSet, before: &mut u8) {
        let is = |name: &String| name == "instance";
        let has_instance =
            self.names.is_empty() || self.names.iter().any(is) || local.get("instance").is_some();
        let mut own: Vec<(&str, &str)> = local
            .iter()
            .map(|label| (label.name(), label.value()))
            .collect();
        if !has_instance {
            own.push(("instance", ""));
            own.sort_unstable();
        }
        let mut own = own.into_iter().peekable();
        for (at, group) in self.names.iter().enumerate() {
            while let Some((name, value)) = own.next_if(|(name, _)| *name <= group.as_str()) {
                self.own_label(name, value, before);
            }
            if self.open.is_empty() || self.open.end != at {
                self.own(&[*before]);
                self.open = at..at;
            }
            self.open.end = at + 1;
            *before = b',';
        }
        for (name, value) in own {
            self.own_label(name, value, before);
        }
    }

    fn own_label(&mut self, name: &str, value: &str, before: &mut u8) {
        let escaping = self.escaping;
        let out = self.own(&[*before]);
        write_label(out, name, value, escaping);
        *before = b',';
    }

    /// Appends text, behind the labels of the group that are before it.
    fn own(&mut self, bytes: &[u8]) -> &mut Vec<u8> {
        if !self.open.is_empty() {
            let run = std::mem::take(&mut self.open);
            let known = self.text.runs.iter().position(|known| *known == run);
            let at = known.unwrap_or_else(|| {
                self.text.runs.push(run);
                self.text.runs.len() - 1
            });
            self.gap(Gap::Labels(at as u32));
        }
        self.text.bytes.extend_from_slice(bytes);
        &mut self.text.bytes
    }

    fn gap(&mut self, gap: Gap) {
        let end = self.text.bytes.len();
        let end = u32::try_from(end).expect("a family's lines are below 4 GiB");
        self.text.steps.push(Step { end, gap });
    }
}

/// Writes `{…}` with the labels that all lines of a group have.
pub(crate) fn write_group_labels(out: &mut Vec<u8>, grouping: &Grouping, escaping: Escaping) {
    out.push(b'{');
    let start = out.len();
    each_label(&LabelSet::empty(), grouping, |name, value| {
        if out.len() > start {
            out.push(b',');
        }
        write_label(out, name, value, escaping);
    });
    out.push(b'}');
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

fn write_label(out: &mut Vec<u8>, name: &str, value: &str, escaping: Escaping) {
    let name = escaping.name(name);
    write_name_as(out, &name, is_legacy_name(&name));
    out.push(b'=');
    write_quoted(out, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_length_are_copied_as_they_are() {
        let bytes: Vec<u8> = (0..200).collect();
        for len in 0..=bytes.len() {
            for start in [0, 1, len / 2] {
                let mut padded = bytes[..len].to_vec();
                pad(&mut padded);
                let piece = Piece {
                    padded: &padded[start.min(len)..],
                    len: len - start.min(len),
                };
                let mut out = b"before".to_vec();
                piece.append_to(&mut out);
                assert_eq!(out.strip_prefix(b"before"), Some(piece.bytes()));
                assert_eq!(piece.bytes(), &bytes[start.min(len)..len]);
            }
        }
    }
}
