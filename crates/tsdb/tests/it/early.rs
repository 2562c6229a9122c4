//! Rounds that arrive before the database is open.

use crate::support::{NOW_MS, open, options};
use narthex_model::{
    Family, Frame, LabelSet, Schema,
    conformance::{Sampled, dump},
    storage::{Budget, Sink, StorageError, TimeRange},
};
use narthex_tsdb::{Db, EarlySink, FaultyIo, ManualClock, Opening, TsdbError};
use std::sync::Arc;

fn schema(instance: &str, names: &[&str]) -> Schema {
    extended(&Schema::new(LabelSet::new([("instance", instance)])), names)
}

fn extended(schema: &Schema, names: &[&str]) -> Schema {
    let mut edit = schema.edit();
    let family = edit.family(Family::default());
    for name in names {
        edit.push(&LabelSet::new([("__name__", *name)]), family);
    }
    edit.finish()
}

fn round(schema: &Schema, time_ms: i64, value: f64) -> Frame {
    let mut frame = Frame::new(schema.clone(), time_ms);
    for (column, _) in schema.columns() {
        frame.set(column, value);
    }
    frame
}

fn begin(disk: &FaultyIo) -> Result<Opening, TsdbError> {
    let clock = Arc::new(ManualClock::new(NOW_MS));
    Opening::begin(Arc::new(disk.clone()), options(), clock)
}

/// Samples of a series.
fn series(db: &Db, name: &str, instance: &str) -> Vec<(i64, f64)> {
    let all = dump(db, &[], TimeRange::ALL);
    let labels = LabelSet::new([("__name__", name), ("instance", instance)]);
    let value = |sampled: &Sampled| match sampled {
        Sampled::Float(bits) => f64::from_bits(*bits),
        other => panic!("{other:?} in {labels}"),
    };
    all[&labels]
        .iter()
        .map(|(time, sampled, _)| (*time, value(sampled)))
        .collect()
}

#[test]
fn rounds_before_the_replay_are_stored_after_it() {
    let disk = FaultyIo::new();
    let base = NOW_MS - 60_000;
    let old = open(&disk, &options());
    let a = schema("a", &["x", "y"]);
    old.bind(&a).unwrap().append(&round(&a, base, 1.0)).unwrap();
    old.close().unwrap();

    let opening = begin(&disk).unwrap();
    assert!(matches!(begin(&disk), Err(TsdbError::Locked { .. })));
    let sink = EarlySink::new(Budget::new("early", 1 << 20));
    let mut binding = sink.bind(&a).unwrap();
    let short_lived = schema("gone", &["x"]);
    let mut gone = sink.bind(&short_lived).unwrap();
    assert_eq!(
        binding
            .append(&round(&a, base + 1000, 2.0))
            .unwrap()
            .accepted,
        0
    );
    gone.append(&round(&short_lived, base + 1000, 9.0)).unwrap();
    drop(gone);
    let wider = extended(&a, &["z"]);
    binding.rebind(&wider).unwrap();
    binding.append(&round(&wider, base + 2000, 3.0)).unwrap();

    let db = opening.finish().unwrap();
    let outcome = sink.open(&db).unwrap();
    assert_eq!(outcome.accepted, 2 + 1 + 3);
    assert_eq!(
        sink.open(&db).unwrap().accepted,
        0,
        "a second call does nothing"
    );
    assert_eq!(
        binding
            .append(&round(&wider, base + 3000, 4.0))
            .unwrap()
            .accepted,
        3
    );
    let b = schema("b", &["x"]);
    let late = sink
        .bind(&b)
        .unwrap()
        .append(&round(&b, base, 5.0))
        .unwrap();
    assert_eq!(late.accepted, 1);

    let x = vec![
        (base, 1.0),
        (base + 1000, 2.0),
        (base + 2000, 3.0),
        (base + 3000, 4.0),
    ];
    assert_eq!(series(&db, "x", "a"), x);
    assert_eq!(series(&db, "y", "a"), x);
    assert_eq!(series(&db, "z", "a"), x[2..]);
    assert_eq!(series(&db, "x", "gone"), [(base + 1000, 9.0)]);
    assert_eq!(series(&db, "x", "b"), [(base, 5.0)]);
    db.close().unwrap();
}

#[test]
fn what_waits_is_bounded() {
    let memory = Budget::new("early", 10_000);
    let sink = EarlySink::new(memory.clone());
    let a = schema("a", &["x"]);
    let mut binding = sink.bind(&a).unwrap();
    let mut kept = 0;
    let refused = loop {
        match binding.append(&round(&a, NOW_MS + kept, 1.0)) {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, StorageError::OverBudget(_)), "{refused}");
    assert!((10..1000).contains(&kept), "{kept}");
    assert!(sink.append_samples(&[]).is_err());
    let db = open(&FaultyIo::new(), &options());
    assert_eq!(
        sink.open(&db).unwrap().accepted,
        u64::try_from(kept).unwrap()
    );
    assert_eq!(memory.used_bytes(), 0, "what was stored no longer waits");
    binding.append(&round(&a, NOW_MS + kept, 1.0)).unwrap();
    db.close().unwrap();
}
