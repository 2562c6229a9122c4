//! The thread that makes the log durable.
//!
//! **Invariant:** files are synced oldest first, so that what survives is a prefix; after a failed fsync the log is
//! poisoned and every waiter is told.

use super::{Health, Shared};
use std::{
    sync::{Arc, PoisonError},
    time::Instant,
};

impl Shared {
    /// Syncs at every interval, and whenever somebody waits, until asked to stop.
    pub(super) fn sync_forever(&self) {
        let mut state = self.lock();
        while !state.stop {
            if !state.sync_wanted {
                state = if self.options.fsync_interval.is_zero() {
                    self.work
                        .wait(state)
                        .unwrap_or_else(PoisonError::into_inner)
                } else {
                    let waited = self.work.wait_timeout(state, self.options.fsync_interval);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                };
            }
            state.sync_wanted = false;
            if matches!(state.health, Health::Poisoned { .. }) {
                self.synced.notify_all();
                continue;
            }
            let number = state.written;
            if number == state.synced && state.unsynced.is_empty() {
                self.synced.notify_all();
                continue;
            }
            let mut handles = state.unsynced.clone();
            let left_behind = handles.len();
            let open = state.file.as_ref().or(state.abandoned.as_ref());
            handles.extend(open.map(|file| Arc::clone(&file.handle)));
            drop(state);
            let started = Instant::now();
            let result = handles.iter().try_for_each(|handle| handle.sync());
            self.metrics
                .wal_fsync_seconds
                .observe(started.elapsed().as_secs_f64());
            state = self.lock();
            match result {
                Ok(()) => {
                    state.unsynced.drain(..left_behind);
                    state.synced = number;
                }
                Err(error) => {
                    self.metrics.wal_fsync_failures.inc();
                    state.health = Health::Poisoned {
                        cause: format!("fsync of the log failed: {error}"),
                    };
                }
            }
            self.synced.notify_all();
        }
    }
}
