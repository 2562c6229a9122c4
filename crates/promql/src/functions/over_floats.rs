//! Functions over windows that have nothing but floats, one series after the other.
//!
//! Extremes and quantiles of windows that overlap much follow from the window before: a sample is looked at when it
//! comes and when it goes, not in every window.
//!
//! **Invariant:** a value has the bits that [`super::over::apply`] gives for its window alone, and nothing is noted.

use super::{
    FunctionId, over_time,
    quantile::{interpolated, nan_first, quantile},
    window::OverCall,
};
use crate::{ast::Extension, math::seconds};
use narthex_model::{
    cell::{self, ABSENT},
    storage::{Pace, StopReason},
};
use std::ops::Range;

/// Windows are computed from the ones before if they have this many times as many samples as the series.
const OVERLAP: usize = 8;

/// One series with a float in every row, and windows whose ends ascend.
#[derive(Clone, Copy)]
pub(crate) struct FloatRow<'a> {
    pub(crate) times_ms: &'a [i64],
    pub(crate) values: &'a [f64],
    pub(crate) windows: &'a [Range<usize>],
}

/// A function over windows of floats.
pub(crate) struct FloatKernel<'a> {
    function: FunctionId,
    /// The quantile for each window; empty for other functions.
    quantiles: &'a [f64],
    /// Rows of the window, each of which beats all after it.
    best: Vec<usize>,
    sorted: Vec<f64>,
    ranks: Ranks,
}

impl<'a> FloatKernel<'a> {
    /// Returns the kernel of a call with this argument for each window; `None` if it has none, or windows give notes.
    pub(crate) fn new(call: &OverCall, argument: Option<&'a [f64]>) -> Option<Self> {
        use FunctionId as F;
        let is_quantile = call.function == F::QuantileOverTime;
        let quantiles = argument.filter(|_| is_quantile).unwrap_or_default();
        let known = match call.function {
            F::SumOverTime
            | F::AvgOverTime
            | F::CountOverTime
            | F::PresentOverTime
            | F::FirstOverTime
            | F::LastOverTime
            | F::TsOfFirstOverTime
            | F::TsOfLastOverTime
            | F::MinOverTime
            | F::MaxOverTime
            | F::TsOfMinOverTime
            | F::TsOfMaxOverTime
            | F::StddevOverTime
            | F::StdvarOverTime => true,
            F::QuantileOverTime => {
                argument.is_some() && quantiles.iter().all(|q| (0.0..=1.0).contains(q))
            }
            _ => false,
        };
        (known && call.extension == Extension::None).then(|| Self {
            function: call.function,
            quantiles,
            best: Vec::new(),
            sorted: Vec::new(),
            ranks: Ranks::default(),
        })
    }

    /// Appends the values of one series.
    ///
    /// # Errors
    /// Fails when stopped.
    pub(crate) fn row(
        &mut self,
        row: FloatRow<'_>,
        out: &mut Vec<f64>,
        pace: &mut Pace<'_>,
    ) -> Result<(), StopReason> {
        use FunctionId as F;
        let FloatRow {
            times_ms, values, ..
        } = row;
        let of = |rows: &Range<usize>| &values[rows.clone()];
        let time = |at: usize| seconds(times_ms[at]);
        match self.function {
            F::SumOverTime => each(row, out, pace, |rows| over_time::sum(of(rows))),
            F::AvgOverTime => each(row, out, pace, |rows| over_time::average(of(rows))),
            F::CountOverTime => each(row, out, pace, |rows| over_time::count(rows.len())),
            F::FirstOverTime => each(row, out, pace, |rows| values[rows.start]),
            F::LastOverTime => each(row, out, pace, |rows| values[rows.end - 1]),
            F::TsOfFirstOverTime => each(row, out, pace, |rows| time(rows.start)),
            // As in Prometheus, samples before the epoch count as the epoch.
            F::TsOfLastOverTime => each(row, out, pace, |rows| time(rows.end - 1).max(0.0)),
            F::StddevOverTime => each(row, out, pace, |rows| over_time::variance(of(rows)).sqrt()),
            F::StdvarOverTime => each(row, out, pace, |rows| over_time::variance(of(rows))),
            F::MinOverTime if !overlap(row) => each(row, out, pace, |rows| {
                best_value(of(rows), f64::INFINITY, |x, best| x < best)
            }),
            F::MaxOverTime if !overlap(row) => each(row, out, pace, |rows| {
                best_value(of(rows), f64::NEG_INFINITY, |x, best| x > best)
            }),
            F::MinOverTime => self.extremes(row, |x, best| x < best, |at| values[at], out, pace),
            F::MaxOverTime => self.extremes(row, |x, best| x > best, |at| values[at], out, pace),
            F::TsOfMinOverTime => self.extremes(row, |x, best| x <= best, time, out, pace),
            F::TsOfMaxOverTime => self.extremes(row, |x, best| x >= best, time, out, pace),
            F::QuantileOverTime => self.quantiles(row, out, pace),
            _ => each(row, out, pace, |_| 1.0),
        }
    }

