//! Resolution of matchers to the strips and columns of a block.
//!
//! A matcher on a label of a strip's common set is decided for the whole strip; the rest are answered by the
//! postings of local sets. The data that one choice of local sets needs (columns, hashes, labels, group keys) is
//! computed once and shared by all strips with the same columns, as the targets of one job have, and by all queries
//! while the cache keeps it.
//!
//! **Invariant:** a block never changes, so neither does what its matchers select.

use super::chosen::ChosenColumns;
use super::format::SectionKind;
use super::reader::{Block, Index};
use super::strip_table::{STOP_STRIPS, StripTable};
use crate::bytes::Malformed;
use crate::error::TsdbError;
use narthex_model::storage::{Lease, Stop, StorageError, TimeRange};
use narthex_model::{LabelHash, MatchOp, Matcher};
use roaring::RoaringBitmap;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, OnceLock};

/// What is known about the series of a block that satisfy a list of matchers.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// The matchers' names, operators and values: a compiled pattern belongs to its query.
    matchers: Vec<(Box<str>, MatchOp, Box<str>)>,
    /// For each matcher, the pairs of its label, and which of them satisfy it.
    pairs: Arc<[MatcherPairs]>,
    columns: HashMap<ColumnsKey, Arc<ChosenColumns>>,
    /// The same, by a hash of the columns and their sets: each once, but for different ones with equal hashes.
    by_content: HashMap<u64, Arc<ChosenColumns>>,
    /// The strips with chosen columns, ascending, once all were looked at.
    strips: Option<ChosenStrips>,
}

/// Strips by their places in the block's table, with their chosen columns.
#[derive(Clone, Debug)]
struct ChosenStrips {
    /// Place, and number of the columns in the list.
    strips: Arc<[(u32, u32)]>,
    columns: Arc<[Arc<ChosenColumns>]>,
}

/// The layout of a strip's columns, and the matchers they decide.
type ColumnsKey = (u32, Vec<usize>);

/// Resolves matchers against one block.
pub(super) struct Resolver<'b> {
    block: &'b Arc<Block>,
    index: &'b Arc<Index>,
    matchers: &'b [Matcher],
    /// What is known already, copied as soon as more becomes known.
    choice: Arc<Choice>,
    /// For each matcher, the sets that satisfy it.
    sets: Vec<Option<RoaringBitmap>>,
    /// The last undecided matchers, and the sets that satisfy all of them; `None` when all sets do.
    satisfying_all: Option<(Vec<usize>, Option<RoaringBitmap>)>,
    /// Matchers left to the local sets of the strip that is being looked at.
    undecided: Vec<usize>,
    /// Columns that this query has leased, by their address: the choice keeps them.
    leased: HashSet<*const ChosenColumns, foldhash::fast::RandomState>,
    /// Columns of the last strip.
    last: Option<(ColumnsKey, Arc<ChosenColumns>)>,
    /// Whether anything became known.
    learned: bool,
}

#[derive(Debug)]
struct MatcherPairs {
    ids: std::ops::Range<u32>,
    accepted: RoaringBitmap,
}

/// All strips are looked at if at least one in this many overlaps a query's range.
const WORTH_ALL: usize = 4;

/// Keys of choices in the cache begin here; files end before it.
const KEYS: u64 = 1 << 63;

/// Returns the key of a choice in the cache; different matchers seldom have the same.
fn key_of(matchers: &[Matcher]) -> u64 {
    let mut hasher = foldhash::fast::FixedState::default().build_hasher();
    for Matcher {
        name, op, value, ..
    } in matchers
    {
        (name, op, value).hash(&mut hasher);
    }
    hasher.finish() | KEYS
}

/// Returns a hash of columns and their sets.
fn content_of(columns: &[u32], sets: &[u32]) -> u64 {
    foldhash::fast::FixedState::default().hash_one((columns, sets))
}

impl Block {
    /// Returns what earlier queries found out about the series that satisfy `matchers`.
    pub(crate) fn choice(&self, matchers: &[Matcher]) -> Option<Arc<Choice>> {
        let known = self.known::<Choice>(key_of(matchers));
        known.filter(|choice| choice.is_of(matchers))
    }
}

