//! Telling series apart by the labels that all series of a strip have.
//!
//! **Invariant:** strips with different keys have no series in common; equal keys say nothing.

use narthex_model::{Label, LabelHash, LabelSet, storage::Batch};
use std::sync::Arc;

/// The names of the labels that every one of some common sets has.
pub(crate) struct SharedNames<'a> {
    /// Labels with these names, and their usual places.
    names: Vec<(usize, &'a Label)>,
    /// The names of a set that has no others.
    whole: Option<u64>,
}

/// The labels that all series of a strip have.
#[derive(Clone, Copy)]
pub(crate) struct Common<'a> {
    labels: &'a LabelSet,
    /// Key of their names.
    names: u64,
    /// Half of their hash, if it is known without looking at them.
    key: Option<u64>,
}

impl<'a> Common<'a> {
    pub(crate) fn with_key(labels: &'a LabelSet, names: u64, key: u64) -> Self {
        Self {
            labels,
            names,
            key: Some(key),
        }
    }

    /// Returns what a batch knows of its common labels.
    pub(crate) fn of(batch: &'a Arc<dyn Batch>) -> Option<Self> {
        Some(Self {
            labels: batch.common()?,
            names: batch.common_names()?,
            key: None,
        })
    }

    fn key(&self) -> u64 {
        self.key.unwrap_or_else(|| self.labels.hash().low())
    }
}

impl<'a> SharedNames<'a> {
    /// Finds the names; `None` if a common set is unknown, or they share no name.
    pub(crate) fn new(commons: impl Iterator<Item = Option<Common<'a>>> + Clone) -> Option<Self> {
        let first = commons.clone().next()??;
        let mut names: Vec<(usize, &Label)> = first.labels.iter().enumerate().collect();
        for common in commons {
            let Common {
                labels, names: key, ..
            } = common?;
            if key == first.names {
                continue;
            }
            // Mostly they have most of the names, so the label is at the same place.
            names.retain(|(at, name)| {
                let same = |label: &Label| label.same_name(name);
                let labels = labels.labels();
                labels.get(*at).is_some_and(same) || labels.iter().any(same)
            });
        }
        let is_whole = names.len() == first.labels.len();
        (!names.is_empty()).then_some(Self {
            names,
            whole: is_whole.then_some(first.names),
        })
    }

    /// Returns the key of a common set: half of the hash of its labels with these names.
    pub(crate) fn key(&self, common: &Common<'_>) -> u64 {
        let labels = common.labels;
        if self.whole == Some(common.names) || labels.len() == self.names.len() {
            return common.key();
        }
        let is_shared = |label: &&Label| self.names.iter().any(|(_, name)| name.same_name(label));
        let hash: LabelHash = labels.iter().filter(is_shared).map(Label::hash).sum();
        hash.low()
    }
}
