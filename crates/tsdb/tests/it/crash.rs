//! Kills, losses of power and failing disks: nothing acknowledged is lost, nothing else appears.

use crate::{
    support::{ROOT, open, options},
    workload::{Acknowledged, Workload, missing, served},
};
use narthex_model::{
    ColumnId, Frame, LabelSet, METRIC_NAME, Schema,
    conformance::{BASE_MS, Sampled, dump},
    metadata::Family,
    storage::{Binding, Sink, StorageError, TimeRange},
};
use narthex_testkit::{rng::SplitMix64, scaled};
use narthex_tsdb::{Db, DbOptions, FaultyIo, ManualClock, PowerLoss, TsdbError, is_full};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

const WIDTHS: [usize; 3] = [1, 7, 40];

/// Options under which only `sync` syncs.
fn lazy() -> DbOptions {
    DbOptions {
        fsync_interval_ms: 3_600_000,
        ..options()
    }
}

/// Finds the number of appends whose samples are exactly those served; `None` if they are not a prefix.
fn prefix(workload: &Workload, found: &Acknowledged) -> Option<usize> {
    let samples = |all: &Acknowledged| all.values().map(|samples| samples.len()).sum::<usize>();
    let mut left = samples(found);
    let mut count = 0;
    while left > 0 {
        left = left.checked_sub(workload.log.get(count)?.1.len())?;
        count += 1;
    }
    (workload.acknowledged(count) == *found).then_some(count)
}

#[test]
fn a_loss_of_power_leaves_a_prefix_with_everything_synced() {
    for seed in 1..=12 {
        let mut random = SplitMix64::new(seed);
        let disk = FaultyIo::new();
        let mut workload = Workload::new(seed, &WIDTHS);
        let mut durable = 0;
        for _ in 0..3 {
            let db = open(&disk, &lazy());
            assert_eq!(db.damage(), [], "seed {seed}");
            for _ in 0..10 + random.below(30) {
                workload.round(&db).expect("appended");
                if random.one_in(10) {
                    let last = workload.log.last().expect("something was appended").0;
                    db.sync(last).expect("synced");
                    durable = workload.log.len();
                }
                if random.one_in(15) {
                    db.flush().expect("flushed");
                }
            }
            let kept = match random.below(3) {
                0 => PowerLoss::DropUnsynced,
                1 => PowerLoss::KeepBytes(random.index(5000)),
                _ => PowerLoss::KeepBytes(usize::MAX / 2),
            };
            workload.unbind();
            disk.power_loss(kept);
            drop(db);
            let db = open(&disk, &lazy());
            assert_eq!(db.damage(), [], "a torn tail is no damage, seed {seed}");
            let found = served(&db);
            let count = prefix(&workload, &found);
            let count =
                count.unwrap_or_else(|| panic!("seed {seed}, {kept:?}: no prefix is served"));
            assert!(
                count >= durable,
                "seed {seed}: {count} of {durable} synced appends survive"
            );
            workload.log.truncate(count);
            durable = count;
            drop(db);
            disk.kill();
        }
    }
}

#[test]
fn garbled_unsynced_bytes_never_become_wrong_values() {
    for seed in 1..=20 {
        let mut random = SplitMix64::new(seed);
        let disk = FaultyIo::new();
        let db = open(&disk, &lazy());
        let mut workload = Workload::new(seed, &WIDTHS);
        for _ in 0..5 {
            workload.round(&db).expect("appended");
        }
        let last = workload.log.last().expect("something was appended").0;
        db.sync(last).expect("synced");
        let durable = workload.acknowledged(workload.log.len());
        for _ in 0..20 {
            workload.round(&db).expect("appended");
        }
        workload.unbind();
        disk.power_loss(PowerLoss::Garble(usize::MAX / 2, random.index(3000)));
        drop(db);
        let db = open(&disk, &lazy());
        let found = served(&db);
        assert_eq!(
            missing(&durable, &found),
            None,
            "seed {seed}: synced samples survive"
        );
        let all = workload.acknowledged(workload.log.len());
        assert_eq!(
            missing(&found, &all),
            None,
            "seed {seed}: only what was written is served"
        );
    }
}

