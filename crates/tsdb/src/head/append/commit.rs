//! Writing a row and out-of-order samples to the WAL, then the strip.
//!
//! **Invariant:** nothing becomes visible before the kernel has its record; if the record cannot be written, the
//! strip is unchanged, except that its next row begins another row chunk.

use super::{Limits, scratch::RowParts};
use crate::{
    error::TsdbError,
    head::{
        out_of_order::{OutOfOrderSample, Value},
        row_chunk::pages_of,
        strip::{PAGE_COLUMNS, Strip, StripState},
    },
    wal::{
        Ticket,
        record::{RecordWriter, RowHead, SampleRecord, StripHead},
    },
};
use narthex_chunks::{ChunkError, histogram::encode_histogram, row::Row};
use narthex_model::{
    ColumnId, Exemplar,
    metadata::Family,
    storage::{Outcome, SyncToken},
};
use std::{borrow::Cow, sync::MutexGuard};

/// Data that goes into the WAL and the strip together.
pub(super) struct Commit<'a> {
    pub(super) parts: Option<RowParts<'a>>,
    /// Samples that the buffer has accepted, invisibly, from this place on.
    pub(super) out_of_order: &'a [OutOfOrderSample],
    pub(super) out_of_order_first: u64,
    pub(super) starts: Vec<(u32, i64)>,
    pub(super) exemplars: Vec<(u32, i64, &'a Exemplar)>,
    pub(super) families: &'a [Family],
}

/// Logs out-of-order samples that the buffer has accepted from place `first` on, and makes them visible.
///
/// # Errors
/// Fails when the WAL cannot be written; the buffer is then as before.
pub(crate) fn commit_out_of_order(
    strip: &Strip,
    state: &mut StripState,
    out_of_order: &[OutOfOrderSample],
    first: u64,
    limits: Limits,
    ticket: Ticket<'_>,
) -> Result<u64, TsdbError> {
    let change = Commit {
        parts: None,
        out_of_order,
        out_of_order_first: first,
        starts: Vec::new(),
        exemplars: Vec::new(),
        families: &[],
    };
    let file = ticket.file();
    let number = ticket
        .append(|out| state.log(strip, &change, file, out))
        .inspect_err(|_| state.discard(&change))?;
    state.publish(strip, &change, file, limits);
    Ok(number)
}

/// A frame that is encoded in its strip, which stays locked until the frame is committed or discarded.
pub(crate) struct PendingFrame<'a> {
    pub(super) strip: &'a Strip,
    pub(super) state: MutexGuard<'a, StripState>,
    /// `None` if there is nothing to store.
    pub(super) change: Option<Commit<'a>>,
    pub(super) limits: Limits,
    pub(crate) outcome: Outcome,
}

impl PendingFrame<'_> {
    /// Discards what was encoded.
    pub(crate) fn discard(&mut self) {
        if let Some(change) = self.change.take() {
            self.state.discard(&change);
        }
    }
}

