//! Writing a row and loose samples to the WAL, then the strip.
//!
//! **Invariant:** nothing becomes visible before the kernel has its record; if the record cannot be written, the
//! strip is unchanged, except that its next row begins another segment.

use super::{Limits, scratch::RowParts};
use crate::{
    error::TsdbError,
    head::{
        loose::{LooseSample, Value},
        segment::pages_of,
        strip::{PAGE_COLUMNS, Strip, StripState},
    },
    wal::{
        Ticket,
        record::{LooseRecord, RecordWriter, RowHead, StripHead},
    },
};
use narthex_chunks::{ChunkError, histogram::encode_histogram, row::Row};
use narthex_model::{ColumnId, Exemplar, metadata::Family};
use std::borrow::Cow;

/// Data that goes into the WAL and the strip together.
pub(super) struct Staged<'a> {
    pub(super) parts: Option<RowParts<'a>>,
    /// Samples that the lane has accepted, invisibly, from this place on.
    pub(super) loose: &'a [LooseSample],
    pub(super) loose_first: u64,
    pub(super) starts: Vec<(u32, i64)>,
    pub(super) exemplars: Vec<(u32, i64, &'a Exemplar)>,
    pub(super) families: &'a [Family],
}

/// Logs loose samples that the lane has accepted from place `first` on, and makes them visible.
///
/// # Errors
/// Fails when the WAL cannot be written; the lane is then as before.
pub(crate) fn log_loose(
    strip: &Strip,
    state: &mut StripState,
    loose: &[LooseSample],
    first: u64,
    limits: Limits,
    ticket: Ticket<'_>,
) -> Result<u64, TsdbError> {
    let staged = Staged {
        parts: None,
        loose,
        loose_first: first,
        starts: Vec::new(),
        exemplars: Vec::new(),
        families: &[],
    };
    append_staged(strip, state, &staged, limits, ticket)
}

pub(super) fn append_staged(
    strip: &Strip,
    state: &mut StripState,
    staged: &Staged<'_>,
    limits: Limits,
    ticket: Ticket<'_>,
) -> Result<u64, TsdbError> {
    let file = ticket.file();
    if let Some(parts) = staged.parts {
        state.begin_row(strip.id, parts.time_ms, file, limits);
        if let Err(error) = state.stage_row(parts) {
            state.open.unstage();
            state.seal();
            state.loose.undo_to(staged.loose_first);
            return Err(TsdbError::Internal {
                operation: "encode a row",
                cause: error.to_string(),
            });
        }
    }
    let rows = state.open.published().end_row();
    let written = ticket.append(|out| state.log(strip, staged, file, rows, out));
    let number = match written {
        Ok(number) => number,
        Err(error) => {
            if staged.parts.is_some() {
                state.open.unstage();
                state.seal();
            }
            state.loose.undo_to(staged.loose_first);
            return Err(error);
        }
    };
    state.logged = (file, state.schema.len());
    let mut max_ms = i64::MIN;
    if let Some(parts) = staged.parts {
        state.publish_row(parts);
        state.starts.apply(rows, &staged.starts);
        max_ms = parts.time_ms;
    }
    if !staged.loose.is_empty() {
        max_ms = staged
            .loose
            .iter()
            .fold(max_ms, |max_ms, sample| max_ms.max(sample.time_ms));
        state.loose.note_arrival(limits.now_ms);
    }
    strip.publish(state, max_ms, limits.now_ms);
    Ok(number)
}

impl StripState {
    /// Ends the open segment if the row at `time_ms` must not join it.
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

    fn stage_row(&mut self, parts: RowParts<'_>) -> Result<(), ChunkError> {
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
                .stage(page, |encoder, out| encoder.encode(&row, out).map(drop))?;
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

    /// Writes the records of the staged data.
    fn log(
        &self,
        strip: &Strip,
        staged: &Staged<'_>,
        file: u32,
        rows: u64,
        out: &mut RecordWriter<'_>,
    ) {
        staged.families.iter().for_each(|family| out.family(family));
        let first = self.logged.0 != file;
        let known = if first { 0 } else { self.logged.1 };
        if first {
            let head = StripHead {
                strip: strip.id,
                rows,
                loose: staged.loose_first,
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
        if let Some(parts) = staged.parts {
            out.row(
                strip.id,
                self.row_head(parts.time_ms, rows),
                self.open.staged(),
            );
        }
        if first && !self.starts.is_empty() {
            let mut starts = self.starts.clone();
            starts.apply(rows, &staged.starts);
            out.starts(strip.id, rows, &starts.all_current());
        } else if !staged.starts.is_empty() {
            out.starts(strip.id, rows, &staged.starts);
        }
        if !staged.loose.is_empty() {
            let records: Vec<LooseRecord<'_>> = staged.loose.iter().map(loose_record).collect();
            out.loose(strip.id, staged.loose_first, &records);
        }
        for (column, time_ms, exemplar) in &staged.exemplars {
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

fn loose_record(sample: &LooseSample) -> LooseRecord<'_> {
    let (cell, histogram) = match &sample.value {
        Value::Cell(cell) => (*cell, None),
        Value::Histogram(histogram) => {
            let mut bytes = Vec::new();
            encode_histogram(histogram, &mut bytes);
            (0.0, Some(Cow::Owned(bytes)))
        }
    };
    LooseRecord {
        column: sample.column,
        time_ms: sample.time_ms,
        cell,
        histogram,
        start_time_ms: sample.start_time_ms,
    }
}
