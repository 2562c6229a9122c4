//! The damage found since the start.
//!
//! **Invariant:** each damaged place is listed and counted once, however often it is found.

use crate::{error::Damage, metrics::Metrics};
use narthex_model::sync::Whole as _;
use std::sync::{Arc, Mutex, MutexGuard};

/// Most places listed; a longer list would be of no use.
const MOST: usize = 1000;

/// Damage found by readers.
#[derive(Debug, Default)]
pub(crate) struct DamageLog {
    known: Mutex<Vec<Damage>>,
    metrics: Arc<Metrics>,
}

impl DamageLog {
    /// Returns a log that counts into `metrics`.
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            known: Mutex::default(),
            metrics,
        }
    }

    /// Lists damage that was already counted.
    pub(crate) fn extend(&self, damage: impl IntoIterator<Item = Damage>) {
        self.lock().extend(damage);
    }

    /// Lists and counts a place in a block unless it is known.
    pub(crate) fn note(&self, damage: &Damage) {
        let mut known = self.lock();
        if known.len() < MOST && !known.contains(damage) {
            self.metrics.block_corruptions.inc();
            known.push(damage.clone());
        }
    }

    /// Returns all damage in the order it was found.
    pub(crate) fn all(&self) -> Vec<Damage> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Damage>> {
        self.known.lock().whole()
    }
}
