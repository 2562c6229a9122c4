//! Disks that hang: queries are answered, and what is not written yet is neither served nor flushed.

use crate::support::{NOW_MS, ROOT, open, options};
use narthex_model::{
    ColumnId, Frame, LabelSet, METRIC_NAME, Schema,
    conformance::{Dump, dump},
    metadata::Family,
    storage::{
        Binding, Context, Outcome, SeriesQuery, SeriesSample, Sink, StorageError, Store, TimeRange,
    },
};
use narthex_tsdb::{Clock, Db, DbOptions, Fault, FaultyIo, Gate, Op};
use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
        mpsc::{Receiver, channel},
    },
    thread::Scope,
    time::{Duration, Instant},
};

/// Far longer than any answer takes, and far shorter than a gate waits to be opened.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time in which a write that does not wait would have returned.
const MOMENT: Duration = Duration::from_millis(200);

/// Returns a schema of the first `columns` series; all instances have the same when there is no label `instance`.
fn schema(common: &[(&str, &str)], local: &[(&str, &str)], columns: usize) -> Schema {
    let mut edit = Schema::new(LabelSet::new(common.iter().copied())).edit();
    let family = edit.family(Family::default());
    for at in 0..columns {
        let name = format!("m{at}");
        let labels = [(METRIC_NAME, name.as_str())];
        edit.push(&LabelSet::new(local.iter().copied().chain(labels)), family);
    }
    edit.finish()
}

fn row(schema: &Schema, second: i64, start_ms: i64) -> Frame {
    let mut frame = Frame::new(schema.clone(), NOW_MS - 60_000 + second * 1000);
    for column in 0..schema.len() as u32 {
        frame.set(ColumnId(column), second as f64);
        frame.set_start_time(ColumnId(column), start_ms);
    }
    frame
}

/// What queries answer: samples, and the series that may have some.
#[derive(Clone, Debug, PartialEq)]
struct Answers(Dump, Vec<LabelSet>);

fn answers(db: &Db) -> Answers {
    let all = dump(db, &[], TimeRange::ALL);
    let view = db.view(TimeRange::ALL).expect("a view");
    let series = view.series(&SeriesQuery::all(TimeRange::ALL), &Context::unlimited());
    Answers(all, series.expect("series").items)
}

/// Starts `work` in a thread; what it returns can be received.
fn start<'s, 'e, T: Send + 's>(
    scope: &'s Scope<'s, 'e>,
    work: impl FnOnce() -> T + Send + 's,
) -> Receiver<T> {
    let (sender, receiver) = channel();
    scope.spawn(move || sender.send(work()));
    receiver
}

/// One kind of write.
#[derive(Clone, Copy, Debug)]
enum Write {
    Row,
    /// A row with columns that no row had.
    WiderRow,
    /// A frame with a sample that is late.
    LateInFrame,
    /// A sample of a series that an origin has.
    Sample,
    /// A sample of a series that is new.
    NewSeries,
}

const WRITES: [Write; 5] = [
    Write::Row,
    Write::WiderRow,
    Write::LateInFrame,
    Write::Sample,
    Write::NewSeries,
];

/// A database with two rows and a late sample of one origin.
struct Fixture {
    disk: FaultyIo,
    options: DbOptions,
    db: Db,
    schema: Schema,
    binding: Box<dyn Binding>,
}

impl Fixture {
    fn new(fsync_interval_ms: u64) -> Self {
        let disk = FaultyIo::new();
        let options = DbOptions {
            fsync_interval_ms,
            wal_file_bytes: 1 << 20,
            ..options()
        };
        let db = open(&disk, &options);
        let schema = schema(&[("job", "hang")], &[], 3);
        let mut binding = db.bind(&schema).expect("bound");
        for second in 0..2 {
            let frame = row(&schema, second, NOW_MS - 100_000);
            binding.append(&frame).expect("appended");
        }
        let mut fixture = Self {
            disk,
            options,
            db,
            schema,
            binding,
        };
        fixture.write(Write::Sample, -10).expect("appended");
        fixture.write(Write::NewSeries, -10).expect("appended");
        fixture
    }

    /// Writes something of the time `second`.
    fn write(&mut self, write: Write, second: i64) -> Result<Outcome, StorageError> {
        let time_ms = NOW_MS - 60_000 + second * 1000;
        let sample = |labels| SeriesSample::float(labels, time_ms, 0.5);
        match write {
            Write::Row => self
                .binding
                .append(&row(&self.schema, second, NOW_MS - 90_000)),
            Write::WiderRow => {
                let wider = schema(&[("job", "hang")], &[], 1100);
                self.binding.append(&row(&wider, second, NOW_MS - 90_000))
            }
            Write::LateInFrame => {
                let mut frame = row(&self.schema, second, NOW_MS - 90_000);
                frame.set_time(ColumnId(1), time_ms - 30_500);
                self.binding.append(&frame)
            }
            Write::Sample => {
                let late_ms = time_ms - 500;
                let labels = self.schema.labels(ColumnId(0));
                let sample = SeriesSample::float(labels, late_ms, 0.5);
                self.db.append_samples(&[sample])
            }
            Write::NewSeries => {
                let number = second.to_string();
                let labels = [(METRIC_NAME, "n"), ("second", number.as_str())];
                self.db.append_samples(&[sample(LabelSet::new(labels))])
            }
        }
    }

