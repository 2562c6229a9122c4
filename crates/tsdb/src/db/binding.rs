//! One origin's write access to the database.
//!
//! An origin whose samples share the round's time has one strip. Samples with times of their own make no row of it; but
//! where such times come in groups, as those of a container's lines on a page of cAdvisor, each group gets a strip, in
//! which its samples are rows.

mod part;
mod spare;
mod split;

use super::Inner;
use crate::error::TsdbError;
use narthex_model::{
    Frame, Schema,
    metadata::Family,
    storage::{Binding, Outcome, StorageError},
};
use part::{Part, Writes, append_to_parts};
use smallvec::SmallVec;
pub(super) use spare::SpareFrames;
use split::Split;
use std::sync::Arc;

/// What a panic ends here.
const BINDING: &str = "binding a schema";
/// Fewest samples of a round that get a strip because they share a time.
const LEAST: usize = 8;

pub(super) struct DbBinding {
    inner: Arc<Inner>,
    schema: Schema,
    /// All series, or those that share their times with few others. It is bound by the first round, whose times decide
    /// which.
    main: Part,
    split: Option<Box<Split>>,
    /// Time of the newest round; one that is no newer is a source's way to bring late samples.
    newest_ms: i64,
    /// Rounds whose samples had times of their own.
    timed_rounds: u32,
    least: usize,
}

impl DbBinding {
    pub(super) fn new(inner: Arc<Inner>, schema: &Schema) -> Self {
        // A source that adds series before it appends needs them resolved as they come.
        let bound = schema.is_empty().then(|| {
            let _guard = inner.wal.guard(BINDING);
            inner.head.bind(schema, inner.context.clock.now_ms())
        });
        Self {
            inner,
            schema: schema.clone(),
            main: Part::new(schema.clone(), bound),
            split: None,
            newest_ms: i64::MIN,
            timed_rounds: 0,
            least: LEAST,
        }
    }
}

impl Binding for DbBinding {
    fn rebind(&mut self, schema: &Schema) -> Result<(), StorageError> {
        self.check()?;
        let inner = Arc::clone(&self.inner);
        let _guard = inner.wal.guard(BINDING);
        Ok(self.follow(schema, None)?)
    }

    fn append(&mut self, frame: &Frame) -> Result<Outcome, StorageError> {
        let inner = Arc::clone(&self.inner);
        let mut outcome = Outcome::default();
        append_together(&inner, &mut [(self, frame, &mut outcome)])
    }
}

/// A binding, its round, and where the outcome goes.
pub(super) type OwnRound<'a> = (&'a mut DbBinding, &'a Frame, &'a mut Outcome);

