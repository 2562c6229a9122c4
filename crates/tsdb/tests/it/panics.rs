//! Panics in the middle of a change: half-done changes are not used, and nothing acknowledged is lost.

use crate::support::{NOW_MS, ROOT, options};
use narthex_model::{
    ColumnId, Frame, LabelSet, METRIC_NAME, Schema,
    conformance::dump,
    metadata::Family,
    storage::{Binding, SeriesSample, Sink, StorageError, SyncToken, TimeRange},
};
use narthex_tsdb::{AppendFile, Clock, Db, FaultyIo, Io, Lock, ManualClock, ReadFile, Tuning};
use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// The operation that should panic.
#[derive(Clone, Debug, Default)]
struct Wanted {
    append: Arc<AtomicBool>,
    create_block: Arc<AtomicBool>,
    rename: Arc<AtomicBool>,
    sync: Arc<AtomicBool>,
}

fn now(panics: &AtomicBool) {
    assert!(!panics.load(Ordering::Relaxed), "injected");
}

/// A disk whose driver has bugs.
#[derive(Debug)]
struct Buggy {
    disk: FaultyIo,
    wanted: Wanted,
}

#[derive(Debug)]
struct BuggyFile {
    file: Arc<dyn AppendFile>,
    wanted: Wanted,
}

impl Io for Buggy {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn AppendFile>> {
        if path.starts_with(Path::new(ROOT).join("blocks")) {
            now(&self.wanted.create_block);
        }
        let file = self.disk.create(path)?;
        let wanted = self.wanted.clone();
        Ok(Arc::new(BuggyFile { file, wanted }))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        self.disk.open(path)
    }

