//! Scheduling of merges, and publication of their results.
//!
//! **Invariant:** either a merged block or its sources count, never both or neither, whatever happens in between.

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

/// Work per call, a few percent of a core, for each window that waits: hours of old samples, written in minutes, would
/// otherwise be read from many small blocks for an hour.
const WORK: Duration = Duration::from_millis(80);
/// Work per call while queries run: a backlog must neither take their cores nor stand still.
const LEAST_WORK: Duration = Duration::from_millis(20);
/// Most windows that more work is done for.
const MOST_WAITING: u32 = 8;
/// Time before a failed merge is retried.
const RETRY_MS: i64 = 60_000;
/// A window is over once one in this many parts of the flush age has passed since its end: then blocks hold it.
const OVER_PARTS: i64 = 4;

/// Label sets merged at once are limited to the head's number of series, within these bounds, so that merging costs
/// a fraction of the live data, however much is dead.
const LEAST_SETS: u64 = 1 << 17;
const MOST_SETS: u64 = 1 << 20;

/// Bytes a merge takes per set of a source: its number and position in the result, its column, its part of the source's
/// and the result's index.
const SET_BYTES: u64 = 128;
/// Bytes it takes per source: the pages that its last strips share.
const SOURCE_BYTES: u64 = 1 << 19;
/// Bytes it takes besides: a column, a buffer, strips that wait for each other.
const FIXED_BYTES: u64 = 4 << 20;

/// Merge state that one call of `maintain` leaves to the next.
#[derive(Default)]
pub(in crate::db) struct Merging {
    job: Option<MergeJob>,
    /// Windows that had blocks to merge when the job began.
    waiting: u32,
    /// Blocks that cannot be merged because their index is damaged.
    barred: HashSet<BlockId>,
    /// Pause during which no merge starts.
    rest: Rest,
}

/// A pause. A clock that is set out of it, in either direction, ends it.
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
    /// Returns the blocks being merged.
    pub(in crate::db) fn blocks(&self) -> impl Iterator<Item = &Arc<Block>> {
        self.job.iter().flat_map(MergeJob::blocks)
    }
}

impl Inner {
    /// Merges blocks for a moment, starting a due merge if none is in progress.
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
        let budget = WORK * merging.waiting.clamp(1, MOST_WAITING);
        match job.work(&self.while_quiet(LEAST_WORK, budget)) {
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
        let options = &self.context.options;
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
        merging.waiting = u32::try_from(chosen.windows).unwrap_or(u32::MAX);
        let chosen: Vec<Arc<Block>> = chosen
            .blocks
            .into_iter()
            .map(|at| blocks[at].clone())
            .collect();
        let bytes: u64 = chosen.iter().map(|block| block.meta().bytes).sum();
        let io = &self.context.io;
        let free = io.free_bytes(&options.path).unwrap_or(u64::MAX);
        if free / 2 < bytes {
            // Leave room for what is written meanwhile.
            merging.rest.begin(now_ms, SCAN_MS);
            return Ok(None);
        }
        let sets: u64 = chosen.iter().map(|b| u64::from(b.set_count())).sum();
        let needed_bytes = sets * SET_BYTES + chosen.len() as u64 * SOURCE_BYTES + FIXED_BYTES;
        let Ok(memory) = self.accounts.merge.lease(needed_bytes) else {
            merging.rest.begin(now_ms, SCAN_MS);
            return Ok(None);
        };
        // Name it as if written with its last source: without a manifest the names decide the order.
        let made = chosen
            .last()
            .map_or(now_ms, |last| last.meta().id.time_ms());
        let id = BlockId::new(made, unique.next());
        let dir = dir_of(&options.path);
        match MergeJob::new(
            Arc::clone(io),
            &dir,
            &chosen,
            id,
            options.block_window_ms,
            memory,
        )? {
            Ok(job) => Ok(Some(job)),
            Err(damaged) => {
                merging.barred.insert(chosen[damaged].meta().id);
                Ok(None)
            }
        }
    }

    /// Publishes a merged block instead of its sources.
    fn commit_merge(
        &self,
        merging: &mut Merging,
        job: MergeJob,
        now_ms: i64,
    ) -> Result<(), TsdbError> {
        let sources: Vec<Arc<Block>> = job.blocks().cloned().collect();
        self.metrics.merge_seconds.add(job.took.as_secs_f64());
        let (io, root) = (&*self.context.io, &self.context.options.path);
        let temporary = job.temporary().to_owned();
        let finished = job.finish().and_then(|meta| {
            let merged = self.open_blocks(std::slice::from_ref(&meta))?;
            let mut manifest = self.manifest_with(&[], &[]);
            let blocks = self.blocks.read().guarded();
            manifest.blocks = blocks.listed_with(&sources, &meta);
            drop(blocks);
            manifest.write_temporary(io, root)?;
            Ok((merged, meta))
        });
        let (merged, meta) = finished.inspect_err(|_| {
            // The unpublished block is useless, and a full disk needs the room.
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

    /// Excludes a block that the disk fails to return from merges: its readable parts stay in it.
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

    /// Drops the merge in progress with its output.
    pub(in crate::db) fn give_up_merge(&self, merging: &mut Merging, now_ms: i64) {
        if let Some(job) = merging.job.take() {
            job.abandon();
            self.note_failed_merge(merging, now_ms);
        }
    }

    /// Records a failed merge. The next start removes any remains.
    fn note_failed_merge(&self, merging: &mut Merging, now_ms: i64) {
        self.metrics.merge_failures.inc();
        merging.rest.begin(now_ms, RETRY_MS);
    }
}
