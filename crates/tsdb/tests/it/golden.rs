//! Committed WAL files must always replay the same.
//!
//! `NARTHEX_UPDATE_GOLDEN=1` rewrites those of version 2; only right while no release has written it.

use crate::support::{open, options};
use narthex_model::{
    ColumnId, Exemplar, Frame, Histogram, LabelSet, METRIC_NAME, MetricType, Schema,
    conformance::{BASE_MS, Dump, dump},
    histogram::Span,
    metadata::Family,
    storage::{Context, SeriesQuery, SeriesSample, Sink, Store, TimeRange},
};
use narthex_testkit::{mutate::Mutator, workspace_root};
use narthex_tsdb::{Db, FaultyIo};
use std::{
    fmt::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

const FILE: &str = "/data/wal/00000001";

fn path(name: &str) -> PathBuf {
    workspace_root().join("testdata/formats").join(name)
}

fn updating() -> bool {
    std::env::var_os("NARTHEX_UPDATE_GOLDEN").is_some()
}

/// A log with every kind of record.
fn written() -> Vec<u8> {
    let disk = FaultyIo::new();
    let db = open(&disk, &options());
    let schema = Schema::new(LabelSet::new([("job", "golden"), ("instance", "h:1")]));
    let mut edit = schema.edit();
    let help = "What it\nis.".into();
    let family = Family {
        name: "req".into(),
        metric_type: MetricType::Counter,
        unit: "seconds".into(),
        help,
    };
    let family = edit.family(family);
    for code in ["200", "404", "500"] {
        edit.push(
            &LabelSet::new([(METRIC_NAME, "req"), ("code", code)]),
            family,
        );
    }
    let schema = edit.finish();
    let mut binding = db.bind(&schema).expect("a binding");
    let histogram = Arc::new(Histogram {
        histogram_schema: 2,
        count: 5.0,
        sum: 7.5,
        integer_counts: true,
        positive_spans: vec![Span {
            offset: 1,
            length: 2,
        }],
        positive_buckets: vec![2.0, 3.0],
        ..Histogram::default()
    });
    for row in 0..9i64 {
        let mut frame = Frame::new(schema.clone(), BASE_MS + row * 5000);
        frame.set(ColumnId(0), row as f64 * 3.0);
        frame.set_start_time(ColumnId(0), BASE_MS - 60_000 * (1 + row / 5));
        match row {
            0..4 => frame.set(ColumnId(1), row as f64 / 8.0),
            4 => frame.mark_stale(ColumnId(1)),
            _ => frame.set_histogram(ColumnId(1), Arc::clone(&histogram)),
        }
        frame.set(ColumnId(2), 1.0);
        frame.set_time(ColumnId(2), BASE_MS + row * 5000 - 77);
        if row == 3 {
            let labels = LabelSet::new([("trace_id", "abc")]);
            frame.push_exemplar(
                ColumnId(0),
                Exemplar {
                    labels,
                    value: 0.5,
                    time_ms: Some(BASE_MS + 1),
                },
            );
        }
        binding.append(&frame).expect("appended");
    }
    let out_of_order = LabelSet::new([(METRIC_NAME, "loose")]);
    let samples = [
        SeriesSample::float(out_of_order.clone(), BASE_MS + 9, 0.1),
        SeriesSample::float(out_of_order.clone(), BASE_MS + 3, -0.0),
        SeriesSample::histogram(out_of_order, BASE_MS + 5, histogram),
    ];
    db.append_samples(&samples).expect("appended");
    db.close().expect("closed");
    disk.bytes(Path::new(FILE)).expect("a log file")
}

fn show(db: &Db) -> String {
    let mut text = String::new();
    let all: Dump = dump(db, &[], TimeRange::ALL);
    for (labels, samples) in all {
        for (time_ms, sampled, start_ms) in samples {
            writeln!(
                text,
                "{labels} {} {start_ms} {sampled:?}",
                time_ms - BASE_MS
            )
            .expect("a string grows");
        }
    }
    let view = db.view(TimeRange::ALL).expect("a view");
    let ctx = Context::unlimited();
    let exemplars = view
        .exemplars(&SeriesQuery::all(TimeRange::ALL), &ctx)
        .expect("exemplars");
    let families = view.metadata(None, &ctx).expect("metadata");
    writeln!(text, "{exemplars:?}\n{families:?}").expect("a string grows");
    text
}

fn replayed(bytes: Vec<u8>) -> Db {
    let disk = FaultyIo::new();
    disk.put_file(Path::new(FILE), bytes);
    open(&disk, &options())
}

fn committed(name: &str) -> Vec<u8> {
    std::fs::read(path(name)).expect("a committed file")
}

fn flipped(bytes: &[u8], at: usize, bits: u8) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= bits;
    bytes
}

#[test]
fn the_committed_logs_replay_as_written() {
    if updating() {
        let bytes = written();
        let files = [
            ("v3/wal_small", bytes.clone()),
            ("v3/wal_damaged", flipped(&bytes, bytes.len() / 2, 0x40)),
            ("v3/wal_damaged_header", flipped(&bytes, 9, 0x10)),
        ];
        for (name, bytes) in files {
            std::fs::write(path(name), bytes).expect("testdata can be written");
        }
    }
    let expected = String::from_utf8(committed("v1/wal_small.txt")).expect("text");
    for name in ["v1/wal_small", "v2/wal_small", "v3/wal_small"] {
        let db = replayed(committed(name));
        assert_eq!(db.damage(), [], "{name}");
        assert_eq!(show(&db), expected, "{name}");
    }
    assert_eq!(
        show(&replayed(written())),
        expected,
        "what is written today reads the same"
    );
}

#[test]
fn the_committed_damage_is_found_where_it_is() {
    for version in ["v1", "v2", "v3"] {
        let good = committed(&format!("{version}/wal_small"));
        let bad = committed(&format!("{version}/wal_damaged"));
        let at = good
            .iter()
            .zip(&bad)
            .position(|(a, b)| a != b)
            .expect("a difference") as u64;
        let db = replayed(bad);
        let damage = db.damage();
        assert_eq!(damage.len(), 1, "{damage:?}");
        assert!(
            damage[0].path == Path::new(FILE) && (at - 200..=at).contains(&damage[0].offset),
            "{damage:?}, byte {at}"
        );
        let (all, kept) = (
            show(&replayed(good)).lines().count(),
            show(&db).lines().count(),
        );
        assert!(kept < all && kept * 2 > all, "{kept} of {all} lines");
    }
}

#[test]
fn a_damaged_header_is_reported_and_costs_no_sample() {
    let db = replayed(committed("v3/wal_damaged_header"));
    let damage = db.damage();
    assert_eq!(damage.len(), 1, "{damage:?}");
    assert_eq!(
        (damage[0].path.as_path(), damage[0].offset),
        (Path::new(FILE), 0)
    );
    assert_eq!(
        damage[0].detail,
        "the checksum of the file's header is wrong; 20 bytes skipped"
    );
    assert_eq!(show(&db).into_bytes(), committed("v1/wal_small.txt"));
}

#[test]
fn mutated_logs_never_panic() {
    let good = written();
    Mutator::new(21).run(&[&good], 4_000, narthex_tsdb::fuzz::fuzz_wal);
}
