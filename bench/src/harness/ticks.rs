//! Usage and work of a server, sampled while it runs.
//!
//! **Invariant:** a course has at most [`MOST_POINTS`] points, spread evenly over the readings.

use super::measure::Usage;
use crate::record::Course;
use std::time::{Duration, Instant};

/// More are not visible in a plot.
pub(crate) const MOST_POINTS: usize = 300;

/// One reading.
#[derive(Debug, Clone, Copy, Default)]
struct Tick {
    at: Duration,
    usage: Usage,
    disk_bytes: u64,
    counted: u64,
}

/// Readings since a start.
#[derive(Debug)]
pub(crate) struct Ticks {
    started: Instant,
    all: Vec<Tick>,
}

/// Growth of totals between two readings, per second.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rates {
    pub(crate) cores: f64,
    pub(crate) counted: f64,
}

impl Ticks {
    /// Begins to count time.
    pub(crate) fn start() -> Self {
        Self {
            started: Instant::now(),
            all: Vec::new(),
        }
    }

    /// Adds a reading; `counted` is the scenario's count. Returns the rates since the previous one.
    pub(crate) fn push(&mut self, usage: Usage, disk_bytes: u64, counted: u64) -> Rates {
        let tick = Tick {
            at: self.started.elapsed(),
            usage,
            disk_bytes,
            counted,
        };
        let before = self.all.last().copied();
        self.all.push(tick);
        before.map_or_else(Rates::default, |before| Rates {
            cores: rate(&before, &tick, |tick| tick.usage.cpu.as_secs_f64()),
            counted: rate(&before, &tick, |tick| tick.counted as f64),
        })
    }

    /// Returns CPU and memory over time, and the rate of the count under a name and a unit.
    pub(crate) fn courses(&self, counted: Option<(&str, &str)>) -> Vec<Course> {
        let mut courses = vec![
            self.rates("CPU", "cores", |tick| tick.usage.cpu.as_secs_f64()),
            self.levels("resident memory", "MB", |tick| {
                tick.usage.rss_bytes as f64 / 1e6
            }),
        ];
        courses
            .extend(counted.map(|(key, unit)| self.rates(key, unit, |tick| tick.counted as f64)));
        courses
    }

    /// Returns bytes written and the data directory's size over time.
    pub(crate) fn disk_courses(&self) -> [Course; 2] {
        [
            self.rates("written to disk", "MB/s", |tick| {
                tick.usage.write_bytes as f64 / 1e6
            }),
            self.levels("data directory", "MB", |tick| tick.disk_bytes as f64 / 1e6),
        ]
    }

    /// Returns as many of the readings as a plot shows.
    fn shown(&self) -> impl Iterator<Item = &Tick> {
        self.all
            .iter()
            .step_by(self.all.len().div_ceil(MOST_POINTS).max(1))
    }

    fn levels(&self, key: &str, unit: &str, value: fn(&Tick) -> f64) -> Course {
        let points = self.shown();
        Course::new(
            key,
            unit,
            points.map(|tick| [tick.at.as_secs_f64(), value(tick)]),
        )
    }

    fn rates(&self, key: &str, unit: &str, total: fn(&Tick) -> f64) -> Course {
        let pairs = self.shown().zip(self.shown().skip(1));
        let points = pairs.map(|(before, tick)| [tick.at.as_secs_f64(), rate(before, tick, total)]);
        Course::new(key, unit, points)
    }
}

/// Returns the rate of a total between two readings; a total that shrinks is a restarted process'.
fn rate(before: &Tick, tick: &Tick, total: fn(&Tick) -> f64) -> f64 {
    let grown = (total(tick) - total(before)).max(0.0);
    grown / (tick.at - before.at).as_secs_f64().max(1e-3)
}

#[cfg(test)]
mod tests;
