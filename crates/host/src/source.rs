//! The source of host metrics: runs the collectors and hands out the round's frame.
//!
//! Invariant: in a round in which no device, mount or CPU came or went, only numbers move: no allocation, no string.

use std::time::{Duration, Instant};

use narthex_model::{Frame, Schema};

use crate::collector::cpu::Cpu;
use crate::collector::diskstats::Diskstats;
use crate::collector::filesystem::Filesystem;
use crate::collector::loadavg::Loadavg;
use crate::collector::meminfo::Meminfo;
use crate::collector::netdev::Netdev;
use crate::collector::stat::Stat;
use crate::collector::time::Time;
use crate::collector::uname::Uname;
use crate::collector::vmstat::Vmstat;
use crate::collector::{Collector, Ctx};
use crate::config::{BuildInfo, CollectorKind, HostConfig};
use crate::error::HostError;
use crate::filter;
use crate::kept::{KeptFile, ReadBuf};
use crate::procstat::SharedStat;
use crate::sink::{Kind, Sink, Slot};
use crate::statfs::{KernelStatfs, Statfs};

/// The host as an origin of metrics: one schema that follows devices, mounts and CPUs, one frame per round.
pub struct HostSource {
    collectors: Vec<Running>,
    sink: Sink,
    buf: ReadBuf,
    stat: SharedStat,
    build_info: Option<Slot>,
    build: BuildInfo,
    round: u64,
    refresh_ms: i64,
    refreshed_ms: Option<i64>,
}

/// Every label name of these metrics.
const OWN_LABELS: [&str; 51] = [
    "__name__",
    "address",
    "branch",
    "bug",
    "cachesize",
    "clocksource",
    "collector",
    "core",
    "cpu",
    "device",
    "device_error",
    "domainname",
    "family",
    "flag",
    "fstype",
    "goarch",
    "goos",
    "goversion",
    "ifalias",
    "lv_layer",
    "lv_name",
    "machine",
    "major",
    "microcode",
    "minor",
    "mode",
    "model",
    "model_name",
    "mountpoint",
    "name",
    "netmask",
    "nodename",
    "package",
    "path",
    "release",
    "revision",
    "rotational",
    "scope",
    "serial",
    "stepping",
    "sysname",
    "tags",
    "time_zone",
    "type",
    "usage",
    "uuid",
    "vector",
    "vendor",
    "version",
    "vg_name",
    "wwn",
];

struct Running {
    collector: Box<dyn Collector>,
    slots: Option<(Slot, Slot)>,
    prepared: Duration,
    error: Option<HostError>,
}

impl HostSource {
    /// Returns a source that has not read anything yet.
    ///
    /// # Errors
    ///
    /// `Pattern` and `Exclusive` for filters that can't be used, `CommonLabel` for a common label that some of the
    /// series have themselves.
    pub fn new(config: HostConfig) -> Result<Self, HostError> {
        Self::with_statfs(config, Box::new(KernelStatfs))
    }

    /// As [`new`](Self::new), with another way to ask for a file system's size.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    #[doc(hidden)]
    pub fn with_statfs(config: HostConfig, statfs: Box<dyn Statfs>) -> Result<Self, HostError> {
        if let Some(label) = config
            .common
            .iter()
            .find(|label| OWN_LABELS.contains(&label.name()))
        {
            return Err(HostError::CommonLabel {
                name: label.name().into(),
            });
        }
        let collectors = start_collectors(&config, statfs)?;
        Ok(Self {
            collectors,
            sink: Sink::new(config.common),
            buf: ReadBuf::new(),
            stat: SharedStat::new(config.procfs.join("stat")),
            build_info: None,
            build: config.build,
            round: 0,
            refresh_ms: config.refresh_ms,
            refreshed_ms: None,
        })
    }

    /// Collects one round and returns its frame, stamped `now_ms`.
    ///
    /// Never fails as a whole: a collector that fails leaves its series out, reports
    /// `node_scrape_collector_success` 0 and tells why in [`error`](Self::error). File systems that don't answer cost
    /// at most the configured wait, once.
    pub fn collect(&mut self, now_ms: i64) -> &Frame {
        self.round += 1;
        let refresh = self.refresh_due(now_ms);
        self.sink.begin();
        let mut ctx = Ctx {
            buf: &mut self.buf,
            stat: &mut self.stat,
            round: self.round,
            refresh,
        };
        // Each collector's end is the next one's start: one look at the clock instead of two.
        let mut clock = Instant::now();
        for running in &mut self.collectors {
            clock = running.prepare(clock, &mut ctx, &mut self.sink);
        }
        for running in &mut self.collectors {
            clock = running.collect(clock, &mut ctx, &mut self.sink);
        }
        let build_info = *self
            .build_info
            .get_or_insert_with(|| build_info(&self.build, &mut self.sink));
        self.sink.set(build_info, 1.0);
        self.sink.finish(now_ms)
    }

