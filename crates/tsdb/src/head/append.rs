//! Appending a frame to a strip: one row, encoded once, its bytes shared by the head and the WAL.
//!
//! **Invariant:** the caller has its turn in the strip. Nothing becomes visible before the kernel has its record; if the
//! record cannot be written, the strip is unchanged, except that its next row begins another row chunk.

mod commit;
mod scratch;

pub(crate) use commit::{PendingFrame, commit_frames};
pub(crate) use scratch::Scratch;

use super::{
    exemplars,
    out_of_order::{OutOfOrderSample, Value},
    row_chunk::pages_of,
    strip::{PAGE_COLUMNS, Strip, StripState},
};
use crate::error::TsdbError;
use commit::Commit;
use narthex_model::{
    ColumnId, Exemplar, Frame,
    cell::{self, Cell},
    metadata::Family,
    storage::Outcome,
};
use scratch::RowParts;

/// Bounds of row chunks and of sample times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Most rows of a row chunk.
    pub(crate) chunk_rows: usize,
    /// Length of a window; row chunks never cross a multiple of it.
    pub(crate) window_ms: i64,
    /// Samples more than this behind the newest of their series are refused; `None`: no limit.
    pub(crate) out_of_order_window_ms: Option<i64>,
    /// Earlier samples are refused.
    pub(crate) min_valid_ms: i64,
    /// Later samples are refused.
    pub(crate) max_valid_ms: i64,
    /// Time by the caller's clock.
    pub(crate) now_ms: i64,
}

/// Mapping from the slots of the bound schema to the strip's columns.
#[derive(Clone, Debug)]
pub(crate) enum SlotMap {
    /// Slots and columns are the same.
    Same,
    /// By slot; `NOWHERE` for slots that were retired before the strip got them.
    Map {
        /// Column of each slot.
        columns: Vec<u32>,
        /// Whether no two slots share a column.
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

/// How much work a frame needs.
enum Shape {
    /// The frame is a row as it is.
    AsItIs,
    /// The frame is a row, with columns in another order.
    Moved,
    /// The frame is the last row once more, as from a page on which some times have not advanced.
    Again(Outcome),
    /// Every sample must be classified.
    Mixed,
}

/// One frame being appended to a strip.
pub(crate) struct FrameAppend<'a> {
    pub(crate) strip: &'a Strip,
    pub(crate) map: &'a SlotMap,
    pub(crate) frame: &'a Frame,
    /// Other owners' values for shared series at the frame's times, sorted by column and time.
    pub(crate) others: &'a [(u32, i64, Value)],
    pub(crate) limits: Limits,
    /// Families that the WAL does not have yet.
    pub(crate) families: &'a [Family],
}

impl<'a> FrameAppend<'a> {
    /// Encodes the frame in the strip, to be committed to `file` of the WAL.
    ///
    /// # Errors
    /// Fails when its row cannot be encoded.
    pub(crate) fn encode(
        &self,
        file: u32,
        scratch: &'a mut Scratch,
    ) -> Result<PendingFrame<'a>, TsdbError> {
        let mut state = self.strip.lock();
        let columns = state.schema.len();
        let mut outcome = Outcome::default();
        let time_ms = self.row_ms(&state);
        scratch.out_of_order.clear();
        let parts = match self.shape(&state, columns, scratch) {
            Shape::AsItIs => {
                let (present, stale) = (self.frame.present(), scratch.stale.as_slice());
                let count = present.count();
                outcome.accepted = (count + self.frame.stale().len()) as u64;
                let words = (count < columns).then(|| present.words());
                let nothing = count == 0 && stale.is_empty();
                (!nothing).then_some(RowParts::plain(time_ms, self.frame.values(), words, stale))
            }
            Shape::Moved => {
                self.gather(columns, scratch, &mut outcome);
                scratch.row(time_ms)
            }
            Shape::Again(counted) => {
                outcome = counted;
                None
            }
            Shape::Mixed => {
                self.classify(&state, columns, time_ms, scratch, &mut outcome);
                scratch.row(time_ms)
            }
        };
        let out_of_order = scratch.out_of_order.as_slice();
        let starts = self.start_changes(&state, parts.is_some());
        let nothing =
            parts.is_none() && out_of_order.is_empty() && self.frame.exemplars().is_empty();
        let mut change = None;
        if !nothing || !self.families.is_empty() {
            let out_of_order_first = state.out_of_order.arrived();
            for sample in out_of_order {
                state.out_of_order.insert(sample.clone());
            }
            let change = change.insert(Commit {
                parts,
                out_of_order,
                out_of_order_first,
                starts,
                exemplars: self.exemplars(),
                families: self.families,
            });
            state.encode(self.strip, change, file, self.limits)?;
        }
        Ok(PendingFrame::new(
            self.strip,
            state,
            change,
            self.limits,
            outcome,
        ))
    }

