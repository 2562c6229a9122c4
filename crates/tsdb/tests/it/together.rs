//! Rounds of several origins that are appended together.

use crate::support::{NOW_MS, open, options};
use narthex_model::{
    ColumnId, Family, Frame, LabelSet, METRIC_NAME, Schema,
    conformance::dump,
    storage::{Binding, BoundRound, Budget, Outcome, Sink, StorageError, TimeRange},
};
use narthex_tsdb::{Db, DbOptions, EarlySink, FaultyIo};
use std::time::{Duration, Instant};

/// Options under which nothing but appends changes the disk.
fn lazy() -> DbOptions {
    DbOptions {
        fsync_interval_ms: 3_600_000,
        wal_file_bytes: 1 << 20,
        ..options()
    }
}

struct Pair {
    schemas: [Schema; 2],
    bindings: [Box<dyn Binding>; 2],
}

impl Pair {
    fn new(sink: &dyn Sink) -> Self {
        let schemas = ["a", "b"].map(|instance| {
            let mut edit = Schema::new(LabelSet::new([("instance", instance)])).edit();
            let family = edit.family(Family::default());
            edit.push(&LabelSet::new([(METRIC_NAME, "m")]), family);
            edit.finish()
        });
        let bindings = schemas
            .each_ref()
            .map(|schema| sink.bind(schema).expect("bound"));
        Self { schemas, bindings }
    }

    /// Appends a round of both origins, `step` seconds after the first.
    fn append(&mut self, sink: &dyn Sink, step: i64) -> Result<Outcome, StorageError> {
        let frames = self.schemas.each_ref().map(|schema| {
            let mut frame = Frame::new(schema.clone(), NOW_MS - 60_000 + step * 1000);
            frame.set(ColumnId(0), step as f64);
            frame
        });
        let [a, b] = &mut self.bindings;
        let mut rounds = [
            BoundRound::new(&mut **a, &frames[0]),
            BoundRound::new(&mut **b, &frames[1]),
        ];
        let total = sink.append_together(&mut rounds)?;
        let mut sum = Outcome::default();
        rounds.iter().for_each(|round| sum += round.outcome);
        assert_eq!(sum, total);
        assert_eq!(rounds[0].outcome.accepted, rounds[1].outcome.accepted);
        Ok(total)
    }
}

/// The rounds that each origin has.
fn steps(db: &Db) -> [Vec<i64>; 2] {
    let all = dump(db, &[], TimeRange::ALL);
    ["a", "b"].map(|instance| {
        let labels = LabelSet::new([(METRIC_NAME, "m"), ("instance", instance)]);
        let samples = all.get(&labels).into_iter().flatten();
        let step = |time_ms: &i64| (time_ms - NOW_MS + 60_000) / 1000;
        samples.map(|(time_ms, ..)| step(time_ms)).collect()
    })
}

#[test]
fn rounds_together_take_one_write_and_outlive_the_process() {
    let disk = FaultyIo::new();
    let db = open(&disk, &lazy());
    let mut pair = Pair::new(&db);
    for step in 0..3 {
        let before = disk.operations();
        let outcome = pair.append(&db, step).expect("appended");
        assert_eq!((disk.operations() - before, outcome.accepted), (1, 2));
    }
    disk.kill();
    drop((pair, db));
    assert_eq!(steps(&open(&disk, &lazy())), [[0, 1, 2], [0, 1, 2]]);
}

#[test]
fn when_the_write_fails_neither_round_is_stored() {
    for torn_bytes in [None, Some(1), Some(30)] {
        // A row, and what is too old for one.
        for step in [1, -1] {
            a_write_fails(torn_bytes, step);
        }
    }
}

/// Lets the write of the rounds `step` fail: on a full disk, or after some bytes.
fn a_write_fails(torn_bytes: Option<usize>, step: i64) {
    let disk = FaultyIo::new();
    let db = open(&disk, &lazy());
    let mut pair = Pair::new(&db);
    pair.append(&db, 0).expect("appended");
    match torn_bytes {
        None => disk.set_capacity(disk.used_bytes()),
        Some(bytes) => disk.tear_operation(0, bytes),
    }
    pair.append(&db, step).expect_err("the disk fails");
    assert_eq!(steps(&db), [[0], [0]]);
    let mut stored = vec![0];
    if torn_bytes.is_none() {
        // A disk that was full is tried again after a moment, in the same strips.
        disk.set_capacity(u64::MAX);
        let end = Instant::now() + Duration::from_secs(60);
        while let Err(error) = pair.append(&db, -2) {
            assert!(Instant::now() < end, "{error}");
            std::thread::yield_now();
        }
        pair.append(&db, 2).expect("appended");
        stored = vec![-2, 0, 2];
        assert_eq!(steps(&db), [stored.clone(), stored.clone()]);
    }
    disk.kill();
    drop((pair, db));
    let db = open(&disk, &lazy());
    assert_eq!(steps(&db), [stored.clone(), stored.clone()]);
    let mut pair = Pair::new(&db);
    pair.append(&db, 3).expect("appended");
    stored.push(3);
    assert_eq!(steps(&db), [stored.clone(), stored]);
}

#[test]
fn rounds_together_may_wait_for_the_database() {
    let disk = FaultyIo::new();
    let sink = EarlySink::new(Budget::new("early", 1 << 20));
    let mut pair = Pair::new(&sink);
    let outcome = pair.append(&sink, 0).expect("it waits");
    assert_eq!(outcome.accepted, 0);
    let db = open(&disk, &lazy());
    assert_eq!(sink.open(&db).expect("opened").accepted, 2);
    for (step, operations) in [(1, 2), (2, 1)] {
        let before = disk.operations();
        assert_eq!(pair.append(&sink, step).expect("appended").accepted, 2);
        assert_eq!(disk.operations() - before, operations, "round {step}");
    }
    assert_eq!(steps(&db), [[0, 1, 2], [0, 1, 2]]);
    drop(pair);
    // Nobody has the strips any more: another origin may continue them.
    Pair::new(&db).append(&db, 3).expect("appended");
    assert_eq!(steps(&db), [[0, 1, 2, 3], [0, 1, 2, 3]]);
}
