//! When blocks are merged, and how the result comes to count.
//!
//! **Invariant:** of a merged block and its sources exactly one side counts, whatever happens in between.

use super::{
    MergeJob,
    plan::{self, Candidate, Rules},
};
use crate::sync::Guarded as _;
use crate::{
    block::{Block, BlockId},
    db::{
        Inner,
        blocks::dir_of,
        maintain::{SCAN_MS, Unique, Upkeep},
    },
    error::TsdbError,
    io::is_exhausted,
};
use std::{collections::HashSet, sync::Arc, time::Duration};

/// Work per call: a few percent of a core.
const WORK: Duration = Duration::from_millis(40);
/// Time after which a merge that failed is tried again.
const RETRY_MS: i64 = 60_000;
/// A window is over when it ended so many parts of the flush age ago: what was in memory is in blocks then.
const OVER_PARTS: i64 = 4;

/// Label sets merged at once are no more than the head has series, between these bounds: merging costs a part of what
/// is live, whatever is dead.
const LEAST_SETS: u64 = 1 << 17;
const MOST_SETS: u64 = 1 << 20;

/// What a merge takes for a set of a source: its number and place in the result, its column, a part of the source's index
/// and of the result's.
const SET_BYTES: u64 = 128;
/// What it takes beside them: a page of each source, a column, a buffer.
const FIXED_BYTES: u64 = 4 << 20;

/// What one call of `maintain` leaves to the next about merging.
#[derive(Default)]
pub(in crate::db) struct Merging {
    job: Option<MergeJob>,
    /// Blocks that cannot be merged: their index is damaged.
    barred: HashSet<BlockId>,
    /// No merge is begun in this time.
    rest: Rest,
}

/// A time to do nothing in. A clock that is set out of it, in either direction, ends it.
#[derive(Default)]
struct Rest {
    since_ms: i64,
    length_ms: i64,
}

impl Rest {
    fn begin(&mut self, now_ms: i64, length_ms: i64) {
        (self.since_ms, self.length_ms) = (now_ms, length_ms);
    }

    fn goes_on(&self, now_ms: i64) -> bool {
        let until_ms = self.since_ms.saturating_add(self.length_ms);
        (self.since_ms..until_ms).contains(&now_ms)
    }
}

impl Merging {
    /// Returns the blocks that are being merged.
    pub(in crate::db) fn blocks(&self) -> impl Iterator<Item = &Arc<Block>> {
        self.job.iter().flat_map(MergeJob::blocks)
    }
}

impl Inner {
    /// Merges blocks for a moment, beginning with those that are due where nothing is under way.
    pub(in crate::db) fn merge(&self, upkeep: &mut Upkeep, now_ms: i64) -> Result<(), TsdbError> {
        let merging = &mut upkeep.merging;
        if merging.job.is_none() {
            let begun = self.begin_merge(merging, &mut upkeep.unique, now_ms);
            merging.job = begun.inspect_err(|error| {
                self.bar(merging, error);
                self.note_failed_merge(merging, now_ms);
            })?;
        }
        let Some(mut job) = merging.job.take() else {
            return Ok(());
        };
        match job.work(WORK) {
            Ok(false) => {
                merging.job = Some(job);
                Ok(())
            }
            Ok(true) => self.commit_merge(merging, job, now_ms),
            Err(error) => {
                merging.job = Some(job);
                self.give_up_merge(merging, now_ms);
                self.bar(merging, &error);
                Err(error)
            }
        }
    }

