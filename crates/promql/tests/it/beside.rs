//! Generated queries over generated series, answered here and by Prometheus' engine: the same results to the bit.
//!
//! `NARTHEX_TEST_SCALE` multiplies the number of queries. What may differ is left out of the questions, or by
//! `Answer::compared`, and is in docs/conformance.md.

use crate::{
    oracle::{Beside, Question},
    questions::{Questions, STEP_MS, STEPS, series},
};
use narthex_promql::{Engine, EngineOptions};
use narthex_testkit::{rng::SplitMix64, scaled};

/// Queries about one set of series.
const OF_ONE: u64 = 1_000;

fn question(rng: &mut SplitMix64) -> Question {
    let depth = 1 + u32::try_from(rng.below(3)).unwrap();
    let text = Questions { rng }.vector(depth);
    let start_ms = rng.below(STEPS as u64 * STEP_MS as u64) as i64;
    let step_ms = *rng.pick(&[0, 0, 15_000, 30_000, 47_000, 300_000]);
    Question {
        text,
        start_ms,
        end_ms: start_ms + step_ms * rng.below(40) as i64,
        step_ms,
    }
}

/// Asks `count` queries with each set of options; fails with all that differ.
fn compare(options: EngineOptions, seed: u64, count: u64) {
    let (mut wrong, mut filled, mut noted) = (Vec::new(), 0, 0);
    for part in 0..count.div_ceil(OF_ONE) {
        let mut rng = SplitMix64::new(seed + part);
        let mut beside = Beside::new(&series(&mut rng), Engine::new(options));
        for _ in 0..count.min(OF_ONE) {
            let question = question(&mut rng);
            let (theirs, difference) = beside.compare(&question);
            filled += u64::from(
                theirs
                    .as_ref()
                    .is_ok_and(|answer| !answer.series.is_empty()),
            );
            noted += u64::from(theirs.as_ref().is_ok_and(|answer| answer.has_notes()));
            if let Some(text) = difference {
                let Question {
                    text: query,
                    start_ms,
                    end_ms,
                    step_ms,
                } = &question;
                let cut: String = text.chars().take(700).collect();
                wrong.push(format!(
                    "{query} [{start_ms}, {end_ms}] every {step_ms} ms\n    {cut}"
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {count} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(
        filled * 3 > count && noted * 20 > count,
        "{filled} with series, {noted} with notes"
    );
}

#[test]
fn generated_queries_answer_as_in_prometheus() {
    compare(EngineOptions::default(), 0x6265, scaled(2_000));
}

#[test]
fn generated_queries_answer_as_with_prometheus_features() {
    let options = EngineOptions {
        delayed_name_removal: true,
        type_and_unit_labels: true,
        use_start_timestamps: true,
        ..EngineOptions::default()
    };
    compare(options, 0x7369, scaled(1_000));
}
