//! A run plan built from flags.
//!
//! **Invariant:** values out of range or in conflict are refused before a server is started.

use super::{
    body::{Format, LAST_ROUND},
    fleet::{Encoding, PushMode, Settings},
};
use crate::harness::{cli::Values, error::BenchError};
use std::{path::PathBuf, time::Duration};

/// Maximum series of a fleet: stored values are read back into eight bytes each.
const MOST_SERIES: u64 = 20_000_000;

/// Measurements of every gateway.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) settings: Settings,
    /// One variant each.
    pub(crate) modes: Vec<PushMode>,
    pub(crate) pushers: usize,
    pub(crate) scrape_every: Duration,
    pub(crate) warmup: Duration,
    pub(crate) duration: Duration,
    pub(crate) fill_limit: Duration,
    pub(crate) limit: Duration,
    pub(crate) persist: bool,
    pub(crate) max_late: Duration,
    pub(crate) repetitions: usize,
    pub(crate) base: PathBuf,
}

impl Plan {
    /// Reads the flags.
    pub(crate) fn from_values(values: &Values) -> Result<Self, BenchError> {
        let plan = Self {
            settings: Settings {
                hosts: values.number("hosts", 1..=1_000)? as u32,
                processes: values.number("processes", 1..=1_000)? as u32,
                series: values.number("series", 1..=100_000)? as usize,
                interval: values.time("interval")?,
                format: values.choice(
                    "format",
                    &[("text", Format::Text), ("protobuf", Format::Protobuf)],
                )?,
                method: values.choice("method", &[("put", "PUT"), ("post", "POST")])?,
                seed: values.seed()?,
            },
            modes: modes(values)?,
            pushers: values.number("pushers", 1..=1_000)? as usize,
            scrape_every: values.time("scrape-every")?,
            warmup: values.time("warmup")?,
            duration: values.time("duration")?,
            fill_limit: values.time("fill-limit")?,
            limit: values.time("push-timeout")?,
            persist: values.switch("persist")?,
            max_late: values.time("max-late")?,
            repetitions: values.repetitions()?,
            base: values.dir()?,
        };
        let interval = plan.settings.interval;
        if interval < Duration::from_millis(10) {
            return Err(values.wrong("interval", "is at least 10ms"));
        }
        if plan.duration < interval {
            return Err(values.wrong("duration", "is at least one interval"));
        }
        if plan.limit.is_zero() || plan.fill_limit.is_zero() {
            return Err(values.wrong("push-timeout", "no push takes no time"));
        }
        let whole = plan.warmup + plan.duration * 2 + interval * 8;
        if whole.as_nanos() / interval.as_nanos() > u128::from(LAST_ROUND) {
            return Err(values.wrong("duration", "has too many intervals"));
        }
        if plan.all_series() > MOST_SERIES {
            return Err(values.wrong("series", format!("more than {MOST_SERIES} in all")));
        }
        Ok(plan)
    }

    /// Returns the series of all processes.
    pub(crate) fn all_series(&self) -> u64 {
        let Settings {
            hosts,
            processes,
            series,
            ..
        } = self.settings;
        u64::from(hosts) * u64::from(processes) * series as u64
    }

    /// Returns the approximate duration of one run.
    pub(crate) fn each(&self) -> Duration {
        let windows = if self.scrape_every.is_zero() { 1 } else { 2 };
        self.warmup + self.duration * windows + Duration::from_secs(10)
    }

    /// Describes the plan in one sentence.
    pub(crate) fn title(&self) -> String {
        let Settings {
            hosts,
            processes,
            series,
            interval,
            ..
        } = self.settings;
        let scraped = match self.scrape_every {
            Duration::ZERO => "not scraped".to_owned(),
            every => format!("without scrapes and scraped every {every:?}"),
        };
        format!(
            "{hosts} hosts × {processes} processes push {series} series each every {interval:?}, {scraped}"
        )
    }
}

/// Returns the mode of the flags, and the incident's three remedies if requested.
fn modes(values: &Values) -> Result<Vec<PushMode>, BenchError> {
    let encodings = [
        ("plain", Encoding::Plain),
        ("gzip", Encoding::Gzip),
        ("snappy", Encoding::Snappy),
    ];
    let mode = PushMode {
        merges_hosts: values.choice("batch", &[("process", false), ("host", true)])?,
        encoding: values.choice("encoding", &encodings)?,
        gateway_a_host: values.choice("gateways", &[("one", false), ("host", true)])?,
    };
    let mut modes = vec![mode];
    if values.switch("remedies")? {
        let remedies = [
            (Encoding::Plain, false),
            (Encoding::Gzip, false),
            (Encoding::Gzip, true),
        ];
        let remedies = remedies.map(|(encoding, gateway_a_host)| PushMode {
            merges_hosts: true,
            encoding,
            gateway_a_host,
        });
        modes.extend(remedies.into_iter().filter(|remedy| *remedy != mode));
    }
    Ok(modes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(arguments: &[&str]) -> Result<Plan, String> {
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        let values = super::super::SCENARIO.values(&arguments).unwrap();
        Plan::from_values(&values).map_err(|error| error.to_string())
    }

    #[test]
    fn the_defaults_are_small_and_the_remedies_are_three_more_modes() {
        let small = plan(&[]).unwrap();
        assert_eq!(small.all_series(), 24_000);
        assert_eq!(small.modes.len(), 1);
        let title = small.title();
        assert!(
            title.starts_with("5 hosts × 8 processes push 600 series each every 5s"),
            "{title}"
        );
        let names = |arguments: &[&str]| -> Vec<String> {
            let modes = plan(arguments).unwrap().modes;
            modes.into_iter().map(PushMode::name).collect()
        };
        let all = [
            "a push a process",
            "a push a host",
            "a push a host, gzip",
            "a push a host, gzip, a gateway a host",
        ];
        assert_eq!(names(&["--remedies"]), all);
        // A mode is not measured twice.
        assert_eq!(names(&["--remedies", "--batch=host"]), all[1..]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (argument, reason) in [
            ("--interval=5ms", "--interval: is at least 10ms"),
            ("--duration=4s", "--duration: is at least one interval"),
            (
                "--encoding=zstd",
                "--encoding: \"zstd\" is none of plain, gzip, snappy",
            ),
            ("--hosts=0", "--hosts: \"0\" is not a number from 1 to 1000"),
            ("--push-timeout=0s", "--push-timeout: no push takes no time"),
        ] {
            assert_eq!(plan(&[argument]).unwrap_err(), reason);
        }
        let many = plan(&["--hosts=1000", "--processes=1000"]).unwrap_err();
        assert_eq!(many, "--series: more than 20000000 in all");
    }
}
