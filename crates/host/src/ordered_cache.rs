//! A list of things that a kernel file prints in nearly the same order every round.
//!
//! Invariant: a lookup of the expected next entry compares one key; any other lookup searches, and makes the entry
//! after the found one the expected next. Lookups of known entries do not allocate.

/// Entries in the order last seen, each marked with the round that saw it.
#[derive(Debug, Default)]
pub(crate) struct OrderedCache<K, T> {
    entries: Vec<Entry<K, T>>,
    cursor: usize,
    round: u32,
}

#[derive(Debug)]
struct Entry<K, T> {
    key: K,
    value: T,
    seen: u32,
}

impl<K, T> OrderedCache<K, T> {
    pub(crate) fn new() -> Self {
        Self {
            entries: Vec::new(),
            cursor: 0,
            round: 0,
        }
    }

    /// Starts a round: the first entry is expected next, none is seen.
    pub(crate) fn begin(&mut self) {
        self.cursor = 0;
        self.round = self.round.wrapping_add(1);
    }

    /// Finds the entry for which `matches` holds and marks it as seen.
    pub(crate) fn find(&mut self, matches: impl Fn(&K, &T) -> bool) -> Option<&mut T> {
        let at = self.position(matches)?.0;
        Some(self.at(at))
    }

    /// Finds the entry for which `matches` holds and marks it as seen; returns its index, and whether this round saw it
    /// before.
    pub(crate) fn position(&mut self, matches: impl Fn(&K, &T) -> bool) -> Option<(usize, bool)> {
        let len = self.entries.len();
        let start = self.cursor;
        // After the expected entry, try the one before it: consecutive lines may belong to one entry.
        let mut order = (start..len.min(start + 1))
            .chain(start.saturating_sub(1)..start.min(len))
            .chain((start + 1).min(len)..len)
            .chain(0..start.saturating_sub(1).min(len));
        let hit = order.find(|at| {
            let entry = &self.entries[*at];
            matches(&entry.key, &entry.value)
        })?;
        self.cursor = hit + 1;
        let entry = &mut self.entries[hit];
        let was_seen = entry.seen == self.round;
        entry.seen = self.round;
        Some((hit, was_seen))
    }

    /// Returns the entry at an index that `position` returned.
    pub(crate) fn at(&mut self, place: usize) -> &mut T {
        &mut self.entries[place].value
    }

    /// Removes the entries for which `keep` returns `false`.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&K, &mut T) -> bool) {
        let before = self.entries.len();
        self.entries
            .retain_mut(|entry| keep(&entry.key, &mut entry.value));
        if self.entries.len() != before {
            self.cursor = 0;
        }
    }

    /// Inserts an entry where the next one was expected, marked as seen in this round.
    pub(crate) fn insert(&mut self, key: K, value: T) -> &mut T {
        let at = self.cursor.min(self.entries.len());
        self.entries.insert(
            at,
            Entry {
                key,
                value,
                seen: self.round,
            },
        );
        self.cursor = at + 1;
        &mut self.entries[at].value
    }

    /// Removes the entries that this round has not seen and passes each to `gone`.
    pub(crate) fn sweep(&mut self, mut gone: impl FnMut(K, T)) {
        let round = self.round;
        if self.entries.iter().all(|entry| entry.seen == round) {
            return;
        }
        for entry in self.entries.extract_if(.., |entry| entry.seen != round) {
            gone(entry.key, entry.value);
        }
        self.cursor = 0;
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = (&K, &mut T)> {
        self.entries
            .iter_mut()
            .map(|entry| (&entry.key, &mut entry.value))
    }
}

impl<T> OrderedCache<Box<[u8]>, T> {
    /// Finds the entry of this key and marks it as seen; inserts what `make` returns if there is none.
    pub(crate) fn entry(&mut self, key: &[u8], make: impl FnOnce() -> T) -> &mut T {
        match self.position(|known, _| **known == *key) {
            Some((at, _)) => self.at(at),
            None => self.insert(key.into(), make()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(cache: &mut OrderedCache<&'static str, u32>) -> Vec<&'static str> {
        cache.values_mut().map(|(key, _)| *key).collect()
    }

    #[test]
    fn order_changes_and_departures_keep_values() {
        let mut cache = OrderedCache::new();
        cache.begin();
        for (key, value) in [("a", 1), ("b", 2), ("c", 3)] {
            assert!(cache.find(|k, _| *k == key).is_none());
            cache.insert(key, value);
        }
        cache.sweep(|_, _| panic!("all seen"));

        cache.begin();
        assert_eq!(cache.find(|k, _| *k == "c"), Some(&mut 3));
        assert_eq!(cache.find(|k, _| *k == "a"), Some(&mut 1));
        assert!(cache.find(|k, _| *k == "d").is_none());
        cache.insert("d", 4);
        let mut gone = Vec::new();
        cache.sweep(|k, v| gone.push((k, v)));
        assert_eq!(gone, [("b", 2)]);
        assert_eq!(names(&mut cache), ["a", "d", "c"]);
    }
}
