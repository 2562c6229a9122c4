//! Random writes, compared with the in-memory store after every settling.

use super::{BASE_MS, Subject, cases, dump};
use crate::{
    MemStore, cell,
    frame::Frame,
    labels::{LabelSet, METRIC_NAME},
    schema::{ColumnId, Schema},
    storage::{Binding, SeriesSample, Sink, TimeRange},
};

/// SplitMix64: small, seeded, portable.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

struct Origin {
    schema: Schema,
    counters: Vec<f64>,
    bindings: Option<(Box<dyn Binding>, Box<dyn Binding>)>,
}

pub(super) fn check(subject: &mut dyn Subject, seed: u64) {
    let mut random = Random(seed);
    let model = MemStore::new();
    let mut origins: Vec<Origin> = (0..4).map(|i| origin(i, seed == 1, &mut random)).collect();
    let mut now_ms = BASE_MS;
    for phase in 0..4 {
        for _ in 0..40 {
            now_ms += 1000 + random.below(3) as i64;
            for origin in &mut origins {
                round(origin, subject.sink(), &model, now_ms, &mut random);
            }
            append_ungrouped(subject.sink(), &model, now_ms, &mut random);
        }
        origins.iter_mut().for_each(|origin| origin.bindings = None);
        if phase % 2 == 1 {
            subject.settle();
        }
        let ranges = [
            TimeRange::ALL,
            TimeRange::new(
                BASE_MS + random.below(60_000) as i64,
                now_ms - random.below(30_000) as i64,
            ),
        ];
        for range in ranges {
            let (found, expected) = (dump(subject.store(), &[], range), dump(&model, &[], range));
            for (labels, samples) in &expected {
                assert_eq!(
                    found.get(labels),
                    Some(samples),
                    "seed {seed}, phase {phase}, {labels} in {range:?}"
                );
            }
            assert_eq!(
                found.len(),
                expected.len(),
                "seed {seed}, phase {phase}: series beyond the expected"
            );
        }
    }
}

fn origin(index: u64, wide: bool, random: &mut Random) -> Origin {
    let width = [1, 5, 40, if wide { 1100 } else { 70 }][index as usize % 4] + random.below(3);
    let names: Vec<String> = (0..width).map(|i| format!("m{}/l={i}", i % 7)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // Two of the origins have the same common set: every series of the narrower one is shared.
    let instance = ["a", "b", "b", "d"][index as usize % 4];
    let schema = cases::schema(&[("job", "random"), ("instance", instance)], &names);
    Origin {
        counters: vec![0.0; schema.len()],
        schema,
        bindings: None,
    }
}

fn round(origin: &mut Origin, sink: &dyn Sink, model: &MemStore, now_ms: i64, random: &mut Random) {
    if random.one_in(15) {
        let mut edit =
            cases::extend(&origin.schema, &[&format!("late/n={}", random.below(1000))]).edit();
        if random.one_in(2) {
            edit.retire(ColumnId(random.below(origin.schema.len() as u64) as u32));
        }
        let schema = edit.finish();
        if let Some((binding, of_model)) = &mut origin.bindings {
            binding.rebind(&schema).expect("rebound");
            of_model.rebind(&schema).expect("rebound");
        }
        origin.counters.resize(schema.len(), 0.0);
        origin.schema = schema;
    }
    let (binding, of_model) = origin.bindings.get_or_insert_with(|| {
        (
            sink.bind(&origin.schema).expect("a binding"),
            model.bind(&origin.schema).expect("a binding"),
        )
    });
    let mut frame = Frame::new(origin.schema.clone(), now_ms);
    for (at, counter) in (0u32..).zip(&mut origin.counters) {
        let column = ColumnId(at);
        if origin.schema.is_retired(column) || random.one_in(20) {
            continue;
        }
        *counter += match at % 4 {
            0 => random.below(16) as f64,
            1 => 0.0,
            2 => random.below(1000) as f64 / 1000.0 - 0.5,
            _ => f64::from_bits(0x3fe0_0000_0000_0000 | (random.next() >> 12)) - 0.5,
        };
        match random.below(400) {
            0 => *counter = 0.0,
            1 => frame.mark_stale(column),
            2 => frame.set_histogram(column, cases::exponential(random.below(9) as f64)),
            3 => frame.set(column, f64::NAN),
            _ => frame.set(column, *counter),
        }
        if at % 50 == 7 && frame.present().contains(column.index()) {
            frame.set_time(column, now_ms - random.below(5000) as i64);
        }
    }
    let expected = of_model.append(&frame).expect("appended to the model");
    let outcome = binding.append(&frame).expect("appended");
    assert_eq!(
        (outcome.accepted, outcome.duplicate),
        (expected.accepted, expected.duplicate),
        "at {now_ms}"
    );
}

fn append_ungrouped(sink: &dyn Sink, model: &MemStore, now_ms: i64, random: &mut Random) {
    let samples: Vec<SeriesSample> = (0..random.below(6))
        .map(|_| {
            let series = random.below(5).to_string();
            let labels = LabelSet::new([(METRIC_NAME, "loose"), ("i", series.as_str())]);
            let time_ms = now_ms - random.below(20_000) as i64;
            let value = if random.one_in(30) {
                cell::STALE
            } else {
                random.below(100) as f64
            };
            SeriesSample::float(labels, time_ms, value)
        })
        .collect();
    let expected = model
        .append_samples(&samples)
        .expect("appended to the model");
    let outcome = sink.append_samples(&samples).expect("appended");
    assert_eq!(
        (outcome.accepted, outcome.duplicate),
        (expected.accepted, expected.duplicate),
        "at {now_ms}"
    );
}
