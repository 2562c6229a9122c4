//! Damaged WAL files: damage is reported with its place, everything else is served, nothing is made up.

use crate::{
    support::{open, options},
    workload::{Acknowledged, Workload, fingerprint, missing, served},
};
use narthex_model::{
    ColumnId, Frame, Histogram, LabelSet, METRIC_NAME, Schema,
    conformance::{BASE_MS, Dump, dump},
    metadata::Family,
    storage::{Sink, TimeRange},
};
use narthex_testkit::{mutate::Mutator, rng::SplitMix64, scaled};
use narthex_tsdb::{DbOptions, FaultyIo};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

fn small() -> DbOptions {
    DbOptions {
        wal_file_bytes: 3_000,
        flush_rows: 11,
        ..options()
    }
}

/// Writes a log of several files; returns the disk and what was acknowledged.
fn written(seed: u64) -> (FaultyIo, Acknowledged) {
    let disk = FaultyIo::new();
    let db = open(&disk, &small());
    let mut workload = Workload::new(seed, &[1, 6, 30]);
    for _ in 0..60 {
        workload.round(&db).expect("appended");
    }
    workload.unbind();
    db.close().expect("closed");
    (disk, workload.acknowledged(workload.log.len()))
}

fn log_files(disk: &FaultyIo) -> Vec<PathBuf> {
    disk.paths()
        .into_iter()
        .filter(|path| path.starts_with("/data/wal"))
        .collect()
}

fn count(all: &Acknowledged) -> usize {
    all.values().map(std::collections::BTreeMap::len).sum()
}

#[test]
fn a_flipped_byte_is_reported_with_its_place_and_the_rest_is_served() {
    let (pristine, acknowledged) = written(1);
    let files = log_files(&pristine);
    assert!(files.len() >= 4, "{} files", files.len());
    let mut random = SplitMix64::new(5);
    let contents: Vec<Vec<u8>> = files
        .iter()
        .map(|path| pristine.bytes(path).expect("a file"))
        .collect();
    let (mut reported, mut least_served) = (0, usize::MAX);
    for _ in 0..scaled(150) {
        let which = random.index(files.len() - 1);
        let at = random.index(contents[which].len());
        let (disk, _) = written(1);
        let mut bytes = contents[which].clone();
        bytes[at] ^= 1 << random.below(8);
        disk.put_file(&files[which], bytes);
        let clock = Arc::new(narthex_tsdb::ManualClock::new(crate::support::NOW_MS));
        let db = narthex_tsdb::Db::open(Arc::new(disk), small(), clock)
            .unwrap_or_else(|error| panic!("flip at {at} of {}: {error}", files[which].display()));
        let found = served(&db);
        assert_eq!(
            missing(&found, &acknowledged),
            None,
            "flip at {at}: nothing is made up"
        );
        if missing(&acknowledged, &found).is_some() {
            let damage = db.damage();
            let near = damage
                .iter()
                .any(|damage| damage.path == files[which] && damage.offset <= at as u64);
            assert!(
                near,
                "flip at {at} of {}: {damage:?}",
                files[which].display()
            );
            reported += 1;
        }
        least_served = least_served.min(count(&found));
    }
    assert!(reported > 100, "{reported} flips lost something");
    let all = count(&acknowledged);
    assert!(
        least_served * 10 > all * 6,
        "at least {least_served} of {all} samples are served whatever is hit"
    );
}

#[test]
fn mutated_logs_never_panic_and_never_invent_a_value() {
    let (pristine, acknowledged) = written(2);
    let files = log_files(&pristine);
    let contents: Vec<Vec<u8>> = files
        .iter()
        .map(|path| pristine.bytes(path).expect("a file"))
        .collect();
    let corpus: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
    let mut which = 0;
    Mutator::new(3).max_len(20_000).run(&corpus, 120, |bytes| {
        which += 1;
        let disk = FaultyIo::new();
        for (path, content) in files.iter().zip(&contents) {
            disk.put_file(path, content.clone());
        }
        disk.put_file(&files[which % files.len()], bytes.to_vec());
        let clock = Arc::new(narthex_tsdb::ManualClock::new(crate::support::NOW_MS));
        let Ok(db) = narthex_tsdb::Db::open(Arc::new(disk), small(), clock) else {
            return;
        };
        let found = served(&db);
        // A file copied over another repeats its rows: they are not newer than the existing ones.
        assert_eq!(missing(&found, &acknowledged), None, "nothing is made up");
    });
}

