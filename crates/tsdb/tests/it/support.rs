//! Databases for tests.

use narthex_model::{
    conformance::Subject,
    storage::{Sink, Store},
};
use narthex_tsdb::{Db, DbOptions, FaultyIo, Io, ManualClock, Tuning};
use std::sync::Arc;

/// Path of databases on in-memory disks.
pub(crate) const ROOT: &str = "/data";

/// Just after the time around which the conformance suite writes.
pub(crate) const NOW_MS: i64 = narthex_model::conformance::BASE_MS + 600_000;

/// Event between writing and reading a database.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Settle {
    Nothing,
    /// It is closed and opened again.
    Reopen,
    /// The process is killed and started again.
    Kill,
    /// Everything is written into blocks.
    Flush,
    /// Everything is written into blocks, then the process is killed and started again.
    FlushAndKill,
    /// Everything is written into blocks, and those are merged.
    Merge,
    /// The same, then the process is killed and started again.
    MergeAndKill,
}

/// A database under test.
pub(crate) struct TestDb {
    db: Option<Db>,
    io: Arc<dyn Io>,
    disk: FaultyIo,
    options: DbOptions,
    settle: Settle,
}

/// Returns options for a database in memory, with files small enough to see many of them.
///
/// Samples may be of any time: most tests let their clock stand still.
pub(crate) fn options() -> DbOptions {
    DbOptions {
        tuning: Tuning {
            future_limit_ms: None,
            ..Tuning::default()
        },
        fsync_interval_ms: 50,
        wal_file_bytes: 20_000,
        ..DbOptions::new(ROOT)
    }
}

/// Opens a database on `disk`.
pub(crate) fn open(disk: &FaultyIo, options: &DbOptions) -> Db {
    let clock = Arc::new(ManualClock::new(NOW_MS));
    Db::open(Arc::new(disk.clone()), options.clone(), clock).expect("a database")
}

impl TestDb {
    pub(crate) fn new(options: DbOptions, settle: Settle) -> Self {
        let disk = FaultyIo::new();
        let io: Arc<dyn Io> = Arc::new(disk.clone());
        let mut new = Self {
            db: None,
            io,
            disk,
            options,
            settle,
        };
        new.open();
        new
    }

    pub(crate) fn db(&self) -> &Db {
        self.db.as_ref().expect("an open database")
    }

    fn open(&mut self) {
        let clock = Arc::new(ManualClock::new(NOW_MS));
        let db = Db::open(Arc::clone(&self.io), self.options.clone(), clock).expect("a database");
        assert_eq!(db.damage(), [], "no damage");
        self.db = Some(db);
    }
}

impl Subject for TestDb {
    fn store(&self) -> &dyn Store {
        self.db()
    }

    fn sink(&self) -> &dyn Sink {
        self.db()
    }

    fn settle(&mut self) {
        match self.settle {
            Settle::Nothing => return,
            Settle::Reopen => self.db().close().expect("closed"),
            Settle::Kill => self.disk.kill(),
            Settle::Flush => return self.db().flush().expect("flushed"),
            Settle::FlushAndKill => {
                self.db().flush().expect("flushed");
                self.disk.kill();
            }
            Settle::Merge | Settle::MergeAndKill => {
                self.db().flush().expect("flushed");
                // A day later every window is over.
                for second in 0..20 {
                    let now_ms = NOW_MS + 24 * 3_600_000 + second * 1000;
                    self.db().maintain(now_ms).expect("maintained");
                }
                if self.settle == Settle::Merge {
                    return;
                }
                self.disk.kill();
            }
        }
        self.db = None;
        self.open();
    }
}