    /// Appends `of` the sample of each window that beats all others: the first of equal ones, unless these beat each other.
    fn extremes(
        &mut self,
        row: FloatRow<'_>,
        beats: impl Fn(f64, f64) -> bool,
        of: impl Fn(usize) -> f64,
        out: &mut Vec<f64>,
        pace: &mut Pace<'_>,
    ) -> Result<(), StopReason> {
        let values = row.values;
        if !overlap(row) {
            return each(row, out, pace, |rows| {
                of(rows.start + best_of(&values[rows.clone()], &beats))
            });
        }
        let best = &mut self.best;
        best.clear();
        let (mut gone, mut next) = (0, 0);
        for rows in row.windows {
            if rows.is_empty() {
                out.push(ABSENT);
                continue;
            }
            next = next.max(rows.start);
            pace.spend(1 + rows.end.saturating_sub(next))?;
            while next < rows.end {
                let x = values[next];
                if !x.is_nan() {
                    while best.len() > gone && beats(x, values[best[best.len() - 1]]) {
                        best.pop();
                    }
                    best.push(next);
                }
                next += 1;
            }
            while best.get(gone).is_some_and(|at| *at < rows.start) {
                gone += 1;
            }
            // Of nothing but NaN it is the last.
            let at = best.get(gone).copied().unwrap_or(rows.end - 1);
            out.push(cell::canonical(of(at)));
        }
        Ok(())
    }

    fn quantiles(
        &mut self,
        row: FloatRow<'_>,
        out: &mut Vec<f64>,
        pace: &mut Pace<'_>,
    ) -> Result<(), StopReason> {
        let mut quantiles = self.quantiles.iter();
        let mut next = || quantiles.next().copied().unwrap_or(cell::NAN);
        if !overlap(row) {
            let sorted = &mut self.sorted;
            for rows in row.windows {
                let q = next();
                // Sorting is more work than reading.
                pace.spend(1 + 8 * rows.len())?;
                sorted.clear();
                sorted.extend_from_slice(&row.values[rows.clone()]);
                out.push(if rows.is_empty() {
                    ABSENT
                } else {
                    cell::canonical(quantile(q, sorted))
                });
            }
            return Ok(());
        }
        pace.spend(8 * row.values.len())?;
        let ranks = &mut self.ranks;
        ranks.sort(row.values);
        let (mut from, mut to) = (0, 0);
        for rows in row.windows {
            let q = next();
            let before = to - from;
            while from < rows.start.min(to) {
                ranks.remove(from);
                from += 1;
            }
            if from < rows.start {
                (from, to) = (rows.start, rows.start);
            }
            pace.spend(8 * (1 + before + rows.len() - 2 * (to - from).min(rows.len())))?;
            while to < rows.end {
                ranks.insert(to);
                to += 1;
            }
            out.push(if rows.is_empty() {
                ABSENT
            } else {
                let at = |number| row.values[ranks.find(number)];
                cell::canonical(interpolated(q, rows.len(), at))
            });
        }
        // The windows' rows that are left, for the next series.
        while from < to {
            ranks.remove(from);
            from += 1;
        }
        Ok(())
    }
}

/// Appends a value of each window, from its samples alone.
fn each(
    row: FloatRow<'_>,
    out: &mut Vec<f64>,
    pace: &mut Pace<'_>,
    value: impl Fn(&Range<usize>) -> f64,
) -> Result<(), StopReason> {
    for rows in row.windows {
        pace.spend(1 + rows.len())?;
        out.push(if rows.is_empty() {
            ABSENT
        } else {
            cell::canonical(value(rows))
        });
    }
    Ok(())
}

/// Reports whether samples are in many windows each.
fn overlap(row: FloatRow<'_>) -> bool {
    let in_windows: usize = row.windows.iter().map(Range::len).sum();
    in_windows > OVERLAP * row.values.len()
}

