//! Limits of what is kept of range queries. That what is kept is right is tested with a database.

use narthex_model::{
    MemStore,
    storage::{Budget, Context, StorageError, Store, TimeRange, View, WriteMark},
};
use narthex_promql::{Engine, EngineOptions, KeptSteps, QueryError, QueryResult, testing};
use std::{
    fmt::Write as _,
    sync::{Arc, Mutex},
};

const STEP_MS: i64 = 10_000;

/// A store that notes which times are looked at, and to which nothing is written.
struct Still {
    inner: Box<dyn Store>,
    views: Mutex<Vec<TimeRange>>,
}

impl Still {
    fn new(series: usize) -> Self {
        let mut script = "load 10s\n".to_owned();
        for at in 0..series {
            writeln!(script, "  x{{at=\"{at}\"}} {at}+1x200").unwrap();
        }
        Self::of(&script)
    }

    fn of(script: &str) -> Self {
        Self {
            inner: testing::load(script, Box::new(MemStore::new())).unwrap(),
            views: Mutex::default(),
        }
    }
}

impl Store for Still {
    fn view(&self, range: TimeRange) -> Result<Arc<dyn View>, StorageError> {
        self.views.lock().unwrap().push(range);
        self.inner.view(range)
    }

    fn write_mark(&self) -> Option<WriteMark> {
        Some(WriteMark(0))
    }

    fn unchanged_before(&self, _: WriteMark) -> Option<i64> {
        Some(i64::MAX)
    }

    fn time_range(&self) -> Option<TimeRange> {
        self.inner.time_range()
    }
}

/// An engine that keeps steps, with the budget that they are leased from.
struct Fixture {
    engine: Engine,
    kept: Arc<KeptSteps>,
    budget: Budget,
    store: Still,
}

fn engine(max_samples: u64) -> Engine {
    Engine::new(EngineOptions {
        max_samples,
        lookback_delta_ms: STEP_MS,
        ..EngineOptions::default()
    })
}

impl Fixture {
    fn new(series: usize, most_bytes: u64) -> Self {
        let budget = Budget::new("test", 1 << 30);
        let kept = Arc::new(KeptSteps::new(&budget, most_bytes));
        Self {
            engine: engine(1_000_000).keeping(Some(Arc::clone(&kept))),
            kept,
            budget,
            store: Still::new(series),
        }
    }

    /// Asks for some steps.
    fn ask(&self, query: &str, first: i64, last: i64) -> Result<QueryResult, QueryError> {
        let (start_ms, end_ms) = (first * STEP_MS, last * STEP_MS);
        let ctx = Context::unlimited();
        let ask =
            |engine: &Engine| engine.range(&self.store, query, start_ms, end_ms, STEP_MS, &ctx);
        let found = ask(&self.engine);
        if let (Ok(found), Ok(fresh)) = (&found, ask(&self.engine.clone().keeping(None))) {
            assert_eq!(testing::bits(found), testing::bits(&fresh));
        }
        found
    }

    /// Returns how many steps were not evaluated.
    fn reused(&self, query: &str, first: i64, last: i64) -> u64 {
        self.ask(query, first, last).unwrap().stats.reused_steps
    }
}

