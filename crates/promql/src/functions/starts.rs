//! What start times tell about two samples of one counter.

/// Tells from start times whether a counter was reset between two samples.
pub(super) fn is_start_reset(start_before: i64, time_before: i64, start: i64, time: i64) -> bool {
    if start == 0 || start >= time || start < time_before {
        return false;
    }
    if start > time_before {
        return true;
    }
    // Exactly at the sample before: a reset for deltas, but not where the start is unknown and set to the sample.
    start_before <= time_before && start_before != 0 && start_before != time_before
}

/// Tells whether a start time reaches back over an earlier sample without being that sample's.
pub(super) fn overlaps(start_before: i64, time_before: i64, start: i64) -> bool {
    start != 0 && start < time_before && start != start_before
}
