//! Accounting of a query's samples and memory.
//!
//! Bytes are leased in larger amounts than they are held in: a query over thousands of short series takes and gives back
//! memory for each of them, on all its threads.
//!
//! **Invariant:** dropping a hold gives back everything it took; a query never holds more samples than its limit, nor
//! more bytes than its budget. A result's memory stays held until the result is dropped.

use super::Limits;
use crate::{cost::ReadLimits, error::QueryError};
use narthex_model::{
    storage::{Budget, Lease, OverBudget},
    sync::Whole as _,
};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

/// Counts of the samples and bytes that one query holds.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    counts: Arc<Counts>,
    /// Longest label value that a query may create, in bytes.
    max_label_bytes: usize,
}

#[derive(Debug)]
struct Counts {
    held: AtomicU64,
    peak: AtomicU64,
    read: AtomicU64,
    series: AtomicU64,
    limit: u64,
    /// Most samples and series that may be read.
    most_read: ReadLimits,
    /// Bytes that are leased and that nobody holds.
    spare: AtomicU64,
    lease: Mutex<Lease>,
}

/// Samples and bytes held by a part of a query.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    counts: Option<Arc<Counts>>,
    samples: u64,
    bytes: u64,
}

/// Bytes taken in small amounts, held in larger ones.
#[derive(Debug)]
pub(crate) struct Meter {
    memory: Memory,
    hold: Hold,
    due: u64,
}

/// Bytes that a query leases ahead, at most as many as it has leased already, and that it may keep spare.
const AHEAD_BYTES: u64 = 64 << 10;
const SPARE_BYTES: u64 = 4 * AHEAD_BYTES;

/// Smallest increment of a meter's hold, in bytes.
const METERED_BYTES: u64 = 4 << 10;

/// Memory of a row besides its cells and labels: its identity and its entry in lookup tables.
pub(crate) const ROW_BYTES: usize = 96;

/// Memory of a new label besides its value: its entry in the process-wide table, and its header.
const LABEL_BYTES: usize = 64;

impl Memory {
    /// Returns empty counts of a query that leases from `budget`.
    ///
    /// # Errors
    /// Fails when the budget is exceeded already.
    pub(crate) fn new(budget: &Budget, limits: Limits) -> Result<Self, QueryError> {
        let zero = AtomicU64::default;
        let counts = Counts {
            held: zero(),
            peak: zero(),
            read: zero(),
            series: zero(),
            limit: limits.max_samples,
            most_read: limits.reads,
            spare: zero(),
            lease: Mutex::new(budget.lease(0)?),
        };
        Ok(Self {
            counts: Arc::new(counts),
            max_label_bytes: limits.max_label_bytes,
        })
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
        let mut hold = Hold::default();
        self.change(&mut hold, samples, bytes)?;
        Ok(hold)
    }

