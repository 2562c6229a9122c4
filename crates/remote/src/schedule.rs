//! The order in which a request's samples are stored: by group, oldest instant first.
//!
//! **Invariant:** every sample with a place is in exactly one list; a group's instants ascend, so that each may become
//! a row.

use crate::{incoming::Incoming, place::Place, refusals::Refusals};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// The samples of one group for one instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    pub(crate) group: u32,
    pub(crate) time_ms: i64,
    /// Number of samples, including histograms.
    pub(crate) count: u32,
    pub(crate) histograms: u32,
    lists: [List; 3],
}

/// A chain through one of the request's lists.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

const END: u32 = u32::MAX;
pub(crate) const FLOATS: usize = 0;
pub(crate) const HISTOGRAMS: usize = 1;
pub(crate) const EXEMPLARS: usize = 2;
/// Instant of a batch that has only exemplars, or of a group of ungrouped series.
const NO_INSTANT: i64 = i64::MIN;
/// Instant of ungrouped series' histograms: a separate batch, so that stored samples of either kind can be counted.
const NO_INSTANT_OF_HISTOGRAMS: i64 = i64::MIN + 1;

/// A request's samples, in order.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    batches: Vec<Batch>,
    /// Index of the next entry of the same batch, for each entry of floats, histograms and exemplars.
    next: [Vec<u32>; 3],
}

impl Schedule {
    /// Orders the samples of `incoming`, omitting those without a place or later than `max_ms`.
    pub(crate) fn new(
        incoming: &Incoming<'_>,
        places: &[Place],
        max_ms: i64,
        refusals: &mut Refusals,
    ) -> Self {
        let mut builder = Builder {
            schedule: Self {
                next: [
                    vec![END; incoming.floats.len()],
                    vec![END; incoming.histograms.len()],
                    vec![END; incoming.exemplars.len()],
                ],
                ..Self::default()
            },
            numbers: HashTable::new(),
            hasher: RandomState::default(),
            last: None,
        };
        let mut too_new = 0;
        for (at, sample) in incoming.floats.iter().enumerate() {
            let place = places[sample.series as usize];
            if sample.time_ms > max_ms {
                too_new += u64::from(!place.is_nowhere());
            } else {
                builder.add(place, sample.time_ms, FLOATS, at);
            }
        }
        for (at, sample) in incoming.histograms.iter().enumerate() {
            let place = places[sample.series as usize];
            if place.is_nowhere() {
                continue;
            }
            match &sample.histogram {
                Err(reason) => refusals.invalid_histogram(reason),
                Ok(_) if sample.time_ms > max_ms => too_new += 1,
                Ok(_) => builder.add(place, sample.time_ms, HISTOGRAMS, at),
            }
        }
        for (at, (series, exemplar)) in incoming.exemplars.iter().enumerate() {
            if exemplar.time_ms.is_none_or(|time_ms| time_ms <= max_ms) {
                builder.add(places[*series as usize], NO_INSTANT, EXEMPLARS, at);
            }
        }
        refusals.too_new(too_new);
        let mut schedule = builder.schedule;
        let order = |batch: &Batch| (batch.group, batch.time_ms);
        if !schedule.batches.is_sorted_by_key(order) {
            schedule.batches.sort_unstable_by_key(order);
        }
        schedule
    }

    pub(crate) fn batches(&self) -> &[Batch] {
        &self.batches
    }

    /// Lists the entries of a batch in the request's floats, histograms or exemplars.
    pub(crate) fn entries(&self, batch: &Batch, kind: usize) -> impl Iterator<Item = usize> {
        let next = &self.next[kind];
        let first = Some(batch.lists[kind].first).filter(|first| *first != END);
        std::iter::successors(first, |at| {
            next.get(*at as usize).copied().filter(|next| *next != END)
        })
        .map(|at| at as usize)
    }
}

struct Builder {
    schedule: Schedule,
    numbers: HashTable<u32>,
    hasher: RandomState,
    /// The batch of the previous sample: most often the next one joins it.
    last: Option<u32>,
}

impl Builder {
    #[inline]
    fn add(&mut self, place: Place, time_ms: i64, kind: usize, at: usize) {
        if place.is_nowhere() {
            return;
        }
        let at = at as u32;
        let time_ms = match (place.is_ungrouped(), kind) {
            (true, HISTOGRAMS) => NO_INSTANT_OF_HISTOGRAMS,
            (true, _) => NO_INSTANT,
            (false, _) => time_ms,
        };
        let number = self.batch(place.group, time_ms);
        self.last = Some(number);
        let Schedule { batches, next, .. } = &mut self.schedule;
        let batch = &mut batches[number as usize];
        batch.count += u32::from(kind != EXEMPLARS);
        batch.histograms += u32::from(kind == HISTOGRAMS);
        let list = &mut batch.lists[kind];
        if list.first == END {
            list.first = at;
        } else {
            next[kind][list.last as usize] = at;
        }
        list.last = at;
    }

    #[inline]
    fn batch(&mut self, group: u32, time_ms: i64) -> u32 {
        let batches = &mut self.schedule.batches;
        let same = |number: u32| {
            let batch = &batches[number as usize];
            batch.group == group && batch.time_ms == time_ms
        };
        if let Some(last) = self.last
            && same(last)
        {
            return last;
        }
        let hasher = &self.hasher;
        let hash = hasher.hash_one((group, time_ms));
        if let Some(number) = self.numbers.find(hash, |number| same(*number)) {
            return *number;
        }
        let number = batches.len() as u32;
        let empty = List {
            first: END,
            last: END,
        };
        batches.push(Batch {
            group,
            time_ms,
            count: 0,
            histograms: 0,
            lists: [empty; 3],
        });
        self.numbers.insert_unique(hash, number, |number| {
            let batch = &batches[*number as usize];
            hasher.hash_one((batch.group, batch.time_ms))
        });
        number
    }
}
