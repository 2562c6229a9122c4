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

use crate::{error::RemoteError, series_group::SeriesGroup};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use narthex_model::{ColumnId, LabelHash, LabelSet, METRIC_NAME, storage::Sink};
use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
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
/// Epochs for which an unsent series is remembered.
const KEEP_EPOCHS: u32 = 18;

/// Destination of a series' samples.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Place {
    /// A group's number, with the bit `UNGROUPED` for a group of ungrouped series; or `NOWHERE`.
    pub(crate) group: u32,
    pub(crate) column: u32,
}

/// Marks a group of ungrouped series.
const UNGROUPED: u32 = 1 << 31;
/// Marks invalid labels.
const NOWHERE: u32 = u32::MAX;

impl Place {
    /// Place of dropped samples.
    pub(crate) const NOWHERE: Self = Self {
        group: NOWHERE,
        column: 0,
    };

    /// Reports whether the series is ungrouped.
    pub(crate) fn is_ungrouped(self) -> bool {
        self.group & UNGROUPED != 0
    }

    pub(crate) fn is_nowhere(self) -> bool {
        self.group == NOWHERE
    }
}

/// The bytes a sender uses for a series.
#[derive(Debug)]
struct Entry {
    key: u128,
    place: Place,
    series: u32,
    seen: AtomicU32,
}

#[derive(Clone, Debug)]
struct KnownSeries {
    hash: LabelHash,
    place: Place,
}

/// All known series of senders.
#[derive(Default)]
pub(crate) struct SeriesCache {
    entries: HashTable<Entry>,
    series: Vec<Option<KnownSeries>>,
    free: Vec<u32>,
    by_labels: HashTable<u32>,
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
    /// Finds the place of a series by the bytes of its labels.
    #[inline]
    pub(crate) fn find(&self, key: u128, epoch: u32) -> Option<Place> {
        let entry = self.entries.find(key as u64, |entry| entry.key == key)?;
        if entry.seen.load(Ordering::Relaxed) != epoch {
            entry.seen.store(epoch, Ordering::Relaxed);
        }
        Some(entry.place)
    }

