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
