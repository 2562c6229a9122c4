//! Maps the bytes a sender uses for a series to the series' column.
//!
//! Series of one job and instance that arrive side by side form a *group*: they will arrive together again, so their
//! samples fill a row. Series are *ungrouped* if their origin has few of them, they arrive in no order, or they lack job
//! or instance: they share groups in which each sample has its own time. All other groups are narrow enough that a
//! sender's cut between two requests separates few samples from their row.
//!
//! **Invariant:** a series has one place, however many byte entries of its labels are known; series that were not sent
//! for `KEEP_EPOCHS`, or ended and were not sent again, are forgotten, so that memory follows the series being sent,
//! not churn.

use crate::{
    entries::{Entries, NextEntry},
    error::RemoteError,
    place::{NOWHERE, Place, UNGROUPED},
    series_group::SeriesGroup,
};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use narthex_model::{ColumnId, LabelHash, LabelSet, METRIC_NAME, storage::Sink};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// Maximum columns of a group.
const GROUP_COLUMNS: usize = 256;
/// Maximum columns of a group of ungrouped series.
const UNGROUPED_COLUMNS: usize = 1024;
/// Minimum series of an origin that make a group worthwhile.
const GROUP_FROM: usize = 16;
/// Minimum average run of an origin's series; shorter ones show no reliable order.
const RUN_FROM: usize = 3;
/// Length of an epoch; at its end, ended series are forgotten.
pub(crate) const EPOCH_MS: i64 = 100_000;
/// Most memory of a series: its entry, its place, and the room in their tables.
pub(crate) const CACHED_SERIES_BYTES: usize = 66;
/// Epochs for which an unsent series is remembered.
const KEEP_EPOCHS: u32 = 18;

/// All known series of senders.
#[derive(Default)]
pub(crate) struct SeriesCache {
    entries: Entries,
    /// The places of all series, by the hashes of their labels, which the groups know.
    by_labels: HashTable<Place>,
    groups: Vec<Option<Arc<SeriesGroup>>>,
    /// Numbers of groups, by the hash of job and instance.
    origins: HashMap<LabelHash, Vec<u32>, RandomState>,
    /// The group that receives the next ungrouped series.
    ungrouped: Option<u32>,
    /// Incremented when series are forgotten that a request may still be writing: places found before are then invalid.
    generation: u64,
}

/// A series seen for the first time.
#[derive(Debug)]
pub(crate) struct NewSeries {
    pub(crate) key: u128,
    pub(crate) labels: LabelSet,
}

/// New series of one origin in one request.
struct NewOfOrigin {
    origin: LabelHash,
    series: Vec<NewSeries>,
    /// Number of contiguous runs.
    runs: usize,
}

impl SeriesCache {
    /// Finds the place of a request's next series by the bytes of its labels.
    #[inline]
    pub(crate) fn find(&self, key: u128, epoch: u32, next: &mut NextEntry) -> Option<Place> {
        let entry = self.entries.find(key, next)?;
        entry.set_seen(epoch);
        Some(entry.place)
    }

    /// Notes that a staleness marker ended a series: unless it is sent again, the next epoch forgets it.
    pub(crate) fn end(&self, key: u128, epoch: u32, next: &mut NextEntry) {
        if let Some(entry) = self.entries.find(key, next) {
            entry.set_seen(epoch.saturating_sub(KEEP_EPOCHS - 1));
        }
    }

    /// Returns the group with this number.
    pub(crate) fn group(&self, number: u32) -> Option<&Arc<SeriesGroup>> {
        self.groups.get((number & !UNGROUPED) as usize)?.as_ref()
    }

    /// Returns a number that changes when previously found places become invalid.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// # Errors
    /// Fails if places found in `generation` are invalid because of a panic.
    pub(crate) fn expect(&self, generation: u64) -> Result<(), RemoteError> {
        if generation == self.generation {
            Ok(())
        } else {
            Err(RemoteError::Panicked)
        }
    }