    /// Kills the process and starts another.
    fn restart(self) -> Self {
        let Self {
            disk,
            options,
            db,
            schema,
            binding,
        } = self;
        disk.kill();
        drop((binding, db));
        let db = open(&disk, &options);
        let binding = db.bind(&schema).expect("bound");
        Self {
            disk,
            options,
            db,
            schema,
            binding,
        }
    }
}

/// The strip's lock was held until the disk had the record.
#[test]
fn queries_are_answered_while_the_log_hangs() {
    for (op, fsync_interval_ms) in [(Op::Append, 3_600_000), (Op::Sync, 0)] {
        for write in WRITES {
            let mut fixture = Fixture::new(fsync_interval_ms);
            let (db, disk) = (fixture.db.clone(), fixture.disk.clone());
            let before = answers(&db);
            let gate = Gate::new();
            disk.inject(Fault::on(op).in_path("wal").hang(&gate));
            std::thread::scope(|scope| {
                let written = start(scope, || fixture.write(write, 2));
                assert!(gate.wait_for_one(), "{write:?} writes nothing");
                let answered = start(scope, || answers(&db)).recv_timeout(PATIENCE);
                gate.open();
                assert_eq!(answered.as_ref(), Ok(&before), "{write:?}, {op:?}");
                written.recv().expect("an answer").expect("written");
            });
            let after = answers(&db);
            assert_ne!(after, before, "{write:?}");
            let fixture = fixture.restart();
            assert_eq!(answers(&fixture.db).0, after.0, "{write:?}");
        }
    }
}

/// Nothing is left of a write that hung and failed, though queries ran meanwhile.
#[test]
fn what_hung_and_failed_is_taken_back() {
    for write in WRITES {
        let mut fixture = Fixture::new(3_600_000);
        let (db, disk) = (fixture.db.clone(), fixture.disk.clone());
        let before = answers(&db);
        let gate = Gate::new();
        disk.inject(Fault::on(Op::Append).in_path("wal").hang(&gate));
        std::thread::scope(|scope| {
            let written = start(scope, || fixture.write(write, 2));
            assert!(gate.wait_for_one(), "{write:?} writes nothing");
            disk.set_capacity(disk.used_bytes());
            let answered = start(scope, || answers(&db)).recv_timeout(PATIENCE);
            gate.open();
            assert_eq!(answered.as_ref(), Ok(&before), "{write:?}");
            written.recv().expect("an answer").expect_err("a full disk");
        });
        assert_eq!(answers(&db), before, "{write:?}");
        disk.set_capacity(u64::MAX);
        // A disk that was full is tried again after a moment.
        let end = Instant::now() + Duration::from_secs(60);
        while let Err(error) = fixture.write(write, 3) {
            assert!(Instant::now() < end, "{error}");
            std::thread::yield_now();
        }
        fixture.write(Write::Row, 4).expect("written");
        let after = answers(&db).0;
        let samples = |dump: &Dump| dump.values().map(Vec::len).sum::<usize>();
        assert!(samples(&after) > samples(&before.0) + 3, "{write:?}");
        let mut fixture = fixture.restart();
        assert_eq!(answers(&fixture.db).0, after, "{write:?}");
        fixture.write(Write::Row, 5).expect("written");
        assert!(samples(&answers(&fixture.db).0) > samples(&after));
    }
}

