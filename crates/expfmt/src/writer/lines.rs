//! Frames as lines: text 0.0.4 and OpenMetrics.
//!
//! **Invariant:** a column's prefix (`name{labels` with its escapes) and the ending that all columns share (the common
//! labels, `} `) are rendered when the schema is bound and copied afterwards.

use super::{
    FamilyRef, FormatWriter, Shown,
    families::{families, part_label, written_type},
};
use crate::{
    escape::Escaping,
    format::{Format, Negotiated},
    number,
};
use narthex_client::write_number;
use narthex_model::{
    ColumnId, Exemplar, Family, Frame, Label, LabelSet, METRIC_NAME, MetricType, Schema, cell,
    labels,
};

/// Renders the frames of one schema.
#[derive(Debug)]
pub(super) struct LineWriter {
    style: Negotiated,
    families: Vec<Rendered>,
    columns: Vec<Prefix>,
    text: Vec<u8>,
    endings: [Vec<u8>; 2],
}

/// Comment lines of a family, and its columns.
#[derive(Debug)]
struct Rendered {
    /// Name of the first series, or of the family where its series have several names, escaped.
    key: Box<str>,
    written: MetricType,
    is_single: bool,
    /// Where the line with the type begins.
    help_end: usize,
    head_end: usize,
    columns_end: usize,
}

#[derive(Debug)]
struct Prefix {
    column: ColumnId,
    end: usize,
    ending: Ending,
}

const TYPE: &[u8] = b"# TYPE ";
/// Bytes of a number and the end of its line, about.
const NUMBER_BYTES: usize = 12;

/// Text after a prefix, before the blank.
#[derive(Clone, Copy, Debug)]
enum Ending {
    /// The prefix is a bare name.
    AfterName = 0,
    /// The prefix has a brace and at least one entry.
    AfterLabels = 1,
}

impl LineWriter {
    pub(super) fn new(schema: &Schema, style: Negotiated) -> Self {
        let mut writer = Self {
            style,
            families: Vec::new(),
            columns: Vec::new(),
            text: Vec::new(),
            endings: [Vec::new(), Vec::new()],
        };
        for (ending, from) in writer
            .endings
            .iter_mut()
            .zip([Ending::AfterName, Ending::AfterLabels])
        {
            write_ending(ending, schema.common(), from, style.escaping);
        }
        for columns in families(schema) {
            writer.bind_family(schema, &columns);
        }
        writer.text.shrink_to_fit();
        writer
    }

    fn bind_family(&mut self, schema: &Schema, columns: &[ColumnId]) {
        let Some(first) = columns.first() else { return };
        let set = |id: &ColumnId| &schema.column(*id).set;
        let (family, metric) = (schema.family(*first), set(first).metric_name());
        let openmetrics = self.style.format == Format::OpenMetrics;
        let is_single = part_label(family.metric_type).is_none();
        let help_end = write_head(&mut self.text, family, metric, self.style);
        let head_end = self.text.len();
        for id in columns {
            let ending = write_series(&mut self.text, set(id), self.style.escaping, openmetrics);
            self.columns.push(Prefix {
                column: *id,
                end: self.text.len(),
                ending,
            });
        }
        let key = if is_single { metric } else { &family.name };
        self.families.push(Rendered {
            key: self.style.escaping.name(key).into(),
            written: written_type(family.metric_type, metric, self.style.format),
            is_single,
            help_end,
            head_end,
            columns_end: self.columns.len(),
        });
    }

    fn put_head(&self, family: &Rendered, start: usize, shown: Shown, out: &mut Vec<u8>) {
        if !shown.as_unknown {
            out.extend_from_slice(&self.text[start..family.head_end]);
            return;
        }
        out.extend_from_slice(TYPE);
        write_name(out, &family.key);
        out.extend_from_slice(match self.style.format {
            Format::OpenMetrics => b" unknown\n",
            Format::Text | Format::Protobuf => b" untyped\n",
        });
    }

    /// Returns a family, its columns, and where its text begins.
    fn family_parts(&self, at: usize) -> (&Rendered, &[Prefix], usize) {
        let family = &self.families[at];
        let first = at
            .checked_sub(1)
            .map_or(0, |at| self.families[at].columns_end);
        let start = first.checked_sub(1).map_or(0, |at| self.columns[at].end);
        (family, &self.columns[first..family.columns_end], start)
    }
}

