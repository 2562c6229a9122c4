//! Metadata of metric families, for as long as a series uses it.
//!
//! **Invariant:** a family is forgotten by the second check after its last series: a first check may fall between
//! learning a family and its first series.

use narthex_model::metadata::Family;
use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

/// Suffixes of a family's metric names.
const SUFFIXES: [&str; 8] = [
    "_bucket", "_sum", "_count", "_total", "_created", "_info", "_gsum", "_gcount",
];

/// Families by name; several when origins disagree.
#[derive(Debug)]
pub(super) struct Families {
    by_name: BTreeMap<Arc<str>, Vec<Family>>,
    /// Names that no series used at the last check.
    unused: HashSet<Arc<str>, foldhash::fast::RandomState>,
    bytes: usize,
    most_bytes: usize,
}

/// Most bytes of all families, however much memory there is: half a million of usual length.
const MOST_BYTES: u64 = 64 << 20;
/// Fraction of the memory that families may take.
const MEMORY_SHARE: u64 = 32;
/// Bytes of a family besides its texts.
const FAMILY_BYTES: usize = size_of::<Family>() + 64;

impl Families {
    /// Returns an empty table for a process with `memory_bytes`.
    pub(super) fn new(memory_bytes: u64) -> Self {
        let most_bytes = (memory_bytes / MEMORY_SHARE).min(MOST_BYTES);
        Self {
            by_name: BTreeMap::new(),
            unused: HashSet::default(),
            bytes: 0,
            most_bytes: usize::try_from(most_bytes).unwrap_or(usize::MAX),
        }
    }

    /// Returns the bytes of all families.
    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes
    }

    /// Adds families, as far as there is room; returns those that were not known.
    pub(super) fn learn(&mut self, families: &[Family]) -> Vec<Family> {
        let mut new = Vec::new();
        for family in families.iter().filter(|family| !family.name.is_empty()) {
            let bytes = bytes_of(family);
            if self.bytes + bytes > self.most_bytes {
                continue;
            }
            let same_name = match self.by_name.get_mut(&family.name) {
                Some(same_name) => same_name,
                None => self.by_name.entry(Arc::clone(&family.name)).or_default(),
            };
            if !same_name.contains(family) {
                same_name.push(family.clone());
                same_name.sort();
                new.push(family.clone());
                self.bytes += bytes;
            }
        }
        new
    }

    /// Forgets families that no metric of `names` used at this check and the previous one.
    pub(super) fn keep_used<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        let mut used: HashSet<&str, foldhash::fast::RandomState> = HashSet::default();
        for name in names {
            used.insert(name);
            used.extend(SUFFIXES.iter().filter_map(|end| name.strip_suffix(end)));
        }
        let before = std::mem::take(&mut self.unused);
        self.by_name
            .retain(|name, _| used.contains(&**name) || !before.contains(name));
        let names = self.by_name.keys().filter(|name| !used.contains(&***name));
        self.unused = names.cloned().collect();
        self.bytes = self.by_name.values().flatten().map(bytes_of).sum();
    }

    /// Lists all families by name.
    pub(super) fn all(&self) -> Vec<Family> {
        self.by_name.values().flatten().cloned().collect()
    }

    /// Lists the families of one name.
    pub(super) fn named(&self, name: &str) -> Vec<Family> {
        self.by_name.get(name).cloned().unwrap_or_default()
    }
}

fn bytes_of(family: &Family) -> usize {
    FAMILY_BYTES + family.name.len() + family.unit.len() + family.help.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(families: &Families) -> Vec<String> {
        families.all().iter().map(|f| f.name.to_string()).collect()
    }

    #[test]
    fn families_end_with_their_series() {
        let mut families = Families::new(u64::MAX);
        let family = |name: &str| Family {
            name: name.into(),
            ..Family::default()
        };
        families.learn(&["a", "b", "h"].map(family));
        families.keep_used(["a", "h_bucket", "h_sum"].into_iter());
        assert_eq!(names(&families), ["a", "b", "h"], "it may just have come");
        families.keep_used(["a", "h_bucket"].into_iter());
        assert_eq!(names(&families), ["a", "h"]);
        families.keep_used(["b"].into_iter());
        families.keep_used(["h_count"].into_iter());
        assert_eq!(names(&families), ["h"]);
        assert_eq!(families.learn(&["a", "h"].map(family)).len(), 1);
    }

    #[test]
    fn families_beyond_their_part_of_the_memory_are_left_out() {
        let mut families = Families::new(3 * 1000 * MEMORY_SHARE);
        let family = |name: &str| Family {
            name: name.into(),
            help: "x".repeat(1000 - FAMILY_BYTES - 1).into(),
            ..Family::default()
        };
        let learned = families.learn(&["a", "b", "c", "d"].map(family));
        assert_eq!((learned.len(), families.heap_bytes()), (3, 3000));
        for _ in 0..2 {
            families.keep_used(["b"].into_iter());
        }
        assert_eq!(
            (names(&families), families.heap_bytes()),
            (vec!["b".to_owned()], 1000)
        );
        assert_eq!(families.learn(&["d"].map(family)).len(), 1);
    }
}