/// A writer whose sample another one has already given, but not yet written, waits for that write and shares its fate.
#[test]
fn a_repetition_of_what_is_on_its_way_waits_for_it() {
    for (fails, by_sample) in [(false, false), (true, false), (false, true), (true, true)] {
        let disk = FaultyIo::new();
        let lazy = DbOptions {
            fsync_interval_ms: 3_600_000,
            wal_file_bytes: 1 << 20,
            ..options()
        };
        let db = open(&disk, &lazy);
        // One series in two strips, whose common sets differ.
        let one = schema(&[("instance", "a")], &[("job", "j")], 1);
        let other = schema(&[("job", "j")], &[("instance", "a")], 1);
        let mut first = db.bind(&one).expect("bound");
        let mut second = db.bind(&other).expect("bound");
        first.append(&row(&one, 0, 0)).expect("appended");
        let gate = Gate::new();
        disk.inject(Fault::on(Op::Append).in_path("wal").hang(&gate));
        std::thread::scope(|scope| {
            let written = start(scope, || first.append(&row(&one, 1, 0)));
            assert!(gate.wait_for_one(), "it writes nothing");
            let repeated = start(scope, || {
                let sample = SeriesSample::float(one.labels(ColumnId(0)), NOW_MS - 59_000, 1.0);
                if by_sample {
                    db.append_samples(&[sample])
                } else {
                    second.append(&row(&other, 1, 0))
                }
            });
            let early = repeated.recv_timeout(MOMENT);
            if fails {
                disk.set_capacity(disk.used_bytes());
            }
            gate.open();
            assert!(early.is_err(), "it did not wait: {early:?}");
            let (written, repeated) = (written.recv(), repeated.recv());
            assert_eq!(written.expect("an answer").is_err(), fails);
            assert_eq!(repeated.expect("an answer").is_err(), fails);
        });
        let stored = dump(&db, &[], TimeRange::ALL);
        let samples: usize = stored.values().map(Vec::len).sum();
        assert_eq!((stored.len(), samples), (1, if fails { 1 } else { 2 }));
        disk.set_capacity(u64::MAX);
        disk.kill();
        drop((first, second, db));
        assert_eq!(dump(&open(&disk, &lazy), &[], TimeRange::ALL), stored);
    }
}

/// A clock by which every piece of work takes a second.
#[derive(Debug, Default)]
struct Hurried(AtomicI64);

impl Clock for Hurried {
    fn now_ms(&self) -> i64 {
        NOW_MS
    }

    fn monotonic_ms(&self) -> i64 {
        self.0.fetch_add(1000, Ordering::Relaxed)
    }
}

/// A flush that comes to a strip whose newest samples are not written yet leaves them in the head.
#[test]
fn what_is_on_its_way_is_not_flushed() {
    let disk = FaultyIo::new();
    let lazy = DbOptions {
        fsync_interval_ms: 3_600_000,
        wal_file_bytes: 1 << 20,
        ..options()
    };
    let clock = Arc::new(Hurried::default());
    let db = Db::open(Arc::new(disk.clone()), lazy.clone(), clock).expect("a database");
    // Series of a strip that is surveyed first, and of one that is surveyed later.
    let schemas = ["a", "b"].map(|job| schema(&[("job", job)], &[], 1));
    let sample = |at: usize, time_ms: i64| {
        SeriesSample::float(schemas[at].labels(ColumnId(0)), time_ms, 1.0)
    };
    for schema in &schemas {
        let mut binding = db.bind(schema).expect("bound");
        for second in 0..2 {
            binding.append(&row(schema, second, 0)).expect("appended");
        }
    }
    let put = |time_ms: i64| {
        let samples = [sample(0, time_ms), sample(1, time_ms)];
        db.append_samples(&samples)
    };
    put(NOW_MS - 90_000).expect("appended");
    // An hour later all of it is due; the job begins, and surveys the first strip.
    let later_ms = NOW_MS + 2 * 3_600_000;
    db.maintain(later_ms).expect("maintained");
    let blocks = || {
        let paths = disk.paths();
        let in_blocks = |path: &&std::path::PathBuf| {
            path.starts_with(format!("{ROOT}/blocks"))
                && path
                    .extension()
                    .is_some_and(|extension| extension == "block")
        };
        paths.iter().filter(in_blocks).count()
    };
    let before = answers(&db);
    let gate = Gate::new();
    disk.inject(Fault::on(Op::Append).in_path("wal").hang(&gate));
    std::thread::scope(|scope| {
        let late = || db.append_samples(&[sample(1, NOW_MS - 80_000)]);
        let written = start(scope, late);
        assert!(gate.wait_for_one(), "it writes nothing");
        assert_eq!(blocks(), 0, "the job has not come far");
        for call in 0..100 {
            // Within one scan's interval, so that nothing is sealed.
            db.maintain(later_ms + call).expect("maintained");
        }
        assert_eq!(blocks(), 1, "the job is done");
        disk.set_capacity(disk.used_bytes());
        gate.open();
        written.recv().expect("an answer").expect_err("a full disk");
    });
    assert_eq!(answers(&db).0, before.0);
    disk.set_capacity(u64::MAX);
    let end = Instant::now() + Duration::from_secs(60);
    while let Err(error) = put(NOW_MS - 70_000) {
        assert!(Instant::now() < end, "{error}");
        std::thread::yield_now();
    }
    let after = answers(&db).0;
    let samples = |dump: &Dump| dump.values().map(Vec::len).sum::<usize>();
    assert_eq!(samples(&after), samples(&before.0) + 2);
    disk.kill();
    drop(db);
    assert_eq!(dump(&open(&disk, &lazy), &[], TimeRange::ALL), after);
}
