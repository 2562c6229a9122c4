//! Tests of the limits on queries: label bytes, patterns, results, samples, and time between two checks of the stop.

use narthex_model::{
    MemStore,
    storage::{Budget, Context, Stop, Store},
};
use narthex_promql::{
    CostLimits, Engine, EngineOptions, Query, QueryError, QueryResult, ReadLimits,
    testing::{self, TestStore},
};
use std::{fmt::Write as _, sync::Arc, time::Duration};

const END_MS: i64 = 3_600_000;

fn load(script: &str) -> Box<dyn TestStore> {
    testing::load(&format!("load 1m\n{script}"), Box::new(MemStore::new())).unwrap()
}

fn few() -> Box<dyn TestStore> {
    let stale = "stale ".repeat(58);
    load(&format!(
        "  x{{a=\"v\", job=\"j\"}} 1+1x60\n  gone 1 1 {stale}2\n"
    ))
}

fn within(budget_bytes: u64) -> Context {
    Context {
        budget: Budget::new("the query", budget_bytes),
        ..Context::unlimited()
    }
}

fn engine() -> Engine {
    Engine::new(EngineOptions::default())
}

fn instant(store: &dyn TestStore, query: &str, ctx: &Context) -> Result<QueryResult, QueryError> {
    engine().instant(store, query, END_MS, ctx)
}

fn nested(levels: usize, open: &str, close: &str) -> String {
    format!("{}x{}", open.repeat(levels), close.repeat(levels))
}

/// Regression: joining a label with itself forty times gave a label of a terabyte and ended the process.
#[test]
fn labels_that_double_are_refused_before_they_are_made() {
    let (store, ctx) = (few(), within(64 << 20));
    let joined = nested(40, "label_join(", ", \"a\", \"\", \"a\", \"a\")");
    let replaced = nested(
        40,
        "label_replace(",
        ", \"a\", \"$1$1$1\", \"a\", \"(.*)\")",
    );
    for query in [joined, replaced] {
        let refused = instant(&*store, &query, &ctx).unwrap_err();
        let QueryError::LabelTooLong { name, bytes, limit } = &refused else {
            panic!("{refused}");
        };
        assert_eq!((&**name, *limit), ("a", 1 << 20));
        assert!(*bytes > *limit && *bytes <= 3 * *limit);
        assert_eq!(refused.kind().as_str(), "execution");
        assert!(
            refused
                .to_string()
                .starts_with("label \"a\" would have a value of ")
        );
    }
    assert_eq!(ctx.budget.used_bytes(), 0);
    assert!(
        ctx.budget.peak_bytes() < 16 << 20,
        "{}",
        ctx.budget.peak_bytes()
    );
    let once = nested(19, "label_join(", ", \"a\", \"\", \"a\", \"a\")");
    assert!(instant(&*store, &once, &ctx).is_ok());
    // Below the limit on one label, the query's memory limit bounds several.
    let tight = within(600 << 10);
    let refused = instant(&*store, &once, &tight).unwrap_err();
    assert!(matches!(refused, QueryError::OverBudget(_)), "{refused}");
}

#[test]
fn values_that_become_labels_are_leased() {
    let mut script = String::new();
    for n in 0..2000 {
        let _ = writeln!(script, "  x{{n=\"{n}\"}} {}", f64::from(n) * 1e300);
    }
    let store = load(&script);
    let ctx = within(64 << 20);
    let end_ms = 60_000;
    let found = engine()
        .instant(&*store, "count_values(\"v\", x)", end_ms, &ctx)
        .unwrap();
    // A value of hundreds of digits for each series.
    assert!(ctx.budget.peak_bytes() > 2000 * 300);
    drop(found);
    let tight = within(500_000);
    assert!(engine().instant(&*store, "x", end_ms, &tight).is_ok());
    let refused = engine().instant(&*store, "count_values(\"v\", x)", end_ms, &tight);
    assert!(matches!(refused, Err(QueryError::OverBudget(_))));
}

/// Regression: a query gave back its memory before anybody had read its result.
#[test]
fn a_result_holds_its_memory() {
    let (store, ctx) = (few(), within(64 << 20));
    for query in [
        "x",
        "x[1h]",
        "sum(x)",
        "\"text\"",
        "label_join(x, \"b\", \"\", \"a\")",
    ] {
        let result = instant(&*store, query, &ctx).unwrap();
        assert_eq!(ctx.budget.used_bytes(), result.held.bytes(), "{query}");
        assert!(result.held.bytes() > 0, "{query}");
        drop(result);
        assert_eq!(ctx.budget.used_bytes(), 0, "{query}");
    }
    let range = engine()
        .range(&*store, "x", 0, END_MS, 60_000, &ctx)
        .unwrap();
    assert!(range.held.bytes() >= 61 * 16);
}

