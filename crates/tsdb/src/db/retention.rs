//! Choice of blocks to remove by age or size.
//!
//! The age of a block counts from the newest stored sample, or from now if that is earlier: without new samples
//! nothing ages. Time that the wall clock only claims ([`super::steps`]) ages nothing either. A block from the future,
//! left by a fast clock, is as old as the samples stored after it.
//!
//! **Invariant:** no setting of the wall clock removes all blocks; by age the newest one always stays.

use super::{
    Inner,
    blocks::{Unreadable, range_of},
    maintain::Upkeep,
    steps::Clocks,
};
use crate::sync::Guarded as _;
use crate::{block::Block, error::TsdbError};
use narthex_model::storage::TimeRange;
use std::sync::{Arc, atomic::Ordering};

/// A block that begins further ahead of the clock counts as from the future.
const AHEAD_MS: i64 = 600_000;

/// Blocks with the time that their age counts from, in order of creation.
type Aged = Vec<(i64, Arc<Block>)>;

impl Inner {
    /// Compares the clocks, for ages and for refusing samples that are too old.
    pub(super) fn look_at_clocks(&self, upkeep: &mut Upkeep, now_ms: i64) {
        let now = Clocks {
            wall_ms: now_ms,
            monotonic_ms: self.context.clock.monotonic_ms(),
        };
        upkeep.steps.look(now, self.bounds.retention_ms());
        let doubt_ms = upkeep.steps.doubt_ms();
        self.doubt_ms.store(doubt_ms, Ordering::Relaxed);
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        self.metrics.clock_doubt.set(doubt_ms as f64 / 1000.0);
    }

    /// Removes blocks that are too old, then the oldest while there are too many bytes.
    pub(super) fn keep_retention(&self, upkeep: &mut Upkeep, now_ms: i64) -> Result<(), TsdbError> {
        let set = self.blocks.read().guarded();
        let blocks = aged(set.all(), now_ms);
        let mut lost: Vec<Unreadable> = set.unreadable().cloned().collect();
        drop(set);
        let lost_bytes: u64 = lost.iter().map(|block| block.bytes).sum();
        let mut gone: Vec<Arc<Block>> = Vec::new();
        if let Some(retention_ms) = self.bounds.retention_ms() {
            let end_ms = self
                .newest_ms(&blocks, now_ms)
                .saturating_sub(upkeep.steps.doubt_ms())
                .saturating_sub(retention_ms);
            let newest = blocks.iter().max_by_key(|(newest_ms, _)| *newest_ms);
            gone.extend(
                blocks
                    .iter()
                    .filter(|(aged_ms, block)| {
                        *aged_ms < end_ms
                            && newest.is_some_and(|newest| !Arc::ptr_eq(&newest.1, block))
                    })
                    .map(|(_, block)| Arc::clone(block)),
            );
            lost.retain(|block| block.is_before(end_ms));
            let count = gone.len() + lost.len();
            self.metrics.retention_time.inc_by(count as u64);
        } else {
            lost.clear();
        }
        if let Some(limit) = self.bounds.retention_bytes() {
            let mut left: Vec<&(i64, Arc<Block>)> = blocks
                .iter()
                .filter(|(_, block)| !gone.iter().any(|other| Arc::ptr_eq(other, block)))
                .collect();
            left.sort_by_key(|(aged_ms, _)| std::cmp::Reverse(*aged_ms));
            let of_blocks: u64 = left.iter().map(|(_, block)| block.meta().bytes).sum();
            let mut bytes = of_blocks + lost_bytes + self.wal.len_bytes();
            while bytes > limit
                && let Some((_, oldest)) = left.pop()
            {
                bytes = bytes.saturating_sub(oldest.meta().bytes);
                gone.push(Arc::clone(oldest));
                self.metrics.retention_size.inc();
            }
        }
        if gone.is_empty() && lost.is_empty() {
            return Ok(());
        }
        let is_gone = |block: &Arc<Block>| gone.iter().any(|other| Arc::ptr_eq(other, block));
        if upkeep.merging.blocks().any(is_gone) {
            self.give_up_merge(&mut upkeep.merging, now_ms);
        }
        drop(blocks);
        self.remove_blocks(gone, &lost)
    }

    /// Returns the time of the newest stored sample, or `now_ms` if that is earlier or nothing is stored.
    fn newest_ms(&self, blocks: &Aged, now_ms: i64) -> i64 {
        let strips = self.head.index().strips();
        let in_head = strips.iter().map(|strip| strip.max_ms());
        let newest_ms = in_head
            .filter(|max_ms| *max_ms > i64::MIN)
            .chain(blocks.iter().map(|(aged_ms, _)| *aged_ms))
            .max();
        newest_ms.map_or(now_ms, |newest_ms| newest_ms.min(now_ms))
    }
}

/// Returns the time that each block's age counts from: its newest sample, or, for one from the future, the time since
/// it was made, judging by what was stored after it.
fn aged(blocks: &[Arc<Block>], now_ms: i64) -> Aged {
    let is_ahead = |block: &Block| range_of(block).min_ms > now_ms.saturating_add(AHEAD_MS);
    let mut after: Vec<TimeRange> = Vec::new();
    let mut aged: Aged = Vec::with_capacity(blocks.len());
    for block in blocks.iter().rev() {
        let range = range_of(block);
        let from_ms = if is_ahead(block) {
            now_ms.saturating_sub(covered_ms(&mut after))
        } else {
            after.push(range);
            range.max_ms
        };
        aged.push((from_ms, Arc::clone(block)));
    }
    aged.reverse();
    aged
}

/// Returns the total time covered by `ranges`, ms.
fn covered_ms(ranges: &mut [TimeRange]) -> i64 {
    ranges.sort_unstable_by_key(|range| range.min_ms);
    let (mut covered_ms, mut until_ms) = (0_i64, i64::MIN);
    for range in ranges {
        let from_ms = range.min_ms.max(until_ms);
        covered_ms = covered_ms.saturating_add(range.max_ms.saturating_sub(from_ms).max(0));
        until_ms = until_ms.max(range.max_ms);
    }
    covered_ms
}
