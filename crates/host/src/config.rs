//! What to collect, from where, and which devices: node_exporter's flags of the ten collectors as one value.
//!
//! Invariant: the default value of every field is node_exporter 1.12's default for the flag its comment names.

use std::path::PathBuf;

use narthex_model::LabelSet;

use crate::error::HostError;
use crate::filter::Filter;

/// Everything [`HostSource`](crate::HostSource) can be told.
#[derive(Debug, Clone)]
pub struct HostConfig {
    /// Where procfs is mounted (`--path.procfs`, `/proc`).
    pub procfs: PathBuf,
    /// Where sysfs is mounted (`--path.sysfs`, `/sys`).
    pub sysfs: PathBuf,
    /// Where the host's root is mounted (`--path.rootfs`, `/`); stripped from mount points, prefixed for `statfs`.
    pub rootfs: PathBuf,
    /// Where udev keeps device properties (`--path.udev.data`, `/run/udev/data`).
    pub udev_data: PathBuf,
    /// The value of `TZ`; `None` means the variable is not set and `/etc/localtime` rules.
    pub timezone: Option<String>,
    /// Which collectors run (`--[no-]collector.<name>`, all).
    pub collectors: CollectorSet,
    /// Labels that every series carries; none may be a label these metrics have themselves.
    pub common: LabelSet,
    /// Labels of `node_exporter_build_info`.
    pub build: BuildInfo,
    /// The cpu collector's flags.
    pub cpu: CpuConfig,
    /// `--collector.diskstats.device-include` and `-exclude`.
    pub diskstats: FilterConfig,
    /// The filesystem collector's flags.
    pub filesystem: FilesystemConfig,
    /// The netdev collector's flags.
    pub netdev: NetdevConfig,
    /// Whether softirqs are reported per vector (`--collector.stat.softirq`, off).
    pub stat_softirq: bool,
    /// Which fields of `/proc/vmstat` are reported (`--collector.vmstat.fields`).
    pub vmstat_fields: String,
    /// Age at which slowly changing facts (udev properties, clock sources, mount options, the host's name) are read
    /// again, in milliseconds. Devices, mounts and CPUs that come or go are seen at once, whatever this says.
    pub refresh_ms: i64,
}

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            procfs: "/proc".into(),
            sysfs: "/sys".into(),
            rootfs: "/".into(),
            udev_data: "/run/udev/data".into(),
            timezone: None,
            collectors: CollectorSet::all(),
            common: LabelSet::empty(),
            build: BuildInfo::default(),
            cpu: CpuConfig::default(),
            diskstats: FilterConfig::default(),
            filesystem: FilesystemConfig::default(),
            netdev: NetdevConfig::default(),
            stat_softirq: false,
            vmstat_fields: "^(oom_kill|pgpg|pswp|pg.*fault).*".into(),
            refresh_ms: 60_000,
        }
    }
}

/// One collector, named as in `--collector.<name>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CollectorKind {
    /// Seconds per CPU and mode, throttling, isolation, information.
    Cpu,
    /// Block device counters and properties.
    Diskstats,
    /// Sizes of mounted file systems.
    Filesystem,
    /// Load averages.
    Loadavg,
    /// `/proc/meminfo`.
    Meminfo,
    /// Network device counters.
    Netdev,
    /// Interrupts, context switches, forks, boot time.
    Stat,
    /// System time, zone and clock sources.
    Time,
    /// Kernel and host names.
    Uname,
    /// Selected fields of `/proc/vmstat`.
    Vmstat,
}

impl CollectorKind {
    /// All collectors, in the order of their names.
    pub const ALL: [Self; 10] = [
        Self::Cpu,
        Self::Diskstats,
        Self::Filesystem,
        Self::Loadavg,
        Self::Meminfo,
        Self::Netdev,
        Self::Stat,
        Self::Time,
        Self::Uname,
        Self::Vmstat,
    ];

