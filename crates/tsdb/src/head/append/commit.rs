//! Writing a row and out-of-order samples to the WAL and the strip.
//!
//! The strip is locked while its change is encoded, added to the log's next write and stored behind what is visible;
//! then the lock is released, and the write awaited.
//!
//! **Invariant:** records are in the log in the order in which strips have their contents. Nothing becomes visible before
//! the kernel has its record; if the record cannot be written, the strip is unchanged, except that its next row begins
//! another row chunk.

use super::{Limits, scratch::RowParts};
use crate::{
    error::TsdbError,
    head::{
        Head,
        out_of_order::{OutOfOrderSample, Value},
        row_chunk::pages_of,
        strip::{PAGE_COLUMNS, Strip, StripState},
    },
    wal::{
        StripMark, Ticket,
        record::{RecordWriter, RowHead, SampleRecord, StripHead},
    },
};
use narthex_chunks::{ChunkError, histogram::encode_histogram, row::Row};
use narthex_model::{
    ColumnId, Exemplar, Histogram,
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

/// A change of a strip on its way to the log; the strip is locked until the change is stored. One that is dropped before
/// it is visible, be it by a panic, is taken back.
pub(crate) struct PendingFrame<'a> {
    strip: &'a Strip,
    stage: Stage<'a>,
    /// `None` if there is nothing to store.
    change: Option<Commit<'a>>,
    limits: Limits,
    pub(crate) outcome: Outcome,
}

enum Stage<'a> {
    /// Only the encoders have it.
    Encoded(MutexGuard<'a, StripState>),
    /// The strip has it, invisibly.
    Stored(Stored),
    Done,
}

/// What it takes to make a stored change visible, or to take it back.
struct Stored {
    /// How far the strip has come with it, and without.
    end: StripMark,
    before: StripMark,
    has_fresh_columns: bool,
    row: Option<RowBefore>,
    /// Whether the row ends all columns.
    ends_all: bool,
    logged: (u32, usize),
    max_ms: i64,
}

/// What a stored row has replaced.
struct RowBefore {
    last_row_ms: i64,
    last_step_ms: i64,
    columns: usize,
}

impl<'a> PendingFrame<'a> {
    /// Returns a change that is encoded in `state`.
    pub(super) fn new(
        strip: &'a Strip,
        state: MutexGuard<'a, StripState>,
        change: Option<Commit<'a>>,
        limits: Limits,
        outcome: Outcome,
    ) -> Self {
        Self {
            strip,
            stage: Stage::Encoded(state),
            change,
            limits,
            outcome,
        }
    }

    /// Returns out-of-order samples that the buffer in `state` has accepted from place `first` on.
    pub(crate) fn out_of_order(
        strip: &'a Strip,
        state: MutexGuard<'a, StripState>,
        samples: &'a [OutOfOrderSample],
        first: u64,
        limits: Limits,
    ) -> Self {
        let change = (!samples.is_empty()).then_some(Commit {
            parts: None,
            out_of_order: samples,
            out_of_order_first: first,
            starts: Vec::new(),
            exemplars: Vec::new(),
            families: &[],
        });
        Self::new(strip, state, change, limits, Outcome::default())
    }

    fn log(&self, file: u32, out: &mut RecordWriter<'_>) {
        if let (Some(change), Stage::Encoded(state)) = (&self.change, &self.stage) {
            state.log(self.strip, change, file, out);
        }
    }

    /// Stores the change invisibly, and unlocks the strip.
    fn store(&mut self, file: u32) {
        let stage = std::mem::replace(&mut self.stage, Stage::Done);
        if let (Some(change), Stage::Encoded(mut state)) = (&self.change, stage) {
            let stored = state.store(self.strip, change, file, self.limits);
            self.stage = Stage::Stored(stored);
        }
    }

    /// Makes the stored change visible.
    fn show(&mut self) {
        if let Stage::Stored(stored) = std::mem::replace(&mut self.stage, Stage::Done) {
            if stored.has_fresh_columns {
                self.strip.lock().open.show_columns();
            }
            if stored.ends_all {
                self.strip.note_ended(stored.end.rows);
            }
            self.strip.show(stored.end, self.limits.now_ms);
        }
    }
}

impl Drop for PendingFrame<'_> {
    fn drop(&mut self) {
        let stage = std::mem::replace(&mut self.stage, Stage::Done);
        match (&self.change, stage) {
            (Some(change), Stage::Encoded(mut state)) => state.discard(change),
            (_, Stage::Stored(stored)) => self.strip.lock().take_back(self.strip, &stored),
            _ => {}
        }
    }
}

