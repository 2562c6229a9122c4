//! The database: opening, writing, closing.
//!
//! **Invariant:** one process owns the directory; the next open after a crash serves everything acknowledged before
//! it, except damaged parts, which are reported.

mod adopt;
mod binding;
mod blocks;
mod early;
mod ended;
mod files;
mod flush;
mod fuzz;
mod late;
mod maintain;
mod manifest;
mod merge;
mod merge_aligned;
mod open;
mod pending_stale;
mod replay_flush;
mod retention;
mod snapshots;
mod steps;
mod view;
mod write_times;

use crate::{
    BlockMeta,
    block::{BlockCache, FilePool},
    damage::DamageLog,
    error::{Damage, TsdbError},
    head::{Head, append::Limits, append_out_of_order::STORING, strip::Strip},
    io::Lock,
    metrics::Metrics,
    options::{Bounds, DbContext, Tuning},
    wal::{StripMark, Wal},
};
pub use adopt::Notice;
use binding::{DbBinding, SpareFrames};
use blocks::BlockSet;
pub use early::EarlySink;
use files::Files;
pub use fuzz::fuzz_manifest;
use late::Effort;
use maintain::Upkeep;
use narthex_client::Registry;
use narthex_model::sync::Whole as _;
use narthex_model::{
    Schema,
    storage::{
        Account, Binding, BoundRound, Budget, Context, ListingMark, ListingOf, Outcome, Prepared,
        Selector, SeriesQuery, SeriesSample, Sink, StorageError, Store, SyncToken, TimeRange, View,
        WriteMark,
    },
};
pub use open::Opening;
use pending_stale::PendingStale;
use smallvec::SmallVec;
use snapshots::Snapshots;
use std::{
    any::Any,
    collections::BTreeMap,
    fmt,
    path::Path,
    sync::{
        Arc, Mutex, RwLock,
        atomic::{AtomicI64, Ordering},
    },
};
use write_times::WriteTimes;

/// A database; clones share it.
#[derive(Clone)]
pub struct Db(Arc<Inner>);

pub(crate) struct Inner {
    context: DbContext,
    bounds: Bounds,
    pub(crate) head: Head,
    pub(crate) wal: Wal,
    metrics: Arc<Metrics>,
    blocks: RwLock<BlockSet>,
    cache: Arc<BlockCache>,
    pool: Arc<FilePool>,
    files: Files,
    notices: Vec<Notice>,
    /// How far each strip is in blocks, from the manifest.
    marks: Mutex<BTreeMap<u32, StripMark>>,
    snapshots: Snapshots,
    upkeep: Mutex<Upkeep>,
    /// How far the wall clock may be ahead of the time that has passed, as upkeep found.
    doubt_ms: AtomicI64,
    damage: Arc<DamageLog>,
    pending_stale: PendingStale,
    write_times: WriteTimes,
    /// What looking for late samples in blocks may take.
    late: Effort,
    spare: SpareFrames,
    torn: Option<Damage>,
    accounts: Accounts,
    lock: Mutex<Option<Box<dyn Lock>>>,
}

/// Accounts of the database in the process's memory.
struct Accounts {
    head: Account,
    /// Blocks being written from the head: that frees memory, so it is never refused.
    flush: Budget,
    /// Blocks being merged, which can wait.
    merge: Budget,
}

impl Accounts {
    fn new(memory: &Budget) -> Self {
        Self {
            head: memory.share("head", u64::MAX, u64::MAX).account(),
            flush: memory.share("flush", u64::MAX, u64::MAX),
            merge: memory.share("merge", memory.percent(25), memory.percent(75)),
        }
    }
}