    /// Returns the name used in flags and in the `collector` label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Diskstats => "diskstats",
            Self::Filesystem => "filesystem",
            Self::Loadavg => "loadavg",
            Self::Meminfo => "meminfo",
            Self::Netdev => "netdev",
            Self::Stat => "stat",
            Self::Time => "time",
            Self::Uname => "uname",
            Self::Vmstat => "vmstat",
        }
    }

    /// Returns the collector of that name, or `None`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A set of collectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectorSet(u16);

impl CollectorSet {
    /// Returns the set of every collector.
    pub fn all() -> Self {
        CollectorKind::ALL
            .into_iter()
            .fold(Self::none(), Self::with)
    }

    /// Returns the empty set.
    pub fn none() -> Self {
        Self(0)
    }

    /// Returns this set and `kind`.
    #[must_use]
    pub fn with(self, kind: CollectorKind) -> Self {
        Self(self.0 | 1 << kind as u16)
    }

    /// Returns this set without `kind`.
    #[must_use]
    pub fn without(self, kind: CollectorKind) -> Self {
        Self(self.0 & !(1 << kind as u16))
    }

    /// Tells whether `kind` is in the set.
    pub fn contains(self, kind: CollectorKind) -> bool {
        self.0 & (1 << kind as u16) != 0
    }
}

/// Labels of `node_exporter_build_info`.
#[derive(Debug, Clone)]
pub struct BuildInfo {
    /// Release.
    pub version: String,
    /// Source revision.
    pub revision: String,
    /// Source branch.
    pub branch: String,
    /// Version of the compiler; the label is called `goversion`.
    pub goversion: String,
    /// Build tags.
    pub tags: String,
}

impl Default for BuildInfo {
    fn default() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").into(),
            revision: "unknown".into(),
            branch: String::new(),
            goversion: String::new(),
            tags: "unknown".into(),
        }
    }
}

/// Include and exclude patterns of one filter. Patterns match anywhere unless anchored.
///
/// `exclude: None` stands for the collector's default pattern, which an `include` switches off. An empty pattern is
/// no pattern. Giving both is an error.
#[derive(Debug, Clone, Default)]
pub struct FilterConfig {
    /// Only names that match are kept.
    pub include: Option<String>,
    /// Names that match are dropped.
    pub exclude: Option<String>,
}

impl FilterConfig {
    pub(crate) fn compile(&self, flags: &FilterFlags) -> Result<Filter, HostError> {
        let given = |pattern: &Option<String>| pattern.clone().filter(|p| !p.is_empty());
        let include = given(&self.include);
        if include.is_some() && given(&self.exclude).is_some() {
            return Err(HostError::Exclusive {
                include: flags.include,
                exclude: flags.exclude,
            });
        }
        let exclude = match (&self.exclude, &include) {
            (Some(pattern), _) => Some(pattern.as_str()).filter(|p| !p.is_empty()),
            (None, Some(_)) => None,
            (None, None) => Some(flags.default_exclude).filter(|p| !p.is_empty()),
        };
        Filter::new(
            (flags.include, include.as_deref()),
            (flags.exclude, exclude),
        )
    }
}

/// Flag names and the default exclusion of one filter.
pub(crate) struct FilterFlags {
    pub(crate) include: &'static str,
    pub(crate) exclude: &'static str,
    pub(crate) default_exclude: &'static str,
}

pub(crate) const DISKSTATS_DEVICE: FilterFlags = FilterFlags {
    include: "collector.diskstats.device-include",
    exclude: "collector.diskstats.device-exclude",
    default_exclude: r"^(z?ram|loop|fd|(h|s|v|xv)d[a-z]|nvme\d+n\d+p)\d+$",
};

pub(crate) const MOUNT_POINTS: FilterFlags = FilterFlags {
    include: "collector.filesystem.mount-points-include",
    exclude: "collector.filesystem.mount-points-exclude",
    default_exclude: r"^/(dev|proc|run/credentials/.+|sys|var/lib/docker/.+|var/lib/containers/storage/.+)($|/)",
};

