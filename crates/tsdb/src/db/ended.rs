//! Strips that ended, which a search for newest samples need not look at.

use crate::{
    block::FoundStrips,
    shared_names::{Common, SharedNames},
};
use narthex_model::storage::{Batch, TimeRange};
use std::{collections::HashSet, sync::Arc};

/// Leaves out of what was `found` in blocks, and of the batches `alone` of the head, what a search for newest samples need not look
/// at.
///
/// It is known to have ended within `range`, and its labels show that no other strip and no batch of `alone` or `mixed` has
/// a series of it that did not. Of those that all ended, none has anything newer than its markers.
pub(super) fn leave_out_ended(
    found: &mut [FoundStrips],
    alone: &mut Vec<Arc<dyn Batch>>,
    mixed: &[Arc<dyn Batch>],
    range: TimeRange,
) {
    let mut has_ended = ended(found, alone, mixed, range).into_iter();
    let mut is_kept = || !has_ended.next().unwrap_or(false);
    for found in found {
        found.retain(&mut is_kept);
    }
    alone.retain(|_| is_kept());
}

/// Reports for each strip of `found` and then for each batch of `alone` whether it may be left out.
fn ended(
    found: &[FoundStrips],
    alone: &[Arc<dyn Batch>],
    mixed: &[Arc<dyn Batch>],
    range: TimeRange,
) -> Vec<bool> {
    let in_blocks = found.iter().flat_map(|found| found.ended(range));
    let in_head = alone.iter().map(|batch| batch.has_ended(range));
    let mut ended: Vec<bool> = in_blocks.chain(in_head).collect();
    if !ended.contains(&true) {
        return ended;
    }
    let in_blocks = found.iter().flat_map(FoundStrips::commons);
    let commons = || in_blocks.clone().chain(alone.iter().map(Common::of));
    let Some(names) = SharedNames::new(commons().chain(mixed.iter().map(Common::of))) else {
        ended.fill(false);
        return ended;
    };
    let keys = || commons().flatten().map(|common| names.key(&common));
    let alive = keys().zip(&ended).filter(|(_, ended)| !**ended);
    let alive = alive.map(|(key, _)| key);
    let mixed = mixed.iter().filter_map(Common::of);
    let alive: HashSet<u64, foldhash::fast::RandomState> = alive
        .chain(mixed.map(|common| names.key(&common)))
        .collect();
    for (key, ended) in keys().zip(&mut ended) {
        *ended = *ended && !alive.contains(&key);
    }
    ended
}