    /// Returns the time of the frame's row; if samples have their own times, the most common one.
    fn row_ms(&self, state: &StripState) -> i64 {
        let frame = self.frame;
        if frame.times_ms().is_empty() {
            return frame.time_ms();
        }
        let times = || frame.present().iter().map(|slot| frame.times_ms()[slot]);
        // Boyer and Moore's majority vote: a time that more than half of the samples have is the one left.
        let (candidate, _) =
            times().fold(
                (frame.time_ms(), 0usize),
                |(leader, lead), time_ms| match lead {
                    0 => (time_ms, 1),
                    _ if time_ms == leader => (leader, lead + 1),
                    _ => (leader, lead - 1),
                },
            );
        let votes = times().filter(|time_ms| *time_ms == candidate).count();
        let takes = candidate > state.last_row_ms && candidate <= self.limits.max_valid_ms;
        if votes * 2 > frame.values().len() && takes {
            candidate
        } else {
            frame.time_ms()
        }
    }

    fn shape(&self, state: &StripState, columns: usize, scratch: &mut Scratch) -> Shape {
        let frame = self.frame;
        if frame.time_ms() == state.last_row_ms {
            let mut outcome = Outcome::default();
            if self.is_last_row(state, columns, scratch, &mut outcome) {
                return Shape::Again(outcome);
            }
        }
        let plain = frame.times_ms().is_empty()
            && frame.histograms().is_empty()
            && self.others.is_empty()
            && frame.time_ms() > state.last_row_ms
            && self.limits.are_kept(frame.time_ms())
            && state
                .out_of_order
                .time_range()
                .is_none_or(|(_, max_ms)| max_ms < frame.time_ms());
        match self.map {
            SlotMap::Same if plain && frame.values().len() == columns => {
                if scratch.take_stale(frame.stale(), frame.present()) {
                    Shape::AsItIs
                } else {
                    Shape::Mixed
                }
            }
            SlotMap::Same if plain && frame.stale().is_empty() => Shape::Moved,
            SlotMap::Map { distinct: true, .. } if plain && frame.stale().is_empty() => {
                Shape::Moved
            }
            _ => Shape::Mixed,
        }
    }

