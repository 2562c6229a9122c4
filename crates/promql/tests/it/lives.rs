//! A range query over series that come and go has at every step what an instant query has there, to the bit.

use narthex_model::{
    MemStore,
    storage::{Context, Helpers},
};
use narthex_promql::{Engine, EngineOptions, SampleValue, Value, testing};
use narthex_testkit::rng::SplitMix64;
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::atomic::{AtomicUsize, Ordering},
};

const QUERIES: [&str; 18] = [
    "x",
    "sum(x)",
    "sum by (job) (rate(x[2m]))",
    "avg without (pod) (x)",
    "stddev(increase(x[1m]))",
    "quantile(0.3, x)",
    "max by (lane) (max_over_time(x[90s]))",
    "group by (pod) (delta(x[70s]))",
    "count(x > 30)",
    "sum(timestamp(x))",
    "topk(3, x)",
    "avg(avg_over_time(x[50s]))",
    "sum by (job) (last_over_time(x[30s]))",
    "sum(x) / count(x)",
    "-x offset 20s",
    "absent(x{pod='p1'})",
    "sum by (pod) (irate(x[45s]))",
    "max_over_time(sum(x)[1m:13s])",
];

pub(crate) const PODS: usize = 12;

/// Writes three series for each pod that begin, end with a staleness marker or without, pause and come back.
pub(crate) fn script(random: &mut SplitMix64, pods: usize) -> String {
    let mut text = String::new();
    for pod in 0..pods {
        let step = random.pick(&["10s", "15s", "7s"]);
        writeln!(text, "\nload {step}").unwrap();
        let mut alive = random.one_in(2);
        let mut rows = Vec::new();
        for _ in 0..60 {
            let row = match (alive, random.below(12)) {
                (true, 0) => "stale",
                (true, 1) => "_",
                (false, 0..10) => "_",
                _ => "1",
            };
            alive = if alive { row != "stale" } else { row == "1" };
            rows.push(row);
        }
        for lane in 0..3 {
            write!(
                text,
                "  x{{job=\"j{}\", pod=\"p{pod}\", lane=\"{lane}\"}}",
                pod % 2
            )
            .unwrap();
            let mut value = 0.0;
            for row in &rows {
                value += random.unit_f64() * 9.0;
                match *row {
                    "1" if random.one_in(40) => text.push_str(" _"),
                    "1" => write!(text, " {value}").unwrap(),
                    other => write!(text, " {other}").unwrap(),
                }
            }
            text.push('\n');
        }
    }
    text
}

#[test]
fn ranges_are_instants_one_after_the_other() {
    let engine = Engine::new(EngineOptions {
        lookback_delta_ms: 40_000,
        ..EngineOptions::default()
    });
    let ctx = Context::unlimited();
    let mut points = 0;
    for seed in 1..=8 {
        let script = script(&mut SplitMix64::new(seed), PODS);
        let store = testing::load(&script, Box::new(MemStore::new())).unwrap();
        for query in QUERIES {
            let result = engine.range(&*store, query, 30_000, 620_000, 11_000, &ctx);
            let Value::Matrix(all) = result.unwrap().value else {
                panic!("{query} is no matrix");
            };
            let mut found: BTreeMap<i64, BTreeMap<String, u64>> = BTreeMap::new();
            for series in all {
                for (time_ms, x) in &series.floats {
                    let at = found.entry(*time_ms).or_default();
                    at.insert(series.labels.to_string(), x.to_bits());
                    points += 1;
                }
            }
            for time_ms in (30_000..=620_000).step_by(11_000) {
                let result = engine.instant(&*store, query, time_ms, &ctx);
                let Value::Vector(samples) = result.unwrap().value else {
                    panic!("{query} is no vector");
                };
                let expected = samples.iter().map(|sample| match sample.value {
                    SampleValue::Float(x) => (sample.labels.to_string(), x.to_bits()),
                    ref other => panic!("{other:?}"),
                });
                let expected: BTreeMap<String, u64> = expected.collect();
                let found = found.remove(&time_ms).unwrap_or_default();
                assert_eq!(found, expected, "seed {seed}, {query} at {time_ms}");
            }
        }
    }
    assert!(points > 30_000, "{points}");
}