impl Db {
    /// Returns the data directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.context.options.path
    }

    /// Lists the damage found since the start.
    #[must_use]
    pub fn damage(&self) -> Vec<Damage> {
        self.0.damage.all()
    }

    /// Lists the blocks, in order of precedence.
    #[must_use]
    pub fn block_metas(&self) -> Vec<BlockMeta> {
        let blocks = self.0.blocks.read().whole();
        blocks
            .all()
            .iter()
            .map(|block| block.meta().clone())
            .collect()
    }

    /// Lists the actions of the start on blocks that the manifest did not list.
    #[must_use]
    pub fn notices(&self) -> &[Notice] {
        &self.0.notices
    }

    /// Returns the place where the WAL ends in the middle of a write, as it may after a crash; it held nothing
    /// acknowledged.
    #[must_use]
    pub fn torn_end(&self) -> Option<&Damage> {
        self.0.torn.as_ref()
    }

    /// Returns the reason nothing can be written until a restart, if there is one.
    #[must_use]
    pub fn poisoned(&self) -> Option<String> {
        self.0.wal.poisoned()
    }

    /// Reports whether the database accepts writes, and if not, why it cannot before a restart.
    ///
    /// A full disk does not count: the database retries by itself.
    ///
    /// # Errors
    /// Returns `Poisoned` with the cause.
    pub fn health(&self) -> Result<(), TsdbError> {
        match self.poisoned() {
            None => Ok(()),
            Some(cause) => Err(TsdbError::Poisoned { cause }),
        }
    }

    /// Adds the database's metrics to `registry`.
    ///
    /// # Errors
    /// Fails when a name is taken: a registry can hold one database.
    pub fn register_metrics(&self, registry: &Registry) -> Result<(), narthex_client::Error> {
        self.0.metrics.register(registry)
    }

    /// Returns the milliseconds by which the wall clock is suspected to have advanced without that time passing; ages
    /// do not include them.
    #[must_use]
    pub fn clock_doubt_ms(&self) -> i64 {
        self.0.doubt_ms.load(Ordering::Relaxed)
    }

    /// Returns, by job, the number of new series refused since the last call because memory is short.
    #[must_use]
    pub fn take_refused_series(&self) -> BTreeMap<String, u64> {
        self.0.head.admission.take_refused()
    }

    /// Applies settings that may change while the database is open; the next maintenance removes blocks beyond a bound.
    pub fn tune(&self, tuning: &Tuning) {
        self.0.bounds.set(tuning);
        self.0.head.exemplars().set_capacity(tuning.max_exemplars);
        self.0.metrics.show_bounds(tuning);
    }

    /// Does the work due at `now_ms`; call it about every second, never from two threads at once.
    ///
    /// # Errors
    /// Fails when a file cannot be written or removed; the next call retries.
    pub fn maintain(&self, now_ms: i64) -> Result<(), TsdbError> {
        self.0.maintain(now_ms)
    }

    /// Writes everything held in memory into blocks.
    ///
    /// # Errors
    /// Fails when a block cannot be written; nothing is then lost.
    pub fn flush(&self) -> Result<(), TsdbError> {
        self.0.flush_all(self.0.context.clock.now_ms())
    }

    /// Makes everything durable and releases the directory; bindings and views may outlive it, but writes fail.
    ///
    /// # Errors
    /// Fails when the last fsync fails, or an earlier one did.
    pub fn close(&self) -> Result<(), TsdbError> {
        let closed = self.0.wal.close();
        *self.0.lock.lock().whole() = None;
        closed
    }
}

impl Inner {
    /// Returns the bounds for samples written now.
    fn limits(&self) -> Limits {
        let options = &self.context.options;
        let now_ms = self.context.clock.now_ms();
        Limits {
            chunk_rows: options.flush_rows,
            window_ms: options.block_window_ms,
            out_of_order_window_ms: self.bounds.out_of_order_window_ms(),
            min_valid_ms: self.bounds.retention_ms().map_or(i64::MIN, |retention_ms| {
                let doubt_ms = self.doubt_ms.load(Ordering::Relaxed);
                now_ms.saturating_sub(doubt_ms).saturating_sub(retention_ms)
            }),
            max_valid_ms: self
                .bounds
                .future_limit_ms()
                .map_or(i64::MAX, |limit_ms| now_ms.saturating_add(limit_ms)),
            now_ms,
        }
    }

