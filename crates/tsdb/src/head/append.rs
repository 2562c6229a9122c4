//! Appending a frame to a strip: one row, encoded once, its bytes shared by the head and the log.
//!
//! **Invariant:** nothing becomes visible before the kernel has its record; when the record could not be written, the
//! strip is as it was, except that its next row begins another segment.

use super::{
    loose::{LooseSample, Value},
    segment::pages_of,
    strip::{PAGE_COLUMNS, Strip, StripState},
};
use crate::{
    error::TsdbError,
    wal::{
        Ticket,
        record::{LooseRecord, RecordWriter, RowHead, StripHead},
    },
};
use narthex_chunks::{ChunkError, histogram::encode_histogram, row::Row};
use narthex_model::{
    ColumnId, Exemplar, Frame,
    cell::{self, Cell},
    metadata::Family,
    storage::{Outcome, SyncToken},
};
use std::borrow::Cow;

/// When a segment ends though its origin goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Rows of a segment.
    pub(crate) segment_rows: usize,
    /// Segments never cross a multiple of this.
    pub(crate) window_ms: i64,
    /// Samples more than this behind the newest of their series are refused; `None`: none is.
    pub(crate) out_of_order_window_ms: Option<i64>,
    /// Samples before are refused.
    pub(crate) min_valid_ms: i64,
    /// The caller's clock.
    pub(crate) now_ms: i64,
}

/// Which column of the strip each slot of the bound schema is.
#[derive(Clone, Debug)]
pub(crate) enum SlotMap {
    /// The same.
    Same,
    /// By slot; `NOWHERE` for slots that were retired before the strip came to know them.
    Map {
        /// The column of each slot.
        columns: Vec<u32>,
        /// Whether no two slots have the same column.
        distinct: bool,
    },
}

/// No column.
pub(crate) const NOWHERE: u32 = u32::MAX;

impl SlotMap {
    pub(crate) fn column(&self, slot: usize) -> u32 {
        match self {
            Self::Same => slot as u32,
            Self::Map { columns, .. } => columns[slot],
        }
    }
}

/// Memory that one binding reuses for every frame.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    values: Vec<f64>,
    present: Vec<u64>,
    stale: Vec<u32>,
    histograms: Vec<(u32, std::ops::Range<usize>)>,
    histogram_bytes: Vec<u8>,
    /// Columns that are stale or have a histogram in this row: looked at for every sample.
    taken: Vec<u64>,
    loose: Vec<LooseSample>,
}

/// One row in the strip's columns.
#[derive(Clone, Copy)]
struct RowParts<'a> {
    time_ms: i64,
    values: &'a [f64],
    /// `None`: all.
    present: Option<&'a [u64]>,
    stale: &'a [u32],
    histograms: &'a [(u32, std::ops::Range<usize>)],
    histogram_bytes: &'a [u8],
}

impl<'a> RowParts<'a> {
    fn plain(time_ms: i64, values: &'a [f64], present: Option<&'a [u64]>) -> Self {
        Self {
            time_ms,
            values,
            present,
            stale: &[],
            histograms: &[],
            histogram_bytes: &[],
        }
    }
}

/// How much work a frame makes.
enum Shape {
    /// It is a row as it stands.
    AsItIs,
    /// It is a row of other columns.
    Moved,
    /// Every sample needs a look.
    Mixed,
}

/// One frame on its way into a strip.
pub(crate) struct FrameAppend<'a> {
    pub(crate) strip: &'a Strip,
    pub(crate) map: &'a SlotMap,
    pub(crate) frame: &'a Frame,
    /// What other owners of shared series have at the frame's times, sorted by column and time.
    pub(crate) others: &'a [(u32, i64, Value)],
    pub(crate) limits: Limits,
    /// Families that the log has not seen.
    pub(crate) families: &'a [Family],
}

