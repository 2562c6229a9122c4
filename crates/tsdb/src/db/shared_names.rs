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

/// Leaves out of `selections`, and of the batches `alone` of the head, what a search for newest samples need not look at.
///
/// It is known to have ended within `range`, and its labels show that no other strip and no batch of `alone` or `mixed` has
/// a series of it that did not. Of those that all ended, none has anything newer than its markers.
pub(super) fn leave_out_ended(
    selections: &mut [Selection],
    alone: &mut Vec<Arc<dyn Batch>>,
    mixed: &[Arc<dyn Batch>],
    range: TimeRange,
) {
    let has_ended = ended(selections, alone, mixed, range);
    let mut has_ended = has_ended.into_iter();
    let mut is_kept = || !has_ended.next().unwrap_or(false);
    for selection in selections {
        selection.retain(|_| is_kept());
    }
    alone.retain(|_| is_kept());
}

/// Reports for each strip of `selections` and then for each batch of `alone` whether it may be left out.
fn ended(
    selections: &[Selection],
    alone: &[Arc<dyn Batch>],
    mixed: &[Arc<dyn Batch>],
    range: TimeRange,
) -> Vec<bool> {
    let strips = || selections.iter().flat_map(Selection::strips);
    let in_blocks = strips().map(|strip| strip.has_ended(range));
    let in_head = alone.iter().map(|batch| batch.has_ended(range));
    let mut ended: Vec<bool> = in_blocks.chain(in_head).collect();
    if !ended.contains(&true) {
        return ended;
    }
    let known = strips().map(|strip| Some((strip.common(), strip.known.names)));
    let commons = || known.clone().chain(alone.iter().map(common_of));
    let Some(names) = SharedNames::new(commons().chain(mixed.iter().map(common_of))) else {
        ended.fill(false);
        return ended;
    };
    let commons = || commons().flatten().map(|(common, _)| common);
    let alive = commons().zip(&ended).filter(|(_, ended)| !**ended);
    let alive = alive.map(|(common, _)| common);
    let alive: HashSet<LabelHash, foldhash::fast::RandomState> = alive
        .chain(mixed.iter().filter_map(|batch| batch.common()))
        .map(|common| names.key(common))
        .collect();
    for (common, ended) in commons().zip(&mut ended) {
        *ended = *ended && !alive.contains(&names.key(common));
    }
    ended
}
