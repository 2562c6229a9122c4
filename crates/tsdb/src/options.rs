//! Options of a database.

use crate::{clock::Clock, io::Io};
use narthex_model::storage::{Budget, Helpers};
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    },
};

/// Location and resources of a database.
#[derive(Clone, Debug)]
pub struct DbOptions {
    /// Data directory; created when missing.
    pub path: PathBuf,
    /// Settings that may change while it is open.
    pub tuning: Tuning,
    /// Rows after which a strip is written to a block.
    pub flush_rows: usize,
    /// Age in milliseconds after which a strip is written to a block.
    pub flush_age_ms: i64,
    /// Milliseconds between fsyncs of the WAL; with 0 every append waits for one.
    pub fsync_interval_ms: u64,
    /// Size at which a WAL file is followed by another.
    pub wal_file_bytes: u64,
    /// Window of blocks, which never cross a multiple of it; two hours, as long-term stores expect.
    pub block_window_ms: i64,
    /// Number of consecutive blocks of one window that are merged into one; below two, none are merged.
    pub merge_blocks: usize,
    /// Bytes of blocks kept for queries, at most an eighth of the memory.
    pub cache_bytes: u64,
    /// Memory budget of the process: the head counts towards it, and pressure on it shrinks the head.
    pub memory: Budget,
    /// Threads that help to find series.
    pub helpers: Helpers,
    /// Most block files kept open; others are opened when they are read.
    pub max_open_blocks: usize,
}

impl DbOptions {
    /// Returns the defaults for a database at `path`: 15 days, fsync every second.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            tuning: Tuning::default(),
            flush_rows: 240,
            flush_age_ms: 3_600_000,
            fsync_interval_ms: 1000,
            wal_file_bytes: 128 << 20,
            block_window_ms: 2 * 3_600_000,
            merge_blocks: 6,
            cache_bytes: 64 << 20,
            memory: Budget::unlimited(),
            helpers: Helpers::none(),
            max_open_blocks: 256,
        }
    }
}

/// Settings that may change while a database is open.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tuning {
    /// Samples older than this are refused and removed; `None`: kept for ever.
    pub retention_ms: Option<i64>,
    /// Above this many bytes in blocks and WAL, the oldest blocks are removed; `None`: no limit.
    pub retention_bytes: Option<u64>,
    /// Samples more than this behind the newest of their series are refused; `None`: no limit.
    pub out_of_order_window_ms: Option<i64>,
    /// Samples more than this ahead of the clock are refused; `None`: no limit.
    pub future_limit_ms: Option<i64>,
    /// Most exemplars held in memory; those in blocks stay.
    pub max_exemplars: usize,
}

impl Default for Tuning {
    /// Returns 15 days, samples of any age, 10 minutes ahead, 100,000 exemplars.
    fn default() -> Self {
        Self {
            retention_ms: Some(15 * 24 * 3_600_000),
            retention_bytes: None,
            out_of_order_window_ms: None,
            future_limit_ms: Some(600_000),
            max_exemplars: 100_000,
        }
    }
}

/// Bounds in effect: read for every stored round, changed by operators.
///
/// Each is read by itself, so a change of several becomes visible one by one.
#[derive(Debug)]
pub(crate) struct Bounds {
    retention_ms: AtomicI64,
    retention_bytes: AtomicU64,
    out_of_order_window_ms: AtomicI64,
    future_limit_ms: AtomicI64,
}

impl Bounds {
    pub(crate) fn new(tuning: &Tuning) -> Self {
        let bounds = Self {
            retention_ms: AtomicI64::default(),
            retention_bytes: AtomicU64::default(),
            out_of_order_window_ms: AtomicI64::default(),
            future_limit_ms: AtomicI64::default(),
        };
        bounds.set(tuning);
        bounds
    }

    pub(crate) fn set(&self, tuning: &Tuning) {
        let none = |bound: Option<i64>| bound.unwrap_or(i64::MAX);
        self.retention_ms.store(none(tuning.retention_ms), Relaxed);
        let bytes = tuning.retention_bytes.unwrap_or(u64::MAX);
        self.retention_bytes.store(bytes, Relaxed);
        let window_ms = none(tuning.out_of_order_window_ms);
        self.out_of_order_window_ms.store(window_ms, Relaxed);
        let limit_ms = none(tuning.future_limit_ms);
        self.future_limit_ms.store(limit_ms, Relaxed);
    }

    pub(crate) fn retention_ms(&self) -> Option<i64> {
        Some(self.retention_ms.load(Relaxed)).filter(|bound| *bound < i64::MAX)
    }

    pub(crate) fn retention_bytes(&self) -> Option<u64> {
        Some(self.retention_bytes.load(Relaxed)).filter(|bound| *bound < u64::MAX)
    }

    pub(crate) fn out_of_order_window_ms(&self) -> Option<i64> {
        Some(self.out_of_order_window_ms.load(Relaxed)).filter(|bound| *bound < i64::MAX)
    }

    pub(crate) fn future_limit_ms(&self) -> Option<i64> {
        Some(self.future_limit_ms.load(Relaxed)).filter(|bound| *bound < i64::MAX)
    }
}

/// Foundations of a database.
#[derive(Clone, Debug)]
pub(crate) struct DbContext {
    pub(crate) io: Arc<dyn Io>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: DbOptions,
}