    /// Returns the last round's frame; before the first round, an empty one.
    pub fn frame(&self) -> &Frame {
        self.sink.frame()
    }

    /// Returns the schema of the last round.
    pub fn schema(&self) -> &Schema {
        self.sink.schema()
    }

    /// Returns why `kind` failed in the last round, or `None` if it did not.
    pub fn error(&self, kind: CollectorKind) -> Option<&HostError> {
        self.collectors
            .iter()
            .find(|running| running.collector.kind() == kind)?
            .error
            .as_ref()
    }

    fn refresh_due(&mut self, now_ms: i64) -> bool {
        // A clock that was set back must not keep old facts alive.
        let due = self
            .refreshed_ms
            .is_none_or(|at| now_ms < at || now_ms - at >= self.refresh_ms);
        if due {
            self.refreshed_ms = Some(now_ms);
        }
        due
    }
}

impl Running {
    fn prepare(&mut self, start: Instant, ctx: &mut Ctx<'_>, out: &mut Sink) -> Instant {
        self.prepared = Duration::ZERO;
        self.error = None;
        if !self.collector.has_preparation() {
            return start;
        }
        out.set_owner(self.collector.kind() as u8);
        self.error = self.collector.prepare(ctx, out).err();
        let end = Instant::now();
        self.prepared = end - start;
        end
    }

    fn collect(&mut self, start: Instant, ctx: &mut Ctx<'_>, out: &mut Sink) -> Instant {
        let kind = self.collector.kind();
        out.set_owner(kind as u8);
        if self.error.is_none() {
            self.error = self.collector.collect(ctx, out).err();
        }
        if self.error.is_some() {
            out.discard(kind as u8);
        }
        let end = Instant::now();
        // The two series below are the source's own: a failing collector must not take them back.
        out.set_owner(u8::MAX);
        let (duration, success) = *self.slots.get_or_insert_with(|| own_series(kind, out));
        out.set(duration, (self.prepared + (end - start)).as_secs_f64());
        out.set(success, if self.error.is_none() { 1.0 } else { 0.0 });
        end
    }
}

fn own_series(kind: CollectorKind, out: &mut Sink) -> (Slot, Slot) {
    let labels = [("collector", kind.name())];
    let help = "node_exporter: Duration of a collector scrape.";
    let duration = out.family("node_scrape_collector_duration_seconds", Kind::Gauge, help);
    let help = "node_exporter: Whether a collector succeeded.";
    let success = out.family("node_scrape_collector_success", Kind::Gauge, help);
    (
        out.series(&duration, &labels),
        out.series(&success, &labels),
    )
}

fn build_info(build: &BuildInfo, out: &mut Sink) -> Slot {
    out.set_owner(u8::MAX);
    let help = "A metric with a constant '1' value labeled by version, revision, branch, goversion from which \
                node_exporter was built, and the goos and goarch for the build.";
    let family = out.family("node_exporter_build_info", Kind::Gauge, help);
    // Go's names: dashboards select on them.
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let labels = [
        ("branch", build.branch.as_str()),
        ("goarch", arch),
        ("goos", std::env::consts::OS),
        ("goversion", build.goversion.as_str()),
        ("revision", build.revision.as_str()),
        ("tags", build.tags.as_str()),
        ("version", build.version.as_str()),
    ];
    out.series(&family, &labels)
}

fn start_collectors(
    config: &HostConfig,
    statfs: Box<dyn Statfs>,
) -> Result<Vec<Running>, HostError> {
    let proc_file = |name: &str| KeptFile::new(config.procfs.join(name));
    let mut statfs = Some(statfs);
    let mut collectors: Vec<Running> = Vec::new();
    for kind in CollectorKind::ALL
        .into_iter()
        .filter(|kind| config.collectors.contains(*kind))
    {
        let collector: Box<dyn Collector> = match kind {
            CollectorKind::Cpu => Box::new(Cpu::new(config)?),
            CollectorKind::Diskstats => Box::new(Diskstats::new(config)?),
            CollectorKind::Filesystem => Box::new(Filesystem::new(
                config,
                statfs.take().expect("one filesystem collector"),
            )?),
            CollectorKind::Loadavg => Box::new(Loadavg::new(proc_file("loadavg"))),
            CollectorKind::Meminfo => Box::new(Meminfo::new(proc_file("meminfo"))),
            CollectorKind::Netdev => Box::new(Netdev::new(config)?),
            CollectorKind::Stat => Box::new(Stat::new(config.stat_softirq)),
            CollectorKind::Time => Box::new(Time::new(config)),
            CollectorKind::Uname => Box::new(Uname::default()),
            CollectorKind::Vmstat => {
                let fields = filter::compile("collector.vmstat.fields", &config.vmstat_fields)?;
                Box::new(Vmstat::new(proc_file("vmstat"), fields))
            }
        };
        collectors.push(Running {
            collector,
            slots: None,
            prepared: Duration::ZERO,
            error: None,
        });
    }
    Ok(collectors)
}
