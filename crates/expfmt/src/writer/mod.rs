//! Rendering of frames in any format, from pieces made once.
//!
//! **Invariant:** families are ordered by name, columns of a family by slot (those of one histogram or summary
//! together), and a family without samples is left out.

mod families;
mod lines;
mod messages;
#[cfg(test)]
mod tests;

use crate::format::{Format, Negotiated};
use lines::LineWriter;
use messages::MessageWriter;
use narthex_model::{ColumnId, Frame, MetricType, Schema};

/// Renders the frames of one schema.
#[derive(Debug)]
pub struct Writer {
    schema: Schema,
    style: Negotiated,
    writer: FormatWriter,
}

#[derive(Debug)]
enum FormatWriter {
    Lines(LineWriter),
    Messages(MessageWriter),
}

impl Writer {
    /// Renders the parts of a schema that do not change from frame to frame.
    #[must_use]
    pub fn new(schema: &Schema, style: Negotiated) -> Self {
        Self {
            schema: schema.clone(),
            style,
            writer: FormatWriter::bind(schema, style),
        }
    }

    /// Follows the schema to another version; does nothing if it is the bound one.
    pub fn rebind(&mut self, schema: &Schema) {
        if !self.schema.same(schema) {
            self.schema = schema.clone();
            self.writer = FormatWriter::bind(schema, self.style);
        }
    }

    /// Appends the samples of `frame`, rebinding if its schema has another version.
    ///
    /// Native histograms and exemplars are written in the formats that have them.
    pub fn write(&mut self, frame: &Frame, out: &mut Vec<u8>) {
        self.rebind(frame.schema());
        match &mut self.writer {
            FormatWriter::Lines(lines) => lines.write(frame, out),
            FormatWriter::Messages(messages) => messages.write(frame, out),
        }
    }

    /// Appends the end of a body of this format; frames may have come from several writers.
    pub fn end(style: Negotiated, out: &mut Vec<u8>) {
        if style.format == Format::OpenMetrics {
            out.extend_from_slice(b"# EOF\n");
        }
    }
}

/// How a family's samples are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Shown {
    /// Whether the family's head comes before the first sample.
    pub(crate) with_head: bool,
    /// Whether the type is unknown, because other samples of that name have another type.
    pub(crate) as_unknown: bool,
}

impl Shown {
    /// All of a family, as its schema has it.
    pub(crate) const WHOLE: Self = Self {
        with_head: true,
        as_unknown: false,
    };
}

/// A family as a writer shows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FamilyRef<'a> {
    /// Name of the series, or of the family where its series have several names, escaped.
    pub(crate) key: &'a str,
    /// The name in the head, as written.
    pub(crate) head: &'a [u8],
    /// The type in the head.
    pub(crate) written: MetricType,
    /// Whether each of its metrics is one series.
    pub(crate) is_single: bool,
}

/// Parts of a page, for pages of several schemas.
impl Writer {
    /// Returns the number of families; those without samples count.
    pub(crate) fn families(&self) -> usize {
        match &self.writer {
            FormatWriter::Lines(lines) => lines.families(),
            FormatWriter::Messages(messages) => messages.families(),
        }
    }

    pub(crate) fn family(&self, at: usize) -> FamilyRef<'_> {
        match &self.writer {
            FormatWriter::Lines(lines) => lines.family(at),
            FormatWriter::Messages(messages) => messages.family(at),
        }
    }

    pub(crate) fn columns(&self, at: usize) -> Vec<ColumnId> {
        match &self.writer {
            FormatWriter::Lines(lines) => lines.columns(at).collect(),
            FormatWriter::Messages(messages) => messages.columns(at),
        }
    }

    /// Appends one family's samples in a frame of the bound schema; reports whether there are any.
    ///
    /// In protobuf these are fields of a message that the caller ends, with [`Self::unit`], and puts its length before.
    pub(crate) fn write_family(
        &mut self,
        at: usize,
        frame: &Frame,
        shown: Shown,
        out: &mut Vec<u8>,
    ) -> bool {
        match &mut self.writer {
            FormatWriter::Lines(lines) => lines.write_family(at, frame, shown, out),
            FormatWriter::Messages(messages) => messages.write_family(at, frame, shown, out),
        }
    }

    /// Returns the field with a family's unit.
    pub(crate) fn unit(&self, at: usize) -> &[u8] {
        match &self.writer {
            FormatWriter::Lines(_) => &[],
            FormatWriter::Messages(messages) => messages.unit(at),
        }
    }

    /// Returns the bytes that are kept, and about how many a page has.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        match &self.writer {
            FormatWriter::Lines(lines) => lines.sizes(),
            FormatWriter::Messages(messages) => messages.sizes(),
        }
    }
}

impl FormatWriter {
    fn bind(schema: &Schema, style: Negotiated) -> Self {
        match style.format {
            Format::Protobuf => Self::Messages(MessageWriter::new(schema, style.escaping)),
            Format::Text | Format::OpenMetrics => Self::Lines(LineWriter::new(schema, style)),
        }
    }
}
