//! Comparison of the start times of a counter's adjacent samples.

/// Decides from start times whether a counter was reset between two samples.
pub(super) fn is_start_reset(start_before: i64, time_before: i64, start: i64, time: i64) -> bool {
    if start == start_before || start == 0 || start >= time || start < time_before {
        return false;
    }
    if start > time_before {
        return true;
    }
    // A start exactly at the earlier sample is a reset for deltas, but not where an unknown start is set to the
    // sample.
    start_before <= time_before && start_before != 0 && start_before != time_before
}

/// Decides whether a start time precedes an earlier sample without being that sample's own.
pub(super) fn overlaps(start_before: i64, time_before: i64, start: i64) -> bool {
    start != 0 && start < time_before && start != start_before
}
