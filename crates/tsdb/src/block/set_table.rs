//! Numbered labels and label sets of a block being written.
//!
//! A set costs four bytes per label here, whereas a `LabelSet` costs a hundred and keeps its labels alive: merging
//! holds every set of a window at once.
//!
//! **Invariant:** labels and sets are numbered in order of first use, without duplicates; a set's labels are ordered
//! by name.

use super::{dictionary, postings, sets};
use hashbrown::HashTable;
use narthex_model::{Label, LabelHash, LabelSet};

/// Labels and label sets by number.
#[derive(Debug, Default)]
pub(crate) struct SetTable {
    labels: Vec<Label>,
    label_ids: HashTable<u32>,
    /// Labels of all sets, set after set.
    members: Vec<u32>,
    /// End of each set in `members`.
    ends: Vec<usize>,
    set_ids: HashTable<u32>,
}

/// Sections of the index that describe its sets.
pub(super) struct SetSections {
    pub(super) dictionary: Vec<u8>,
    pub(super) sets: Vec<u8>,
    pub(super) postings: Vec<u8>,
}

impl SetTable {
    /// Returns the approximate heap bytes; label texts are counted where the interned labels are.
    pub(super) fn heap_bytes(&self) -> usize {
        const PLACE_BYTES: usize = size_of::<u32>() + 1;
        self.labels.capacity() * size_of::<Label>()
            + self.members.capacity() * size_of::<u32>()
            + self.ends.capacity() * size_of::<usize>()
            + (self.label_ids.capacity() + self.set_ids.capacity()) * PLACE_BYTES
    }

    /// Returns the number of a label.
    pub(crate) fn label(&mut self, label: &Label) -> u32 {
        let Self {
            labels, label_ids, ..
        } = self;
        let hash = label.hash().low();
        if let Some(id) = label_ids.find(hash, |id| labels[*id as usize] == *label) {
            return *id;
        }
        let id = number(labels.len());
        labels.push(label.clone());
        label_ids.insert_unique(hash, id, |id| labels[*id as usize].hash().low());
        id
    }

    /// Returns the number of a set.
    pub(crate) fn set(&mut self, set: &LabelSet) -> u32 {
        let from = self.members.len();
        for label in set {
            let label = self.label(label);
            self.members.push(label);
        }
        self.take_in(from)
    }

    /// Returns the number of the set with these labels, which must be ordered by name.
    pub(crate) fn set_of(&mut self, labels: impl IntoIterator<Item = u32>) -> u32 {
        let from = self.members.len();
        self.members.extend(labels);
        self.take_in(from)
    }

    /// Makes a set of the labels from `from` on, unless it exists.
    fn take_in(&mut self, from: usize) -> u32 {
        let Self {
            labels,
            members,
            ends,
            set_ids,
            ..
        } = self;
        let hash = |set: &[u32]| -> u64 {
            let hashes = set.iter().map(|label| labels[*label as usize].hash());
            hashes.sum::<LabelHash>().low()
        };
        let own = hash(&members[from..]);
        let same = |id: &u32| members_of(members, ends, *id) == &members[from..];
        if let Some(id) = set_ids.find(own, same) {
            let id = *id;
            members.truncate(from);
            return id;
        }
        let id = number(ends.len());
        ends.push(members.len());
        set_ids.insert_unique(own, id, |id| hash(members_of(members, ends, *id)));
        id
    }

    /// Returns the sections, with labels numbered by rank.
    pub(super) fn encode(self) -> SetSections {
        let Self {
            mut members,
            ends,
            labels,
            ..
        } = self;
        let mut order: Vec<u32> = (0..number(labels.len())).collect();
        order.sort_unstable_by(|a, b| labels[*a as usize].cmp(&labels[*b as usize]));
        let mut ranks = vec![0; labels.len()];
        for (rank, label) in (0u32..).zip(&order) {
            ranks[*label as usize] = rank;
        }
        let sorted: Vec<Label> = order
            .iter()
            .map(|at| labels[*at as usize].clone())
            .collect();
        for label in &mut members {
            *label = ranks[*label as usize];
        }
        let (starts, lists) = lists(labels.len(), &members, &ends);
        SetSections {
            dictionary: dictionary::encode(&sorted),
            sets: sets::encode((0..number(ends.len())).map(|id| members_of(&members, &ends, id))),
            postings: postings::encode(starts.windows(2).map(|of| &lists[of[0]..of[1]])),
        }
    }
}

/// Lists the sets of each label: the start of each list, and all lists concatenated.
fn lists(labels: usize, members: &[u32], ends: &[usize]) -> (Vec<usize>, Vec<u32>) {
    let mut starts = vec![0; labels + 1];
    for label in members {
        starts[*label as usize + 1] += 1;
    }
    for at in 0..labels {
        starts[at + 1] += starts[at];
    }
    let mut next = starts.clone();
    let mut lists = vec![0; members.len()];
    for id in 0..number(ends.len()) {
        for label in members_of(members, ends, id) {
            let at = &mut next[*label as usize];
            lists[*at] = id;
            *at += 1;
        }
    }
    (starts, lists)
}

fn members_of<'a>(members: &'a [u32], ends: &[usize], id: u32) -> &'a [u32] {
    let at = id as usize;
    let from = at.checked_sub(1).map_or(0, |before| ends[before]);
    &members[from..ends[at]]
}

fn number(len: usize) -> u32 {
    u32::try_from(len)
        .ok()
        .filter(|len| *len < 1 << 31)
        .expect("fewer than 2^31 labels and sets")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(pairs: &[(&str, &str)]) -> LabelSet {
        LabelSet::new(pairs.iter().copied())
    }

    #[test]
    fn equal_sets_have_one_number_however_they_come() {
        let mut table = SetTable::default();
        let both = set(&[("a", "1"), ("b", "2")]);
        assert_eq!(table.set(&both), 0);
        assert_eq!(table.set(&set(&[("a", "1")])), 1);
        let labels: Vec<u32> = both.iter().map(|label| table.label(label)).collect();
        assert_eq!(labels, [0, 1]);
        assert_eq!(table.set_of(labels), 0);
        assert_eq!(table.set(&LabelSet::empty()), 2);
        assert_eq!(table.set_of([]), 2);
        for at in 0..1000 {
            assert_eq!(table.set(&set(&[("n", &at.to_string())])), 3 + at);
        }
        assert_eq!(table.set(&set(&[("n", "500")])), 503);
        assert_eq!(table.members.len(), 2 + 1 + 1000);
    }
}