    /// Returns an empty series cache to replace this one.
    pub(crate) fn emptied(&self) -> Self {
        Self {
            generation: self.generation + 1,
            ..Self::default()
        }
    }

    /// Forgets the series of groups that a panic broke; they get new places when sent again.
    pub(crate) fn drop_broken(&mut self) {
        let groups = self.groups.iter().enumerate();
        let broken: HashSet<usize, RandomState> = groups
            .filter(|(_, group)| group.as_ref().is_some_and(|group| group.is_broken()))
            .map(|(number, _)| number)
            .collect();
        if broken.is_empty() {
            return;
        }
        self.generation += 1;
        let is_broken =
            |group: u32| group != NOWHERE && broken.contains(&((group & !UNGROUPED) as usize));
        self.entries.retain(|entry| !is_broken(entry.place.group));
        self.by_labels.retain(|place| !is_broken(place.group));
        self.ungrouped.take_if(|number| is_broken(*number));
        self.origins.retain(|_, numbers| {
            numbers.retain(|number| !is_broken(*number));
            !numbers.is_empty()
        });
        for number in broken {
            self.groups[number] = None;
        }
        self.fit();
    }

    /// Returns the number of known series.
    pub(crate) fn len(&self) -> usize {
        self.by_labels.len()
    }

    /// Returns the number of groups.
    pub(crate) fn groups(&self) -> usize {
        self.groups.iter().flatten().count()
    }

    /// Assigns places to series that arrived together.
    ///
    /// # Errors
    /// Fails if the sink accepts no more origins.
    pub(crate) fn add(
        &mut self,
        new: Vec<NewSeries>,
        epoch: u32,
        sink: &dyn Sink,
    ) -> Result<(), RemoteError> {
        let mut by_origin: Vec<NewOfOrigin> = Vec::new();
        let mut last = None;
        let mut numbers: HashMap<LabelHash, usize, RandomState> = HashMap::default();
        let (mut again, mut ungrouped) = (Vec::new(), Vec::new());
        let mut met: HashMap<LabelHash, (), RandomState> = HashMap::default();
        for series in new {
            // Other bytes for the labels of a known series, or of one earlier in this request.
            let hash = series.labels.hash();
            if self.known(hash).is_some() || met.insert(hash, ()).is_some() {
                again.push(series);
                continue;
            }
            let Some(origin) = origin_of(&series.labels) else {
                ungrouped.push(series);
                continue;
            };
            let at = *numbers.entry(origin).or_insert_with(|| {
                by_origin.push(NewOfOrigin {
                    origin,
                    series: Vec::new(),
                    runs: 0,
                });
                by_origin.len() - 1
            });
            by_origin[at].series.push(series);
            by_origin[at].runs += usize::from(last != Some(at));
            last = Some(at);
        }
        for met in by_origin {
            ungrouped.extend(self.add_of_origin(met, epoch, sink)?);
        }
        self.add_ungrouped(ungrouped, epoch, sink)?;
        for series in again {
            if let Some(place) = self.known(series.labels.hash()) {
                self.entries.insert(series.key, place, epoch);
            }
        }
        Ok(())
    }

