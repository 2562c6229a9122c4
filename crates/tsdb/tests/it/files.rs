//! Files and descriptors that run out, and foreign files: nothing is lost, no file that this program did not make is
//! removed, and the database recovers by itself.

use crate::{
    support::{NOW_MS, ROOT, open, options},
    workload::{Acknowledged, Workload, missing, served},
};
use narthex_model::{
    ColumnId, Frame, LabelSet, METRIC_NAME, Schema,
    conformance::{BASE_MS, dump},
    metadata::Family,
    storage::{
        Batch, Context, Layout, Selector, SeriesSample, Sink, StorageError, Store, Tile, TimeRange,
        View,
    },
};
use narthex_testkit::rng::SplitMix64;
use narthex_tsdb::{
    Db, DbOptions, Fault, FaultyIo, Io, ManualClock, Notice, Op, PowerLoss, TsdbError, is_exhausted,
};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

const HOUR_MS: i64 = 3_600_000;

fn files(disk: &FaultyIo, dir: &str) -> Vec<PathBuf> {
    let dir = Path::new(ROOT).join(dir);
    let paths = disk.paths().into_iter();
    paths.filter(|path| path.starts_with(&dir)).collect()
}

fn labels(name: &str) -> LabelSet {
    LabelSet::new([(METRIC_NAME, name)])
}

fn sample(name: &str, time_ms: i64, value: f64) -> SeriesSample {
    SeriesSample::float(labels(name), time_ms, value)
}

fn count(db: &Db) -> usize {
    dump(db, &[], TimeRange::ALL).values().map(Vec::len).sum()
}

fn quiet(db: &Db) {
    assert_eq!(db.damage(), []);
    assert_eq!(db.notices(), []);
}

/// One block for each hour, of one series; returns what was stored.
fn hours(disk: &FaultyIo, options: &DbOptions, hours: std::ops::Range<i64>) -> Db {
    let db = open(disk, options);
    for hour in hours {
        let written = db.append_samples(&[sample("hours", BASE_MS - hour * HOUR_MS, hour as f64)]);
        assert_eq!(written.expect("appended").accepted, 1);
        db.flush().expect("flushed");
    }
    db
}

fn hourly() -> DbOptions {
    DbOptions {
        block_window_ms: HOUR_MS,
        merge_blocks: 0,
        ..options()
    }
}

/// A start with fewer descriptors than blocks reported blocks as damaged, and a query over many blocks opened too many.
#[test]
fn more_blocks_than_descriptors_are_served() {
    let disk = FaultyIo::new();
    let options = DbOptions {
        max_open_blocks: 5,
        ..hourly()
    };
    disk.set_most_open(12);
    let db = hours(&disk, &options, 0..40);
    assert_eq!((count(&db), files(&disk, "blocks").len()), (40, 40));
    assert!(disk.open_files() <= 8, "{} are open", disk.open_files());
    db.close().expect("closed");
    drop(db);
    let db = open(&disk, &options);
    quiet(&db);
    assert_eq!(count(&db), 40);
    assert!(disk.open_files() <= 8, "{} are open", disk.open_files());
}

#[test]
fn a_query_without_descriptors_fails_and_says_so_and_the_next_one_answers() {
    let disk = FaultyIo::new();
    let options = DbOptions {
        cache_bytes: 0,
        max_open_blocks: 1,
        ..hourly()
    };
    let db = hours(&disk, &options, 0..4);
    let view = db.view(TimeRange::ALL).expect("a view");
    disk.set_most_open(0);
    let selector = Selector::new(Vec::new(), TimeRange::ALL);
    let error = match view.prepare(std::slice::from_ref(&selector), &Context::unlimited()) {
        Err(error) => error,
        Ok(_) => panic!("nothing can be opened"),
    };
    assert!(
        matches!(&error, StorageError::Io { source, .. } if is_exhausted(source)),
        "{error}"
    );
    assert!(error.to_string().contains("Too many open files"), "{error}");
    disk.set_most_open(usize::MAX);
    assert_eq!(count(&db), 4);
    quiet(&db);
}

