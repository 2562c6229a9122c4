//! Postings of local sets by label: the index on which matchers are evaluated.
//!
//! A set shared by all origins of a kind is indexed once, however many series use it.
//!
//! **Invariant:** a set's number is in the posting of each of its labels, and in `all`, exactly while at least one
//! entry uses it; its users are known.

use narthex_model::{
    Label, LabelHash, LabelSet, MatchOp, Matcher,
    storage::{Stop, StopReason},
};
use roaring::RoaringBitmap;
use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash},
};

/// Numbers of sets.
pub(crate) type SetIds = RoaringBitmap;

/// Numbers of entries, the users of sets.
pub(crate) type EntryIds = RoaringBitmap;

/// All sets in use, with their postings and users.
#[derive(Debug, Default)]
pub(crate) struct SetTable {
    sets: Vec<Slot>,
    /// The users of sets that have more than one: those that origins of a kind share.
    shared: HashMap<u32, EntryIds, foldhash::fast::RandomState>,
    free: Vec<u32>,
    ids: HashMap<LabelSet, u32, foldhash::fast::RandomState>,
    names: HashMap<Box<str>, ByName>,
    all: SetIds,
    /// How often a label came or went, and when this was of a new name or of the last of one.
    changes: u64,
    names_changed: u64,
}

#[derive(Debug)]
struct Slot {
    set: LabelSet,
    /// Hash of the set, so that looking for a series need not touch the set.
    hash: LabelHash,
    /// The user, if there is only one.
    user: u32,
}

#[derive(Debug, Default)]
struct ByName {
    values: HashMap<Label, Posting, foldhash::fast::RandomState>,
    /// The table's number of changes when a value came or went.
    changed: u64,
}

/// Most values of identifying labels occur in one set only.
#[derive(Debug)]
enum Posting {
    One(u32),
    Many(Box<SetIds>),
}

impl SetTable {
    /// Adds `user` to those of `set`, which it is not yet; returns the set's number.
    pub(crate) fn acquire(&mut self, set: &LabelSet, user: u32) -> u32 {
        if let Some(id) = self.ids.get(set) {
            let first = self.sets[*id as usize].user;
            let all = self.shared.entry(*id);
            all.or_insert_with(|| [first].into()).insert(user);
            return *id;
        }
        let slot = Slot {
            set: set.clone(),
            hash: set.hash(),
            user,
        };
        let id = match self.free.pop() {
            Some(id) => {
                self.sets[id as usize] = slot;
                id
            }
            None => {
                self.sets.push(slot);
                u32::try_from(self.sets.len() - 1).expect("fewer than 2^32 local sets")
            }
        };
        self.ids.insert(set.clone(), id);
        self.all.insert(id);
        for label in set {
            let by_name = match self.names.get_mut(label.name()) {
                Some(by_name) => by_name,
                None => {
                    self.names_changed = self.changes + 1;
                    self.names.entry(label.name().into()).or_default()
                }
            };
            match by_name.values.get_mut(label) {
                Some(posting) => posting.insert(id),
                None => {
                    self.changes += 1;
                    by_name.changed = self.changes;
                    by_name.values.insert(label.clone(), Posting::One(id));
                }
            }
        }
        id
    }

    /// Removes `user` from those of a set, and the set with the last.
    pub(crate) fn release(&mut self, id: u32, user: u32) {
        let slot = &mut self.sets[id as usize];
        if let Some(all) = self.shared.get_mut(&id) {
            all.remove(user);
            if let (1, Some(last)) = (all.len(), all.min()) {
                slot.user = last;
                self.shared.remove(&id);
            }
            return;
        }
        let set = std::mem::take(&mut slot.set);
        for label in &set {
            let Some(by_name) = self.names.get_mut(label.name()) else {
                continue;
            };
            if by_name
                .values
                .get_mut(label)
                .is_some_and(|posting| posting.remove(id))
            {
                by_name.values.remove(label);
                self.changes += 1;
                by_name.changed = self.changes;
            }
            if by_name.values.is_empty() {
                self.names.remove(label.name());
                self.names_changed = self.changes;
            }
        }
        self.ids.remove(&set);
        self.all.remove(id);
        self.free.push(id);
    }

    /// Releases the memory of removed sets, if it is most of what is held.
    pub(crate) fn fit(&mut self) {
        if self.ids.len() * 4 < self.sets.len() {
            // Numbers in use stay; those after the last one can go.
            self.free.sort_unstable();
            while self
                .free
                .pop_if(|last| *last as usize + 1 == self.sets.len())
                .is_some()
            {
                self.sets.pop();
            }
            self.sets.shrink_to(self.sets.len() * 2);
            self.free.shrink_to(self.free.len() * 2);
        }
        fit(&mut self.ids);
        fit(&mut self.shared);
        fit(&mut self.names);
        self.names
            .values_mut()
            .for_each(|by_name| fit(&mut by_name.values));
    }