impl Choice {
    /// Finds the labels that satisfy each matcher.
    fn new(block: &Block, index: &Index, matchers: &[Matcher]) -> Result<Self, TsdbError> {
        let dictionary = block.dictionary(index)?;
        let find = |matcher: &Matcher| -> Result<MatcherPairs, Malformed> {
            let Some(name) = dictionary.name(&matcher.name)? else {
                return Ok(MatcherPairs {
                    ids: 0..0,
                    accepted: RoaringBitmap::new(),
                });
            };
            let mut accepted = RoaringBitmap::new();
            if let Some(values) = matcher.accepted_values() {
                for value in values {
                    accepted.extend(name.find(value)?);
                }
            } else if matcher.op == MatchOp::NotEqual {
                accepted.insert_range(name.ids());
                if let Some(refused) = name.find(&matcher.value)? {
                    accepted.remove(refused);
                }
            } else {
                name.values(&mut |id, value| {
                    if matcher.matches(value) {
                        accepted.insert(id);
                    }
                    true
                })?;
            }
            Ok(MatcherPairs {
                ids: name.ids(),
                accepted,
            })
        };
        let pairs = matchers.iter().map(find).collect::<Result<_, _>>();
        let text = |m: &Matcher| (m.name.clone(), m.op, m.value.clone());
        Ok(Self {
            matchers: matchers.iter().map(text).collect(),
            pairs: pairs.map_err(|bad| block.malformed(&index.dictionary, &bad))?,
            columns: HashMap::new(),
            by_content: HashMap::new(),
            strips: None,
        })
    }

    /// Reports whether these are the matchers.
    fn is_of(&self, matchers: &[Matcher]) -> bool {
        let texts = self
            .matchers
            .iter()
            .map(|(name, op, value)| (name, op, value));
        texts.eq(matchers.iter().map(|m| (&m.name, &m.op, &m.value)))
    }

    /// Returns a pair that chosen strips have in their common set, if the matchers say so.
    fn pair_of_strips(&self, table: &StripTable) -> Option<u32> {
        let is_one =
            |pairs: &&MatcherPairs| pairs.accepted.len() == 1 && table.has_everywhere(&pairs.ids);
        self.pairs.iter().find(is_one)?.accepted.min()
    }

    /// Returns the approximate bytes.
    fn bytes(&self) -> usize {
        let matchers = self.matchers.iter();
        let matchers = matchers.map(|text| size_of_val(text) + text.0.len() + text.2.len());
        let pairs = self.pairs.iter();
        let pairs = pairs.map(|pairs| size_of_val(pairs) + pairs.accepted.serialized_size());
        let keys = self.columns.keys();
        let keys = keys.map(|key| size_of_val(key) + size_of_val(&*key.1) + size_of::<usize>());
        let columns = self.by_content.values().map(|columns| columns.bytes());
        let strips = self.strips.as_ref().map_or(0, |known| {
            size_of_val(&*known.strips) + size_of_val(&*known.columns)
        });
        let parts = [
            matchers.sum(),
            pairs.sum(),
            keys.sum(),
            columns.sum(),
            strips,
        ];
        parts.iter().sum()
    }
}

impl ChosenStrips {
    fn new(all: &[(u32, Arc<ChosenColumns>)]) -> Self {
        let mut numbers: HashMap<*const ChosenColumns, u32, foldhash::fast::RandomState> =
            HashMap::default();
        let mut list = Vec::new();
        let number = |(at, columns): &(u32, Arc<ChosenColumns>)| {
            let number = *numbers.entry(Arc::as_ptr(columns)).or_insert_with(|| {
                list.push(Arc::clone(columns));
                list.len() as u32 - 1
            });
            (*at, number)
        };
        Self {
            strips: all.iter().map(number).collect(),
            columns: list.into(),
        }
    }
}

impl<'b> Resolver<'b> {
    pub(super) fn new(
        block: &'b Arc<Block>,
        index: &'b Arc<Index>,
        matchers: &'b [Matcher],
    ) -> Result<Self, TsdbError> {
        let known = block.choice(matchers);
        let learned = known.is_none();
        let choice = match known {
            Some(known) => known,
            None => Arc::new(Choice::new(block, index, matchers)?),
        };
        Ok(Self {
            block,
            index,
            matchers,
            choice,
            sets: vec![None; matchers.len()],
            satisfying_all: None,
            undecided: Vec::new(),
            leased: HashSet::default(),
            last: None,
            learned,
        })
    }

