//! Metadata of metric families, as long as a series uses it.
//!
//! **Invariant:** a family without a series is forgotten by the second look after its last one: a first look may come
//! between a family and its first series.

use narthex_model::metadata::Family;
use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

/// What metrics of a family have behind its name.
const SUFFIXES: [&str; 8] = [
    "_bucket", "_sum", "_count", "_total", "_created", "_info", "_gsum", "_gcount",
];

/// Families by name; several where origins disagree.
#[derive(Debug, Default)]
pub(super) struct Families {
    by_name: BTreeMap<Arc<str>, Vec<Family>>,
    /// Names that no series used at the last look.
    unused: HashSet<Arc<str>, foldhash::fast::RandomState>,
}

impl Families {
    /// Takes in families; returns those that were not known.
    pub(super) fn learn(&mut self, families: &[Family]) -> Vec<Family> {
        let mut new = Vec::new();
        for family in families.iter().filter(|family| !family.name.is_empty()) {
            let same_name = match self.by_name.get_mut(&family.name) {
                Some(same_name) => same_name,
                None => self.by_name.entry(Arc::clone(&family.name)).or_default(),
            };
            if !same_name.contains(family) {
                same_name.push(family.clone());
                same_name.sort_by(|a, b| order_of(a).cmp(&order_of(b)));
                new.push(family.clone());
            }
        }
        new
    }

    /// Forgets what no metric of `names` has used at this look and the one before.
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

fn order_of(family: &Family) -> (&'static str, &str, &str) {
    (family.metric_type.as_str(), &family.unit, &family.help)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(families: &Families) -> Vec<String> {
        families.all().iter().map(|f| f.name.to_string()).collect()
    }

    #[test]
    fn families_end_with_their_series() {
        let mut families = Families::default();
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
}