    /// Returns the values that sets have for label `name`, unordered.
    pub(crate) fn values_of(&self, name: &str) -> impl Iterator<Item = &str> {
        let by_name = self.names.get(name).into_iter();
        by_name.flat_map(|by_name| by_name.values.keys().map(Label::value))
    }

    /// Returns a number that changes whenever a value of label `name` comes or goes.
    pub(crate) fn values_changed(&self, name: &str) -> u64 {
        self.names.get(name).map_or(0, |by_name| by_name.changed)
    }

    /// Returns a number that changes whenever the name of a label comes or goes.
    pub(crate) fn names_changed(&self) -> u64 {
        self.names_changed
    }

    /// Returns the entries that use any of the sets.
    pub(crate) fn users(&self, ids: &SetIds) -> EntryIds {
        let mut users = EntryIds::new();
        let mut last = None;
        for id in ids {
            match self.shared.get(&id) {
                // Origins of a kind use the same sets.
                Some(all) if last == Some(all) => {}
                Some(all) => {
                    users |= all;
                    last = Some(all);
                }
                None => {
                    users.insert(self.sets[id as usize].user);
                }
            }
        }
        users
    }

    /// Returns how many sets have one of `values` for label `name`.
    pub(crate) fn count(&self, name: &str, values: &[&str]) -> u64 {
        let by_name = self.names.get(name);
        by_name.map_or(0, |by_name| by_name.count(values))
    }

    /// Returns the number of set numbers, including those of freed sets.
    pub(crate) fn len(&self) -> usize {
        self.sets.len()
    }

    /// Returns a set by its number.
    pub(crate) fn set(&self, id: u32) -> &LabelSet {
        &self.sets[id as usize].set
    }

    /// Returns the names of all labels.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(|name| &**name)
    }

    /// Returns the labels of one name, each once.
    pub(crate) fn values(&self, name: &str) -> impl Iterator<Item = &Label> {
        let by_name = self.names.get(name).into_iter();
        by_name.flat_map(|by_name| by_name.values.keys())
    }

    /// Returns a set's hash by its number.
    pub(crate) fn hash(&self, id: u32) -> LabelHash {
        self.sets[id as usize].hash
    }

    /// Returns the sets whose label (the empty value if missing) satisfies `matcher`.
    ///
    /// # Errors
    /// Fails when stopped.
    pub(crate) fn matching(&self, matcher: &Matcher, stop: &Stop) -> Result<SetIds, StopReason> {
        let Some(by_name) = self.names.get(&*matcher.name) else {
            return Ok(if matcher.matches_empty() {
                self.all.clone()
            } else {
                SetIds::new()
            });
        };
        // A matcher that accepts the empty value is resolved by the values it refuses: fewer to collect, and no list of
        // absences.
        if matcher.matches_empty() {
            let mut rest = self.all.clone();
            let refused = |value: &str| !matcher.matches(value);
            rest -= by_name.collect(&inverse_values(matcher), refused, stop)?;
            return Ok(rest);
        }
        let accepted = |value: &str| matcher.matches(value);
        by_name.collect(&matcher.accepted_values(), accepted, stop)
    }
}

fn fit<K: Eq + Hash, V, S: BuildHasher>(map: &mut HashMap<K, V, S>) {
    if map.len() * 4 < map.capacity() {
        map.shrink_to(map.len() * 2);
    }
}

/// Returns the only values that `matcher` refuses, if they can be listed.
fn inverse_values(matcher: &Matcher) -> Option<Vec<&str>> {
    (matcher.op == MatchOp::NotEqual).then(|| vec![&*matcher.value])
}

/// Cost of matching a value, in samples read.
const VALUE_WORK: usize = 64;

impl ByName {
    /// Returns how many sets have one of `values`.
    fn count(&self, values: &[&str]) -> u64 {
        let postings = values.iter().filter_map(|value| self.posting(value));
        postings.map(Posting::len).sum()
    }

    fn posting(&self, value: &str) -> Option<&Posting> {
        // The table is keyed by interned labels: names are equal, so any of them gives the name.
        let name = self.values.keys().next()?.name();
        self.values.get(&Label::new(name, value))
    }

    /// Unites the postings of the listed values, or, without a list, of the values that `accept` approves.
    fn collect(
        &self,
        listed: &Option<Vec<&str>>,
        accept: impl Fn(&str) -> bool,
        stop: &Stop,
    ) -> Result<SetIds, StopReason> {
        let mut ids = SetIds::new();
        let mut pace = stop.pace();
        match listed {
            Some(values) if values.len() < self.values.len() && self.values.len() > 8 => {
                for value in values {
                    pace.spend(VALUE_WORK)?;
                    if let Some(posting) = self.posting(value) {
                        posting.add_to(&mut ids);
                    }
                }
            }
            _ => {
                for (label, posting) in &self.values {
                    pace.spend(VALUE_WORK)?;
                    if accept(label.value()) {
                        posting.add_to(&mut ids);
                    }
                }
            }
        }
        Ok(ids)
    }
}

