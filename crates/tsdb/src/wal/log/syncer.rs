//! The thread that makes the log durable.
//!
//! **Invariant:** a file is synced before another follows it, so that a prefix survives; a failed fsync poisons the
//! log and wakes every waiter.

use super::{Health, Shared, State};
use crate::sync::Guarded as _;
use std::{
    sync::{Arc, MutexGuard},
    time::Instant,
};

impl Shared {
    /// Syncs at every interval, and whenever a writer waits, until asked to stop.
    pub(super) fn sync_forever(&self) {
        let mut state = self.lock();
        while !state.stop {
            if !state.sync_wanted {
                state = if self.options.fsync_interval.is_zero() {
                    self.work.wait(state).guarded()
                } else {
                    let waited = self.work.wait_timeout(state, self.options.fsync_interval);
                    waited.guarded().0
                };
            }
            state.sync_wanted = false;
            if matches!(state.health, Health::Poisoned { .. }) {
                self.synced.notify_all();
                continue;
            }
            let number = state.written;
            if number == state.synced {
                self.synced.notify_all();
                continue;
            }
            (state, _) = self.sync_open(state);
        }
    }

    /// Syncs the current file, or the one abandoned for it: all others were synced before they were left.
    ///
    /// Returns whether everything written before the call is durable.
    pub(super) fn sync_open<'s>(
        &'s self,
        state: MutexGuard<'s, State>,
    ) -> (MutexGuard<'s, State>, bool) {
        let number = state.written;
        let open = state.file.as_ref().or(state.abandoned.as_ref());
        let handle = open.map(|file| Arc::clone(&file.handle));
        drop(state);
        let started = Instant::now();
        let result = handle.map_or(Ok(()), |handle| handle.sync());
        self.metrics
            .wal_fsync_seconds
            .observe(started.elapsed().as_secs_f64());
        let mut state = self.lock();
        let good = result.is_ok();
        match result {
            // Another call may have synced further.
            Ok(()) => state.synced = state.synced.max(number),
            Err(error) => {
                self.metrics.wal_fsync_failures.inc();
                state.health = Health::Poisoned {
                    cause: format!("fsync of the log failed: {error}"),
                };
            }
        }
        self.synced.notify_all();
        (state, good)
    }
}