    /// Assigns places to new series of one origin; returns those that stay ungrouped.
    fn add_of_origin(
        &mut self,
        met: NewOfOrigin,
        epoch: u32,
        sink: &dyn Sink,
    ) -> Result<Vec<NewSeries>, RemoteError> {
        let many = met.series.len() >= GROUP_FROM;
        let scattered = met.runs * RUN_FROM > met.series.len();
        let NewOfOrigin {
            origin, mut series, ..
        } = met;
        let numbers = self.origins.get(&origin).cloned().unwrap_or_default();
        if many && scattered {
            return Ok(series);
        }
        if !many {
            for number in &numbers {
                series = self.extend(*number, series, epoch)?;
                if series.is_empty() {
                    return Ok(series);
                }
            }
            if numbers.is_empty() {
                return Ok(series);
            }
        }
        let model = numbers
            .first()
            .and_then(|number| self.group(*number))
            .map(|group| &group.common);
        let common = common_of(&series, model);
        let parts = series.len().div_ceil(GROUP_COLUMNS);
        let each = series.len().div_ceil(parts.max(1)).max(1);
        let mut series = series.into_iter().peekable();
        while series.peek().is_some() {
            let number = self.new_group(SeriesGroup::new(Some(origin), common.clone(), sink)?);
            self.origins.entry(origin).or_default().push(number);
            let part: Vec<NewSeries> = series.by_ref().take(each).collect();
            let left = self.extend(number, part, epoch)?;
            debug_assert!(left.is_empty(), "a new group has room for its series");
        }
        Ok(Vec::new())
    }

    fn add_ungrouped(
        &mut self,
        mut ungrouped: Vec<NewSeries>,
        epoch: u32,
        sink: &dyn Sink,
    ) -> Result<(), RemoteError> {
        while !ungrouped.is_empty() {
            let number = match self.ungrouped {
                Some(number) => number,
                None => {
                    self.new_group(SeriesGroup::new(None, LabelSet::empty(), sink)?) | UNGROUPED
                }
            };
            self.ungrouped = Some(number);
            ungrouped = self.extend(number, ungrouped, epoch)?;
            if !ungrouped.is_empty() {
                self.ungrouped = None;
            }
        }
        Ok(())
    }

    /// Puts as many series into a group as fit; returns the rest.
    fn extend(
        &mut self,
        number: u32,
        series: Vec<NewSeries>,
        epoch: u32,
    ) -> Result<Vec<NewSeries>, RemoteError> {
        let Some(group) = self.group(number).cloned() else {
            return Ok(series);
        };
        let most = if group.is_ungrouped() {
            UNGROUPED_COLUMNS
        } else {
            GROUP_COLUMNS
        };
        let room = most.saturating_sub(group.columns()?);
        let (mut taken, mut sets, mut left) = (Vec::new(), Vec::new(), Vec::new());
        for series in series {
            let own = (taken.len() < room).then(|| own_labels(&series.labels, &group.common));
            if let Some(set) = own.flatten() {
                taken.push(series);
                sets.push(set);
            } else {
                left.push(series);
            }
        }
        if taken.is_empty() {
            return Ok(left);
        }
        let first = group.extend(&sets)?;
        for (at, series) in taken.into_iter().enumerate() {
            let place = Place {
                group: number,
                column: first.0 + at as u32,
            };
            self.insert(series, place, epoch);
        }
        Ok(left)
    }

    fn new_group(&mut self, group: SeriesGroup) -> u32 {
        let group = Some(Arc::new(group));
        let number = match self.groups.iter().position(Option::is_none) {
            Some(at) => {
                self.groups[at] = group;
                at
            }
            None => {
                self.groups.push(group);
                self.groups.len() - 1
            }
        };
        let number = u32::try_from(number)
            .ok()
            .filter(|number| *number < UNGROUPED);
        number.expect("fewer than 2^31 groups")
    }

    fn known(&self, hash: LabelHash) -> Option<Place> {
        let same = |place: &Place| hash_at(&self.groups, *place) == Some(hash);
        self.by_labels.find(hash.low(), same).copied()
    }

    fn insert(&mut self, new: NewSeries, place: Place, epoch: u32) {
        let groups = &self.groups;
        let low = |place: &Place| low_at(groups, *place);
        self.by_labels
            .insert_unique(new.labels.hash().low(), place, low);
        self.entries.insert(new.key, place, epoch);
    }

