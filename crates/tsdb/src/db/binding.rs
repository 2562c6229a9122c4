//! One origin's write access to the database.
//!
//! **Invariant:** the binding owns its strip exclusively until it is dropped or moves to another strip.

use super::Inner;
use crate::block::SeriesExemplar;
use crate::error::TsdbError;
use crate::head::{
    Bound,
    append::{FrameAppend, NOWHERE, Scratch, SlotMap},
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
        if !frame.schema().same(&self.schema) {
            self.rebind(frame.schema())?;
        }
        self.ask_again();
        let appended = self.try_append(frame);
        if appended.is_err() && !frame.stale().is_empty() {
            self.inner.pending_stale.keep(frame);
        }
        Ok(appended?)
    }
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
        self.bound.take().ok_or_else(|| TsdbError::Poisoned {
            cause: self.inner.wal.poisoned().unwrap_or_default(),
        })
    }

    fn try_append(&mut self, frame: &Frame) -> Result<Outcome, TsdbError> {
        let limits = self.inner.limits();
        let mut bound = self.take_bound()?;
        let inner = &*self.inner;
        let _guard = inner.wal.guard("storing a row");
        if bound.strip.is_ahead(frame.time_ms(), limits.now_ms) {
            // Rows only go forward: in the old strip, all samples would be out of order until its times are reached.
            bound = inner.head.replace(bound, &self.schema);
        }
        let bound = self.bound.insert(bound);
        let ticket = inner.wal.ticket(&inner.head)?;
        let sharing = bound.strip.has_shared().then(|| inner.head.sharing());
        let mut others = if sharing.is_some() {
            values_of_others(bound, frame)
        } else {
            Vec::new()
        };
        let newest_ms = frame.times_ms().iter().copied().max();
        let newest_ms = newest_ms.map_or(frame.time_ms(), |ms| ms.max(frame.time_ms()));
        let until_ms = inner.flushed_until_ms(&bound.strip, newest_ms);
        if frame.time_ms() <= until_ms
            || frame.times_ms().iter().any(|time_ms| *time_ms <= until_ms)
        {
            others.extend(values_in_blocks(inner, bound, frame, until_ms));
        }
        others.sort_by_key(|(column, time_ms, _)| (*column, *time_ms));
        others.dedup_by_key(|(column, time_ms, _)| (*column, *time_ms));
        let append = FrameAppend {
            strip: &bound.strip,
            map: &bound.map,
            frame,
            others: &others,
            limits,
            families: &bound.new_families,
        };
        let outcome = append.run(ticket, &mut self.scratch)?;
        drop(sharing);
        bound.new_families.clear();
        keep_exemplars(inner, &self.schema, &bound.map, frame);
        inner.metrics.rows_appended.inc();
        inner
            .metrics
            .out_of_order_appended
            .inc_by(self.scratch.out_of_order());
        inner.count(outcome);
        Ok(outcome)
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
    let late = places(bound, frame).filter(|(_, _, time_ms)| *time_ms <= until_ms);
    let labels = |slot: usize| frame.schema().labels(ColumnId(slot as u32));
    inner.values_in_blocks(late.map(|(slot, column, time_ms)| (column, labels(slot), time_ms)))
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
