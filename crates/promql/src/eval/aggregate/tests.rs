//! Tests of the accumulators.

use super::*;
use crate::{cost::ReadLimits, eval::Limits};
use narthex_testkit::rng::SplitMix64;

#[test]
fn rows_are_summed_as_single_values_are() {
    let mut rng = SplitMix64::new(3);
    let odd = [
        0.0,
        -0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        1e308,
        -1e308,
        5e-324,
        1.0,
    ];
    let (mut sums, mut lost) = (vec![-0.0; 64], vec![0.0; 64]);
    let mut expected = vec![(-0.0, 0.0); 64];
    for round in 0..200 {
        let value = |rng: &mut SplitMix64| match rng.below(40) {
            0 if round > 100 => *rng.pick(&odd),
            n => (rng.unit_f64() - 0.5) * 10f64.powi(i32::try_from(n).unwrap() - 20),
        };
        let row: Vec<f64> = (0..64).map(|_| value(&mut rng)).collect();
        add_row(&mut sums, &mut lost, &row);
        for ((sum, lost), x) in expected.iter_mut().zip(&row) {
            (*sum, *lost) = kahan_add(*x, *sum, *lost);
        }
    }
    let bits = |x: f64| {
        if x.is_nan() {
            cell::NAN.to_bits()
        } else {
            x.to_bits()
        }
    };
    for (at, (sum, compensation)) in expected.iter().enumerate() {
        assert_eq!(bits(sums[at]), bits(*sum));
        assert_eq!(bits(lost[at]), bits(*compensation), "{sum}");
    }
}

/// Averages whose sums become infinite go on as running means, each from the value on at which it does.
#[test]
fn averages_are_those_of_single_means() {
    let memory = memory();
    let mut rng = SplitMix64::new(11);
    let huge = [1e308, -1.7e308, f64::INFINITY, f64::NEG_INFINITY, cell::NAN];
    let mut ran = 0;
    for round in 0..400 {
        let rare = [0, 400, 30][round % 3];
        let mut averages = Accumulators::new(AggregateOp::Avg, 12, &memory);
        averages.grow(0).expect("unlimited");
        let mut expected: [Option<Mean>; 12] = [None; 12];
        for _ in 0..rng.below(40) {
            let from = if rng.one_in(2) { 0 } else { rng.index(12) };
            let row: Vec<f64> = (from..12)
                .map(|_| match rare > 0 && rng.one_in(rare) {
                    true => *rng.pick(&huge),
                    false => (rng.unit_f64() - 0.5) * 1e3,
                })
                .collect();
            averages.add_floats(0, from, &row);
            for (mean, x) in expected[from..].iter_mut().zip(&row) {
                match mean {
                    Some(mean) => mean.add(*x),
                    none => *none = Some(Mean::new(*x)),
                }
            }
        }
        ran += averages.means.len();
        for (step, mean) in expected.into_iter().enumerate() {
            assert_eq!(averages.seen(0, step), mean.is_some());
            if let Some(mean) = mean {
                let (found, mean) = (averages.finish(0, step, 0.0), mean.finish());
                let same = found.to_bits() == mean.to_bits() || found.is_nan() && mean.is_nan();
                assert!(same, "round {round}, step {step}: {found}, not {mean}");
            }
        }
    }
    assert!(ran > 200, "{ran} averages ran on");
}

#[test]
fn runs_of_floats_are_added_as_single_values_are() {
    let memory = memory();
    let ops = [
        AggregateOp::Sum,
        AggregateOp::Avg,
        AggregateOp::Min,
        AggregateOp::Max,
        AggregateOp::Count,
        AggregateOp::Group,
        AggregateOp::Stddev,
        AggregateOp::Stdvar,
        AggregateOp::Quantile,
    ];
    for op in ops {
        let mut rng = SplitMix64::new(7);
        let (mut runs, mut single) = (
            Accumulators::new(op, 20, &memory),
            Accumulators::new(op, 20, &memory),
        );
        for groups in [&mut runs, &mut single] {
            (0..3).for_each(|_| groups.grow(0).expect("unlimited"));
        }
        for _ in 0..300 {
            // The last group never has the last steps.
            let group = rng.index(3);
            let from = rng.index(18);
            let to = from + 1 + rng.index(18 - from + if group == 2 { 0 } else { 2 });
            let whole = group == 1 && rng.one_in(3);
            let steps = if whole { 0..20 } else { from..to };
            let holes = rng.one_in(4);
            // As some rows in a row.
            for _ in 0..1 + rng.below(3) {
                let mut row = [cell::ABSENT; 20];
                for step in steps.clone() {
                    if !holes || rng.below(3) > 0 {
                        row[step] = rng.unit_f64() - 0.5;
                    }
                }
                runs.add_runs(group, 0, &row);
                for (step, x) in row.iter().enumerate().filter(|(_, x)| cell::is_float(**x)) {
                    single.add_float(group, step, *x);
                }
            }
        }
        for (group, step) in (0..3).flat_map(|group| (0..20).map(move |step| (group, step))) {
            let seen = single.seen(group, step);
            assert_eq!(runs.seen(group, step), seen, "{op:?}");
            if seen {
                let (a, b) = (
                    runs.finish(group, step, 0.3),
                    single.finish(group, step, 0.3),
                );
                assert_eq!(
                    a.to_bits(),
                    b.to_bits(),
                    "{op:?}, group {group}, step {step}"
                );
            }
        }
        assert!(!single.seen(2, 19), "some steps have nothing");
    }
}

fn memory() -> Memory {
    let limits = Limits {
        max_samples: 1 << 40,
        max_label_bytes: 100,
        reads: ReadLimits::default(),
    };
    Memory::new(&narthex_model::storage::Budget::unlimited(), limits).unwrap()
}
