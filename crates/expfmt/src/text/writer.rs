//! Frames rendered as text from prefixes made once.
//!
//! **Invariant:** a column's prefix (`name{labels` with its escapes) and the ending all columns share (the common
//! labels, `} `) are rendered when the schema is bound and copied afterwards; families come in order of their names, columns of a family in slot order, and a family
//! without samples is not shown.

use narthex_client::write_number;
use narthex_model::{
    ColumnId, Family, Frame, Label, LabelSet, METRIC_NAME, MetricType, Schema, labels,
};

/// Renders the frames of one schema.
#[derive(Debug)]
pub struct TextWriter {
    schema: Schema,
    families: Vec<Rendered>,
    columns: Vec<Prefix>,
    text: Vec<u8>,
    endings: [Vec<u8>; 2],
}

/// HELP and TYPE lines of a family, and its columns.
#[derive(Debug)]
struct Rendered {
    head_end: usize,
    columns_end: usize,
}

#[derive(Debug)]
struct Prefix {
    column: ColumnId,
    end: usize,
    ending: Ending,
}

/// What follows a prefix, before the blank.
#[derive(Clone, Copy, Debug)]
enum Ending {
    /// The prefix is a bare name.
    AfterName = 0,
    /// The prefix has a brace and at least one entry.
    AfterLabels = 1,
}

impl TextWriter {
    /// Renders the prefixes of a schema.
    #[must_use]
    pub fn new(schema: &Schema) -> Self {
        let mut writer = Self {
            schema: schema.clone(),
            families: Vec::new(),
            columns: Vec::new(),
            text: Vec::new(),
            endings: [Vec::new(), Vec::new()],
        };
        writer.bind();
        writer
    }

    /// Follows the schema to another version; nothing happens when it is the bound one.
    pub fn rebind(&mut self, schema: &Schema) {
        if !self.schema.same(schema) {
            self.schema = schema.clone();
            self.bind();
        }
    }

    /// Appends the samples of `frame`, rebinding when its schema is a newer version.
    pub fn write(&mut self, frame: &Frame, out: &mut Vec<u8>) {
        self.rebind(frame.schema());
        let (values, present, times_ms) = (frame.values(), frame.present(), frame.times_ms());
        let mut from = 0;
        let mut columns = self.columns.iter();
        let mut done = 0;
        for family in &self.families {
            let head = &self.text[from..family.head_end];
            from = family.head_end;
            let mut shown = false;
            for prefix in columns.by_ref().take(family.columns_end - done) {
                let at = prefix.column.index();
                if present.contains(at) {
                    if !shown {
                        out.extend_from_slice(head);
                        shown = true;
                    }
                    out.extend_from_slice(&self.text[from..prefix.end]);
                    out.extend_from_slice(&self.endings[prefix.ending as usize]);
                    write_number(out, values[at]);
                    if let Some(time_ms) = times_ms.get(at) {
                        out.push(b' ');
                        out.extend_from_slice(itoa::Buffer::new().format(*time_ms).as_bytes());
                    }
                    out.push(b'\n');
                }
                from = prefix.end;
            }
            done = family.columns_end;
        }
    }

    fn bind(&mut self) {
        self.families.clear();
        self.columns.clear();
        self.text.clear();
        for (ending, from) in self
            .endings
            .iter_mut()
            .zip([Ending::AfterName, Ending::AfterLabels])
        {
            ending.clear();
            write_ending(ending, self.schema.common(), from);
        }
        let schema = self.schema.clone();
        let mut order: Vec<ColumnId> = schema
            .columns()
            .map(|(id, _)| id)
            .filter(|id| !schema.is_retired(*id))
            .collect();
        let family_name = |id: &ColumnId| schema.family(*id).name.as_ref();
        order.sort_by(|a, b| family_name(a).cmp(family_name(b)));
        let mut rest = order.as_slice();
        while let Some(first) = rest.first() {
            let family = schema.family(*first);
            let count = rest
                .iter()
                .take_while(|id| schema.family(**id).name == family.name)
                .count();
            let (of_family, others) = rest.split_at(count);
            rest = others;
            write_head(&mut self.text, family);
            let head_end = self.text.len();
            for id in of_family {
                let ending = write_series(&mut self.text, &schema.column(*id).set);
                self.columns.push(Prefix {
                    column: *id,
                    end: self.text.len(),
                    ending,
                });
            }
            self.families.push(Rendered {
                head_end,
                columns_end: self.columns.len(),
            });
        }
        self.text.shrink_to_fit();
    }
}

fn write_head(out: &mut Vec<u8>, family: &Family) {
    let name = |out: &mut Vec<u8>| {
        write_name(
            out,
            &family.name,
            labels::is_legacy_metric_name(&family.name),
        );
    };
    if !family.help.is_empty() {
        out.extend_from_slice(b"# HELP ");
        name(out);
        out.push(b' ');
        escape(out, &family.help, false);
        out.push(b'\n');
    }
    out.extend_from_slice(b"# TYPE ");
    name(out);
    out.push(b' ');
    let word = match family.metric_type {
        MetricType::Counter | MetricType::Gauge | MetricType::Histogram | MetricType::Summary => {
            family.metric_type.as_str()
        }
        MetricType::Info | MetricType::StateSet => "gauge",
        MetricType::Unknown | MetricType::GaugeHistogram => "untyped",
    };
    out.extend_from_slice(word.as_bytes());
    out.push(b'\n');
}

/// Writes `name{labels`, or the bare name of a series without local labels.
fn write_series(out: &mut Vec<u8>, local: &LabelSet) -> Ending {
    let name = local.metric_name();
    let bare = labels::is_legacy_metric_name(name);
    let mut ending = Ending::AfterName;
    if bare {
        out.extend_from_slice(name.as_bytes());
    } else {
        out.push(b'{');
        write_name(out, name, false);
        ending = Ending::AfterLabels;
    }
    for label in local.iter().filter(|label| label.name() != METRIC_NAME) {
        write_label(out, label, ending);
        ending = Ending::AfterLabels;
    }
    ending
}

/// Writes what follows the prefixes of all series: the common labels, the brace, the blank.
fn write_ending(out: &mut Vec<u8>, common: &LabelSet, from: Ending) {
    let mut before = from;
    for label in common {
        write_label(out, label, before);
        before = Ending::AfterLabels;
    }
    if matches!(before, Ending::AfterLabels) {
        out.push(b'}');
    }
    out.push(b' ');
}

fn write_label(out: &mut Vec<u8>, label: &Label, before: Ending) {
    out.push(match before {
        Ending::AfterName => b'{',
        Ending::AfterLabels => b',',
    });
    write_name(out, label.name(), labels::is_legacy_name(label.name()));
    out.extend_from_slice(b"=\"");
    escape(out, label.value(), true);
    out.push(b'"');
}

fn write_name(out: &mut Vec<u8>, name: &str, bare: bool) {
    if bare {
        out.extend_from_slice(name.as_bytes());
    } else {
        out.push(b'"');
        escape(out, name, true);
        out.push(b'"');
    }
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
