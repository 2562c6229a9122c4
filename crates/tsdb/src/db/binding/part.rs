//! A strip that one origin writes to, with all its series or some of them.
//!
//! **Invariant:** the origin owns the strip exclusively until the part is dropped or moves to another strip. So rounds
//! that are appended together take turns in, and lock, several strips without waiting for each other.

use super::{BINDING, poisoned};
use crate::block::SeriesExemplar;
use crate::db::Inner;
use crate::error::TsdbError;
use crate::head::{
    Bound,
    append::{FrameAppend, Limits, NOWHERE, PendingFrame, Scratch, SlotMap, commit_frames},
    out_of_order::Value,
};
use narthex_model::{ColumnId, Frame, Schema, metadata::Family, storage::Outcome};
use smallvec::SmallVec;
use std::sync::MutexGuard;

/// What a panic ends here.
const STORING: &str = "storing a row";

/// Series of one origin and the strip that has them.
pub(super) struct Part {
    pub(super) schema: Schema,
    /// `None` before the first round, while being replaced, and after a panic during that.
    pub(super) bound: Option<Bound>,
    /// Families that the WAL does not have, of strips that were left.
    pub(super) families: Vec<Family>,
    scratch: Scratch,
}

/// Frames and the part that each goes to: mostly a page's and its report's.
pub(super) type Writes<'a> = SmallVec<[(&'a mut Part, &'a Frame); 2]>;

/// Appends frames, each to a part, with one write to the log; `note` learns the outcome of each by its place.
///
/// # Errors
/// Fails when the log cannot be written; nothing is stored then.
pub(super) fn append_to_parts(
    inner: &Inner,
    rounds: &mut [(&mut Part, &Frame)],
    mut note: impl FnMut(usize, Outcome),
) -> Result<Outcome, TsdbError> {
    let limits = inner.limits();
    let _guard = inner.wal.guard(STORING);
    for (part, frame) in rounds.iter_mut() {
        part.leave_future(inner, frame, limits)?;
    }
    let ticket = inner.wal.ticket(&inner.head)?;
    let mut turns: SmallVec<[_; 2]> = SmallVec::new();
    for (part, frame) in rounds.iter_mut() {
        turns.push(part.turn(inner, frame)?);
    }
    let is_shared = turns.iter().any(|turn| turn.bound.strip.has_shared());
    let sharing = is_shared.then(|| inner.head.sharing());
    if sharing.is_some() {
        turns.iter_mut().for_each(Turn::compare_with_others);
    }
    let mut pending: SmallVec<[_; 2]> = SmallVec::new();
    for turn in &mut turns {
        pending.push(turn.encode(ticket.file(), limits)?);
    }
    let mut total = Outcome {
        token: commit_frames(&mut pending, &inner.head, &ticket, sharing, STORING)?,
        ..Outcome::default()
    };
    for (at, frame) in pending.iter().enumerate() {
        total += frame.outcome;
        let token = total.token;
        note(
            at,
            Outcome {
                token,
                ..frame.outcome
            },
        );
    }
    drop(pending);
    drop(turns);
    drop(ticket);
    if let Some(oldest_ms) = rounds
        .iter()
        .map(|(_, frame)| frame.time_bounds_ms().0)
        .min()
    {
        inner.write_times.note(oldest_ms);
    }
    for (part, frame) in rounds {
        part.complete(inner, frame);
    }
    inner.count(total);
    Ok(total)
}

impl Part {
    pub(super) fn new(schema: Schema, bound: Option<Bound>) -> Self {
        Self {
            schema,
            bound,
            families: Vec::new(),
            scratch: Scratch::default(),
        }
    }

    /// Begins with a strip.
    pub(super) fn begin(&mut self, mut bound: Bound) {
        bound.new_families.append(&mut self.families);
        self.bound = Some(bound);
    }

    /// Moves to the strip for another version of its schema, or for another schema.
    pub(super) fn follow(&mut self, inner: &Inner, schema: Schema) -> Result<(), TsdbError> {
        let bound = self.take_bound(inner)?;
        self.bound = Some(inner.head.rebind(bound, &self.schema, &schema));
        self.schema = schema;
        Ok(())
    }

    /// Leaves the strip for good.
    pub(super) fn leave(&mut self) {
        if let Some(bound) = self.bound.take() {
            bound.strip.leave();
        }
    }

    /// Retries series that were refused for lack of memory, once memory is available.
    pub(super) fn ask_again(&mut self, inner: &Inner) {
        let admission = &inner.head.admission;
        let is_due = |bound: &mut Bound| bound.refused > 0 && admission.is_open();
        let _guard = inner.wal.guard(BINDING);
        if let Some(bound) = self.bound.take_if(is_due) {
            let schema = &self.schema;
            self.bound = Some(inner.head.rebind(bound, schema, schema));
        }
    }

    /// Takes the bound strip, to be put back; it is missing only after a panic, which has poisoned the log.
    pub(super) fn take_bound(&mut self, inner: &Inner) -> Result<Bound, TsdbError> {
        self.bound.take().ok_or_else(|| poisoned(inner))
    }