#[test]
fn patterns_of_one_query_share_their_memory() {
    let (store, ctx) = (few(), within(1 << 30));
    let greedy = |count: usize| -> String {
        let selectors = (0..count).map(|n| format!("x{{a=~\"\\\\pL{{200}}{n}\"}}"));
        selectors.collect::<Vec<_>>().join(" or ")
    };
    assert!(instant(&*store, &greedy(3), &ctx).is_ok());
    let refused = instant(&*store, &greedy(30), &ctx).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("memory budget of the query's regular expressions exceeded"),
        "{refused}"
    );
    assert_eq!(refused.kind().as_str(), "execution");
    // The size of a dashboard variable with thousands of values.
    let words: Vec<String> = (0..8000).map(|n| format!("host-{n:04}")).collect();
    let many = format!("x{{a!~\"{}\"}}", words.join("|"));
    assert!(many.len() > 64 << 10);
    assert!(instant(&*store, &many, &within(8 << 20)).is_ok());
}

/// Regression: each error of a text kept a copy of the text.
#[test]
fn texts_of_many_parts_are_bounded() {
    let (store, ctx) = (few(), within(64 << 20));
    let wrong = format!("{{{}}}", "a=~\"(\",".repeat(300_000));
    let error = instant(&*store, &wrong, &ctx).unwrap_err();
    assert!(
        error.to_string().contains("missing closing )"),
        "{error:.100}"
    );
    let matchers = format!("x{{{}}}", "a=\"b\",".repeat(100_001));
    let refused = instant(&*store, &matchers, &within(1 << 30)).unwrap_err();
    assert!(
        refused.to_string().contains("more than 100000 parts"),
        "{refused:.100}"
    );
    let refused = instant(&*store, &matchers, &within(16 << 20)).unwrap_err();
    assert!(matches!(refused, QueryError::OverBudget(_)), "{refused}");
}

/// Regression: absent cells and staleness markers counted as samples.
#[test]
fn samples_are_what_is_counted() {
    let engine = Engine::new(EngineOptions {
        max_samples: 10,
        ..EngineOptions::default()
    });
    let ctx = Context::unlimited();
    let found = engine
        .instant(&*few(), "count_over_time(gone[1h])", END_MS, &ctx)
        .unwrap();
    assert_eq!((found.stats.samples_read, found.stats.peak_samples), (2, 3));
    let refused = engine.instant(&*few(), "count_over_time(x[1h])", END_MS, &ctx);
    assert!(matches!(
        refused,
        Err(QueryError::TooManySamples { limit: 10 })
    ));
}

/// Queries of which some read series more than once, with the series and samples that each reads.
const COSTS: [(&str, u64, u64); 10] = [
    ("1 + 1", 0, 0),
    ("x", 1, 1),
    ("x + on() x", 2, 2),
    ("x + on() (x offset 10m)", 2, 2),
    ("x + on() max_over_time(x[10m])", 2, 11),
    ("sum(count_over_time(x[10m]))", 1, 10),
    ("max_over_time(x[10m:5m])", 1, 10),
    ("x offset 10m", 1, 1),
    ("gone", 0, 0),
    ("h", 1, 12),
];

#[test]
fn what_a_query_reads_is_estimated_and_limited() {
    let store = load(
        "  x{job=\"j\"} 1+1x60\n  gone 1 1 stale\n  h {{schema:0 sum:1 count:1 buckets:[1]}}x60\n",
    );
    let ctx = Context::unlimited();
    let engine = engine();
    for (text, series, samples) in COSTS {
        let query = Query::instant(text, END_MS);
        let estimate = engine.estimate(&*store, &query, &ctx).unwrap();
        assert_eq!(
            (estimate.series, estimate.samples),
            (series, samples),
            "{text}"
        );
        assert!(estimate.warnings.is_empty());
        let read = engine.run(&*store, &query, &ctx).unwrap().stats;
        assert_eq!(
            (read.series, read.samples_read),
            (series, samples),
            "{text}"
        );
    }
    let range = Query::range("sum(rate(x[5m]))", 0, END_MS, 60_000);
    let estimate = engine.estimate(&*store, &range, &ctx).unwrap();
    let read = engine.run(&*store, &range, &ctx).unwrap().stats;
    assert_eq!((read.series, read.samples_read), (1, 61));
    assert_eq!((estimate.series, estimate.samples), (1, 61));

    let all = Arc::new(CostLimits::default());
    let engine = engine.limited(Arc::clone(&all));
    assert!(
        engine.run(&*store, &range, &ctx).is_ok(),
        "nothing is limited"
    );
    let limits = |series, samples| ReadLimits { series, samples };
    all.set(limits(1, 61), Duration::ZERO);
    assert!(engine.run(&*store, &range, &ctx).is_ok());
    let own = engine.clone().reading_at_most(limits(0, 60));
    let refused = own.run(&*store, &range, &ctx).unwrap_err();
    assert!(matches!(
        refused,
        QueryError::TooManySamplesRead { limit: 60 }
    ));
    assert_eq!(refused.kind().as_str(), "cost_limit");
    assert_eq!(
        refused.to_string(),
        "query would read too many samples in query execution"
    );
    let refused = engine.instant(&*store, "{__name__=~\".+\"}", END_MS, &ctx);
    assert!(matches!(
        refused,
        Err(QueryError::TooManySeries { limit: 1 })
    ));
    all.set(limits(2, 0), Duration::ZERO);
    assert!(
        engine
            .instant(&*store, "{__name__=~\".+\"}", END_MS, &ctx)
            .is_ok()
    );
    assert!(
        own.run(&*store, &range, &ctx).is_err(),
        "its own limit stays"
    );
}