impl FrameAppend<'_> {
    /// Stores the frame: in the log, then in the strip.
    ///
    /// # Errors
    /// Fails when the log cannot be written.
    pub(crate) fn run(
        &self,
        ticket: Ticket<'_>,
        scratch: &mut Scratch,
    ) -> Result<Outcome, TsdbError> {
        let mut state = self.strip.lock();
        let columns = state.schema.len();
        let mut outcome = Outcome::default();
        let time_ms = self.frame.time_ms();
        scratch.loose.clear();
        let parts = match self.shape(&state, columns) {
            Shape::AsItIs => {
                let present = self.frame.present();
                let count = present.count();
                outcome.accepted = count as u64;
                let words = (count < columns).then(|| present.words());
                (count > 0).then_some(RowParts::plain(time_ms, self.frame.values(), words))
            }
            Shape::Moved => {
                self.gather(columns, scratch, &mut outcome);
                scratch.row(time_ms)
            }
            Shape::Mixed => {
                self.classify(&state, columns, scratch, &mut outcome);
                scratch.row(time_ms)
            }
        };
        let loose = scratch.loose.as_slice();
        let starts = self.start_changes(&state, parts.is_some());
        let nothing = parts.is_none() && loose.is_empty() && self.frame.exemplars().is_empty();
        if nothing && self.families.is_empty() {
            return Ok(outcome);
        }
        let loose_first = state.loose.arrived();
        for sample in loose {
            state.loose.insert(sample.clone());
        }
        let row = Staged {
            parts,
            loose,
            loose_first,
            starts,
            exemplars: self.exemplars(),
            families: self.families,
        };
        let token = append_staged(self.strip, &mut state, &row, self.limits, ticket)?;
        outcome.token = SyncToken(token);
        Ok(outcome)
    }

    fn shape(&self, state: &StripState, columns: usize) -> Shape {
        let frame = self.frame;
        let plain = frame.times_ms().is_empty()
            && frame.histograms().is_empty()
            && frame.stale().is_empty()
            && self.others.is_empty()
            && frame.time_ms() > state.last_row_ms
            && frame.time_ms() >= self.limits.min_valid_ms
            && state
                .loose
                .time_range()
                .is_none_or(|(_, max_ms)| max_ms < frame.time_ms());
        match self.map {
            SlotMap::Same if plain && frame.values().len() == columns => Shape::AsItIs,
            SlotMap::Same if plain => Shape::Moved,
            SlotMap::Map { distinct: true, .. } if plain => Shape::Moved,
            _ => Shape::Mixed,
        }
    }

    /// Moves the floats of a plain frame to the strip's columns.
    fn gather(&self, columns: usize, scratch: &mut Scratch, outcome: &mut Outcome) {
        scratch.restart(columns);
        for slot in self.frame.present().iter() {
            let at = self.map.column(slot) as usize;
            if let Some(value) = scratch.values.get_mut(at) {
                *value = self.frame.values()[slot];
                scratch.present[at / 64] |= 1 << (at % 64);
                outcome.accepted += 1;
            } else {
                outcome.over_limit += 1;
            }
        }
    }

    /// Decides sample by sample what joins the row, what is loose and what is refused.
    fn classify(
        &self,
        state: &StripState,
        columns: usize,
        scratch: &mut Scratch,
        outcome: &mut Outcome,
    ) {
        scratch.restart(columns);
        let in_row = self.frame.time_ms() > state.last_row_ms;
        for slot in self.frame.present().iter() {
            let value = self.frame.values()[slot];
            self.classify_one(state, slot, value, in_row, scratch, outcome);
        }
        for column in self.frame.stale() {
            self.classify_one(state, column.index(), cell::STALE, in_row, scratch, outcome);
        }
        scratch.stale.sort_unstable();
        scratch
            .histograms
            .sort_unstable_by_key(|(column, _)| *column);
    }

    fn classify_one(
        &self,
        state: &StripState,
        slot: usize,
        bits: f64,
        in_row: bool,
        scratch: &mut Scratch,
        outcome: &mut Outcome,
    ) {
        let column = self.map.column(slot);
        if column == NOWHERE {
            outcome.over_limit += 1;
            return;
        }
        let time_ms = self.frame.time_of(ColumnId(slot as u32));
        let joins = in_row && time_ms == self.frame.time_ms();
        let value = match Cell::of(bits) {
            Cell::Histogram(index) => {
                Value::Histogram(self.frame.histograms()[index as usize].clone())
            }
            _ => Value::Cell(bits),
        };
        let other = || {
            let at = self
                .others
                .binary_search_by_key(&(column, time_ms), |other| (other.0, other.1))
                .ok()?;
            Some(&self.others[at].2)
        };
        let stored = if joins {
            state.loose.value_at(column, time_ms)
        } else {
            state.value_at(column, time_ms)
        };
        let stored = stored
            .or_else(|| other().cloned())
            .or_else(|| scratch.value_at(column, time_ms, joins));
        if let Some(stored) = stored {
            outcome.count_again(stored == value);
            return;
        }
        if time_ms < self.limits.min_valid_ms {
            outcome.too_old += 1;
            return;
        }
        if joins {
            scratch.join(column, value);
            outcome.accepted += 1;
            return;
        }
        if !self.limits.admits(state, column, time_ms, outcome) {
            return;
        }
        let start_time_ms = self.start_of(slot);
        scratch.loose.push(LooseSample {
            column,
            time_ms,
            value,
            start_time_ms,
        });
        outcome.accepted += 1;
    }

    fn start_of(&self, slot: usize) -> i64 {
        let starts = self.frame.start_times_ms();
        starts
            .iter()
            .rev()
            .find(|(column, _)| column.index() == slot)
            .map_or(0, |start| start.1)
    }

    /// Lists the start times that change with this frame's row.
    fn start_changes(&self, state: &StripState, has_row: bool) -> Vec<(u32, i64)> {
        if !has_row || (state.starts.is_empty() && self.frame.start_times_ms().is_empty()) {
            return Vec::new();
        }
        let stated = self.frame.start_times_ms().iter();
        let stated: Vec<(u32, i64)> = stated
            .map(|(column, start)| (self.map.column(column.index()), *start))
            .collect();
        state.starts.changes(&stated)
    }

    fn exemplars(&self) -> Vec<(u32, i64, &Exemplar)> {
        let own = self.frame.exemplars().iter();
        own.map(|(column, exemplar)| {
            let time_ms = exemplar.time_ms.unwrap_or(self.frame.time_of(*column));
            (self.map.column(column.index()), time_ms, exemplar)
        })
        .collect()
    }
}

