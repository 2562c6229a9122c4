//! Wakes threads that wait for something about a queue to change.

use narthex_model::sync::Whole as _;
use std::{
    sync::{Condvar, Mutex},
    time::Duration,
};

/// A count of changes that threads can wait for.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    changes: Mutex<u64>,
    changed: Condvar,
}

impl Signal {
    /// Wakes all who wait.
    pub(crate) fn raise(&self) {
        *self.changes.lock().whole() += 1;
        self.changed.notify_all();
    }

    /// Returns the count, to be read before what one waits for is looked at.
    pub(crate) fn count(&self) -> u64 {
        *self.changes.lock().whole()
    }

    /// Waits until the count is another than `seen`, at most `timeout`.
    pub(crate) fn wait(&self, seen: u64, timeout: Duration) {
        let changes = self.changes.lock().whole();
        // Whoever waits looks again, whatever woke it.
        drop(
            self.changed
                .wait_timeout_while(changes, timeout, |count| *count == seen),
        );
    }
}
