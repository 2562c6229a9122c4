//! The times of a strip's rows: a few runs of equal steps, or else a list.
//!
//! Targets are scraped at equal intervals, so the times of hundreds of rows are nearly always a run or two: few enough bytes
//! to keep, where a list would take most of what is known of a strip.
//!
//! **Invariant:** times ascend strictly; runs give exactly the times that they were found in.

use narthex_model::storage::TimeRange;
use std::ops::Range;
use std::sync::Arc;

/// Ascending times, by row.
#[derive(Clone, Debug)]
pub(crate) enum Times {
    Runs(Runs),
    Listed(Arc<[i64]>),
}

/// Times whose steps hardly ever change.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    runs: Arc<[Run]>,
    rows: u32,
}

/// Rows at equal steps.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    first_ms: i64,
    first_row: u32,
    /// At least 1, and without meaning if there is no second row.
    step_ms: u32,
}

/// Most runs; times of more are listed.
const MOST_RUNS: usize = 8;
/// Most runs that are kept between queries: room for them is counted for every strip.
const MOST_KEPT: usize = 2;

impl Times {
    /// Returns the number of rows.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Runs(runs) => runs.rows as usize,
            Self::Listed(times_ms) => times_ms.len(),
        }
    }

    /// Returns the time of a row.
    ///
    /// # Panics
    /// Panics if there is no such row.
    pub(super) fn time_ms(&self, row: usize) -> i64 {
        match self {
            Self::Runs(runs) => runs.time_ms(row),
            Self::Listed(times_ms) => times_ms[row],
        }
    }

    /// Returns the time of the last row.
    pub(super) fn last_ms(&self) -> Option<i64> {
        self.len().checked_sub(1).map(|row| self.time_ms(row))
    }

    /// Returns the rows within `range`.
    pub(super) fn rows_in(&self, range: TimeRange) -> Range<usize> {
        let first = self.rows_before(range.min_ms);
        let after_ms = range.max_ms.checked_add(1);
        let end = after_ms.map_or(self.len(), |after_ms| self.rows_before(after_ms));
        first..end.max(first)
    }

    /// Appends the times of some rows, of which those that do not exist have none.
    pub(super) fn append(&self, rows: Range<usize>, into: &mut Vec<i64>) {
        match self {
            Self::Runs(runs) => runs.append(rows, into),
            Self::Listed(times_ms) => {
                let rows = rows.start.min(times_ms.len())..rows.end.min(times_ms.len());
                into.extend_from_slice(times_ms.get(rows).unwrap_or_default());
            }
        }
    }

    /// Returns the number of rows before a time.
    fn rows_before(&self, time_ms: i64) -> usize {
        match self {
            Self::Runs(runs) => runs.rows_before(time_ms),
            Self::Listed(times_ms) => times_ms.partition_point(|other| *other < time_ms),
        }
    }
}

impl Default for Times {
    fn default() -> Self {
        Self::Runs(Runs::default())
    }
}

impl Runs {
    /// Most bytes that runs take where their allocation is, of those that are worth keeping.
    pub(super) const MOST_KEPT_BYTES: usize = 2 * size_of::<usize>() + MOST_KEPT * size_of::<Run>();

    /// Finds the runs of ascending times, each as long as it can be; `None` if there are too many.
    pub(super) fn find(times_ms: &[i64]) -> Option<Self> {
        let mut runs = [Run::default(); MOST_RUNS];
        let (mut found, mut row) = (0, 0);
        while let Some(first_ms) = times_ms.get(row) {
            let (step_ms, rows) = first_run(&times_ms[row..]);
            *runs.get_mut(found)? = Run {
                first_ms: *first_ms,
                first_row: u32::try_from(row).ok()?,
                step_ms,
            };
            row += rows;
            found += 1;
        }
        Some(Self {
            runs: runs[..found].into(),
            rows: u32::try_from(times_ms.len()).ok()?,
        })
    }

    /// Reports whether they are few enough to be kept between queries.
    pub(super) fn are_few(&self) -> bool {
        self.runs.len() <= MOST_KEPT
    }

    fn time_ms(&self, row: usize) -> i64 {
        assert!(row < self.rows as usize, "row {row} of {}", self.rows);
        let began = |run: &Run| run.first_row as usize <= row;
        let run = self.runs[self.runs.partition_point(began) - 1];
        run.time_ms(row as u32)
    }

    fn rows_before(&self, time_ms: i64) -> usize {
        let began = self.runs.partition_point(|run| run.first_ms < time_ms);
        let Some(at) = began.checked_sub(1) else {
            return 0;
        };
        let run = self.runs[at];
        let since_ms = time_ms.abs_diff(run.first_ms);
        let rows = since_ms.div_ceil(u64::from(run.step_ms));
        let end = u64::from(run.first_row).saturating_add(rows);
        end.min(u64::from(self.end(at))) as usize
    }

    fn append(&self, rows: Range<usize>, into: &mut Vec<i64>) {
        for (at, run) in self.runs.iter().enumerate() {
            let first = rows.start.max(run.first_row as usize) as u32;
            let end = rows.end.min(self.end(at) as usize) as u32;
            into.extend((first..end).map(|row| run.time_ms(row)));
        }
    }

    /// Returns the row after the last one of the run at `at`.
    fn end(&self, at: usize) -> u32 {
        self.runs.get(at + 1).map_or(self.rows, |run| run.first_row)
    }
}

impl Run {
    /// Returns the time of one of its rows.
    fn time_ms(&self, row: u32) -> i64 {
        let since_ms = u64::from(row - self.first_row) * u64::from(self.step_ms);
        // The sum is the time of a row, so nothing wraps.
        self.first_ms.wrapping_add_unsigned(since_ms)
    }
}