#[test]
fn a_start_without_descriptors_fails_and_changes_nothing() {
    let disk = FaultyIo::new();
    drop(hours(&disk, &hourly(), 0..6));
    disk.kill();
    let before = disk.paths();
    for most in 0..5 {
        disk.set_most_open(most);
        let clock = Arc::new(ManualClock::new(NOW_MS));
        let opened = Db::open(Arc::new(disk.clone()), hourly(), clock);
        if let Err(error) = opened {
            assert!(
                matches!(&error, TsdbError::Io { source, .. } if is_exhausted(source)),
                "{error}"
            );
            assert_eq!(disk.paths(), before);
        } else {
            assert!(most > 2);
        }
        disk.kill();
    }
    disk.set_most_open(usize::MAX);
    // None for blocks alone: others came in between.
    let none = Fault::on(Op::Open).in_path("blocks").errno(24);
    disk.inject(none.after(3).times(2));
    let clock = Arc::new(ManualClock::new(NOW_MS));
    let error = Db::open(Arc::new(disk.clone()), hourly(), clock).expect_err("no descriptors");
    assert!(error.to_string().contains("open files"), "{error}");
    disk.kill();
    let db = open(&disk, &hourly());
    quiet(&db);
    assert_eq!(count(&db), 6);
}

/// A year's backfill is flushed into a block for every window; all of them used to be open at once.
#[test]
fn a_backfill_of_many_windows_needs_few_descriptors() {
    let disk = FaultyIo::new();
    let db = open(&disk, &hourly());
    let rows = 300;
    let mut samples = Vec::new();
    for hour in 0..rows {
        for series in 0..3 {
            // In no order, with some hours of one series only.
            let at = (hour * 173) % rows;
            if series == 0 || at % 3 != 0 {
                let time_ms = BASE_MS - at * HOUR_MS - series * 1000;
                samples.push(sample(&format!("s{series}"), time_ms, at as f64));
            }
        }
    }
    for some in samples.chunks(100) {
        let written = db.append_samples(some).expect("appended");
        assert_eq!(written.accepted, some.len() as u64);
    }
    let before = dump(&db, &[], TimeRange::ALL);
    let open_before = disk.open_files();
    disk.set_most_open(open_before + 40);
    db.flush().expect("flushed");
    assert_eq!(dump(&db, &[], TimeRange::ALL), before);
    let blocks = files(&disk, "blocks");
    assert!(blocks.len() >= 300, "{}", blocks.len());
    drop(db);
    disk.kill();
    let db = open(&disk, &hourly());
    quiet(&db);
    assert_eq!(dump(&db, &[], TimeRange::ALL), before);
}

/// More than 2^20 samples of one series in one window ended maintenance with a panic, and again after every restart.
#[test]
fn a_series_with_more_samples_than_a_strip_has_rows_is_flushed() {
    const SAMPLES: i64 = 1_200_000;
    let disk = FaultyIo::new();
    let options = DbOptions {
        wal_file_bytes: 128 << 20,
        ..options()
    };
    let db = open(&disk, &options);
    let window_ms = options.block_window_ms;
    let first_ms = (BASE_MS / window_ms - 1) * window_ms;
    let series = labels("many");
    let value = |at: i64| (at % 1013) as f64;
    let start_ms = |at: i64| first_ms - 1_000_000 + at / 400_000;
    for from in (0..SAMPLES).step_by(100_000) {
        let samples: Vec<SeriesSample> = (from..from + 100_000)
            .map(|at| SeriesSample {
                start_time_ms: start_ms(at),
                ..SeriesSample::float(series.clone(), first_ms + at * 5, value(at))
            })
            .collect();
        let written = db.append_samples(&samples).expect("appended");
        assert_eq!(written.accepted, 100_000);
    }
    let check = |db: &Db| {
        let (mut at, mut wrong) = (0, 0);
        visit(
            &*db.view(TimeRange::ALL).expect("a view"),
            |time_ms, cell| {
                let right = (time_ms, cell) == (first_ms + at * 5, value(at));
                (at, wrong) = (at + 1, wrong + u32::from(!right));
            },
        );
        assert_eq!((at, wrong), (SAMPLES, 0));
        // Start times, around where they change and where the strip ends.
        for around in [400_000, 800_000, 1 << 20] {
            let range = TimeRange::new(first_ms + (around - 5) * 5, first_ms + (around + 5) * 5);
            let some = dump(db, &[], range).remove(&series).expect("samples");
            let starts: Vec<i64> = some.iter().map(|sample| sample.2).collect();
            let expected: Vec<i64> = (around - 5..=around + 5).map(start_ms).collect();
            assert_eq!(starts, expected);
        }
    };
    db.flush().expect("flushed");
    assert_eq!(files(&disk, "blocks").len(), 1);
    check(&db);
    drop(db);
    disk.kill();
    let db = open(&disk, &options);
    quiet(&db);
    check(&db);
}

