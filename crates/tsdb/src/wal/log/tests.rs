//! Appending, syncing, failing.

use super::*;
use crate::{
    io::{FaultyIo, PowerLoss, is_full},
    wal::{
        batch::{Scanned, Scanner},
        record::{Record, RecordReader, RowHead},
    },
};

const DIR: &str = "/data/wal";

fn options(interval_ms: u64) -> WalOptions {
    WalOptions {
        file_bytes: 4096,
        fsync_interval: Duration::from_millis(interval_ms),
    }
}

fn start(disk: &FaultyIo, interval_ms: u64) -> Wal {
    let io: Arc<dyn Io> = Arc::new(disk.clone());
    let families = [Family {
        name: "first".into(),
        ..Family::default()
    }];
    let number = disk
        .paths()
        .iter()
        .filter(|path| path.starts_with(DIR))
        .count() as u32
        + 1;
    Wal::start(
        io,
        Path::new(DIR),
        number,
        options(interval_ms),
        BTreeMap::new(),
        &families,
        Arc::default(),
    )
    .unwrap()
}

struct Marks(HashMap<u32, StripMark>);

impl Content for Marks {
    fn families(&self) -> Vec<Family> {
        Vec::new()
    }

    fn marks(&self, _: u32) -> HashMap<u32, StripMark> {
        self.0.clone()
    }
}

fn put(wal: &Wal, strip: u32, sequence: u8) -> Result<u64, TsdbError> {
    // Strips are written one after the other, a hundred rows each.
    let rows = |other: u32| {
        if other < strip {
            100
        } else {
            u64::from(sequence)
        }
    };
    let marks = (0..=strip).map(|other| {
        (
            other,
            StripMark {
                rows: rows(other),
                loose: 0,
            },
        )
    });
    let ticket = wal.ticket(&Marks(marks.collect()))?;
    ticket.append(|out| {
        out.row(
            strip,
            RowHead::Next {
                sequence,
                step_change_ms: 0,
            },
            [&[sequence; 40][..]].into_iter(),
        );
    })
}

fn put_one(wal: &Wal, strip: u32, sequence: u8) {
    put(wal, strip, sequence).unwrap();
}

/// Reads (strip, sequence) of all rows in all files, and whether damage was seen.
fn rows(disk: &FaultyIo) -> (Vec<(u32, u8)>, bool) {
    let (mut found, mut damaged) = (Vec::new(), false);
    for path in disk.paths().iter().filter(|path| path.starts_with(DIR)) {
        let file = disk.open(path).unwrap();
        let mut scanner = Scanner::open(&*file, path).unwrap();
        let mut records = RecordReader::default();
        loop {
            match scanner.next().unwrap() {
                Scanned::Batch(batch) => {
                    let mut reader = crate::bytes::Reader::new(batch.body);
                    while let Some(record) = records.next(&mut reader).unwrap() {
                        if let Record::Row {
                            strip,
                            head: RowHead::Next { sequence, .. },
                            ..
                        } = record
                        {
                            found.push((strip, sequence));
                        }
                    }
                }
                Scanned::Damage { .. } => damaged = true,
                Scanned::Torn { .. } => {}
                Scanned::End => break,
            }
        }
    }
    (found, damaged)
}

#[test]
fn concurrent_writers_share_files_and_lose_nothing() {
    let disk = FaultyIo::new();
    let wal = start(&disk, 1);
    std::thread::scope(|scope| {
        for strip in 0..4 {
            let wal = &wal;
            scope.spawn(move || (0..200u8).for_each(|at| put_one(wal, strip, at)));
        }
    });
    drop(wal);
    let (found, damaged) = rows(&disk);
    assert!(!damaged && found.len() == 800);
    for strip in 0..4 {
        let of_strip: Vec<u8> = found
            .iter()
            .filter(|row| row.0 == strip)
            .map(|row| row.1)
            .collect();
        assert_eq!(of_strip, (0..200).collect::<Vec<u8>>(), "in order");
    }
    assert!(disk.paths().len() > 5, "files are bounded");
}