/// Returns the value that beats all others, the first of equal ones; `worst` beats none.
fn best_value(values: &[f64], worst: f64, beats: impl Fn(f64, f64) -> bool) -> f64 {
    // Several at once, in registers.
    let (chunks, rest) = values.as_chunks::<8>();
    let mut best = [worst; 8];
    let better = |best: f64, x: &f64| if beats(*x, best) { *x } else { best };
    for chunk in chunks {
        for (best, x) in best.iter_mut().zip(chunk) {
            *best = better(*best, x);
        }
    }
    let found = best.iter().chain(rest).fold(worst, better);
    if found == 0.0 || found == worst {
        // Which of two zeros is first was not looked at; there may be nothing but NaN.
        return values[best_of(values, beats)];
    }
    found
}

/// Returns the place of the sample that beats all others; every number beats NaN.
fn best_of(values: &[f64], beats: impl Fn(f64, f64) -> bool) -> usize {
    let mut best = 0;
    for (at, x) in values.iter().enumerate() {
        if beats(*x, values[best]) || values[best].is_nan() {
            best = at;
        }
    }
    best
}

/// The samples of a window by rank among all samples of their series, in a tree of counts: it takes and gives back a sample,
/// and finds the one of a rank, in as many steps as the number of samples has digits in binary.
#[derive(Default)]
struct Ranks {
    /// Rows by value, equal ones by age.
    rows: Vec<usize>,
    /// The rank of each row.
    ranks: Vec<usize>,
    /// A Fenwick tree: entry `i` counts the samples of the ranks from `i` less its lowest bit to `i`, exclusive.
    counts: Vec<u32>,
}

impl Ranks {
    /// Begins with a series, none of whose samples is in the window.
    fn sort(&mut self, values: &[f64]) {
        self.rows.clear();
        self.rows.extend(0..values.len());
        self.rows.sort_by(|a, b| nan_first(values[*a], values[*b]));
        self.ranks.resize(values.len(), 0);
        for (rank, row) in self.rows.iter().enumerate() {
            self.ranks[*row] = rank;
        }
        self.counts.clear();
        self.counts.resize(values.len() + 1, 0);
    }

    fn insert(&mut self, row: usize) {
        self.change(row, 1);
    }

    fn remove(&mut self, row: usize) {
        self.change(row, u32::MAX);
    }

    fn change(&mut self, row: usize, by: u32) {
        let mut at = self.ranks[row] + 1;
        while let Some(count) = self.counts.get_mut(at) {
            *count = count.wrapping_add(by);
            at += at & at.wrapping_neg();
        }
    }

