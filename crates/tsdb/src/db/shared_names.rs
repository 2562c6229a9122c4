//! Telling series apart by the labels that all series of a strip have.
//!
//! **Invariant:** strips with different keys have no series in common; equal keys say nothing.

use crate::block::Selection;
use narthex_model::{
    Label, LabelHash, LabelSet,
    storage::{Batch, TimeRange},
};
use std::{collections::HashSet, sync::Arc};

/// The names of the labels that every one of some common sets has.
pub(super) struct SharedNames<'a> {
    /// Labels with these names, and their usual places.
    names: Vec<(usize, &'a Label)>,
}

/// A common set, and the key of its names.
pub(super) type Common<'a> = (&'a LabelSet, u64);

/// Returns what a batch knows of its common labels.
pub(super) fn common_of(batch: &Arc<dyn Batch>) -> Option<Common<'_>> {
    Some((batch.common()?, batch.common_names()?))
}

impl<'a> SharedNames<'a> {
    /// Finds the names; `None` if a common set is unknown, or they share no name.
    pub(super) fn new(commons: impl Iterator<Item = Option<Common<'a>>> + Clone) -> Option<Self> {
        let first = commons.clone().next()??;
        let mut names: Vec<(usize, &Label)> = first.0.iter().enumerate().collect();
        for common in commons {
            let (labels, key) = common?;
            if key == first.1 {
                continue;
            }
            // Mostly they have most of the names, so the label is at the same place.
            names.retain(|(at, name)| {
                let same = |label: &Label| label.same_name(name);
                let labels = labels.labels();
                labels.get(*at).is_some_and(same) || labels.iter().any(same)
            });
        }
        (!names.is_empty()).then_some(Self { names })
    }

    /// Returns the hash of a common set's labels with these names.
    pub(super) fn key(&self, common: &LabelSet) -> LabelHash {
        if common.len() == self.names.len() {
            return common.hash();
        }
        let is_shared = |label: &&Label| self.names.iter().any(|(_, name)| name.same_name(label));
        common.iter().filter(is_shared).map(Label::hash).sum()
    }
}

/// Reports for each strip of `selections`, in order, whether it may be left out of a search for newest samples.
///
/// It is then known to have ended within `range`, and its labels show that no other strip and no batch of `head` has a
/// series of it that did not. Of strips that all ended, none has anything newer than its markers.
pub(super) fn ended<'h>(
    selections: &'h [Selection],
    head: impl Iterator<Item = &'h Arc<dyn Batch>> + Clone,
    range: TimeRange,
) -> Vec<bool> {
    let strips = || selections.iter().flat_map(Selection::strips);
    let mut ended: Vec<bool> = strips().map(|strip| strip.has_ended(range)).collect();
    if !ended.contains(&true) {
        return ended;
    }
    let with_names = strips().map(|strip| Some((strip.common(), strip.known.common_names())));
    let Some(names) = SharedNames::new(head.clone().map(common_of).chain(with_names)) else {
        ended.fill(false);
        return ended;
    };
    let alive = strips().zip(&ended).filter(|(_, ended)| !**ended);
    let alive = alive.map(|(strip, _)| strip.common());
    let alive: HashSet<LabelHash, foldhash::fast::RandomState> = head
        .filter_map(|batch| batch.common())
        .chain(alive)
        .map(|common| names.key(common))
        .collect();
    for (strip, ended) in strips().zip(&mut ended) {
        *ended = *ended && !alive.contains(&names.key(strip.common()));
    }
    ended
}
