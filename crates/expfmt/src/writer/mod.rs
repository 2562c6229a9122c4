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
pub use lines::{escape, write_name, write_name_as, write_quoted};
use messages::MessageWriter;
use narthex_model::{ColumnId, Frame, MetricType, Schema};

/// Renders the frames of one schema.
#[derive(Debug)]
pub struct Writer {
    schema: Schema,
    style: Negotiated,
    writer: Box<dyn FormatWriter>,
}

impl Writer {
    /// Renders the parts of a schema that do not change from frame to frame.
    #[must_use]
    pub fn new(schema: &Schema, style: Negotiated) -> Self {
        Self {
            schema: schema.clone(),
            style,
            writer: bind(schema, style),
        }
    }

    /// Follows the schema to another version; does nothing if it is the bound one.
    pub fn rebind(&mut self, schema: &Schema) {
        if !self.schema.same(schema) {
            self.schema = schema.clone();
            self.writer = bind(schema, self.style);
        }
    }

    /// Appends the samples of `frame`, rebinding if its schema has another version.
    ///
    /// Native histograms and exemplars are written in the formats that have them.
    pub fn write(&mut self, frame: &Frame, out: &mut Vec<u8>) {
        self.rebind(frame.schema());
        self.writer.write(frame, out);
    }

    /// Appends the end of a body of this format; frames may have come from several writers.
    pub fn end(style: Negotiated, out: &mut Vec<u8>) {
        if style.format == Format::OpenMetrics {
            out.extend_from_slice(b"# EOF\n");
        }
    }

    /// Returns the parts of a page, for pages of several schemas.
    pub(crate) fn parts(&self) -> &dyn FormatWriter {
        &*self.writer
    }

    /// As [`FormatWriter::write_family`].
    pub(crate) fn write_family(
        &mut self,
        at: usize,
        frame: &Frame,
        shown: Shown,
        out: &mut Vec<u8>,
    ) -> bool {
        self.writer.write_family(at, frame, shown, out)
    }
}

fn bind(schema: &Schema, style: Negotiated) -> Box<dyn FormatWriter> {
    match style.format {
        Format::Protobuf => Box::new(MessageWriter::new(schema, style.escaping)),
        Format::Text | Format::OpenMetrics => Box::new(LineWriter::new(schema, style)),
    }
}

/// Renders the frames of one schema in one format.
pub(crate) trait FormatWriter: std::fmt::Debug + Send + Sync {
    /// Appends the samples of a frame of the bound schema.
    fn write(&mut self, frame: &Frame, out: &mut Vec<u8>);

    /// Returns the number of families; those without samples count.
    fn families(&self) -> usize;

    fn family(&self, at: usize) -> FamilyRef<'_>;

    fn columns(&self, at: usize) -> Vec<ColumnId>;

    /// Appends one family's samples in a frame of the bound schema; reports whether there are any.
    ///
    /// In protobuf these are fields of a message that the caller ends, with [`Self::unit`], and puts its length before.
    fn write_family(&mut self, at: usize, frame: &Frame, shown: Shown, out: &mut Vec<u8>) -> bool;

    /// Returns the field with a family's unit.
    fn unit(&self, _at: usize) -> &[u8] {
        &[]
    }

    /// Returns the bytes that are kept, and about how many a page has.
    fn sizes(&self) -> (usize, usize);
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