/// Retention wrote a manifest before it removed anything, which a full disk refused: room was never made.
#[test]
fn a_full_disk_does_not_stop_retention() {
    for crash in [false, true] {
        let disk = FaultyIo::new();
        let mut options = hourly();
        let db = open(&disk, &options);
        let mut random = SplitMix64::new(1);
        for hour in 0..8 {
            let first_ms = BASE_MS - hour * 4 * HOUR_MS;
            // Values that take room.
            let samples: Vec<SeriesSample> = (0..30_000)
                .map(|at| {
                    sample(
                        "full",
                        first_ms + at * 10,
                        f64::from_bits(random.next_u64() >> 2),
                    )
                })
                .collect();
            let written = db.append_samples(&samples).expect("appended");
            assert_eq!(written.accepted, 30_000);
            db.flush().expect("flushed");
        }
        let view = db.view(TimeRange::ALL).expect("a view");
        let all = files(&disk, "blocks").len();
        disk.set_capacity(disk.used_bytes());
        assert!(db.append_samples(&[sample("x", BASE_MS, 1.0)]).is_err());
        // By now there are too many of them. The view still has them.
        options.tuning.retention_bytes = Some(disk.used_bytes() * 3 / 10);
        db.tune(&options.tuning);
        let later_ms = NOW_MS + 60_000;
        let _ = db.maintain(later_ms);
        let seen = prepared_count(&*view);
        assert_eq!(seen, 240_000, "what a view has stays readable");
        drop(view);
        if crash {
            let _ = db.maintain(later_ms + 1000);
            disk.kill();
            drop(db);
            let db = open(&disk, &options);
            assert_eq!(db.damage(), [], "what retention took is no damage");
            recovers(&disk, &db, later_ms + 2000, all);
        } else {
            recovers(&disk, &db, later_ms + 1000, all);
        }
    }
}

/// Checks that retention makes room, and that writes succeed again.
fn recovers(disk: &FaultyIo, db: &Db, mut now_ms: i64, blocks: usize) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while db.append_samples(&[sample("x", BASE_MS, 1.0)]).is_err() {
        now_ms += 1000;
        let _ = db.maintain(now_ms);
        assert!(std::time::Instant::now() < end, "room comes back");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    for _ in 0..30 {
        now_ms += 1000;
        db.maintain(now_ms).expect("maintained");
    }
    let left = files(disk, "blocks");
    assert!(left.len() <= blocks - 4, "{left:?}");
    assert!(
        left.iter()
            .all(|path| path.extension().is_some_and(|ext| ext == "block")),
        "{left:?}"
    );
    quiet(db);
}

/// Reads everything through a view; returns the number of samples.
fn prepared_count(view: &dyn View) -> usize {
    let mut seen = 0;
    visit(view, |_, _| seen += 1);
    seen
}

/// Reads everything through a view, in order.
fn visit(view: &dyn View, mut each: impl FnMut(i64, f64)) {
    let ctx = Context::unlimited();
    let selector = Selector::new(Vec::new(), TimeRange::ALL);
    let prepared = view
        .prepare(std::slice::from_ref(&selector), &ctx)
        .expect("prepared");
    visit_batches(&prepared.batches(0, &ctx).expect("batches"), &mut each);
}

fn visit_batches(batches: &[Arc<dyn Batch>], each: &mut impl FnMut(i64, f64)) {
    let ctx = Context::unlimited();
    let mut tile = Tile::default();
    for batch in batches {
        for series in 0..batch.len() as u32 {
            batch
                .read(
                    &[series],
                    TimeRange::ALL,
                    Layout::SeriesMajor,
                    &mut tile,
                    &ctx,
                )
                .expect("read");
            let cells = tile.times_ms.iter().zip(&tile.cells);
            let present = cells.filter(|(_, cell)| !narthex_model::cell::is_absent(**cell));
            present.for_each(|(time_ms, cell)| each(*time_ms, *cell));
        }
    }
}

