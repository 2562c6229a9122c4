//! A run plan built from flags.
//!
//! **Invariant:** values out of range or in conflict are refused before a server is started.

use super::{
    body::{Format, LAST_ROUND},
    fleet::{Encoding, PushMode, Settings},
};
use crate::harness::{
    cli::{Values, choices},
    error::BenchError,
};
use narthex_cli::flags;
use std::{path::PathBuf, time::Duration};

/// Maximum series of a fleet: stored values are read back into eight bytes each.
const MOST_SERIES: u64 = 20_000_000;

choices! {
    /// What a push replaces.
    pub(crate) enum Method {
        Put = "put",
        Post = "post",
    }
}

choices! {
    /// Whose series a push carries.
    pub(crate) enum Unit {
        Process = "process",
        Host = "host",
    }
}

choices! {
    /// How many gateways there are.
    pub(crate) enum GatewayCount {
        One = "one",
        Host = "host",
    }
}

flags! {
    /// What `push` takes.
    #[derive(Debug)]
    pub(crate) struct Flags {
        /// Hosts of the fleet.
        hosts: u32 = "hosts", default("5"), within(1, 1_000);
        /// Processes of each host.
        processes: u32 = "processes", default("8"), within(1, 1_000);
        /// Series of each process.
        series: usize = "series", default("600"), within(1, 100_000);
        /// Time between pushes of a process.
        interval: Duration = "interval", default("5s");
        /// What bodies are written in.
        format: Format = "format", default("text");
        /// Whether a push replaces its group, or families of it.
        method: Method = "method", default("put");
        /// Whether each process pushes its own series, or those of a host are merged into one push.
        batch: Unit = "batch", default("process");
        /// How bodies are compressed.
        encoding: Encoding = "encoding", default("plain");
        /// One gateway for all, or one for each host.
        gateways: GatewayCount = "gateways", default("one");
        /// Measure the incident's remedies too: a push a host, with gzip, and with a gateway a host.
        remedies: bool = "remedies";
        /// Connections that push; a push that is due waits for a free one.
        pushers: usize = "pushers", default("25"), within(1, 1_000);
        /// Time between scrapes; with 0s there are none.
        scrape_every: Duration = "scrape-every", default("15s");
        /// Time of pushing on schedule before measuring.
        warmup: Duration = "warmup", default("5s");
        /// Time measured, without scrapes and again with them.
        duration: Duration = "duration", default("30s");
        /// How long every group's first push may take, all together.
        fill_limit: Duration = "fill-limit", default("10m");
        /// When a push without an answer has failed.
        push_timeout: Duration = "push-timeout", default("60s");
        /// Refuse a run whose generator started 1 % of its pushes later than this, and than a tenth of their latency.
        max_late: Duration = "max-late", default("5ms");
        /// Give the gateways a persistence file, restart them at the end and compare again.
        persist: bool = "persist";
    }
}

/// Measurements of every gateway.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) flags: Flags,
    pub(crate) settings: Settings,
    /// One variant each.
    pub(crate) modes: Vec<PushMode>,
    pub(crate) repetitions: usize,
    pub(crate) base: PathBuf,
}

impl Plan {
    /// Reads the flags.
    pub(crate) fn from_values(values: &Values) -> Result<Self, BenchError> {
        let flags = values.read(Flags::from_values)?;
        let plan = Self {
            settings: Settings {
                hosts: flags.hosts,
                processes: flags.processes,
                series: flags.series,
                interval: flags.interval,
                format: flags.format,
                method: match flags.method {
                    Method::Put => "PUT",
                    Method::Post => "POST",
                },
                seed: values.get("seed")?,
            },
            modes: modes(&flags),
            flags,
            repetitions: values.get("repetitions")?,
            base: values.dir()?,
        };
        let Flags {
            interval,
            duration,
            warmup,
            push_timeout,
            fill_limit,
            ..
        } = plan.flags;
        if interval < Duration::from_millis(10) {
            return Err(values.wrong("interval", "is at least 10ms"));
        }
        if duration < interval {
            return Err(values.wrong("duration", "is at least one interval"));
        }
        if push_timeout.is_zero() || fill_limit.is_zero() {
            return Err(values.wrong("push-timeout", "no push takes no time"));
        }
        let whole = warmup + duration * 2 + interval * 8;
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
        let windows = if self.flags.scrape_every.is_zero() {
            1
        } else {
            2
        };
        self.flags.warmup + self.flags.duration * windows + Duration::from_secs(10)
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
        let scraped = match self.flags.scrape_every {
            Duration::ZERO => "not scraped".to_owned(),
            every => format!("without scrapes and scraped every {every:?}"),
        };
        format!(
            "{hosts} hosts × {processes} processes push {series} series each every {interval:?}, {scraped}"
        )
    }
}

/// Returns the mode of the flags, and the incident's three remedies if requested.
fn modes(flags: &Flags) -> Vec<PushMode> {
    let mode = PushMode {
        merges_hosts: flags.batch == Unit::Host,
        encoding: flags.encoding,
        gateway_a_host: flags.gateways == GatewayCount::Host,
    };
    let mut modes = vec![mode];
    if flags.remedies {
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
    modes
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
