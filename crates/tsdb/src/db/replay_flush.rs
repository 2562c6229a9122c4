//! Replaying a WAL larger than memory permits: completed parts go into blocks on the way.
//!
//! Otherwise a process killed for its size would be killed again after every restart by the same WAL.
//!
//! **Invariant:** blocks and marks become visible together, as with every flush, and no WAL file is removed: a crash
//! in between costs only the work.

use super::{
    blocks::{BlockSet, dir_of},
    files::Files,
    flush::{FlushJob, Flushed},
    maintain::Unique,
    manifest::{Listed, Manifest},
};
use crate::{
    block::{Block, BlockCache, BlockMeta, FilePool},
    damage::DamageLog,
    error::{TsdbError, io_error},
    head::replay::HeadReplay,
    io::Io,
    options::DbOptions,
    wal::{FileEnd, ReplayTo, record::Record},
};
use narthex_model::storage::{Account, Budget, Pressure};
use std::sync::Arc;

/// Percentage of the memory that a replayed head may take before it is written into blocks.
const MOST_PERCENT: u8 = 30;
/// Number of measurements of the head per that amount.
const LOOKS: u64 = 4;
/// A smaller head than this is not the cause of memory pressure.
const LEAST_BYTES: u64 = 8 << 20;

/// Everything a replay needs to write blocks.
pub(super) struct FlushTarget<'a> {
    pub(super) io: &'a Arc<dyn Io>,
    pub(super) options: &'a DbOptions,
    pub(super) now_ms: i64,
    pub(super) blocks: &'a mut BlockSet,
    pub(super) manifest: &'a mut Manifest,
    pub(super) pool: &'a Arc<FilePool>,
    pub(super) files: &'a Files,
    pub(super) cache: &'a Arc<BlockCache>,
    pub(super) found: &'a Arc<DamageLog>,
}

/// A replay that stays within its memory.
pub(super) struct FlushingReplay<'h, 'a> {
    replay: HeadReplay<'h>,
    target: FlushTarget<'a>,
    unique: Unique,
    most_bytes: u64,
    /// Bytes placed since the last measurement.
    placed_bytes: u64,
    share: Budget,
    held: Account,
}

impl<'h, 'a> FlushingReplay<'h, 'a> {
    pub(super) fn new(replay: HeadReplay<'h>, target: FlushTarget<'a>) -> Self {
        let memory = &target.options.memory;
        let share = memory.share("replay", u64::MAX, u64::MAX);
        Self {
            most_bytes: memory.percent(MOST_PERCENT),
            held: share.account(),
            share,
            replay,
            target,
            unique: Unique::default(),
            placed_bytes: 0,
        }
    }

    /// Ends the replay.
    pub(super) fn finish(self) {
        self.replay.finish();
    }

    /// Measures the head when enough was placed, and flushes it when it is too large.
    fn look(&mut self) {
        if self.placed_bytes < self.most_bytes / LOOKS {
            return;
        }
        self.placed_bytes = 0;
        let held = self.replay.heap_bytes() as u64;
        self.held.set(held);
        let short = self.target.options.memory.pressure() >= Pressure::Flush;
        if held < self.most_bytes && !(short && held >= LEAST_BYTES) {
            return;
        }
        // On failure the data stays in memory, which may suffice.
        let _ = self.flush();
        self.held.set(self.replay.heap_bytes() as u64);
    }

    /// Writes everything that no further record can extend into blocks.
    fn flush(&mut self) -> Result<(), TsdbError> {
        let FlushTarget {
            io,
            options,
            now_ms,
            blocks,
            manifest,
            pool,
            files,
            cache,
            found,
        } = &mut self.target;
        let strips = self.replay.whole();
        if strips.is_empty() {
            return Ok(());
        }
        let root = &options.path;
        let mut job = FlushJob::new(
            Arc::clone(io),
            root,
            options.block_window_ms,
            *now_ms,
            strips,
            Vec::new(),
            self.unique.next(),
        )
        .counted_in(&self.share);
        job.work(&|| false)?;
        let Flushed { metas, strips, .. } = job.finish();
        let dir = dir_of(root);
        io.sync_dir(&dir).map_err(io_error(&dir, "fsync"))?;
        let open = |meta: &BlockMeta| {
            let path = dir.join(meta.file_name());
            Block::open_in(pool, &path, cache, found).map(Arc::new)
        };
        let fresh = metas.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let mut next = manifest.clone();
        next.blocks.extend(metas.iter().map(Listed::new));
        for flushed in &strips {
            let entry = next.marks.entry(flushed.strip.id).or_default();
            entry.rows = entry.rows.max(flushed.mark.rows);
            entry.out_of_order = entry.out_of_order.max(flushed.mark.out_of_order);
            next.next_strip = next.next_strip.max(flushed.strip.id + 1);
        }
        next.write(&***io, root)?;
        // The first maintenance names them; the WAL is not truncated before.
        files.name(root, &metas);
        **manifest = next;
        fresh.into_iter().for_each(|block| blocks.push(block));
        for flushed in strips {
            flushed.strip.set_flushed(flushed.mark, flushed.max_ms);
            flushed.strip.lock().drop_before(flushed.mark);
        }
        Ok(())
    }
}

impl ReplayTo for FlushingReplay<'_, '_> {
    fn begin_file(&mut self, current: bool) {
        self.replay.begin_file(current);
    }

    fn lost(&mut self, batches: u32) {
        self.replay.lost(batches);
    }

    fn record(&mut self, record: Record<'_>) -> Result<(), &'static str> {
        const OUT_OF_ORDER_BYTES: usize = 32;
        self.placed_bytes += match &record {
            Record::Row { pages, .. } => (*pages).map(<[u8]>::len).sum::<usize>(),
            Record::OutOfOrder { samples, .. } => samples.len() * OUT_OF_ORDER_BYTES,
            _ => 0,
        } as u64;
        let placed = self.replay.record(record);
        self.look();
        placed
    }

    fn end_file(&mut self, last: bool) -> FileEnd {
        self.replay.end_file(last)
    }
}