/// Kills at any moment, in files of the log that often begin with a late sample or a family instead of a row.
#[test]
fn kills_lose_nothing() {
    let options = DbOptions {
        wal_file_bytes: 2_000,
        ..lazy()
    };
    for seed in 1..=scaled(20) {
        let mut random = SplitMix64::new(seed);
        let disk = FaultyIo::new();
        let mut workload = Workload::new(seed, &WIDTHS);
        for life in 0..4 {
            let db = open(&disk, &options);
            assert_eq!(db.damage(), [], "seed {seed}, life {life}");
            let (acknowledged, found) = (workload.acknowledged(workload.log.len()), served(&db));
            let lost = missing(&acknowledged, &found);
            assert_eq!(lost, None, "seed {seed}, life {life}: lost");
            let strange = missing(&found, &acknowledged);
            assert_eq!(strange, None, "seed {seed}, life {life}: never written");
            for _ in 0..random.below(40) {
                workload.round(&db).expect("appended");
                if random.one_in(25) {
                    db.flush().expect("flushed");
                }
            }
            workload.unbind();
            disk.kill();
        }
    }
}

/// Runs a fixed workload with rounds, flushes and maintenance until the first error; returns whether there was one.
fn run(db: &Db, workload: &mut Workload) -> bool {
    for round in 0..24 {
        let mut result = workload.round(db).map_err(|_| ());
        if round % 7 == 6 {
            result = result.and(db.flush().map_err(|_| ()));
        }
        result = result.and(
            db.maintain(crate::support::NOW_MS + round * 1000)
                .map_err(|_| ()),
        );
        if result.is_err() {
            return true;
        }
    }
    false
}

#[test]
fn whatever_operation_fails_nothing_acknowledged_is_lost() {
    let options = DbOptions {
        fsync_interval_ms: 0,
        wal_file_bytes: 6_000,
        flush_rows: 5,
        ..options()
    };
    let mut failures = 0;
    for fail_at in 0.. {
        let disk = FaultyIo::new();
        let db = open(&disk, &options);
        let torn = fail_at % 2 == 1;
        if torn {
            disk.tear_operation(fail_at / 2, 5 + fail_at as usize % 50);
        } else {
            disk.fail_operation(fail_at / 2);
        }
        let mut workload = Workload::new(7, &WIDTHS);
        let failed = run(&db, &mut workload);
        let before = served(&db);
        let acknowledged = workload.acknowledged(workload.log.len());
        assert_eq!(
            missing(&acknowledged, &before),
            None,
            "operation {fail_at}: before the kill"
        );
        workload.unbind();
        if fail_at % 4 < 2 {
            disk.kill();
        } else {
            disk.power_loss(PowerLoss::DropUnsynced);
        }
        drop(db);
        let db = open(&disk, &options);
        assert_eq!(db.damage(), [], "operation {fail_at}");
        let found = served(&db);
        assert_eq!(
            missing(&acknowledged, &found),
            None,
            "operation {fail_at}: acknowledged samples survive"
        );
        let mut possible = acknowledged;
        for (labels, time_ms, bits) in &workload.uncertain {
            possible
                .entry(labels.clone())
                .or_default()
                .insert(*time_ms, *bits);
        }
        assert_eq!(
            missing(&found, &possible),
            None,
            "operation {fail_at}: nothing else appears"
        );
        failures += u32::from(failed);
        if !failed && fail_at > 600 {
            break;
        }
        assert!(fail_at < 5000, "the workload ends");
    }
    assert!(failures > 100, "{failures} failures were injected");
}

#[test]
fn a_full_disk_stops_writes_not_queries_and_comes_back() {
    let disk = FaultyIo::new();
    let options = options();
    let db = open(&disk, &options);
    let mut workload = Workload::new(3, &WIDTHS);
    for _ in 0..20 {
        workload.round(&db).expect("appended");
    }
    disk.set_capacity(disk.used_bytes() + 700);
    let mut errors = 0;
    for _ in 0..30 {
        match workload.round(&db) {
            Ok(()) => {}
            Err(StorageError::Io { source, .. }) => {
                assert!(is_full(&source), "{source}");
                errors += 1;
            }
            Err(other) => panic!("{other}"),
        }
        let acknowledged = workload.acknowledged(workload.log.len());
        assert_eq!(served(&db), acknowledged, "queries go on");
    }
    assert!(errors > 20, "{errors}");
    assert!(db.flush().is_err(), "a block does not fit");
    disk.set_capacity(u64::MAX);
    let deadline = Instant::now() + Duration::from_secs(20);
    while workload.round(&db).is_err() {
        assert!(Instant::now() < deadline, "it recovers by itself");
        std::thread::sleep(Duration::from_millis(20));
    }
    for _ in 0..5 {
        workload.round(&db).expect("appended");
    }
    db.flush().expect("flushed");
    workload.unbind();
    disk.kill();
    drop(db);
    let db = open(&disk, &options);
    assert_eq!(db.damage(), []);
    assert_eq!(served(&db), workload.acknowledged(workload.log.len()));
    assert!(
        disk.paths()
            .iter()
            .all(|path| !path.to_string_lossy().ends_with(".tmp")),
        "nothing half-written stays"
    );
}

