//! The groups of an aggregation by their labels.
//!
//! **Invariant:** a group has one number; numbers follow the order in which groups are first asked for.

use super::{GroupKeys, META_LABELS, Series, stored::StoredRows};
use crate::plan::Aggregate;
use narthex_model::{
    LabelHash, LabelSet, METRIC_NAME,
    storage::{Grouping, group_key_of},
};
use std::collections::HashMap;

/// Index of groups by their labels.
pub(super) struct GroupIndex {
    names: Vec<Box<str>>,
    without: bool,
    keys: GroupKeys,
    numbers: HashMap<LabelHash, usize, foldhash::fast::RandomState>,
    /// The last group that was asked for.
    last: Option<(LabelHash, usize)>,
    /// Where the named labels are among those of a batch whose labels have these names.
    places: Option<(u64, Box<[usize]>)>,
    locals: LocalKeys,
}

/// Keys of the labels that series have besides those of their batch, by place in the batch: batches of a kind have the same labels
/// in the same places.
#[derive(Default)]
struct LocalKeys {
    of_places: Vec<(LabelSet, LabelHash)>,
    /// Whether the names are left out.
    bare: bool,
}

/// Most places whose keys are remembered.
const MOST_PLACES: usize = 1024;

impl GroupIndex {
    pub(super) fn new(aggregate: &Aggregate) -> Self {
        let (without, names) = (aggregate.without, aggregate.grouping.clone());
        let keys = GroupKeys::of_aggregation(Grouping {
            without,
            names: names.clone(),
        });
        Self {
            names,
            without,
            keys,
            numbers: HashMap::default(),
            last: None,
            places: None,
            locals: LocalKeys::default(),
        }
    }

    /// Returns the number of a series' group.
    pub(super) fn group(&mut self, series: &Series) -> usize {
        self.number(self.key(series)).0
    }

    /// Returns the number of the group with this key, and whether the group is new.
    pub(super) fn number(&mut self, key: LabelHash) -> (usize, bool) {
        if let Some((_, group)) = self.last.filter(|(last, _)| *last == key) {
            return (group, false);
        }
        let next = self.numbers.len();
        let group = *self.numbers.entry(key).or_insert(next);
        self.last = Some((key, group));
        (group, group == next)
    }

    /// Reports whether all series are in one group.
    fn is_one(&self) -> bool {
        !self.without && self.names.is_empty()
    }

    /// Returns the hash of the labels of a series' group.
    pub(super) fn key(&self, series: &Series) -> LabelHash {
        if self.is_one() {
            LabelHash::EMPTY
        } else {
            series.group_key(&self.keys)
        }
    }

    /// Returns, in `keys`, what `key` does of each row.
    pub(super) fn row_keys(&mut self, rows: &StoredRows, keys: &mut Vec<LabelHash>) {
        keys.clear();
        if self.is_one() {
            keys.resize(rows.len(), LabelHash::EMPTY);
            return;
        }
        let batch = &*rows.batch;
        if let Some(common) = batch.common()
            && let Some(key) = self.key_of_common(rows, common)
        {
            keys.resize(rows.len(), key);
            return;
        }
        let grouping = self.keys.grouping(rows.bare);
        let Some(common) = batch.common() else {
            let all = rows.series.iter();
            keys.extend(all.map(|series| batch.group_key(*series as usize, grouping)));
            return;
        };
        let of_common = group_key_of([common], grouping);
        self.locals.expect(rows.bare);
        keys.extend(rows.series.iter().map(|series| {
            let place = *series as usize;
            // Common and local labels have different names, so the keys of both add up.
            match batch.local(place) {
                Some(local) => of_common + self.locals.key(place, local, grouping),
                None => batch.group_key(place, grouping),
            }
        }));
    }

    /// Returns the key of the labels that all series of a batch have, if those alone decide.
    fn key_of_common(&mut self, rows: &StoredRows, common: &LabelSet) -> Option<LabelHash> {
        let mut names = self.names.iter();
        if self.without || (rows.bare && names.any(|name| &**name == METRIC_NAME)) {
            return None;
        }
        let names = rows.batch.common_names()?;
        let mut wanted = self.names.iter().map(|name| &**name);
        if !matches!(self.places, Some((known, _)) if known == names) {
            let place_of = |name: &str| common.iter().position(|own| own.name() == name);
            let places: Option<Box<[usize]>> = wanted.clone().map(place_of).collect();
            self.places = Some((names, places?));
        }
        let (_, places) = self.places.as_ref()?;
        let hash = |place: &usize| {
            let (label, name) = (common.labels().get(*place)?, wanted.next()?);
            (label.name() == name).then(|| label.hash())
        };
        places.iter().map(hash).sum()
    }

