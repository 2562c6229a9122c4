//! The moments at which views were taken, so that data they may still read is not dropped.
//!
//! **Invariant:** data that became unneeded at moment m is dropped only when no view older than m lives.

use narthex_model::sync::Whole as _;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

/// Counts living views by the moment they were taken.
#[derive(Clone, Debug, Default)]
pub(super) struct Moments(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    now: u64,
    views: BTreeMap<u64, usize>,
}

/// A living view's moment; given back on drop.
#[derive(Debug)]
pub(super) struct Held {
    moments: Moments,
    at: u64,
}

impl Moments {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().whole()
    }

    /// Registers a view taken now.
    pub(super) fn hold(&self) -> Held {
        let mut state = self.lock();
        let at = state.now;
        *state.views.entry(at).or_default() += 1;
        Held {
            moments: self.clone(),
            at,
        }
    }

    /// Starts another moment; views taken from here on do not need data dropped before.
    pub(super) fn advance(&self) -> u64 {
        let mut state = self.lock();
        state.now += 1;
        state.now
    }

    /// Reports whether a view older than `moment` lives.
    pub(super) fn is_needed(&self, moment: u64) -> bool {
        self.lock()
            .views
            .first_key_value()
            .is_some_and(|(oldest, _)| *oldest < moment)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.moments.lock();
        if let Some(count) = state.views.get_mut(&self.at) {
            *count -= 1;
            if *count == 0 {
                state.views.remove(&self.at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_needed_while_an_older_view_lives() {
        let moments = Moments::default();
        let old = moments.hold();
        let moment = moments.advance();
        let new = moments.hold();
        assert!(moments.is_needed(moment));
        drop(old);
        assert!(!moments.is_needed(moment));
        drop(new);
        assert!(!moments.is_needed(moments.advance()));
    }
}