static HELPED: AtomicUsize = AtomicUsize::new(0);

#[test]
fn helpers_change_nothing() {
    let helpers = Helpers::new(3, || {
        HELPED.fetch_add(1, Ordering::Relaxed);
    });
    let alone = Engine::new(EngineOptions::default());
    let helped = alone.clone().with_helpers(helpers.at_once());
    let ctx = Context::unlimited();
    for seed in 1..=8 {
        // More than a thread reads at once.
        let script = script(&mut SplitMix64::new(seed), 48);
        let store = testing::load(&script, Box::new(MemStore::new())).unwrap();
        // These make notes, some of which say how often they were made.
        let noted = [
            "rate(x[2m])",
            "quantile_over_time(2, x[1m])",
            "sum(x smoothed)",
        ];
        for query in QUERIES.iter().chain(&noted) {
            let ask = |engine: &Engine| {
                let result = engine.range(&*store, query, 30_000, 620_000, 11_000, &ctx);
                let result = result.unwrap();
                (testing::bits(&result), result.stats.samples_read)
            };
            assert_eq!(ask(&helped), ask(&alone), "seed {seed}, {query}");
        }
    }
    let helped = HELPED.load(Ordering::Relaxed);
    assert!(helped > 100, "{helped} threads helped");
}

#[test]
fn one_batch_of_many_series_is_read_together() {
    static HELPED: AtomicUsize = AtomicUsize::new(0);
    let mut script = "\nload 10s\n".to_owned();
    for lane in 0..3000 {
        writeln!(script, "  x{{lane=\"{lane}\"}} {lane}+{lane}x60").unwrap();
    }
    let store = testing::load(&script, Box::new(MemStore::new())).unwrap();
    let helpers = Helpers::new(1, || {
        HELPED.fetch_add(1, Ordering::Relaxed);
    });
    let alone = Engine::new(EngineOptions::default());
    let helped = alone.clone().with_helpers(helpers.at_once());
    let ask = |engine: &Engine| {
        let ctx = Context::unlimited();
        let result = engine.range(&*store, "sum(rate(x[1m]))", 60_000, 600_000, 10_000, &ctx);
        testing::bits(&result.unwrap())
    };
    assert_eq!(ask(&helped), ask(&alone));
    assert_eq!(HELPED.load(Ordering::Relaxed), 1);
}

/// Batches are small and many, and one is too large to be read at once.
#[test]
fn an_instant_of_many_batches_is_read_together() {
    static HELPED: AtomicUsize = AtomicUsize::new(0);
    let mut random = SplitMix64::new(3);
    let mut script = String::new();
    for pod in 0..400 {
        writeln!(script, "\nload {}ms", 10_000 + pod).unwrap();
        for lane in 0..=random.below(3) {
            let value = random.unit_f64() * 1e3;
            let last = random.pick(&["stale", "_", "1"]);
            writeln!(
                script,
                "  x{{pod=\"{pod}\", lane=\"{lane}\"}} {value}x5 {last}"
            )
            .unwrap();
        }
    }
    script.push_str("\nload 10s\n");
    for lane in 0..9000 {
        writeln!(script, "  x{{lane=\"{lane}\"}} {}x6", random.unit_f64()).unwrap();
    }
    let store = testing::load(&script, Box::new(MemStore::new())).unwrap();
    let helpers = Helpers::new(1, || {
        HELPED.fetch_add(1, Ordering::Relaxed);
    });
    let alone = Engine::new(EngineOptions::default());
    let helped = alone.clone().with_helpers(helpers.at_once());
    let queries = [
        "x",
        "sum(x)",
        "avg by (lane) (x)",
        "topk(3, x)",
        "timestamp(x)",
    ];
    for query in queries {
        let ask = |engine: &Engine| {
            let result = engine.instant(&*store, query, 60_500, &Context::unlimited());
            let result = result.unwrap();
            (testing::bits(&result), result.stats.samples_read)
        };
        let found = ask(&alone);
        assert!(found.1 > 9400, "{query}: {} samples", found.1);
        assert_eq!(ask(&helped), found, "{query}");
    }
    assert_eq!(HELPED.load(Ordering::Relaxed), queries.len());
}