    /// Selects the columns of strip `at` that satisfy all matchers; `None` if there is none.
    fn columns(
        &mut self,
        table: &StripTable,
        at: u32,
        lease: &mut Lease,
    ) -> Result<Option<Arc<ChosenColumns>>, StorageError> {
        if !self.decide(table.pairs(at)) {
            return Ok(None);
        }
        let (layout, runs) = table.columns(at);
        let is_same = |key: &ColumnsKey| key.0 == layout && key.1 == self.undecided;
        let known = self.last.as_ref().filter(|(key, _)| is_same(key));
        let columns = match known {
            Some((_, columns)) => Arc::clone(columns),
            None => {
                let key = (layout, self.undecided.clone());
                let columns = match self.choice.columns.get(&key) {
                    Some(known) => Arc::clone(known),
                    None => self.choose(runs, &key, lease)?,
                };
                self.lease(&columns, lease)?;
                self.last = Some((key, Arc::clone(&columns)));
                columns
            }
        };
        Ok(Some(columns).filter(|columns| !columns.columns.is_empty()))
    }

    /// Selects the strips that may have samples within `range` and columns that satisfy all matchers, in order; looks at all
    /// strips, for later queries too, where that pays and `keep` says so.
    ///
    /// # Errors
    /// Fails when the index is damaged, over budget, or when stopped.
    pub(super) fn strips(
        &mut self,
        table: &StripTable,
        range: TimeRange,
        keep: bool,
        lease: &mut Lease,
        stop: &Stop,
    ) -> Result<Vec<(u32, Arc<ChosenColumns>)>, StorageError> {
        let mut overlapping = Vec::new();
        if let Some(known) = self.choice.strips.clone() {
            for (count, (at, columns)) in known.strips.iter().enumerate() {
                if count.is_multiple_of(STOP_STRIPS) {
                    stop.check()?;
                }
                if table.overlaps(*at, range) {
                    let columns = &known.columns[*columns as usize];
                    self.lease(columns, lease)?;
                    overlapping.push((*at, Arc::clone(columns)));
                }
            }
            return Ok(overlapping);
        }
        let looks_at_all = keep && table.overlapping(range) * WORTH_ALL >= table.len() as usize;
        let mut all = Vec::new();
        let candidates = match self.choice.pair_of_strips(table) {
            Some(pair) => table.with_pair(pair),
            None => (0..table.len()).collect(),
        };
        for (count, at) in candidates.into_iter().enumerate() {
            if count.is_multiple_of(STOP_STRIPS) {
                stop.check()?;
            }
            let overlaps = table.overlaps(at, range);
            if !looks_at_all && !overlaps {
                continue;
            }
            let Some(columns) = self.columns(table, at, lease)? else {
                continue;
            };
            if looks_at_all {
                all.push((at, Arc::clone(&columns)));
            }
            if overlaps {
                overlapping.push((at, columns));
            }
        }
        if looks_at_all {
            self.learn().strips = Some(ChosenStrips::new(&all));
        }
        Ok(overlapping)
    }

    /// Leases memory for columns, once.
    fn lease(
        &mut self,
        columns: &Arc<ChosenColumns>,
        lease: &mut Lease,
    ) -> Result<(), StorageError> {
        if self.leased.insert(Arc::as_ptr(columns)) {
            lease.grow(ChosenColumns::bytes_of(columns.columns.len()) as u64)?;
        }
        Ok(())
    }

    /// Lists in `undecided` the matchers left to the local sets; returns whether a strip's common `labels` satisfy the others.
    fn decide(&mut self, labels: &[u32]) -> bool {
        self.undecided.clear();
        for (at, pairs) in self.choice.pairs.iter().enumerate() {
            match labels.iter().find(|pair| pairs.ids.contains(pair)) {
                Some(pair) if !pairs.accepted.contains(*pair) => return false,
                Some(_) => {}
                None => self.undecided.push(at),
            }
        }
        true
    }

    /// Selects, among columns with the local sets `runs`, those that satisfy the undecided matchers of `key`.
    fn choose(
        &mut self,
        runs: &[(u32, u32)],
        key: &ColumnsKey,
        lease: &mut Lease,
    ) -> Result<Arc<ChosenColumns>, StorageError> {
        if self
            .satisfying_all
            .as_ref()
            .is_none_or(|(of, _)| *of != key.1)
        {
            let mut all: Option<RoaringBitmap> = None;
            for &at in &key.1 {
                let sets = self.satisfying(at)?;
                all = Some(match all {
                    None => sets.clone(),
                    Some(before) => before & sets,
                });
            }
            self.satisfying_all = Some((key.1.clone(), all));
        }
        let satisfying = self
            .satisfying_all
            .as_ref()
            .and_then(|(_, sets)| sets.as_ref());
        let (mut columns, mut sets) = (Vec::new(), Vec::new());
        let mut before = 0;
        for &(first, len) in runs {
            let mut choose = |set: u32| {
                columns.push(before + (set - first));
                sets.push(set);
            };
            match satisfying {
                Some(satisfying) => satisfying.range(first..first + len).for_each(&mut choose),
                None => (first..first + len).for_each(&mut choose),
            }
            before += len;
        }
        // Layouts may differ in other columns than those that are chosen.
        let content = content_of(&columns, &sets);
        let same = self.choice.by_content.get(&content);
        let same = same.filter(|same| same.columns == columns && same.sets == sets);
        if let Some(same) = same.map(Arc::clone) {
            self.learn().columns.insert(key.clone(), Arc::clone(&same));
            return Ok(same);
        }
        lease.grow(ChosenColumns::bytes_of(columns.len()) as u64)?;
        let hashes = self.hashes(&sets)?;
        let labels = sets.iter().map(|_| OnceLock::new()).collect();
        let chosen = Arc::new(ChosenColumns {
            columns,
            sets,
            hashes,
            labels,
            ended: Mutex::default(),
        });
        let choice = self.learn();
        choice.columns.insert(key.clone(), Arc::clone(&chosen));
        choice.by_content.insert(content, Arc::clone(&chosen));
        self.leased.insert(Arc::as_ptr(&chosen));
        Ok(chosen)
    }

