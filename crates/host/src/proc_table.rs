//! Collectors whose numbers are in one text file of procfs.
//!
//! Invariant: a round is one read of the file; a malformed line fails the collector and is named.

use std::path::Path;

use narthex_model::LabelSet;

use crate::collector::{Collector, Ctx};
use crate::error::{HostError, ParseError};
use crate::open_file::{End, OpenFile};
use crate::rows::Rows;
use crate::sink::Sink;

/// A file's text, and the series of its lines.
pub(crate) trait Table: Send {
    /// Path below procfs.
    const FILE: &'static str;
    /// Lines of some of them are longer than a page.
    const END: End = End::Empty;

    /// Sets a round's values.
    ///
    /// # Errors
    ///
    /// Fails on a malformed line.
    fn parse(&mut self, text: &[u8], rows: &mut Rows, out: &mut Sink) -> Result<(), ParseError>;
}

pub(crate) struct ProcTable<T> {
    table: T,
    file: OpenFile,
    rows: Rows,
}

impl<T: Table> ProcTable<T> {
    pub(crate) fn new(table: T, procfs: &Path) -> Self {
        Self {
            table,
            file: OpenFile::new(procfs.join(T::FILE)),
            rows: Rows::new(),
        }
    }
}

impl<T: Table> Collector for ProcTable<T> {
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        let text = self.file.read(ctx.buf, T::END);
        let text = text.map_err(HostError::or_no_data)?;
        let parsed = set(&mut self.table, &mut self.rows, text, out);
        parsed.map_err(|source| self.file.malformed(source))
    }
}

fn set<T: Table>(
    table: &mut T,
    rows: &mut Rows,
    text: &[u8],
    out: &mut Sink,
) -> Result<(), ParseError> {
    rows.begin();
    table.parse(text, rows, out)?;
    rows.end(out);
    Ok(())
}

/// Parses bytes that may be anything, twice, as two rounds would.
pub(crate) fn fuzz<T: Table>(mut table: ProcTable<T>, data: &[u8]) {
    let mut out = Sink::new(LabelSet::empty());
    for time_ms in 0..2 {
        out.begin();
        let parsed = set(&mut table.table, &mut table.rows, data, &mut out);
        let values = out.finish(time_ms).present().count();
        assert!(parsed.is_err() || values <= data.len());
    }
}
