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
use narthex_model::{Frame, Schema};

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

impl FormatWriter {
    fn bind(schema: &Schema, style: Negotiated) -> Self {
        match style.format {
            Format::Protobuf => Self::Messages(MessageWriter::new(schema, style.escaping)),
            Format::Text | Format::OpenMetrics => Self::Lines(LineWriter::new(schema, style)),
        }
    }
}
