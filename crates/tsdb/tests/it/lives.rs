//! Series that come and go have the same answers as in the model, whether they are in the head, in blocks or in both.
//!
//! What reads them takes shortcuts that depend on when they lived: tiles that end with staleness markers, rows no longer
//! than a life, strips that an instant query leaves out because they are known to have ended.

use crate::support::options;
use narthex_model::{
    ColumnId, Frame, LabelSet, METRIC_NAME, MemStore, Schema,
    cell::STALE,
    conformance::BASE_MS,
    metadata::Family,
    storage::{Binding, Context, SeriesSample, Sink, Store},
};
use narthex_promql::{Engine, EngineOptions, Value};
use narthex_testkit::rng::SplitMix64;
use narthex_tsdb::{Db, FaultyIo, ManualClock};
use std::{collections::BTreeMap, sync::Arc};

const STEP_MS: i64 = 5000;
const ROUNDS: i64 = 50;
const ORIGINS: u64 = 14;
const LANES: [&str; 3] = ["a", "b", "c"];
/// Sums are over integers, so that they do not depend on the order of what is added.
const QUERIES: [&str; 16] = [
    "x",
    "count(x)",
    "sum by (job) (x)",
    "avg by (lane) (x)",
    "x offset 13s",
    "x - x offset 20s",
    "sum(x) - sum(x offset 20s)",
    "timestamp(x)",
    "absent(x{pod='pod-3'})",
    "rate(x[30s])",
    "min by (job) (increase(x[25s]))",
    "max by (lane) (max_over_time(x[20s]))",
    "count_over_time(x[35s])",
    "count(rate(x[11s]))",
    "last_over_time(x[8s]) + x",
    "max(sum_over_time((x > 20)[30s:7s]))",
];

/// Results by labels: times and bits.
type Answer = BTreeMap<String, Vec<(i64, u64)>>;

struct Origin {
    labels: LabelSet,
    schema: Schema,
    binding: Option<Box<dyn Binding>>,
    value: f64,
    offset_ms: i64,
}

impl Origin {
    fn new(at: u64, random: &mut SplitMix64) -> Self {
        let (pod, job) = (format!("pod-{at}"), format!("job-{}", at % 3));
        let labels = LabelSet::new([("job", job.as_str()), ("pod", pod.as_str())]);
        let mut edit = Schema::new(labels.clone()).edit();
        for lane in LANES {
            let family = edit.family(Family {
                name: "x".into(),
                ..Family::default()
            });
            edit.push(&LabelSet::new([(METRIC_NAME, "x"), ("lane", lane)]), family);
        }
        Self {
            labels,
            schema: edit.finish(),
            binding: None,
            value: 0.0,
            offset_ms: random.below(4000) as i64,
        }
    }

    /// Writes a row into both stores: the same lanes absent, stale or with a value.
    fn write(&mut self, db: &Db, model: &MemStore, time_ms: i64, cells: [Option<f64>; 3]) {
        let mut frame = Frame::new(self.schema.clone(), time_ms);
        for ((column, lane), cell) in (0u32..).zip(LANES).zip(cells) {
            let Some(cell) = cell else { continue };
            if cell.to_bits() == STALE.to_bits() {
                frame.mark_stale(ColumnId(column));
            } else {
                frame.set(ColumnId(column), cell);
            }
            let labels = self.labels.with(METRIC_NAME, "x").with("lane", lane);
            let sample = SeriesSample::float(labels, time_ms, cell);
            model.append_samples(&[sample]).expect("stored");
        }
        let binding = self
            .binding
            .get_or_insert_with(|| db.bind(&self.schema).expect("a binding"));
        binding.append(&frame).expect("appended");
    }

    fn round(&mut self, db: &Db, model: &MemStore, time_ms: i64, random: &mut SplitMix64) {
        if self.binding.is_some() && random.one_in(9) {
            if !random.one_in(4) {
                // All end together, or all but one.
                let mut cells = [Some(STALE); 3];
                if random.one_in(5) {
                    cells[random.index(3)] = None;
                }
                self.write(db, model, time_ms, cells);
            }
            self.binding = None;
            return;
        }
        if self.binding.is_none() && !random.one_in(6) {
            return;
        }
        self.value += random.below(9) as f64;
        if random.one_in(12) {
            self.value = 0.0;
        }
        let mut cells = [0.0, 1.0, 2.0].map(|lane| Some(self.value + lane));
        if random.one_in(10) {
            cells[random.index(3)] = None;
        }
        self.write(db, model, time_ms, cells);
        if random.one_in(30) {
            // Between two rounds of the past.
            let late_ms = time_ms - 2 * STEP_MS - 1;
            self.write(db, model, late_ms, [Some(7.0), None, None]);
        }
    }
}

