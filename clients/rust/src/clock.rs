//! Time of day.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns milliseconds since 1970; 0 with a clock before that.
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
