//! Groups that earlier evaluations of a query found: a rule adds up the same series again and again, and finding the
//! group of each took longer than adding it.
//!
//! **Invariant:** a group is kept for a series only as long as batches of a store name the same series by the same key.
//! **Invariant:** what is kept is leased, and is no more than about twice what the last evaluation used.

use narthex_model::{
    LabelHash, LabelSet,
    storage::{Batch, Budget, Lease, SeriesKey},
    sync::Whole as _,
};
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex},
};

/// Most series whose groups are kept.
const MOST_SERIES: usize = 4096;
/// Groups of which any multiple is kept.
const FEW_GROUPS: usize = 64;
/// Bytes of a group and of a batch beside their labels and series.
const GROUP_BYTES: usize = 48;
const BATCH_BYTES: usize = 96;

/// Groups of one aggregation, between evaluations.
#[derive(Default)]
pub(crate) struct KeptGroups(Mutex<Option<KnownGroups>>);

/// Groups by number, and those of stored series.
#[derive(Default)]
pub(crate) struct KnownGroups {
    numbers: HashMap<LabelHash, u32, foldhash::fast::RandomState>,
    labels: Vec<LabelSet>,
    /// By strip, and whether the names are left out.
    batches: HashMap<(u32, bool), KnownBatch, foldhash::fast::RandomState>,
    series: usize,
    has_changed: bool,
    lease: Option<Lease>,
}

struct KnownBatch {
    key: SeriesKey,
    /// Number of each series' group.
    groups: Arc<[u32]>,
    is_used: bool,
}

impl KeptGroups {
    /// Takes what is kept, for one evaluation.
    pub(crate) fn take_known(&self) -> KnownGroups {
        self.0.lock().whole().take().unwrap_or_default()
    }

    /// Keeps what an evaluation knew, of which it used `used` groups.
    pub(crate) fn keep(&self, mut known: KnownGroups, used: usize, memory: &Budget) {
        let before = known.batches.len();
        known
            .batches
            .retain(|_, batch| std::mem::take(&mut batch.is_used));
        known.has_changed |= before != known.batches.len();
        if known.has_changed && !known.fit(used, memory) {
            return;
        }
        *self.0.lock().whole() = Some(known);
    }
}

impl KnownGroups {
    /// Returns the number of the group with this key; `labels` are its labels.
    pub(crate) fn number(&mut self, key: LabelHash, labels: impl FnOnce() -> LabelSet) -> u32 {
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        let number = u32::try_from(self.labels.len()).expect("fewer than 2^32 groups");
        self.numbers.insert(key, number);
        self.labels.push(labels());
        self.has_changed = true;
        number
    }

    /// Returns the labels of a group.
    pub(crate) fn labels(&self, number: u32) -> LabelSet {
        self.labels[number as usize].clone()
    }

    /// Returns the numbers of the groups of a batch's series; `None` if they cannot be kept. `bare` tells the same series
    /// without their names apart; `key_of` and `labels_of` are asked about those whose group is not known.
    pub(crate) fn of_batch(
        &mut self,
        batch: &Arc<dyn Batch>,
        bare: bool,
        key_of: impl Fn(u32) -> LabelHash,
        labels_of: impl Fn(u32) -> LabelSet,
    ) -> Option<Arc<[u32]>> {
        let key = batch.series_key()?;
        let place = (key.strip, bare);
        let known = self.batches.get_mut(&place);
        if let Some(known) = known.filter(|known| known.key == key) {
            known.is_used = true;
            return Some(Arc::clone(&known.groups));
        }
        let before = self.batches.remove(&place);
        self.series -= before.map_or(0, |before| before.groups.len());
        self.has_changed = true;
        if self.series + batch.len() > MOST_SERIES {
            return None;
        }
        self.series += batch.len();
        let all = 0..u32::try_from(batch.len()).unwrap_or(u32::MAX);
        let groups = all.map(|series| self.number(key_of(series), || labels_of(series)));
        let groups: Arc<[u32]> = groups.collect();
        let known = KnownBatch {
            key,
            groups: Arc::clone(&groups),
            is_used: true,
        };
        self.batches.insert(place, known);
        Some(groups)
    }

    /// Leases memory for all; returns `false` if it is to be forgotten.
    fn fit(&mut self, used: usize, memory: &Budget) -> bool {
        self.has_changed = false;
        self.series = self.batches.values().map(|batch| batch.groups.len()).sum();
        if self.labels.len() > 2 * used.max(FEW_GROUPS) {
            return false;
        }
        let labels = self.labels.iter();
        let labels = labels.map(|labels| GROUP_BYTES + labels.heap_bytes());
        let bytes = labels.sum::<usize>()
            + self.batches.len() * BATCH_BYTES
            + self.series * size_of::<u32>();
        let bytes = bytes as u64;
        match &mut self.lease {
            Some(lease) => lease.resize(bytes).is_ok(),
            None => {
                self.lease = memory.lease(bytes).ok();
                self.lease.is_some()
            }
        }
    }
}

impl fmt::Debug for KeptGroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeptGroups")
    }
}