impl Posting {
    fn len(&self) -> u64 {
        match self {
            Self::One(_) => 1,
            Self::Many(ids) => ids.len(),
        }
    }

    fn insert(&mut self, id: u32) {
        match self {
            Self::One(other) => *self = Self::Many(Box::new([*other, id].into_iter().collect())),
            Self::Many(ids) => {
                ids.insert(id);
            }
        }
    }

    /// Removes `id`; returns whether nothing is left.
    fn remove(&mut self, id: u32) -> bool {
        match self {
            Self::One(other) => *other == id,
            Self::Many(ids) => {
                ids.remove(id);
                ids.is_empty()
            }
        }
    }

    fn add_to(&self, ids: &mut SetIds) {
        match self {
            Self::One(id) => {
                ids.insert(*id);
            }
            Self::Many(many) => *ids |= &**many,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_testkit::rng::SplitMix64;
    use std::collections::BTreeMap;

    fn set(text: &str) -> LabelSet {
        LabelSet::new(text.split(',').filter_map(|pair| pair.split_once('=')))
    }

    #[test]
    fn postings_agree_with_matching_every_set() {
        let mut table = SetTable::default();
        let sets: Vec<LabelSet> = (0..200)
            .map(|i| {
                set(&format!(
                    "__name__=m{},i={i},code={}",
                    i % 7,
                    if i % 3 == 0 { "" } else { "x" }
                ))
            })
            .collect();
        let ids: Vec<u32> = sets.iter().map(|set| table.acquire(set, 1)).collect();
        let users_of = |table: &SetTable, id: u32| -> Vec<u32> {
            table
                .users(&[id].into_iter().collect())
                .into_iter()
                .collect()
        };
        assert_eq!(users_of(&table, ids[5]), [1]);
        assert_eq!(table.acquire(&sets[5], 7), ids[5]);
        assert_eq!(table.acquire(&sets[5], 4), ids[5]);
        assert_eq!(users_of(&table, ids[5]), [1, 4, 7]);
        table.release(ids[5], 1);
        assert_eq!(users_of(&table, ids[5]), [4, 7]);
        table.acquire(&sets[5], 9);
        assert_eq!(users_of(&table, ids[5]), [4, 7, 9]);
        table.release(ids[5], 4);
        table.release(ids[5], 7);
        assert_eq!(users_of(&table, ids[5]), [9]);
        table.acquire(&sets[5], 7);
        table.release(ids[5], 9);
        assert_eq!(users_of(&table, ids[5]), [7]);
        for at in (0..200).step_by(9) {
            table.release(ids[at], 1);
        }
        let matchers = [
            (MatchOp::Equal, "__name__", "m3"),
            (MatchOp::NotEqual, "__name__", "m3"),
            (MatchOp::Equal, "code", ""),
            (MatchOp::NotEqual, "code", ""),
            (MatchOp::Regex, "i", "1.*|7"),
            (MatchOp::Regex, "i", "1|17|nope"),
            (MatchOp::NotRegex, "i", "1.*"),
            (MatchOp::Regex, "code", "x?"),
            (MatchOp::Equal, "nope", ""),
            (MatchOp::Equal, "nope", "x"),
        ];
        for (op, name, value) in matchers {
            let matcher = Matcher::new(op, name, value).unwrap();
            let found = table.matching(&matcher, &Stop::never()).unwrap();
            for (at, set) in sets.iter().enumerate() {
                let expected = at % 9 != 0 && matcher.matches(set.get(name).unwrap_or_default());
                assert_eq!(found.contains(ids[at]), expected, "{matcher} on {set}");
            }
        }
        for at in (0..200).filter(|at| at % 9 != 0) {
            table.release(ids[at], if at == 5 { 7 } else { 1 });
        }
        assert!(table.shared.is_empty());
        assert!(table.all.is_empty() && table.names.is_empty() && table.ids.is_empty());
    }

    #[test]
    fn users_are_known_however_they_come_and_go() {
        let mut rng = SplitMix64::new(7);
        let set = |at: usize| LabelSet::new([("set", &*at.to_string())]);
        let mut table = SetTable::default();
        let mut known: Vec<BTreeMap<u32, u32>> = vec![BTreeMap::new(); 4];
        for _ in 0..5_000 {
            let (at, user) = (rng.index(4), rng.index(5) as u32);
            match known[at].remove(&user) {
                Some(id) => table.release(id, user),
                None => {
                    let id = table.acquire(&set(at), user);
                    known[at].insert(user, id);
                }
            }
            for users in known.iter().filter(|users| !users.is_empty()) {
                let ids = users.values().copied().collect();
                assert!(table.users(&ids).iter().eq(users.keys().copied()));
            }
        }
        assert_eq!(
            table.all.len(),
            known.iter().filter(|users| !users.is_empty()).count() as u64
        );
    }
}