/// Returns the step between the first of some times, and the number of rows that have it; a row before a step that is too
/// long is alone.
fn first_run(times_ms: &[i64]) -> (u32, usize) {
    let steps_ms = times_ms.windows(2).map(|pair| pair[1].abs_diff(pair[0]));
    let mut steps_ms = steps_ms.map(u32::try_from);
    let Some(Ok(step_ms)) = steps_ms.next() else {
        return (1, 1);
    };
    let more = steps_ms.take_while(|other| *other == Ok(step_ms)).count();
    (step_ms, 2 + more)
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_testkit::rng::SplitMix64;

    /// Makes both kinds of `times_ms`, or the list alone if there are too many runs.
    fn kinds(times_ms: &[i64]) -> Vec<Times> {
        let runs = Runs::find(times_ms).map(Times::Runs);
        let listed = Times::Listed(times_ms.into());
        runs.into_iter().chain([listed]).collect()
    }

    fn runs_of(times_ms: &[i64]) -> Option<usize> {
        Runs::find(times_ms).map(|found| found.runs.len())
    }

    fn regular(rows: i64) -> Vec<i64> {
        (0..rows).map(|row| 1_000 + row * 15_000).collect()
    }

    /// Compares with the plain list: all times, all parts between some rows, and ranges around each time.
    fn check(plain: &[i64], rng: &mut SplitMix64) {
        for times in kinds(plain) {
            assert_eq!(times.len(), plain.len());
            assert_eq!(times.last_ms(), plain.last().copied());
            for (row, time_ms) in plain.iter().enumerate() {
                assert_eq!(times.time_ms(row), *time_ms, "row {row} of {times:?}");
            }
            for _ in 0..20 {
                let first = rng.index(plain.len() + 1);
                let end = first + rng.index(plain.len() + 1 - first);
                let mut appended = vec![7];
                times.append(first..end, &mut appended);
                assert_eq!(appended[0], 7);
                assert_eq!(appended[1..], plain[first..end], "{first}..{end}");
            }
            let around = |time_ms: &i64| {
                let near = [-1, 0, 1].map(|by| time_ms.saturating_add(by));
                near.into_iter().chain([time_ms.saturating_add(7_001)])
            };
            let mut bounds: Vec<i64> = plain.iter().flat_map(around).collect();
            bounds.extend([i64::MIN, i64::MIN + 1, 0, i64::MAX - 1, i64::MAX]);
            for min_ms in &bounds {
                for max_ms in [*rng.pick(&bounds), *min_ms, i64::MAX] {
                    let range = TimeRange::new(*min_ms, max_ms);
                    let first = plain.partition_point(|time_ms| time_ms < min_ms);
                    let end = plain.partition_point(|time_ms| *time_ms <= max_ms);
                    let expected = first..end.max(first);
                    assert_eq!(times.rows_in(range), expected, "{range:?} of {times:?}");
                }
            }
        }
    }

    #[test]
    fn regular_times_are_few_runs() {
        let mut times = regular(240);
        assert_eq!(runs_of(&times), Some(1));
        times.drain(100..110);
        assert_eq!(runs_of(&times), Some(2), "a gap");
        times[50] += 3;
        assert_eq!(runs_of(&times), Some(4), "a late row");
        assert_eq!(runs_of(&[]), Some(0));
        assert_eq!(runs_of(&[5]), Some(1));
        assert_eq!(runs_of(&[5, 6]), Some(1));
        assert_eq!(runs_of(&[i64::MIN, i64::MAX]), Some(2), "too long a step");
        let doubling = |rows: u32| (0..rows).map(|row| 1 << row).collect::<Vec<i64>>();
        assert_eq!(runs_of(&doubling(2 * MOST_RUNS as u32)), Some(MOST_RUNS));
        assert_eq!(runs_of(&doubling(2 * MOST_RUNS as u32 + 1)), None);
    }

    #[test]
    fn runs_give_the_times_that_they_were_found_in() {
        let mut rng = SplitMix64::new(1);
        let max = i64::MAX;
        let least = i64::MIN;
        for times in [
            &[][..],
            &[0],
            &[least],
            &[max],
            &[least, max],
            &[least, least + 1, least + 2, max - 2, max - 1, max],
            &[max - 4, max - 2, max],
            &[least, 0, max],
            &[-1 << 31, 0, 1 << 31, 1 << 32],
            &[0, (1 << 32) - 1, (1 << 33) - 2, 1 << 40],
            &[0, 1 << 32, 1 << 33],
        ] {
            check(times, &mut rng);
        }
    }

    #[test]
    fn times_of_any_shape_agree_with_the_list() {
        let mut rng = SplitMix64::new(2);
        let mut kept = 0;
        for _ in 0..300 {
            let step_ms = *rng.pick(&[1, 2, 15_000, u64::from(u32::MAX), 1 << 33]);
            let odd_steps = *rng.pick(&[0, 2, 100]);
            let rows = rng.below(60);
            let mut time_ms = *rng.pick(&[i64::MIN, -40_000, 0, 1_700_000_000_000]);
            let mut times = Vec::new();
            for _ in 0..rows {
                times.push(time_ms);
                let is_odd = rng.below(100) < odd_steps;
                let add_ms = if is_odd {
                    rng.below(4) * step_ms + 1
                } else {
                    0
                };
                time_ms += (step_ms + add_ms) as i64;
            }
            kept += usize::from(runs_of(&times).is_some());
            check(&times, &mut rng);
        }
        assert!((100..290).contains(&kept), "{kept}");
    }
}
