//! The bytes that senders use for their series, with the series' places.
//!
//! Series that arrive together arrived together before: their entries lie side by side, in the order in which they were first
//! sent, so a request mostly finds each series' entry behind the one before. What is searched otherwise is a table of their
//! numbers, a sixth of their size.
//!
//! **Invariant:** no two entries have the same key; the table has the number of each.

use crate::place::Place;
use hashbrown::HashTable;
use std::sync::atomic::{AtomicU32, Ordering};

/// The bytes a sender uses for a series.
#[derive(Debug)]
pub(crate) struct Entry {
    key: Key,
    pub(crate) place: Place,
    seen: AtomicU32,
}

/// A key that needs no alignment: a series takes four bytes less.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Key([u32; 4]);

impl Key {
    #[inline]
    fn new(key: u128) -> Self {
        Self(std::array::from_fn(|at| (key >> (32 * at)) as u32))
    }

    /// Returns the bits by which the table is searched.
    #[inline]
    fn low(&self) -> u64 {
        u64::from(self.0[0]) | u64::from(self.0[1]) << 32
    }
}

impl Entry {
    /// Returns the epoch in which the series was last seen.
    pub(crate) fn seen(&self) -> u32 {
        self.seen.load(Ordering::Relaxed)
    }

    /// Notes that the series was seen.
    #[inline]
    pub(crate) fn set_seen(&self, epoch: u32) {
        // All requests of an epoch but the first leave the memory as it is.
        if self.seen() != epoch {
            self.seen.store(epoch, Ordering::Relaxed);
        }
    }
}

/// The entries of all series.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    list: Vec<Entry>,
    numbers: HashTable<u32>,
}

/// Where a request's next series probably is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NextEntry(usize);

impl Entries {
    /// Finds the entry of a key, looking first behind the one found before.
    #[inline]
    pub(crate) fn find(&self, key: u128, next: &mut NextEntry) -> Option<&Entry> {
        let key = Key::new(key);
        let is_next = self.list.get(next.0).is_some_and(|entry| entry.key == key);
        let number = if is_next { next.0 } else { self.number(key)? };
        next.0 = number + 1;
        Some(&self.list[number])
    }

    #[inline]
    fn number(&self, key: Key) -> Option<usize> {
        let is_same = |number: &u32| self.list[*number as usize].key == key;
        let number = self.numbers.find(key.low(), is_same)?;
        Some(*number as usize)
    }

    /// Adds an entry, unless the key has one.
    pub(crate) fn insert(&mut self, key: u128, place: Place, epoch: u32) {
        /// A list that doubled would be half empty; one that grows by this share is copied a few times more.
        const GROWTH: usize = 8;
        let key = Key::new(key);
        if self.number(key).is_some() {
            return;
        }
        if self.list.len() == self.list.capacity() {
            self.list.reserve_exact(self.list.len() / GROWTH + 64);
        }
        let number = u32::try_from(self.list.len()).expect("fewer than 2^32 series");
        self.list.push(Entry {
            key,
            place,
            seen: AtomicU32::new(epoch),
        });
        let low = |number: &u32| self.list[*number as usize].key.low();
        self.numbers.insert_unique(key.low(), number, low);
    }

    /// Keeps the entries for which `keep` holds, in their order.
    pub(crate) fn retain(&mut self, keep: impl FnMut(&mut Entry) -> bool) {
        let before = self.list.len();
        self.list.retain_mut(keep);
        if self.list.len() == before {
            return;
        }
        if self.list.len() * 4 < self.list.capacity() {
            self.list.shrink_to(self.list.len() * 2);
        }
        // Numbers have changed.
        let low = |number: &u32| self.list[*number as usize].key.low();
        self.numbers.clear();
        if self.list.len() * 4 < self.numbers.capacity() {
            self.numbers.shrink_to(self.list.len() * 2, low);
        }
        for (number, entry) in self.list.iter().enumerate() {
            self.numbers
                .insert_unique(entry.key.low(), number as u32, low);
        }
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Entry> {
        self.list.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Entries {
        /// Returns the bytes allocated.
        pub(crate) fn allocation_size(&self) -> usize {
            self.list.capacity() * size_of::<Entry>() + self.numbers.allocation_size()
        }

        pub(crate) fn len(&self) -> usize {
            assert_eq!(self.list.len(), self.numbers.len());
            self.list.len()
        }
    }

    fn key(number: u32) -> u128 {
        // As a hasher's: all bits differ.
        (u128::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
    }

    fn place(column: u32) -> Place {
        Place { group: 7, column }
    }

    #[test]
    fn keys_are_found_in_any_order_whatever_was_removed() {
        const COUNT: u32 = 1000;
        let mut entries = Entries::default();
        let all = 0..COUNT;
        all.clone()
            .for_each(|at| entries.insert(key(at), place(at), 1));
        entries.insert(key(3), place(99), 2);
        let check = |entries: &Entries, is_there: &dyn Fn(u32) -> bool| {
            let mut next = NextEntry::default();
            for at in all.clone().chain(all.clone().rev()).chain([7, 3, 7]) {
                let found = entries.find(key(at), &mut next);
                let expected = is_there(at).then(|| (place(at), 1));
                assert_eq!(found.map(|entry| (entry.place, entry.seen())), expected);
            }
        };
        check(&entries, &|_| true);
        entries.retain(|entry| entry.place.column % 3 != 0);
        check(&entries, &|at| at % 3 != 0);
        entries.retain(|entry| entry.place.column < 5);
        check(&entries, &|at| at % 3 != 0 && at < 5);
        assert!(entries.allocation_size() < 1000, "room is returned");
        (0..5).for_each(|at| entries.insert(key(at), place(at), 1));
        check(&entries, &|at| at < 5);
        assert_eq!(entries.len(), 5);
    }
}
