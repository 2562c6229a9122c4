//! Listings of many series: their memory in progress, and how soon they stop.

use crate::support::{NOW_MS, options};
use narthex_model::{
    LabelSet, MatchOp, Matcher,
    storage::{
        Budget, Context, SeriesQuery, SeriesSample, Sink, Stop, StorageError, Store, TimeRange,
    },
};
use narthex_testkit::scaled;
use narthex_tsdb::{Db, FaultyIo};

const SERIES: usize = 40_000;

/// A database whose series are in blocks, half of them in the head, too.
fn database() -> Db {
    let db = crate::support::open(&FaultyIo::new(), &options());
    let samples = |count: usize, time_ms: i64| -> Vec<SeriesSample> {
        let sample = |n: usize| {
            let labels = [("__name__", "m"), ("id", &*format!("{n:06}"))];
            SeriesSample::float(LabelSet::new(labels), time_ms, 1.0)
        };
        (0..count).map(sample).collect()
    };
    db.append_samples(&samples(SERIES, NOW_MS - 5000))
        .expect("stored");
    db.flush().expect("stored");
    db.append_samples(&samples(SERIES / 2, NOW_MS))
        .expect("stored");
    db
}

fn context(budget_bytes: u64, stop: Stop) -> Context {
    Context {
        budget: Budget::new("the call", budget_bytes),
        stop,
        ..Context::unlimited()
    }
}

fn over<T>(outcome: Result<T, StorageError>) -> bool {
    matches!(outcome, Err(StorageError::OverBudget(_)))
}

/// A limit was applied only after everything had been collected, without a lease.
#[test]
fn listings_hold_as_much_as_they_answer_within_their_budget() {
    let db = database();
    let view = db.view(TimeRange::ALL).unwrap();
    let pattern = Matcher::new(MatchOp::Regex, "id", "0.*").unwrap();
    for any_of in [Vec::new(), vec![vec![pattern]]] {
        let query = |limit: Option<usize>| SeriesQuery {
            any_of: any_of.clone(),
            range: TimeRange::ALL,
            limit,
        };
        // Which columns are chosen has its price, too.
        let small = context(2_800_000, Stop::never());
        let few = view.series(&query(Some(5)), &small).unwrap();
        assert_eq!((few.items.len(), few.truncated), (5, true));
        drop(few);
        let few = view.label_values("id", &query(Some(5)), &small).unwrap();
        assert_eq!(few.items.last().map(String::as_str), Some("000004"));
        assert!(over(view.series(&query(None), &small)));
        drop(few);
        assert_eq!(small.budget.used_bytes(), 0, "everything is given back");
        let roomy = context(64 << 20, Stop::never());
        let all = view.series(&query(None), &roomy).unwrap();
        assert_eq!((all.items.len(), all.truncated), (SERIES, false));
        assert!(roomy.budget.used_bytes() > (SERIES * 40) as u64);
        let values = view.label_values("id", &query(None), &roomy).unwrap();
        assert_eq!(values.items.len(), SERIES);
        let tiny = context(1_000_000, Stop::never());
        assert!(over(view.label_values("id", &query(None), &tiny)));
    }
    let small = context(1_000_000, Stop::never());
    assert!(over(view.cardinality(10, &small)));
    let roomy = context(64 << 20, Stop::never());
    let counted = view.cardinality(10, &roomy).unwrap();
    assert_eq!(counted.series as usize, SERIES / 2);
}

#[test]
fn listings_stop_between_any_two_checks() {
    let db = database();
    let view = db.view(TimeRange::ALL).unwrap();
    let query = SeriesQuery {
        any_of: vec![vec![Matcher::new(MatchOp::Regex, "id", "0.*").unwrap()]],
        range: TimeRange::ALL,
        limit: None,
    };
    type Call<'c> = dyn Fn(&Context) -> Result<(), StorageError> + 'c;
    let calls: [(&str, &Call<'_>); 4] = [
        ("series", &|ctx| view.series(&query, ctx).map(drop)),
        ("values", &|ctx| {
            view.label_values("id", &query, ctx).map(drop)
        }),
        ("names", &|ctx| view.label_names(&query, ctx).map(drop)),
        ("cardinality", &|ctx| view.cardinality(5, ctx).map(drop)),
    ];
    for (name, call) in calls {
        // What the first call makes for all later ones takes checks of its own.
        call(&context(u64::MAX, Stop::never())).unwrap();
        let counted = Stop::at_check(0);
        call(&context(u64::MAX, counted.clone())).unwrap();
        // Tens of thousands of values are matched, some dozens of nanoseconds each.
        assert!(counted.checks() > 5, "{name}: {} checks", counted.checks());
        // All of them at a larger scale.
        let step = (counted.checks() / scaled(30)).max(1);
        for check in (1..=counted.checks()).step_by(step as usize) {
            let stopped = call(&context(u64::MAX, Stop::at_check(check)));
            let stopped = matches!(stopped, Err(StorageError::Stopped(_)));
            assert!(stopped, "{name} at check {check}");
        }
    }
}