#[test]
fn a_missing_file_in_the_middle_loses_its_rows_alone() {
    let (disk, acknowledged) = written(3);
    let files = log_files(&disk);
    narthex_tsdb::Io::remove(&disk, &files[1]).expect("removed");
    let db = open(&disk, &small());
    let damage = db.damage();
    assert_eq!(damage[0].path, files[1], "{damage:?}");
    assert!(
        damage[0].detail.contains("missing") && damage[0].detail.contains("rows and samples"),
        "{damage:?}"
    );
    let found = served(&db);
    assert_eq!(missing(&found, &acknowledged), None);
    let (found, all) = (count(&found), count(&acknowledged));
    assert!(found * 10 > all * 6, "{found} of {all}");
}

/// A file that ends between two batches looks complete; only the next one shows that more was written.
#[test]
fn a_file_that_lost_its_end_is_reported_by_the_next_one() {
    let (disk, acknowledged) = written(3);
    let files = log_files(&disk);
    let whole = disk.bytes(&files[1]).expect("a file");
    let batches = |bytes: &[u8]| {
        let mut starts = vec![20];
        while let Some(header) = bytes
            .get(starts[starts.len() - 1]..)
            .filter(|b| b.len() > 12)
        {
            let len = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
            starts.push(starts[starts.len() - 1] + 12 + len as usize);
        }
        starts
    };
    let starts = batches(&whole);
    disk.put_file(&files[1], whole[..starts[starts.len() - 6]].to_vec());
    let db = open(&disk, &small());
    let found = served(&db);
    assert_eq!(missing(&found, &acknowledged), None);
    assert!(missing(&acknowledged, &found).is_some());
    let damage = db.damage();
    assert_eq!(damage.len(), 1, "{damage:?}");
    assert_eq!((&damage[0].path, damage[0].offset), (&files[2], 0));
    assert!(damage[0].detail.contains("in no file"), "{damage:?}");
}

#[test]
fn foreign_and_empty_files_are_reported_or_ignored() {
    let (disk, acknowledged) = written(4);
    disk.put_file(
        Path::new("/data/wal/00000000"),
        b"this is no log file at all".to_vec(),
    );
    disk.put_file(Path::new("/data/wal/notes.txt"), b"mine".to_vec());
    let next = log_files(&disk).len() - 1;
    disk.put_file(&PathBuf::from(format!("/data/wal/{next:08}")), Vec::new());
    let db = open(&disk, &small());
    assert_eq!(served(&db), acknowledged);
    let damage = db.damage();
    assert_eq!(damage.len(), 1, "{damage:?}");
    assert_eq!(
        (damage[0].path.as_path(), damage[0].offset),
        (Path::new("/data/wal/00000000"), 0)
    );
}

#[test]
fn a_damaged_block_is_left_out_or_named_and_the_rest_is_served() {
    let disk = FaultyIo::new();
    let db = open(&disk, &small());
    let mut workload = Workload::new(6, &[1, 6, 30]);
    for round in 0..60 {
        workload.round(&db).expect("appended");
        if round % 20 == 19 {
            db.flush().expect("flushed");
        }
    }
    workload.unbind();
    db.close().expect("closed");
    let acknowledged = workload.acknowledged(workload.log.len());
    let blocks: Vec<PathBuf> = disk
        .paths()
        .into_iter()
        .filter(|path| path.starts_with("/data/blocks"))
        .collect();
    assert!(blocks.len() >= 3, "{blocks:?}");
    let good = disk.bytes(&blocks[1]).expect("a block");
    let mut random = SplitMix64::new(8);
    let (mut left_out, mut named) = (0, 0);
    for _ in 0..scaled(60) {
        disk.kill();
        let at = random.index(good.len());
        let mut bytes = good.clone();
        bytes[at] ^= 1 << random.below(8);
        disk.put_file(&blocks[1], bytes);
        let clock = Arc::new(narthex_tsdb::ManualClock::new(crate::support::NOW_MS));
        let io = Arc::new(disk.clone());
        let db = narthex_tsdb::Db::open(io, small(), clock)
            .unwrap_or_else(|error| panic!("flip at {at}: {error}"));
        let (found, warnings, errors) = read_all(&db);
        assert_eq!(
            missing(&found, &acknowledged),
            None,
            "flip at {at}: nothing is made up"
        );
        assert!(errors.is_empty(), "flip at {at}: {errors:?}");
        let name = blocks[1].to_string_lossy();
        for warning in &warnings {
            assert!(warning.contains(&*name), "{warning}");
        }
        let damage = db.damage();
        let reported = damage.iter().any(|damage| damage.path == blocks[1]);
        left_out += u32::from(reported);
        named += u32::from(!warnings.is_empty());
        let whole = missing(&acknowledged, &found).is_none();
        assert!(
            whole || (reported && !warnings.is_empty()),
            "flip at {at}: what is missing is reported, and told to the asker"
        );
        assert!(
            count(&found) * 2 > count(&acknowledged),
            "flip at {at}: the rest is served"
        );
    }
    assert!(
        left_out > 5 && named > 5,
        "{left_out} left out, {named} named"
    );
}