    /// Forgets series that were not sent for long, and returns empty groups to the sink.
    ///
    /// # Errors
    /// Fails if the sink rejects a smaller schema; the series stay forgotten.
    pub(crate) fn sweep(&mut self, epoch: u32) -> Result<(), RemoteError> {
        let mut unsent: HashSet<Place, RandomState> = HashSet::default();
        self.entries.retain(|entry| {
            // After the clock was set back, series may have been seen in the future.
            let seen = entry.seen().min(epoch);
            entry.set_seen(seen);
            let kept = epoch - seen < KEEP_EPOCHS;
            if !kept {
                unsent.insert(entry.place);
            }
            kept
        });
        if !unsent.is_empty() {
            // Other bytes of the same labels may have been sent.
            for entry in self.entries.iter() {
                unsent.remove(&entry.place);
            }
        }
        let mut retired: HashMap<u32, Vec<ColumnId>, RandomState> = HashMap::default();
        for place in unsent {
            self.forget_series(place);
            let columns = retired.entry(place.group).or_default();
            columns.push(ColumnId(place.column));
        }
        self.fit();
        for (number, columns) in retired {
            self.retire(number, &columns)?;
        }
        Ok(())
    }

    /// Removes a series from the table of places, while its group still knows its labels.
    fn forget_series(&mut self, place: Place) {
        let low = low_at(&self.groups, place);
        if let Ok(found) = self.by_labels.find_entry(low, |other| *other == place) {
            found.remove();
        }
    }

    /// Shrinks a table that is mostly empty.
    fn fit(&mut self) {
        if self.by_labels.len() * 4 < self.by_labels.capacity() {
            let (groups, room) = (&self.groups, self.by_labels.len() * 2);
            let low = |place: &Place| low_at(groups, *place);
            self.by_labels.shrink_to(room, low);
        }
    }

    fn retire(&mut self, number: u32, columns: &[ColumnId]) -> Result<(), RemoteError> {
        let Some(group) = self.group(number).cloned() else {
            return Ok(());
        };
        if group.retire(columns)? > 0 {
            return Ok(());
        }
        self.groups[(number & !UNGROUPED) as usize] = None;
        let Some(origin) = group.origin else {
            self.ungrouped.take_if(|ungrouped| *ungrouped == number);
            return Ok(());
        };
        if let Some(numbers) = self.origins.get_mut(&origin) {
            numbers.retain(|other| *other != number);
            if numbers.is_empty() {
                self.origins.remove(&origin);
            }
        }
        Ok(())
    }
}

/// Returns the hash of the labels of the series at a place; `None` if its group is broken.
fn hash_at(groups: &[Option<Arc<SeriesGroup>>], place: Place) -> Option<LabelHash> {
    let group = groups.get((place.group & !UNGROUPED) as usize)?.as_ref()?;
    group.hash(ColumnId(place.column))
}

/// Returns the bits by which the table of places is searched. A broken group's places are not found any more, and are dropped
/// with it.
fn low_at(groups: &[Option<Arc<SeriesGroup>>], place: Place) -> u64 {
    hash_at(groups, place).map_or(0, LabelHash::low)
}

/// Returns the hash of a series' origin: its job and instance, if it has both.
fn origin_of(labels: &LabelSet) -> Option<LabelHash> {
    Some(labels.label("job")?.hash() + labels.label("instance")?.hash())
}

/// Returns the labels of a series that are not in `common`; `None` if it lacks any of those.
fn own_labels(labels: &LabelSet, common: &LabelSet) -> Option<LabelSet> {
    let mut own = Vec::with_capacity(labels.len().checked_sub(common.len())?);
    let mut common = common.iter().peekable();
    for label in labels {
        // Both are sorted by name.
        if common.next_if(|next| *next == label).is_none() {
            own.push(label.clone());
        }
    }
    common.peek().is_none().then(|| LabelSet::from_labels(own))
}

