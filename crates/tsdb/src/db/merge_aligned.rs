//! Merging an origin's strips from head and blocks as a whole.
//!
//! An origin's strip appears once in the head and once in every block, with the same series in the same order or some
//! of them missing. Such batches are merged as a whole: one comparison of identities per series instead of a merge
//! series by series. The rest goes through the general merge of `model`. Origins that differ in a label of all their
//! series have none in common: batches are compared with those of their own origin.
//!
//! **Invariant:** every identity occurs once in the result; on equal times the earlier batch wins.

use crate::shared_names::{Common, SharedNames};
use narthex_model::{
    LabelHash,
    storage::{Batch, Helpers, Layer, MergedBatch, Stop, StopReason, unify},
};
use smallvec::SmallVec;
use std::{collections::HashMap, sync::Arc};

/// A batch with fewer than one in this many of a merge's series is merged the general way: its times would add rows
/// to all.
const LEAST_SHARE: usize = 4;

/// Cost of comparing a series' identity, in samples read.
const SERIES_WORK: usize = 4;

/// Groups that are fitted at once.
const GROUPS_AT_ONCE: usize = 512;

/// Returns batches over the same samples in which every identity occurs exactly once.
///
/// # Errors
/// Fails when stopped.
pub(super) fn merge_aligned(
    batches: Vec<Arc<dyn Batch>>,
    helpers: &Helpers,
    stop: &Stop,
) -> Result<Vec<Arc<dyn Batch>>, StopReason> {
    if batches.len() < 2 {
        return Ok(batches);
    }
    let groups = Groups::new(&batches);
    let groups: Vec<&[usize]> = groups.iter().collect();
    let some: Vec<&[&[usize]]> = groups.chunks(GROUPS_AT_ONCE).collect();
    let (mut merges, mut alone, mut rest) = (Merges::default(), Vec::new(), Vec::new());
    for fitted in helpers.map(&some, |groups| fit(groups, &batches, stop)) {
        let fitted = fitted?;
        merges.all.extend(fitted.aligned);
        alone.extend(fitted.alone);
        rest.extend(fitted.rest);
    }
    let mut pace = stop.pace();
    rest.sort_by_key(|at| (std::cmp::Reverse(batches[*at].len()), *at));
    for at in rest {
        pace.spend(batches[at].len() * SERIES_WORK)?;
        merges.add(at, &batches[at]);
    }
    merges.finish(batches, &alone, stop)
}

/// What became of groups: numbers of batches whose series no other has, merges of several batches, and numbers of batches that do
/// not fit those of their group.
#[derive(Default)]
struct Fitted {
    alone: Vec<usize>,
    aligned: Vec<Aligned>,
    rest: Vec<usize>,
}

/// Merges the batches of each group.
fn fit(groups: &[&[usize]], batches: &[Arc<dyn Batch>], stop: &Stop) -> Result<Fitted, StopReason> {
    let mut fitted = Fitted::default();
    let (mut identities, mut pace) = (Vec::new(), stop.pace());
    for group in groups {
        if let [alone] = group {
            pace.spend(SERIES_WORK)?;
            fitted.alone.push(*alone);
            continue;
        }
        if group.len() <= MOST_FITTED {
            let with_len = |at: &usize| (batches[*at].len(), *at);
            let mut by_len: SmallVec<[(usize, usize); MOST_FITTED]> =
                group.iter().map(with_len).collect();
            by_len.sort_by_key(|(len, _)| std::cmp::Reverse(*len));
            let series: usize = by_len.iter().map(|(len, _)| len).sum();
            pace.spend(series * SERIES_WORK)?;
            if let Some(aligned) = Aligned::of_all(&by_len, batches, &mut identities) {
                fitted.aligned.push(aligned);
                continue;
            }
        }
        fitted.rest.extend_from_slice(group);
    }
    Ok(fitted)
}

/// Most batches of a group that are fitted to the largest of them before anything is looked up.
const MOST_FITTED: usize = 8;

