//! The snapshots that living views hold, so that data they may still read is not dropped.
//!
//! **Invariant:** data that became unneeded in epoch e is dropped only when no view older than e lives.

use narthex_model::sync::Whole as _;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

/// Counts living views by the epoch in which they were taken.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshots(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    epoch: u64,
    views: BTreeMap<u64, usize>,
}

/// A living view's registration; ends on drop.
#[derive(Debug)]
pub(super) struct SnapshotGuard {
    snapshots: Snapshots,
    epoch: u64,
}

impl Snapshots {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().whole()
    }

    /// Registers a view taken now.
    pub(super) fn register(&self) -> SnapshotGuard {
        let mut state = self.lock();
        let epoch = state.epoch;
        *state.views.entry(epoch).or_default() += 1;
        SnapshotGuard {
            snapshots: self.clone(),
            epoch,
        }
    }

    /// Reports whether a view lives: a query runs.
    pub(super) fn is_read(&self) -> bool {
        !self.lock().views.is_empty()
    }

    /// Starts another epoch; views taken from here on do not need data dropped before.
    pub(super) fn advance(&self) -> u64 {
        let mut state = self.lock();
        state.epoch += 1;
        state.epoch
    }

    /// Reports whether a view older than `epoch` lives.
    pub(super) fn is_needed(&self, epoch: u64) -> bool {
        self.lock()
            .views
            .first_key_value()
            .is_some_and(|(oldest, _)| *oldest < epoch)
    }
}

impl Drop for SnapshotGuard {
    fn drop(&mut self) {
        let mut state = self.snapshots.lock();
        if let Some(count) = state.views.get_mut(&self.epoch) {
            *count -= 1;
            if *count == 0 {
                state.views.remove(&self.epoch);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_needed_while_an_older_view_lives() {
        let snapshots = Snapshots::default();
        let old = snapshots.register();
        let epoch = snapshots.advance();
        let new = snapshots.register();
        assert!(snapshots.is_needed(epoch));
        drop(old);
        assert!(!snapshots.is_needed(epoch) && snapshots.is_read());
        drop(new);
        assert!(!snapshots.is_read());
        assert!(!snapshots.is_needed(snapshots.advance()));
    }
}