    /// Moves to another strip if the clock was set back to before this one's samples.
    fn leave_future(
        &mut self,
        inner: &Inner,
        frame: &Frame,
        limits: Limits,
    ) -> Result<(), TsdbError> {
        let mut bound = self.take_bound(inner)?;
        if bound.strip.is_ahead(frame.time_ms(), limits.now_ms) {
            // Rows only go forward: in the old strip, all samples would be out of order until its times are reached.
            bound = inner.head.replace(bound, &self.schema);
        }
        self.bound = Some(bound);
        Ok(())
    }

    /// Waits for the part's turn in its strip.
    fn turn<'a>(&'a mut self, inner: &Inner, frame: &'a Frame) -> Result<Turn<'a>, TsdbError> {
        let Some(bound) = &self.bound else {
            return Err(poisoned(inner));
        };
        let (oldest_ms, newest_ms) = frame.time_bounds_ms();
        let until_ms = inner.flushed_until_ms(&bound.strip, newest_ms);
        let others = if oldest_ms <= until_ms {
            values_in_blocks(inner, bound, frame, until_ms)
        } else {
            Vec::new()
        };
        Ok(Turn {
            bound,
            scratch: &mut self.scratch,
            frame,
            others,
            _turn: bound.strip.turn(),
        })
    }

    /// Completes an append after the log has it.
    fn complete(&mut self, inner: &Inner, frame: &Frame) {
        let Some(bound) = &mut self.bound else {
            return;
        };
        bound.new_families.clear();
        keep_exemplars(inner, &self.schema, &bound.map, frame);
        let metrics = &inner.metrics;
        metrics.rows_appended.inc();
        let out_of_order = self.scratch.out_of_order();
        metrics.out_of_order_appended.inc_by(out_of_order);
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.leave();
    }
}

/// One round of an append, whose strip other writers wait for.
struct Turn<'a> {
    bound: &'a Bound,
    scratch: &'a mut Scratch,
    frame: &'a Frame,
    /// Values that blocks and other strips have at the frame's times.
    others: Vec<(u32, i64, Value)>,
    _turn: MutexGuard<'a, ()>,
}

impl Turn<'_> {
    /// Looks for values that other strips have; call it while the shared series are locked.
    fn compare_with_others(&mut self) {
        if self.bound.strip.has_shared() {
            self.others.extend(values_of_others(self.bound, self.frame));
        }
    }

    fn encode(&mut self, file: u32, limits: Limits) -> Result<PendingFrame<'_>, TsdbError> {
        if !self.others.is_empty() {
            // What a block has came first.
            self.others
                .sort_by_key(|(column, time_ms, _)| (*column, *time_ms));
            self.others
                .dedup_by_key(|(column, time_ms, _)| (*column, *time_ms));
        }
        let append = FrameAppend {
            strip: &self.bound.strip,
            map: &self.bound.map,
            frame: self.frame,
            others: &self.others,
            limits,
            families: &self.bound.new_families,
        };
        append.encode(file, self.scratch)
    }
}

/// Lists columns and times of a frame's samples, with their slots.
fn places<'a>(bound: &'a Bound, frame: &'a Frame) -> impl Iterator<Item = (usize, u32, i64)> + 'a {
    let slots = frame
        .present()
        .iter()
        .chain(frame.stale().iter().map(|column| column.index()));
    let places = slots.map(|slot| {
        (
            slot,
            bound.map.column(slot),
            frame.time_of(ColumnId(slot as u32)),
        )
    });
    places.filter(|(_, column, _)| *column != NOWHERE)
}

/// Returns the values that other owners have for the frame's shared series at its times.
fn values_of_others(bound: &Bound, frame: &Frame) -> Vec<(u32, i64, Value)> {
    let wanted: Vec<(u32, i64)> = places(bound, frame)
        .map(|(_, column, time_ms)| (column, time_ms))
        .collect();
    bound.strip.values_of_others(&wanted)
}

/// Returns the values that blocks have at the frame's late samples.
fn values_in_blocks(
    inner: &Inner,
    bound: &Bound,
    frame: &Frame,
    until_ms: i64,
) -> Vec<(u32, i64, Value)> {
    let late = || places(bound, frame).filter(|(_, _, time_ms)| *time_ms <= until_ms);
    let labels = |slot: usize| frame.schema().labels(ColumnId(slot as u32));
    let wanted = late().map(|(slot, column, time_ms)| (column, labels(slot), time_ms));
    inner.values_in_blocks(late().count(), wanted)
}

fn keep_exemplars(inner: &Inner, schema: &Schema, map: &SlotMap, frame: &Frame) {
    if frame.exemplars().is_empty() {
        return;
    }
    let mut ring = inner.head.exemplars();
    for (column, exemplar) in frame.exemplars() {
        if map.column(column.index()) == NOWHERE {
            continue;
        }
        ring.push(SeriesExemplar {
            common: schema.common().clone(),
            local: schema.column(*column).set.clone(),
            time_ms: exemplar.time_ms.unwrap_or(frame.time_of(*column)),
            exemplar: exemplar.clone(),
        });
    }
}
