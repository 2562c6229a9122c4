//! The process-wide tables of names, labels and label sets.
//!
//! **Invariant:** a table holds one reference to each entry; a sweep before every growth of a shard, in entries or in
//! bytes, drops the entries that nobody else holds, so memory follows the live set rather than the history.

use super::{Label, LabelHash, LabelHeader, LabelSet};
use crate::sync::Whole as _;
use hashbrown::HashTable;
use std::{
    fmt,
    hash::BuildHasher,
    sync::{
        Mutex, MutexGuard, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};
use triomphe::ThinArc;

const SHARDS: usize = 16;
/// Bytes a shard may gain before it is swept; a shard larger than this may double.
const SWEPT_BYTES: usize = 1 << 20;

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
        std::ptr::eq(self.address(), other.address())
    }

    pub(crate) fn address(&self) -> *const u8 {
        self.0.as_ptr().cast()
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Entries of the interner.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct InternerStats {
    /// Distinct label names.
    pub names: usize,
    /// Distinct labels (name and value).
    pub labels: usize,
    /// Interned label sets.
    pub sets: usize,
}

/// Counts interned entries, including those the next sweep will drop.
#[must_use]
pub fn stats() -> InternerStats {
    let tables = tables();
    InternerStats {
        names: tables.names.lock().table.len(),
        labels: entries_of(&tables.labels),
        sets: entries_of(&tables.sets),
    }
}

fn entries_of<T: Interned>(shards: &[Shard<T>; SHARDS]) -> usize {
    shards.iter().map(|shard| shard.lock().table.len()).sum()
}

/// Returns the bytes that labels take, including those the next sweep will drop; takes no lock.
///
/// A name counts once per label that uses it. Sets are left out: their holders count them.
#[must_use]
pub fn interned_bytes() -> usize {
    tables().labels.iter().map(Shard::bytes).sum()
}

/// Drops every entry held only by the interner, and shrinks tables that have become small.
///
/// Call it after removing many series: a growing table sweeps itself, one that does not grow keeps dead entries.
pub fn sweep() {
    let tables = tables();
    // Sets hold labels, and labels hold names.
    tables.sets.iter().for_each(Shard::sweep);
    tables.labels.iter().for_each(Shard::sweep);
    tables.names.sweep();
}

pub(crate) fn label(name_text: &str, value: &str) -> Label {
    let hash = LabelHash::of_label(name_text, value);
    let shard = shard_of(&tables().labels, hash);
    let mut entries = shard.lock();
    let same =
        |label: &Label| label.hash() == hash && label.name() == name_text && label.value() == value;
    if let Some(found) = entries.table.find(hash.low(), same) {
        return found.clone();
    }
    let header = LabelHeader {
        hash,
        name: name(name_text),
    };
    let created = Label(ThinArc::from_header_and_slice(header, value.as_bytes()));
    shard.insert(&mut entries, created.clone());
    created
}

pub(crate) fn set(set: &LabelSet) -> LabelSet {
    let hash = set.hash();
    let shard = shard_of(&tables().sets, hash);
    let mut entries = shard.lock();
    if let Some(found) = entries.table.find(hash.low(), |other| other == set) {
        return found.clone();
    }
    shard.insert(&mut entries, set.clone());
    set.clone()
}

fn name(text: &str) -> Name {
    let names = &tables().names;
    let mut entries = names.lock();
    let hash = tables().name_seed.hash_one(text);
    if let Some(found) = entries.table.find(hash, |name| name.as_str() == text) {
        return found.clone();
    }
    let created = Name(ThinArc::from_header_and_slice((), text.as_bytes()));
    names.insert(&mut entries, created.clone());
    created
}

#[derive(Default)]
struct Tables {
    name_seed: foldhash::quality::RandomState,
    names: Shard<Name>,
    labels: [Shard<Label>; SHARDS],
    sets: [Shard<LabelSet>; SHARDS],
}

/// An entry of a table.
trait Interned {
    /// Returns the hash that selects the entry's shard and bucket.
    fn place(&self) -> u64;

    /// Reports whether anything but the table holds the entry.
    fn is_held(&self) -> bool;

    /// Returns the bytes that dropping the entry may free, its slot included.
    fn weight(&self) -> usize;
}

impl Interned for Name {
    fn place(&self) -> u64 {
        tables().name_seed.hash_one(self.as_str())
    }

    fn is_held(&self) -> bool {
        ThinArc::strong_count(&self.0) > 1
    }

    fn weight(&self) -> usize {
        ARC_BYTES + size_of::<Self>() + self.0.slice.len()
    }
}

impl Interned for Label {
    fn place(&self) -> u64 {
        self.hash().low()
    }

    fn is_held(&self) -> bool {
        ThinArc::strong_count(&self.0) > 1
    }

    fn weight(&self) -> usize {
        // A dead label may be the only holder of its name.
        let text_bytes = self.name().len() + self.value().len();
        ARC_BYTES + size_of::<Self>() + size_of::<LabelHeader>() + text_bytes
    }
}

impl Interned for LabelSet {
    fn place(&self) -> u64 {
        self.hash().low()
    }

    fn is_held(&self) -> bool {
        self.references() > 1
    }

    fn weight(&self) -> usize {
        // A dead set may be the only holder of its labels.
        let texts = self.iter();
        let texts = texts.map(|label| label.name().len() + label.value().len());
        size_of::<Self>() + self.heap_bytes() + texts.sum::<usize>()
    }
}

/// Reference count and length in the header behind a thin pointer.
const ARC_BYTES: usize = 2 * size_of::<usize>();

/// A part of a table with its own lock.
struct Shard<T> {
    entries: Mutex<Entries<T>>,
    /// Total weight of the entries, changed only under the lock and read without it.
    bytes: AtomicUsize,
}

struct Entries<T> {
    table: HashTable<T>,
    /// Once the shard exceeds this many bytes, it is swept before the next insert.
    most_bytes: usize,
}

impl<T> Default for Shard<T> {
    fn default() -> Self {
        let entries = Entries {
            table: HashTable::new(),
            most_bytes: SWEPT_BYTES,
        };
        Self {
            entries: Mutex::new(entries),
            bytes: AtomicUsize::new(0),
        }
    }
}

impl<T> Shard<T> {
    fn lock(&self) -> MutexGuard<'_, Entries<T>> {
        // Nothing under this lock panics half-way through a change, so a poisoned table is still consistent.
        self.entries.lock().whole()
    }

    fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl<T: Interned> Shard<T> {
    /// Inserts an entry that is not in the table; sweeps first if the shard would grow.
    fn insert(&self, entries: &mut Entries<T>, entry: T) {
        let weight = entry.weight();
        let is_full = entries.table.len() == entries.table.capacity();
        if is_full || self.bytes() + weight > entries.most_bytes {
            self.drop_dead(entries);
        }
        entries
            .table
            .insert_unique(entry.place(), entry, Interned::place);
        self.bytes.store(self.bytes() + weight, Ordering::Relaxed);
    }

    /// Drops dead entries, and shrinks a mostly empty table.
    fn sweep(&self) {
        let mut entries = self.lock();
        self.drop_dead(&mut entries);
        let (len, capacity) = (entries.table.len(), entries.table.capacity());
        if len * 4 < capacity {
            entries.table.shrink_to(len * 2, Interned::place);
        }
    }

    fn drop_dead(&self, entries: &mut Entries<T>) {
        let mut left_bytes = self.bytes();
        entries.table.retain(|entry| {
            let is_held = entry.is_held();
            if !is_held {
                left_bytes -= entry.weight();
            }
            is_held
        });
        self.bytes.store(left_bytes, Ordering::Relaxed);
        entries.most_bytes = left_bytes + left_bytes.max(SWEPT_BYTES);
    }
}

fn tables() -> &'static Tables {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    TABLES.get_or_init(Tables::default)
}

fn shard_of<T>(shards: &[Shard<T>; SHARDS], hash: LabelHash) -> &Shard<T> {
    // The table picks its bucket from the low bits and its tag from the top of the low half.
    let index = (hash.bits() >> 64) as usize % SHARDS;
    &shards[index]
}

#[cfg(test)]
pub(crate) fn count_labels(matching: impl Fn(&Label) -> bool) -> usize {
    tables()
        .labels
        .iter()
        .map(|shard| {
            shard
                .lock()
                .table
                .iter()
                .filter(|label| matching(label))
                .count()
        })
        .sum()
}
