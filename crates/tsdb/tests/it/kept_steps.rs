//! Steps of range queries that are kept are those that would be evaluated, to the bit and in their order, whatever is
//! stored, stored late or removed in between.

use crate::support::options;
use narthex_model::{
    ColumnId, Frame, LabelSet, METRIC_NAME, Schema,
    conformance::BASE_MS,
    metadata::Family,
    storage::{Binding, Budget, Context, SeriesSample, Sink},
};
use narthex_promql::{Engine, EngineOptions, KeptSteps, QueryError, QueryResult, Value, testing};
use narthex_testkit::{rng::SplitMix64, scaled};
use narthex_tsdb::{Db, DbOptions, FaultyIo, ManualClock, Tuning};
use std::sync::Arc;

const QUERIES: [&str; 18] = [
    "x",
    "sum(x)",
    "sum by (job) (rate(x[1m]))",
    "stddev(increase(x[1m]))",
    "quantile(0.3, x)",
    "max by (lane) (max_over_time(x[90s]))",
    "count(x > 30)",
    "sum(timestamp(x))",
    "topk(3, x)",
    "x offset 20s",
    "absent(x{pod='p1'})",
    "max_over_time(sum(x)[1m:13s])",
    "sum(x) + time()",
    "x offset -30s",
    "sum(x @ end())",
    // Has notes.
    "rate(x[1m])",
    // An error when both were there at any of the steps.
    "delta({__name__=~'x|y'}[1m])",
    "max_over_time((x or y)[1m:10s])",
];
const STEP_MS: i64 = 5000;

/// A source with some series, which may lag behind.
struct Pod {
    schema: Schema,
    binding: Option<Box<dyn Binding>>,
    values: [f64; 3],
    next_ms: i64,
}

impl Pod {
    fn new(at: usize, next_ms: i64) -> Self {
        let (job, pod) = (format!("j{}", at % 2), format!("p{at}"));
        let schema = Schema::new(LabelSet::new([("job", &*job), ("pod", &*pod)]));
        let mut edit = schema.edit();
        let family = edit.family(Family::default());
        for (name, lane) in [("x", "0"), ("x", "1"), ("y", "0")] {
            edit.push(
                &LabelSet::new([(METRIC_NAME, name), ("lane", lane)]),
                family,
            );
        }
        Self {
            schema: edit.finish(),
            binding: None,
            values: [0.0; 3],
            next_ms,
        }
    }

    /// Appends what is due, all of it or some.
    fn append(&mut self, db: &Db, now_ms: i64, random: &mut SplitMix64) {
        while self.next_ms <= now_ms && !random.one_in(6) {
            let mut frame = Frame::new(self.schema.clone(), self.next_ms);
            for (lane, value) in self.values.iter_mut().enumerate() {
                let column = ColumnId(lane as u32);
                *value += random.unit_f64() * 9.0;
                match random.below(40) {
                    0 => frame.mark_stale(column),
                    1 => {}
                    2 => *value = 0.0,
                    _ => frame.set(column, *value),
                }
            }
            let binding = self
                .binding
                .get_or_insert_with(|| db.bind(&self.schema).expect("bound"));
            binding.append(&frame).expect("stored");
            self.next_ms += STEP_MS;
        }
    }
}

/// Returns a result to the bit, in its order.
fn bits(result: &Result<QueryResult, QueryError>) -> String {
    match result {
        Ok(result) => {
            let is_matrix = matches!(result.value, Value::Matrix(_));
            assert!(is_matrix, "{:?} is no matrix", result.value);
            testing::bits(result)
        }
        Err(error) => error.to_string(),
    }
}

fn open(disk: &FaultyIo, options: &DbOptions) -> Db {
    let clock = Arc::new(ManualClock::new(BASE_MS));
    Db::open(Arc::new(disk.clone()), options.clone(), clock).expect("a database")
}

/// Adds a source, stores a late sample, or moves rows into blocks; mostly nothing.
fn disturb(db: &Db, pods: &mut Vec<Pod>, now_ms: i64, random: &mut SplitMix64) {
    match random.below(12) {
        0 if pods.len() < 9 => pods.push(Pod::new(pods.len(), now_ms)),
        1 => {
            let late_ms = now_ms - random.below(400_000) as i64;
            let pod = format!("p{}", random.below(10));
            let labels = [
                (METRIC_NAME, "x"),
                ("job", "j0"),
                ("pod", &pod),
                ("lane", "0"),
            ];
            let sample = SeriesSample::float(LabelSet::new(labels), late_ms, 77.0);
            db.append_samples(&[sample]).expect("stored");
        }
        2 => db.flush().expect("flushed"),
        3 => db.maintain(now_ms).expect("maintained"),
        _ => {}
    }
}

#[test]
fn kept_steps_are_those_that_would_be_evaluated() {
    let (mut reused, mut removed) = (0, 0);
    for seed in 0..scaled(6) {
        let mut random = SplitMix64::new(seed);
        let options = DbOptions {
            tuning: Tuning {
                future_limit_ms: None,
                retention_bytes: Some(30_000),
                ..Tuning::default()
            },
            flush_rows: 10 + random.index(30),
            block_window_ms: 300_000,
            ..options()
        };
        let disk = FaultyIo::new();
        let db = open(&disk, &options);
        let budget = Budget::new("test", 1 << 30);
        let fresh = Engine::new(EngineOptions {
            lookback_delta_ms: 40_000,
            ..EngineOptions::default()
        });
        let keeping = fresh
            .clone()
            .keeping(Some(Arc::new(KeptSteps::new(&budget, 1 << 20))));
        let mut pods: Vec<Pod> = (0..4).map(|at| Pod::new(at, BASE_MS)).collect();
        for round in 0..250 {
            let now_ms = BASE_MS + round * STEP_MS;
            for pod in &mut pods {
                pod.append(&db, now_ms, &mut random);
            }
            disturb(&db, &mut pods, now_ms, &mut random);
            let oldest = db.block_metas().iter().map(|meta| meta.min_time_ms).min();
            if random.one_in(3) {
                db.maintain(now_ms).expect("maintained");
                let left = db.block_metas().iter().map(|meta| meta.min_time_ms).min();
                removed += u32::from(left > oldest && oldest.is_some());
            }
            for _ in 0..4 {
                let query = *random.pick(&QUERIES);
                let step_ms = *random.pick(&[10_000, 15_000]);
                // Panels draw up to now, a little less or more, aligned to their steps.
                let end_ms =
                    (now_ms + random.below(3) as i64 * 20_000 - 20_000) / step_ms * step_ms;
                let length_ms = *random.pick(&[150_000, 600_000]);
                let ask = |engine: &Engine| {
                    let ctx = Context::unlimited();
                    engine.range(&db, query, end_ms - length_ms, end_ms, step_ms, &ctx)
                };
                let (found, expected) = (ask(&keeping), ask(&fresh));
                let what = format!("seed {seed} round {round}: {query} every {step_ms}");
                assert_eq!(bits(&found), bits(&expected), "{what}");
                reused += found.map_or(0, |found| found.stats.reused_steps);
            }
        }
        drop(keeping);
        assert_eq!(budget.used_bytes(), 0, "everything is given back");
    }
    println!("{reused} steps were reused, blocks removed {removed} times");
    assert!(reused > 10_000 && removed > 3, "{reused}, {removed}");
}