/// Batches in groups whose labels show that no other group has a series of theirs.
struct Groups {
    /// Those of one group after those of another, each ascending.
    members: Vec<usize>,
    /// Where each group ends.
    ends: Vec<usize>,
}

impl Groups {
    fn new(batches: &[Arc<dyn Batch>]) -> Self {
        let commons: Vec<Option<Common<'_>>> = batches.iter().map(Common::of).collect();
        let Some(names) = SharedNames::new(commons.iter().copied()) else {
            return Self {
                members: (0..batches.len()).collect(),
                ends: vec![batches.len()],
            };
        };
        let hasher = foldhash::fast::RandomState::default();
        let mut numbers: HashMap<u64, usize, _> =
            HashMap::with_capacity_and_hasher(batches.len(), hasher);
        let mut counts: Vec<usize> = Vec::with_capacity(batches.len());
        let number = |common: &Option<Common<'_>>| {
            let key = common.map(|common| names.key(&common));
            let number = *numbers
                .entry(key.unwrap_or_default())
                .or_insert(counts.len());
            match counts.get_mut(number) {
                Some(count) => *count += 1,
                None => counts.push(1),
            }
            number
        };
        let of_batches: Vec<usize> = commons.iter().map(number).collect();
        let mut end = 0;
        let begins = counts.into_iter().map(|count| {
            end += count;
            end - count
        });
        // Where the next member of each goes: in the end, where the group ends.
        let mut ends: Vec<usize> = begins.collect();
        let mut members = vec![0; batches.len()];
        for (at, number) in of_batches.into_iter().enumerate() {
            members[ends[number]] = at;
            ends[number] += 1;
        }
        Self { members, ends }
    }

    fn iter(&self) -> impl Iterator<Item = &[usize]> {
        let mut begin = 0;
        self.ends
            .iter()
            .map(move |end| &self.members[std::mem::replace(&mut begin, *end)..*end])
    }
}

/// Merge number of series in batches that fit no aligned merge.
const OVERLAPPING: u32 = u32::MAX;

#[derive(Default)]
struct Merges {
    all: Vec<Aligned>,
    /// Aligned merge and position in it of every series.
    places: HashMap<LabelHash, (u32, u32), foldhash::fast::RandomState>,
    /// Batches that fit no aligned merge.
    overlapping: Vec<usize>,
}

struct Aligned {
    leader: Arc<dyn Batch>,
    /// Batches by index in the list, with the leader's series for each of theirs; `None` when they are the same.
    members: Vec<(usize, Option<Vec<u32>>)>,
    overlapping: bool,
}

impl Merges {
    fn add(&mut self, at: usize, batch: &Arc<dyn Batch>) {
        if batch.is_empty() {
            return;
        }
        match self.places.get(&batch.identity(0)).copied() {
            None => self.begin(at, batch),
            Some((OVERLAPPING, _)) => self.mark_overlapping(at, &**batch),
            Some((merge, first)) => {
                let aligned = &mut self.all[merge as usize];
                let leader = &aligned.leader;
                let identities = |series: usize| leader.identity(series);
                match places_of(leader.len(), identities, &**batch, first as usize) {
                    Some(places) => aligned.members.push((at, places)),
                    None => self.mark_overlapping(at, &**batch),
                }
            }
        }
    }

    /// Starts an aligned merge with a batch.
    fn begin(&mut self, at: usize, batch: &Arc<dyn Batch>) {
        let number = u32::try_from(self.all.len()).expect("fewer than 2^32 batches");
        let mut overlapping = false;
        for series in 0..batch.len() {
            let (other, _) = *self
                .places
                .entry(batch.identity(series))
                .or_insert((number, series as u32));
            if other != number {
                self.mark(other);
                overlapping = true;
            }
        }
        self.all.push(Aligned {
            leader: Arc::clone(batch),
            members: vec![(at, None)],
            overlapping,
        });
    }

