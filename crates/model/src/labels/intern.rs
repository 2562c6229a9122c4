//! The process-wide tables of names, labels and label sets.
//!
//! **Invariant:** a table holds one reference of each entry; an entry nobody else holds is dropped by the sweep
//! that precedes every growth of its shard, so churn costs the size of the live set, not of history.

use super::{Label, LabelHash, LabelHeader, LabelSet};
use crate::sync::Whole as _;
use hashbrown::HashTable;
use std::{
    fmt,
    hash::BuildHasher,
    sync::{Mutex, MutexGuard, OnceLock},
};
use triomphe::ThinArc;

const SHARDS: usize = 16;

/// An interned label name.
#[derive(Clone)]
pub(crate) struct Name(ThinArc<(), u8>);

impl Name {
    pub(crate) fn as_str(&self) -> &str {
        // SAFETY: the bytes are only ever copied from a `&str` in `name`.
        unsafe { std::str::from_utf8_unchecked(&self.0.slice) }
    }
}

impl Name {
    pub(crate) fn same(&self, other: &Self) -> bool {
        std::ptr::eq(self.0.as_ptr(), other.0.as_ptr())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What the interner holds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct InternerStats {
    /// Distinct label names.
    pub names: usize,
    /// Distinct labels (name and value).
    pub labels: usize,
    /// Interned label sets.
    pub sets: usize,
}

/// Counts what is interned, including what the next sweep will drop.
#[must_use]
pub fn stats() -> InternerStats {
    let tables = tables();
    InternerStats {
        names: lock(&tables.names).len(),
        labels: tables.labels.iter().map(|shard| lock(shard).len()).sum(),
        sets: tables.sets.iter().map(|shard| lock(shard).len()).sum(),
    }
}

/// Drops every entry that nobody but the interner holds, and gives back the room of tables that have become small.
///
/// Whoever removes many series calls it: a growing table sweeps itself, one that does not grow keeps what is dead.
pub fn sweep() {
    let tables = tables();
    // Sets hold labels, and labels names.
    for shard in &tables.sets {
        let mut shard = lock(shard);
        shard.retain(|set| set.references() > 1);
        fit(&mut shard, |set| set.hash().low());
    }
    for shard in &tables.labels {
        let mut shard = lock(shard);
        shard.retain(|label| ThinArc::strong_count(&label.0) > 1);
        fit(&mut shard, |label| label.hash().low());
    }
    let mut names = lock(&tables.names);
    names.retain(|name| ThinArc::strong_count(&name.0) > 1);
    fit(&mut names, |name| tables.name_seed.hash_one(name.as_str()));
}

/// Shrinks a table that is mostly empty, to room for as much again as it holds.
fn fit<T>(table: &mut HashTable<T>, hash: impl Fn(&T) -> u64) {
    if table.len() * 4 < table.capacity() {
        table.shrink_to(table.len() * 2, hash);
    }
}

pub(crate) fn label(name_text: &str, value: &str) -> Label {
    let hash = LabelHash::of(name_text, value);
    let mut shard = lock(shard_of(&tables().labels, hash));
    let same =
        |label: &Label| label.hash() == hash && label.name() == name_text && label.value() == value;
    if let Some(found) = shard.find(hash.low(), same) {
        return found.clone();
    }
    if shard.len() == shard.capacity() {
        shard.retain(|label| ThinArc::strong_count(&label.0) > 1);
    }
    let header = LabelHeader {
        hash,
        name: name(name_text),
    };
    let created = Label(ThinArc::from_header_and_slice(header, value.as_bytes()));
    shard.insert_unique(hash.low(), created.clone(), |label| label.hash().low());
    created
}

pub(crate) fn set(set: &LabelSet) -> LabelSet {
    let hash = set.hash();
    let mut shard = lock(shard_of(&tables().sets, hash));
    if let Some(found) = shard.find(hash.low(), |other| other == set) {
        return found.clone();
    }
    if shard.len() == shard.capacity() {
        shard.retain(|other| other.references() > 1);
    }
    shard.insert_unique(hash.low(), set.clone(), |other| other.hash().low());
    set.clone()
}

fn name(text: &str) -> Name {
    let tables = tables();
    let hash = tables.name_seed.hash_one(text);
    let mut names = lock(&tables.names);
    if let Some(found) = names.find(hash, |name| name.as_str() == text) {
        return found.clone();
    }
    if names.len() == names.capacity() {
        names.retain(|name| ThinArc::strong_count(&name.0) > 1);
    }
    let created = Name(ThinArc::from_header_and_slice((), text.as_bytes()));
    names.insert_unique(hash, created.clone(), |name| {
        tables.name_seed.hash_one(name.as_str())
    });
    created
}

#[derive(Default)]
struct Tables {
    name_seed: foldhash::quality::RandomState,
    names: Mutex<HashTable<Name>>,
    labels: [Mutex<HashTable<Label>>; SHARDS],
    sets: [Mutex<HashTable<LabelSet>>; SHARDS],
}

fn tables() -> &'static Tables {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    TABLES.get_or_init(Tables::default)
}

fn shard_of<T>(shards: &[Mutex<T>; SHARDS], hash: LabelHash) -> &Mutex<T> {
    // The table picks its bucket from the low bits and its tag from the top of the low half.
    let index = (hash.bits() >> 64) as usize % SHARDS;
    &shards[index]
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing in here panics half-way through a change, so a poisoned table is still consistent.
    mutex.lock().whole()
}

#[cfg(test)]
pub(crate) fn count_labels(matching: impl Fn(&Label) -> bool) -> usize {
    tables()
        .labels
        .iter()
        .map(|shard| lock(shard).iter().filter(|label| matching(label)).count())
        .sum()
}
