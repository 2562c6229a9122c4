//! The limit on scrapes at once.
//!
//! One thread answers all, so scrapes are collected one after the other; at once are those that were asked for before
//! another was collected and sent.
//!
//! **Invariant:** a turn is given back when the kernel has the answer, or the client has gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use narthex_net::yield_now;

use super::metrics::InFlight;

pub(super) struct Limit {
    most: usize,
    turns: AtomicUsize,
}

/// A scrape among those at once.
pub(super) struct Turn {
    limit: Arc<Limit>,
    _counted: InFlight,
}

impl Limit {
    /// Returns a limit; 0 means none.
    pub(super) fn new(most: usize) -> Arc<Self> {
        let turns = AtomicUsize::new(0);
        Arc::new(Self { most, turns })
    }

    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Returns a turn unless all are taken.
    pub(super) fn turn(self: &Arc<Self>) -> Option<Turn> {
        let turn = Turn {
            limit: Arc::clone(self),
            _counted: InFlight::new(),
        };
        let before = self.turns.fetch_add(1, Ordering::Relaxed);
        (self.most == 0 || before < self.most).then_some(turn)
    }
}

impl Turn {
    /// Lets those ask whose requests arrived in the meantime, so that they count as at once with this one.
    pub(super) async fn let_others_ask(&self) {
        /// A connection is accepted, then read from, by a task that waits for either.
        const STEPS: usize = 3;
        for _ in 0..STEPS.min(self.limit.most) {
            yield_now().await;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.limit.turns.fetch_sub(1, Ordering::Relaxed);
    }
}
