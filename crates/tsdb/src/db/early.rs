//! A sink that accepts rounds while the WAL is still being replayed, and passes them on afterwards.
//!
//! **Invariant:** rounds of one origin reach the database in order, each once. Waiting rounds are only in memory, so
//! nothing is acknowledged before the database has it: the sink's outcome counts nothing as accepted.

use super::{Db, binding::DbBinding};
use narthex_model::sync::Whole as _;
use narthex_model::{
    Frame, Schema,
    storage::{
        Binding, BoundRound, Budget, Lease, Outcome, SeriesSample, Sink, StorageError, SyncToken,
    },
};
use std::{
    any::Any,
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock},
};

/// A sink for sources that start before the database is open.
///
/// Clones share it. Rounds wait within `memory`; one that does not fit is refused. After [`EarlySink::open`] it hands
/// out the database's own bindings, and a binding made earlier becomes one with its next round.
#[derive(Clone)]
pub struct EarlySink(Arc<Waiting>);

struct Waiting {
    memory: Budget,
    db: OnceLock<Db>,
    origins: Mutex<Vec<Arc<Mutex<Origin>>>>,
}

/// One origin's waiting rounds and their destination.
struct Origin {
    binding: Option<Box<dyn Binding>>,
    /// Schema that its source bound last.
    schema: Schema,
    /// Steps that wait for the database.
    steps: Vec<Step>,
    lease: Option<Lease>,
    /// Whether its source has dropped it.
    gone: bool,
}

enum Step {
    Schema(Schema),
    Round(Box<Frame>),
}

struct EarlyBinding {
    /// The database's own binding from the first round after [`EarlySink::open`] on: such a round takes no lock.
    open: Option<Box<dyn Binding>>,
    waiting: Arc<Waiting>,
    origin: Arc<Mutex<Origin>>,
}

impl EarlySink {
    /// Returns a sink whose rounds wait, within `memory`, for [`EarlySink::open`].
    #[must_use]
    pub fn new(memory: Budget) -> Self {
        Self(Arc::new(Waiting {
            memory,
            db: OnceLock::new(),
            origins: Mutex::default(),
        }))
    }

    /// Passes everything that waits, and every later round, to the database.
    ///
    /// Returns the outcome of the samples that waited; later calls do nothing.
    ///
    /// # Errors
    /// Returns the database's first failure. Other origins' rounds are stored nevertheless.
    pub fn open(&self, db: &Db) -> Result<Outcome, StorageError> {
        let mut total = Outcome::default();
        let mut failure = None;
        if self.0.db.set(db.clone()).is_err() {
            return Ok(total);
        }
        let origins = std::mem::take(&mut *lock(&self.0.origins));
        for origin in origins {
            match lock(&origin).settle(db) {
                Ok(outcome) => total += outcome,
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(total), Err)
    }
}

impl fmt::Debug for EarlySink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EarlySink")
            .field("open", &self.0.db.get().is_some())
            .field("waiting_bytes", &self.0.memory.used_bytes())
            .finish()
    }
}

impl Sink for EarlySink {
    fn bind(&self, schema: &Schema) -> Result<Box<dyn Binding>, StorageError> {
        // Hold this lock, so that `open` either sees the origin or has already set the database.
        let mut origins = lock(&self.0.origins);
        if let Some(db) = self.0.db.get() {
            return db.bind(schema);
        }
        let binding = EarlyBinding::new(&self.0, schema);
        origins.push(Arc::clone(&binding.origin));
        Ok(Box::new(binding))
    }

    fn append_together(&self, rounds: &mut [BoundRound<'_>]) -> Result<Outcome, StorageError> {
        match self.0.db.get() {
            Some(db) => db.append_as(rounds, of_db),
            None => BoundRound::append_each(rounds),
        }
    }

    fn append_samples(&self, samples: &[SeriesSample]) -> Result<Outcome, StorageError> {
        match self.0.db.get() {
            Some(db) => db.append_samples(samples),
            None => Err(StorageError::Unsupported {
                what: "writing samples while the log is being replayed",
            }),
        }
    }

    fn sync(&self, token: SyncToken) -> Result<(), StorageError> {
        match self.0.db.get() {
            Some(db) => db.sync(token),
            None => Err(StorageError::Unsupported {
                what: "an acknowledgement while the log is being replayed",
            }),
        }
    }
}

impl Origin {
    /// Passes on the waiting steps; returns their outcome.
    fn settle(&mut self, db: &Db) -> Result<Outcome, StorageError> {
        let mut total = Outcome::default();
        for step in std::mem::take(&mut self.steps) {
            match (step, &mut self.binding) {
                (Step::Schema(schema), None) => self.binding = Some(db.bind(&schema)?),
                (Step::Schema(schema), Some(binding)) => binding.rebind(&schema)?,
                (Step::Round(frame), Some(binding)) => total += binding.append(&frame)?,
                (Step::Round(_), None) => unreachable!("an origin begins with its schema"),
            }
        }
        self.lease = None;
        if self.gone {
            self.binding = None;
        }
        Ok(total)
    }

