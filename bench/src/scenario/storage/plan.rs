//! Everything the scenario can be told, read and checked.

use crate::{
    frame::{
        cli::{Values, usage},
        error::BenchError,
    },
    load::fleet_server::{FleetConfig, MAX_TARGETS},
};
use std::{path::PathBuf, time::Duration};

/// What is going to be done.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) fleet: FleetConfig,
    pub(super) interval: Duration,
    pub(super) warmup: Duration,
    pub(super) duration: Duration,
    pub(super) repetitions: usize,
    /// Where servers keep their data.
    pub(super) base: PathBuf,
}

impl Plan {
    /// Reads the flags.
    ///
    /// # Errors
    ///
    /// When a value is out of range.
    pub(super) fn from_values(values: &Values) -> Result<Self, BenchError> {
        let plan = Self {
            fleet: FleetConfig {
                targets: values.number("targets", 1..=MAX_TARGETS as u64)? as usize,
                // Fewer than this have no family that queries ask for.
                series: values.number("series", 4..=1_000_000)? as usize,
                seed: values.seed()?,
                gzip: values.switch("gzip")?,
                line_labels: values.switch("line-labels")?,
            },
            interval: values.time("interval")?,
            warmup: values.time("warmup")?,
            duration: values.time("duration")?,
            repetitions: values.repetitions()?,
            base: values.dir()?,
        };
        if plan.interval < Duration::from_millis(100) {
            return Err(values.wrong("interval", "at least 100ms"));
        }
        if plan.warmup < plan.interval * 2 || plan.duration < plan.interval {
            return Err(usage(
                "--warmup is at least two intervals and --duration one",
            ));
        }
        Ok(plan)
    }

    /// Returns the number of series of the whole fleet.
    pub(super) fn all_series(&self) -> u64 {
        self.fleet.targets as u64 * self.fleet.series as u64
    }

    /// Returns about how long one server takes: starting, queries and the restart take two intervals and some seconds.
    pub(super) fn each(&self) -> Duration {
        self.warmup + self.duration + self.interval * 2 + Duration::from_secs(5)
    }

    /// Says in one sentence what is done.
    pub(super) fn title(&self) -> String {
        let FleetConfig {
            targets,
            series,
            gzip,
            line_labels,
            ..
        } = self.fleet;
        format!(
            "{targets} targets x {series} series every {:?}{}{}, {:?} after {:?} of warm-up",
            self.interval,
            if gzip { ", gzip" } else { "" },
            if line_labels {
                ", target labels in every line"
            } else {
                ""
            },
            self.duration,
            self.warmup,
        )
    }
}
