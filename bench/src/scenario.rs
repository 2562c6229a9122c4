//! `storage`: servers scrape the same fleet, one after another, and each is measured from outside.
//!
//! **Invariant:** every server meets the same fleet in its first round, the same configuration and the same phases:
//! start, warm-up, window, checks, queries, crash.

use crate::{
    cli::{Values, usage},
    error::BenchError,
    fleet_server::{FleetConfig, MAX_TARGETS},
    machine,
    outcome::Outcome,
    progress::Progress,
    run::Run,
    server::ServerSpec,
};
use std::{path::PathBuf, time::Duration};

/// Everything the scenario can be told.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) fleet: FleetConfig,
    pub(crate) interval: Duration,
    pub(crate) warmup: Duration,
    pub(crate) duration: Duration,
    pub(crate) servers: Vec<ServerSpec>,
    /// Where servers keep their data.
    pub(crate) base: PathBuf,
}

impl Scenario {
    /// Reads the command line; the installed presets are the servers when it names none.
    ///
    /// # Errors
    ///
    /// When a value is out of range or a server cannot be found.
    pub(crate) fn from_values(values: &Values) -> Result<Self, BenchError> {
        let named: Result<Vec<_>, _> = values.all("server").map(ServerSpec::parse).collect();
        let mut servers = named?;
        if servers.is_empty() {
            let (found, missing) = ServerSpec::installed();
            for name in missing {
                crate::report::say(&format!(
                    "{name} is not installed: name it with --server {name}=PATH"
                ));
            }
            servers = found;
        }
        if servers.is_empty() {
            return Err(usage("there is no server to measure"));
        }
        for (at, server) in servers.iter().enumerate() {
            if servers[..at]
                .iter()
                .any(|other| other.label == server.label)
            {
                let label = &server.label;
                return Err(usage(format!(
                    "--server: two are called {label}; use {label}@other=PATH"
                )));
            }
        }
        let scenario = Self {
            fleet: FleetConfig {
                targets: values.number("targets", 1..=MAX_TARGETS as u64)? as usize,
                // Fewer than this have no family that queries ask for.
                series: values.number("series", 4..=1_000_000)? as usize,
                seed: values.number("seed", 0..=u64::from(u32::MAX))?,
                gzip: values.switch("gzip")?,
                line_labels: values.switch("line-labels")?,
            },
            interval: values.time("interval")?,
            warmup: values.time("warmup")?,
            duration: values.time("duration")?,
            servers,
            base: match values.text("dir") {
                "" => std::env::temp_dir(),
                dir => PathBuf::from(dir),
            },
        };
        scenario.check()?;
        Ok(scenario)
    }

    fn check(&self) -> Result<(), BenchError> {
        if self.interval < Duration::from_millis(100) {
            return Err(usage("--interval is at least 100ms"));
        }
        if self.warmup < self.interval * 2 || self.duration < self.interval {
            return Err(usage(
                "--warmup is at least two intervals and --duration one",
            ));
        }
        if !self.base.is_dir() {
            return Err(usage(format!(
                "--dir: {} is no directory",
                self.base.display()
            )));
        }
        if machine::is_in_memory(&self.base) {
            return Err(usage(format!(
                "{} lies in memory, where written bytes are not counted: name another directory with --dir",
                self.base.display()
            )));
        }
        Ok(())
    }

    /// Returns the number of series of the whole fleet.
    pub(crate) fn all_series(&self) -> u64 {
        self.fleet.targets as u64 * self.fleet.series as u64
    }

    /// Measures every server.
    ///
    /// # Errors
    ///
    /// When a server fails, answers wrongly, or the result is refused.
    pub(crate) fn run(&self) -> Result<Vec<Outcome>, BenchError> {
        // Starting, queries and the restart take about two intervals and some seconds.
        let each = self.warmup + self.duration + self.interval * 2 + Duration::from_secs(5);
        let mut progress = Progress::new(each * self.servers.len() as u32);
        self.servers
            .iter()
            .map(|spec| Run::start(self, spec, &mut progress)?.finish())
            .collect()
    }
}