    /// Returns the row of the window's sample number `number`, by value.
    fn find(&self, number: usize) -> usize {
        let (mut at, mut left) = (0, number);
        let mut step = (self.counts.len() - 1)
            .checked_ilog2()
            .map_or(0, |log| 1 << log);
        while step > 0 {
            if let Some(count) = self.counts.get(at + step)
                && *count as usize <= left
            {
                at += step;
                left -= *count as usize;
            }
            step /= 2;
        }
        self.rows[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::{Series, Value};
    use crate::functions::{
        over::apply,
        window::{Place, Row},
    };
    use narthex_model::{LabelSet, storage::Stop};
    use narthex_testkit::rng::SplitMix64;

    const FUNCTIONS: [FunctionId; 15] = [
        FunctionId::SumOverTime,
        FunctionId::AvgOverTime,
        FunctionId::CountOverTime,
        FunctionId::PresentOverTime,
        FunctionId::FirstOverTime,
        FunctionId::LastOverTime,
        FunctionId::TsOfFirstOverTime,
        FunctionId::TsOfLastOverTime,
        FunctionId::MinOverTime,
        FunctionId::MaxOverTime,
        FunctionId::TsOfMinOverTime,
        FunctionId::TsOfMaxOverTime,
        FunctionId::StddevOverTime,
        FunctionId::StdvarOverTime,
        FunctionId::QuantileOverTime,
    ];

    fn call(function: FunctionId) -> OverCall {
        OverCall {
            function,
            range_ms: 60_000,
            range_seconds: 60.0,
            lookback_ms: 300_000,
            extension: Extension::None,
            one_name: true,
            counter_name: true,
            span: Default::default(),
            first_span: Default::default(),
            second_span: Default::default(),
        }
    }

    /// Returns values with ties, both zeros, infinities and NaN.
    fn values(random: &mut SplitMix64, count: usize) -> Vec<f64> {
        let special = [
            0.0,
            -0.0,
            f64::INFINITY,
            f64::NEG_INFINITY,
            cell::NAN,
            1e308,
            -1e308,
        ];
        let with_special = random.one_in(2);
        let mut one = || match random.below(4) {
            0 if with_special => *random.pick(&special),
            1 => random.below(5) as f64 - 2.0,
            _ => (random.unit_f64() - 0.5) * 1e3,
        };
        (0..count).map(|_| one()).collect()
    }

    /// Returns windows whose ends ascend: empty, apart, overlapping or equal.
    fn windows(random: &mut SplitMix64, rows: usize) -> Vec<Range<usize>> {
        let (mut from, mut to) = (0, 0);
        let (most, gap) = (1 + random.index(30), 1 + random.index(6));
        let count = 1 + random.index(3 * rows.max(1));
        let mut next = || {
            from = (from + random.index(gap)).min(rows);
            to = to.max((from + random.index(most + 1)).min(rows)).max(from);
            from..to
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn windows_have_the_bits_of_each_alone() {
        let series = Series::new(LabelSet::empty());
        let mut random = SplitMix64::new(7);
        let (mut overlapping, mut compared) = (0, 0);
        for _ in 0..400 {
            let rows = random.index(120);
            let times_ms: Vec<i64> = (0..rows as i64).map(|row| row * 15_000 - 90_000).collect();
            let values = values(&mut random, rows);
            let windows = windows(&mut random, rows);
            let quantiles: Vec<f64> = windows
                .iter()
                .map(|_| *random.pick(&[0.0, 0.25, 0.5, 0.9, 1.0]))
                .collect();
            let row = FloatRow {
                times_ms: &times_ms,
                values: &values,
                windows: &windows,
            };
            overlapping += usize::from(overlap(row));
            for function in FUNCTIONS {
                let call = call(function);
                let mut kernel = FloatKernel::new(&call, Some(&quantiles)).unwrap();
                let stop = Stop::never();
                // The second time with what the first left.
                for _ in 0..2 {
                    let mut found = Vec::new();
                    kernel.row(row, &mut found, &mut stop.pace()).unwrap();
                    assert_eq!(found.len(), windows.len());
                    for ((rows, q), found) in windows.iter().zip(&quantiles).zip(found) {
                        let samples = Row::Floats {
                            times_ms: &times_ms,
                            cells: &values,
                        };
                        let window = samples.window(rows);
                        let place = Place {
                            time_ms: 0,
                            end_ms: 0,
                            args: &[*q],
                            series: &series,
                        };
                        let mut note = |note| panic!("{function:?} notes {note:?}");
                        let expected = if window.is_empty() {
                            ABSENT
                        } else {
                            match apply(&call, &window, &place, &mut note) {
                                Ok(Some(Value::Float(x))) => cell::canonical(x),
                                other => panic!("{function:?} gives {other:?}"),
                            }
                        };
                        let place = format!("{function:?} of {:?}", &values[rows.clone()]);
                        assert_eq!(found.to_bits(), expected.to_bits(), "{place}");
                        compared += 1;
                    }
                }
            }
        }
        assert!(
            overlapping > 40 && compared > 100_000,
            "{overlapping} {compared}"
        );
    }

    #[test]
    fn a_wide_window_costs_a_step_what_a_narrow_one_does() {
        let rows = 20_000;
        let times_ms: Vec<i64> = (0..rows as i64).collect();
        let values = values(&mut SplitMix64::new(1), rows);
        let quantiles = vec![0.9; rows];
        for function in [
            FunctionId::MaxOverTime,
            FunctionId::TsOfMinOverTime,
            FunctionId::QuantileOverTime,
        ] {
            let work = |width: usize| {
                let windows: Vec<Range<usize>> =
                    (0..rows).map(|at| at.saturating_sub(width)..at).collect();
                let row = FloatRow {
                    times_ms: &times_ms,
                    values: &values,
                    windows: &windows,
                };
                let (call, stop) = (call(function), Stop::at_check(0));
                let mut kernel = FloatKernel::new(&call, Some(&quantiles)).unwrap();
                kernel.row(row, &mut Vec::new(), &mut stop.pace()).unwrap();
                stop.checks()
            };
            let (narrow, wide) = (work(20), work(10_000));
            assert!(
                wide <= 2 * narrow.max(1),
                "{function:?}: {narrow} checks, {wide} checks"
            );
        }
    }

    #[test]
    fn quantiles_that_are_noted_are_left_to_others() {
        let call = call(FunctionId::QuantileOverTime);
        for q in [-0.1, 1.1, cell::NAN] {
            assert!(FloatKernel::new(&call, Some(&[0.5, q])).is_none());
        }
    }
}
