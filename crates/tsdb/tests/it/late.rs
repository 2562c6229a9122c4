//! Samples at times that rows or blocks have already: what looking for those costs.

use crate::support::{NOW_MS, open, options};
use narthex_model::{
    ColumnId, Frame, LabelSet, METRIC_NAME, Schema,
    conformance::dump,
    metadata::Family,
    storage::{Binding, Outcome, SeriesSample, Sink, TimeRange},
};
use narthex_testkit::alloc;
use narthex_tsdb::{DbOptions, FaultyIo};

fn schema(columns: usize) -> Schema {
    let mut edit = Schema::new(LabelSet::new([("job", "late")])).edit();
    let family = edit.family(Family::default());
    for at in 0..columns {
        let name = format!("m{at}");
        edit.push(&LabelSet::new([(METRIC_NAME, name.as_str())]), family);
    }
    edit.finish()
}

/// Appends one sample of column 0, with its own time.
fn one(binding: &mut dyn Binding, schema: &Schema, time_ms: i64, value: f64) -> Outcome {
    let mut frame = Frame::new(schema.clone(), NOW_MS);
    frame.set(ColumnId(0), value);
    frame.set_time(ColumnId(0), time_ms);
    binding.append(&frame).expect("appended")
}

/// A sender that repeated a series of 600,000 samples one by one had the whole series decoded for each of them.
#[test]
fn a_series_sent_again_sample_by_sample_is_not_decoded_for_each() {
    const ROWS: i64 = 20_000;
    const WRITES: i64 = 1000;
    let disk = FaultyIo::new();
    let db = open(&disk, &options());
    let schema = schema(1);
    let labels = schema.labels(ColumnId(0));
    let time_ms = |at: i64| NOW_MS - 2 * ROWS + 2 * at;
    let sample = |at: i64| SeriesSample::float(labels.clone(), time_ms(at), 1.0);
    let samples: Vec<SeriesSample> = (0..ROWS).map(sample).collect();
    db.append_samples(&samples).expect("appended");
    db.flush().expect("flushed");
    let mut binding = db.bind(&schema).expect("bound");
    let mut write = |from: i64, value: f64| -> Outcome {
        let each = |at| one(&mut *binding, &schema, time_ms(at), value);
        (from..from + WRITES)
            .map(each)
            .fold(Outcome::default(), |mut sum, outcome| {
                sum += outcome;
                sum
            })
    };
    let again = write(0, 2.0);
    assert!(again.duplicate > 100, "the first are looked up: {again:?}");
    let (_, used) = alloc::measured(|| write(WRITES, 2.0));
    let each = used.total_bytes / WRITES as u64;
    // The column alone takes eight bytes a row.
    assert!(each < ROWS as u64, "{each} bytes for each sample");
    // Others that are late earn look-ups again.
    let fresh: Vec<SeriesSample> = (0..ROWS)
        .map(|at| SeriesSample::float(LabelSet::new([(METRIC_NAME, "other")]), time_ms(at), 1.0))
        .collect();
    db.append_samples(&fresh).expect("appended");
    let outcome = one(&mut *binding, &schema, time_ms(5 * WRITES), 2.0);
    assert_eq!((outcome.accepted, outcome.duplicate), (0, 1));
    disk.kill();
}

/// For each repeated sample the open segment was copied, and the sealed ones were searched from the first.
#[test]
fn a_sample_that_an_older_row_has_is_found_without_copying_rows() {
    const COLUMNS: usize = 20_000;
    const ROWS: i64 = 300;
    let disk = FaultyIo::new();
    // A file of the log that ends ends segments, too.
    let options = DbOptions {
        wal_file_bytes: 128 << 20,
        ..options()
    };
    let db = open(&disk, &options);
    let schema = schema(COLUMNS);
    let mut binding = db.bind(&schema).expect("bound");
    let time_ms = |row: i64| NOW_MS - 1000 * ROWS + 1000 * row;
    let value = |row: i64| (row * 7919 % 1000) as f64 / 8.0;
    for row in 0..ROWS {
        let mut frame = Frame::new(schema.clone(), time_ms(row));
        (0..COLUMNS as u32).for_each(|column| frame.set(ColumnId(column), value(row)));
        binding.append(&frame).expect("appended");
    }
    let again = |row: i64, value: f64| {
        let sample = SeriesSample::float(schema.labels(ColumnId(0)), time_ms(row), value);
        let outcome = db.append_samples(&[sample]).expect("appended");
        (outcome.accepted, outcome.duplicate)
    };
    for row in (0..ROWS - 1).step_by(7) {
        assert_eq!(again(row, value(row)), (1, 0), "row {row}");
        assert_eq!(again(row, -1.0), (0, 1), "row {row}");
    }
    // A segment has at most 240 rows, and the first at least 60: these are all in the open one.
    let (_, used) = alloc::measured(|| {
        (ROWS - 60..ROWS - 1).for_each(|row| assert_eq!(again(row, -1.0), (0, 1), "row {row}"));
    });
    let each = used.total_bytes / 59;

    // The state of one page of columns is decoded.
    assert!(each < 2 * COLUMNS as u64, "{each} bytes for each sample");
    disk.kill();
}

/// The rows after it were read from a file of the log only if that began with a row of their strip, so that a kill lost
/// those stored since the last key row.
#[test]
fn rows_after_a_late_sample_that_begins_a_file_outlive_the_process() {
    let schema = schema(1);
    let options = DbOptions {
        wal_file_bytes: 600,
        ..options()
    };
    let mut files = 0;
    // After one of these numbers of rows the late sample is the first in a file.
    for rounds in 1..60 {
        let disk = FaultyIo::new();
        let db = open(&disk, &options);
        let mut binding = db.bind(&schema).expect("bound");
        let last_ms = NOW_MS - 60_000 + rounds * 100;
        for round in 1..=rounds {
            one(&mut *binding, &schema, NOW_MS - 60_000 + round * 100, 1.0);
        }
        one(&mut *binding, &schema, last_ms - 50, 1.0);
        for after in 1..=3 {
            one(&mut *binding, &schema, last_ms + after * 100, 1.0);
        }
        let stored = dump(&db, &[], TimeRange::ALL);
        disk.kill();
        drop((binding, db));
        let db = open(&disk, &options);
        assert_eq!(dump(&db, &[], TimeRange::ALL), stored, "{rounds} rounds");
        let in_log = |path: &&std::path::PathBuf| path.starts_with("/data/wal");
        files = files.max(disk.paths().iter().filter(in_log).count());
    }
    assert!(files > 2, "{files} files");
}