    /// Changes what `hold` has to `samples` samples in `bytes` bytes.
    pub(crate) fn change(
        &self,
        hold: &mut Hold,
        samples: u64,
        bytes: u64,
    ) -> Result<(), QueryError> {
        let counts = &self.counts;
        // From here on, dropping the hold gives back what it has.
        hold.counts.get_or_insert_with(|| Arc::clone(counts));
        match bytes.checked_sub(hold.bytes) {
            Some(more) => counts.take(more)?,
            None => counts.give_back(hold.bytes - bytes),
        }
        hold.bytes = bytes;
        let before = std::mem::replace(&mut hold.samples, samples);
        match samples.checked_sub(before) {
            Some(0) => Ok(()),
            Some(more) => counts.hold(more),
            None => {
                counts.held.fetch_sub(before - samples, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    /// Makes `hold` have at least `bytes` bytes.
    pub(crate) fn make_room(&self, hold: &mut Hold, bytes: u64) -> Result<(), QueryError> {
        self.change(hold, hold.samples, bytes.max(hold.bytes))
    }

    /// Takes memory for per-step data: times, windows, scalars.
    pub(crate) fn room_for_steps(&self, steps: usize) -> Result<Hold, QueryError> {
        self.acquire(0, steps as u64 * 64)
    }

    /// Notes that `samples` samples were read from the store; fails when these are more than may be read, or the series are that
    /// were found.
    pub(crate) fn count_read(&self, samples: u64) -> Result<(), QueryError> {
        let read = self.counts.read.fetch_add(samples, Ordering::Relaxed) + samples;
        let ReadLimits {
            series: most_series,
            samples: most_samples,
        } = self.counts.most_read;
        if most_series > 0 && self.found_series() > most_series {
            return Err(QueryError::TooManySeries { limit: most_series });
        }
        if most_samples > 0 && read > most_samples {
            return Err(QueryError::TooManySamplesRead {
                limit: most_samples,
            });
        }
        Ok(())
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

impl Counts {
    fn take(&self, bytes: u64) -> Result<(), OverBudget> {
        if bytes == 0 || self.take_spare(bytes) {
            return Ok(());
        }
        let mut lease = self.lease.lock().whole();
        let spare = self.spare.swap(0, Ordering::Relaxed);
        let (missing, ahead) = (bytes.saturating_sub(spare), AHEAD_BYTES.min(lease.bytes()));
        let taken = lease.grow_ahead(missing, ahead);
        let left = taken.as_ref().map_or(spare, |taken| spare + taken - bytes);
        self.spare.fetch_add(left, Ordering::Relaxed);
        taken.map(|_| ())
    }

    fn take_spare(&self, bytes: u64) -> bool {
        let left = |spare: u64| spare.checked_sub(bytes);
        let taken = self
            .spare
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
        taken.is_ok()
    }

    fn give_back(&self, bytes: u64) {
        let spare = self.spare.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if spare > SPARE_BYTES {
            self.trim(AHEAD_BYTES);
        }
    }

    /// Gives back what is spare beyond `keep` bytes.
    fn trim(&self, keep: u64) {
        let mut lease = self.lease.lock().whole();
        let kept = |spare: u64| (spare > keep).then_some(keep);
        let before = self
            .spare
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, kept);
        lease.shrink(before.map_or(0, |spare| spare - keep));
    }

    /// Counts samples that are held.
    fn hold(&self, samples: u64) -> Result<(), QueryError> {
        let held = self.held.fetch_add(samples, Ordering::Relaxed) + samples;
        // Hardly ever a peak, and a load disturbs no other thread.
        if held > self.peak.load(Ordering::Relaxed) {
            self.peak.fetch_max(held, Ordering::Relaxed);
        }
        if held > self.limit {
            return Err(QueryError::TooManySamples { limit: self.limit });
        }
        Ok(())
    }
}

impl Hold {
    pub(crate) fn join(&mut self, mut other: Self) {
        let Some(counts) = &self.counts else {
            *self = other;
            return;
        };
        let is_same = other.counts.iter().all(|other| Arc::ptr_eq(counts, other));
        debug_assert!(is_same, "holds of one query are joined");
        self.samples += std::mem::take(&mut other.samples);
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Returns the bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives back what the query has leased besides.
    pub(crate) fn trim(&self) {
        if let Some(counts) = &self.counts {
            counts.trim(0);
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let Some(counts) = &self.counts else {
            return;
        };
        counts.held.fetch_sub(self.samples, Ordering::Relaxed);
        counts.give_back(self.bytes);
    }
}

impl Meter {
    pub(crate) fn new(memory: &Memory) -> Self {
        Self {
            memory: memory.clone(),
            hold: Hold::default(),
            due: 0,
        }
    }

    /// Takes `bytes` more.
    pub(crate) fn add(&mut self, bytes: usize) -> Result<(), QueryError> {
        self.due += bytes as u64;
        let held = self.hold.bytes;
        let Some(missing) = self.due.checked_sub(held).filter(|bytes| *bytes > 0) else {
            return Ok(());
        };
        // Slightly ahead, so that many small items are seldom counted.
        let more = missing.max(METERED_BYTES.min(held));
        self.memory.change(&mut self.hold, 0, held + more)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(budget: &Budget) -> Memory {
        let limits = Limits {
            max_samples: 1_000,
            max_label_bytes: 100,
            reads: ReadLimits::default(),
        };
        Memory::new(budget, limits).unwrap()
    }

    #[test]
    fn what_is_leased_ahead_is_never_missing_elsewhere() {
        let budget = Budget::new("query", 100_000);
        let memory = memory(&budget);
        // As many as there is room for, whatever else could be leased with each.
        let holds: Vec<Hold> = (0..1_000)
            .map(|_| memory.acquire(1, 100).unwrap())
            .collect();
        assert_eq!(budget.used_bytes(), 100_000);
        assert_eq!(budget.shown().refused_total, 0);
        assert!(matches!(
            memory.acquire(0, 1),
            Err(QueryError::OverBudget(_))
        ));
        assert!(matches!(
            memory.acquire(1, 0),
            Err(QueryError::TooManySamples { limit: 1_000 })
        ));
        drop(holds);
        let hold = memory.acquire(1_000, 100_000).unwrap();
        drop((hold, memory));
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn little_is_leased_that_nobody_holds() {
        let budget = Budget::new("query", 1 << 30);
        let memory = memory(&budget);
        let small = memory.acquire(0, 1_000).unwrap();
        assert_eq!(budget.used_bytes(), 1_000);
        let mut all = Hold::default();
        for _ in 0..50 {
            all.join(memory.acquire(0, 100_000).unwrap());
            assert!(budget.used_bytes() <= 1_000 + all.bytes() + SPARE_BYTES);
        }
        assert_eq!(all.bytes(), 5_000_000);
        memory.change(&mut all, 0, 1_000_000).unwrap();
        assert!(budget.used_bytes() <= 1_001_000 + SPARE_BYTES);
        drop((small, memory));
        all.trim();
        assert_eq!(budget.used_bytes(), 1_000_000);
        drop(all);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn threads_take_and_give_back_at_once() {
        let budget = Budget::new("query", 1 << 20);
        let memory = memory(&budget);
        let some = |thread: u64| {
            let mut kept = Hold::default();
            for at in 0..20_000 {
                let mut hold = memory.acquire(1, 1 + at % 5_000).unwrap();
                memory.change(&mut hold, 2, at % 300).unwrap();
                memory.make_room(&mut hold, 200).unwrap();
                if at % 1_000 == thread {
                    kept.join(hold);
                }
            }
            kept
        };
        let kept = std::thread::scope(|scope| {
            let threads = [0, 1, 2].map(|thread| scope.spawn(move || some(thread)));
            threads.map(|thread| thread.join().unwrap())
        });
        let bytes: u64 = kept.iter().map(Hold::bytes).sum();
        let room = (1 << 20) - bytes;
        drop(memory.acquire(1_000 - 120, room).unwrap());
        assert!(memory.acquire(1_000 - 119, 0).is_err());
        assert!(memory.acquire(0, room + 1).is_err());
        drop((kept, memory));
        assert_eq!(budget.used_bytes(), 0);
    }
}
