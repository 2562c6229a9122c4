//! How a database behaves.

use crate::{clock::Clock, io::Io};
use std::{path::PathBuf, sync::Arc};

/// Where a database is and what it may use.
#[derive(Clone, Debug)]
pub struct DbOptions {
    /// The data directory; created when missing.
    pub path: PathBuf,
    /// Samples older than this are refused and removed; `None`: kept for ever.
    pub retention_ms: Option<i64>,
    /// Above this many bytes in blocks and log, the oldest blocks go; `None`: no limit.
    pub retention_bytes: Option<u64>,
    /// Rows after which a strip is written to a block.
    pub flush_rows: usize,
    /// Age in milliseconds after which a strip is written to a block.
    pub flush_age_ms: i64,
    /// Milliseconds between fsyncs of the log; 0: every append waits for one.
    pub fsync_interval_ms: u64,
    /// Size at which a log file is followed by another.
    pub wal_file_bytes: u64,
    /// Samples more than this behind the newest of their series are refused; `None`: none is.
    pub out_of_order_window_ms: Option<i64>,
    /// Blocks never cross a multiple of this; two hours, as long-term stores expect it.
    pub block_window_ms: i64,
    /// So many blocks of one window, written one after the other, are merged into one; fewer than two: none are.
    pub merge_blocks: usize,
    /// Bytes of decoded pages kept for queries.
    pub cache_bytes: u64,
}

impl DbOptions {
    /// Returns the defaults for a database at `path`: 15 days, fsync every second.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            retention_ms: Some(15 * 24 * 3_600_000),
            retention_bytes: None,
            flush_rows: 240,
            flush_age_ms: 3_600_000,
            fsync_interval_ms: 1000,
            wal_file_bytes: 128 << 20,
            out_of_order_window_ms: None,
            block_window_ms: 2 * 3_600_000,
            merge_blocks: 6,
            cache_bytes: 64 << 20,
        }
    }
}

/// What a database is built on.
#[derive(Clone, Debug)]
pub(crate) struct Ground {
    pub(crate) io: Arc<dyn Io>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: DbOptions,
}
