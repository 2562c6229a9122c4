//! An expression that a query has several times is evaluated once, and nothing else changes.

use crate::lives;
use narthex_model::{MemStore, storage::Context};
use narthex_promql::{Engine, EngineOptions, Query, QueryError, QueryResult, testing};
use narthex_testkit::rng::SplitMix64;

/// Each with how many of its samples are read when equal expressions are read once: one in so many.
const QUERIES: [(&str, u64); 12] = [
    ("x / x", 2),
    ("sum(x) / count(x)", 2),
    ("delta(x[2m]) / (delta ( x[120s] ))", 2),
    (
        "sum by (job) (irate(x[2m])) / sum by (job) (irate(x[2m])) > 0",
        2,
    ),
    ("x - x + x * x", 4),
    (
        "max_over_time(sum(x)[1m:13s]) - min_over_time(sum(x)[1m:13s])",
        2,
    ),
    ("(sum(x) / count(x)) > bool (sum(x) / count(x))", 4),
    ("topk(3, x) or topk(3, x)", 2),
    ("quantile(0.1, -x) + quantile(0.9, -x)", 2),
    ("x / x offset 20s", 1),
    ("irate(x[2m]) / idelta(x[2m])", 1),
    // Its notes name both places, so both are evaluated.
    (
        "quantile_over_time(2, x[1m]) - quantile_over_time(2, x[1m])",
        1,
    ),
];

/// Evaluates with and without keeping repeated expressions; also returns how many samples were read.
fn ask(
    engine: &Engine,
    script: &str,
    query: Query<'_>,
) -> [Result<(QueryResult, u64), QueryError>; 2] {
    let store = testing::load(script, Box::new(MemStore::new())).unwrap();
    let clock = || 0;
    // Counting by step evaluates everything each time.
    [false, true].map(|count_steps| {
        let query = Query {
            count_steps,
            clock: Some(&clock),
            ..query
        };
        let result = engine.run(&*store, &query, &Context::unlimited())?;
        let trace = result.trace.as_ref().unwrap();
        let samples = trace.nodes.iter().map(|node| node.samples).sum();
        Ok((result, samples))
    })
}

#[test]
fn equal_expressions_are_read_once() {
    let engine = Engine::new(EngineOptions::default());
    for seed in 1..=4 {
        let script = lives::script(&mut SplitMix64::new(seed), lives::PODS);
        for (text, one_in) in QUERIES {
            for step_ms in [0, 11_000] {
                let query = Query::range(text, 300_000, 300_000 + 30 * step_ms, step_ms);
                let [once, each] = ask(&engine, &script, query).map(Result::unwrap);
                let at = format!("seed {seed}, {text}, step {step_ms}");
                assert_eq!(once.1 * one_in, each.1, "{at}");
                assert!(each.1 > 0, "{at}");
                assert_eq!(testing::bits(&once.0), testing::bits(&each.0), "{at}");
                let (once, each) = (once.0.stats, each.0.stats);
                assert_eq!(once.samples_read, each.samples_read, "{at}");
                assert_eq!(once.series, each.series, "{at}");
            }
        }
    }
}

#[test]
fn kept_values_count_towards_the_limit_where_they_are_used() {
    // 100 series; both operands are held at once, and their result beside them.
    let mut script = "\nload 10s\n".to_owned();
    for lane in 0..100 {
        script += &format!("  x{{lane=\"{lane}\"}} {lane}+1x60\n");
    }
    for (max_samples, fits) in [(299, false), (300, true)] {
        let engine = Engine::new(EngineOptions {
            max_samples,
            ..EngineOptions::default()
        });
        let outcomes = ask(&engine, &script, Query::instant("x + x", 300_000));
        for outcome in outcomes {
            assert_eq!(outcome.is_ok(), fits, "{max_samples}");
        }
    }
}

#[test]
fn what_is_too_large_to_keep_is_evaluated_again() {
    let mut script = "\nload 10s\n".to_owned();
    for lane in 0..1000 {
        script += &format!("  x{{lane=\"{lane}\"}} {lane}+1x60\n");
    }
    let engine = Engine::new(EngineOptions::default());
    // 1,000 series of 10,001 steps are 80 MB.
    let query = Query::range("sum(-x) / count(-x)", 0, 100_010, 10);
    let [once, each] = ask(&engine, &script, query).map(Result::unwrap);
    assert_eq!(once.1, each.1);
    assert_eq!(testing::bits(&once.0), testing::bits(&each.0));
    let query = Query::range("sum(-x) / count(-x)", 0, 10_010, 10);
    let [once, each] = ask(&engine, &script, query).map(Result::unwrap);
    assert_eq!(once.1 * 2, each.1);
    assert_eq!(testing::bits(&once.0), testing::bits(&each.0));
}
