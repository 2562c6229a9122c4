//! Series with gaps give the same bits as their samples collected one by one.

use super::*;
use crate::{
    ast::Extension,
    eval::{Series, Value},
    functions::{
        FunctionId,
        over::apply,
        window::{Place, Row, Samples, Window},
    },
    span::Span,
};
use narthex_model::{
    LabelSet,
    cell::{ABSENT, STALE},
};
use narthex_testkit::rng::SplitMix64;

const FUNCTIONS: [FunctionId; 12] = [
    FunctionId::Rate,
    FunctionId::Increase,
    FunctionId::Delta,
    FunctionId::Irate,
    FunctionId::SumOverTime,
    FunctionId::AvgOverTime,
    FunctionId::MaxOverTime,
    FunctionId::CountOverTime,
    FunctionId::FirstOverTime,
    FunctionId::LastOverTime,
    FunctionId::Changes,
    FunctionId::QuantileOverTime,
];

/// A tile of some series with gaps: shared by neighbours, at the ends, everywhere or nowhere.
fn series(rng: &mut SplitMix64, rows: usize) -> Vec<Vec<f64>> {
    let mut all: Vec<Vec<f64>> = Vec::new();
    for _ in 0..24 {
        let mut value = 0.0;
        // Some are reset in every window, some in few.
        let reset_rows = [15, 100][rng.index(2)];
        let mut cells: Vec<f64> = (0..rows)
            .map(|_| {
                value += rng.below(9) as f64;
                if rng.one_in(reset_rows) {
                    value = 0.0;
                }
                if rng.one_in(300) { cell::NAN } else { value }
            })
            .collect();
        match rng.below(5) {
            0 => {}
            1 => cells[rng.index(rows)..].fill(STALE),
            2 => cells[..rng.index(rows)].fill(ABSENT),
            3 => cells
                .iter_mut()
                .filter(|_| rng.one_in(3))
                .for_each(|x| *x = ABSENT),
            _ => {
                for (x, before) in cells.iter_mut().zip(all.last().into_iter().flatten()) {
                    if !cell::is_float(*before) {
                        *x = *before;
                    }
                }
            }
        }
        all.push(cells);
    }
    all.push(vec![ABSENT; rows]);
    all
}

fn call(function: FunctionId) -> OverCall {
    OverCall {
        function,
        range_ms: 90_000,
        range_seconds: 90.0,
        lookback_ms: 300_000,
        extension: Extension::None,
        one_name: true,
        counter_name: true,
        span: Span::default(),
        first_span: Span::default(),
        second_span: Span::default(),
    }
}

fn value(call: &OverCall, window: &Window<'_>, end_ms: i64) -> f64 {
    if window.is_empty() {
        return ABSENT;
    }
    let at = Place {
        time_ms: end_ms,
        end_ms,
        args: &[0.3],
        series: &Series::new(LabelSet::empty()),
    };
    match apply(call, window, &at, &mut |_| {}).expect("a value") {
        None => ABSENT,
        Some(Value::Float(x)) => cell::canonical(x),
        Some(Value::Histogram(_)) => panic!("there are no histograms"),
    }
}

#[test]
fn closed_gaps_change_no_bit() {
    let (mut axes, mut values) = (0, 0);
    for seed in 1..=40 {
        let mut rng = SplitMix64::new(seed);
        let rows = 1 + rng.index(150);
        let times_ms: Vec<i64> = (0..rows as i64)
            .map(|row| row * 15_000 + rng.below(300) as i64)
            .collect();
        let ends_ms: Vec<i64> = (0..40).map(|step| step * 60_000 - 30_000).collect();
        let windows = Windows {
            from: 0,
            rows: &crate::eval::select::windows(&times_ms, &ends_ms, 90_000),
            ends_ms: &ends_ms,
        };
        let all = series(&mut rng, rows);
        for call in FUNCTIONS.map(call) {
            let mut gaps = Gaps::default();
            for cells in &all {
                let mut samples = Samples::default();
                for (row, x) in cells
                    .iter()
                    .enumerate()
                    .filter(|(_, x)| cell::is_float(**x))
                {
                    samples.floats.push(row, times_ms[row], *x, None);
                }
                let ends = windows.rows.iter().zip(windows.ends_ms);
                let expected: Vec<u64> = ends
                    .map(|(rows, end_ms)| value(&call, &samples.window(rows), *end_ms).to_bits())
                    .collect();
                let Some((grid, cells)) = gaps.close(&call, &times_ms, &windows, cells) else {
                    assert!(expected.iter().all(|x| *x == ABSENT.to_bits()));
                    continue;
                };
                let mut found = Vec::new();
                match &grid.axis {
                    Some(axis) => axis.row(cells, &mut found),
                    None => {
                        let times_ms = &grid.times_ms;
                        let row = Row::Floats { times_ms, cells };
                        let ends = grid.windows.iter().zip(windows.ends_ms);
                        found.extend(ends.map(|(rows, end)| value(&call, &row.window(rows), *end)));
                    }
                }
                axes += usize::from(grid.axis.is_some());
                values += found.iter().filter(|x| cell::is_float(**x)).count();
                let found: Vec<u64> = found.iter().map(|x| x.to_bits()).collect();
                assert_eq!(found, expected, "seed {seed}, {:?}", call.function);
            }
        }
    }
    assert!(
        axes > 1000 && values > 10_000,
        "{axes} axes, {values} values"
    );
}

#[test]
fn newest_samples_are_found_across_gaps() {
    let mut found_some = 0;
    for seed in 1..=60 {
        let mut rng = SplitMix64::new(seed);
        let rows = 1 + rng.index(150);
        let times_ms: Vec<i64> = (0..rows as i64).map(|row| row * 15_000).collect();
        let ends_ms: Vec<i64> = (0..50).map(|step| step * 45_000 - 60_000).collect();
        let windows = crate::eval::select::windows(&times_ms, &ends_ms, 60_000);
        let mut newest = Newest::default();
        for cells in series(&mut rng, rows) {
            let expected = windows.iter().map(|window| {
                let last = window
                    .clone()
                    .rev()
                    .find(|row| !cell::is_absent(cells[*row]));
                last.filter(|row| !cell::is_stale(cells[*row]))
                    .unwrap_or(NO_ROW)
            });
            let expected: Vec<usize> = expected.collect();
            assert_eq!(newest.rows(&cells, &windows), expected, "seed {seed}");
            found_some += expected.iter().filter(|row| **row != NO_ROW).count();
        }
    }
    assert!(found_some > 10_000, "{found_some}");
}
