//! What collectors lose in a process without privileges.
//!
//! Invariant: a collector that is not listed reports the same to everybody.

use crate::kind::{CollectorKind, CollectorSet};

/// Losses by collector, and what helps short of root.
const LOSSES: [(CollectorKind, &str); 8] = [
    (
        CollectorKind::Dmi,
        "serial numbers and UUID of board, chassis and product (their files are root's)",
    ),
    (
        CollectorKind::Filesystem,
        "mounts below directories that this user may not enter",
    ),
    (
        CollectorKind::Perf,
        "everything, unless it has CAP_PERFMON or kernel.perf_event_paranoid is 0 or less",
    ),
    (
        CollectorKind::Processes,
        "other users' processes, where /proc is mounted with hidepid",
    ),
    (
        CollectorKind::Rapl,
        "everything (energy_uj is root's since Linux 5.10)",
    ),
    (
        CollectorKind::Runit,
        "services whose directory supervise this user may not enter",
    ),
    (
        CollectorKind::Slabinfo,
        "everything (/proc/slabinfo is root's)",
    ),
    (
        CollectorKind::Supervisord,
        "everything, if supervisord's socket is root's",
    ),
];

impl CollectorSet {
    /// Lists those of the collectors that lose values in a process without privileges, each with what it loses.
    pub fn losses(self) -> impl Iterator<Item = (CollectorKind, &'static str)> {
        let losses = LOSSES.into_iter();
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
        assert_eq!(CollectorSet::all().losses().count(), LOSSES.len());
        assert!(LOSSES.is_sorted_by_key(|(kind, _)| kind.name()));
    }
}
