//! A run plan built from flags.

use crate::{
    harness::{BenchError, Values, usage},
    load::fleet::{FleetConfig, MAX_TARGETS, Shape},
};
use narthex_cli::flags;
use narthex_testkit::fleet::rule_group;
use std::{path::PathBuf, time::Duration};

/// Rules of a group.
const GROUP_SIZE: usize = 20;
/// With fewer series, a target has no whole family of histograms.
const LEAST_SERIES: i64 = 170;

flags! {
    /// What `rules` takes.
    #[derive(Debug, Clone)]
    pub(super) struct Flags {
        /// Rules, a multiple of 20: groups of 14 recording and 6 alerting ones.
        rules: usize = "rules", default("10000"), within(GROUP_SIZE as i64, 1_000_000);
        /// Targets.
        targets: usize = "targets", default("100"), within(1, MAX_TARGETS as i64);
        /// Series of each target.
        series: usize = "series", default("588"), within(LEAST_SERIES, 2_000_000);
        /// Time between evaluations of a group, and between scrapes of a target.
        interval: Duration = "interval", default("15s");
        /// Time before measuring starts.
        warmup: Duration = "warmup", default("75s");
        /// Time measured, for each server.
        duration: Duration = "duration", default("120s");
        /// Measure every server also without rules, for what these alone cost.
        baseline: bool = "baseline";
    }
}

/// Parameters of a run.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) flags: Flags,
    pub(super) fleet: FleetConfig,
    /// Directory for servers' data.
    pub(super) base: PathBuf,
}

impl Plan {
    /// Reads the flags.
    pub(super) fn from_values(values: &Values) -> Result<Self, BenchError> {
        let flags = values.read(Flags::from_values)?;
        if !flags.rules.is_multiple_of(GROUP_SIZE) {
            let what = format!("{} is not a multiple of {GROUP_SIZE}", flags.rules);
            return Err(values.wrong("rules", what));
        }
        if flags.interval < Duration::from_millis(100) {
            return Err(values.wrong("interval", "at least 100ms"));
        }
        // Rules of a group read each other, and alerts wait.
        if flags.warmup < flags.interval * 3 || flags.duration < flags.interval * 2 {
            return Err(usage(
                "--warmup is at least three intervals and --duration two",
            ));
        }
        Ok(Self {
            fleet: FleetConfig {
                targets: flags.targets,
                series: flags.series,
                seed: values.get("seed")?,
                shape: Shape::Service,
                gzip: false,
                line_labels: false,
                clock: None,
            },
            base: values.dir()?,
            flags,
        })
    }

    /// Returns the number of groups.
    pub(super) fn groups(&self) -> usize {
        self.flags.rules / GROUP_SIZE
    }

    /// Returns one group of rules, as an entry of a rule file.
    pub(super) fn group(&self, at: usize) -> String {
        let interval_ms = self.flags.interval.as_millis() as u64;
        rule_group(at, self.fleet.series, interval_ms)
    }

    /// Returns the approximate time for one server: starting and reading the rules take some seconds.
    pub(super) fn each(&self) -> Duration {
        let one = self.flags.warmup + self.flags.duration + Duration::from_secs(15);
        one * (1 + u32::from(self.flags.baseline))
    }

    /// Describes the plan in one sentence.
    pub(super) fn title(&self) -> String {
        let Flags {
            rules,
            targets,
            series,
            interval,
            warmup,
            duration,
            ..
        } = self.flags;
        format!(
            "{rules} rules in {} groups over {targets} targets x {series} series, all every {interval:?}, {duration:?} \
             after {warmup:?} of warm-up",
            self.groups()
        )
    }
}

#[cfg(test)]
mod tests;