pub(crate) const FS_TYPES: FilterFlags = FilterFlags {
    include: "collector.filesystem.fs-types-include",
    exclude: "collector.filesystem.fs-types-exclude",
    default_exclude: "^(autofs|binfmt_misc|bpf|cgroup2?|configfs|debugfs|devpts|devtmpfs|fusectl|hugetlbfs|iso9660|\
                      mqueue|nsfs|overlay|proc|procfs|pstore|rpc_pipefs|securityfs|selinuxfs|squashfs|erofs|sysfs|\
                      tracefs)$",
};

pub(crate) const NETDEV_DEVICE: FilterFlags = FilterFlags {
    include: "collector.netdev.device-include",
    exclude: "collector.netdev.device-exclude",
    default_exclude: "",
};

/// Flags of the cpu collector.
#[derive(Debug, Clone)]
pub struct CpuConfig {
    /// Report time spent in guests (`--collector.cpu.guest`, on).
    pub guest: bool,
    /// Report `/proc/cpuinfo` (`--collector.cpu.info`, off).
    pub info: bool,
    /// With `info`: report each CPU's clock. node_exporter ties it to its cpufreq collector, which is on by default.
    pub info_frequency: bool,
    /// Which cpu flags to report (`--collector.cpu.info.flags-include`, none); setting it switches `info` on.
    pub info_flags_include: Option<String>,
    /// Which cpu bugs to report (`--collector.cpu.info.bugs-include`, none); setting it switches `info` on.
    pub info_bugs_include: Option<String>,
}

impl Default for CpuConfig {
    fn default() -> Self {
        Self {
            guest: true,
            info: false,
            info_frequency: true,
            info_flags_include: None,
            info_bugs_include: None,
        }
    }
}

/// Flags of the filesystem collector.
#[derive(Debug, Clone)]
pub struct FilesystemConfig {
    /// `--collector.filesystem.mount-points-include` and `-exclude`.
    pub mount_points: FilterConfig,
    /// `--collector.filesystem.fs-types-include` and `-exclude`.
    pub fs_types: FilterConfig,
    /// Age of an unanswered `statfs` at which its mount is reported as stuck
    /// (`--collector.filesystem.mount-timeout`, 5 s).
    pub mount_timeout_ms: u32,
    /// How many calls of `statfs` may run at once, stuck ones not counted
    /// (`--collector.filesystem.stat-workers`, 4; at least 1).
    pub stat_workers: usize,
    /// How long one collection waits for file systems that answered in time before. A mount that misses it is served
    /// from its last good answer and not waited for again until it has answered.
    pub wait_ms: u32,
}

impl Default for FilesystemConfig {
    fn default() -> Self {
        Self {
            mount_points: FilterConfig::default(),
            fs_types: FilterConfig::default(),
            mount_timeout_ms: 5_000,
            stat_workers: 4,
            wait_ms: 50,
        }
    }
}

/// Where network device counters come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum NetdevSource {
    /// Netlink when `procfs` is a real procfs, else `net/dev` below it (`--collector.netdev.netlink`).
    #[default]
    Auto,
    /// Netlink of this process's network namespace.
    Netlink,
    /// `net/dev` below `procfs` (`--no-collector.netdev.netlink`).
    ProcNetDev,
}

/// Flags of the netdev collector.
#[derive(Debug, Clone, Default)]
pub struct NetdevConfig {
    /// `--collector.netdev.device-include` and `-exclude`.
    pub device: FilterConfig,
    /// Where the counters come from.
    pub source: NetdevSource,
    /// Report the kernel's own counters unfolded (`--collector.netdev.enable-detailed-metrics`, off).
    pub detailed: bool,
    /// Add the label `ifalias` (`--collector.netdev.label-ifalias`, off).
    pub label_ifalias: bool,
    /// Report addresses (`--collector.netdev.address-info`, off).
    pub address_info: bool,
}