impl Limits {
    /// Returns how many rows the segment of a strip that begins with row `first` may have.
    ///
    /// First segments differ in length, so that strips that began together are not flushed together for ever.
    fn rows_of(self, strip: u32, first: u64) -> usize {
        if first > 0 {
            return self.segment_rows;
        }
        let scattered = (strip.wrapping_mul(0x9e37_79b9) >> 16) as usize;
        (self.segment_rows / 4).max(1) + scattered * self.segment_rows * 3 / 4 / (1 << 16)
    }

    /// Reports whether a loose sample is not too far behind, counting it when it is.
    pub(crate) fn admits(
        self,
        state: &StripState,
        column: u32,
        time_ms: i64,
        outcome: &mut Outcome,
    ) -> bool {
        if time_ms < self.min_valid_ms {
            outcome.too_old += 1;
            return false;
        }
        let Some(window_ms) = self.out_of_order_window_ms else {
            return true;
        };
        let newest_ms = state.newest_ms(column);
        if time_ms > newest_ms || time_ms >= newest_ms.saturating_sub(window_ms) && window_ms > 0 {
            return true;
        }
        let counter = if window_ms > 0 {
            &mut outcome.too_old
        } else {
            &mut outcome.out_of_order
        };
        *counter += 1;
        false
    }
}

impl StripState {
    /// Returns a time that no sample of the column is after, and that is not after the newest row.
    fn newest_ms(&self, column: u32) -> i64 {
        let loose_ms = self.loose.newest_ms(column);
        let in_rows = self.open.published().has_seen(column)
            || self.sealed.iter().any(|s| s.has_seen(column));
        let row_ms = if in_rows { self.last_row_ms } else { i64::MIN };
        row_ms.max(loose_ms.unwrap_or(i64::MIN))
    }
}

