//! A run plan built from flags.
//!
//! **Invariant:** values out of range or in conflict are refused before a server is started.

use super::{
    body::{Format, LAST_ROUND},
    fleet::{Encoding, PushMode, Settings},
};
use crate::harness::{BenchError, Values, choices};
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
            base: values.dir()?,
        };
        let flags = &plan.flags;
        let (interval, duration) = (flags.interval, flags.duration);
        if interval < Duration::from_millis(10) {
            return Err(values.wrong("interval", "is at least 10ms"));
        }
        if duration < interval {
            return Err(values.wrong("duration", "is at least one interval"));
        }
        if flags.push_timeout.is_zero() || flags.fill_limit.is_zero() {
            return Err(values.wrong("push-timeout", "no push takes no time"));
        }
        let whole = flags.warmup + duration * 2 + interval * 8;
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
        let fleet = &self.settings;
        u64::from(fleet.hosts) * u64::from(fleet.processes) * fleet.series as u64
    }

    /// Returns the approximate duration of one run.
    pub(crate) fn each(&self) -> Duration {
        let windows = 1 + u32::from(!self.flags.scrape_every.is_zero());
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
mod tests;
