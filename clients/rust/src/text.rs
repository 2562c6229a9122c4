//! The text exposition format 0.0.4, formatted as client_golang does.
//!
//! **Invariant:** every line ends in a line feed; a line feed inside a help text or label value is escaped.

use crate::number;
use crate::visit::{Labels, MetricType, Sample, Visitor};

/// Value of the Content-Type header for the output of [`Registry::encode_text`](crate::Registry::encode_text).
pub const TEXT_CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Writes families and samples to the end of a buffer.
#[derive(Debug)]
pub struct TextEncoder<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> TextEncoder<'a> {
    /// Creates an encoder that appends to `out`.
    #[must_use]
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out }
    }
}

impl Visitor for TextEncoder<'_> {
    fn family(&mut self, name: &str, help: &str, kind: MetricType) {
        let out = &mut *self.out;
        out.extend_from_slice(b"# HELP ");
        out.extend_from_slice(name.as_bytes());
        out.push(b' ');
        write_escaped(out, help, false);
        out.extend_from_slice(b"\n# TYPE ");
        out.extend_from_slice(name.as_bytes());
        out.push(b' ');
        out.extend_from_slice(kind.as_str().as_bytes());
        out.push(b'\n');
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        let out = &mut *self.out;
        out.extend_from_slice(sample.name.as_bytes());
        out.extend_from_slice(sample.suffix.as_bytes());
        write_labels(out, sample.labels);
        out.push(b' ');
        number::write(out, sample.value);
        out.push(b'\n');
    }
}

/// Appends `{a="x",le="1"}`; nothing without labels.
pub(crate) fn write_labels(out: &mut Vec<u8>, labels: Labels<'_>) {
    match (labels.rendered, labels.extra) {
        ([], _) => {
            let mut separator = b'{';
            for (name, value) in labels.iter() {
                write_label(out, separator, name, value);
                separator = b',';
            }
            if !labels.is_empty() {
                out.push(b'}');
            }
        }
        (rendered, None) => out.extend_from_slice(rendered),
        ([open @ .., _], Some(extra)) => {
            out.extend_from_slice(open);
            write_label(out, b',', extra.name, extra.value);
            out.push(b'}');
        }
    }
}

fn write_label(out: &mut Vec<u8>, separator: u8, name: &str, value: &str) {
    out.push(separator);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"=\"");
    write_escaped(out, value, true);
    out.push(b'"');
}

/// Appends text with `\` and line feeds escaped, and quotes in label values.
fn write_escaped(out: &mut Vec<u8>, text: &str, quotes: bool) {
    let mut rest = text.as_bytes();
    let special = |byte: &u8| matches!(byte, b'\\' | b'\n') || (quotes && *byte == b'"');
    while let Some(at) = rest.iter().position(special) {
        out.extend_from_slice(&rest[..at]);
        out.push(b'\\');
        out.push(if rest[at] == b'\n' { b'n' } else { rest[at] });
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}