    /// Notes that a staleness marker ended a series: unless it is sent again, the next epoch forgets it.
    pub(crate) fn end(&self, key: u128, epoch: u32) {
        if let Some(entry) = self.entries.find(key as u64, |entry| entry.key == key) {
            let last = epoch.saturating_sub(KEEP_EPOCHS - 1);
            entry.seen.store(last, Ordering::Relaxed);
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
        for number in 0..self.series.len() {
            let known = self.series[number].take_if(|known| is_broken(known.place.group));
            if let Some(known) = known {
                self.forget_series(number as u32, known.hash);
            }
        }
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

    /// Frees the number of a series that is in no table of places any more.
    fn forget_series(&mut self, number: u32, hash: LabelHash) {
        let same = |other: &u32| *other == number;
        if let Ok(entry) = self.by_labels.find_entry(hash.low(), same) {
            entry.remove();
        }
        self.free.push(number);
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
            if let Some((number, place)) = self.known(series.labels.hash()) {
                self.insert_entry(series.key, place, number, epoch);
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
            .map(|group| group.common());
        let common = common_of(&series, model.as_ref());
        let parts = series.len().div_ceil(GROUP_COLUMNS);
        let each = series.len().div_ceil(parts.max(1)).max(1);
        let mut series = series.into_iter().peekable();
        while series.peek().is_some() {
            let number = self.new_group(SeriesGroup::new(origin, common.clone(), sink)?);
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
                None => self.new_group(SeriesGroup::ungrouped(sink)?) | UNGROUPED,
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
        let common = group.common();
        let most = if group.is_ungrouped() {
            UNGROUPED_COLUMNS
        } else {
            GROUP_COLUMNS
        };
        let room = most.saturating_sub(group.columns()?);
        let (mut taken, mut sets, mut left) = (Vec::new(), Vec::new(), Vec::new());
        for series in series {
            let own = (taken.len() < room).then(|| own_labels(&series.labels, &common));
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

    fn known(&self, hash: LabelHash) -> Option<(u32, Place)> {
        let same = |number: &u32| {
            let known = self.series[*number as usize].as_ref();
            known.is_some_and(|known| known.hash == hash)
        };
        let number = *self.by_labels.find(hash.low(), same)?;
        let place = self.series[number as usize].as_ref()?.place;
        Some((number, place))
    }

    fn insert(&mut self, new: NewSeries, place: Place, epoch: u32) {
        let number = self.free.pop().unwrap_or_else(|| {
            self.series.push(None);
            u32::try_from(self.series.len() - 1).expect("fewer than 2^32 series")
        });
        let hash = new.labels.hash();
        self.series[number as usize] = Some(KnownSeries { hash, place });
        let series = &self.series;
        let low = |number: &u32| {
            series[*number as usize]
                .as_ref()
                .map_or(0, |s| s.hash.low())
        };
        self.by_labels.insert_unique(hash.low(), number, low);
        self.insert_entry(new.key, place, number, epoch);
    }

    fn insert_entry(&mut self, key: u128, place: Place, series: u32, epoch: u32) {
        // A request may repeat the same bytes.
        if self
            .entries
            .find(key as u64, |entry| entry.key == key)
            .is_some()
        {
            return;
        }
        let entry = Entry {
            key,
            place,
            series,
            seen: AtomicU32::new(epoch),
        };
        self.entries
            .insert_unique(key as u64, entry, |entry| entry.key as u64);
    }

    /// Forgets series that were not sent for long, and returns empty groups to the sink.
    ///
    /// # Errors
    /// Fails if the sink rejects a smaller schema; the series stay forgotten.
    pub(crate) fn sweep(&mut self, epoch: u32) -> Result<(), RemoteError> {
        let mut used = vec![false; self.series.len()];
        self.entries.retain(|entry| {
            // After the clock was set back, series may have been seen in the future.
            let seen = entry.seen.fetch_min(epoch, Ordering::Relaxed).min(epoch);
            let kept = epoch - seen < KEEP_EPOCHS;
            used[entry.series as usize] |= kept;
            kept
        });
        let mut retired: HashMap<u32, Vec<ColumnId>, RandomState> = HashMap::default();
        for (number, used) in used.into_iter().enumerate() {
            if used {
                continue;
            }
            let Some(known) = self.series[number].take() else {
                continue;
            };
            self.forget_series(number as u32, known.hash);
            let columns = retired.entry(known.place.group).or_default();
            columns.push(ColumnId(known.place.column));
        }
        self.fit();
        for (number, columns) in retired {
            self.retire(number, &columns)?;
        }
        Ok(())
    }

    /// Shrinks tables that are mostly empty.
    fn fit(&mut self) {
        if self.entries.len() * 4 < self.entries.capacity() {
            let room = self.entries.len() * 2;
            self.entries.shrink_to(room, |entry| entry.key as u64);
        }
        if self.by_labels.len() * 4 >= self.series.len() {
            return;
        }
        // Numbers in use must stay; entries past the last one can go.
        self.free.sort_unstable();
        while self
            .free
            .pop_if(|last| *last as usize + 1 == self.series.len())
            .is_some()
        {
            self.series.pop();
        }
        self.series.shrink_to(self.series.len() * 2);
        self.free.shrink_to(self.free.len() * 2);
        let series = &self.series;
        let low = |number: &u32| {
            series[*number as usize]
                .as_ref()
                .map_or(0, |s| s.hash.low())
        };
        self.by_labels.shrink_to(self.by_labels.len() * 2, low);
    }

    fn retire(&mut self, number: u32, columns: &[ColumnId]) -> Result<(), RemoteError> {
        let Some(group) = self.group(number).cloned() else {
            return Ok(());
        };
        if group.retire(columns)? > 0 {
            return Ok(());
        }
        self.groups[(number & !UNGROUPED) as usize] = None;
        let Some(origin) = group.origin() else {
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
