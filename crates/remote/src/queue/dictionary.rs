//! Label sets and families of the file being written, by number.
//!
//! Definitions are numbered from 0 in order. An entry with definitions first says how many there were before it, so that
//! a lost entry renames nothing.
//!
//! **Invariant:** a file defines every name, label, set and family before it refers to it.

use super::{bytes::put_bytes, format::tag};
use hashbrown::HashTable;
use narthex_model::{Label, LabelHash, LabelSet, metadata::Family, varint::put_varint};
use std::collections::HashMap;

/// Definitions of a file.
///
/// Labels and sets are known by their hashes, which keep none of them alive.
#[derive(Debug, Default)]
pub(super) struct Dictionary {
    names: HashMap<Box<str>, u32>,
    labels: Numbers,
    sets: Numbers,
    families: HashMap<Family, u32>,
    strips: u32,
    /// Whether the entry under construction has stated the counts.
    counted: bool,
}

/// Hashes numbered in order of arrival.
#[derive(Debug, Default)]
struct Numbers {
    hashes: Vec<LabelHash>,
    ids: HashTable<u32>,
}

impl Numbers {
    fn get(&self, hash: LabelHash) -> Option<u32> {
        let same = |id: &u32| self.hashes[*id as usize] == hash;
        self.ids.find(hash.low(), same).copied()
    }

    fn push(&mut self, hash: LabelHash) -> u32 {
        let Self { hashes, ids } = self;
        let id = number(hashes.len());
        hashes.push(hash);
        ids.insert_unique(hash.low(), id, |id| hashes[*id as usize].low());
        id
    }
}

impl Dictionary {
    /// Starts another entry.
    pub(super) fn begin_entry(&mut self) {
        self.counted = false;
    }

    /// Returns the number of a strip that is defined next.
    pub(super) fn next_strip(&mut self) -> u32 {
        self.strips += 1;
        self.strips - 1
    }

    /// Returns the number of `set`, first defining it in `out` if the file lacks it.
    pub(super) fn set(&mut self, set: &LabelSet, out: &mut Vec<u8>) -> u32 {
        if let Some(id) = self.sets.get(set.hash()) {
            return id;
        }
        self.count(out);
        out.push(tag::SET);
        put_varint(out, set.len() as u64);
        for label in set {
            self.put_label(label, out);
        }
        self.sets.push(set.hash())
    }

    /// Returns the number of `family`, first defining it in `out` if the file lacks it.
    pub(super) fn family(&mut self, family: &Family, out: &mut Vec<u8>) -> u32 {
        if let Some(id) = self.families.get(family) {
            return *id;
        }
        self.count(out);
        out.push(tag::FAMILY);
        out.push(family.metric_type.number());
        for text in [&family.name, &family.unit, &family.help] {
            put_bytes(out, text.as_bytes());
        }
        let id = number(self.families.len());
        self.families.insert(family.clone(), id);
        id
    }

    fn count(&mut self, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.counted, true) {
            return;
        }
        out.push(tag::COUNTS);
        for count in [
            self.names.len(),
            self.labels.hashes.len(),
            self.sets.hashes.len(),
            self.families.len(),
        ] {
            put_varint(out, count as u64);
        }
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
                let id = number(self.names.len());
                self.names.insert(label.name().into(), id);
            }
        }
        put_bytes(out, label.value().as_bytes());
        self.labels.push(label.hash());
    }
}

fn number(len: usize) -> u32 {
    u32::try_from(len).expect("a queue file defines fewer than 2^32 of a kind")
}