/// A prepared batch lost its rows when the view was dropped and a flush preceded the first read.
#[test]
fn what_was_prepared_outlives_its_view() {
    let disk = FaultyIo::new();
    let db = open(&disk, &options());
    let mut edit = Schema::new(LabelSet::new([("job", "view")])).edit();
    let family = edit.family(Family::default());
    edit.push(&labels("m"), family);
    let schema = edit.finish();
    let mut binding = db.bind(&schema).expect("a binding");
    for at in 0..50 {
        let mut frame = Frame::new(schema.clone(), BASE_MS + at * 1000);
        frame.set(ColumnId(0), at as f64);
        binding.append(&frame).expect("appended");
    }
    let ctx = Context::unlimited();
    let selector = Selector::new(Vec::new(), TimeRange::ALL);
    let view = db.view(TimeRange::ALL).expect("a view");
    let prepared = view
        .prepare(std::slice::from_ref(&selector), &ctx)
        .expect("prepared");
    drop(view);
    db.flush().expect("flushed");
    db.maintain(NOW_MS).expect("maintained");
    let batches = prepared.batches(0, &ctx).expect("batches");
    let mut seen = 0;
    visit_batches(&batches, &mut |_, _| seen += 1);
    assert_eq!(seen, 50);
}

/// A start removed every block that the manifest did not list: those of a restored backup, and with an older manifest
/// those written since.
#[test]
fn blocks_that_nothing_lists_are_taken_in_or_put_aside() {
    let disk = FaultyIo::new();
    let manifest = Path::new(ROOT).join("MANIFEST");
    drop(hours(&disk, &hourly(), 0..3));
    let old = disk.bytes(&manifest).expect("a manifest");
    let listed = files(&disk, "blocks");
    disk.kill();
    let db = hours(&disk, &hourly(), 3..6);
    let everything = served(&db);
    drop(db);
    disk.kill();
    let blocks = files(&disk, "blocks");
    assert_eq!(blocks.len(), 6);
    // An older manifest beside newer blocks, and a log that has nothing of them.
    for path in files(&disk, "wal") {
        disk.remove(&path).expect("removed");
    }
    disk.put_file(&manifest, old);
    // Beside them: half a block, the copy of one, one with a name of its own, something else, and leftovers of ours.
    let whole = disk.bytes(&blocks[0]).expect("a block");
    let dir = Path::new(ROOT).join("blocks");
    let half = dir.join("00000000010000000000000001.block");
    disk.put_file(&half, whole[..whole.len() / 2].to_vec());
    let copy = dir.join("00000000010000000000000002.block");
    disk.put_file(&copy, whole.clone());
    let strange = dir.join("backup-of-monday.block");
    disk.put_file(&strange, whole.clone());
    disk.put_file(&dir.join("README"), b"mine".to_vec());
    disk.put_file(
        &dir.join("00000000010000000000000003.block.tmp"),
        whole.clone(),
    );
    disk.put_file(&dir.join("00000000010000000000000004.block.gone"), whole);
    let db = open(&disk, &hourly());
    assert_eq!(served(&db), everything);
    assert_eq!(db.damage(), []);
    let noticed: BTreeSet<&Path> = db.notices().iter().map(|notice| &*notice.path).collect();
    let adopted = blocks.iter().filter(|path| !listed.contains(path));
    let put_aside = [&half, &copy, &strange];
    let expected = adopted.chain(put_aside).map(|path| &**path);
    assert_eq!(noticed, expected.collect());
    assert_eq!(files(&disk, "quarantine").len(), 3);
    let registry = narthex_client::Registry::new();
    db.register_metrics(&registry).expect("registered");
    let mut text = Vec::new();
    registry.encode_text(&mut text);
    let text = String::from_utf8(text).expect("text");
    assert!(
        text.contains("narthex_tsdb_quarantined_files 3\n"),
        "{text}"
    );
    assert!(
        text.contains("narthex_tsdb_blocks_adopted_total 3\n"),
        "{text}"
    );
    // From the next manifest on they are listed.
    db.append_samples(&[sample("more", BASE_MS, 1.0)])
        .expect("appended");
    db.flush().expect("flushed");
    drop(db);
    disk.kill();
    let db = open(&disk, &hourly());
    quiet(&db);
    assert_eq!(count(&db), 7);
    let names: Vec<_> = files(&disk, "blocks");
    assert!(names.contains(&dir.join("README")), "{names:?}");
    assert_eq!(names.len(), 8);
}

