//! One origin's write access to the database.
//!
//! **Invariant:** the binding owns its strip exclusively until it is dropped or moves to another strip. So rounds that
//! are appended together lock several strips without waiting for each other.

use super::Inner;
use crate::block::SeriesExemplar;
use crate::error::TsdbError;
use crate::head::{
    Bound,
    append::{FrameAppend, Limits, NOWHERE, PendingFrame, Scratch, SlotMap, commit_frames},
    out_of_order::Value,
};
use narthex_model::{
    ColumnId, Frame, Schema,
    storage::{Binding, Outcome, StorageError},
};
use std::sync::Arc;

pub(super) struct DbBinding {
    inner: Arc<Inner>,
    schema: Schema,
    /// `None` only while being replaced, and after a panic during that.
    bound: Option<Bound>,
    scratch: Scratch,
}

impl DbBinding {
    pub(super) fn new(inner: Arc<Inner>, schema: &Schema) -> Self {
        let now_ms = inner.context.clock.now_ms();
        let guard = inner.wal.guard("binding a schema");
        let bound = Some(inner.head.bind(schema, now_ms));
        drop(guard);
        Self {
            inner,
            schema: schema.clone(),
            bound,
            scratch: Scratch::default(),
        }
    }
}

impl Binding for DbBinding {
    fn rebind(&mut self, schema: &Schema) -> Result<(), StorageError> {
        if let Some(cause) = self.inner.wal.poisoned() {
            return Err(StorageError::Poisoned { cause });
        }
        let bound = self.take_bound()?;
        let _guard = self.inner.wal.guard("binding a schema");
        self.bound = Some(self.inner.head.rebind(bound, &self.schema, schema));
        self.schema = schema.clone();
        Ok(())
    }

    fn append(&mut self, frame: &Frame) -> Result<Outcome, StorageError> {
        let inner = Arc::clone(&self.inner);
        append_together(&inner, &mut [(self, frame)])
    }
}

/// Appends rounds with one write to the log.
///
/// # Errors
/// Fails when the log cannot be written; nothing is stored then.
pub(super) fn append_together(
    inner: &Inner,
    rounds: &mut [(&mut DbBinding, &Frame)],
) -> Result<Outcome, StorageError> {
    for (binding, frame) in rounds.iter_mut() {
        if !frame.schema().same(&binding.schema) {
            binding.rebind(frame.schema())?;
        }
        binding.ask_again();
    }
    let appended = try_append(inner, rounds);
    if appended.is_err() {
        let frames = rounds.iter().map(|(_, frame)| frame);
        let ends = frames.filter(|frame| !frame.stale().is_empty());
        ends.for_each(|frame| inner.pending_stale.keep(frame));
    }
    Ok(appended?)
}

fn try_append(
    inner: &Inner,
    rounds: &mut [(&mut DbBinding, &Frame)],
) -> Result<Outcome, TsdbError> {
    let limits = inner.limits();
    let _guard = inner.wal.guard("storing a row");
    for (binding, frame) in rounds.iter_mut() {
        binding.leave_future(frame, limits)?;
    }
    let ticket = inner.wal.ticket(&inner.head)?;
    let mut bindings = rounds.iter().map(|(binding, _)| binding);
    let is_shared = bindings.any(|binding| binding.has_shared());
    let sharing = is_shared.then(|| inner.head.sharing());
    let others: Vec<_> = rounds
        .iter()
        .map(|(binding, frame)| binding.values_elsewhere(frame, sharing.is_some()))
        .collect();
    let mut pending = Vec::with_capacity(rounds.len());
    for ((binding, frame), others) in rounds.iter_mut().zip(&others) {
        match binding.encode(frame, others, ticket.file(), limits) {
            Ok(frame) => pending.push(frame),
            Err(error) => {
                pending.iter_mut().for_each(PendingFrame::discard);
                return Err(error);
            }
        }
    }
    let mut total = Outcome {
        token: commit_frames(&mut pending, ticket)?,
        ..Outcome::default()
    };
    pending.iter().for_each(|frame| total += frame.outcome);
    drop(pending);
    drop(sharing);
    for (binding, frame) in rounds {
        binding.complete(frame);
    }
    inner.count(total);
    Ok(total)
}

