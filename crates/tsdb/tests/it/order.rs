//! The order of results, the choice among equal values and the last digits of sums stay as they are, wherever samples are:
//! in the head, in blocks, merged, or replayed after a restart.

use crate::support::options;
use narthex_model::{
    ColumnId, Frame, LabelSet, METRIC_NAME, Schema,
    conformance::BASE_MS,
    metadata::Family,
    storage::{Binding, Context, Sink},
};
use narthex_promql::{Engine, EngineOptions, Value};
use narthex_testkit::rng::SplitMix64;
use narthex_tsdb::{Db, FaultyIo, ManualClock};
use std::sync::Arc;

const STEP_MS: i64 = 5000;
const ROUNDS: i64 = 60;
const LANES: [&str; 3] = ["c", "a", "b"];
const QUERIES: [&str; 10] = [
    "x",
    "rate(x[40s])",
    "sum(x)",
    "avg by (job) (x)",
    "stddev(x)",
    "sum by (lane) (rate(x[40s]))",
    "topk(3, tied)",
    "bottomk by (job) (2, tied)",
    "limitk(4, x)",
    "sum(-x) + sum(x * 1e-7)",
];

struct Origin {
    schema: Schema,
    binding: Option<Box<dyn Binding>>,
}

impl Origin {
    fn new(at: usize) -> Self {
        // Neither the names nor the order of columns is that of labels.
        let (pod, job) = (format!("pod-{}", (at * 7) % 11), format!("job-{}", at % 2));
        let labels = LabelSet::new([("job", job.as_str()), ("pod", pod.as_str())]);
        let mut edit = Schema::new(labels).edit();
        for metric in ["x", "tied"] {
            for lane in LANES {
                let family = edit.family(Family {
                    name: metric.into(),
                    ..Family::default()
                });
                let labels = LabelSet::new([(METRIC_NAME, metric), ("lane", lane)]);
                edit.push(&labels, family);
            }
        }
        Self {
            schema: edit.finish(),
            binding: None,
        }
    }

    fn write(&mut self, db: &Db, time_ms: i64, random: &mut SplitMix64) {
        let mut frame = Frame::new(self.schema.clone(), time_ms);
        for column in 0..LANES.len() as u32 {
            let scale = random.pick(&[1.0, 1e6, 1e-6]);
            frame.set(ColumnId(column), (random.unit_f64() - 0.3) * scale);
            let tied = ColumnId(column + LANES.len() as u32);
            frame.set(tied, random.below(2) as f64);
        }
        let bind = || db.bind(&self.schema).expect("a binding");
        let binding = self.binding.get_or_insert_with(bind);
        binding.append(&frame).expect("appended");
    }
}

/// Returns all answers at one time as text, to the bit.
fn answers(db: &Db, time_ms: i64) -> Vec<String> {
    let engine = Engine::new(EngineOptions {
        lookback_delta_ms: 40_000,
        ..EngineOptions::default()
    });
    let ask = |query: &&str| {
        let result = engine.instant(db, query, time_ms, &Context::unlimited());
        let Value::Vector(samples) = result.expect(query).value else {
            panic!("{query} is no vector");
        };
        let line = |sample: &narthex_promql::VectorSample| match sample.value {
            narthex_promql::SampleValue::Float(x) => {
                format!("{} {:x}\n", sample.labels, x.to_bits())
            }
            ref other => panic!("{other:?}"),
        };
        let lines: String = samples.iter().map(line).collect();
        format!("{query}\n{lines}")
    };
    QUERIES.iter().map(ask).collect()
}

#[test]
fn answers_do_not_depend_on_where_samples_are() {
    let (mut compared, mut reopened, mut flushed) = (0, 0, 0);
    for seed in 1..=8 {
        let mut random = SplitMix64::new(seed);
        let clock = ManualClock::new(BASE_MS);
        let io = FaultyIo::new();
        let open = || {
            let clock = Arc::new(clock.clone());
            Db::open(Arc::new(io.clone()), options(), clock).expect("a database")
        };
        let mut db = open();
        let mut origins: Vec<Origin> = (0..11).map(Origin::new).collect();
        let mut known: Vec<(i64, Vec<String>)> = Vec::new();
        for round in 1..=ROUNDS {
            let now_ms = BASE_MS + round * STEP_MS;
            clock.set(now_ms);
            for origin in &mut origins {
                if !random.one_in(15) {
                    origin.write(&db, now_ms, &mut random);
                }
            }
            if random.one_in(6) {
                known.push((now_ms, answers(&db, now_ms)));
            }
            let action = match random.below(12) {
                0 => {
                    db.flush().expect("flushed");
                    flushed += 1;
                    "flush"
                }
                1 | 2 => {
                    db.maintain(now_ms).expect("maintained");
                    "maintenance"
                }
                3 => {
                    origins.iter_mut().for_each(|origin| origin.binding = None);
                    db.close().expect("closed");
                    drop(db);
                    db = open();
                    random.shuffle(&mut origins);
                    reopened += 1;
                    "restart"
                }
                _ => continue,
            };
            for (time_ms, expected) in &known {
                let found = answers(&db, *time_ms);
                for (found, expected) in found.iter().zip(expected) {
                    assert_eq!(found, expected, "seed {seed}, {action} in round {round}");
                    compared += 1;
                }
            }
        }
    }
    assert!(
        compared > 5000 && reopened > 10 && flushed > 10,
        "{compared} {reopened} {flushed}"
    );
}