/// Logs frames in one write, then makes them visible; returns the write's number.
///
/// # Errors
/// Fails when the WAL cannot be written; all frames are then discarded.
pub(crate) fn commit_frames(
    frames: &mut [PendingFrame<'_>],
    ticket: Ticket<'_>,
) -> Result<SyncToken, TsdbError> {
    if frames.iter().all(|frame| frame.change.is_none()) {
        return Ok(SyncToken::default());
    }
    let file = ticket.file();
    let written = ticket.append(|out| {
        for frame in frames.iter() {
            if let Some(change) = &frame.change {
                frame.state.log(frame.strip, change, file, out);
            }
        }
    });
    let number = written.inspect_err(|_| frames.iter_mut().for_each(PendingFrame::discard))?;
    for frame in frames {
        if let Some(change) = &frame.change {
            frame.state.publish(frame.strip, change, file, frame.limits);
        }
    }
    Ok(SyncToken(number))
}

impl StripState {
    /// Encodes the row; what fails is discarded.
    pub(super) fn encode(
        &mut self,
        strip: &Strip,
        change: &Commit<'_>,
        file: u32,
        limits: Limits,
    ) -> Result<(), TsdbError> {
        let Some(parts) = change.parts else {
            return Ok(());
        };
        self.begin_row(strip.id, parts.time_ms, file, limits);
        self.encode_row(parts).map_err(|error| {
            self.discard(change);
            TsdbError::Internal {
                operation: "encode a row",
                cause: error.to_string(),
            }
        })
    }

    /// Discards the row and the out-of-order samples that are not visible yet.
    fn discard(&mut self, change: &Commit<'_>) {
        if change.parts.is_some() {
            self.open.discard_row();
            self.seal();
        }
        self.out_of_order.undo_to(change.out_of_order_first);
    }

    /// Makes visible what `file` of the WAL has.
    fn publish(&mut self, strip: &Strip, change: &Commit<'_>, file: u32, limits: Limits) {
        if change.parts.is_none() && self.logged.0 != file {
            // A replay goes on in a file with a key row only, and the next row would not be the strip's first there.
            self.seal();
        }
        self.logged = (file, self.schema.len());
        let mut max_ms = i64::MIN;
        if let Some(parts) = change.parts {
            let rows = self.open.published().end_row();
            self.publish_row(parts);
            self.starts.apply(rows, &change.starts);
            max_ms = parts.time_ms;
        }
        if !change.out_of_order.is_empty() {
            max_ms = change
                .out_of_order
                .iter()
                .fold(max_ms, |max_ms, sample| max_ms.max(sample.time_ms));
            self.out_of_order.note_arrival(limits.now_ms);
        }
        strip.publish(self, max_ms, limits.now_ms);
    }

    /// Ends the open row chunk if the row at `time_ms` must not join it.
    fn begin_row(&mut self, strip: u32, time_ms: i64, file: u32, limits: Limits) {
        let open = self.open.published();
        let Some((first_ms, _)) = open.time_range() else {
            return;
        };
        let window = |time_ms: i64| time_ms.div_euclid(limits.window_ms);
        let ends = self.logged.0 != file
            || open.rows() >= limits.rows_of(strip, open.first_row)
            || window(first_ms) != window(time_ms)
            || !self.open.takes_time(time_ms);
        if ends {
            self.seal();
        } else {
            self.open.checkpoint_if_due();
        }
    }

    fn encode_row(&mut self, parts: RowParts<'_>) -> Result<(), ChunkError> {
        let columns = parts.values.len();
        for page in 0..pages_of(columns) {
            let from = page * PAGE_COLUMNS;
            let to = columns.min(from + PAGE_COLUMNS);
            let here = |column: &u32| (from..to).contains(&(*column as usize));
            let (stale, histograms): (Vec<u32>, Vec<(u32, &[u8])>);
            let mut row = Row {
                time_ms: parts.time_ms,
                values: &parts.values[from..to],
                ..Row::default()
            };
            row.present = parts
                .present
                .map(|words| &words[from / 64..to.div_ceil(64)]);
            if !parts.stale.is_empty() {
                stale = parts
                    .stale
                    .iter()
                    .filter(|column| here(column))
                    .map(|column| column - from as u32)
                    .collect();
                row.stale = &stale;
            }
            if !parts.histograms.is_empty() {
                let own = parts.histograms.iter().filter(|(column, _)| here(column));
                let bytes = |range: &std::ops::Range<usize>| &parts.histogram_bytes[range.clone()];
                histograms = own
                    .map(|(column, range)| (column - from as u32, bytes(range)))
                    .collect();
                row.histograms = &histograms;
            }
            self.open
                .append_row(page, |encoder, out| encoder.encode(&row, out).map(drop))?;
        }
        Ok(())
    }

    fn publish_row(&mut self, parts: RowParts<'_>) {
        let columns = parts.values.len();
        let key = self.open.published().rows() == 0 || self.open.is_checkpoint();
        self.last_step_ms = if key {
            0
        } else {
            parts.time_ms - self.last_row_ms
        };
        self.open.publish(parts.time_ms, columns);
        self.last_row_ms = parts.time_ms;
        match parts.present {
            Some(words) => self.open.note_seen(words.iter().copied()),
            None => {
                let full = (0..columns.div_ceil(64)).map(|word| match columns - word * 64 {
                    left @ 0..64 => (1 << left) - 1,
                    _ => u64::MAX,
                });
                self.open.note_seen(full);
            }
        }
        let events = parts
            .stale
            .iter()
            .copied()
            .chain(parts.histograms.iter().map(|(column, _)| *column));
        events.for_each(|column| self.open.note_seen_column(column));
    }

    fn row_head(&self, time_ms: i64, row: u64) -> RowHead {
        let first = self.open.published().rows() == 0;
        if first || self.open.is_checkpoint() {
            return RowHead::Key {
                row,
                time_ms,
                goes_on: !first,
            };
        }
        let step_change_ms = time_ms
            .wrapping_sub(self.last_row_ms)
            .wrapping_sub(self.last_step_ms);
        RowHead::Next {
            sequence: (row & 0xff) as u8,
            step_change_ms,
        }
    }

    /// Writes the records of a commit.
    fn log(&self, strip: &Strip, change: &Commit<'_>, file: u32, out: &mut RecordWriter<'_>) {
        let rows = self.open.published().end_row();
        change.families.iter().for_each(|family| out.family(family));
        let first = self.logged.0 != file;
        let known = if first { 0 } else { self.logged.1 };
        if first {
            let head = StripHead {
                strip: strip.id,
                rows,
                out_of_order: change.out_of_order_first,
            };
            out.strip(head, &strip.common);
        }
        let columns = self.schema.len();
        if columns > known {
            out.grow(
                strip.id,
                known as u64,
                SetsFrom {
                    schema: &self.schema,
                    at: known,
                },
            );
        }
        if let Some(parts) = change.parts {
            out.row(
                strip.id,
                self.row_head(parts.time_ms, rows),
                self.open.encoded_row(),
            );
        }
        if first && !self.starts.is_empty() {
            let mut starts = self.starts.clone();
            starts.apply(rows, &change.starts);
            out.starts(strip.id, rows, &starts.all_current());
        } else if !change.starts.is_empty() {
            out.starts(strip.id, rows, &change.starts);
        }
        if !change.out_of_order.is_empty() {
            let records: Vec<SampleRecord<'_>> =
                change.out_of_order.iter().map(sample_record).collect();
            out.out_of_order(strip.id, change.out_of_order_first, &records);
        }
        for (column, time_ms, exemplar) in &change.exemplars {
            out.exemplar(strip.id, *column, *time_ms, exemplar);
        }
    }
}

/// The local sets of a schema's columns from one on.
struct SetsFrom<'a> {
    schema: &'a narthex_model::Schema,
    at: usize,
}

impl<'a> Iterator for SetsFrom<'a> {
    type Item = &'a narthex_model::LabelSet;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        (at < self.schema.len()).then(|| {
            self.at += 1;
            &self.schema.column(ColumnId(at as u32)).set
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.schema.len() - self.at;
        (left, Some(left))
    }
}

impl ExactSizeIterator for SetsFrom<'_> {}

fn sample_record(sample: &OutOfOrderSample) -> SampleRecord<'_> {
    let (cell, histogram) = match &sample.value {
        Value::Cell(cell) => (*cell, None),
        Value::Histogram(histogram) => {
            let mut bytes = Vec::new();
            encode_histogram(histogram, &mut bytes);
            (0.0, Some(Cow::Owned(bytes)))
        }
    };
    SampleRecord {
        column: sample.column,
        time_ms: sample.time_ms,
        cell,
        histogram,
        start_time_ms: sample.start_time_ms,
    }
}