    /// Leaves a batch, and every aligned merge that shares a series with it, to the general merge.
    fn mark_overlapping(&mut self, at: usize, batch: &dyn Batch) {
        for series in 0..batch.len() {
            let (other, _) = *self
                .places
                .entry(batch.identity(series))
                .or_insert((OVERLAPPING, 0));
            self.mark(other);
        }
        self.overlapping.push(at);
    }

    fn mark(&mut self, merge: u32) {
        if let Some(aligned) = self.all.get_mut(merge as usize) {
            aligned.overlapping = true;
        }
    }

    /// Returns the merged batches, and those that have no series in common with others.
    fn finish(
        self,
        mut batches: Vec<Arc<dyn Batch>>,
        alone: &[usize],
        stop: &Stop,
    ) -> Result<Vec<Arc<dyn Batch>>, StopReason> {
        if alone.len() == batches.len() {
            batches.retain(|batch| !batch.is_empty());
            return Ok(batches);
        }
        let mut overlapping = self.overlapping;
        let alone = alone.iter().map(|at| (*at, Arc::clone(&batches[*at])));
        let mut result: Vec<(usize, Arc<dyn Batch>)> =
            alone.filter(|(_, batch)| !batch.is_empty()).collect();
        for mut aligned in self.all {
            if aligned.overlapping {
                overlapping.extend(aligned.members.iter().map(|member| member.0));
                continue;
            }
            aligned.members.sort_by_key(|member| member.0);
            let first = aligned.members.first().map_or(0, |member| member.0);
            let batch = if aligned.members.len() == 1 {
                aligned.leader
            } else {
                Arc::new(aligned.into_batch(&batches))
            };
            result.push((first, batch));
        }
        // Batches that overlap otherwise are merged series by series; in the given order, which decides ties.
        overlapping.sort_unstable();
        result.sort_by_key(|(first, _)| *first);
        let mut merged: Vec<Arc<dyn Batch>> = result.into_iter().map(|(_, batch)| batch).collect();
        let overlapping = overlapping.into_iter().map(|at| Arc::clone(&batches[at]));
        merged.extend(unify(overlapping.collect(), stop)?);
        Ok(merged)
    }
}

impl Aligned {
    /// Merges batches, given with their numbers of series, the largest first, if all of them fit that one; `identities` is
    /// room for those of its series.
    fn of_all(
        group: &[(usize, usize)],
        batches: &[Arc<dyn Batch>],
        identities: &mut Vec<LabelHash>,
    ) -> Option<Self> {
        let ((len, largest), others) = group.split_first()?;
        let leader = &batches[*largest];
        identities.clear();
        identities.extend((0..*len).map(|series| leader.identity(series)));
        let mut members = Vec::with_capacity(group.len());
        members.push((*largest, None));
        for (_, at) in others.iter().filter(|(len, _)| *len > 0) {
            let batch = &*batches[*at];
            let first = batch.identity(0);
            let first = identities.iter().position(|own| *own == first)?;
            members.push((*at, places_of(*len, |own| identities[own], batch, first)?));
        }
        (*len > 0).then(|| Self {
            leader: Arc::clone(leader),
            members,
            overlapping: false,
        })
    }

    fn into_batch(self, batches: &[Arc<dyn Batch>]) -> MergedBatch {
        let len = self.leader.len();
        let is_leader = |(at, _): &(usize, _)| Arc::ptr_eq(&batches[*at], &self.leader);
        let leader = self.members.iter().position(is_leader);
        let layer = |(at, places): &(usize, Option<Vec<u32>>)| {
            let batch = Arc::clone(&batches[*at]);
            match places {
                Some(places) => Layer::placed(batch, places, len),
                None => Layer::same(batch),
            }
        };
        let layers = self.members.iter().map(layer).collect();
        MergedBatch::new(layers, leader.expect("the leader is a member"))
    }
}

