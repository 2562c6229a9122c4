//! Index of the head: strips by origin, local sets, and a table from identities to (strip, column).
//!
//! A matcher on a label of a strip's common set is decided for the whole strip; the rest are answered by the postings
//! of local sets. Which strips are asked at all follows from who uses the sets that a matcher with few values finds, so
//! that a selector of one metric costs nothing for origins without it. A series is a strip and a column, so the index
//! costs bytes per origin and per set, and per series the identity table (9 bytes) and the users of its set (up to 2).
//!
//! **Invariant:** an identity is in the table once for each strip that has it, and never twice for one strip.

mod postings;
mod selections;

use postings::EntryIds;
pub(crate) use postings::{SetIds, SetTable};

use super::strip::Strip;
use hashbrown::HashTable;
use narthex_model::sync::Whole as _;
use narthex_model::{
    LabelHash, LabelSet, METRIC_NAME, Matcher,
    storage::{Budget, Context, Lease, OverBudget, Stop, StopReason, StorageError},
};
use selections::{Known, Selections};
use smallvec::SmallVec;
use std::{
    collections::{HashMap, hash_map::Entry as MapEntry},
    sync::{Arc, Mutex},
};

/// Cost of deciding a matcher for a strip, in samples read.
const MATCHER_WORK: usize = 16;
/// Most sets whose users are looked up to narrow a search.
const FEW_SETS: u64 = 1024;
/// Strips that are sooner asked themselves than found by another matcher.
const FEW_ENTRIES: u64 = 16;

/// Location of a series: an entry of the index and a column of its strip.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Place {
    entry: u32,
    pub(crate) column: u32,
}

/// Everything the head can look up by label.
#[derive(Debug)]
pub(crate) struct Index {
    /// The local sets.
    sets: SetTable,
    /// The common sets.
    commons: SetTable,
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    by_strip: HashMap<u32, u32, foldhash::fast::RandomState>,
    by_common: HashMap<LabelSet, Vec<u32>, foldhash::fast::RandomState>,
    identities: HashTable<Place>,
    /// What was selected, and no change since concerns.
    selections: Mutex<Selections>,
    /// How often a strip or a column came or a strip went.
    changes: u64,
    /// All strips by number, built on demand.
    ordered: Mutex<Option<Arc<[Arc<Strip>]>>>,
}

#[derive(Debug)]
struct Entry {
    strip: Arc<Strip>,
    common: LabelHash,
    /// Number of its common set.
    common_id: u32,
    /// The local set of each column.
    sets: Vec<u32>,
}

/// Strips that have a series, each with its column.
pub(crate) type Owners = Vec<(Arc<Strip>, u32)>;

/// Column of a series in a strip.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Resolved {
    /// An existing column.
    Known(u32),
    /// A new, appended column.
    Fresh(u32),
}

/// A selection that is kept, with a number that nothing else ever kept has.
pub(crate) type Numbered = (u64, Arc<[Chosen]>);

/// The selected columns of one strip, ascending.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) strip: Arc<Strip>,
    pub(crate) columns: Arc<[u32]>,
}

/// What is searched.
struct Search<'a> {
    matchers: &'a [Matcher],
    /// The sets that satisfy each matcher, where they were looked up.
    of_matcher: Vec<Option<SetIds>>,
    /// Strips with nothing at or after this are left out.
    from_ms: i64,
    stop: &'a Stop,
}

/// Local sets that satisfy some matchers, and where the last strips have them: origins of a kind have the same columns.
struct ChosenSets {
    /// `None`: all.
    ids: Option<SetIds>,
    /// For each of few sets, the last column found.
    places: Vec<u32>,
    /// The last columns of few sets.
    few: Arc<[u32]>,
    /// The last entry of which all columns were looked at, and those found.
    last: Option<(usize, Arc<[u32]>)>,
}

impl Index {
    /// Returns an empty index; what it keeps for queries leases from `memory`.
    pub(crate) fn new(memory: &Budget) -> Self {
        Self {
            sets: SetTable::default(),
            commons: SetTable::default(),
            entries: Vec::new(),
            free: Vec::new(),
            by_strip: HashMap::default(),
            by_common: HashMap::default(),
            identities: HashTable::default(),
            selections: Mutex::new(Selections::new(memory)),
            changes: 0,
            ordered: Mutex::default(),
        }
    }