#[test]
fn sync_outlives_a_loss_of_power() {
    let disk = FaultyIo::new();
    let wal = start(&disk, 3_600_000);
    let tokens: Vec<u64> = (0..20).map(|at| put(&wal, 1, at).unwrap()).collect();
    wal.sync(tokens[11]).unwrap();
    disk.power_loss(PowerLoss::DropUnsynced);
    let (found, damaged) = rows(&disk);
    assert!(found.len() >= 12 && !damaged);
    assert_eq!(
        found,
        (0..found.len() as u8).map(|at| (1, at)).collect::<Vec<_>>(),
        "a prefix"
    );
}

#[test]
fn with_interval_zero_every_append_is_durable() {
    let disk = FaultyIo::new();
    let wal = start(&disk, 0);
    (0..5).for_each(|at| put_one(&wal, 1, at));
    disk.power_loss(PowerLoss::DropUnsynced);
    assert_eq!(rows(&disk).0.len(), 5);
}

#[test]
fn a_failed_fsync_poisons() {
    let disk = FaultyIo::new();
    let wal = start(&disk, 3_600_000);
    let token = put(&wal, 1, 0).unwrap();
    disk.fail_syncs(true);
    assert!(matches!(wal.sync(token), Err(TsdbError::Poisoned { .. })));
    disk.fail_syncs(false);
    assert!(
        matches!(put(&wal, 1, 1), Err(TsdbError::Poisoned { .. })),
        "no retry"
    );
    assert!(wal.sync(token).is_err() && wal.poisoned().is_some());
}

#[test]
fn a_full_disk_is_left_alone_and_comes_back() {
    let disk = FaultyIo::new();
    let wal = start(&disk, 1);
    put(&wal, 1, 0).unwrap();
    disk.set_capacity(disk.used_bytes() + 10);
    let error = put(&wal, 1, 1).unwrap_err();
    assert!(
        matches!(&error, TsdbError::Io { source, .. } if is_full(source)),
        "{error}"
    );
    assert!(put(&wal, 1, 1).is_err());
    disk.set_capacity(u64::MAX);
    let deadline = Instant::now() + Duration::from_secs(10);
    while put(&wal, 1, 1).is_err() {
        assert!(Instant::now() < deadline, "it recovers by itself");
        std::thread::sleep(Duration::from_millis(20));
    }
    put(&wal, 1, 2).unwrap();
    drop(wal);
    assert_eq!(rows(&disk), (vec![(1, 0), (1, 1), (1, 2)], false));
}

#[test]
fn another_write_error_poisons_and_leaves_nothing_behind() {
    let disk = FaultyIo::new();
    let wal = start(&disk, 3_600_000);
    put(&wal, 1, 0).unwrap();
    disk.tear_operation(0, 9);
    assert!(put(&wal, 1, 1).is_err());
    assert!(matches!(put(&wal, 1, 2), Err(TsdbError::Poisoned { .. })));
    drop(wal);
    assert_eq!(rows(&disk), (vec![(1, 0)], false));
}

#[test]
fn truncation_keeps_what_is_not_flushed() {
    let disk = FaultyIo::new();
    let wal = start(&disk, 1);
    for at in 0..250 {
        put(&wal, u32::from(at / 100), at % 100).unwrap();
    }
    let files = disk.paths().len();
    assert_eq!(wal.truncate(|_, _| false).unwrap(), 0);
    let removed = wal
        .truncate(|strip, mark| strip == 0 && mark.rows <= 90)
        .unwrap();
    assert!(removed > 0 && disk.paths().len() == files - removed);
    let (found, _) = rows(&disk);
    assert!(found.contains(&(0, 99)) && !found.contains(&(0, 0)));
}