/// Appends rounds with one write to the log.
///
/// # Errors
/// Fails when the log cannot be written; nothing is stored then.
pub(super) fn append_together(
    inner: &Inner,
    rounds: &mut [OwnRound<'_>],
) -> Result<Outcome, StorageError> {
    for (binding, frame, _) in rounds.iter_mut() {
        binding.prepare(frame)?;
    }
    let appended = append_parts(inner, rounds);
    if appended.is_err() {
        let frames = rounds.iter().map(|(_, frame, _)| frame);
        let ends = frames.filter(|frame| !frame.stale().is_empty());
        ends.for_each(|frame| inner.pending_stale.keep(frame));
    }
    Ok(appended?)
}

/// Appends what each part of each binding has of its round.
fn append_parts(inner: &Inner, rounds: &mut [OwnRound<'_>]) -> Result<Outcome, TsdbError> {
    let mut frames: Vec<Vec<Frame>> = Vec::new();
    if rounds.iter().any(|(binding, ..)| binding.split.is_some()) {
        let parts = |(binding, frame, _): &OwnRound<'_>| binding.frames(frame);
        frames.extend(rounds.iter().map(parts));
    }
    let mut writes: Writes<'_> = SmallVec::new();
    let mut outcomes: SmallVec<[_; 2]> = SmallVec::new();
    for (at, (binding, frame, outcome)) in rounds.iter_mut().enumerate() {
        match (&mut binding.split, frames.get(at)) {
            (Some(split), Some(frames)) => split.add_writes(&mut binding.main, frames, &mut writes),
            _ => writes.push((&mut binding.main, *frame)),
        }
        outcomes.push((writes.len(), outcome));
    }
    let mut outcomes = outcomes.into_iter().peekable();
    let appended = append_to_parts(inner, &mut writes, |at, outcome| {
        while outcomes.next_if(|(end, _)| *end <= at).is_some() {}
        if let Some((_, of_round)) = outcomes.peek_mut() {
            ***of_round += outcome;
        }
    });
    drop(writes);
    frames
        .into_iter()
        .for_each(|frames| inner.spare.give_back(frames));
    appended
}

impl DbBinding {
    /// Makes sure that all series of a round have strips, and divides its samples.
    fn prepare(&mut self, frame: &Frame) -> Result<(), StorageError> {
        let is_same = frame.schema().same(&self.schema) && self.main.bound.is_some();
        if !is_same || self.split.is_some() || !frame.times_ms().is_empty() {
            self.divide(frame, is_same)?;
        }
        self.newest_ms = self.newest_ms.max(frame.time_ms());
        self.main.ask_again(&self.inner);
        if let Some(split) = &mut self.split {
            split.ask_again(&self.inner);
        }
        Ok(())
    }

    fn divide(&mut self, frame: &Frame, is_same: bool) -> Result<(), StorageError> {
        let is_timed = !frame.times_ms().is_empty() && frame.time_ms() > self.newest_ms;
        self.timed_rounds = self.timed_rounds.saturating_add(u32::from(is_timed));
        let timed = Some(frame).filter(|_| is_timed);
        let inner = Arc::clone(&self.inner);
        let _guard = inner.wal.guard(BINDING);
        if !is_same {
            self.check()?;
            self.follow(frame.schema(), timed)?;
            if self.main.bound.is_none() {
                self.begin(timed);
            }
        } else if self.timed_rounds.is_power_of_two() {
            self.split_if_grouped(timed)?;
        }
        if let Some(split) = &mut self.split {
            let regroups = self.timed_rounds.is_power_of_two();
            split.divide(&inner, &mut self.main, frame, is_timed, regroups)?;
        }
        Ok(())
    }

    fn check(&self) -> Result<(), StorageError> {
        match self.inner.wal.poisoned() {
            Some(cause) => Err(StorageError::Poisoned { cause }),
            None => Ok(()),
        }
    }

    /// Follows the schema to another version or lineage; `timed` is its round if that has times.
    fn follow(&mut self, schema: &Schema, timed: Option<&Frame>) -> Result<(), TsdbError> {
        if self.main.bound.is_none() {
            self.main.schema = schema.clone();
        } else if let Some(split) = &mut self.split {
            let diff = schema.diff(&self.schema);
            match diff.filter(|_| schema.common() == self.schema.common()) {
                Some(diff) => {
                    split.retire(&self.inner, &mut self.main, &diff.retired)?;
                    if diff.families_changed {
                        self.learn_families(schema);
                    }
                }
                None => self.leave(schema),
            }
        } else if !self.split_if_grouped(timed)? {
            self.main.follow(&self.inner, schema.clone())?;
        }
        self.schema = schema.clone();
        Ok(())
    }

    /// Leaves all strips, for the next round to take up again those that fit the schema.
    fn leave(&mut self, schema: &Schema) {
        let families = self.main.bound.iter_mut();
        let families = families.flat_map(|bound| std::mem::take(&mut bound.new_families));
        let families: Vec<Family> = families.collect();
        self.split = None;
        self.main = Part::new(schema.clone(), None);
        self.main.families = families;
    }

    /// Binds the schema of the first round.
    fn begin(&mut self, timed: Option<&Frame>) {
        let head = &self.inner.head;
        let now_ms = self.inner.context.clock.now_ms();
        let former = head.slots_by_strip(&self.schema, now_ms);
        if former.is_empty() && !timed.is_some_and(|frame| split::has_group(frame, self.least)) {
            let bound = head.bind(&self.schema, now_ms);
            self.main.begin(bound);
            return;
        }
        let mut split = Split::new(self.least);
        split.begin(&self.inner, &self.schema, &mut self.main, &former);
        self.split = Some(Box::new(split));
        self.learn_families(&self.schema.clone());
    }

    /// Gives up that all series are in one strip, if `timed` has samples that are better elsewhere.
    fn split_if_grouped(&mut self, timed: Option<&Frame>) -> Result<bool, TsdbError> {
        let is_grouped = |frame: &&Frame| split::has_group(frame, self.least);
        let Some(frame) = timed.filter(|_| self.split.is_none()).filter(is_grouped) else {
            return Ok(false);
        };
        let schema = frame.schema();
        let mut split = Split::new(self.least);
        split.take_over(&self.inner, schema, &mut self.main)?;
        self.split = Some(Box::new(split));
        self.learn_families(schema);
        Ok(true)
    }

    /// Has the families that are not known logged with the next round.
    fn learn_families(&mut self, schema: &Schema) {
        let new = self.inner.head.learn_families(schema.families());
        if let Some(bound) = &mut self.main.bound {
            bound.new_families.extend(new);
        }
    }

    /// Returns the parts' frames of a round that was divided; nothing if there is one part.
    fn frames(&self, frame: &Frame) -> Vec<Frame> {
        let Some(split) = &self.split else {
            return Vec::new();
        };
        let mut frames = self.inner.spare.take_frames();
        split.fill(&self.main, frame, &mut frames);
        frames
    }
}

fn poisoned(inner: &Inner) -> TsdbError {
    TsdbError::Poisoned {
        cause: inner.wal.poisoned().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;