#[test]
fn an_estimate_says_what_it_leaves_out() {
    let (store, ctx) = (few(), Context::unlimited());
    let query = Query::instant("info(x)", END_MS);
    let estimate = engine().estimate(&*store, &query, &ctx).unwrap();
    let warning = "query cost estimate is incomplete: info() selects additional series at runtime";
    assert_eq!(estimate.warnings, [warning]);
    let bad = Query::range("x[5m]", 0, END_MS, 1000);
    let refused = engine().estimate(&*store, &bad, &ctx).unwrap_err();
    assert_eq!(refused.kind().as_str(), "bad_data");
}

#[test]
fn histograms_are_charged_for_what_they_are() {
    let buckets = "1 ".repeat(500);
    let store = load(&format!(
        "  h{{}} {{{{schema:3 count:500 sum:1 buckets:[{buckets}]}}}}x60\n"
    ));
    let ctx = within(64 << 20);
    let range = engine()
        .range(&*store, "h", 0, END_MS, 60_000, &ctx)
        .unwrap();
    assert!(range.held.bytes() > 60 * 4000, "{}", range.held.bytes());
    let refused = engine().range(&*store, "h", 0, END_MS, 60_000, &within(200_000));
    assert!(matches!(refused, Err(QueryError::OverBudget(_))));
}

#[test]
fn scalars_of_many_steps_are_leased() {
    let store = few();
    let time = nested(200, "(time() ^ ", ")").replace('x', "1");
    let query = format!("sum_over_time(vector({time})[1h:1s])");
    let refused = instant(&*store, &query, &within(4 << 20)).unwrap_err();
    assert!(matches!(refused, QueryError::OverBudget(_)), "{refused}");
}

/// Counts how often evaluating a range checks the stop; then stops it at some of those checks.
fn checks(store: &dyn Store, query: &str) -> u64 {
    let ask = |stop: Stop| {
        let ctx = Context {
            stop,
            ..Context::unlimited()
        };
        let range = engine().range(store, query, 0, END_MS, 30_000, &ctx);
        range.map(drop)
    };
    let counted = Stop::at_check(0);
    ask(counted.clone()).unwrap();
    let all = counted.checks();
    for check in [1, 2, all / 3, all / 2, all - 1, all]
        .into_iter()
        .filter(|check| *check > 0)
    {
        let stopped = ask(Stop::at_check(check));
        assert!(
            matches!(stopped, Err(QueryError::Canceled)),
            "{query} at {check} of {all}"
        );
    }
    all
}

/// Regression: a quantile over a day at every step ran for tens of seconds without checking.
#[test]
fn every_operator_asks_whether_to_stop_while_it_works() {
    let mut script = String::new();
    for n in 0..1500 {
        let _ = writeln!(script, "  x{{n=\"{n}\",le=\"{}\"}} {n}+1x60", n % 10);
        let _ = writeln!(script, "  y{{n=\"{n}\",le=\"{}\"}} {n}+1x30 _ 1x29", n % 10);
    }
    let store = load(&script);
    let cells = 1500 * 121;
    let alone = checks(&*store, "x");
    for (query, work) in [
        ("quantile_over_time(0.9, x[20m])", 8 * cells),
        ("mad_over_time(y[20m])", 18 * 8 * cells),
        ("limit_ratio(0.5, x)", 8 * cells),
        ("topk(3, x)", 8 * cells),
        ("x and y", 4 * cells),
        ("x or y", 4 * cells),
        ("x + y", cells),
        ("x + on (n, le) group_left () y", cells),
        ("histogram_quantile(0.9, x)", 8 * cells),
        ("count_values(\"v\", x)", 128 * cells),
        ("sum by (n) (x)", cells),
        ("quantile by (n) (0.9, x)", 8 * cells),
    ] {
        let (found, least) = (checks(&*store, query), work / (1 << 15));
        assert!(
            found >= alone + least * 8 / 10,
            "{query}: asked {found} times, {alone} for the series alone, {least} for the work"
        );
    }
}
