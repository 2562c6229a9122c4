//! Admission of new series to the head: refused while memory is short.
//!
//! **Invariant:** an admitted series stays; a refused one is retried when memory is available again.

use crate::metrics::Metrics;
use narthex_model::sync::Whole as _;
use narthex_model::{
    LabelSet, Schema,
    storage::{Budget, Pressure},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// The first series of an origin are always accepted: `up` and similar series report that the rest is refused.
pub(crate) const ALWAYS_TAKEN: usize = 16;
/// Most jobs counted separately; their names come from outside.
const MOST_JOBS: usize = 1000;

/// Decides by the memory of the process.
#[derive(Debug)]
pub(crate) struct Admission {
    memory: Budget,
    metrics: Arc<Metrics>,
    /// Refusals since the last query, by job.
    refused: Mutex<BTreeMap<String, u64>>,
}

impl Admission {
    pub(crate) fn new(memory: Budget, metrics: Arc<Metrics>) -> Self {
        Self {
            memory,
            metrics,
            refused: Mutex::default(),
        }
    }

    /// Reports whether new series are accepted.
    pub(crate) fn is_open(&self) -> bool {
        self.memory.pressure() < Pressure::RefuseSeries
    }

    /// Counts refused series for the job in their labels.
    pub(crate) fn refuse(&self, labels: &LabelSet, count: usize) {
        let job = labels.get("job").unwrap_or_default();
        let count = count as u64;
        self.metrics.refused_series.with(&[job]).inc_by(count);
        let mut refused = self.refused.lock().whole();
        if let Some(known) = refused.get_mut(job) {
            *known += count;
        } else if refused.len() < MOST_JOBS {
            refused.insert(job.to_owned(), count);
        }
    }

    /// Counts like [`Admission::refuse`], for slots of a schema that include `first`.
    pub(crate) fn refuse_of(&self, schema: &Schema, first: &LabelSet, count: usize) {
        let common = schema.common();
        let labels = if common.get("job").is_some() {
            common
        } else {
            first
        };
        self.refuse(labels, count);
    }

    /// Returns the number of series refused since the last call, by job.
    pub(crate) fn take_refused(&self) -> BTreeMap<String, u64> {
        std::mem::take(&mut *self.refused.lock().whole())
    }
}