/// Finds a leader's series for each of a batch's, in order from `first` on; `None` when the batch does not fit. The leader has
/// `whole` series, whose identities `leader` returns.
#[expect(
    clippy::option_option,
    reason = "not fitting and fitting exactly are different answers"
)]
fn places_of(
    whole: usize,
    leader: impl Fn(usize) -> LabelHash,
    batch: &dyn Batch,
    first: usize,
) -> Option<Option<Vec<u32>>> {
    let len = batch.len();
    if len * LEAST_SHARE < whole {
        return None;
    }
    if len == whole {
        let same = first == 0 && (0..len).all(|series| batch.identity(series) == leader(series));
        return same.then_some(None);
    }
    let mut places = Vec::with_capacity(len);
    let mut at = first;
    for series in 0..len {
        let wanted = batch.identity(series);
        while at < whole && leader(at) != wanted {
            at += 1;
        }
        if at == whole {
            return None;
        }
        places.push(at as u32);
        at += 1;
    }
    Some(Some(places))
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_model::{
        LabelSet, MemStore, cell,
        storage::{
            Context, Layout, Selector, SeriesSample, Sink, StorageError, Store, Tile, TimeRange,
        },
    };
    use narthex_testkit::rng::SplitMix64;
    use std::{
        collections::BTreeMap,
        sync::atomic::{AtomicUsize, Ordering},
    };

    type Samples = BTreeMap<LabelSet, BTreeMap<i64, u64>>;

    /// A batch of an origin whose labels all of its series have.
    struct OfOrigin {
        inner: Arc<dyn Batch>,
        common: LabelSet,
        identities: Arc<AtomicUsize>,
    }

    impl Batch for OfOrigin {
        fn len(&self) -> usize {
            self.inner.len()
        }

        fn labels(&self, series: usize) -> LabelSet {
            self.common.union(&self.inner.labels(series))
        }

        fn common(&self) -> Option<&LabelSet> {
            Some(&self.common)
        }

        fn identity(&self, series: usize) -> LabelHash {
            self.identities.fetch_add(1, Ordering::Relaxed);
            self.labels(series).hash()
        }

        fn time_range(&self) -> TimeRange {
            self.inner.time_range()
        }

        fn rows(&self, range: TimeRange) -> usize {
            self.inner.rows(range)
        }

        fn read(
            &self,
            series: &[u32],
            range: TimeRange,
            layout: Layout,
            tile: &mut Tile,
            ctx: &Context,
        ) -> Result<(), StorageError> {
            self.inner.read(series, range, layout, tile, ctx)
        }
    }

    /// Origins with some batches each; a label may be common to one origin's series and not to another's.
    fn origins(random: &mut SplitMix64) -> (Vec<Arc<dyn Batch>>, Vec<Arc<AtomicUsize>>) {
        let (mut all, mut counts) = (Vec::<Arc<dyn Batch>>::new(), Vec::new());
        let extra = random.one_in(3);
        let bare = random.one_in(6);
        for origin in 0..6u64 {
            let instance = origin.to_string();
            let mut common = LabelSet::new([("job", "j"), ("instance", &instance)]);
            if extra && origin % 2 == 0 {
                common = common.with("zone", "a");
            }
            if bare && origin == 5 {
                common = LabelSet::empty();
            }
            let identities = Arc::new(AtomicUsize::new(0));
            for part in 0..1 + random.index(3) as i64 {
                let one = |inner| {
                    let (common, identities) = (common.clone(), Arc::clone(&identities));
                    Arc::new(OfOrigin {
                        inner,
                        common,
                        identities,
                    }) as Arc<dyn Batch>
                };
                all.extend(batches(random, part * 30).into_iter().map(one));
            }
            counts.push(identities);
        }
        random.shuffle(&mut all);
        (all, counts)
    }

    #[test]
    fn origins_with_labels_of_their_own_are_not_compared() {
        let (mut spared, mut compared) = (0, 0);
        for seed in 1..=40 {
            let (all, counts) = origins(&mut SplitMix64::new(seed));
            let merged = merge_aligned(all.clone(), &Helpers::none(), &Stop::never()).unwrap();
            for identities in &counts {
                let asked = identities.load(Ordering::Relaxed);
                *(if asked == 0 {
                    &mut spared
                } else {
                    &mut compared
                }) += 1;
            }
            let range = TimeRange::new(15, 95);
            let found = read(&merged, range, Layout::SeriesMajor);
            let expected = one_by_one(&all, range);
            assert_eq!(found, expected, "seed {seed}");
        }
        assert!(spared > 20 && compared > 20, "{spared}, {compared}");
    }

    /// Returns the batches of a store: one with most of the series, in order, as strips come from head and blocks,
    /// and occasional single series with times of their own.
    fn batches(random: &mut SplitMix64, base_ms: i64) -> Vec<Arc<dyn Batch>> {
        let store = MemStore::new();
        let (gaps, lone) = (random.one_in(3), random.one_in(10));
        for series in 0..24u64 {
            if gaps && random.one_in(6) {
                continue;
            }
            let labels = LabelSet::new([("__name__", "m"), ("i", series.to_string().as_str())]);
            let own_axis = lone && random.one_in(12);
            for row in 0..6 {
                let time_ms = base_ms
                    + row * 10
                    + if own_axis {
                        1 + random.below(9) as i64
                    } else {
                        0
                    };
                let sample =
                    SeriesSample::float(labels.clone(), time_ms, random.below(1000) as f64);
                store.append_samples(&[sample]).unwrap();
            }
        }
        let ctx = Context::unlimited();
        let view = store.view(TimeRange::ALL).unwrap();
        let all = Selector::new(Vec::new(), TimeRange::ALL);
        view.prepare(&[all], &ctx)
            .unwrap()
            .batches(0, &ctx)
            .unwrap()
    }

    /// Counts aligned merges of several batches, identical and with gaps, and the batches that fit none.
    fn shapes(batches: &[Arc<dyn Batch>]) -> (usize, usize, usize) {
        let mut merges = Merges::default();
        let mut by_len: Vec<usize> = (0..batches.len()).collect();
        by_len.sort_by_key(|at| std::cmp::Reverse(batches[*at].len()));
        by_len
            .into_iter()
            .for_each(|at| merges.add(at, &batches[at]));
        let several = || {
            merges
                .all
                .iter()
                .filter(|aligned| !aligned.overlapping && aligned.members.len() > 1)
        };
        let gaps = several()
            .filter(|aligned| aligned.members.iter().any(|member| member.1.is_some()))
            .count();
        (several().count() - gaps, gaps, merges.overlapping.len())
    }

    fn read(batches: &[Arc<dyn Batch>], range: TimeRange, layout: Layout) -> Samples {
        let ctx = Context::unlimited();
        let (mut all, mut tile) = (Samples::new(), Tile::default());
        for batch in batches {
            // In reverse and with some missing, so that positions differ.
            let series: Vec<u32> = (0..batch.len() as u32).rev().collect();
            let mut last = Vec::new();
            batch.read(&series, range, layout, &mut tile, &ctx).unwrap();
            batch.last(&series, range, &mut last, &ctx).unwrap();
            assert!(tile.times_ms.len() <= batch.rows(range));
            for (at, series) in series.iter().enumerate() {
                let cells =
                    (0..tile.times_ms.len()).map(|row| (tile.times_ms[row], tile.get(row, at)));
                let samples: BTreeMap<i64, u64> = cells
                    .filter(|(_, cell)| !cell::is_absent(*cell))
                    .map(|(t, cell)| (t, cell.to_bits()))
                    .collect();
                let newest = last[at]
                    .as_ref()
                    .map(|last| (last.time_ms, last.cell.to_bits()));
                assert_eq!(
                    newest,
                    samples.last_key_value().map(|(t, bits)| (*t, *bits))
                );
                let labels = batch.labels(*series as usize);
                assert_eq!(batch.identity(*series as usize), labels.hash());
                assert!(all.insert(labels, samples).is_none(), "every identity once");
            }
        }
        all.retain(|_, samples| !samples.is_empty());
        all
    }

    /// Returns the result of merging series sample by sample.
    fn one_by_one(batches: &[Arc<dyn Batch>], range: TimeRange) -> Samples {
        let mut all = Samples::new();
        for batch in batches {
            let alone = read(std::slice::from_ref(batch), range, Layout::SeriesMajor);
            for (labels, samples) in alone {
                let known = all.entry(labels).or_default();
                for (time_ms, bits) in samples {
                    known.entry(time_ms).or_insert(bits);
                }
            }
        }
        all
    }

    #[test]
    fn helpers_merge_the_same_in_the_same_order() {
        const ORIGINS: usize = 4 * GROUPS_AT_ONCE;
        static HELPED: AtomicUsize = AtomicUsize::new(0);
        let mut random = SplitMix64::new(1);
        let parts: Vec<Arc<dyn Batch>> = [0, 30]
            .iter()
            .map(|base_ms| batches(&mut random, *base_ms).swap_remove(0))
            .collect();
        let of_origin = |at: usize| {
            let instance = (at / 2).to_string();
            let batch = OfOrigin {
                inner: Arc::clone(&parts[at % 2]),
                common: LabelSet::new([("job", "j"), ("instance", &instance)]),
                identities: Arc::default(),
            };
            Arc::new(batch) as Arc<dyn Batch>
        };
        let mut all: Vec<Arc<dyn Batch>> = (0..2 * ORIGINS).map(of_origin).collect();
        random.shuffle(&mut all);
        let begin = || _ = HELPED.fetch_add(1, Ordering::Relaxed);
        let merge = |helpers: Helpers| {
            let merged = merge_aligned(all.clone(), &helpers, &Stop::never()).unwrap();
            let series = |batch: &Arc<dyn Batch>| {
                let identities = (0..batch.len()).map(|series| batch.identity(series));
                (identities.collect(), batch.rows(TimeRange::ALL))
            };
            merged
                .iter()
                .map(series)
                .collect::<Vec<(Vec<LabelHash>, usize)>>()
        };
        let alone = merge(Helpers::none());
        assert_eq!(alone.len(), ORIGINS);
        assert_eq!(merge(Helpers::new(1, begin).at_once()), alone);
        assert_eq!(HELPED.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn merging_stops_when_told() {
        let mut random = SplitMix64::new(1);
        let all: Vec<Arc<dyn Batch>> = (0..2000)
            .flat_map(|part| batches(&mut random, part % 50 * 30))
            .collect();
        let (counted, helpers) = (Stop::at_check(0), Helpers::none());
        merge_aligned(all.clone(), &helpers, &counted).unwrap();
        assert!(counted.checks() > 2, "asked {} times", counted.checks());
        for check in 1..=counted.checks() {
            let stopped = merge_aligned(all.clone(), &helpers, &Stop::at_check(check)).map(|_| ());
            assert_eq!(stopped, Err(StopReason::Canceled), "at check {check}");
        }
    }

    #[test]
    fn aligned_merges_equal_general_ones() {
        let (mut seen, helpers) = ((0, 0, 0), Helpers::none());
        for seed in 1..=60 {
            let mut random = SplitMix64::new(seed);
            let parts = 2 + random.index(4) as i64;
            let all: Vec<Arc<dyn Batch>> = (0..parts)
                .flat_map(|part| batches(&mut random, part * 30))
                .collect();
            let (same, gaps, overlapping) = shapes(&all);
            seen = (seen.0 + same, seen.1 + gaps, seen.2 + overlapping);
            for (range, layout) in [
                (TimeRange::ALL, Layout::TimeMajor),
                (TimeRange::new(25, 75), Layout::SeriesMajor),
                (TimeRange::new(60, 61), Layout::TimeMajor),
            ] {
                let expected = one_by_one(&all, range);
                let never = Stop::never();
                for merged in [
                    merge_aligned(all.clone(), &helpers, &never),
                    unify(all.clone(), &never),
                ] {
                    let merged = merged.unwrap();
                    let found = read(&merged, range, layout);
                    assert_eq!(found, expected, "seed {seed}, {range:?}");
                }
            }
        }
        assert!(
            seen.0 > 5 && seen.1 > 5 && seen.2 > 5,
            "every way is taken: {seen:?}"
        );
    }
}