impl FormatWriter for LineWriter {
    fn write(&mut self, frame: &Frame, out: &mut Vec<u8>) {
        for at in 0..self.families.len() {
            self.write_family(at, frame, Shown::WHOLE, out);
        }
    }

    /// Appends the samples, and the comment lines of the family before the first.
    fn write_family(
        &mut self,
        at: usize,
        frame: &Frame,
        mut shown: Shown,
        out: &mut Vec<u8>,
    ) -> bool {
        let (values, present, times_ms) = (frame.values(), frame.present(), frame.times_ms());
        let openmetrics = self.style.format == Format::OpenMetrics;
        let exemplars = if openmetrics { frame.exemplars() } else { &[] };
        // Histograms replace floats in cells.
        let floats_only = frame.histograms().is_empty();
        let (family, columns, start) = self.family_parts(at);
        let mut from = family.head_end;
        let before = out.len();
        for prefix in columns {
            let at = prefix.column.index();
            if present.contains(at) && (floats_only || cell::is_float(values[at])) {
                if shown.with_head {
                    self.put_head(family, start, shown, out);
                    shown.with_head = false;
                }
                out.extend_from_slice(&self.text[from..prefix.end]);
                out.extend_from_slice(&self.endings[prefix.ending as usize]);
                write_number(out, values[at]);
                if let Some(time_ms) = times_ms.get(at).filter(|own| **own != frame.time_ms()) {
                    out.push(b' ');
                    write_time(out, *time_ms, openmetrics);
                }
                if !exemplars.is_empty() {
                    write_exemplar(out, exemplars, prefix.column, self.style.escaping);
                }
                out.push(b'\n');
            }
            from = prefix.end;
        }
        out.len() > before
    }

    fn families(&self) -> usize {
        self.families.len()
    }

    fn family(&self, at: usize) -> FamilyRef<'_> {
        let family = &self.families[at];
        let head = &self.text[family.help_end..family.head_end];
        let line = head.split(|byte| *byte == b'\n').next();
        let named = line.and_then(|line| line.strip_prefix(TYPE));
        let end = |named: &[u8]| named.iter().rposition(|byte| *byte == b' ');
        let name = named.and_then(|named| named.get(..end(named)?));
        FamilyRef {
            key: &family.key,
            head: name.unwrap_or_default(),
            written: family.written,
            is_single: family.is_single,
        }
    }

    fn columns(&self, at: usize) -> Vec<ColumnId> {
        let (_, columns, _) = self.family_parts(at);
        columns.iter().map(|prefix| prefix.column).collect()
    }

    fn sizes(&self) -> (usize, usize) {
        let columns = self.columns.len();
        let ending = self.endings.iter().map(Vec::len).max().unwrap_or_default();
        let families = self.families.len() * (size_of::<Rendered>() + 32);
        let kept = self.text.capacity() + families + self.columns.capacity() * size_of::<Prefix>();
        (kept, self.text.len() + columns * (ending + NUMBER_BYTES))
    }
}

fn write_time(out: &mut Vec<u8>, time_ms: i64, openmetrics: bool) {
    let mut buffer = itoa::Buffer::new();
    if !openmetrics {
        out.extend_from_slice(buffer.format(time_ms).as_bytes());
        return;
    }
    if time_ms < 0 {
        out.push(b'-');
    }
    let magnitude = time_ms.unsigned_abs();
    out.extend_from_slice(buffer.format(magnitude / 1000).as_bytes());
    out.push(b'.');
    let ms = magnitude % 1000;
    for digit in [ms / 100, ms / 10 % 10, ms % 10] {
        out.extend_from_slice(buffer.format(digit).as_bytes());
    }
}

fn write_exemplar(
    out: &mut Vec<u8>,
    exemplars: &[(ColumnId, Exemplar)],
    column: ColumnId,
    escaping: Escaping,
) {
    let at = exemplars.partition_point(|(other, _)| *other < column);
    let Some((_, exemplar)) = exemplars.get(at).filter(|(other, _)| *other == column) else {
        return;
    };
    out.extend_from_slice(b" # ");
    if exemplar.labels.is_empty() {
        out.push(b'{');
    }
    let mut before = Ending::AfterName;
    for label in &exemplar.labels {
        write_label(out, label, before, escaping);
        before = Ending::AfterLabels;
    }
    out.extend_from_slice(b"} ");
    write_number(out, exemplar.value);
    if let Some(time_ms) = exemplar.time_ms {
        out.push(b' ');
        write_time(out, time_ms, true);
    }
}

