//! What a query holds at once.
//!
//! **Invariant:** dropping a hold gives back all it took; a query never holds more samples than its limit, nor more
//! bytes than its budget.

use crate::error::QueryError;
use narthex_model::storage::{Budget, Lease};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Counts what one query holds.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    counts: Arc<Counts>,
    budget: Budget,
}

#[derive(Debug, Default)]
struct Counts {
    held: AtomicU64,
    peak: AtomicU64,
    read: AtomicU64,
    limit: u64,
}

/// Samples and bytes a part of a query holds.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    counts: Arc<Counts>,
    samples: u64,
    _lease: Lease,
}

impl Memory {
    pub(crate) fn new(budget: &Budget, max_samples: u64) -> Self {
        let counts = Counts {
            limit: max_samples,
            ..Counts::default()
        };
        Self {
            counts: Arc::new(counts),
            budget: budget.clone(),
        }
    }

    /// Takes room for `samples` samples in `bytes` bytes.
    pub(crate) fn take(&self, samples: u64, bytes: u64) -> Result<Hold, QueryError> {
        let lease = self.budget.lease(bytes)?;
        let held = self.counts.held.fetch_add(samples, Ordering::Relaxed) + samples;
        // From here on dropping the part gives the samples back.
        let part = Part {
            counts: Arc::clone(&self.counts),
            samples,
            _lease: lease,
        };
        self.counts.peak.fetch_max(held, Ordering::Relaxed);
        if held > self.counts.limit {
            return Err(QueryError::TooManySamples {
                limit: self.counts.limit,
            });
        }
        Ok(Hold { parts: vec![part] })
    }

    /// Takes room for what is kept once a step: times, windows, scalars.
    pub(crate) fn room_for_steps(&self, steps: usize) -> Result<Hold, QueryError> {
        self.take(0, steps as u64 * 64)
    }

    /// Notes that `samples` samples were read from the store.
    pub(crate) fn count_read(&self, samples: u64) {
        self.counts.read.fetch_add(samples, Ordering::Relaxed);
    }

    pub(crate) fn peak_samples(&self) -> u64 {
        self.counts.peak.load(Ordering::Relaxed)
    }

    pub(crate) fn read_samples(&self) -> u64 {
        self.counts.read.load(Ordering::Relaxed)
    }
}

impl Hold {
    pub(crate) fn join(&mut self, other: Self) {
        self.parts.extend(other.parts);
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.counts.held.fetch_sub(self.samples, Ordering::Relaxed);
    }
}
