//! Tests of `figures`.

use super::*;
use crate::record::tests::sample;

fn run(variant: &str, repetition: usize, p100: f64) -> Run {
    Run {
        repetition,
        ..Run::new(variant, vec![Figure::cost("P100", "ms", p100)])
    }
}

#[test]
fn a_ratio_is_made_within_a_pair_and_then_summed_up() {
    let mut record = sample();
    record.runs.clear();
    for (repetition, without, with) in [(0, 2.0, 10.0), (1, 200.0, 200.0), (2, 4.0, 12.0)] {
        record
            .runs
            .push(run("9 series, load without scrapes", repetition, without));
        record
            .runs
            .push(run("9 series, load with scrapes", repetition, with));
    }
    let differences = with_against_without(&record);
    let last = differences[0].rows.last().unwrap();
    assert_eq!(
        last[..5],
        [
            "9 series",
            "P100",
            "4.00 (2.00..200)",
            "12.0 (10.0..200)",
            "3.00 (1.00..5.00)"
        ]
    );
    assert_eq!(differences[0].rows.len(), PERCENTILES.len());
}

#[test]
fn tables_rise_with_their_percentile() {
    assert!(PERCENTILES.is_sorted_by(|a, b| a.1 < b.1));
}
