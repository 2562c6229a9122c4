//! Periodic work: flushing, merging, dropping, truncating, retention.
//!
//! **Invariant:** one caller at a time; a crash between any two steps is safe.

use super::{
    Inner,
    blocks::Unreadable,
    flush::{FlushJob, Flushed, FlushedStrip},
    manifest::{self, Listed, Manifest},
    merge::Merging,
    steps::Steps,
};
use crate::sync::Guarded as _;
use crate::{
    block::{Block, BlockMeta, PENDING},
    error::{TsdbError, io_error},
    head::strip::{Strip, StripState},
    io::is_full,
    wal::StripMark,
};
use narthex_model::{
    storage::{Budget, Pressure, TimeRange},
    sync::Whole as _,
};
use std::{
    collections::HashSet,
    hash::{BuildHasher, Hasher},
    sync::{Arc, MutexGuard},
    time::Duration,
};

/// Quiet time after which a strip not bound since the start is flushed: its target may yet be scraped.
const IDLE_MS: i64 = 5 * 60_000;
/// Quiet time after which a strip without an origin is flushed; another origin may take it over, as after a reload.
const LEFT_MS: i64 = 30_000;
/// Strips without origins are flushed at once when at least one in this many of the head's series is theirs, unless
/// they are few.
const LEFT_SHARE: usize = 4;
const LEFT_LEAST: usize = 10_000;
/// Most flushes per flush age, to bound the number of blocks.
const FLUSHES_PER_AGE: i64 = 12;
/// Files end early, after a flush, at this fraction of their size.
const CUTS_PER_FILE: u64 = 8;
/// Due encoded bytes that start a block at once.
const DUE_BYTES: usize = 64 << 20;
/// Work per call; a backlog gets more.
const WORK: Duration = Duration::from_millis(100);
/// Work per call while queries run, and what is added to it for each `DUE_BYTES`, many minutes of what scrapes bring in.
const LEAST_WORK: Duration = Duration::from_millis(20);
const LEAST_MORE: Duration = Duration::from_millis(100);
/// Out-of-order samples of a strip that are due at any age.
const OUT_OF_ORDER_DUE: usize = 1 << 20;
/// Out-of-order samples of the whole head are due when they take more than this fraction of the memory: at sixteen
/// bytes each, an hour of a fleet that timestamps every line is twenty times its rows.
const OUT_OF_ORDER_SHARE: u64 = 16;
const OUT_OF_ORDER_BYTES: u64 = 16;

/// Bytes the head takes for a series beside its samples: an index entry, a column.
const SERIES_BYTES: usize = 48;
/// Bytes the head takes for a local set: its postings and their lookup entries.
const SET_BYTES: usize = 200;
/// Least time between flushes caused by memory pressure.
const EARLY_MS: i64 = 20_000;
/// A head below this fraction of the memory is not worth flushing early.
const SMALL_HEAD: u64 = 32;
/// Interval of the check which families have series.
const FAMILIES_MS: i64 = 5 * 60_000;

/// Interval of scans over all strips.
pub(super) const SCAN_MS: i64 = 10_000;

/// State that one call of `maintain` leaves to the next.
#[derive(Default)]
pub(super) struct Upkeep {
    job: Option<FlushJob>,
    /// Times of the last scan and of the last job's start.
    last_scan_ms: Option<i64>,
    last_flush_ms: i64,
    /// Encoded bytes due at the last scan.
    due_bytes: usize,
    /// Whether, at the last scan, series of strips without origins were a large part of the head.
    is_crowded: bool,
    /// Time at which families without series were last forgotten.
    last_families_ms: i64,
    /// Memory to release once no view older than the moment lives.
    to_drop: Vec<(u64, Arc<Strip>, StripMark)>,
    /// Strips to remove from the index once no view older than the moment lives.
    to_remove: Vec<(u64, Arc<Strip>)>,
    pub(super) merging: Merging,
    pub(super) unique: Unique,
    pub(super) steps: Steps,
}

impl Upkeep {
    pub(super) fn new(steps: Steps) -> Self {
        Self {
            steps,
            ..Self::default()
        }
    }
}

/// Numbers that distinguish blocks made in the same millisecond.
#[derive(Default)]
pub(super) struct Unique(u128);