    /// Reports whether the last row has every sample of the frame, given that it has the frame's time.
    fn is_last_row(
        &self,
        state: &StripState,
        columns: usize,
        scratch: &mut Scratch,
        outcome: &mut Outcome,
    ) -> bool {
        let frame = self.frame;
        let is_plain = frame.times_ms().is_empty()
            && frame.histograms().is_empty()
            && frame.stale().is_empty()
            && !matches!(
                self.map,
                SlotMap::Map {
                    distinct: false,
                    ..
                }
            );
        // Rows of sealed row chunks may be in blocks alone.
        if !is_plain || state.open.published().rows() == 0 {
            return false;
        }
        self.gather(columns, scratch, outcome);
        let mut pages = (0..pages_of(columns)).map(|page| (page * PAGE_COLUMNS, page));
        let same = pages.try_fold(0, |same, (first, page)| {
            let mut floats = state.open.state(page)?.floats();
            floats.try_fold(same, |same, (column, value)| {
                let at = first + column;
                let is_present = scratch.present[at / 64] >> (at % 64) & 1 == 1;
                let is_same = scratch.values[at].to_bits() == value.to_bits();
                (is_same || !is_present).then_some(same + u64::from(is_present))
            })
        });
        same == Some(outcome.accepted)
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

    /// Decides for each sample whether it joins the row, goes to the out-of-order buffer or is refused.
    fn classify(
        &self,
        state: &StripState,
        columns: usize,
        row_ms: i64,
        scratch: &mut Scratch,
        outcome: &mut Outcome,
    ) {
        scratch.restart(columns);
        let row_ms = Some(row_ms).filter(|row_ms| *row_ms > state.last_row_ms);
        let slots = self.frame.present().iter();
        let newer = slots.map(|slot| {
            let column = self.map.column(slot);
            let time_ms = self.frame.time_of(ColumnId(slot as u32));
            (
                slot,
                column != NOWHERE && state.out_of_order.is_newer(column, time_ms),
            )
        });
        scratch.look_ahead(self.frame.values().len(), newer);
        for slot in self.frame.present().iter() {
            let value = self.frame.values()[slot];
            self.classify_one(state, slot, value, row_ms, scratch, outcome);
        }
        for column in self.frame.stale() {
            self.classify_one(state, column.index(), cell::STALE, row_ms, scratch, outcome);
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
        row_ms: Option<i64>,
        scratch: &mut Scratch,
        outcome: &mut Outcome,
    ) {
        let column = self.map.column(slot);
        if column == NOWHERE {
            outcome.over_limit += 1;
            return;
        }
        let time_ms = self.frame.time_of(ColumnId(slot as u32));
        let joins = row_ms == Some(time_ms);
        let value = match Cell::decode(bits) {
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
        let out_of_order = || {
            let is_newer = scratch.is_newer(slot);
            if is_newer {
                None
            } else {
                state.out_of_order.value_at(column, time_ms)
            }
        };
        let in_rows = || {
            (!joins)
                .then(|| state.row_value_at(column, time_ms))
                .flatten()
        };
        let stored = out_of_order().or_else(in_rows);
        let stored = stored
            .or_else(|| other().cloned())
            .or_else(|| scratch.value_at(column, time_ms, joins));
        if let Some(stored) = stored {
            outcome.count_again(stored == value);
            return;
        }
        if self.limits.refuse(time_ms, outcome) {
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
        scratch.add_out_of_order(OutOfOrderSample {
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
            .filter(|(column, _)| *column != NOWHERE)
            .collect();
        state.starts.changes(&stated)
    }

    fn exemplars(&self) -> Vec<(u32, i64, &'a Exemplar)> {
        let own = self.frame.exemplars().iter();
        let taken = |column: &ColumnId| self.map.column(column.index()) != NOWHERE;
        let own = own.filter(|(column, exemplar)| taken(column) && exemplars::fits(exemplar));
        own.map(|(column, exemplar)| {
            let time_ms = exemplar.time_ms.unwrap_or(self.frame.time_of(*column));
            (self.map.column(column.index()), time_ms, exemplar)
        })
        .collect()
    }
}

impl Limits {
    /// Returns the most rows of the row chunk of a strip that begins with row `first`.
    ///
    /// First row chunks differ in length, so that strips that started together are not always flushed together.
    fn rows_of(self, strip: u32, first: u64) -> usize {
        if first > 0 {
            return self.chunk_rows;
        }
        let ungrouped = (strip.wrapping_mul(0x9e37_79b9) >> 16) as usize;
        (self.chunk_rows / 4).max(1) + ungrouped * self.chunk_rows * 3 / 4 / (1 << 16)
    }

    /// Reports whether samples of this time are within bounds.
    fn are_kept(self, time_ms: i64) -> bool {
        (self.min_valid_ms..=self.max_valid_ms).contains(&time_ms)
    }

    /// Reports whether a sample is out of bounds, counting it if so.
    fn refuse(self, time_ms: i64, outcome: &mut Outcome) -> bool {
        let counter = if time_ms < self.min_valid_ms {
            &mut outcome.too_old
        } else if time_ms > self.max_valid_ms {
            &mut outcome.too_new
        } else {
            return false;
        };
        *counter += 1;
        true
    }

    /// Reports whether an out-of-order sample is not too old, counting it otherwise.
    pub(crate) fn admits(
        self,
        state: &StripState,
        column: u32,
        time_ms: i64,
        outcome: &mut Outcome,
    ) -> bool {
        if self.refuse(time_ms, outcome) {
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
    /// Returns an upper bound of the column's sample times that is not after the newest row.
    fn newest_ms(&self, column: u32) -> i64 {
        let out_of_order_ms = self.out_of_order.newest_ms(column);
        let in_rows = self.open.published().has_seen(column)
            || self.sealed.iter().any(|s| s.has_seen(column));
        let row_ms = if in_rows { self.last_row_ms } else { i64::MIN };
        row_ms.max(out_of_order_ms.unwrap_or(i64::MIN))
    }
}

/// Counts a sample whose time is taken.
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