    /// Adds a strip without columns.
    pub(crate) fn add_strip(&mut self, strip: &Arc<Strip>) {
        let at = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            u32::try_from(self.entries.len() - 1).expect("fewer than 2^32 strips")
        });
        self.entries[at as usize] = Some(Entry {
            strip: Arc::clone(strip),
            common: strip.common.hash(),
            common_id: self.commons.acquire(&strip.common, at),
            sets: Vec::new(),
        });
        self.by_strip.insert(strip.id, at);
        self.changes += 1;
        self.forget_order();
        self.by_common
            .entry(strip.common.clone())
            .or_default()
            .push(at);
    }

    /// Finds the column of a strip with this local set, or appends one if `create` is set.
    ///
    /// If other strips have the series of a new column too, adds it to `shared` with them, oldest first.
    pub(crate) fn resolve(
        &mut self,
        strip: u32,
        set: &LabelSet,
        create: bool,
        shared: &mut Vec<(u32, Owners)>,
    ) -> Option<Resolved> {
        let at = *self.by_strip.get(&strip)?;
        let identity = self.entries[at as usize].as_ref()?.common + set.hash();
        let mut others: Vec<Place> = Vec::new();
        for place in self.identities.iter_hash(identity.low()) {
            if hash_at(&self.entries, &self.sets, *place) == Some(identity) {
                if place.entry == at {
                    return Some(Resolved::Known(place.column));
                }
                others.push(*place);
            }
        }
        if !create {
            return None;
        }
        let entry = self.entries[at as usize].as_mut()?;
        let selections = self.selections.get_mut().whole();
        if !selections.is_empty() {
            selections.note_change(metric_name(&entry.strip.common, set), strip);
        }
        self.changes += 1;
        let id = self.sets.acquire(set, at);
        let columns = &mut entry.sets;
        let column = u32::try_from(columns.len()).expect("fewer than 2^32 columns");
        columns.push(id);
        let (entries, sets) = (&self.entries, &self.sets);
        let hash_of = |place: &Place| hash_at(entries, sets, *place).map_or(0, LabelHash::low);
        self.identities
            .insert_unique(identity.low(), Place { entry: at, column }, hash_of);
        if !others.is_empty() {
            shared.push((column, self.owners(others)));
        }
        Some(Resolved::Fresh(column))
    }

    /// Reserves room for `columns` more columns of a strip.
    pub(crate) fn reserve(&mut self, strip: u32, columns: usize) {
        let Some(&at) = self.by_strip.get(&strip) else {
            return;
        };
        if let Some(entry) = &mut self.entries[at as usize] {
            entry.sets.reserve_exact(columns);
        }
        let (entries, sets) = (&self.entries, &self.sets);
        let hash_of = |place: &Place| hash_at(entries, sets, *place).map_or(0, LabelHash::low);
        self.identities.reserve(columns, hash_of);
    }

    fn owners(&self, mut places: Vec<Place>) -> Owners {
        places.sort_by_key(|place| self.strip_at(*place).map(|strip| strip.id));
        let owner = |place: Place| Some((Arc::clone(self.strip_at(place)?), place.column));
        places.into_iter().filter_map(owner).collect()
    }

    /// Returns the oldest strip with this identity.
    pub(crate) fn find_first(&self, identity: LabelHash) -> Option<(&Arc<Strip>, u32)> {
        self.find_all(identity).min_by_key(|(strip, _)| strip.id)
    }

    /// Returns all strips with this identity, and their columns.
    pub(crate) fn find_all(&self, identity: LabelHash) -> impl Iterator<Item = (&Arc<Strip>, u32)> {
        let same =
            move |place: &&Place| hash_at(&self.entries, &self.sets, **place) == Some(identity);
        let places = self.identities.iter_hash(identity.low()).filter(same);
        places.filter_map(|place| Some((self.strip_at(*place)?, place.column)))
    }

    /// Returns the column of one strip with this identity.
    pub(crate) fn find_in(&self, strip: u32, identity: LabelHash) -> Option<u32> {
        let at = *self.by_strip.get(&strip)?;
        self.find_at(at, identity)
    }

    fn find_at(&self, at: u32, identity: LabelHash) -> Option<u32> {
        let here = |place: &&Place| {
            place.entry == at && hash_at(&self.entries, &self.sets, **place) == Some(identity)
        };
        self.identities
            .iter_hash(identity.low())
            .find(here)
            .map(|place| place.column)
    }

    fn strip_at(&self, place: Place) -> Option<&Arc<Strip>> {
        self.entries[place.entry as usize]
            .as_ref()
            .map(|entry| &entry.strip)
    }

    /// Removes a strip with all its columns; returns their number.
    pub(crate) fn remove_strip(&mut self, strip: u32) -> usize {
        let Some(at) = self.by_strip.remove(&strip) else {
            return 0;
        };
        let Some(entry) = &self.entries[at as usize] else {
            return 0;
        };
        let selections = self.selections.get_mut().whole();
        for set in &entry.sets {
            if selections.is_empty() {
                break;
            }
            let local = self.sets.set(*set);
            selections.forget(metric_name(&entry.strip.common, local));
        }
        for (column, set) in (0u32..).zip(&entry.sets) {
            let identity = entry.common + self.sets.hash(*set);
            let place = Place { entry: at, column };
            if let Ok(found) = self
                .identities
                .find_entry(identity.low(), |other| *other == place)
            {
                found.remove();
            }
        }
        let Some(entry) = self.entries[at as usize].take() else {
            return 0;
        };
        let sets = entry.sets.iter();
        sets.for_each(|set| self.sets.release(*set, at));
        self.commons.release(entry.common_id, at);
        if let Some(same) = self.by_common.get_mut(&entry.strip.common) {
            same.retain(|other| *other != at);
            if same.is_empty() {
                self.by_common.remove(&entry.strip.common);
            }
        }
        self.free.push(at);
        self.changes += 1;
        self.forget_order();
        entry.sets.len()
    }

    /// Releases the memory of removed strips, if it is most of what is held.
    pub(crate) fn fit(&mut self) {
        if self.identities.len() * 4 < self.identities.capacity() {
            let (entries, sets) = (&self.entries, &self.sets);
            self.identities
                .shrink_to(self.identities.len() * 2, |place| {
                    hash_at(entries, sets, *place).map_or(0, LabelHash::low)
                });
        }
        self.sets.fit();
        self.commons.fit();
    }

    /// Returns all strips, oldest first.
    pub(crate) fn strips(&self) -> Arc<[Arc<Strip>]> {
        let mut ordered = self.ordered.lock().whole();
        let ordered = ordered.get_or_insert_with(|| {
            let strips = self
                .entries
                .iter()
                .flatten()
                .map(|entry| Arc::clone(&entry.strip));
            let mut strips: Vec<Arc<Strip>> = strips.collect();
            strips.sort_by_key(|strip| strip.id);
            strips.into()
        });
        Arc::clone(ordered)
    }

    fn forget_order(&mut self) {
        *self.ordered.get_mut().whole() = None;
    }

    /// Returns the strips with this common set, oldest first.
    pub(crate) fn strips_of(&self, common: &LabelSet) -> Vec<Arc<Strip>> {
        let entries = self.by_common.get(common).into_iter().flatten();
        let strips = entries.filter_map(|at| self.entries[*at as usize].as_ref());
        strips.map(|entry| Arc::clone(&entry.strip)).collect()
    }

    /// Returns the local sets.
    pub(crate) fn sets(&self) -> &SetTable {
        &self.sets
    }

    /// Returns the common sets.
    pub(crate) fn commons(&self) -> &SetTable {
        &self.commons
    }

    /// Returns a number that changes whenever a strip or a column comes, or a strip goes.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the local set of each column of a strip.
    pub(crate) fn sets_of(&self, strip: u32) -> Option<&[u32]> {
        let at = *self.by_strip.get(&strip)?;
        Some(&self.entries[at as usize].as_ref()?.sets)
    }

    /// Returns the number of series, counted once for each strip that has them.
    pub(crate) fn series(&self) -> usize {
        self.identities.len()
    }

    /// Selects the columns whose series satisfy all `matchers`, strips by age, columns ascending; `lease` grows by
    /// `column_bytes` for each.
    ///
    /// Strips with nothing at or after `min_ms` are left out before anything else is asked of them.
    ///
    /// # Errors
    /// Fails over budget, and when stopped: readers of the index keep its writers waiting.
    pub(crate) fn select(
        &self,
        matchers: &[Matcher],
        min_ms: i64,
        stop: &Stop,
        column_bytes: usize,
        lease: &mut Lease,
    ) -> Result<Arc<[Chosen]>, StorageError> {
        let recent = |all: &Arc<[Chosen]>| {
            let is_recent = |chosen: &&Chosen| chosen.strip.max_ms() >= min_ms;
            let has_ended = all.iter().any(|chosen| !is_recent(&chosen));
            match has_ended {
                true => all.iter().filter(is_recent).cloned().collect(),
                false => Arc::clone(all),
            }
        };
        let bytes_of = |chosen: &[Chosen]| {
            let columns: usize = chosen.iter().map(|chosen| chosen.columns.len()).sum();
            (columns * column_bytes) as u64
        };
        let mut selections = self.selections.lock().whole();
        if let Some(known) = selections.get(matchers) {
            drop(selections);
            let all = self.up_to_date(matchers, known, stop)?;
            let recent = recent(&all);
            lease.grow(bytes_of(&recent))?;
            return Ok(recent);
        }
        // What is kept is for all times.
        let from_ms = if selections.is_asked_again(matchers) {
            i64::MIN
        } else {
            min_ms
        };
        drop(selections);
        let mut of_matcher = vec![None; matchers.len()];
        let candidates = self.candidates(matchers, &mut of_matcher, stop)?;
        let places: Box<dyn Iterator<Item = usize>> = match &candidates {
            Some(some) => Box::new(some.iter().map(|at| at as usize)),
            None => Box::new(0..self.entries.len()),
        };
        let mut found = |columns: usize| -> Result<(), OverBudget> {
            lease.grow((columns * column_bytes) as u64)
        };
        let search = Search {
            matchers,
            of_matcher,
            from_ms,
            stop,
        };
        let (mut chosen, has_ended) = self.search(search, places, &mut found)?;
        chosen.sort_by_key(|chosen| chosen.strip.id);
        let chosen: Arc<[Chosen]> = chosen.into();
        // Few had to be asked, and none was left out.
        if candidates.is_some() && !has_ended {
            self.selections.lock().whole().keep(matchers, &chosen);
        }
        if from_ms == min_ms {
            return Ok(chosen);
        }
        let recent = recent(&chosen);
        lease.shrink(bytes_of(&chosen) - bytes_of(&recent));
        Ok(recent)
    }

    /// Returns a selection that was kept with what changed since.
    fn up_to_date(
        &self,
        matchers: &[Matcher],
        known: Known,
        stop: &Stop,
    ) -> Result<Arc<[Chosen]>, StorageError> {
        let Known {
            chosen,
            mut changed,
            ..
        } = known;
        if changed.is_empty() {
            return Ok(chosen);
        }
        changed.sort_unstable();
        changed.dedup();
        let places = changed.iter().filter_map(|strip| self.by_strip.get(strip));
        let search = Search {
            matchers,
            of_matcher: vec![None; matchers.len()],
            from_ms: i64::MIN,
            stop,
        };
        let (mut found, _) = self.search(search, places.map(|at| *at as usize), &mut |_| Ok(()))?;
        // Strips of a kind go on sharing the list of their columns.
        if let Some(like) = chosen.last() {
            let same = found.iter_mut().filter(|new| new.columns == like.columns);
            same.for_each(|new| new.columns = Arc::clone(&like.columns));
        }
        let is_same = |chosen: &&Chosen| changed.binary_search(&chosen.strip.id).is_err();
        let mut all: Vec<Chosen> = chosen.iter().filter(is_same).cloned().collect();
        all.extend(found);
        all.sort_by_key(|chosen| chosen.strip.id);
        let all: Arc<[Chosen]> = all.into();
        self.selections.lock().whole().keep(matchers, &all);
        Ok(all)
    }

    /// Searches the strips of some entries, passing the number of columns of each that is found to `found`; reports whether one was
    /// left out because it has nothing recent.
    fn search(
        &self,
        search: Search<'_>,
        places: impl Iterator<Item = usize>,
        found: &mut dyn FnMut(usize) -> Result<(), OverBudget>,
    ) -> Result<(Vec<Chosen>, bool), StorageError> {
        let Search {
            matchers,
            mut of_matcher,
            from_ms,
            stop,
        } = search;
        let mut pace = stop.pace();
        let mut of_rest: HashMap<Vec<usize>, ChosenSets> = HashMap::new();
        let (mut chosen, mut has_ended) = (Vec::new(), false);
        for at in places {
            let Some(entry) = &self.entries[at] else {
                continue;
            };
            pace.spend(1)?;
            if entry.strip.max_ms() < from_ms {
                has_ended = true;
                continue;
            }
            pace.spend(matchers.len() * MATCHER_WORK)?;
            let Some(local) = undecided(&entry.strip.common, matchers) else {
                continue;
            };
            pace.spend(entry.sets.len())?;
            let sets = match of_rest.entry(local) {
                MapEntry::Occupied(known) => known.into_mut(),
                MapEntry::Vacant(vacant) => {
                    let ids = self.intersect(vacant.key(), matchers, &mut of_matcher, stop)?;
                    vacant.insert(ChosenSets {
                        ids,
                        places: Vec::new(),
                        few: Arc::default(),
                        last: None,
                    })
                }
            };
            let columns = self.columns_with(at, entry, sets);
            if !columns.is_empty() {
                found(columns.len())?;
                chosen.push(Chosen {
                    strip: Arc::clone(&entry.strip),
                    columns,
                });
            }
        }
        Ok((chosen, has_ended))
    }

    /// Returns what `matchers` select in all strips, by age; `None` where it is not kept.
    ///
    /// # Errors
    /// As `select`.
    pub(crate) fn kept(
        &self,
        matchers: &[Matcher],
        ctx: &Context,
    ) -> Result<Option<Numbered>, StorageError> {
        let known = || {
            let known = self.selections.lock().whole().get(matchers);
            let known = known.filter(|known| known.changed.is_empty());
            known.map(|known| (known.number, known.chosen))
        };
        if let Some(known) = known() {
            return Ok(Some(known));
        }
        let mut lease = ctx.budget.lease(0)?;
        let column_bytes = 2 * size_of::<u32>();
        self.select(matchers, i64::MIN, &ctx.stop, column_bytes, &mut lease)?;
        Ok(known())
    }

    /// Returns the entries that can have a series with the labels that `matchers` want, found by those that accept few
    /// values; `None` if there are none such. Keeps the sets it looked up in `of_matcher`.
    ///
    /// The matcher with the fewest sets is looked up first: a metric has a dozen where a service has one for each of its
    /// recorded series.
    fn candidates(
        &self,
        matchers: &[Matcher],
        of_matcher: &mut [Option<SetIds>],
        stop: &Stop,
    ) -> Result<Option<EntryIds>, StopReason> {
        // One that accepts the empty value is satisfied by what lacks the label, too.
        let narrowing = matchers.iter().enumerate().filter_map(|(at, matcher)| {
            let values = matcher.accepted_values();
            let values = values.filter(|_| !matcher.matches_empty())?;
            let sets = [&self.sets, &self.commons];
            let count = sets.map(|sets| sets.count(&matcher.name, &values));
            Some((count.iter().sum::<u64>(), at))
        });
        let mut narrowing: Vec<(u64, usize)> = narrowing.collect();
        narrowing.sort_unstable();
        let mut found: Option<EntryIds> = None;
        for (count, at) in narrowing {
            let asked = found.as_ref().map(EntryIds::len);
            // Asking an entry costs about as much as looking up who uses a set.
            if count > FEW_SETS || asked.is_some_and(|asked| asked <= FEW_ENTRIES.max(count)) {
                break;
            }
            let (matcher, known) = (&matchers[at], &mut of_matcher[at]);
            let local = known.insert(self.sets.matching(matcher, stop)?);
            let common = self.commons.matching(matcher, stop)?;
            let users = self.sets.users(local) | self.commons.users(&common);
            found = Some(match found {
                None => users,
                Some(before) => before & users,
            });
        }
        Ok(found)
    }

    /// Returns the sets that satisfy the matchers numbered `local`; `None`, for all, when there are no such matchers.
    fn intersect(
        &self,
        local: &[usize],
        matchers: &[Matcher],
        cache: &mut [Option<SetIds>],
        stop: &Stop,
    ) -> Result<Option<SetIds>, StopReason> {
        let mut result: Option<SetIds> = None;
        for &at in local {
            let ids = match &mut cache[at] {
                Some(ids) => ids,
                unknown => unknown.insert(self.sets.matching(&matchers[at], stop)?),
            };
            result = Some(match result {
                None => ids.clone(),
                Some(before) => before & &*ids,
            });
        }
        Ok(result)
    }

    /// Returns the columns of entry `at` whose set is in `sets`.
    fn columns_with(&self, at: usize, entry: &Entry, sets: &mut ChosenSets) -> Arc<[u32]> {
        // A look-up costs about as much as thirty bit tests.
        if let Some(ids) = &sets.ids
            && ids.len() * 32 < entry.sets.len() as u64
        {
            sets.places
                .resize(usize::try_from(ids.len()).unwrap_or(0), 0);
            let mut columns = Vec::new();
            for (id, place) in ids.iter().zip(&mut sets.places) {
                if entry.sets.get(*place as usize) != Some(&id) {
                    match self.find_at(at as u32, entry.common + self.sets.hash(id)) {
                        Some(column) => *place = column,
                        None => continue,
                    }
                }
                columns.push(*place);
            }
            columns.sort_unstable();
            if *sets.few != *columns {
                sets.few = columns.into();
            }
            return Arc::clone(&sets.few);
        }
        let last = sets.last.as_ref().and_then(|(other, columns)| {
            let same = self.entries[*other].as_ref()?.sets == entry.sets;
            same.then(|| Arc::clone(columns))
        });
        let columns = last.unwrap_or_else(|| {
            let is_chosen = |set: u32| sets.ids.as_ref().is_none_or(|ids| ids.contains(set));
            let own = (0u32..).zip(&entry.sets);
            let chosen = own.filter(|(_, set)| is_chosen(**set));
            let columns: SmallVec<[u32; 64]> = chosen.map(|(column, _)| column).collect();
            // Where targets of a kind differ in one set, the others are at the same places.
            match &sets.last {
                Some((_, before)) if **before == *columns => Arc::clone(before),
                _ => columns.as_slice().into(),
            }
        });
        sets.last = Some((at, Arc::clone(&columns)));
        columns
    }
}

fn hash_at(entries: &[Option<Entry>], sets: &SetTable, place: Place) -> Option<LabelHash> {
    let entry = entries[place.entry as usize].as_ref()?;
    Some(entry.common + sets.hash(entry.sets[place.column as usize]))
}

/// Returns the name by which a matcher finds a series, empty if it has none.
fn metric_name<'a>(common: &'a LabelSet, local: &'a LabelSet) -> &'a str {
    let name = common.get(METRIC_NAME).or_else(|| local.get(METRIC_NAME));
    name.unwrap_or_default()
}

/// Lists the matchers left to the local sets, or `None` when the common set fails one.
fn undecided(common: &LabelSet, matchers: &[Matcher]) -> Option<Vec<usize>> {
    let value = |matcher: &Matcher| common.get(&matcher.name);
    let fails = |matcher: &Matcher| value(matcher).is_some_and(|value| !matcher.matches(value));
    // Most candidates fail, so nothing is allocated before.
    if matchers.iter().any(fails) {
        return None;
    }
    let local = matchers
        .iter()
        .enumerate()
        .filter(|(_, matcher)| value(matcher).is_none());
    Some(local.map(|(at, _)| at).collect())
}

#[cfg(test)]
mod tests;