    fn begin_merge(
        &self,
        merging: &mut Merging,
        unique: &mut Unique,
        now_ms: i64,
    ) -> Result<Option<MergeJob>, TsdbError> {
        let options = &self.ground.options;
        if options.merge_blocks < 2 || merging.rest.goes_on(now_ms) {
            return Ok(None);
        }
        let blocks = self.blocks.read().guarded();
        let blocks = blocks.all().to_vec();
        let window = |time_ms: i64| time_ms.div_euclid(options.block_window_ms);
        let candidate = |block: &Arc<Block>| {
            let meta = block.meta();
            Candidate {
                window: window(meta.min_time_ms),
                level: meta.level,
                bytes: meta.bytes,
                sets: u64::from(block.set_count()),
                barred: merging.barred.contains(&meta.id)
                    || window(meta.min_time_ms) != window(meta.max_time_ms),
            }
        };
        let candidates: Vec<Candidate> = blocks.iter().map(candidate).collect();
        let rules = Rules {
            run: options.merge_blocks,
            open_from: window(now_ms.saturating_sub(options.flush_age_ms / OVER_PARTS)),
            most_sets: (self.head.index().series() as u64).clamp(LEAST_SETS, MOST_SETS),
        };
        let Some(chosen) = plan::choose(&candidates, rules) else {
            return Ok(None);
        };
        let chosen: Vec<Arc<Block>> = chosen.into_iter().map(|at| blocks[at].clone()).collect();
        let bytes: u64 = chosen.iter().map(|block| block.meta().bytes).sum();
        let io = &self.ground.io;
        let free = io.free_bytes(&options.path).unwrap_or(u64::MAX);
        if free / 2 < bytes {
            // Room for what is written meanwhile has to stay.
            merging.rest.begin(now_ms, SCAN_MS);
            return Ok(None);
        }
        let sets: u64 = chosen.iter().map(|b| u64::from(b.set_count())).sum();
        let needed_bytes = sets * SET_BYTES + FIXED_BYTES;
        let Ok(memory) = self.accounts.merge.lease(needed_bytes) else {
            merging.rest.begin(now_ms, SCAN_MS);
            return Ok(None);
        };
        // Named as if it had been written with the last of them: without a manifest the names say who came first.
        let made = chosen
            .last()
            .map_or(now_ms, |last| last.meta().id.time_ms());
        let id = BlockId::new(made, unique.next());
        let dir = dir_of(&options.path);
        match MergeJob::new(Arc::clone(io), &dir, &chosen, id, memory)? {
            Ok(job) => Ok(Some(job)),
            Err(damaged) => {
                merging.barred.insert(chosen[damaged].meta().id);
                Ok(None)
            }
        }
    }

    /// Makes a merged block count instead of its sources.
    fn commit_merge(
        &self,
        merging: &mut Merging,
        job: MergeJob,
        now_ms: i64,
    ) -> Result<(), TsdbError> {
        let sources: Vec<Arc<Block>> = job.blocks().cloned().collect();
        self.metrics.merge_seconds.add(job.took.as_secs_f64());
        let (io, root) = (&*self.ground.io, &self.ground.options.path);
        let temporary = job.temporary().to_owned();
        let finished = job.finish().and_then(|meta| {
            let merged = self.open_blocks(std::slice::from_ref(&meta))?;
            let mut manifest = self.manifest_with(&[], &[]);
            let blocks = self.blocks.read().guarded();
            manifest.blocks = blocks.listed_with(&sources, &meta);
            drop(blocks);
            manifest.stage(io, root)?;
            Ok((merged, meta))
        });
        let (merged, meta) = finished.inspect_err(|_| {
            // What was written is of no use, and a full disk needs the room.
            let _ = io.remove(&temporary);
            self.note_failed_merge(merging, now_ms);
        })?;
        let _guard = self.wal.guard("making a merged block count");
        self.publish(std::slice::from_ref(&meta))?;
        let mut blocks = self.blocks.write().guarded();
        for block in merged {
            self.metrics.merge_written_bytes.inc_by(block.meta().bytes);
            blocks.replace(&sources, block);
        }
        drop(blocks);
        self.metrics.merges.inc();
        self.files.doom(sources);
        self.settle_files()
    }

    /// Leaves a block out of merges whose bytes the disk does not give: what it still has stays in it.
    fn bar(&self, merging: &mut Merging, error: &TsdbError) {
        if let TsdbError::Io { path, source, .. } = error
            && !is_exhausted(source)
        {
            let blocks = self.blocks.read().guarded();
            let unreadable = blocks.all().iter().filter(|block| block.path() == path);
            merging
                .barred
                .extend(unreadable.map(|block| block.meta().id));
        }
    }

    /// Drops the merge under way with what it wrote.
    pub(in crate::db) fn give_up_merge(&self, merging: &mut Merging, now_ms: i64) {
        if let Some(job) = merging.job.take() {
            job.abandon();
            self.note_failed_merge(merging, now_ms);
        }
    }

    /// Notes a merge that failed. What it may have left is removed at the next start.
    fn note_failed_merge(&self, merging: &mut Merging, now_ms: i64) {
        self.metrics.merge_failures.inc();
        merging.rest.begin(now_ms, RETRY_MS);
    }
}
