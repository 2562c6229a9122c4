//! Lint of rule files, as `promtool check rules` has it.

use crate::file::{Group, Texts};
use std::collections::BTreeMap;

/// Rules that record the same series, or alert under the same name with the same labels.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Duplicate {
    /// The rules' name.
    pub name: String,
    /// Their labels, those of the group included.
    pub labels: Texts,
}

/// Returns what several rules of a file have in common, each once, sorted.
#[must_use]
pub fn duplicates(groups: &[Group]) -> Vec<Duplicate> {
    let mut seen: BTreeMap<Duplicate, usize> = BTreeMap::new();
    for group in groups {
        for rule in &group.rules {
            let mut labels = group.labels.clone();
            labels.extend(rule.labels.clone());
            let name = rule.name.clone();
            *seen.entry(Duplicate { name, labels }).or_default() += 1;
        }
    }
    let repeated = seen.into_iter().filter(|(_, times)| *times > 1);
    repeated.map(|(rule, _)| rule).collect()
}