/// Logs frames in one write, then makes them visible; returns the write's number.
///
/// The turns in the strips and the ticket must outlive the frames; `sharing` is released before the disk is waited for:
/// who sees a value of another strip that is not written yet waits for that write as well. `doing` says what a panic
/// ended. Readers see all frames or none.
///
/// # Errors
/// Fails when the WAL cannot be written; the frames must then be dropped.
pub(crate) fn commit_frames(
    frames: &mut [PendingFrame<'_>],
    head: &Head,
    ticket: &Ticket<'_>,
    sharing: Option<MutexGuard<'_, ()>>,
    doing: &'static str,
) -> Result<SyncToken, TsdbError> {
    // Before the frames are taken back: what was added may still be written.
    let _guard = ticket.guard(doing);
    let file = ticket.file();
    if frames.iter().all(|frame| frame.change.is_none()) {
        frames.iter_mut().for_each(|frame| frame.store(file));
        if let Some(sharing) = sharing {
            drop(sharing);
            // What made all samples repetitions may be on its way.
            ticket.wait_for_all()?;
        }
        return Ok(SyncToken::default());
    }
    let number = ticket.add(|out| frames.iter().for_each(|frame| frame.log(file, out)))?;
    frames.iter_mut().for_each(|frame| frame.store(file));
    drop(sharing);
    ticket.wait(number)?;
    let _showing = (frames.len() > 1).then(|| head.showing());
    frames.iter_mut().for_each(PendingFrame::show);
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

    /// Stores what `file` of the WAL will have behind what is visible.
    fn store(&mut self, strip: &Strip, change: &Commit<'_>, file: u32, limits: Limits) -> Stored {
        if change.parts.is_none() && self.logged.0 != file {
            // A replay goes on in a file with a key row only, and the next row would not be the strip's first there.
            self.seal();
        }
        let logged = std::mem::replace(&mut self.logged, (file, self.schema.len()));
        let before = StripMark {
            rows: self.end().rows,
            out_of_order: change.out_of_order_first,
        };
        let mut max_ms = strip.max_ms();
        let row = change.parts.map(|parts| {
            let row = self.store_row(parts);
            self.starts.apply(before.rows, &change.starts);
            max_ms = max_ms.max(parts.time_ms);
            row
        });
        if !change.out_of_order.is_empty() {
            max_ms = change
                .out_of_order
                .iter()
                .fold(max_ms, |max_ms, sample| max_ms.max(sample.time_ms));
            self.out_of_order.note_arrival(limits.now_ms);
        }
        Stored {
            end: self.end(),
            before,
            has_fresh_columns: self.open.has_fresh_columns(),
            row,
            ends_all: change
                .parts
                .is_some_and(|parts| parts.ends_all(self.schema.len())),
            logged,
            max_ms: strip.set_max_ms(max_ms),
        }
    }

    /// Takes back what was stored last and is not visible.
    fn take_back(&mut self, strip: &Strip, stored: &Stored) {
        if let Some(row) = &stored.row {
            self.open.take_back(row.columns);
            self.seal();
            self.starts.undo_from(stored.before.rows);
            (self.last_row_ms, self.last_step_ms) = (row.last_row_ms, row.last_step_ms);
        }
        self.out_of_order.undo_to(stored.before.out_of_order);
        self.logged = stored.logged;
        strip.set_max_ms(stored.max_ms);
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
            let (stale, histograms): (Vec<u32>, Vec<(u32, &Histogram)>);
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
                histograms = own
                    .map(|(column, histogram)| (column - from as u32, &**histogram))
                    .collect();
                row.histograms = &histograms;
            }
            self.open
                .append_row(page, |encoder, out| encoder.encode(&row, out).map(drop))?;
        }
        Ok(())
    }

    fn store_row(&mut self, parts: RowParts<'_>) -> RowBefore {
        let columns = parts.values.len();
        let key = self.open.published().rows() == 0 || self.open.is_checkpoint();
        let step_ms = if key {
            0
        } else {
            parts.time_ms - self.last_row_ms
        };
        let before = RowBefore {
            last_row_ms: std::mem::replace(&mut self.last_row_ms, parts.time_ms),
            last_step_ms: std::mem::replace(&mut self.last_step_ms, step_ms),
            columns: self.open.published().columns,
        };
        self.open.publish(parts.time_ms, columns);
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
        before
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
            let mut current = starts.all_current();
            // A replay that has read the file before must learn of those that end with this row.
            current.extend(change.starts.iter().filter(|(_, start_ms)| *start_ms == 0));
            out.starts(strip.id, rows, &current);
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