    fn truncate(&self, path: &Path, len_bytes: u64) -> io::Result<()> {
        self.disk.truncate(path, len_bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        if to.ends_with("MANIFEST") {
            now(&self.wanted.rename);
        }
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.remove_dir_all(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        self.disk.lock(path)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.disk.free_bytes(dir)
    }
}

impl AppendFile for BuggyFile {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        now(&self.wanted.append);
        self.file.append(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        now(&self.wanted.sync);
        self.file.sync()
    }

    fn truncate(&self, len_bytes: u64) -> io::Result<()> {
        self.file.truncate(len_bytes)
    }
}

struct Fixture {
    disk: FaultyIo,
    wanted: Wanted,
    clock: ManualClock,
    db: Db,
    schema: Schema,
    binding: Box<dyn Binding>,
    rounds: usize,
}

impl Fixture {
    fn new() -> Self {
        let (disk, wanted) = (FaultyIo::new(), Wanted::default());
        let clock = ManualClock::new(NOW_MS);
        let io = Buggy {
            disk: disk.clone(),
            wanted: wanted.clone(),
        };
        let db = Db::open(Arc::new(io), options(), Arc::new(clock.clone())).expect("a database");
        let mut edit = Schema::new(LabelSet::new([("job", "panics")])).edit();
        let family = edit.family(Family::default());
        edit.push(&LabelSet::new([(METRIC_NAME, "m")]), family);
        let schema = edit.finish();
        let binding = db.bind(&schema).expect("a binding");
        Self {
            disk,
            wanted,
            clock,
            db,
            schema,
            binding,
            rounds: 0,
        }
    }

    /// Stores a round.
    fn round(&mut self) -> Result<SyncToken, StorageError> {
        let time_ms = self.clock.now_ms() + 1000;
        self.clock.set(time_ms);
        let mut frame = Frame::new(self.schema.clone(), time_ms);
        frame.set(ColumnId(0), time_ms as f64);
        let outcome = self.binding.append(&frame)?;
        self.rounds += 1;
        Ok(outcome.token)
    }

    fn rounds(&mut self, count: usize) {
        for _ in 0..count {
            self.round().expect("appended");
        }
    }

    /// Fails unless every acknowledged round is served, now and by a process after this one.
    fn check(&self) {
        let served = |db: &Db| dump(db, &[], TimeRange::ALL).values().map(Vec::len).sum();
        let here: usize = served(&self.db);
        assert_eq!(here, self.rounds);
        self.disk.kill();
        let io = Arc::new(self.disk.clone());
        let db = Db::open(io, options(), Arc::new(self.clock.clone())).expect("a database");
        assert_eq!((db.damage(), db.poisoned()), (Vec::new(), None));
        let again: usize = served(&db);
        assert_eq!(again, self.rounds);
    }
}

fn panics<T>(work: impl FnOnce() -> T) {
    assert!(catch_unwind(AssertUnwindSafe(work)).is_err(), "a panic");
}

/// Fails unless an error says that the store was poisoned by a panic.
fn refused<T: std::fmt::Debug>(outcome: Result<T, StorageError>, doing: &str) {
    let error = outcome.expect_err("nothing is taken").to_string();
    assert!(error.contains(&format!("a panic while {doing}")), "{error}");
}

/// A writer that panicked left a strip, or the WAL, in an unknown state.
#[test]
fn a_writer_that_panics_stops_all_writing_and_says_so() {
    let mut fixture = Fixture::new();
    fixture.rounds(5);
    fixture.wanted.append.store(true, Ordering::Relaxed);
    panics(|| fixture.round());
    fixture.wanted.append.store(false, Ordering::Relaxed);
    let cause = fixture.db.poisoned().expect("a poisoned store");
    assert!(cause.contains("a panic while storing a row"), "{cause}");
    refused(fixture.round(), "storing a row");
    refused(fixture.db.bind(&fixture.schema).map(drop), "storing a row");
    let sample = SeriesSample::float(LabelSet::new([(METRIC_NAME, "x")]), NOW_MS, 1.0);
    refused(fixture.db.append_samples(&[sample]), "storing a row");
    fixture.check();
}

/// A row that was encoded when its writer panicked must not get into blocks with those before it.
#[test]
fn what_is_sealed_after_a_panic_was_acknowledged() {
    let mut fixture = Fixture::new();
    fixture.rounds(300);
    fixture.wanted.append.store(true, Ordering::Relaxed);
    panics(|| fixture.round());
    fixture.wanted.append.store(false, Ordering::Relaxed);
    let mut now_ms = fixture.clock.now_ms() + 3_600_000;
    for _ in 0..40 {
        now_ms += 60_000;
        fixture.db.maintain(now_ms).expect("maintained");
    }
    let paths = fixture.disk.paths();
    let mut ends = paths.iter().map(|path| path.extension());
    assert!(ends.any(|end| end.is_some_and(|end| end == "block")));
    fixture.check();
}

#[test]
fn a_panic_while_ungrouped_samples_are_stored_stops_all_writing() {
    let mut fixture = Fixture::new();
    fixture.rounds(5);
    fixture.wanted.append.store(true, Ordering::Relaxed);
    let sample = SeriesSample::float(LabelSet::new([(METRIC_NAME, "x")]), NOW_MS, 1.0);
    panics(|| fixture.db.append_samples(&[sample]));
    fixture.wanted.append.store(false, Ordering::Relaxed);
    refused(fixture.round(), "storing samples");
    fixture.disk.kill();
}

/// When the thread that syncs the WAL ended, its waiters waited for ever.
#[test]
fn a_panic_while_syncing_poisons_the_log() {
    let mut fixture = Fixture::new();
    fixture.rounds(5);
    fixture.wanted.sync.store(true, Ordering::Relaxed);
    let token = fixture.round().expect("appended");
    refused(fixture.db.sync(token), "making the log durable");
    refused(fixture.round(), "making the log durable");
    fixture.check();
}

/// A flush that panicked ended all upkeep.
#[test]
fn a_flush_that_panics_is_begun_again() {
    let mut fixture = Fixture::new();
    fixture.rounds(300);
    fixture.wanted.create_block.store(true, Ordering::Relaxed);
    let mut now_ms = fixture.clock.now_ms() + 3_600_000;
    panics(|| fixture.db.maintain(now_ms));
    assert_eq!(fixture.db.poisoned(), None);
    fixture.wanted.create_block.store(false, Ordering::Relaxed);
    fixture.rounds(5);
    let blocks = |fixture: &Fixture| -> Vec<_> {
        let paths = fixture.disk.paths().into_iter();
        paths
            .filter(|path| path.to_string_lossy().contains("/blocks/"))
            .collect()
    };
    for _ in 0..40 {
        now_ms += 60_000;
        fixture.db.maintain(now_ms).expect("maintained");
    }
    let written = blocks(&fixture);
    assert!(!written.is_empty());
    assert!(
        written
            .iter()
            .all(|path| path.extension().is_some_and(|end| end == "block")),
        "{written:?}"
    );
    fixture.check();
}

/// Once the manifest may list blocks, only the next start knows whether they count.
#[test]
fn a_panic_while_blocks_come_to_count_stops_all_writing() {
    let mut fixture = Fixture::new();
    fixture.rounds(300);
    fixture.wanted.rename.store(true, Ordering::Relaxed);
    panics(|| fixture.db.flush());
    refused(fixture.round(), "making blocks count");
    fixture.check();
}

/// Blocks that the manifest on disk may or may not list any longer are still served until the next start.
#[test]
fn a_panic_while_blocks_are_removed_stops_all_writing() {
    let mut fixture = Fixture::new();
    fixture.rounds(300);
    fixture.db.flush().expect("flushed");
    fixture.db.tune(&Tuning {
        retention_bytes: Some(1),
        ..options().tuning
    });
    fixture.wanted.rename.store(true, Ordering::Relaxed);
    let now_ms = fixture.clock.now_ms();
    panics(|| fixture.db.maintain(now_ms));
    refused(fixture.round(), "removing blocks");
    fixture.check();
}
