//! Opening a database: the lock, the WAL, the threads.
//!
//! **Invariant:** nothing is changed on disk before the lock is held.

use super::{
    Accounts, Db, Inner,
    binding::SpareFrames,
    blocks::{BlockDir, BlockSet, Opened, Unreadable, range_of},
    files::Files,
    late::Effort,
    maintain::Upkeep,
    manifest::Manifest,
    pending_stale::PendingStale,
    replay_flush::{FlushTarget, FlushingReplay},
    snapshots::Snapshots,
    steps::{Clocks, Steps},
    write_times::WriteTimes,
};
use crate::{
    block::{BlockCache, FilePool},
    clock::Clock,
    damage::DamageLog,
    error::{Damage, TsdbError, io_error},
    head::{Head, replay::HeadReplay},
    io::{Io, Lock},
    metrics::Metrics,
    options::{Bounds, DbContext, DbOptions},
    wal::{self, ReplayProgress, Wal, WalOptions},
};
use narthex_model::storage::TimeRange;
use std::{
    path::Path,
    sync::{Arc, Mutex, RwLock, atomic::AtomicI64},
    time::{Duration, Instant},
};

/// File whose lock marks the directory as in use.
const LOCK: &str = "LOCK";
/// Fraction of the memory that the block cache may take.
const CACHE_SHARE: u64 = 8;

/// A data directory owned by this process, before its WAL is replayed.
///
/// Between [`Opening::begin`], which takes microseconds, and [`Opening::finish`], which reads the whole WAL, sources
/// may start with an [`EarlySink`](super::EarlySink).
pub struct Opening {
    io: Arc<dyn Io>,
    options: DbOptions,
    clock: Arc<dyn Clock>,
    lock: Box<dyn Lock>,
    progress: Arc<ReplayProgress>,
}

impl Db {
    /// Opens the database at `options.path`, creating it if missing, and replays its WAL.
    ///
    /// # Errors
    /// Fails when another process owns it, the directory cannot be read and written, or a newer release wrote it.
    /// Damage is not an error: see [`Db::damage`].
    pub fn open(
        io: Arc<dyn Io>,
        options: DbOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, TsdbError> {
        Opening::begin(io, options, clock)?.finish()
    }
}

impl Opening {
    /// Takes ownership of the directory at `options.path`, creating it if missing.
    ///
    /// # Errors
    /// Fails when another process owns it or it cannot be written.
    pub fn begin(
        io: Arc<dyn Io>,
        options: DbOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, TsdbError> {
        let root = &options.path;
        io.create_dir_all(root).map_err(io_error(root, "create"))?;
        let lock_path = root.join(LOCK);
        let lock = io.lock(&lock_path).map_err(io_error(&lock_path, "lock"))?;
        let lock = lock.ok_or_else(|| TsdbError::Locked { path: root.clone() })?;
        Ok(Self {
            io,
            options,
            clock,
            lock,
            progress: Arc::default(),
        })
    }

    /// Returns the progress of `finish` through the WAL.
    #[must_use]
    pub fn progress(&self) -> Arc<ReplayProgress> {
        Arc::clone(&self.progress)
    }

    /// Opens the blocks and replays the WAL.
    ///
    /// # Errors
    /// Fails when the directory cannot be read and written, or a newer release wrote it. Damage is not an error: see
    /// [`Db::damage`].
    pub fn finish(self) -> Result<Db, TsdbError> {
        let Self {
            io,
            options,
            clock,
            lock,
            progress,
        } = self;
        let (root, metrics) = (options.path.clone(), Arc::<Metrics>::default());
        let mut stored = open_stored(&io, &options, &metrics)?;
        let head = Head::new(Arc::clone(&metrics), options.memory.clone());
        head.skip_strips_to(stored.manifest.next_strip);
        let marks = stored.manifest.marks.clone().into_iter().collect();
        let started = Instant::now();
        let replay = HeadReplay::new(&head, marks, options.block_window_ms, clock.now_ms());
        let target = stored.flush_target(&io, &options, clock.now_ms());
        let mut replay = FlushingReplay::new(replay, target);
        let replayed = wal::replay(&*io, &root, &mut replay, &progress)?;
        replay.finish();
        learn_families(&head, &stored.opened.set);
        stored.damage.extend(replayed.damage);
        metrics.replay_seconds.set(started.elapsed().as_secs_f64());
        metrics.wal_corruptions.inc_by(stored.damage.len() as u64);
        stored.found.extend(stored.damage);
        let wal = Wal::start(
            Arc::clone(&io),
            &root.join(wal::DIR),
            replayed.next_file,
            wal_options(&options),
            replayed.files,
            &head.families(),
            Arc::clone(&metrics),
        )?;
        let upkeep = Upkeep::new(doubtful(&*clock, &stored.opened.set, &head));
        let inner = Inner {
            accounts: Accounts::new(&options.memory),
            bounds: Bounds::new(&options.tuning),
            context: DbContext { io, clock, options },
            head,
            wal,
            metrics,
            blocks: RwLock::new(stored.opened.set),
            cache: stored.cache,
            pool: stored.pool,
            files: stored.files,
            notices: stored.opened.notices,
            marks: Mutex::new(stored.manifest.marks),
            snapshots: Snapshots::default(),
            doubt_ms: AtomicI64::new(upkeep.steps.doubt_ms()),
            upkeep: Mutex::new(upkeep),
            damage: stored.found,
            pending_stale: PendingStale::default(),
            write_times: WriteTimes::new(),
            late: Effort::default(),
            spare: SpareFrames::default(),
            torn: replayed.torn,
            lock: Mutex::new(Some(lock)),
        };
        inner.show_disk();
        let db = Db(Arc::new(inner));
        db.tune(&db.0.context.options.tuning);
        Ok(db)
    }
}

/// The blocks, and everything needed to read them.
struct Stored {
    opened: Opened,
    manifest: Manifest,
    /// Damage of the manifest.
    damage: Vec<Damage>,
    files: Files,
    pool: Arc<FilePool>,
    cache: Arc<BlockCache>,
    found: Arc<DamageLog>,
}

impl Stored {
    /// Returns where a replay writes what fills the memory.
    fn flush_target<'a>(
        &'a mut self,
        io: &'a Arc<dyn Io>,
        options: &'a DbOptions,
        now_ms: i64,
    ) -> FlushTarget<'a> {
        FlushTarget {
            io,
            options,
            now_ms,
            blocks: &mut self.opened.set,
            manifest: &mut self.manifest,
            pool: &self.pool,
            files: &self.files,
            cache: &self.cache,
            found: &self.found,
        }
    }
}