impl DbBinding {
    /// Retries series that were refused for lack of memory, once memory is available.
    fn ask_again(&mut self) {
        let _guard = self.inner.wal.guard("binding a schema");
        let refused = |bound: &mut Bound| bound.refused > 0;
        if let Some(bound) = self
            .bound
            .take_if(|bound| refused(bound) && self.inner.head.admission.is_open())
        {
            let schema = &self.schema;
            self.bound = Some(self.inner.head.rebind(bound, schema, schema));
        }
    }

    /// Takes the bound strip, to be put back; it is missing only after a panic, which has poisoned the log.
    fn take_bound(&mut self) -> Result<Bound, TsdbError> {
        self.bound.take().ok_or_else(|| poisoned(&self.inner))
    }

    /// Moves to another strip if the clock was set back to before this one's samples.
    fn leave_future(&mut self, frame: &Frame, limits: Limits) -> Result<(), TsdbError> {
        let mut bound = self.take_bound()?;
        if bound.strip.is_ahead(frame.time_ms(), limits.now_ms) {
            // Rows only go forward: in the old strip, all samples would be out of order until its times are reached.
            bound = self.inner.head.replace(bound, &self.schema);
        }
        self.bound = Some(bound);
        Ok(())
    }

    fn has_shared(&self) -> bool {
        self.bound
            .as_ref()
            .is_some_and(|bound| bound.strip.has_shared())
    }

    /// Returns the values that other strips, if `sharing` is locked, and blocks have at the frame's times, by column
    /// and time.
    fn values_elsewhere(&self, frame: &Frame, sharing: bool) -> Vec<(u32, i64, Value)> {
        let (Some(bound), inner) = (&self.bound, &*self.inner) else {
            return Vec::new();
        };
        let mut others = if sharing && bound.strip.has_shared() {
            values_of_others(bound, frame)
        } else {
            Vec::new()
        };
        let (oldest_ms, newest_ms) = frame.time_bounds_ms();
        let until_ms = inner.flushed_until_ms(&bound.strip, newest_ms);
        if oldest_ms <= until_ms {
            others.extend(values_in_blocks(inner, bound, frame, until_ms));
        }
        others.sort_by_key(|(column, time_ms, _)| (*column, *time_ms));
        others.dedup_by_key(|(column, time_ms, _)| (*column, *time_ms));
        others
    }

    fn encode<'a>(
        &'a mut self,
        frame: &'a Frame,
        others: &'a [(u32, i64, Value)],
        file: u32,
        limits: Limits,
    ) -> Result<PendingFrame<'a>, TsdbError> {
        let Some(bound) = &self.bound else {
            return Err(poisoned(&self.inner));
        };
        let append = FrameAppend {
            strip: &bound.strip,
            map: &bound.map,
            frame,
            others,
            limits,
            families: &bound.new_families,
        };
        append.encode(file, &mut self.scratch)
    }

    /// Completes an append after the log has it.
    fn complete(&mut self, frame: &Frame) {
        let Some(bound) = &mut self.bound else {
            return;
        };
        bound.new_families.clear();
        keep_exemplars(&self.inner, &self.schema, &bound.map, frame);
        let metrics = &self.inner.metrics;
        metrics.rows_appended.inc();
        let out_of_order = self.scratch.out_of_order();
        metrics.out_of_order_appended.inc_by(out_of_order);
    }
}

fn poisoned(inner: &Inner) -> TsdbError {
    TsdbError::Poisoned {
        cause: inner.wal.poisoned().unwrap_or_default(),
    }
}

impl Drop for DbBinding {
    fn drop(&mut self) {
        if let Some(bound) = &self.bound {
            bound.strip.leave();
        }
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