    /// Stores individual samples.
    fn append_out_of_order(&self, samples: &[SeriesSample]) -> Result<Outcome, TsdbError> {
        let in_blocks = |strip: &Strip, samples: &[(u32, &SeriesSample)]| {
            let newest_ms = samples.iter().map(|(_, sample)| sample.time_ms).max();
            let until_ms = self.flushed_until_ms(strip, newest_ms.unwrap_or(i64::MIN));
            let late = samples
                .iter()
                .filter(|(_, sample)| sample.time_ms <= until_ms);
            self.values_in_blocks(
                late.clone().count(),
                late.map(|(column, sample)| (*column, sample.labels.clone(), sample.time_ms)),
            )
        };
        let limits = self.limits();
        let _guard = self.wal.guard(STORING);
        let outcome = self
            .head
            .append_out_of_order(&self.wal, samples, limits, &in_blocks)?;
        if let Some(oldest_ms) = samples.iter().map(|sample| sample.time_ms).min() {
            self.write_times.note(oldest_ms);
        }
        self.count(outcome);
        Ok(outcome)
    }

    fn count(&self, outcome: Outcome) {
        self.metrics.samples_appended.inc_by(outcome.accepted);
        for (counter, count) in [
            (&self.metrics.duplicates, outcome.duplicate),
            (&self.metrics.out_of_order, outcome.out_of_order),
            (&self.metrics.too_old, outcome.too_old),
            (&self.metrics.too_new, outcome.too_new),
        ] {
            if count > 0 {
                counter.inc_by(count);
            }
        }
    }
}

fn hull(a: Option<TimeRange>, b: Option<TimeRange>) -> Option<TimeRange> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.hull(b)),
        (a, b) => a.or(b),
    }
}

impl Db {
    /// Stores rounds with one write, if all have bindings of the database, which `of_db` finds.
    fn append_as(
        &self,
        rounds: &mut [BoundRound<'_>],
        of_db: impl Fn(&mut dyn Binding) -> Option<&mut DbBinding>,
    ) -> Result<Outcome, StorageError> {
        let bound = rounds
            .iter_mut()
            .map(|round| Some((of_db(round.binding)?, round.frame, &mut round.outcome)));
        if let Some(mut bound) = bound.collect::<Option<SmallVec<[_; 2]>>>() {
            return binding::append_together(&self.0, &mut bound);
        }
        BoundRound::append_each(rounds)
    }
}

impl Sink for Db {
    fn bind(&self, schema: &Schema) -> Result<Box<dyn Binding>, StorageError> {
        if let Some(cause) = self.poisoned() {
            return Err(StorageError::Poisoned { cause });
        }
        Ok(Box::new(DbBinding::new(Arc::clone(&self.0), schema)))
    }

    fn append_together(&self, rounds: &mut [BoundRound<'_>]) -> Result<Outcome, StorageError> {
        self.append_as(rounds, |binding| {
            let binding: &mut dyn Any = binding;
            binding.downcast_mut()
        })
    }

    fn append_samples(&self, samples: &[SeriesSample]) -> Result<Outcome, StorageError> {
        Ok(self.0.append_out_of_order(samples)?)
    }

    fn sync(&self, token: SyncToken) -> Result<(), StorageError> {
        Ok(self.0.wal.sync(token.0)?)
    }
}

impl Store for Db {
    fn view(&self, range: TimeRange) -> Result<Arc<dyn View>, StorageError> {
        Ok(Arc::new(view::DbView::new(Arc::clone(&self.0), range)))
    }

    fn prepare(
        &self,
        range: TimeRange,
        selectors: &[Selector],
        ctx: &Context,
    ) -> Result<Box<dyn Prepared>, StorageError> {
        view::DbView::prepare_alone(Arc::clone(&self.0), range, selectors, ctx)
    }

    fn listing_mark(
        &self,
        of: ListingOf<'_>,
        query: &SeriesQuery,
        ctx: &Context,
    ) -> Result<Option<ListingMark>, StorageError> {
        view::listing_mark(&self.0, of, query, ctx)
    }

    fn write_mark(&self) -> Option<WriteMark> {
        Some(self.0.write_times.mark())
    }

    fn unchanged_before(&self, mark: WriteMark) -> Option<i64> {
        self.0.write_times.oldest_since(mark)
    }

    fn time_range(&self) -> Option<TimeRange> {
        self.0.time_range()
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Db({})", self.path().display())
    }
}
