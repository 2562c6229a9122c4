//! Selections that are asked again and again, as rules and dashboards do, kept until the index changes under them.
//!
//! A selection of one metric depends on the series of that metric alone: others that come and go leave it. Selections
//! that name no metric are forgotten with every change.
//!
//! **Invariant:** a selection is kept only while it is what the index would select: a series that comes, and a strip that
//! goes, takes along the selections that may have it.
//! **Invariant:** what is kept is leased, and holds texts of matchers, not their patterns: those belong to queries.

use super::{Chosen, Numbered};
use hashbrown::{Equivalent, HashMap};
use narthex_model::{
    METRIC_NAME, MatchOp, Matcher,
    storage::{Budget, Lease},
};
use std::{
    hash::{BuildHasher as _, Hash, Hasher},
    sync::Arc,
};

/// Most bytes of one selection, some forty thousand strips: of more it may be any that is not asked again.
const MOST_OF_ONE: u64 = 1 << 20;
/// Most bytes of all selections.
const MOST_BYTES: u64 = 20 << 20;
/// Places for matchers that were asked once.
const ASKED: usize = 256;
/// Selections that there is room for, however large.
const LARGEST: u64 = 4;

#[derive(Debug)]
pub(super) struct Selections {
    /// By the metric that a matcher names.
    of_metrics: HashMap<String, Table, foldhash::fast::RandomState>,
    /// Without such a matcher.
    others: Table,
    most_of_one: u64,
    memory: Budget,
    held: Option<Lease>,
    /// Selections that were kept so far.
    count: u64,
    /// Hashes of matchers that were asked lately, each in the place that it leads to.
    asked: Box<[u64; ASKED]>,
    hasher: foldhash::fast::RandomState,
}

type Table = HashMap<Key, Kept, foldhash::fast::RandomState>;

#[derive(Debug)]
struct Kept {
    /// Different for all that were ever kept.
    number: u64,
    chosen: Arc<[Chosen]>,
    bytes: u64,
}

/// Matchers as texts: operator, name and value of each.
#[derive(Debug, Eq, Hash, PartialEq)]
struct Key(Box<[Text]>);

type Text = (MatchOp, Box<str>, Box<str>);

/// Matchers that are looked up; they hash as their `Key`.
struct Asked<'a>(&'a [Matcher]);

impl Hash for Asked<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Equivalent<Key> for Asked<'_> {
    fn equivalent(&self, Key(key): &Key) -> bool {
        let same = |(matcher, (op, name, value)): (&Matcher, &Text)| {
            matcher.op == *op && matcher.name == *name && matcher.value == *value
        };
        self.0.len() == key.len() && self.0.iter().zip(key).all(same)
    }
}

impl Selections {
    /// Returns an empty table of selections that lease from a share of `memory`.
    pub(super) fn new(memory: &Budget) -> Self {
        let most = memory.percent(2).min(MOST_BYTES);
        Self {
            of_metrics: HashMap::default(),
            others: Table::default(),
            most_of_one: (most / LARGEST).min(MOST_OF_ONE),
            memory: memory.share("selections", most, memory.percent(50)),
            held: None,
            count: 0,
            asked: Box::new([0; ASKED]),
            hasher: foldhash::fast::RandomState::default(),
        }
    }

    /// Reports whether `matchers` were asked before, and records that they are asked. It may be wrong, where two
    /// selections have the same place or hash.
    pub(super) fn is_asked_again(&mut self, matchers: &[Matcher]) -> bool {
        let hash = self.hasher.hash_one(Asked(matchers));
        let place = usize::try_from(hash % ASKED as u64).unwrap_or(0);
        std::mem::replace(&mut self.asked[place], hash) == hash
    }

    /// Returns what `matchers` select, in all strips, and its number.
    pub(super) fn get(&self, matchers: &[Matcher]) -> Option<Numbered> {
        let table = match metric_of(matchers) {
            Some(metric) => self.of_metrics.get(metric)?,
            None => &self.others,
        };
        table
            .get(&Asked(matchers))
            .map(|kept| (kept.number, Arc::clone(&kept.chosen)))
    }

    /// Keeps what `matchers` select in all strips. When there is no memory for it, all are made anew.
    pub(super) fn keep(&mut self, matchers: &[Matcher], chosen: &Arc<[Chosen]>) {
        let bytes = bytes_of(matchers, chosen) as u64;
        if bytes > self.most_of_one {
            return;
        }
        let leased = match &mut self.held {
            Some(held) => held.grow(bytes).is_ok(),
            None => {
                self.held = self.memory.lease(bytes).ok();
                self.held.is_some()
            }
        };
        if !leased {
            self.clear();
            return;
        }
        let texts = matchers
            .iter()
            .map(|matcher| (matcher.op, matcher.name.clone(), matcher.value.clone()));
        let table = match metric_of(matchers) {
            Some(metric) => self.of_metrics.entry_ref(metric).or_default(),
            None => &mut self.others,
        };
        self.count += 1;
        let kept = Kept {
            number: self.count,
            chosen: Arc::clone(chosen),
            bytes,
        };
        // Two queries that asked at once may both have found it missing.
        if let Some(before) = table.insert(Key(texts.collect()), kept) {
            shrink(&mut self.held, before.bytes);
        }
    }

    /// Reports whether nothing is kept.
    pub(super) fn is_empty(&self) -> bool {
        self.others.is_empty() && self.of_metrics.is_empty()
    }

    /// Forgets what a series with the metric name `metric` may be selected by, as it comes or its strip goes.
    pub(super) fn forget(&mut self, metric: &str) {
        if !self.others.is_empty() {
            let bytes = self.others.values().map(|kept| kept.bytes).sum();
            self.others = Table::default();
            shrink(&mut self.held, bytes);
        }
        if let Some(table) = self.of_metrics.remove(metric) {
            let bytes = table.values().map(|kept| kept.bytes).sum();
            shrink(&mut self.held, bytes);
        }
    }

    /// Forgets all.
    fn clear(&mut self) {
        self.of_metrics = HashMap::default();
        self.others = Table::default();
        self.held = None;
    }
}

fn shrink(held: &mut Option<Lease>, bytes: u64) {
    if let Some(held) = held {
        held.shrink(bytes);
    }
}

/// Returns the one metric whose series `matchers` can select, if they name one.
fn metric_of(matchers: &[Matcher]) -> Option<&str> {
    let named = matchers.iter().find(|matcher| {
        matcher.op == MatchOp::Equal && &*matcher.name == METRIC_NAME && !matcher.value.is_empty()
    });
    named.map(|matcher| &*matcher.value)
}

/// Returns about how many bytes a selection takes.
fn bytes_of(matchers: &[Matcher], chosen: &[Chosen]) -> usize {
    /// Of an entry of the table, or of a matcher, with what allocating takes.
    const BESIDE: usize = 64;
    /// Of the smallest table, which most metrics have to themselves.
    const TABLE: usize = 256;
    let texts = matchers
        .iter()
        .map(|matcher| BESIDE + matcher.name.len() + matcher.value.len());
    // Strips of a kind share the list of their columns.
    let lists = chosen.chunk_by(|a, b| Arc::ptr_eq(&a.columns, &b.columns));
    let columns = lists.map(|chosen| BESIDE / 2 + size_of_val(&*chosen[0].columns));
    let columns = size_of_val(chosen) + columns.sum::<usize>();
    TABLE + BESIDE + texts.sum::<usize>() + columns
}
