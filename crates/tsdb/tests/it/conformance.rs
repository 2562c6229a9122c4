//! The conformance suite of stores, on databases in different states.

use crate::support::{Settle, TestDb, open, options};
use narthex_model::{
    ColumnId, Frame, LabelSet, METRIC_NAME, Matcher, Schema,
    conformance::{BASE_MS, check, dump},
    metadata::Family,
    storage::{Context, Helpers, Hints, Selector, Sink, Store, TimeRange},
};
use narthex_tsdb::{DbOptions, FaultyIo};
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn in_the_head() {
    check(&mut || Box::new(TestDb::new(options(), Settle::Nothing)));
}

#[test]
fn after_closing_and_opening() {
    check(&mut || Box::new(TestDb::new(options(), Settle::Reopen)));
}

#[test]
fn after_a_kill() {
    check(&mut || Box::new(TestDb::new(options(), Settle::Kill)));
}

#[test]
fn in_many_row_chunks() {
    let options = || DbOptions {
        flush_rows: 3,
        block_window_ms: 7_000,
        ..options()
    };
    check(&mut || Box::new(TestDb::new(options(), Settle::Nothing)));
    check(&mut || Box::new(TestDb::new(options(), Settle::Reopen)));
}

#[test]
fn in_blocks() {
    check(&mut || Box::new(TestDb::new(options(), Settle::Flush)));
}

#[test]
fn in_blocks_after_a_kill() {
    static HELPED: AtomicUsize = AtomicUsize::new(0);
    let begin = || _ = HELPED.fetch_add(1, Ordering::Relaxed);
    let helpers = Helpers::new(1, begin).at_once();
    let options = || DbOptions {
        flush_rows: 7,
        block_window_ms: 20_000,
        helpers: helpers.clone(),
        ..options()
    };
    check(&mut || Box::new(TestDb::new(options(), Settle::FlushAndKill)));
    let helped = HELPED.load(Ordering::Relaxed);
    assert!(helped > 0, "of several blocks two are searched at once");
}

/// Origins of which the batches are made in several parts, some with samples that came late.
#[test]
fn many_origins_are_read_alike_with_helpers() {
    static HELPED: AtomicUsize = AtomicUsize::new(0);
    let begin = || _ = HELPED.fetch_add(1, Ordering::Relaxed);
    let selector = Selector {
        matchers: vec![Matcher::equal(METRIC_NAME, "m")],
        range: TimeRange::ALL,
        hints: Hints::default(),
    };
    let read = |helpers: Helpers| {
        let options = DbOptions {
            helpers,
            ..options()
        };
        let disk = FaultyIo::new();
        let db = open(&disk, &options);
        for origin in 0..1500 {
            let common = LabelSet::new([("instance", origin.to_string().as_str())]);
            let mut edit = Schema::new(common).edit();
            let family = edit.family(Family::default());
            edit.push(&LabelSet::new([(METRIC_NAME, "m")]), family);
            let schema = edit.finish();
            let mut binding = db.bind(&schema).expect("a binding");
            let late = (origin % 7 == 0).then_some(-5000);
            for offset_ms in [0, 1000].into_iter().chain(late) {
                let mut frame = Frame::new(schema.clone(), BASE_MS + offset_ms);
                frame.set(ColumnId(0), f64::from(origin));
                binding.append(&frame).expect("appended");
            }
        }
        let ctx = Context::unlimited();
        let selectors = std::slice::from_ref(&selector);
        let prepared = db.prepare(TimeRange::ALL, selectors, &ctx);
        let prepared = prepared.expect("prepared");
        let batches = prepared.batches(0, &ctx).expect("batches");
        let batches = batches.iter().map(|batch| {
            let (labels, rows) = (batch.labels(0), batch.rows(TimeRange::ALL));
            (labels, batch.len(), rows)
        });
        let batches: Vec<(LabelSet, usize, usize)> = batches.collect();
        let held = ctx.budget.used_bytes();
        (
            batches,
            prepared.estimate(),
            held,
            dump(&db, &[], TimeRange::ALL),
        )
    };
    let alone = read(Helpers::none());
    assert_eq!((alone.0.len(), alone.3.len()), (1500, 1500));
    let of_columns = 1500 * 16;
    assert!(
        alone.2 > of_columns + 215 * 80,
        "late samples are leased: {}",
        alone.2
    );
    let helpers = Helpers::new(1, begin).at_once();
    let together = read(helpers);
    assert!(alone == together);
    assert!(HELPED.load(Ordering::Relaxed) > 0);
}
