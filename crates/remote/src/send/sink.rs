//! The sink of remote write: passes rounds on to storage, if there is one, and to every destination's queue.
//!
//! **Invariant:** a destination that cannot take a round costs neither storage nor other destinations theirs. Queues have a
//! round before storage has it: after a crash between the two, a remote end has what storage lacks, never the other way
//! round, which would be a gap for good.

use super::{
    destination::Destination,
    storage::{Current, RemoteStorage},
};
use crate::queue::QueueWriter;
use narthex_model::{
    Frame, Schema,
    storage::{Binding, BoundRound, Outcome, SeriesSample, Sink, StorageError, SyncToken},
};
use smallvec::SmallVec;
use std::{any::Any, sync::Arc};

impl RemoteStorage {
    /// Returns a sink that passes everything on to the destinations, and to `inner` if there is one.
    #[must_use]
    pub fn sink(self: &Arc<Self>, inner: Option<Arc<dyn Sink>>) -> Arc<dyn Sink> {
        Arc::new(RemoteSink {
            storage: Arc::clone(self),
            inner,
        })
    }
}

/// Passes rounds on.
struct RemoteSink {
    storage: Arc<RemoteStorage>,
    /// Where samples are stored as well.
    inner: Option<Arc<dyn Sink>>,
}

struct RemoteBinding {
    storage: Arc<RemoteStorage>,
    inner: Option<Box<dyn Binding>>,
    schema: Schema,
    /// The set of destinations that the writers are for.
    generation: u64,
    writers: Vec<(Arc<Destination>, QueueWriter)>,
}

impl Sink for RemoteSink {
    fn bind(&self, schema: &Schema) -> Result<Box<dyn Binding>, StorageError> {
        let inner = self.inner.as_ref().map(|inner| inner.bind(schema));
        Ok(Box::new(RemoteBinding {
            storage: Arc::clone(&self.storage),
            inner: inner.transpose()?,
            schema: schema.clone(),
            generation: 0,
            writers: Vec::new(),
        }))
    }

    fn append_together(&self, rounds: &mut [BoundRound<'_>]) -> Result<Outcome, StorageError> {
        let Some(inner) = &self.inner else {
            return BoundRound::append_each(rounds);
        };
        let ours = rounds.iter_mut().map(|round| {
            let binding: &mut dyn Any = round.binding;
            let binding = binding.downcast_mut::<RemoteBinding>()?;
            Some((binding, round.frame, &mut round.outcome))
        });
        let Some(mut ours) = ours.collect::<Option<SmallVec<[_; 2]>>>() else {
            return BoundRound::append_each(rounds);
        };
        // Storage takes the rounds with one write; a queue's writes are made one after the other.
        let mut stored: SmallVec<[_; 2]> = SmallVec::new();
        for (binding, frame, _) in &mut ours {
            binding.queue(frame);
            if let Some(binding) = &mut binding.inner {
                stored.push(BoundRound::new(binding.as_mut(), frame));
            }
        }
        let total = inner.append_together(&mut stored);
        let outcomes: SmallVec<[Outcome; 2]> = stored.iter().map(|round| round.outcome).collect();
        drop(stored);
        let kept = ours
            .iter_mut()
            .filter(|(binding, ..)| binding.inner.is_some());
        for ((_, _, outcome), stored) in kept.zip(outcomes) {
            **outcome = stored;
        }
        total
    }

    fn append_samples(&self, samples: &[SeriesSample]) -> Result<Outcome, StorageError> {
        let queued = self.storage.with_current(|current| {
            let newest_ms = samples.iter().map(|sample| sample.time_ms).max();
            current.note(samples.len() as u64, newest_ms);
            to_all(&current.destinations, |destination| {
                destination.append_samples(samples).is_ok()
            })
        });
        let stored = self
            .inner
            .as_ref()
            .map(|inner| inner.append_samples(samples));
        outcome(stored, queued, samples.len() as u64)
    }

    fn sync(&self, token: SyncToken) -> Result<(), StorageError> {
        match &self.inner {
            Some(inner) => inner.sync(token),
            None => Ok(()),
        }
    }
}

impl RemoteBinding {
    /// Makes the writers those of the current destinations.
    fn follow(&mut self, current: &Current) {
        if self.generation == current.generation {
            return;
        }
        self.generation = current.generation;
        let mut old = std::mem::take(&mut self.writers);
        for destination in &current.destinations {
            let same = |(known, _): &(Arc<Destination>, _)| Arc::ptr_eq(known, destination);
            let writer = match old.iter().position(same) {
                Some(at) => old.swap_remove(at).1,
                None => destination.writer(&self.schema),
            };
            self.writers.push((Arc::clone(destination), writer));
        }
    }

    fn rebind_writers(&mut self, schema: &Schema) {
        self.schema = schema.clone();
        for (_, writer) in &mut self.writers {
            writer.rebind(schema);
        }
    }

    /// Writes a round to the queues; reports whether there is none or one that has it.
    fn queue(&mut self, frame: &Frame) -> bool {
        if !frame.schema().same(&self.schema) {
            self.rebind_writers(frame.schema());
        }
        let storage = Arc::clone(&self.storage);
        storage.with_current(|current| {
            self.follow(current);
            let samples = samples_of(frame);
            current.note(samples, (samples > 0).then(|| frame.time_ms()));
            to_all(&mut self.writers, |(destination, writer)| {
                destination.append(writer, frame).is_ok()
            })
        })
    }
}

fn samples_of(frame: &Frame) -> u64 {
    (frame.present().count() + frame.stale().len()) as u64
}

impl Binding for RemoteBinding {
    fn rebind(&mut self, schema: &Schema) -> Result<(), StorageError> {
        self.rebind_writers(schema);
        match &mut self.inner {
            Some(inner) => inner.rebind(schema),
            None => Ok(()),
        }
    }

    fn append(&mut self, frame: &Frame) -> Result<Outcome, StorageError> {
        let queued = self.queue(frame);
        let stored = self.inner.as_mut().map(|inner| inner.append(frame));
        outcome(stored, queued, samples_of(frame))
    }
}

/// Calls `append` for each; reports whether there is none or one that succeeded. Failures were logged and counted.
fn to_all<T>(all: impl IntoIterator<Item = T>, mut append: impl FnMut(T) -> bool) -> bool {
    let (mut any, mut good) = (false, false);
    for one in all {
        any = true;
        good |= append(one);
    }
    good || !any
}

/// Returns what became of samples: what storage says, else whether a queue has them.
fn outcome(
    stored: Option<Result<Outcome, StorageError>>,
    queued: bool,
    samples: u64,
) -> Result<Outcome, StorageError> {
    match stored {
        Some(stored) => stored,
        None if queued => Ok(Outcome {
            accepted: samples,
            ..Outcome::default()
        }),
        None => Err(StorageError::Internal {
            operation: "queue a round",
            cause: "no queue could be written".to_owned(),
        }),
    }
}