impl Unique {
    /// Returns a number that no block of the same millisecond has, nor any of the next thousand.
    pub(super) fn next(&mut self) -> u128 {
        if self.0 == 0 {
            // Two processes may write in the same millisecond of a clock that was set back.
            self.0 = u128::from(std::hash::RandomState::new().build_hasher().finish()) << 16;
        }
        self.0 = self.0.wrapping_add(1 << 10);
        self.0
    }
}

impl Inner {
    pub(super) fn maintain(&self, now_ms: i64) -> Result<(), TsdbError> {
        let mut upkeep = self.upkeep(now_ms);
        self.look_at_clocks(&mut upkeep, now_ms);
        self.give_back(&mut upkeep);
        // Removing files frees a full disk, so it comes first.
        let settled = self.settle_files();
        // Writers report a full disk; upkeep may be what makes room.
        let _ = self.write_pending_stale();
        // A clock that was set back must not stop the scans.
        let looked = upkeep
            .last_scan_ms
            .is_some_and(|last_ms| (last_ms..last_ms + SCAN_MS).contains(&now_ms));
        let early = self.is_flushed_early(&upkeep, now_ms);
        if !looked || early {
            upkeep.last_scan_ms = Some(now_ms);
            let out_of_order = self.is_out_of_order_large();
            let due = self.scan(&mut upkeep, now_ms, early, out_of_order);
            if upkeep.job.is_none() {
                upkeep.job = self.begin_job(&mut upkeep, now_ms, due, early || out_of_order);
            }
            self.retire_idle(&mut upkeep, now_ms);
            self.keep_retention(&mut upkeep, now_ms)?;
        }
        let most = WORK * u32::try_from(1 + 4 * upkeep.due_bytes / DUE_BYTES).unwrap_or(u32::MAX);
        let least = if self.memory().pressure() >= Pressure::Flush {
            most
        } else {
            LEAST_WORK + LEAST_MORE.mul_f64(upkeep.due_bytes as f64 / DUE_BYTES as f64)
        };
        self.work(&mut upkeep, now_ms, least, most)?;
        self.forget_families(&mut upkeep, now_ms);
        if self.memory().pressure() >= Pressure::RefuseSeries {
            // The cache only adds speed, so it goes first; merging can wait.
            self.cache.clear();
            return settled;
        }
        self.merge(&mut upkeep, now_ms)?;
        settled
    }

    fn memory(&self) -> &Budget {
        &self.context.options.memory
    }

    /// Reports whether to flush the head early: when memory is short or the head takes a third of it.
    fn is_flushed_early(&self, upkeep: &Upkeep, now_ms: i64) -> bool {
        let (held, limit) = (self.accounts.head.bytes(), self.memory().limit_bytes());
        let rested = !(upkeep.last_flush_ms..upkeep.last_flush_ms + EARLY_MS).contains(&now_ms);
        let short = self.memory().pressure() >= Pressure::Flush && held >= limit / SMALL_HEAD;
        upkeep.job.is_none() && rested && (short || held >= limit / 3)
    }

    /// Reports whether out-of-order samples outside blocks take more than their share of the memory.
    fn is_out_of_order_large(&self) -> bool {
        let strips = self.head.index().strips();
        let held = strips.iter().map(|strip| {
            let (flushed, arrived) = strip.snapshot().out_of_order;
            arrived.saturating_sub(flushed)
        });
        held.sum::<u64>().saturating_mul(OUT_OF_ORDER_BYTES)
            > self.memory().limit_bytes() / OUT_OF_ORDER_SHARE
    }

    fn forget_families(&self, upkeep: &mut Upkeep, now_ms: i64) {
        let last_ms = upkeep.last_families_ms;
        if !(last_ms..last_ms.saturating_add(FAMILIES_MS)).contains(&now_ms) {
            upkeep.last_families_ms = now_ms;
            self.head.forget_families();
        }
    }