fn engine() -> Engine {
    Engine::new(EngineOptions {
        lookback_delta_ms: 40_000,
        ..EngineOptions::default()
    })
}

fn instant(store: &dyn Store, query: &str, time_ms: i64) -> Answer {
    let result = engine().instant(store, query, time_ms, &Context::unlimited());
    let Value::Vector(samples) = result.expect(query).value else {
        panic!("{query} is no vector");
    };
    let value = |value| match value {
        narthex_promql::SampleValue::Float(x) => (time_ms, f64::to_bits(x)),
        other => panic!("{other:?}"),
    };
    let one = |s: narthex_promql::VectorSample| (s.labels.to_string(), vec![value(s.value)]);
    samples.into_iter().map(one).collect()
}

fn range(store: &dyn Store, query: &str, from_ms: i64, to_ms: i64, step_ms: i64) -> Answer {
    let ctx = Context::unlimited();
    let result = engine().range(store, query, from_ms, to_ms, step_ms, &ctx);
    let Value::Matrix(all) = result.expect(query).value else {
        panic!("{query} is no matrix");
    };
    let one = |series: narthex_promql::MatrixSeries| {
        let floats = series.floats.iter().map(|(t, x)| (*t, x.to_bits()));
        (series.labels.to_string(), floats.collect())
    };
    all.into_iter().map(one).collect()
}

/// Compares the database's answers with the model's; returns the number of points.
fn compare(db: &Db, model: &MemStore, context: &str) -> usize {
    let (from_ms, to_ms, step_ms) = (BASE_MS + 20_000, BASE_MS + ROUNDS * STEP_MS, 7000);
    let mut points = 0;
    for query in QUERIES {
        let expected = range(model, query, from_ms, to_ms, step_ms);
        let found = range(db, query, from_ms, to_ms, step_ms);
        assert_eq!(found, expected, "{context}, {query}");
        let mut by_step: BTreeMap<i64, Answer> = BTreeMap::new();
        for (labels, all) in expected {
            for point in all {
                let at = by_step.entry(point.0).or_default();
                at.insert(labels.clone(), vec![point]);
                points += 1;
            }
        }
        let steps = (from_ms..=to_ms).step_by(step_ms as usize);
        for time_ms in steps.step_by(3) {
            let expected = by_step.remove(&time_ms).unwrap_or_default();
            // The second query may know what has ended from the first.
            for run in 0..2 {
                let found = instant(db, query, time_ms);
                assert_eq!(found, expected, "{context}, {query} at {time_ms}, {run}");
            }
            assert_eq!(instant(model, query, time_ms), expected);
        }
    }
    points
}

#[test]
fn series_that_come_and_go_are_as_in_the_model() {
    let mut points = 0;
    for seed in 1..=6 {
        let mut random = SplitMix64::new(seed);
        let clock = ManualClock::new(BASE_MS);
        let io = Arc::new(FaultyIo::new());
        let db = Db::open(io, options(), Arc::new(clock.clone())).expect("a database");
        let model = MemStore::new();
        let mut origins: Vec<Origin> = (0..ORIGINS)
            .map(|at| Origin::new(at, &mut random))
            .collect();
        for round in 1..=ROUNDS {
            let now_ms = BASE_MS + round * STEP_MS;
            clock.set(now_ms);
            for origin in &mut origins {
                let time_ms = now_ms - STEP_MS + origin.offset_ms;
                origin.round(&db, &model, time_ms, &mut random);
            }
            db.maintain(now_ms).expect("maintained");
            if random.one_in(12) {
                db.flush().expect("flushed");
            }
        }
        points += compare(&db, &model, &format!("seed {seed}"));
        db.flush().expect("flushed");
        points += compare(&db, &model, &format!("seed {seed}, flushed"));
    }
    assert!(points > 20_000, "{points}");
}
