//! What a server used and did, read again and again while it runs.

use super::measure::Usage;
use crate::record::{Course, Readings};
use std::time::{Duration, Instant};

/// One reading.
#[derive(Debug, Clone, Copy)]
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

/// What a second between two readings came to.
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

    /// Adds a reading; `counted` is whatever the scenario counts. Returns the rates since the one before.
    pub(crate) fn push(&mut self, usage: Usage, disk_bytes: u64, counted: u64) -> Rates {
        let at = self.started.elapsed();
        let before = self.all.last().copied();
        self.all.push(Tick {
            at,
            usage,
            disk_bytes,
            counted,
        });
        before.map_or_else(Rates::default, |before| {
            let seconds = (at - before.at).as_secs_f64().max(1e-9);
            let cpu = usage.cpu.saturating_sub(before.usage.cpu);
            Rates {
                cores: cpu.as_secs_f64() / seconds,
                counted: counted.saturating_sub(before.counted) as f64 / seconds,
            }
        })
    }

    /// Returns CPU and memory over time, and the rate of what was counted under a name and a unit.
    pub(crate) fn courses(&self, counted: Option<(&str, &str)>) -> Vec<Course> {
        let readings = Readings::new(&self.all, |tick| tick.at);
        let mut courses = vec![
            readings.rate("CPU", "cores", |tick| tick.usage.cpu.as_secs_f64()),
            readings.level("resident memory", "MB", |tick| {
                tick.usage.rss_bytes as f64 / 1e6
            }),
        ];
        if let Some((key, unit)) = counted {
            courses.push(readings.rate(key, unit, |tick| tick.counted as f64));
        }
        courses
    }

    /// Returns what was written and what the data directory takes over time.
    pub(crate) fn disk_courses(&self) -> [Course; 2] {
        let readings = Readings::new(&self.all, |tick| tick.at);
        [
            readings.rate("written to disk", "MB/s", |tick| {
                tick.usage.write_bytes as f64 / 1e6
            }),
            readings.level("data directory", "MB", |tick| tick.disk_bytes as f64 / 1e6),
        ]
    }
}
