//! Label sets by number, separately for each WAL file.
//!
//! Definitions are numbered from 0 in order; a batch with definitions first states how many there are already, so that
//! a reader who lost a batch does not confuse definitions.
//!
//! **Invariant:** a file defines every name, label and set before it refers to it, so that it can be read without
//! any other file.

use super::tag;
use crate::bytes::{Malformed, Reader, put_bytes, put_varint};
use hashbrown::HashTable;
use narthex_model::{Label, LabelHash, LabelSet};
use std::collections::HashMap;

/// Definitions of the file being written.
///
/// Labels and sets are known by their hashes, which keeps none of them alive: a file outlives most series of a
/// churning head.
#[derive(Debug, Default)]
pub(crate) struct SymbolWriter {
    names: HashMap<Box<str>, u32>,
    labels: Numbers,
    sets: Numbers,
    /// Whether the batch under construction has stated the counts.
    counted: bool,
    /// Columns named in the file, and the bytes of families, strips, columns and their labels.
    identity: Identity,
}

/// What a file says about series rather than samples.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Identity {
    pub(super) columns: u64,
    pub(super) bytes: u64,
}

/// Hashes numbered in order of arrival.
///
/// A list and a table of positions take half the memory of a map from hash to number.
#[derive(Debug, Default)]
struct Numbers {
    hashes: Vec<LabelHash>,
    ids: HashTable<u32>,
}

impl Numbers {
    fn len(&self) -> usize {
        self.hashes.len()
    }

    fn heap_bytes(&self) -> usize {
        const PLACE_BYTES: usize = size_of::<u32>() + 1;
        self.hashes.capacity() * size_of::<LabelHash>() + self.ids.capacity() * PLACE_BYTES
    }

    fn get(&self, hash: LabelHash) -> Option<u32> {
        let same = |id: &u32| self.hashes[*id as usize] == hash;
        self.ids.find(hash.low(), same).copied()
    }

    /// Gives `hash`, which is new, the next number.
    fn push(&mut self, hash: LabelHash) -> u32 {
        let Self { hashes, ids } = self;
        let id = count(hashes.len());
        hashes.push(hash);
        ids.insert_unique(hash.low(), id, |id| hashes[*id as usize].low());
        id
    }

    fn truncate(&mut self, len: usize) {
        self.ids.retain(|id| (*id as usize) < len);
        self.hashes.truncate(len);
    }
}

/// Counts of definitions at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct SymbolMark {
    names: usize,
    labels: usize,
    sets: usize,
    counted: bool,
    identity: Identity,
}

impl SymbolWriter {
    pub(super) fn mark(&self) -> SymbolMark {
        SymbolMark {
            names: self.names.len(),
            labels: self.labels.len(),
            sets: self.sets.len(),
            counted: self.counted,
            identity: self.identity,
        }
    }

    /// Counts a record that names `columns` series.
    pub(super) fn count_identity(&mut self, columns: usize, bytes: usize) {
        self.identity.columns += columns as u64;
        self.identity.bytes += bytes as u64;
    }

    pub(super) fn identity(&self) -> Identity {
        self.identity
    }

    /// Drops the definitions made since `mark` was taken.
    pub(super) fn roll_back(&mut self, mark: &SymbolMark) {
        self.names.retain(|_, id| (*id as usize) < mark.names);
        self.labels.truncate(mark.labels);
        self.sets.truncate(mark.sets);
        self.counted = mark.counted;
        self.identity = mark.identity;
    }

    /// Returns the heap bytes of the definitions; names are few.
    pub(super) fn heap_bytes(&self) -> usize {
        self.labels.heap_bytes() + self.sets.heap_bytes()
    }

    /// Starts another batch.
    pub(crate) fn begin_batch(&mut self) {
        self.counted = false;
    }

