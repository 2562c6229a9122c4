//! Accounting of a query's samples and memory.
//!
//! **Invariant:** dropping a hold gives back everything it took; a query never holds more samples than its limit, nor
//! more bytes than its budget. A result's memory stays held until the result is dropped.

use crate::error::QueryError;
use narthex_model::storage::{Budget, Lease};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Counts of the samples and bytes that one query holds.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    counts: Arc<Counts>,
    budget: Budget,
    /// Longest label value that a query may create, in bytes.
    max_label_bytes: usize,
}

#[derive(Debug, Default)]
struct Counts {
    held: AtomicU64,
    peak: AtomicU64,
    read: AtomicU64,
    series: AtomicU64,
    limit: u64,
}

/// Samples and bytes held by a part of a query.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    counts: Arc<Counts>,
    samples: u64,
    lease: Lease,
}

/// Bytes taken in small amounts, leased in larger ones.
#[derive(Debug)]
pub(crate) struct Meter {
    memory: Memory,
    hold: Hold,
    due: u64,
    leased: u64,
}

/// Smallest increment of a meter's lease, in bytes.
const LEASED_BYTES: u64 = 4 << 10;

/// Memory of a row besides its cells and labels: its identity and its entry in lookup tables.
pub(crate) const ROW_BYTES: usize = 96;

/// Memory of a new label besides its value: its entry in the process-wide table, and its header.
const LABEL_BYTES: usize = 64;

impl Memory {
    pub(crate) fn new(budget: &Budget, max_samples: u64, max_label_bytes: usize) -> Self {
        let counts = Counts {
            limit: max_samples,
            ..Counts::default()
        };
        Self {
            counts: Arc::new(counts),
            budget: budget.clone(),
            max_label_bytes,
        }
    }

    /// Returns the longest label value that the query may create.
    pub(crate) fn max_label_bytes(&self) -> usize {
        self.max_label_bytes
    }

    /// Fails when a label that the query creates is too long.
    pub(crate) fn check_label(&self, name: &str, bytes: usize) -> Result<(), QueryError> {
        if bytes <= self.max_label_bytes {
            return Ok(());
        }
        Err(QueryError::LabelTooLong {
            name: name.to_owned(),
            bytes,
            limit: self.max_label_bytes,
        })
    }

    /// Takes memory for `samples` samples in `bytes` bytes.
    pub(crate) fn acquire(&self, samples: u64, bytes: u64) -> Result<Hold, QueryError> {
        let lease = self.budget.lease(bytes)?;
        let held = self.counts.held.fetch_add(samples, Ordering::Relaxed) + samples;
        // From here on, dropping the part gives the samples back.
        let part = Part {
            counts: Arc::clone(&self.counts),
            samples,
            lease,
        };
        self.check_held(held)?;
        Ok(Hold { parts: vec![part] })
    }

    /// Changes what `hold` has to `samples` samples in `bytes` bytes.
    pub(crate) fn change(
        &self,
        hold: &mut Hold,
        samples: u64,
        bytes: u64,
    ) -> Result<(), QueryError> {
        let Some(part) = hold.parts.first_mut() else {
            *hold = self.acquire(samples, bytes)?;
            return Ok(());
        };
        part.lease.resize(bytes)?;
        let before = std::mem::replace(&mut part.samples, samples);
        let held = &self.counts.held;
        held.fetch_sub(before, Ordering::Relaxed);
        let held = held.fetch_add(samples, Ordering::Relaxed) + samples;
        self.check_held(held)
    }

    fn check_held(&self, held: u64) -> Result<(), QueryError> {
        self.counts.peak.fetch_max(held, Ordering::Relaxed);
        if held > self.counts.limit {
            return Err(QueryError::TooManySamples {
                limit: self.counts.limit,
            });
        }
        Ok(())
    }

    /// Takes memory for per-step data: times, windows, scalars.
    pub(crate) fn room_for_steps(&self, steps: usize) -> Result<Hold, QueryError> {
        self.acquire(0, steps as u64 * 64)
    }

    /// Notes that `samples` samples were read from the store.
    pub(crate) fn count_read(&self, samples: u64) {
        self.counts.read.fetch_add(samples, Ordering::Relaxed);
    }

    /// Notes that a selector found `series` series.
    pub(crate) fn count_series(&self, series: usize) {
        self.counts
            .series
            .fetch_add(series as u64, Ordering::Relaxed);
    }

    pub(crate) fn found_series(&self) -> u64 {
        self.counts.series.load(Ordering::Relaxed)
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

    /// Returns the bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.lease.bytes()).sum()
    }
}

impl Meter {
    pub(crate) fn new(memory: &Memory) -> Self {
        Self {
            memory: memory.clone(),
            hold: Hold::default(),
            due: 0,
            leased: 0,
        }
    }

    /// Takes `bytes` more.
    pub(crate) fn add(&mut self, bytes: usize) -> Result<(), QueryError> {
        self.due += bytes as u64;
        let Some(missing) = self.due.checked_sub(self.leased).filter(|bytes| *bytes > 0) else {
            return Ok(());
        };
        // Lease slightly ahead, so that many small items need few leases.
        let more = missing.max(LEASED_BYTES.min(self.leased));
        match self.hold.parts.first_mut() {
            Some(part) => part.lease.grow(more)?,
            None => self.hold = self.memory.acquire(0, more)?,
        }
        self.leased += more;
        Ok(())
    }

    /// Takes memory for a label value of `bytes` bytes, assuming that the label is new.
    pub(crate) fn add_label(&mut self, bytes: usize) -> Result<(), QueryError> {
        self.add(LABEL_BYTES + bytes)
    }

    /// Returns the hold of everything taken.
    pub(crate) fn finish(self) -> Hold {
        self.hold
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.counts.held.fetch_sub(self.samples, Ordering::Relaxed);
    }
}