/// A manifest from before a merge lists blocks that are gone; the merged one has their samples.
#[test]
fn a_merged_block_stands_for_those_it_was_made_from() {
    let disk = FaultyIo::new();
    let merging = DbOptions {
        merge_blocks: 2,
        ..options()
    };
    let db = open(&disk, &merging);
    let manifest = Path::new(ROOT).join("MANIFEST");
    for at in 0..2 {
        db.append_samples(&[sample("m", BASE_MS + at, at as f64)])
            .expect("appended");
        db.flush().expect("flushed");
    }
    let old = disk.bytes(&manifest).expect("a manifest");
    let sources = files(&disk, "blocks");
    let copies: Vec<Vec<u8>> = sources
        .iter()
        .map(|path| disk.bytes(path).expect("a block"))
        .collect();
    for second in 0..20 {
        db.maintain(NOW_MS + 24 * HOUR_MS + second * 1000)
            .expect("maintained");
    }
    assert_eq!(files(&disk, "blocks").len(), 1);
    drop(db);
    disk.kill();
    disk.put_file(&manifest, old.clone());
    let db = open(&disk, &merging);
    assert_eq!((count(&db), db.damage()), (2, vec![]));
    assert_eq!(db.notices().len(), 1, "{:?}", db.notices());
    drop(db);
    disk.kill();
    // With its sources restored as well, the merged block has nothing that they lack.
    disk.put_file(&manifest, old);
    for (path, bytes) in sources.iter().zip(copies) {
        disk.put_file(path, bytes);
    }
    let db = open(&disk, &merging);
    assert_eq!((count(&db), db.damage()), (2, vec![]));
    assert_eq!(files(&disk, "blocks"), sources);
    assert_eq!(files(&disk, "quarantine").len(), 1);
}

/// A merge that did not fit left its block behind until a restart, on a disk that was full already.
#[test]
fn a_merge_that_fails_leaves_nothing_behind() {
    for op in [Op::Sync, Op::SyncDir, Op::Create, Op::Append] {
        for after in 0..6 {
            let disk = FaultyIo::new();
            let options = DbOptions {
                merge_blocks: 2,
                ..options()
            };
            let db = open(&disk, &options);
            for at in 0..2 {
                db.append_samples(&[sample("m", BASE_MS + at, at as f64)])
                    .expect("appended");
                db.flush().expect("flushed");
            }
            disk.inject(Fault::on(op).in_path("MANIFEST").after(after).errno(28));
            disk.inject(Fault::on(op).in_path("blocks").after(after).errno(28));
            let later_ms = NOW_MS + 24 * HOUR_MS;
            let failed = (0..20).any(|at| db.maintain(later_ms + at * 1000).is_err());
            if failed {
                disk.clear_faults();
                let left = files(&disk, "blocks");
                let names = left.iter().map(|path| path.to_string_lossy());
                let half: Vec<_> = names.filter(|name| name.ends_with(".tmp")).collect();
                assert!(
                    half.is_empty() || left.len() == 1,
                    "{op:?} {after}: {left:?}"
                );
            }
            for at in 0..100 {
                db.maintain(later_ms + 20_000 + at * 1000)
                    .expect("maintained");
            }
            assert_eq!(files(&disk, "blocks").len(), 1, "{op:?} {after}");
            assert_eq!(count(&db), 2);
            drop(db);
            disk.kill();
            let db = open(&disk, &options);
            quiet(&db);
            assert_eq!(count(&db), 2);
        }
    }
}

/// A failed merge waited for a time of day before a retry; after the clock was set back, that took days.
#[test]
fn a_clock_set_back_after_a_failed_merge_does_not_put_the_next_one_off() {
    let disk = FaultyIo::new();
    let options = DbOptions {
        merge_blocks: 2,
        ..options()
    };
    let db = open(&disk, &options);
    for at in 0..2 {
        db.append_samples(&[sample("m", BASE_MS + at, at as f64)])
            .expect("appended");
        db.flush().expect("flushed");
    }
    disk.inject(Fault::on(Op::Create).in_path("blocks").errno(28));
    let later_ms = NOW_MS + 48 * HOUR_MS;
    assert!((0..20).any(|at| db.maintain(later_ms + at * 1000).is_err()));
    disk.clear_faults();
    let merged = |from_ms: i64| {
        for at in 0..20 {
            db.maintain(from_ms + at * 1000).expect("maintained");
        }
        files(&disk, "blocks").len() == 1
    };
    assert!(!merged(later_ms + 20_000), "a full disk gets time");
    assert!(merged(later_ms - 24 * HOUR_MS));
    assert_eq!(count(&db), 2);
}