/// The end of a series reported while the disk was full used to be lost: the source reports it once.
#[test]
fn staleness_that_a_full_disk_refused_is_stored_when_there_is_room() {
    let disk = FaultyIo::new();
    let db = open(&disk, &options());
    let schema = Schema::new(LabelSet::new([("job", "stale")]));
    let mut edit = schema.edit();
    let family = edit.family(Family::default());
    for name in ["goes", "stays", "comes back"] {
        edit.push(&LabelSet::new([(METRIC_NAME, name)]), family);
    }
    let schema = edit.finish();
    let mut binding = db.bind(&schema).expect("bound");
    let round = |binding: &mut Box<dyn Binding>, step: i64, stale: &[u32], set: &[u32]| {
        let mut frame = Frame::new(schema.clone(), BASE_MS + step * 1000);
        set.iter()
            .for_each(|at| frame.set(ColumnId(*at), step as f64));
        stale.iter().for_each(|at| frame.mark_stale(ColumnId(*at)));
        binding.append(&frame)
    };
    round(&mut binding, 0, &[], &[0, 1, 2]).expect("appended");
    disk.set_capacity(disk.used_bytes());
    assert!(round(&mut binding, 1, &[0, 2], &[1]).is_err());
    disk.set_capacity(u64::MAX);
    let deadline = Instant::now() + Duration::from_secs(20);
    while round(&mut binding, 2, &[], &[1, 2]).is_err() {
        assert!(Instant::now() < deadline, "it recovers by itself");
        std::thread::sleep(Duration::from_millis(20));
    }
    // The origin may be gone by then.
    drop(binding);
    db.maintain(crate::support::NOW_MS).expect("maintained");
    drop(db);
    disk.kill();
    let db = open(&disk, &options());
    let all = dump(&db, &[], TimeRange::ALL);
    let of = |name: &str| {
        let labels = LabelSet::new([("job", "stale"), (METRIC_NAME, name)]);
        let samples = all[&labels].iter();
        let shown = samples
            .map(|(time_ms, sampled, _)| ((time_ms - BASE_MS) / 1000, *sampled == Sampled::Stale));
        shown.collect::<Vec<_>>()
    };
    assert_eq!(of("goes"), [(0, false), (1, true)]);
    assert_eq!(of("stays"), [(0, false), (2, false)]);
    assert_eq!(of("comes back"), [(0, false), (1, true), (2, false)]);
}

#[test]
fn a_failed_fsync_stops_writes_not_queries() {
    let disk = FaultyIo::new();
    let db = open(&disk, &lazy());
    let mut workload = Workload::new(4, &WIDTHS);
    for _ in 0..5 {
        workload.round(&db).expect("appended");
    }
    disk.fail_syncs(true);
    let last = workload.log.last().expect("something was appended").0;
    let error = db.sync(last).expect_err("the fsync failed");
    assert!(
        error.to_string().contains("fsync of the log failed"),
        "{error}"
    );
    disk.fail_syncs(false);
    assert!(
        matches!(workload.round(&db), Err(StorageError::Poisoned { .. })),
        "no retry"
    );
    let cause = db.health().expect_err("readers of the health are told");
    assert!(cause.to_string().contains("fsync"), "{cause}");
    assert_eq!(served(&db), workload.acknowledged(workload.log.len()));
    assert!(db.close().is_err(), "closing says so");
}

#[test]
fn a_directory_in_use_is_refused() {
    let disk = FaultyIo::new();
    let first = open(&disk, &options());
    let clock = Arc::new(ManualClock::new(0));
    let second = Db::open(Arc::new(disk.clone()), options(), clock.clone());
    let error = second.expect_err("the directory is in use");
    assert!(
        matches!(&error, TsdbError::Locked { path } if path.as_os_str() == ROOT),
        "{error}"
    );
    first.close().expect("closed");
    Db::open(Arc::new(disk), options(), clock).expect("the lock was given back");
}