/// Opens the blocks; keeps the manifest's marks only if they describe exactly these blocks.
fn open_stored(
    io: &Arc<dyn Io>,
    options: &DbOptions,
    metrics: &Arc<Metrics>,
) -> Result<Stored, TsdbError> {
    let root = &options.path;
    let (manifest, damage) = read_manifest(&**io, root)?;
    let cache = Arc::new(cache(options));
    let found = Arc::new(DamageLog::new(Arc::clone(metrics)));
    let most = options.max_open_blocks;
    let pool = FilePool::new(Arc::clone(io), most, Arc::clone(metrics));
    let pool = Arc::new(pool);
    let block_dir = BlockDir {
        io: &**io,
        root,
        pool: &pool,
        cache: &cache,
        damage: &found,
        metrics,
    };
    let listed = manifest.as_ref().map(|manifest| manifest.blocks.as_slice());
    let mut opened = BlockSet::open(&block_dir, listed)?;
    for block in opened.set.unreadable() {
        found.note(&block.damage);
    }
    let lost = |block: &Unreadable| !block.listed.given_up;
    let mut manifest = manifest.unwrap_or_default();
    if opened.is_changed || opened.set.unreadable().any(lost) {
        // The WAL may be from another time: none of its rows may be skipped. Merging removes those that blocks have
        // too.
        manifest.marks.clear();
    }
    // A replay into blocks adds to this list, which a lost manifest does not have.
    manifest.blocks = opened.set.listed();
    let files = Files::with_gone(std::mem::take(&mut opened.gone));
    Ok(Stored {
        opened,
        manifest,
        damage,
        files,
        pool,
        cache,
        found,
    })
}

/// Returns the cache of the blocks' parts, which counts as a share of the memory.
fn cache(options: &DbOptions) -> BlockCache {
    let share = options.memory.share("block cache", u64::MAX, u64::MAX);
    let most_bytes = options.memory.limit_bytes() / CACHE_SHARE;
    let most_bytes = usize::try_from(options.cache_bytes.min(most_bytes));
    BlockCache::new(most_bytes.unwrap_or(usize::MAX)).counted_by(share.account())
}

/// Reads the manifest; treats a damaged one as missing and reports the damage.
fn read_manifest(io: &dyn Io, root: &Path) -> Result<(Option<Manifest>, Vec<Damage>), TsdbError> {
    Ok(match Manifest::read(io, root)? {
        Ok(manifest) => (manifest, Vec::new()),
        Err(found) => (None, vec![found]),
    })
}

fn wal_options(options: &DbOptions) -> WalOptions {
    WalOptions {
        file_bytes: options.wal_file_bytes,
        fsync_interval: Duration::from_millis(options.fsync_interval_ms),
    }
}

/// Finds the times up to now for which nothing is stored.
fn doubtful(clock: &dyn Clock, blocks: &BlockSet, head: &Head) -> Steps {
    let now = Clocks {
        wall_ms: clock.now_ms(),
        monotonic_ms: clock.monotonic_ms(),
    };
    let strips = head.index().strips();
    let in_head: Vec<TimeRange> = strips
        .iter()
        .filter_map(|strip| strip.lock().time_range())
        .collect();
    let in_blocks = || blocks.all().iter().map(|block| range_of(block));
    // Samples from a fast clock may be in memory too: take the earliest.
    let last = in_head.iter().copied().chain(in_blocks().next_back());
    let last_ms = last.map(|range| range.max_ms).min();
    Steps::at_start(now, last_ms, in_blocks().chain(in_head))
}

/// Adds the blocks' families if the WAL has none: a lost WAL file held them all.
fn learn_families(head: &Head, blocks: &BlockSet) {
    if !head.families().is_empty() {
        return;
    }
    for block in blocks.all() {
        match block.families() {
            Ok(families) => drop(head.learn_families(&families)),
            // Reported but not needed: nothing else fails here.
            Err(error) => drop(block.note(error.into())),
        }
    }
}