/// A single failed read was taken for damage, and a merge left the data out for good.
#[test]
fn a_merge_that_cannot_read_loses_nothing() {
    let options = DbOptions {
        merge_blocks: 2,
        cache_bytes: 0,
        ..options()
    };
    let mut failures = 0;
    for after in 0..40 {
        let disk = FaultyIo::new();
        let db = open(&disk, &options);
        let mut workload = Workload::new(after, &[3, 30]);
        for _ in 0..2 {
            (0..4).for_each(|_| workload.round(&db).expect("appended"));
            db.flush().expect("flushed");
        }
        let acknowledged = workload.acknowledged(workload.log.len());
        disk.inject(Fault::on(Op::Read).in_path("blocks").after(after).times(2));
        let later_ms = NOW_MS + 24 * HOUR_MS;
        for at in 0..10 {
            failures += u32::from(db.maintain(later_ms + at * 1000).is_err());
        }
        disk.clear_faults();
        assert_eq!(served(&db), acknowledged, "read {after}");
        for at in 10..200 {
            db.maintain(later_ms + at * 1000).expect("maintained");
        }
        assert_eq!(served(&db), acknowledged, "read {after}");
        quiet(&db);
    }
    assert!(failures > 10, "{failures} merges failed");
}

/// Two faults at once, of any kind, then a kill or a loss of power that keeps some part of the unsynced data:
/// acknowledged (and, with a loss of power, synced) samples are there, and none that was never written.
#[test]
#[expect(clippy::too_many_lines, reason = "a test tells its story in one piece")]
fn two_faults_of_any_kind_lose_nothing() {
    const OPS: [Op; 12] = [
        Op::Create,
        Op::Open,
        Op::Read,
        Op::List,
        Op::Lock,
        Op::Append,
        Op::Sync,
        Op::Truncate,
        Op::Rename,
        Op::Remove,
        Op::SyncDir,
        Op::CreateDir,
    ];
    let options = DbOptions {
        fsync_interval_ms: 0,
        wal_file_bytes: 6_000,
        flush_rows: 5,
        merge_blocks: 2,
        max_open_blocks: 2,
        ..options()
    };
    let mut faults = 0;
    for seed in 0..narthex_testkit::scaled(150) {
        let mut random = SplitMix64::new(seed);
        let disk = FaultyIo::new();
        let mut workload = Workload::new(seed, &[1, 7, 40]);
        let mut now_ms = NOW_MS;
        disk.set_most_read(1 + random.index(5000));
        for life in 0..3 {
            let db = open(&disk, &options);
            assert_eq!(db.damage(), [], "seed {seed}, life {life}");
            // Files that a merge could not remove are quarantined.
            let aside =
                |notice: &Notice| notice.detail.contains("other blocks have all its samples");
            assert!(
                db.notices().iter().all(aside),
                "seed {seed}: {:?}",
                db.notices()
            );
            let acknowledged = workload.acknowledged(workload.log.len());
            let found = served(&db);
            assert_eq!(
                missing(&acknowledged, &found),
                None,
                "seed {seed}, life {life}"
            );
            assert_eq!(missing(&found, &possible(&workload)), None, "seed {seed}");
            for _ in 0..2 {
                let op = OPS[random.index(OPS.len())];
                let errno = [5, 24, 28, 12, 13][random.index(5)];
                let fault = Fault::on(op)
                    .after(random.below(60))
                    .times(1 + random.below(3));
                disk.inject(if random.one_in(4) && op == Op::Append {
                    fault.torn(random.index(200))
                } else {
                    fault.errno(errno)
                });
            }
            if random.one_in(4) {
                disk.set_most_open(disk.open_files() + random.index(4));
            }
            if random.one_in(4) {
                disk.set_capacity(disk.used_bytes() + random.below(20_000));
            }
            for round in 0..20 {
                now_ms += 60_000;
                faults += usize::from(workload.round(&db).is_err());
                if round % 7 == 6 {
                    faults += usize::from(db.flush().is_err());
                }
                faults += usize::from(db.maintain(now_ms + 24 * HOUR_MS).is_err());
            }
            workload.unbind();
            if random.one_in(2) {
                disk.kill();
            } else {
                disk.power_loss(PowerLoss::Shuffle(seed));
            }
            disk.set_most_open(usize::MAX);
            disk.set_capacity(u64::MAX);
            drop(db);
        }
    }
    assert!(faults > 200, "{faults} calls failed");
}

fn possible(workload: &Workload) -> Acknowledged {
    let mut possible = workload.acknowledged(workload.log.len());
    for (labels, time_ms, bits) in &workload.uncertain {
        let samples = possible.entry(labels.clone()).or_default();
        samples.insert(*time_ms, *bits);
    }
    possible
}