#[test]
fn steps_are_reused_from_the_third_time_on_and_the_newest_are_looked_at_alone() {
    let fixture = Fixture::new(3, 1 << 20);
    assert_eq!(fixture.reused("sum(x)", 20, 60), 0);
    assert_eq!(fixture.budget.used_bytes(), 0, "asked once");
    assert_eq!(fixture.reused("sum(x)", 20, 60), 0);
    assert!(fixture.budget.used_bytes() > 0);
    fixture.store.views.lock().unwrap().clear();
    assert_eq!(fixture.reused("sum(x)", 21, 62), 40);
    let seen = fixture.store.views.lock().unwrap()[0];
    assert_eq!((seen.min_ms, seen.max_ms), (60 * STEP_MS + 1, 62 * STEP_MS));
    // The last step is evaluated in any case, a range that begins earlier as a whole.
    assert_eq!(fixture.reused("sum(x)", 21, 62), 41);
    assert_eq!(fixture.reused("sum(x)", 10, 62), 0);
    assert_eq!(fixture.reused("sum(x)", 30, 62), 32);
    // Far fewer steps are another panel's, which disturbs nobody, as is another text.
    assert_eq!(fixture.reused("sum(x)", 62, 62), 0);
    assert_eq!(fixture.reused("sum (x)", 30, 62), 0);
    assert_eq!(fixture.reused("sum(x)", 30, 62), 32);
    // So are steps between these.
    let (start_ms, end_ms, ctx) = (305_000, 625_000, Context::unlimited());
    let engine = &fixture.engine;
    let between = engine.range(&fixture.store, "sum(x)", start_ms, end_ms, STEP_MS, &ctx);
    assert_eq!(between.unwrap().stats.reused_steps, 0);
    assert_eq!(fixture.reused("sum(x)", 30, 62), 32);
}

#[test]
fn an_answer_has_no_more_points_than_a_query_may_hold() {
    let mut fixture = Fixture::new(7, 1 << 20);
    for _ in 0..2 {
        fixture.ask("x", 20, 40).unwrap();
    }
    assert_eq!(fixture.reused("x", 21, 41), 20);
    // Far more than the steps that are evaluated have.
    fixture.engine = engine(200).keeping(Some(Arc::clone(&fixture.kept)));
    let refused = fixture.ask("x", 21, 51);
    assert!(
        matches!(refused, Err(QueryError::TooManySamples { limit: 200 })),
        "{refused:?}"
    );
    fixture.engine = engine(230).keeping(Some(Arc::clone(&fixture.kept)));
    assert_eq!(fixture.reused("x", 21, 51), 21);
}

#[test]
fn no_more_is_kept_than_there_is_room_for() {
    // Forty series of some sixty points have about 50 kB.
    let fixture = Fixture::new(40, 150_000);
    for _ in 0..3 {
        assert_eq!(fixture.reused("x", 20, 80), 0, "more than a quarter");
    }
    assert_eq!(fixture.budget.used_bytes(), 0);
    let queries: Vec<String> = (0..12).map(|at| format!("x > {at}")).collect();
    for query in &queries {
        for _ in 0..2 {
            fixture.ask(query, 20, 40).unwrap();
        }
        assert!(fixture.budget.used_bytes() <= 150_000);
    }
    assert!(fixture.budget.used_bytes() > 75_000);
    assert_eq!(fixture.reused(&queries[0], 20, 40), 0, "the oldest went");
    assert_eq!(fixture.reused(&queries[11], 20, 40), 20);
}

/// Two series that only their names tell apart are an error of a whole range.
#[test]
fn what_is_an_error_of_all_steps_together_is_one_of_new_steps() {
    let mut fixture = Fixture::new(1, 1 << 20);
    fixture.store = Still::of("load 10s\n  x 0+1x100\n  y _x150 0+1x50\n");
    for query in [
        "delta({__name__=~\"x|y\"}[20s])",
        "max_over_time((x or y)[20s:10s])",
        "max_over_time(label_replace(x or y, \"__name__\", \"z$1\", \"at\", \"(.*)\")[20s:10s])",
    ] {
        for _ in 0..3 {
            fixture.ask(query, 95, 140).unwrap();
        }
        let expected = engine(1_000_000).range(
            &fixture.store,
            query,
            98 * STEP_MS,
            153 * STEP_MS,
            STEP_MS,
            &Context::unlimited(),
        );
        let found = fixture.ask(query, 98, 153);
        assert_eq!(
            found
                .map(|found| testing::bits(&found))
                .map_err(|e| e.to_string()),
            expected
                .map(|found| testing::bits(&found))
                .map_err(|e| e.to_string()),
            "{query}"
        );
    }
}