    /// Returns the labels of a series' group.
    pub(super) fn labels(&self, series: &Series) -> LabelSet {
        let mut names: Vec<&str> = self.names.iter().map(|name| &**name).collect();
        if self.without {
            names.extend(META_LABELS);
            return series.labels().without(&names);
        }
        if names.is_empty() {
            LabelSet::empty()
        } else {
            series.labels_only(&names)
        }
    }
}

impl LocalKeys {
    /// Forgets the keys unless they are of labels with names, or all without.
    fn expect(&mut self, bare: bool) {
        if self.bare != bare {
            self.of_places.clear();
            self.bare = bare;
        }
    }

    /// Returns the key of a series' local labels.
    fn key(&mut self, place: usize, local: &LabelSet, grouping: &Grouping) -> LabelHash {
        let known = self.of_places.get(place);
        if let Some((_, key)) = known.filter(|(other, _)| other == local) {
            return *key;
        }
        let key = group_key_of([local], grouping);
        if place < MOST_PLACES {
            let known = self.of_places.len().max(place + 1);
            let none = (LabelSet::empty(), LabelHash::EMPTY);
            self.of_places.resize(known, none);
            self.of_places[place] = (local.clone(), key);
        }
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::block::Identity;
    use narthex_model::{
        METRIC_NAME,
        storage::{Batch, Context, Layout, StorageError, Tile, TimeRange},
    };
    use narthex_testkit::rng::SplitMix64;
    use std::sync::Arc;

    struct Parts {
        common: LabelSet,
        locals: Vec<LabelSet>,
    }

    impl Batch for Parts {
        fn len(&self) -> usize {
            self.locals.len()
        }

        fn labels(&self, series: usize) -> LabelSet {
            self.common.union(&self.locals[series])
        }

        fn common(&self) -> Option<&LabelSet> {
            Some(&self.common)
        }

        fn local(&self, series: usize) -> Option<&LabelSet> {
            Some(&self.locals[series])
        }

        fn time_range(&self) -> TimeRange {
            TimeRange::ALL
        }

        fn rows(&self, _range: TimeRange) -> usize {
            0
        }

        fn read(
            &self,
            _series: &[u32],
            _range: TimeRange,
            _layout: Layout,
            _tile: &mut Tile,
            _ctx: &Context,
        ) -> Result<(), StorageError> {
            unreachable!("nobody reads samples")
        }
    }

    #[test]
    fn keys_of_rows_are_those_of_their_series() {
        const NAMES: [&str; 6] = [METRIC_NAME, "a", "b", "c", "d", "e"];
        let mut random = SplitMix64::new(8);
        let mut remembered = 0;
        for _ in 0..300 {
            let is_common: Vec<bool> = NAMES.iter().map(|_| random.one_in(2)).collect();
            let mut set = |common: bool, most: u64| {
                let own = NAMES
                    .iter()
                    .zip(&is_common)
                    .filter(|(_, of)| **of == common);
                let mut labels: Vec<(&str, String)> = Vec::new();
                for (name, _) in own {
                    if !random.one_in(4) {
                        labels.push((name, random.below(most).to_string()));
                    }
                }
                LabelSet::new(labels.iter().map(|(name, value)| (*name, &**value)))
            };
            // Local sets come again, in their place or another.
            let locals: Vec<LabelSet> = (0..8).map(|_| set(false, 3)).collect();
            let commons: Vec<LabelSet> = (0..6).map(|_| set(true, 3)).collect();
            let without = random.one_in(2);
            let names = NAMES.iter().filter(|_| random.one_in(3));
            let names: Vec<Box<str>> = names.map(|name| Box::from(*name)).collect();
            let mut index = GroupIndex {
                keys: GroupKeys::of_aggregation(Grouping {
                    without,
                    names: names.clone(),
                }),
                names,
                without,
                numbers: HashMap::default(),
                last: None,
                places: None,
                locals: LocalKeys::default(),
            };
            let mut keys = Vec::new();
            for common in commons {
                let mut own = locals.clone();
                if random.one_in(3) {
                    own.swap(0, 5);
                }
                let batch: Arc<dyn Batch> = Arc::new(Parts {
                    common,
                    locals: own,
                });
                let mut rows = StoredRows::new(&batch, 0..1);
                rows.bare = random.one_in(3);
                rows.series = (0..8).filter(|_| !random.one_in(4)).collect();
                index.row_keys(&rows, &mut keys);
                assert_eq!(keys.len(), rows.len());
                for (row, key) in keys.iter().enumerate() {
                    let series = rows.series_of(row);
                    assert!(matches!(series.identity, Identity::Stored { .. }));
                    assert_eq!(*key, index.key(&series), "{:?}", index.keys);
                    let labels = index.labels(&series);
                    assert_eq!(*key, labels.hash(), "{labels} by {:?}", index.keys);
                }
                remembered += index.locals.of_places.len();
            }
        }
        assert!(remembered > 1000, "{remembered}");
    }
}
