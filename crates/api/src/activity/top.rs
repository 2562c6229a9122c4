//! The most expensive queries since the start.
//!
//! **Invariant:** at most [`MOST`] texts are remembered; a new one takes the place of the one that took the least time
//! in all. Finding that one takes no look at all others: with many rules, each that is evaluated for the first time
//! may need it.

use super::{Entry, TEXT_BYTES};
use narthex_model::storage::Lease;
use narthex_promql::{QueryError, QueryStats};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, binary_heap::PeekMut},
    sync::Arc,
    time::Duration,
};

/// Most queries that are remembered.
const MOST: usize = 1000;
/// Memory of one, without its text.
const ITEM_BYTES: u64 = 320;

/// What distinguishes queries: the text, and how long the range is, in seconds.
pub(crate) type Key = (Arc<str>, i64);

#[derive(Debug)]
pub(crate) struct Top {
    pub(super) items: HashMap<Key, Cost>,
    /// All items, with what they took at some time; never more than they take.
    cheapest: BinaryHeap<Reverse<(Duration, Key)>>,
    /// Evaluations of queries that are not remembered.
    pub(crate) forgotten: u64,
    /// No remembered query took less in all. Costs only grow, so one look at all of them spares many.
    least: Duration,
    lease: Lease,
}

/// What a query cost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) count: u64,
    pub(crate) failures: u64,
    pub(crate) duration: Duration,
    pub(crate) longest: Duration,
    pub(crate) samples: u64,
    pub(crate) peak_samples: u64,
    pub(crate) first_ms: i64,
    pub(crate) last_ms: i64,
}

impl Top {
    pub(crate) fn new(lease: Lease) -> Self {
        Self {
            items: HashMap::new(),
            cheapest: BinaryHeap::new(),
            forgotten: 0,
            least: Duration::ZERO,
            lease,
        }
    }

    /// Counts an evaluation.
    pub(crate) fn count(
        &mut self,
        entry: &Entry,
        evaluated: Duration,
        outcome: Result<&QueryStats, &QueryError>,
        now_ms: i64,
    ) {
        let [start_ms, end_ms, _] = entry.times;
        let key = (Arc::clone(&entry.text), (end_ms - start_ms) / 1000);
        if !self.items.contains_key(&key) && !self.make_room(&key, evaluated) {
            self.forgotten += 1;
            return;
        }
        let cheapest = &mut self.cheapest;
        let cost = self.items.entry(key).or_insert_with_key(|key| {
            cheapest.push(Reverse((evaluated, key.clone())));
            Cost {
                first_ms: now_ms,
                ..Cost::default()
            }
        });
        cost.count += 1;
        cost.duration += evaluated;
        cost.longest = cost.longest.max(evaluated);
        cost.last_ms = now_ms;
        match outcome {
            Ok(stats) => {
                cost.samples += stats.samples_read;
                cost.peak_samples = cost.peak_samples.max(stats.peak_samples);
            }
            Err(_) => cost.failures += 1,
        }
    }

    /// Makes room for a query that took some time, unless all others took more.
    fn make_room(&mut self, key: &Key, evaluated: Duration) -> bool {
        if self.items.len() < MOST && self.lease.grow(bytes_of(key)).is_ok() {
            self.least = self.least.min(evaluated);
            return true;
        }
        if evaluated < self.least {
            return false;
        }
        let Some(cheapest) = self.take_cheaper(evaluated) else {
            return false;
        };
        let cost = self.items.remove(&cheapest).unwrap_or_default();
        self.lease.shrink(bytes_of(&cheapest));
        self.forgotten += cost.count;
        self.lease.grow(bytes_of(key)).is_ok()
    }

    /// Takes the cheapest item out of the order if it took no longer than `evaluated`.
    fn take_cheaper(&mut self, evaluated: Duration) -> Option<Key> {
        while let Some(mut first) = self.cheapest.peek_mut() {
            let Reverse((known, key)) = &mut *first;
            let duration = self.items.get(key).map_or(*known, |cost| cost.duration);
            if *known != duration {
                // It moves to its place, and another one comes first.
                *known = duration;
                continue;
            }
            self.least = duration;
            if duration > evaluated {
                return None;
            }
            let Reverse((_, key)) = PeekMut::pop(first);
            return Some(key);
        }
        None
    }

    /// Returns the `most` queries with the greatest `rank`.
    pub(crate) fn by<R: PartialOrd>(
        &self,
        most: usize,
        rank: impl Fn(&Cost) -> R,
    ) -> Vec<(Key, Cost)> {
        let mut all: Vec<_> = self.items.iter().collect();
        all.sort_by(|a, b| {
            let by_rank = rank(b.1).partial_cmp(&rank(a.1));
            let by_rank = by_rank.unwrap_or(std::cmp::Ordering::Equal);
            by_rank.then_with(|| a.0.cmp(b.0))
        });
        let all = all.into_iter().take(most);
        all.map(|(key, cost)| (key.clone(), *cost)).collect()
    }
}

fn bytes_of((text, _): &Key) -> u64 {
    ITEM_BYTES + text.len().min(2 * TEXT_BYTES) as u64
}