    /// Returns what is known, to add to it.
    fn learn(&mut self) -> &mut Choice {
        self.learned = true;
        Arc::make_mut(&mut self.choice)
    }

    /// Keeps what became known for the queries to come.
    pub(super) fn keep(self) {
        let bytes = self.choice.bytes();
        // One of all series of many different strips would push out what every query needs.
        if self.learned && self.block.keeps_among_others(bytes) {
            self.block.keep(key_of(self.matchers), self.choice, bytes);
        }
    }

    /// Returns the sets whose label (the empty value if missing) satisfies matcher `at`.
    fn satisfying(&mut self, at: usize) -> Result<&RoaringBitmap, StorageError> {
        if self.sets[at].is_none() {
            let count = self.block.sets(self.index)?.count();
            let MatcherPairs { ids, accepted } = &self.choice.pairs[at];
            let sets = if self.matchers[at].matches_empty() {
                // A matcher that accepts the empty value is resolved by the values it refuses.
                let mut refused: RoaringBitmap = ids.clone().collect();
                refused -= accepted;
                let mut sets: RoaringBitmap = (0..count).collect();
                sets -= self.sets_with(&refused, count)?;
                sets
            } else {
                self.sets_with(accepted, count)?
            };
            self.sets[at] = Some(sets);
        }
        Ok(self.sets[at].as_ref().expect("just made"))
    }

    fn sets_with(&self, pairs: &RoaringBitmap, count: u32) -> Result<RoaringBitmap, StorageError> {
        let mut sets = RoaringBitmap::new();
        if pairs.is_empty() {
            return Ok(sets);
        }
        if let Err(error) = self.add_postings(pairs, count, &mut sets) {
            // The sets themselves give the same answer, only slower.
            self.block.note(error.into())?;
            sets.clear();
            let mut add = |set: u32, own: &Vec<u32>| {
                if own.iter().any(|pair| pairs.contains(*pair)) {
                    sets.insert(set);
                }
            };
            self.block
                .sets(self.index)?
                .each(0..count, &mut add)
                .map_err(|bad| self.block.malformed(&self.index.sets, &bad))?;
        }
        Ok(sets)
    }

    fn add_postings(
        &self,
        pairs: &RoaringBitmap,
        count: u32,
        sets: &mut RoaringBitmap,
    ) -> Result<(), TsdbError> {
        let section = self.block.section(SectionKind::Postings)?;
        let postings = self.block.postings(&section)?;
        for pair in pairs {
            postings
                .add_to(pair, count, sets)
                .map_err(|bad| self.block.malformed(&section, &bad))?;
        }
        Ok(())
    }

    /// Computes the hashes of sets, decoding each label once; this also proves that the sets are readable.
    fn hashes(&self, sets: &[u32]) -> Result<Vec<LabelHash>, TsdbError> {
        let (block, index) = (self.block, self.index);
        let reader = block.sets(index)?;
        let mut used = RoaringBitmap::new();
        let each = |take: &mut dyn FnMut(u32, &Vec<u32>)| {
            reader
                .each(sets.iter().copied(), take)
                .map_err(|bad| block.malformed(&index.sets, &bad))
        };
        each(&mut |_, pairs| used.extend(pairs))?;
        let of_pair = block.of_pairs(index, &used, LabelHash::of_label)?;
        let mut hashes = Vec::with_capacity(sets.len());
        each(&mut |_, pairs| hashes.push(pairs.iter().map(|pair| of_pair[pair]).sum()))?;
        Ok(hashes)
    }
}
