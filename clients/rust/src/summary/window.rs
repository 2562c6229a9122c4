//! Decides which observations are recent enough for quantiles.
//!
//! All counts only grow; a mark is a copy of them. Counts since the oldest mark are recent. A mark is made every
//! `step`, and `age_buckets` of them are kept, so the oldest is between `max_age - step` and `max_age` old: the same
//! coverage as client_golang's ring of age buckets, for one count per observation instead of five.
//!
//! **Invariant:** at most `age_buckets` marks, oldest first; while there are fewer, everything is recent.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::quantile::Bucket;

pub(super) struct Window {
    max_age: Duration,
    age_buckets: u32,
    /// When the last mark was due; the first observation before there is one.
    turned: Option<Instant>,
    marks: VecDeque<Arc<Vec<Bucket>>>,
    /// All counts when marks were last made.
    seen: Option<Arc<Vec<Bucket>>>,
}

impl Window {
    pub(super) const fn new(max_age: Duration, age_buckets: u32) -> Self {
        Self {
            max_age,
            age_buckets,
            turned: None,
            marks: VecDeque::new(),
            seen: None,
        }
    }

    /// Starts the clock, unless it runs already.
    pub(super) fn begin(&mut self, now: Instant) {
        self.turned.get_or_insert(now);
    }

    /// Returns when the next mark is due, once the clock runs.
    pub(super) fn next_turn(&self) -> Option<Instant> {
        self.turned.map(|turned| turned + self.step())
    }

    /// Makes the marks that are due. `counts` returns all counts, by key.
    ///
    /// If several are due, nobody read the clock for longer than a step. Counts since then are treated as recent rather
    /// than lost: every thread reads the clock once in 128 observations, so they are few.
    pub(super) fn turn(&mut self, now: Instant, counts: impl FnOnce() -> Vec<Bucket>) {
        self.begin(now);
        let step = self.step();
        let Some(turned) = &mut self.turned else {
            return;
        };
        let due = now.saturating_duration_since(*turned).as_millis() / step.as_millis();
        if due == 0 {
            return;
        }
        let late = now.saturating_duration_since(*turned).as_millis() % step.as_millis();
        *turned = now - Duration::from_millis(u64::try_from(late).unwrap_or(0));
        let keep = self.age_buckets as usize;
        let counts = Arc::new(counts());
        let seen = self.seen.replace(Arc::clone(&counts));
        if due == 1 {
            self.marks.push_back(counts);
        } else {
            let copies = usize::try_from(due).map_or(keep, |due| due.min(keep));
            let marks = std::iter::repeat_n(seen.unwrap_or_default(), copies);
            self.marks.extend(marks);
        }
        let excess = self.marks.len().saturating_sub(keep);
        self.marks.drain(..excess);
    }

    fn step(&self) -> Duration {
        (self.max_age / self.age_buckets).max(Duration::from_millis(1))
    }

    #[cfg(test)]
    pub(super) fn marks(&self) -> usize {
        self.marks.len()
    }

    /// Reduces all counts to the recent ones.
    pub(super) fn young(&self, mut counts: Vec<Bucket>) -> Vec<Bucket> {
        if self.marks.len() < self.age_buckets as usize {
            return counts;
        }
        let Some(oldest) = self.marks.front() else {
            return counts;
        };
        let mut old = oldest.iter().peekable();
        counts.retain_mut(|bucket| {
            while old.next_if(|old| old.key < bucket.key).is_some() {}
            if let Some(old) = old.next_if(|old| old.key == bucket.key) {
                // Saturating: a copy read later from another shard order never exceeds, but zero is the safe answer.
                bucket.count = bucket.count.saturating_sub(old.count);
            }
            bucket.count != 0
        });
        counts
    }
}
