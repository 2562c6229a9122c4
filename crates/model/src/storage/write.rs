//! The writing half of the contract.

use super::StorageError;
use crate::{frame::Frame, histogram::Histogram, labels::LabelSet, schema::Schema};
use std::{any::Any, ops::AddAssign, sync::Arc};

/// A destination for frames.
pub trait Sink: Send + Sync {
    /// Resolves a schema once; frames then name columns by slot.
    ///
    /// One origin holds one binding; dropping it declares the origin gone. Series that other origins also report are
    /// resolved here, not at every frame.
    ///
    /// # Errors
    /// Fails over a limit or when the sink no longer accepts writes.
    fn bind(&self, schema: &Schema) -> Result<Box<dyn Binding>, StorageError>;

    /// Stores rounds of several bindings, as one after the other, but hands them to the kernel together if it can.
    ///
    /// Each round learns its own outcome; the sum is returned. No two rounds may have samples of the same series.
    ///
    /// # Errors
    /// Fails as `Binding::append`; rounds before the failing one may have been stored.
    fn append_together(&self, rounds: &mut [BoundRound<'_>]) -> Result<Outcome, StorageError> {
        BoundRound::append_each(rounds)
    }

    /// Stores individual samples of any series, in any order, at any time within the sink's bounds.
    ///
    /// # Errors
    /// Fails when the sink no longer accepts writes; refused samples are counted, not errors.
    fn append_samples(&self, samples: &[SeriesSample]) -> Result<Outcome, StorageError>;

    /// Waits until everything up to `token` survives a power loss.
    ///
    /// # Errors
    /// Fails when durability cannot be guaranteed; the sink then accepts no more writes.
    fn sync(&self, token: SyncToken) -> Result<(), StorageError>;
}

/// A schema resolved by a sink; used by one writer at a time.
pub trait Binding: Send + Any {
    /// Follows the schema to a newer version of its lineage, or to another lineage of the same origin.
    ///
    /// Never disturbs series that both versions have.
    ///
    /// # Errors
    /// As `Sink::bind`.
    fn rebind(&mut self, schema: &Schema) -> Result<(), StorageError>;

    /// Stores one round; follows the frame's schema first, as [`Binding::rebind`] does, if another version is bound.
    ///
    /// When it returns, the round is acknowledged: it has been handed to the kernel and outlives the process.
    /// Readers see all of the round or none of it. Native histograms, stale events, per-sample times, exemplars and
    /// start times are part of the round.
    ///
    /// # Errors
    /// Fails when the sink no longer accepts writes; refused samples are counted, not errors.
    fn append(&mut self, frame: &Frame) -> Result<Outcome, StorageError>;
}

/// A round, and the binding of its schema.
pub struct BoundRound<'a> {
    /// The binding, of the sink that stores the round.
    pub binding: &'a mut dyn Binding,
    /// The round.
    pub frame: &'a Frame,
    /// What became of it, once it is stored.
    pub outcome: Outcome,
}

impl<'a> BoundRound<'a> {
    /// Returns a round that is to be stored.
    pub fn new(binding: &'a mut dyn Binding, frame: &'a Frame) -> Self {
        Self {
            binding,
            frame,
            outcome: Outcome::default(),
        }
    }

    /// Stores rounds one after the other.
    ///
    /// # Errors
    /// Fails with the first that cannot be stored.
    pub fn append_each(rounds: &mut [Self]) -> Result<Outcome, StorageError> {
        let mut total = Outcome::default();
        for round in rounds {
            round.outcome = round.binding.append(round.frame)?;
            total += round.outcome;
        }
        Ok(total)
    }
}

/// One sample of one series.
#[derive(Clone, Debug)]
pub struct SeriesSample {
    /// The series.
    pub labels: LabelSet,
    /// Time of the sample.
    pub time_ms: i64,
    /// A float, a staleness marker, or a histogram's cell when `histogram` is set.
    pub cell: f64,
    /// The histogram, if the sample is one.
    pub histogram: Option<Arc<Histogram>>,
    /// Start time of the counter, 0 if unknown.
    pub start_time_ms: i64,
}

impl SeriesSample {
    /// Returns a float sample (or a staleness marker).
    #[must_use]
    pub fn float(labels: LabelSet, time_ms: i64, value: f64) -> Self {
        Self {
            labels,
            time_ms,
            cell: crate::cell::canonical(value),
            histogram: None,
            start_time_ms: 0,
        }
    }

    /// Returns a native histogram sample.
    #[must_use]
    pub fn histogram(labels: LabelSet, time_ms: i64, histogram: Arc<Histogram>) -> Self {
        Self {
            labels,
            time_ms,
            cell: crate::cell::histogram(0),
            histogram: Some(histogram),
            start_time_ms: 0,
        }
    }
}

/// A position in the order of a sink's writes.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct SyncToken(pub u64);

/// Counts of the samples of a write by result.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Outcome {
    /// Samples stored, stale events included.
    pub accepted: u64,
    /// Same series and time as a stored sample with another value; the stored one stays.
    pub duplicate: u64,
    /// Older than the newest of its series, where the sink rejects those.
    pub out_of_order: u64,
    /// Before the sink's lower bound in time.
    pub too_old: u64,
    /// After the sink's upper bound in time.
    pub too_new: u64,
    /// Beyond a series limit.
    pub over_limit: u64,
    /// Pass it to `sync` to wait until these samples survive a power loss.
    pub token: SyncToken,
}

impl AddAssign for Outcome {
    fn add_assign(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.duplicate += other.duplicate;
        self.out_of_order += other.out_of_order;
        self.too_old += other.too_old;
        self.too_new += other.too_new;
        self.over_limit += other.over_limit;
        self.token = self.token.max(other.token);
    }
}