/// Reads batch by batch: readable samples, warnings, and errors.
fn read_all(db: &narthex_tsdb::Db) -> (Acknowledged, Vec<String>, Vec<String>) {
    use narthex_model::{
        cell,
        storage::{Context, Layout, Selector, Store, Tile},
    };
    let ctx = Context::unlimited();
    let view = db.view(TimeRange::ALL).expect("a view");
    let prepared = view
        .prepare(&[Selector::new(Vec::new(), TimeRange::ALL)], &ctx)
        .expect("prepared");
    let (mut found, mut errors, mut tile) = (Acknowledged::new(), Vec::new(), Tile::default());
    for batch in prepared.batches(0, &ctx).expect("batches") {
        for series in 0..batch.len() as u32 {
            let days = [
                TimeRange::new(i64::MIN, crate::workload::SPLIT_MS),
                TimeRange::new(crate::workload::SPLIT_MS + 1, i64::MAX),
            ];
            for range in days {
                if let Err(error) =
                    batch.read(&[series], range, Layout::SeriesMajor, &mut tile, &ctx)
                {
                    errors.push(error.to_string());
                    continue;
                }
                for (time_ms, value) in tile
                    .times_ms
                    .iter()
                    .zip(&tile.cells)
                    .filter(|(_, value)| !cell::is_absent(**value))
                {
                    let bits = match cell::Cell::decode(*value) {
                        cell::Cell::Histogram(at) => fingerprint(&tile.histograms[at as usize]),
                        _ => value.to_bits(),
                    };
                    found
                        .entry(batch.labels(series as usize))
                        .or_default()
                        .insert(*time_ms, bits);
                }
            }
        }
    }
    (found, ctx.warnings.drain(), errors)
}

/// Rows of the origins that `steady` writes.
const STEADY_ROWS: usize = 100;
/// Rows of a row chunk of theirs.
const CHUNK_ROWS: usize = 40;

fn steady_options() -> DbOptions {
    DbOptions {
        wal_file_bytes: 1 << 30,
        flush_rows: CHUNK_ROWS,
        ..options()
    }
}

/// Writes rows of two unchanging origins, with stale events, gaps and histograms; returns the WAL's bytes, all stored
/// samples, and the unique time of each row.
fn steady(widths: [u32; 2]) -> (Vec<u8>, Dump, Vec<i64>) {
    let disk = FaultyIo::new();
    let db = open(&disk, &steady_options());
    let mut random = SplitMix64::new(9);
    let schemas = widths.map(|columns| {
        let mut edit = Schema::new(LabelSet::new([("w", columns.to_string().as_str())])).edit();
        let family = edit.family(Family::default());
        for at in 0..columns {
            let set = LabelSet::new([(METRIC_NAME, "m"), ("at", at.to_string().as_str())]);
            edit.push(&set, family);
        }
        edit.finish()
    });
    let mut bindings = schemas
        .each_ref()
        .map(|schema| db.bind(schema).expect("bound"));
    let mut rows = Vec::new();
    for row in 0..STEADY_ROWS as i64 {
        for (binding, schema) in bindings.iter_mut().zip(&schemas) {
            // No two rows have one time.
            let time_ms =
                BASE_MS + row * 1000 + schema.len() as i64 % 7 * 100 + random.below(20) as i64;
            let mut frame = Frame::new(schema.clone(), time_ms);
            for at in (0..schema.len() as u32).map(ColumnId) {
                match (at.0 % 5, random.below(12)) {
                    (_, 0) => frame.mark_stale(at),
                    (_, 1) => {}
                    (0, _) => frame.set(at, (row * 7) as f64),
                    (1, _) => frame.set(at, random.below(1000) as f64 / 8.0),
                    (2, _) => frame.set(at, f64::from_bits(random.next_u64() >> 2)),
                    (3, 2) => frame.set_histogram(
                        at,
                        Arc::new(Histogram {
                            count: row as f64,
                            ..Histogram::default()
                        }),
                    ),
                    _ => frame.set(at, 1.0),
                }
            }
            binding.append(&frame).expect("appended");
            rows.push(time_ms);
        }
    }
    let all = dump(&db, &[], TimeRange::ALL);
    db.close().expect("closed");
    let log = disk.bytes(Path::new("/data/wal/00000001")).expect("a log");
    (log, all, rows)
}

