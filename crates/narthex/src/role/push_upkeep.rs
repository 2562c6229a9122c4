//! What has to be done for pushed groups from time to time.
//!
//! **Invariant:** groups expire and the journal is synced once more after the last request.

use crate::worker::Worker;
use narthex_push::Store;
use std::{
    io,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// How often the journal is synced and expired groups are removed.
const UPKEEP: Duration = Duration::from_secs(1);
/// How often groups are handed to a sink while nobody pushes to them: Prometheus' default scrape interval.
const REPEAT_MS: u64 = 60_000;

/// Starts what syncs the journal, removes expired groups, and hands the others to a sink again if there is one.
pub(super) fn start(store: Arc<Store>) -> io::Result<Worker> {
    let what = "Keeping the push journal";
    Worker::start("narthex-push", what, UPKEEP, move |is_last| {
        store.expire();
        if !is_last {
            store.repeat(REPEAT_MS);
        }
        store.maintain();
        UPKEEP
    })
}

/// Returns the wall clock, in nanoseconds since the Unix epoch.
pub(super) fn now_ns() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
