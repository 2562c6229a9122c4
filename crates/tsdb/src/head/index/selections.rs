//! Selections that are asked again and again, as rules and dashboards do, kept until the index changes.
//!
//! **Invariant:** a selection is kept only while every strip and column there is was there when it was made.
//! **Invariant:** what is kept is leased, and holds texts of matchers, not their patterns: those belong to queries.

use super::Chosen;
use hashbrown::{Equivalent, HashMap};
use narthex_model::{
    MatchOp, Matcher,
    storage::{Budget, Lease},
};
use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

/// Most bytes of one selection: finding more is cheap beside reading them.
const MOST_OF_ONE: usize = 8 << 10;
/// Most bytes of all selections.
const MOST_BYTES: u64 = 20 << 20;

#[derive(Debug)]
pub(super) struct Selections {
    all: HashMap<Key, Arc<[Chosen]>, foldhash::fast::RandomState>,
    memory: Budget,
    held: Option<Lease>,
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
            all: HashMap::default(),
            memory: memory.share("selections", most, memory.percent(50)),
            held: None,
        }
    }

    /// Returns what `matchers` select, in all strips.
    pub(super) fn get(&self, matchers: &[Matcher]) -> Option<Arc<[Chosen]>> {
        self.all.get(&Asked(matchers)).cloned()
    }

    /// Keeps what `matchers` select in all strips. When there is no memory for it, all are made anew.
    pub(super) fn keep(&mut self, matchers: &[Matcher], chosen: &[Chosen]) {
        let bytes = bytes_of(matchers, chosen);
        if bytes > MOST_OF_ONE {
            return;
        }
        let leased = match &mut self.held {
            Some(held) => held.grow(bytes as u64).is_ok(),
            None => {
                self.held = self.memory.lease(bytes as u64).ok();
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
        self.all.insert(Key(texts.collect()), chosen.into());
    }

    /// Forgets all, as the index changes.
    pub(super) fn clear(&mut self) {
        if !self.all.is_empty() {
            self.all = HashMap::default();
            self.held = None;
        }
    }
}

/// Returns about how many bytes a selection takes.
fn bytes_of(matchers: &[Matcher], chosen: &[Chosen]) -> usize {
    /// Of an entry of the table, or of a matcher, with what allocating takes.
    const BESIDE: usize = 64;
    let texts = matchers
        .iter()
        .map(|matcher| BESIDE + matcher.name.len() + matcher.value.len());
    let columns = chosen
        .iter()
        .map(|chosen| size_of_val(chosen) + BESIDE / 2 + size_of_val(&*chosen.columns));
    BESIDE + texts.sum::<usize>() + columns.sum::<usize>()
}