/// Finds where the batches of a log file begin.
fn batches(log: &[u8]) -> Vec<usize> {
    let mut at = 20;
    let mut starts = Vec::new();
    while let Some(header) = log.get(at..at + 12) {
        starts.push(at);
        at += 12 + u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
    }
    starts
}

/// A flipped byte used to cost an origin all rows up to its next key row, an hour of them.
#[test]
fn a_flipped_byte_in_a_row_costs_that_row_where_a_key_row_follows() {
    // One page, and one and a bit.
    let (log, whole, rows) = steady([30, 1030]);
    let starts = batches(&log);
    assert_eq!(starts.len(), rows.len());
    let at_most = |hit: usize| {
        if hit / 2 + CHUNK_ROWS < STEADY_ROWS {
            1
        } else {
            CHUNK_ROWS
        }
    };
    let mut random = SplitMix64::new(10);
    let mut lost_one = 0;
    // The first batch of each origin introduces it: see docs/format/wal.md.
    for hit in (2..starts.len()).filter(|hit| hit % 9 < 2) {
        let mut bytes = log.clone();
        let end = starts.get(hit + 1).copied().unwrap_or(log.len());
        bytes[starts[hit] + 12 + random.index(end - starts[hit] - 12)] ^= 1 << random.below(8);
        let disk = FaultyIo::new();
        disk.put_file(Path::new("/data/wal/00000001"), bytes);
        let db = open(&disk, &steady_options());
        assert_eq!(db.damage().len(), 1, "{:?}", db.damage());
        let all = dump(&db, &[], TimeRange::ALL);
        let mut lost = Vec::new();
        for (labels, samples) in &whole {
            let kept = all.get(labels).map_or(&[][..], Vec::as_slice);
            let gone = samples.iter().filter(|sample| !kept.contains(sample));
            lost.extend(gone.map(|sample| {
                rows.iter()
                    .position(|time_ms| *time_ms == sample.0)
                    .expect("a row")
            }));
            assert!(
                kept.iter().all(|sample| samples.contains(sample)),
                "nothing is made up"
            );
        }
        lost.sort_unstable();
        let samples = lost.len();
        lost.dedup();
        let of_rows = whole
            .values()
            .flatten()
            .filter(|sample| lost.iter().any(|row| rows[*row] == sample.0));
        assert_eq!(of_rows.count(), samples, "rows as a whole");
        assert!(lost.contains(&hit) && lost.iter().all(|at| at % 2 == hit % 2));
        assert!(lost.len() <= at_most(hit), "{hit}: lost {lost:?}");
        lost_one += usize::from(lost.len() == 1);
        let detail = &db.damage()[0].detail;
        let behind = detail.contains(&format!("; {} rows", lost.len() - 1));
        assert!(behind || lost.len() == 1, "{detail}, lost {}", lost.len());
    }
    assert!(lost_one > 15, "{lost_one}");
}

/// Data of an unreadable block that the WAL still has is served from the WAL, and written again.
#[test]
fn rows_of_an_unreadable_block_are_taken_from_the_log() {
    let disk = FaultyIo::new();
    // The log's only file is not removed while it is being written.
    let options = DbOptions {
        wal_file_bytes: 1 << 20,
        ..small()
    };
    let db = open(&disk, &options);
    let mut workload = Workload::new(12, &[1, 6, 30]);
    for round in 0..12 {
        workload.round(&db).expect("appended");
        if round % 4 == 3 {
            db.flush().expect("flushed");
        }
    }
    workload.unbind();
    disk.kill();
    let acknowledged = workload.acknowledged(workload.log.len());
    let blocks: Vec<PathBuf> = disk.paths();
    let blocks: Vec<_> = blocks
        .iter()
        .filter(|path| path.starts_with("/data/blocks"))
        .collect();
    assert!(blocks.len() >= 3, "{blocks:?}");
    for block in &blocks[..2] {
        let mut bytes = disk.bytes(block).expect("a block");
        let end = bytes.len() - 40;
        bytes[end] ^= 4;
        disk.put_file(block, bytes);
    }
    for flush in [true, false] {
        let db = open(&disk, &options);
        assert_eq!(db.damage().len(), 2, "{:?}", db.damage());
        assert!(served(&db) == acknowledged, "before {flush}");
        if flush {
            db.flush().expect("flushed");
            assert!(served(&db) == acknowledged, "after {flush}");
        }
        drop(db);
        disk.kill();
    }
}