    /// Returns the database's binding, with all steps passed on.
    fn hand_over(&mut self, db: &Db) -> Result<Box<dyn Binding>, StorageError> {
        if self.binding.is_none() {
            // `open` has not reached this origin yet, or could not bind it.
            if self.steps.is_empty() {
                self.steps.push(Step::Schema(self.schema.clone()));
            }
            self.settle(db)?;
        }
        let binding = self.binding.take();
        Ok(binding.expect("an origin whose source lives is bound once it has settled"))
    }
}

impl EarlyBinding {
    fn new(waiting: &Arc<Waiting>, schema: &Schema) -> Self {
        let origin = Origin {
            binding: None,
            schema: schema.clone(),
            steps: vec![Step::Schema(schema.clone())],
            lease: None,
            gone: false,
        };
        Self {
            open: None,
            waiting: Arc::clone(waiting),
            origin: Arc::new(Mutex::new(origin)),
        }
    }

    /// Calls `store` on the database's binding if there is one, else `wait` on the waiting steps.
    fn either<T>(
        &mut self,
        store: impl FnOnce(&mut dyn Binding) -> Result<T, StorageError>,
        wait: impl FnOnce(&mut Origin, &Budget) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        let binding = match &mut self.open {
            Some(binding) => binding,
            empty => {
                // Locked before the look at the database, so that `open` sees every step pushed without one.
                let mut origin = lock(&self.origin);
                let Some(db) = self.waiting.db.get() else {
                    return wait(&mut origin, &self.waiting.memory);
                };
                empty.insert(origin.hand_over(db)?)
            }
        };
        store(&mut **binding)
    }
}

/// Returns the database's binding; an early one has it from its first round after [`EarlySink::open`] on.
fn of_db(binding: &mut dyn Binding) -> Option<&mut DbBinding> {
    let binding: &mut dyn Any = binding;
    if !binding.is::<EarlyBinding>() {
        return binding.downcast_mut();
    }
    let early: &mut EarlyBinding = binding.downcast_mut()?;
    let open: &mut dyn Any = &mut **early.open.as_mut()?;
    open.downcast_mut()
}

impl Binding for EarlyBinding {
    fn rebind(&mut self, schema: &Schema) -> Result<(), StorageError> {
        self.either(
            |binding| binding.rebind(schema),
            |origin, _| {
                origin.schema = schema.clone();
                origin.steps.push(Step::Schema(schema.clone()));
                Ok(())
            },
        )
    }

    fn append(&mut self, frame: &Frame) -> Result<Outcome, StorageError> {
        self.either(
            |binding| binding.append(frame),
            |origin, memory| {
                let bytes = waiting_bytes(frame);
                match &mut origin.lease {
                    Some(lease) => lease.grow(bytes)?,
                    empty => *empty = Some(memory.lease(bytes)?),
                }
                origin.steps.push(Step::Round(Box::new(frame.clone())));
                Ok(Outcome::default())
            },
        )
    }
}

impl Drop for EarlyBinding {
    fn drop(&mut self) {
        let mut origin = lock(&self.origin);
        origin.gone = true;
        if origin.steps.is_empty() {
            origin.binding = None;
        }
    }
}

/// Returns the memory charged for a waiting round: its cells and, roughly, their attachments.
fn waiting_bytes(frame: &Frame) -> u64 {
    const CELL_BYTES: usize = 9;
    const EXTRA_BYTES: usize = 256;
    let extras = frame.histograms().len() + frame.exemplars().len();
    (frame.values().len() * CELL_BYTES + (extras + 1) * EXTRA_BYTES) as u64
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().whole()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DbOptions, FaultyIo, ManualClock};
    use narthex_model::LabelSet;

    #[test]
    fn a_round_after_the_start_goes_straight_to_the_database() {
        let options = DbOptions::new("/data");
        let clock = Arc::new(ManualClock::new(1_700_000_000_000));
        let db = Db::open(Arc::new(FaultyIo::new()), options, clock).unwrap();
        let sink = EarlySink::new(Budget::unlimited());
        let schema = Schema::new(LabelSet::new([("instance", "a")]));
        let mut binding = EarlyBinding::new(&sink.0, &schema);
        lock(&sink.0.origins).push(Arc::clone(&binding.origin));
        binding.append(&Frame::new(schema.clone(), 1)).unwrap();
        assert!(binding.open.is_none());
        sink.open(&db).unwrap();
        binding.append(&Frame::new(schema, 2)).unwrap();
        assert!(binding.open.is_some(), "no lock is left in the way");
        assert!(lock(&binding.origin).binding.is_none());
        drop(binding);
        db.close().unwrap();
    }
}