/// Writes the comment lines of a family whose first series is `metric`; returns where the line with the type begins.
fn write_head(out: &mut Vec<u8>, family: &Family, metric: &str, style: Negotiated) -> usize {
    let openmetrics = style.format == Format::OpenMetrics;
    let name = head_name(family, metric, openmetrics);
    let line = |out: &mut Vec<u8>, keyword: &[u8], text: &str, quotes: bool| {
        out.extend_from_slice(keyword);
        write_name(out, &style.escaping.name(name));
        out.push(b' ');
        escape(out, text, quotes);
        out.push(b'\n');
    };
    if !family.help.is_empty() {
        line(out, b"# HELP ", &family.help, openmetrics);
    }
    let help_end = out.len();
    let word = match written_type(family.metric_type, metric, style.format) {
        MetricType::Unknown if !openmetrics => "untyped",
        written => written.as_str(),
    };
    line(out, TYPE, word, false);
    let unit = &*family.unit;
    let fits = name
        .strip_suffix(unit)
        .is_some_and(|rest| rest.ends_with('_'));
    if openmetrics && !unit.is_empty() && fits {
        line(out, b"# UNIT ", unit, false);
    }
    help_end
}

/// Returns the family's name in the format: in OpenMetrics without `_total`, in the text format with it.
fn head_name<'a>(family: &'a Family, metric: &'a str, openmetrics: bool) -> &'a str {
    let name = &*family.name;
    match family.metric_type {
        MetricType::Counter if openmetrics => name.strip_suffix("_total").unwrap_or(name),
        MetricType::Counter if metric.strip_suffix("_total") == Some(name) => metric,
        MetricType::Info if !openmetrics => metric,
        _ => name,
    }
}

/// Writes `name{labels`, or the bare name of a series without local labels.
fn write_series(
    out: &mut Vec<u8>,
    local: &LabelSet,
    escaping: Escaping,
    openmetrics: bool,
) -> Ending {
    let name = escaping.name(local.metric_name());
    let bare = labels::is_legacy_metric_name(&name);
    let mut ending = Ending::AfterName;
    if bare {
        out.extend_from_slice(name.as_bytes());
    } else {
        out.push(b'{');
        write_quoted(out, &name);
        ending = Ending::AfterLabels;
    }
    for label in local.iter().filter(|label| label.name() != METRIC_NAME) {
        let bound = matches!(label.name(), "le" | "quantile")
            .then(|| number::canonical_bound(label.value()))
            .flatten();
        match bound.filter(|_| openmetrics) {
            Some(bound) => write_label(out, &Label::new(label.name(), &bound), ending, escaping),
            None => write_label(out, label, ending, escaping),
        }
        ending = Ending::AfterLabels;
    }
    ending
}

/// Writes the text after all series' prefixes: the common labels, the brace, the blank.
fn write_ending(out: &mut Vec<u8>, common: &LabelSet, from: Ending, escaping: Escaping) {
    let mut before = from;
    for label in common {
        write_label(out, label, before, escaping);
        before = Ending::AfterLabels;
    }
    if matches!(before, Ending::AfterLabels) {
        out.push(b'}');
    }
    out.push(b' ');
}

fn write_label(out: &mut Vec<u8>, label: &Label, before: Ending, escaping: Escaping) {
    out.push(match before {
        Ending::AfterName => b'{',
        Ending::AfterLabels => b',',
    });
    let name = escaping.name(label.name());
    write_name_as(out, &name, labels::is_legacy_name(&name));
    out.push(b'=');
    write_quoted(out, label.value());
}

/// Writes the name of a metric, in quotes if it is not a legacy name.
pub fn write_name(out: &mut Vec<u8>, name: &str) {
    write_name_as(out, name, labels::is_legacy_metric_name(name));
}

/// Writes a name, quoted unless it is `bare`.
pub fn write_name_as(out: &mut Vec<u8>, name: &str, bare: bool) {
    if bare {
        out.extend_from_slice(name.as_bytes());
    } else {
        write_quoted(out, name);
    }
}

/// Writes text in quotes, escaped as in labels.
pub fn write_quoted(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    escape(out, text, true);
    out.push(b'"');
}

/// Writes text with its backslashes and line feeds escaped, and its quotes if `quotes`.
pub fn escape(out: &mut Vec<u8>, text: &str, quotes: bool) {
    for byte in text.bytes() {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'"' if quotes => out.extend_from_slice(b"\\\""),
            _ => out.push(byte),
        }
    }
}
