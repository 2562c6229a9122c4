//! Whether series that are not in the head may come in: not while memory is short.
//!
//! **Invariant:** a series that was admitted stays; a refused one is asked for again when there is memory again.

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

/// The first series of an origin are always taken: `up` and its kin tell that the rest is refused.
pub(crate) const ALWAYS_TAKEN: usize = 16;
/// Jobs told apart; what comes from outside names them.
const MOST_JOBS: usize = 1000;

/// Decides by the memory of the process.
#[derive(Debug)]
pub(crate) struct Admission {
    memory: Budget,
    metrics: Arc<Metrics>,
    /// How many were refused since somebody asked, by job.
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

    /// Reports whether new series are taken.
    pub(crate) fn is_open(&self) -> bool {
        self.memory.pressure() < Pressure::RefuseSeries
    }

    /// Counts series that were refused, for the job that their labels name.
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

    /// As [`Admission::refuse`], for slots of a schema of which `first` is one.
    pub(crate) fn refuse_of(&self, schema: &Schema, first: &LabelSet, count: usize) {
        let common = schema.common();
        let labels = if common.get("job").is_some() {
            common
        } else {
            first
        };
        self.refuse(labels, count);
    }

    /// Returns how many series were refused since the last call, by job.
    pub(crate) fn take_refused(&self) -> BTreeMap<String, u64> {
        std::mem::take(&mut *self.refused.lock().whole())
    }
}
