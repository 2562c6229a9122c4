//! Damaged logs: what is wrong is reported with its place, everything else is served, nothing is made up.

use crate::{
    support::{open, options},
    workload::{Acknowledged, Workload, missing, served},
};
use narthex_testkit::{mutate::Mutator, rng::SplitMix64, scaled};
use narthex_tsdb::{DbOptions, FaultyIo};
use std::path::{Path, PathBuf};

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
        disk.put(&files[which], bytes);
        let clock = std::sync::Arc::new(narthex_tsdb::ManualClock::new(crate::support::NOW_MS));
        let db = match narthex_tsdb::Db::open(std::sync::Arc::new(disk), small(), clock) {
            Ok(db) => db,
            // The version is the one field a file is refused for.
            Err(narthex_tsdb::TsdbError::Version { .. }) if (8..12).contains(&at) => continue,
            Err(error) => panic!("flip at {at} of {}: {error}", files[which].display()),
        };
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
            disk.put(path, content.clone());
        }
        disk.put(&files[which % files.len()], bytes.to_vec());
        let clock = std::sync::Arc::new(narthex_tsdb::ManualClock::new(crate::support::NOW_MS));
        let Ok(db) = narthex_tsdb::Db::open(std::sync::Arc::new(disk), small(), clock) else {
            return;
        };
        let found = served(&db);
        // A file put in another's place repeats rows of it: they are not newer than what is there.
        assert_eq!(missing(&found, &acknowledged), None, "nothing is made up");
    });
}

#[test]
fn a_missing_file_in_the_middle_loses_its_rows_alone() {
    let (disk, acknowledged) = written(3);
    let files = log_files(&disk);
    narthex_tsdb::Io::remove(&disk, &files[1]).expect("removed");
    let db = open(&disk, &small());
    let found = served(&db);
    assert_eq!(missing(&found, &acknowledged), None);
    let (found, all) = (count(&found), count(&acknowledged));
    assert!(found * 10 > all * 6, "{found} of {all}");
}

#[test]
fn foreign_and_empty_files_are_reported_or_ignored() {
    let (disk, acknowledged) = written(4);
    disk.put(
        Path::new("/data/wal/00000000"),
        b"this is no log file at all".to_vec(),
    );
    disk.put(Path::new("/data/wal/notes.txt"), b"mine".to_vec());
    disk.put(Path::new("/data/wal/00000999"), Vec::new());
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
        disk.put(&blocks[1], bytes);
        let clock = std::sync::Arc::new(narthex_tsdb::ManualClock::new(crate::support::NOW_MS));
        let io = std::sync::Arc::new(disk.clone());
        let db = match narthex_tsdb::Db::open(io, small(), clock) {
            Ok(db) => db,
            Err(narthex_tsdb::TsdbError::Version { .. }) => continue,
            Err(error) => panic!("flip at {at}: {error}"),
        };
        let (found, warnings, errors) = read_all(&db);
        assert_eq!(
            missing(&found, &acknowledged),
            None,
            "flip at {at}: nothing is made up"
        );
        for error in &errors {
            assert!(error.contains(&*blocks[1].to_string_lossy()), "{error}");
        }
        let damage = db.damage();
        let reported = damage.iter().any(|damage| damage.path == blocks[1]);
        left_out += u32::from(!warnings.is_empty() || reported);
        named += u32::from(!errors.is_empty());
        let whole = missing(&acknowledged, &found).is_none();
        assert!(
            whole || reported || !errors.is_empty(),
            "flip at {at}: what is missing is reported"
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

/// Reads batch by batch: what can be read, warnings, and errors.
fn read_all(db: &narthex_tsdb::Db) -> (Acknowledged, Vec<String>, Vec<String>) {
    use narthex_model::{
        cell,
        storage::{Context, Layout, Selector, Store, Tile, TimeRange},
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
                for (time_ms, bits) in tile
                    .times_ms
                    .iter()
                    .zip(&tile.cells)
                    .filter(|(_, bits)| !cell::is_absent(**bits))
                {
                    found
                        .entry(batch.labels(series as usize))
                        .or_default()
                        .insert(*time_ms, bits.to_bits());
                }
            }
        }
    }
    (found, prepared.warnings(), errors)
}
