//! Courses made of readings that were taken while something ran.
//!
//! **Invariant:** a course has at most `MOST_POINTS` points, spread evenly over the readings.

use super::Course;
use std::time::Duration;

/// More are not seen in a plot.
pub(crate) const MOST_POINTS: usize = 300;

/// Readings in the order they were taken.
#[derive(Debug)]
pub(crate) struct Readings<'t, T> {
    taken: Vec<(f64, &'t T)>,
}

impl<'t, T> Readings<'t, T> {
    /// Takes as many of the readings as a plot shows; `at` tells when one was taken.
    pub(crate) fn new(all: &'t [T], at: impl Fn(&T) -> Duration) -> Self {
        let every = all.len().div_ceil(MOST_POINTS).max(1);
        let taken = all.iter().step_by(every);
        Self {
            taken: taken.map(|one| (at(one).as_secs_f64(), one)).collect(),
        }
    }

    /// Returns what something was at each reading.
    pub(crate) fn level(&self, key: &str, unit: &str, of: impl Fn(&T) -> f64) -> Course {
        let points = self.taken.iter().map(|(at, one)| [*at, of(one)]);
        Course {
            key: key.to_owned(),
            unit: unit.to_owned(),
            points: points.collect(),
        }
    }

    /// Returns how fast a total grew between readings, in its unit a second.
    pub(crate) fn rate(&self, key: &str, unit: &str, of: impl Fn(&T) -> f64) -> Course {
        let points = self.taken.iter().zip(self.taken.iter().skip(1));
        let points = points.map(|((before_at, before), (at, one))| {
            let grown = (of(one) - of(before)).max(0.0);
            [*at, grown / (at - before_at).max(1e-3)]
        });
        Course {
            key: key.to_owned(),
            unit: unit.to_owned(),
            points: points.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_become_levels_and_rates() {
        let all: Vec<(u64, f64)> = vec![(1, 10.0), (2, 30.0), (4, 30.0), (5, 25.0)];
        let readings = Readings::new(&all, |one| Duration::from_secs(one.0));
        let level = readings.level("memory", "MB", |one| one.1);
        assert_eq!((level.key.as_str(), level.unit.as_str()), ("memory", "MB"));
        assert_eq!(
            level.points,
            [[1.0, 10.0], [2.0, 30.0], [4.0, 30.0], [5.0, 25.0]]
        );
        // A total that shrinks is another process' total.
        let rate = readings.rate("CPU", "cores", |one| one.1);
        assert_eq!(rate.points, [[2.0, 20.0], [4.0, 0.0], [5.0, 0.0]]);
    }

    #[test]
    fn long_runs_are_thinned() {
        let all: Vec<u64> = (0..1000).collect();
        let readings = Readings::new(&all, |at| Duration::from_secs(*at));
        let level = readings.level("x", "", |at| *at as f64);
        assert_eq!((level.points.len(), level.points[1]), (250, [4.0, 4.0]));
    }
}
