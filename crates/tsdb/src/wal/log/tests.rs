//! Appending, syncing, failing.

use super::*;
use crate::{
    io::{Fault, FaultyIo, Op, PowerLoss, is_exhausted, is_full},
    wal::{
        batch::{Scanned, Scanner},
        record::{Record, RecordReader, RowHead, SampleRecord},
    },
};
use narthex_model::LabelSet;

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
                out_of_order: 0,
            },
        )
    });
    let ticket = wal.ticket(&Marks(marks.collect()))?;
    append(&ticket, |out| {
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

fn append(
    ticket: &Ticket<'_>,
    write: impl FnOnce(&mut RecordWriter<'_>),
) -> Result<u64, TsdbError> {
    ticket.wait(ticket.add(write)?)
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

/// The old file used to be synced some time after the next one was in use: its end could be lost while later data
/// was not.
#[test]
fn what_survives_is_a_prefix_over_files_too() {
    for seed in 0..200 {
        let disk = FaultyIo::new();
        let wal = start(&disk, 3_600_000);
        // Some way into a second or third file, which has room for about 75 rows.
        let count = 60 + seed % 100;
        (0..count).for_each(|at| put_one(&wal, 1, at as u8));
        disk.power_loss(PowerLoss::Shuffle(seed));
        let (found, damaged) = rows(&disk);
        let prefix: Vec<_> = (0..found.len() as u8).map(|at| (1, at)).collect();
        assert!(found == prefix && !damaged, "seed {seed}: {found:?}");
    }
}

/// When another WAL file was due but could not be created, every write was refused, though the current one had room.
#[test]
fn a_file_is_written_on_while_no_other_can_be_created() {
    for errno in [24, 28] {
        let disk = FaultyIo::new();
        let wal = start(&disk, 1);
        disk.inject(Fault::on(Op::Create).times(u64::MAX).errno(errno));
        // Four times the usual size of a file.
        (0..200).for_each(|at| put_one(&wal, 1, at));
        assert_eq!(disk.paths().len(), 1);
        assert!(wal.cut(&Marks(HashMap::new())).is_err());
        // Without a bound it would become too long to read back.
        let refused = (200..2000).find_map(|at| put(&wal, 1 + at / 100, at as u8).err());
        let error = refused.expect("a bound");
        assert!(
            matches!(&error, TsdbError::Io { source, .. } if is_exhausted(source) || is_full(source)),
            "{error}"
        );
        assert_eq!(wal.len_bytes().div_ceil(4096), 9);
        disk.clear_faults();
        put_one(&wal, 1, 200);
        assert_eq!(disk.paths().len(), 2);
        drop(wal);
        let (found, damaged) = rows(&disk);
        assert!(found.len() > 400 && found.ends_with(&[(1, 200)]) && !damaged);
    }
}

/// Half a record stayed in the batch, and was sealed with a good checksum together with the next writer's.
#[test]
fn a_panic_while_records_are_built_leaves_nothing_of_them() {
    let disk = FaultyIo::new();
    let wal = start(&disk, 1);
    let sets: Vec<LabelSet> = (0..6)
        .map(|at| LabelSet::new([("__name__", "m"), ("at", at.to_string().as_str())]))
        .collect();
    let grow = |sets: &[LabelSet], from: u64, fails: bool| {
        let ticket = wal.ticket(&Marks(HashMap::new())).unwrap();
        append(&ticket, |out| {
            out.grow(1, from, sets.iter());
            assert!(!fails, "on purpose");
        })
    };
    grow(&sets[..2], 0, false).unwrap();
    let panicking = std::panic::AssertUnwindSafe(|| grow(&sets[2..4], 2, true));
    assert!(std::panic::catch_unwind(panicking).is_err());
    // Sets that the lost records would have defined are defined again.
    grow(&sets[2..], 2, false).unwrap();
    drop(wal);
    let path = Path::new(DIR).join("00000001");
    let file = disk.open(&path).unwrap();
    let mut scanner = Scanner::open(&*file, &path).unwrap();
    let mut records = RecordReader::default();
    let mut found = Vec::new();
    while let Scanned::Batch(batch) = scanner.next().unwrap() {
        let mut reader = crate::bytes::Reader::new(batch.body);
        while let Some(record) = records.next(&mut reader).unwrap() {
            if let Record::Grow { from, sets, .. } = record {
                assert_eq!(from, found.len() as u64);
                found.extend(sets.into_iter().flatten());
            }
        }
    }
    assert_eq!(found, sets);
}

/// Readers refuse a batch beyond a length that writers did not know: families, new columns and out-of-order samples of one
/// append were one batch, whatever their number.
#[test]
#[expect(clippy::too_many_lines, reason = "a test tells its story in one piece")]
fn batches_are_bounded_when_they_are_written() {
    let disk = FaultyIo::new();
    let families: Vec<Family> = (0..30_000)
        .map(|at| Family {
            name: format!("family_{at}").into(),
            help: "h".repeat(1000).into(),
            ..Family::default()
        })
        .collect();
    let io: Arc<dyn Io> = Arc::new(disk.clone());
    let dir = Path::new(DIR);
    let wal = Wal::start(
        io,
        dir,
        1,
        options(1),
        BTreeMap::new(),
        &families,
        Arc::default(),
    )
    .unwrap();
    // In one append: 2^17 columns with long labels, and as many out-of-order samples.
    let value = "v".repeat(200);
    let sets: Vec<LabelSet> = (0..1 << 17)
        .map(|at| LabelSet::new([("at", at.to_string().as_str()), ("long", value.as_str())]))
        .collect();
    let sample = |column: u32| SampleRecord {
        column,
        time_ms: 1,
        cell: 0.5,
        histogram: None,
        start_time_ms: 0,
    };
    let samples: Vec<SampleRecord<'_>> = (0..1 << 17).map(sample).collect();
    let ticket = wal.ticket(&Marks(HashMap::new())).unwrap();
    let written = append(&ticket, |out| {
        out.grow(1, 0, sets.iter());
        out.out_of_order(1, 7, &samples);
    });
    written.unwrap();
    // A single record that no reader would accept is refused and rolled back.
    let page = vec![0; crate::wal::batch::MAX_BATCH_BYTES];
    let head = RowHead::Next {
        sequence: 0,
        step_change_ms: 0,
    };
    let refused = append(&ticket, |out| {
        out.row(1, head, [page.as_slice()].into_iter());
    });
    drop(ticket);
    assert!(
        matches!(&refused, Err(TsdbError::Internal { .. })),
        "{refused:?}"
    );
    put_one(&wal, 2, 9);
    drop(wal);
    let (mut longest, mut columns, mut out_of_order, mut known) = (0, 0, 0, 0);
    for path in disk.paths() {
        let file = disk.open(&path).unwrap();
        let mut scanner = Scanner::open(&*file, &path).unwrap();
        let mut records = RecordReader::default();
        loop {
            let batch = match scanner.next().unwrap() {
                Scanned::Batch(batch) => batch,
                Scanned::End => break,
                _ => panic!("damage"),
            };
            assert_eq!(batch.lost, 0);
            longest = longest.max(batch.body.len());
            let mut reader = crate::bytes::Reader::new(batch.body);
            while let Some(record) = records.next(&mut reader).unwrap() {
                match record {
                    Record::Family(_) => known += 1,
                    Record::Grow {
                        from, sets: some, ..
                    } => {
                        assert_eq!(from, columns as u64);
                        let same = |(at, set): (usize, &Option<LabelSet>)| {
                            set.as_ref() == Some(&sets[columns + at])
                        };
                        assert!(some.iter().enumerate().all(same));
                        columns += some.len();
                    }
                    Record::OutOfOrder { first, samples, .. } => {
                        assert_eq!(first, 7 + out_of_order);
                        out_of_order += samples.len() as u64;
                    }
                    _ => {}
                }
            }
        }
    }
    assert_eq!((columns, out_of_order, known), (1 << 17, 1 << 17, 30_000));
    assert!(longest < 40 << 20, "{longest}");
}
