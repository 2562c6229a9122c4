//! A table whose entries can be dropped in the order of their last use.

use std::{collections::HashMap, hash::Hash};

/// Entries by key, each with the time of its last use.
#[derive(Clone, Debug)]
pub struct Recent<K, V> {
    entries: HashMap<K, (u64, V)>,
    /// Number of uses so far.
    uses: u64,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self {
            entries: HashMap::default(),
            uses: 0,
        }
    }
}

impl<K: Clone + Eq + Hash, V> Recent<K, V> {
    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Reports whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns an entry, which is used by that.
    pub fn use_mut(&mut self, key: &K) -> Option<&mut V> {
        let (used_at, value) = self.entries.get_mut(key)?;
        self.uses += 1;
        *used_at = self.uses;
        Some(value)
    }

    /// Returns an entry, which is not used by that.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|(_, value)| value)
    }

    /// Returns an entry, which is not used by that.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key).map(|(_, value)| value)
    }

    /// Adds an entry, which is used by that, in place of one with its key.
    pub fn insert(&mut self, key: K, value: V) {
        self.uses += 1;
        self.entries.insert(key, (self.uses, value));
    }

    /// Removes the entry that was not used for longest; looks at all.
    pub fn remove_oldest(&mut self) -> Option<V> {
        let oldest = self.entries.iter().min_by_key(|(_, (used_at, _))| *used_at);
        let oldest = oldest.map(|(key, _)| key.clone())?;
        self.entries.remove(&oldest).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_go_in_the_order_of_their_last_use() {
        let mut table = Recent::default();
        for (key, value) in [("a", 1), ("b", 2), ("c", 3), ("d", 4)] {
            table.insert(key, value);
        }
        assert_eq!(table.use_mut(&"a"), Some(&mut 1));
        *table.get_mut(&"b").unwrap() = 5;
        assert_eq!(table.get(&"b"), Some(&5));
        assert_eq!(table.use_mut(&"x"), None);
        table.insert("c", 6);
        assert_eq!(table.len(), 4);
        let order: Vec<i32> = std::iter::from_fn(|| table.remove_oldest()).collect();
        assert_eq!(order, [5, 4, 1, 6]);
        assert!(table.is_empty());
    }
}
