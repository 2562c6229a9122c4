//! What series that ended cost the queries that cannot see them.

use crate::support::options;
use narthex_model::{
    ColumnId, Frame, LabelSet, METRIC_NAME, Matcher, Schema,
    conformance::BASE_MS,
    metadata::Family,
    storage::{Budget, Context, Selector, Sink, Store, TimeRange},
};
use narthex_tsdb::{Db, FaultyIo, ManualClock};
use std::sync::Arc;

const LIVE: usize = 5;

fn schema(pod: &str) -> Schema {
    let common = LabelSet::new([("job", "churn"), ("pod", pod)]);
    let mut edit = Schema::new(common).edit();
    for name in ["up", "queue"] {
        let family = edit.family(Family {
            name: name.into(),
            ..Family::default()
        });
        edit.push(&LabelSet::new([(METRIC_NAME, name)]), family);
    }
    edit.finish()
}

/// Returns a database with targets that ended before `BASE_MS + 1000`, and live ones that began after it.
fn database(dead: usize) -> Db {
    let clock = ManualClock::new(BASE_MS + 10_000);
    let db = Db::open(Arc::new(FaultyIo::new()), options(), Arc::new(clock)).expect("a database");
    let store = |pod: &str, from_ms: i64, ends: bool| {
        let schema = schema(pod);
        let mut binding = db.bind(&schema).expect("a binding");
        for row in 0..3 {
            let mut frame = Frame::new(schema.clone(), from_ms + row * 100);
            for column in [ColumnId(0), ColumnId(1)] {
                if ends && row == 2 {
                    frame.mark_stale(column);
                } else {
                    frame.set(column, 1.0);
                }
            }
            binding.append(&frame).expect("appended");
        }
    };
    (0..dead).for_each(|at| store(&format!("dead-{at}"), BASE_MS, true));
    (0..LIVE).for_each(|at| store(&format!("live-{at}"), BASE_MS + 5000, false));
    db
}

/// Returns the most memory that selecting `up` took, and the number of series selected.
fn select(db: &Db, range: TimeRange) -> (u64, usize) {
    let ctx = Context {
        budget: Budget::new("query", 1 << 30),
        ..Context::unlimited()
    };
    let selector = Selector::new(vec![Matcher::equal(METRIC_NAME, "up")], range);
    let view = db.view(range).expect("a view");
    let prepared = view.prepare(&[selector], &ctx).expect("prepared");
    let batches = prepared.batches(0, &ctx).expect("batches");
    let series = batches.iter().map(|batch| batch.len()).sum();
    (ctx.budget.peak_bytes(), series)
}

#[test]
fn a_selector_does_not_look_at_series_that_ended_before_its_range() {
    let (alone, crowded) = (database(0), database(300));
    let now = TimeRange::new(BASE_MS + 4000, BASE_MS + 9000);
    let (bytes, series) = select(&alone, now);
    assert!(bytes > 0 && series == LIVE);
    assert_eq!(
        select(&crowded, now),
        (bytes, series),
        "nothing is leased for dead series"
    );
    let before = TimeRange::new(BASE_MS + 200, BASE_MS + 9000);
    assert_eq!(
        select(&crowded, before).1,
        LIVE + 300,
        "their last instant is seen"
    );
}
