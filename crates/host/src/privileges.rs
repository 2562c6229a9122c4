//! What collectors lose in a process without privileges.
//!
//! Invariant: a collector that is not listed reports the same to everybody.

use crate::kind::{CollectorKind, CollectorSet};

/// Losses by collector, and what helps short of root.
const LOSSES: &str = include_str!("privileges.txt");

impl CollectorSet {
    /// Lists those of the collectors that lose values in a process without privileges, each with what it loses.
    pub fn losses(self) -> impl Iterator<Item = (CollectorKind, &'static str)> {
        let losses = LOSSES.lines().filter_map(|line| line.split_once(' '));
        let losses =
            losses.filter_map(|(name, loss)| Some((CollectorKind::from_name(name)?, loss)));
        losses.filter(move |(kind, _)| self.contains(*kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_runs_is_listed() {
        let defaults = CollectorSet::defaults().losses();
        let names: Vec<&str> = defaults.map(|(kind, _)| kind.name()).collect();
        assert_eq!(names, ["dmi", "filesystem", "rapl"]);
        assert_eq!(CollectorSet::all().losses().count(), LOSSES.lines().count());
        assert!(LOSSES.lines().is_sorted());
    }
}
