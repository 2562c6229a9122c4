//! Selections that are asked again and again, as rules and dashboards do.
//!
//! A selection of one metric depends on the series of that metric alone: others that come and go leave it. One that names
//! no metric depends on all. Where targets come all the time, few strips change between two questions: only these are
//! searched again.
//!
//! **Invariant:** a selection is what the index would select but for the strips that it lists as changed: a series that comes
//! lists its strip in the selections that may have it, a strip that goes takes them along.
//! **Invariant:** what is kept is leased, and holds texts of matchers, not their patterns: those belong to queries.

use super::Chosen;
use hashbrown::{Equivalent, HashMap};
use narthex_model::{
    METRIC_NAME, MatchOp, Matcher,
    storage::{Budget, Lease},
};
use std::{
    hash::{BuildHasher as _, Hash, Hasher},
    sync::Arc,
};

/// Most bytes of one selection, some hundred and sixty thousand strips: of more it may be any that is not asked again.
const MOST_OF_ONE: u64 = 4 << 20;
/// Most bytes of all selections.
const MOST_BYTES: u64 = 20 << 20;
/// Places for matchers that were asked once.
const ASKED: usize = 256;
/// Changed strips of a small selection, and which share of a large one's, with which it is forgotten: all are searched almost as
/// fast.
const FEW_CHANGED: usize = 16;
const CHANGED_SHARE: usize = 8;
/// Selections that there is room for, however large.
const LARGEST: u64 = 4;

#[derive(Debug)]
pub(super) struct Selections {
    /// By the metric that a matcher names.
    of_metrics: HashMap<String, Table, foldhash::fast::RandomState>,
    /// Without such a matcher.
    others: Table,
    /// The strip that all of `others` list as changed last: it may get hundreds of series at once.
    noted: Option<u32>,
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
    /// Strips that got series since.
    changed: Vec<u32>,
    bytes: u64,
}

/// What is known of a selection.
pub(super) struct Known {
    pub(super) number: u64,
    pub(super) chosen: Arc<[Chosen]>,
    /// Strips that must be searched again.
    pub(super) changed: Vec<u32>,
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
            noted: None,
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

    /// Returns what is known of what `matchers` select, in all strips.
    pub(super) fn get(&self, matchers: &[Matcher]) -> Option<Known> {
        let table = match metric_of(matchers) {
            Some(metric) => self.of_metrics.get(metric)?,
            None => &self.others,
        };
        table.get(&Asked(matchers)).map(|kept| Known {
            number: kept.number,
            chosen: Arc::clone(&kept.chosen),
            changed: kept.changed.clone(),
        })
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
        self.noted = None;
        self.count += 1;
        let kept = Kept {
            number: self.count,
            chosen: Arc::clone(chosen),
            changed: Vec::new(),
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

    /// Notes that a strip got a series with the metric name `metric`.
    pub(super) fn note_change(&mut self, metric: &str, strip: u32) {
        let of_metric = self.of_metrics.get_mut(metric);
        let others = (self.noted != Some(strip)).then_some(&mut self.others);
        self.noted = Some(strip);
        let mut bytes = 0;
        for table in of_metric.into_iter().chain(others) {
            table.retain(|_, kept| {
                if kept.changed.last() != Some(&strip) {
                    kept.changed.push(strip);
                }
                let is_kept = kept.changed.len() <= most_changed(&kept.chosen);
                bytes += if is_kept { 0 } else { kept.bytes };
                is_kept
            });
        }
        shrink(&mut self.held, bytes);
    }

    /// Forgets what a series with the metric name `metric` may be selected by, as its strip goes.
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

/// Returns how many strips of a selection may change before it is forgotten.
fn most_changed(chosen: &[Chosen]) -> usize {
    FEW_CHANGED + chosen.len() / CHANGED_SHARE
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
    let columns = columns + most_changed(chosen) * size_of::<u32>();
    TABLE + BESIDE + texts.sum::<usize>() + columns
}