/// Counting a sample whose time is taken.
pub(crate) trait CountAgain {
    fn count_again(&mut self, same: bool);
}

impl CountAgain for Outcome {
    fn count_again(&mut self, same: bool) {
        if same {
            self.accepted += 1;
        } else {
            self.duplicate += 1;
        }
    }
}

impl Scratch {
    fn restart(&mut self, columns: usize) {
        self.values.clear();
        self.values.resize(columns, 0.0);
        self.present.clear();
        self.present.resize(columns.div_ceil(64), 0);
        self.stale.clear();
        self.histograms.clear();
        self.histogram_bytes.clear();
        self.taken.clear();
        self.taken.resize(columns.div_ceil(64), 0);
        self.loose.clear();
    }

    fn join(&mut self, column: u32, value: Value) {
        let at = column as usize;
        if !matches!(value, Value::Cell(value) if !cell::is_stale(value)) {
            self.taken[at / 64] |= 1 << (at % 64);
        }
        match value {
            Value::Histogram(histogram) => {
                let from = self.histogram_bytes.len();
                encode_histogram(&histogram, &mut self.histogram_bytes);
                self.histograms
                    .push((column, from..self.histogram_bytes.len()));
            }
            Value::Cell(value) if cell::is_stale(value) => self.stale.push(column),
            Value::Cell(value) => {
                self.values[at] = value;
                self.present[at / 64] |= 1 << (at % 64);
            }
        }
    }

    /// Returns what the frame itself already gave for a column and time.
    fn value_at(&self, column: u32, time_ms: i64, joins: bool) -> Option<Value> {
        if !joins {
            let same = |sample: &&LooseSample| sample.column == column && sample.time_ms == time_ms;
            return self
                .loose
                .iter()
                .find(same)
                .map(|sample| sample.value.clone());
        }
        let at = column as usize;
        if self.present[at / 64] >> (at % 64) & 1 == 1 {
            return Some(Value::Cell(self.values[at]));
        }
        if self.taken[at / 64] >> (at % 64) & 1 == 0 {
            return None;
        }
        if self.stale.contains(&column) {
            return Some(Value::Cell(cell::STALE));
        }
        let (_, range) = self.histograms.iter().find(|(other, _)| *other == column)?;
        let decoded =
            narthex_chunks::histogram::decode_histogram(&self.histogram_bytes[range.clone()])
                .ok()?;
        Some(Value::Histogram(std::sync::Arc::new(decoded)))
    }

    fn row(&self, time_ms: i64) -> Option<RowParts<'_>> {
        let empty = self.stale.is_empty()
            && self.histograms.is_empty()
            && self.present.iter().all(|word| *word == 0);
        (!empty).then_some(RowParts {
            time_ms,
            values: &self.values,
            present: Some(&self.present),
            stale: &self.stale,
            histograms: &self.histograms,
            histogram_bytes: &self.histogram_bytes,
        })
    }
}

/// What goes into the log and the strip together.
struct Staged<'a> {
    parts: Option<RowParts<'a>>,
    /// Samples that the lane has taken in, unseen, from this place on.
    loose: &'a [LooseSample],
    loose_first: u64,
    starts: Vec<(u32, i64)>,
    exemplars: Vec<(u32, i64, &'a Exemplar)>,
    families: &'a [Family],
}

/// Logs loose samples that the lane has taken in from place `first` on, and makes them visible.
///
/// # Errors
/// Fails when the log cannot be written; the lane is as before they came then.
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

fn append_staged(
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
            return Err(TsdbError::Poisoned {
                cause: format!("a row could not be encoded: {error}"),
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
    /// Ends the open segment where the row at `time_ms` must not join it.
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
        let key = self.open.published().rows() == 0;
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
        if self.open.published().rows() == 0 {
            return RowHead::Key { row, time_ms };
        }
        let step_change_ms = time_ms
            .wrapping_sub(self.last_row_ms)
            .wrapping_sub(self.last_step_ms);
        RowHead::Next {
            sequence: (row & 0xff) as u8,
            step_change_ms,
        }
    }

    /// Writes the records of what is staged.
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