    /// Returns the number of `set`, first defining it in `out` if the file lacks it.
    pub(crate) fn set(&mut self, set: &LabelSet, out: &mut Vec<u8>) -> u32 {
        if let Some(id) = self.sets.get(set.hash()) {
            return id;
        }
        if !self.counted {
            self.counted = true;
            out.push(tag::SYMBOLS);
            for count in [self.names.len(), self.labels.len(), self.sets.len()] {
                put_varint(out, count as u64);
            }
        }
        out.push(tag::SET);
        put_varint(out, set.len() as u64);
        for label in set {
            self.put_label(label, out);
        }
        self.sets.push(set.hash())
    }

    fn put_label(&mut self, label: &Label, out: &mut Vec<u8>) {
        if let Some(id) = self.labels.get(label.hash()) {
            put_varint(out, u64::from(id) + 1);
            return;
        }
        put_varint(out, 0);
        match self.names.get(label.name()) {
            Some(id) => put_varint(out, u64::from(*id) + 1),
            None => {
                put_varint(out, 0);
                put_bytes(out, label.name().as_bytes());
                self.names
                    .insert(label.name().into(), count(self.names.len()));
            }
        }
        put_bytes(out, label.value().as_bytes());
        self.labels.push(label.hash());
    }
}

/// Definitions of the file being read.
#[derive(Debug, Default)]
pub(crate) struct SymbolReader {
    names: Table<Box<str>>,
    labels: Table<Label>,
    sets: Table<LabelSet>,
}

/// Definitions by number; some may be lost.
#[derive(Debug)]
struct Table<T> {
    known: HashMap<u64, T, foldhash::fast::RandomState>,
    next: u64,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            known: HashMap::default(),
            next: 0,
        }
    }
}

impl<T> Table<T> {
    /// Adds the next definition, `None` for one that refers to a lost one.
    fn define(&mut self, value: Option<T>) {
        self.known.extend(value.map(|value| (self.next, value)));
        self.next += 1;
    }
}

impl SymbolReader {
    /// Reads the counts after their tag.
    pub(crate) fn count(&mut self, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        let backwards = reader.malformed("count of symbols");
        let counts = [reader.varint()?, reader.varint()?, reader.varint()?];
        let known = [
            &mut self.names.next,
            &mut self.labels.next,
            &mut self.sets.next,
        ];
        for (known, count) in known.into_iter().zip(counts) {
            if count < *known || count > u64::from(u32::MAX) {
                return Err(backwards);
            }
            *known = count;
        }
        Ok(())
    }

    /// Reads the definition of a set after its tag.
    pub(crate) fn define(&mut self, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        let len = reader.varint()?;
        let mut labels = Vec::new();
        let mut whole = true;
        for _ in 0..len {
            match self.label(reader)? {
                Some(label) => labels.push(label),
                None => whole = false,
            }
        }
        if !labels.is_sorted_by(|a, b| a.name() < b.name()) {
            return Err(reader.malformed("label order"));
        }
        self.sets
            .define(whole.then(|| LabelSet::from_labels(labels).intern()));
        Ok(())
    }

    fn label(&mut self, reader: &mut Reader<'_>) -> Result<Option<Label>, Malformed> {
        let id = reader.varint()?;
        if id > 0 {
            return Ok(self.labels.known.get(&(id - 1)).cloned());
        }
        let name = match reader.varint()? {
            0 => {
                let id = self.names.next;
                self.names.define(Some(reader.text()?.into()));
                self.names.known.get(&id)
            }
            id => self.names.known.get(&(id - 1)),
        };
        let value = reader.text()?;
        let label = name.map(|name| Label::new(name, value));
        self.labels.define(label.clone());
        Ok(label)
    }

    /// Returns the set numbered `id`, if its definition was read.
    pub(crate) fn set(&self, id: u64) -> Option<&LabelSet> {
        self.sets.known.get(&id)
    }
}

/// Returns a count in its encoded type.
fn count(len: usize) -> u32 {
    u32::try_from(len).expect("a log file defines fewer than 2^32 symbols")
}