/// Returns the labels common to all the series; few series prove little, so then only labels in `model` count.
fn common_of(series: &[NewSeries], model: Option<&LabelSet>) -> LabelSet {
    let Some(first) = series.first() else {
        return LabelSet::empty();
    };
    let few = series.len() < GROUP_FROM;
    let shared = first.labels.iter().filter(|label| {
        let name = label.name();
        let allowed = match model {
            Some(model) if few => model.iter().any(|other| other == *label),
            _ => !few || name == "job" || name == "instance",
        };
        allowed
            && name != METRIC_NAME
            && series
                .iter()
                .all(|series| series.labels.iter().any(|other| other == *label))
    });
    LabelSet::from_labels(shared.cloned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_model::MemStore;

    const PODS: usize = 37;

    fn new(key: usize, series: usize) -> NewSeries {
        let [series, pod] = [series, series % PODS].map(|number| number.to_string());
        let labels = [
            (METRIC_NAME, "m"),
            ("instance", &pod),
            ("job", "test"),
            ("series", &series),
        ];
        NewSeries {
            // As a hasher's: all bits differ.
            key: (key as u128 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835),
            labels: LabelSet::new(labels),
        }
    }

    #[test]
    fn a_series_takes_no_more_than_it_is_counted_for() {
        let (sink, mut cache) = (MemStore::new(), SeriesCache::default());
        // The tables have just grown.
        const COUNT: usize = 8192 / 8 * 7 + 1;
        let mut order: Vec<usize> = (0..COUNT).collect();
        order.sort_by_key(|series| series % PODS);
        let series = order.iter().map(|series| new(*series, *series));
        cache.add(series.collect(), 1, &sink).unwrap();
        assert_eq!(cache.len(), COUNT);
        let tables = cache.entries.allocation_size() + cache.by_labels.allocation_size();
        assert!(tables <= COUNT * CACHED_SERIES_BYTES, "{tables}");
        let (mut places, mut next) = (HashSet::new(), NextEntry::default());
        for series in 0..COUNT {
            let place = cache
                .find(new(series, series).key, 1, &mut next)
                .expect("is known");
            let group = cache.group(place.group).expect("is there");
            let labels = group.labels(ColumnId(place.column));
            assert_eq!(labels, Some(new(series, series).labels));
            places.insert(place);
        }
        assert_eq!(places.len(), COUNT);
    }

    #[test]
    fn a_series_is_known_as_long_as_any_of_its_bytes_are_sent() {
        const COUNT: usize = 40;
        let (sink, mut cache) = (MemStore::new(), SeriesCache::default());
        let of_pod = |series: usize| series * PODS;
        let first = (0..COUNT).map(|series| new(series, of_pod(series)));
        cache.add(first.collect(), 1, &sink).unwrap();
        // Other bytes of the last twenty, which are sent later.
        let again = (20..COUNT).map(|series| new(COUNT + series, of_pod(series)));
        cache.add(again.collect(), 10, &sink).unwrap();
        assert_eq!(cache.len(), COUNT);
        let same = |cache: &SeriesCache, series: usize, epoch: u32| {
            let mut next = NextEntry::default();
            let by_first = cache.find(new(series, of_pod(series)).key, epoch, &mut next);
            let by_other = cache.find(new(COUNT + series, of_pod(series)).key, epoch, &mut next);
            (by_first, by_other)
        };
        let (by_first, by_other) = same(&cache, 30, 1);
        assert!(by_first.is_some() && by_first == by_other);
        // What was just found of the thirtieth was noted as seen early.
        cache.sweep(KEEP_EPOCHS + 5).unwrap();
        assert_eq!(cache.len(), COUNT - 20 - 1);
        for (series, is_known) in [(0, false), (19, false), (20, true), (39, true)] {
            let (by_first, by_other) = same(&cache, series, KEEP_EPOCHS + 5);
            assert_eq!((by_first, by_other.is_some()), (None, is_known), "{series}");
        }
        cache.sweep(3 * KEEP_EPOCHS).unwrap();
        assert_eq!((cache.len(), cache.groups()), (0, 0));
        assert_eq!((cache.entries.len(), cache.by_labels.len()), (0, 0));
    }
}