    /// Locks the upkeep's state; if the last call panicked, drops its jobs.
    fn upkeep(&self, now_ms: i64) -> MutexGuard<'_, Upkeep> {
        match self.upkeep.lock() {
            Ok(upkeep) => upkeep,
            poisoned => {
                // Until it is committed, a job changes only its own files.
                let mut upkeep = poisoned.whole();
                upkeep.job = None;
                self.clean_up(&mut upkeep, now_ms);
                self.upkeep.clear_poison();
                upkeep
            }
        }
    }

    /// Writes everything held in memory into blocks, and releases the memory.
    pub(super) fn flush_all(&self, now_ms: i64) -> Result<(), TsdbError> {
        let mut upkeep = self.upkeep(now_ms);
        self.work(&mut upkeep, now_ms, Duration::MAX, Duration::MAX)?;
        let due = self.scan(&mut upkeep, now_ms, true, true);
        upkeep.job = self.begin_job(&mut upkeep, now_ms, due, true);
        self.work(&mut upkeep, now_ms, Duration::MAX, Duration::MAX)?;
        self.give_back(&mut upkeep);
        Ok(())
    }

    /// Scans all strips: seals what is due, sets the gauges; returns the strips to flush.
    fn scan(
        &self,
        upkeep: &mut Upkeep,
        now_ms: i64,
        everything: bool,
        all_out_of_order: bool,
    ) -> Vec<Arc<Strip>> {
        let _guard = self.wal.guard("sealing rows");
        let index = self.head.index();
        let (series, sets, strips) = (index.series(), index.sets().len(), index.strips());
        drop(index);
        self.wal.note_live(series);
        let mut due = Vec::new();
        let mut left_series = 0;
        upkeep.due_bytes = 0;
        let mut held = 0;
        let mut range: Option<TimeRange> = None;
        for strip in strips.iter() {
            let _turn = strip.turn();
            let mut state = strip.lock();
            let bytes = self.seal_due(strip, &mut state, now_ms, everything, all_out_of_order);
            let newest_row = state.open.published().end_row();
            state.windows.prune(newest_row);
            held += state.heap_bytes();
            range = super::hull(range, state.time_range());
            if bytes > 0 {
                upkeep.due_bytes += bytes;
                if strip.is_left() {
                    left_series += state.schema.len();
                }
                due.push(Arc::clone(strip));
            }
        }
        upkeep.is_crowded = left_series >= LEFT_LEAST && left_series * LEFT_SHARE >= series;
        let identities = series * SERIES_BYTES
            + sets * SET_BYTES
            + self.head.families_bytes()
            + self.wal.symbols_bytes();
        self.accounts.head.set((held + identities) as u64);
        self.metrics.head_series.set(series as f64);
        self.metrics.head_strips.set(strips.len() as f64);
        self.metrics.head_bytes.set(held as f64);
        if let Some(range) = range {
            self.metrics.head_min_time.set(range.min_ms as f64);
            self.metrics.head_max_time.set(range.max_ms as f64);
        }
        self.show_disk();
        due
    }

    /// Sets the gauges of disk contents.
    pub(super) fn show_disk(&self) {
        let blocks = self.blocks.read().guarded();
        self.metrics.blocks_loaded.set(blocks.all().len() as f64);
        self.metrics.blocks_bytes.set(blocks.bytes() as f64);
        drop(blocks);
        self.metrics.wal_bytes.set(self.wal.len_bytes() as f64);
        self.metrics
            .poisoned
            .set(f64::from(u8::from(self.wal.poisoned().is_some())));
    }

    /// Starts a job for due strips, unless it can wait.
    fn begin_job(
        &self,
        upkeep: &mut Upkeep,
        now_ms: i64,
        mut due: Vec<Arc<Strip>>,
        at_once: bool,
    ) -> Option<FlushJob> {
        let options = &self.context.options;
        let waited =
            passed_ms(upkeep.last_flush_ms, now_ms) >= options.flush_age_ms / FLUSHES_PER_AGE;
        let all = at_once || waited || upkeep.due_bytes >= DUE_BYTES;
        if !all {
            // Strips still being written can wait until they make a larger part of a block.
            due.retain(|strip| upkeep.is_crowded && strip.is_left());
        }
        if due.is_empty() {
            return None;
        }
        if all {
            upkeep.last_flush_ms = now_ms;
        }
        let unique = upkeep.unique.next();
        let io = Arc::clone(&self.context.io);
        let exemplars = self.head.exemplars().unflushed();
        let job = FlushJob::new(
            io,
            &options.path,
            options.block_window_ms,
            now_ms,
            due,
            exemplars,
            unique,
        );
        Some(job.counted_in(&self.accounts.flush))
    }

    /// Seals the due part of a strip; returns its encoded bytes, 0 for nothing.
    fn seal_due(
        &self,
        strip: &Strip,
        state: &mut StripState,
        now_ms: i64,
        everything: bool,
        all_out_of_order: bool,
    ) -> usize {
        let options = &self.context.options;
        let all = everything || is_idle(strip, now_ms);
        let flushed = strip.flushed();
        let window = |time_ms: i64| time_ms.div_euclid(options.block_window_ms);
        let is_old = |time_ms: i64| now_ms.saturating_sub(time_ms) >= options.flush_age_ms;
        if let Some((first_ms, last_ms)) = state.open.published().time_range()
            && (all
                || is_old(first_ms)
                || (window(first_ms) < window(now_ms) && now_ms.saturating_sub(last_ms) > 60_000))
        {
            state.seal();
        }
        let unflushed: Vec<_> = state
            .sealed
            .iter()
            .filter(|row_chunk| row_chunk.first_row >= flushed.rows)
            .collect();
        let rows: usize = unflushed.iter().map(|row_chunk| row_chunk.rows()).sum();
        let bytes: usize = unflushed
            .iter()
            .map(|row_chunk| row_chunk.encoded_bytes())
            .sum();
        let old = unflushed
            .first()
            .and_then(|first| first.time_range())
            .is_some_and(|(first_ms, last_ms)| {
                is_old(first_ms) || window(last_ms) < window(now_ms)
            });
        let held = if strip.snapshot().out_of_order.0 < strip.snapshot().out_of_order.1 {
            state.out_of_order.held()
        } else {
            0
        };
        let out_of_order_due = held > 0
            && (all
                || all_out_of_order
                || held >= OUT_OF_ORDER_DUE
                || passed_ms(state.out_of_order.since_ms(now_ms), now_ms) >= options.flush_age_ms);
        let rows_due = rows > 0 && (all || old || rows * 4 >= options.flush_rows);
        if rows_due || out_of_order_due {
            (bytes + held * 16).max(1)
        } else {
            0
        }
    }

    /// Goes on with a flush for `most` at most, and after `least` only while no query runs.
    fn work(
        &self,
        upkeep: &mut Upkeep,
        now_ms: i64,
        least: Duration,
        most: Duration,
    ) -> Result<(), TsdbError> {
        let Some(mut job) = upkeep.job.take() else {
            return Ok(());
        };
        match job.work(&self.while_quiet(least, most)) {
            Ok(false) => {
                upkeep.job = Some(job);
                Ok(())
            }
            Ok(true) => self.commit(upkeep, job.finish(), now_ms),
            Err(error) => {
                self.clean_up(upkeep, now_ms);
                Err(error.into())
            }
        }
    }

    /// Returns whether work is to stop: when it took `most`, or `least` and a query runs.
    pub(super) fn while_quiet(&self, least: Duration, most: Duration) -> impl Fn() -> bool {
        let (least, most) = (self.deadline(least), self.deadline(most));
        move || most() || (least() && self.snapshots.is_read())
    }

    /// Returns whether `budget` is used up, by the database's clock: whether a job is under way at a moment that a test
    /// chooses must not depend on how busy the machine is.
    fn deadline(&self, budget: Duration) -> impl Fn() -> bool {
        let clock = &*self.context.clock;
        let started_ms = clock.monotonic_ms();
        let budget_ms = i64::try_from(budget.as_millis()).unwrap_or(i64::MAX);
        move || clock.monotonic_ms() - started_ms >= budget_ms
    }

    /// Removes the remains of a failed job: half-written files, and blocks that no manifest names.
    fn clean_up(&self, upkeep: &mut Upkeep, now_ms: i64) {
        self.metrics.flush_failures.inc();
        // Do not retry at once: a full disk stays full for a while.
        upkeep.last_flush_ms = now_ms;
        self.give_up_merge(&mut upkeep.merging, now_ms);
        let dir = super::blocks::dir_of(&self.context.options.path);
        let names = self.context.io.list(&dir).unwrap_or_default();
        let half_written = names.iter().filter(|name| name.ends_with(PENDING));
        for path in half_written.map(|name| dir.join(name)) {
            // If the removal fails, the next start repeats it.
            if !self.files.is_unnamed(&path) {
                let _ = self.context.io.remove(&path);
            }
        }
    }

    /// Publishes a job's blocks.
    fn commit(&self, upkeep: &mut Upkeep, flushed: Flushed, now_ms: i64) -> Result<(), TsdbError> {
        let Flushed {
            metas,
            strips,
            exemplars,
            took,
        } = flushed;
        let (io, root) = (&*self.context.io, &self.context.options.path);
        let manifest = self.manifest_with(&metas, &strips);
        let opened = self
            .open_blocks(&metas)
            .and_then(|fresh| manifest.write_temporary(io, root).map(|()| fresh));
        let fresh = opened.inspect_err(|_| self.clean_up(upkeep, now_ms))?;
        // From here on the manifest on disk may list the blocks, so none of them may be removed.
        let _guard = self.wal.guard("making blocks count");
        self.publish(&metas)?;
        let mut blocks = self.blocks.write().guarded();
        *self.marks.lock().guarded() = manifest.marks;
        fresh.into_iter().for_each(|block| blocks.push(block));
        strips
            .iter()
            .for_each(|flushed| flushed.strip.set_flushed(flushed.mark, flushed.max_ms));
        let epoch = self.snapshots.advance();
        drop(blocks);
        self.head.exemplars().set_flushed(&exemplars);
        upkeep.to_drop.extend(
            strips
                .into_iter()
                .map(|flushed| (epoch, flushed.strip, flushed.mark)),
        );
        self.metrics.flushes.inc_by(metas.len() as u64);
        self.metrics.flush_seconds.set(took.as_secs_f64());
        self.settle_files()?;
        self.truncate_log()
    }

    /// Opens finished blocks and makes their temporary names durable.
    pub(super) fn open_blocks(&self, metas: &[BlockMeta]) -> Result<Vec<Arc<Block>>, TsdbError> {
        let dir = super::blocks::dir_of(&self.context.options.path);
        let io = &self.context.io;
        io.sync_dir(&dir).map_err(io_error(&dir, "fsync"))?;
        let open = |meta: &BlockMeta| {
            let path = dir.join(meta.file_name());
            Block::open_in(&self.pool, &path, &self.cache, &self.damage)
        };
        metas.iter().map(|meta| open(meta).map(Arc::new)).collect()
    }

    /// Returns the manifest that publishes finished blocks.
    pub(super) fn manifest_with(&self, metas: &[BlockMeta], strips: &[FlushedStrip]) -> Manifest {
        let mut blocks = self.blocks.read().guarded().listed();
        blocks.extend(metas.iter().map(Listed::new));
        let mut marks = self.marks.lock().guarded().clone();
        for FlushedStrip { strip, mark, .. } in strips {
            let entry = marks.entry(strip.id).or_default();
            entry.rows = entry.rows.max(mark.rows);
            entry.out_of_order = entry.out_of_order.max(mark.out_of_order);
        }
        let mut needed = self.wal.strips();
        needed.extend(self.head.index().strips().iter().map(|strip| strip.id));
        marks.retain(|strip, _| needed.contains(strip));
        Manifest {
            next_strip: self.head.next_strip(),
            blocks,
            marks,
        }
    }

    fn truncate_log(&self) -> Result<(), TsdbError> {
        let file_bytes = self.context.options.wal_file_bytes;
        if self.wal.is_worth_cutting(file_bytes / CUTS_PER_FILE) {
            self.wal.cut(&self.head)?;
        }
        let marks = self.marks.lock().guarded().clone();
        let live: HashSet<u32> = self
            .head
            .index()
            .strips()
            .iter()
            .map(|strip| strip.id)
            .collect();
        self.wal.truncate(|strip, mark| {
            let flushed = marks.get(&strip).copied().unwrap_or_default();
            // A strip that is gone was flushed completely before.
            !live.contains(&strip)
                || (flushed.rows >= mark.rows && flushed.out_of_order >= mark.out_of_order)
        })?;
        Ok(())
    }

    /// Drops memory that blocks hold too and no view needs.
    fn give_back(&self, upkeep: &mut Upkeep) {
        let _guard = self.wal.guard("giving memory back");
        let needed = |epoch: &u64| self.snapshots.is_needed(*epoch);
        let mut kept = Vec::new();
        for (epoch, strip, mark) in upkeep.to_drop.drain(..) {
            if needed(&epoch) {
                kept.push((epoch, strip, mark));
            } else {
                strip.lock().drop_before(mark);
            }
        }
        upkeep.to_drop = kept;
        let (waiting, ready): (Vec<_>, Vec<_>) = upkeep
            .to_remove
            .drain(..)
            .partition(|(epoch, _)| needed(epoch));
        upkeep.to_remove = waiting;
        if !ready.is_empty() {
            let ready: Vec<Arc<Strip>> = ready.into_iter().map(|(_, strip)| strip).collect();
            // Before they leave: a reader of the marks must find them in one of the two places.
            self.wal
                .note_gone(ready.iter().map(|strip| (strip.id, strip.flushed())));
            self.head.remove_strips(&ready);
            self.head
                .index()
                .strips()
                .iter()
                .for_each(|strip| strip.forget_dead_owners());
            // Strips and sets are gone with the list.
            drop(ready);
            narthex_model::labels::sweep();
        }
    }

    /// Claims for removal quiet strips without an origin that blocks hold completely.
    fn retire_idle(&self, upkeep: &mut Upkeep, now_ms: i64) {
        let idle = |strip: &Arc<Strip>| strip.snapshot().is_empty() && is_idle(strip, now_ms);
        let strips = self.head.index().strips();
        let retired = strips
            .iter()
            .filter(|strip| idle(strip) && strip.try_retire());
        let retired: Vec<Arc<Strip>> = retired.cloned().collect();
        if !retired.is_empty() {
            let epoch = self.snapshots.advance();
            upkeep
                .to_remove
                .extend(retired.into_iter().map(|strip| (epoch, strip)));
        }
    }

    pub(super) fn remove_blocks(
        &self,
        gone: Vec<Arc<Block>>,
        lost: &[Unreadable],
    ) -> Result<(), TsdbError> {
        let _guard = self.wal.guard("removing blocks");
        let names = gone.iter().map(|block| block.meta().file_name());
        let lost_names = lost.iter().map(|block| block.listed.name.clone());
        let names: Vec<String> = names.chain(lost_names).collect();
        let (io, root) = (&*self.context.io, &self.context.options.path);
        let mut manifest = self.manifest_with(&[], &[]);
        manifest
            .blocks
            .retain(|listed| !names.contains(&listed.name));
        match manifest.write_temporary(io, root) {
            Ok(()) => manifest::publish(io, root)?,
            // Freeing space must not depend on free space: the files' own names say that they no longer count.
            Err(TsdbError::Io { source, .. }) if is_full(&source) => {
                self.files.set_manifest_pending();
            }
            Err(error) => return Err(error),
        }
        let mut blocks = self.blocks.write().guarded();
        gone.iter().for_each(|block| blocks.remove(block));
        blocks.forget_unreadable(&names);
        drop(blocks);
        self.write_times.note_removed();
        self.files.doom(gone);
        let lost = lost.iter().map(|block| block.damage.path.clone());
        self.files.doom_paths(lost);
        self.settle_files()
    }

    /// Returns an interval that covers everything stored.
    pub(super) fn time_range(&self) -> Option<TimeRange> {
        let of_blocks = self.blocks.read().guarded().time_range();
        let strips = self.head.index().strips();
        strips.iter().fold(of_blocks, |range, strip| {
            super::hull(range, strip.lock().time_range())
        })
    }
}

/// Reports whether the strip has no origin and is unlikely to get one.
fn is_idle(strip: &Strip, now_ms: i64) -> bool {
    let quiet_ms = if strip.is_left() { LEFT_MS } else { IDLE_MS };
    !strip.is_bound() && passed_ms(strip.touched_ms(), now_ms) >= quiet_ms
}

/// Returns the time since `then_ms`; after the clock was set back, a very long time.
fn passed_ms(then_ms: i64, now_ms: i64) -> i64 {
    if then_ms > now_ms {
        i64::MAX
    } else {
        now_ms.saturating_sub(then_ms)
    }
}
