//! What to collect, and from where: node_exporter's flags as one value.
//!
//! Invariant: every field's default is that of node_exporter 1.12 for the flag named in its comment.

use std::path::PathBuf;
use std::time::Duration;

use narthex_model::LabelSet;

use crate::error::HostError;
use crate::filter::Filter;
use crate::kind::CollectorSet;

/// Configuration of a [`HostSource`](crate::HostSource).
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
    /// Value of `TZ`; `None` means that it is not set and `/etc/localtime` is used.
    pub timezone: Option<String>,
    /// Which collectors run (`--[no-]collector.<name>`).
    pub collectors: CollectorSet,
    /// Whether each collector's CPU time, system calls, bytes and series are reported (`--collector.cost-metrics`, off).
    pub cost_metrics: bool,
    /// Labels that every series gets; none may be a label that these metrics use themselves.
    pub common: LabelSet,
    /// Labels of `node_exporter_build_info`.
    pub build: BuildInfo,
    /// The cpu collector's flags.
    pub cpu: CpuConfig,
    /// `--collector.diskstats.device-include` and `-exclude`.
    pub diskstats: FilterConfig,
    /// The filesystem collector's flags.
    pub filesystem: FilesystemConfig,
    /// `--collector.arp.device-include`, `-exclude`, and whether to read `net/arp` instead of the routing socket.
    pub arp: ArpConfig,
    /// `--collector.ethtool.device-include` and `-exclude`.
    pub ethtool: FilterConfig,
    /// Which of a driver's statistics are reported (`--collector.ethtool.metrics-include`, all).
    pub ethtool_metrics: String,
    /// Whether priorities of caches are reported (`--collector.bcache.priorityStats`, off).
    pub bcache_priority: bool,
    /// `--collector.hwmon.chip-include` and `-exclude`.
    pub hwmon_chips: FilterConfig,
    /// `--collector.hwmon.sensor-include` and `-exclude`, matched with `chip;sensor`.
    pub hwmon_sensors: FilterConfig,
    /// `--collector.infiniband.device-include` and `-exclude`.
    pub infiniband: FilterConfig,
    /// `--collector.interrupts.name-include` and `-exclude`, matched with `name;info;devices`.
    pub interrupts: FilterConfig,
    /// Whether interrupts that never came are reported (`--collector.interrupts.include-zeros`, on).
    pub interrupts_zeros: bool,
    /// Labels of ipvs backends, comma-separated (`--collector.ipvs.backend-labels`, all).
    pub ipvs_labels: String,
    /// The netclass collector's flags.
    pub netclass: NetclassConfig,
    /// The netdev collector's flags.
    pub netdev: NetdevConfig,
    /// Which fields of `net/netstat`, `net/snmp` and `net/snmp6` are reported (`--collector.netstat.fields`).
    pub netstat_fields: String,
    /// The ntp collector's flags.
    pub ntp: NtpConfig,
    /// The perf collector's flags.
    pub perf: PerfConfig,
    /// File with names of PCI devices (`--collector.pcidevice.idsfile`); empty for the distribution's.
    pub pci_ids: PathBuf,
    /// Whether PCI devices are named (`--collector.pcidevice.names`, off).
    pub pci_names: bool,
    /// Supplies to leave out (`--collector.powersupply.ignored-supplies`, `^$`).
    pub powersupply_ignored: String,
    /// `--collector.qdisc.device-include` and `-exclude`.
    pub qdisc: FilterConfig,
    /// Directory of node_exporter's fixtures to read instead of asking the kernel (`--collector.qdisc.fixtures`); empty
    /// for none.
    pub qdisc_fixtures: PathBuf,
    /// Whether energy is one family with a label for the zone (`--collector.rapl.enable-zone-label`, off).
    pub rapl_zone_label: bool,
    /// Directory of runit's services (`--collector.runit.servicedir`, `/etc/service`).
    pub runit_services: PathBuf,
    /// `--collector.slabinfo.slabs-include` and `-exclude`, both of which count.
    pub slabs: FilterConfig,
    /// Where supervisord answers, `http://` or `unix://` (`--collector.supervisord.url`).
    pub supervisord_url: String,
    /// Kernel parameters that are numbers (`--collector.sysctl.include`, none).
    pub sysctl_numbers: Vec<String>,
    /// Kernel parameters that are texts (`--collector.sysctl.include-info`, none).
    pub sysctl_infos: Vec<String>,
    /// Socket of the message bus that the logind and systemd collectors ask (`DBUS_SYSTEM_BUS_ADDRESS`,
    /// `/run/dbus/system_bus_socket`).
    pub system_bus: PathBuf,
    /// The systemd collector's flags.
    pub systemd: SystemdConfig,
    /// Tape drives to leave out (`--collector.tapestats.ignored-devices`, `^$`).
    pub tapestats_ignored: String,
    /// Directories of `*.prom` files, globs allowed (`--collector.textfile.directory`, none).
    pub textfile_directories: Vec<String>,
    /// Whether softirqs are reported per vector (`--collector.stat.softirq`, off).
    pub stat_softirq: bool,
    /// Directory of node_exporter's fixtures to read instead of asking the kernel (`--collector.wifi.fixtures`); empty
    /// for none.
    pub wifi_fixtures: PathBuf,
    /// Which fields of `/proc/vmstat` are reported (`--collector.vmstat.fields`).
    pub vmstat_fields: String,
    /// Age at which slowly changing facts (udev properties, clock sources, mount options, the host's name) are read
    /// again, in milliseconds. Devices, mounts and CPUs that are added or removed are always seen at once.
    pub refresh_ms: i64,
    /// How long the round before the first scrape waits for collectors whose devices may hang.
    pub first_wait_ms: u32,
    /// How long a collection waits for collectors whose devices may hang. A collector that misses it is served from its
    /// last good round, and not waited for again until it was quicker than this.
    pub wait_ms: u32,
    /// How long a collector whose devices may hang may run before it counts as failed. It runs on, and its last good
    /// round is still served.
    pub deadline_ms: u32,
    /// Age at which a hanging collector's last good round is no longer served.
    pub max_age_ms: u32,
}

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            procfs: "/proc".into(),
            sysfs: "/sys".into(),
            rootfs: "/".into(),
            udev_data: "/run/udev/data".into(),
            timezone: None,
            collectors: CollectorSet::defaults(),
            cost_metrics: false,
            common: LabelSet::empty(),
            build: BuildInfo::default(),
            cpu: CpuConfig::default(),
            diskstats: FilterConfig::default(),
            filesystem: FilesystemConfig::default(),
            arp: ArpConfig::default(),
            ethtool: FilterConfig::default(),
            ethtool_metrics: ".*".into(),
            bcache_priority: false,
            hwmon_chips: FilterConfig::default(),
            hwmon_sensors: FilterConfig::default(),
            infiniband: FilterConfig::default(),
            interrupts: FilterConfig::default(),
            interrupts_zeros: true,
            ipvs_labels: IPVS_LABELS.join(","),
            netclass: NetclassConfig::default(),
            netdev: NetdevConfig::default(),
            netstat_fields: NETSTAT_FIELDS.into(),
            ntp: NtpConfig::default(),
            perf: PerfConfig::default(),
            pci_ids: PathBuf::new(),
            pci_names: false,
            powersupply_ignored: NOTHING.into(),
            qdisc: FilterConfig::default(),
            qdisc_fixtures: PathBuf::new(),
            rapl_zone_label: false,
            runit_services: "/etc/service".into(),
            slabs: FilterConfig::default(),
            supervisord_url: "http://localhost:9001/RPC2".into(),
            sysctl_numbers: Vec::new(),
            sysctl_infos: Vec::new(),
            system_bus: "/run/dbus/system_bus_socket".into(),
            systemd: SystemdConfig::default(),
            tapestats_ignored: NOTHING.into(),
            textfile_directories: Vec::new(),
            stat_softirq: false,
            wifi_fixtures: PathBuf::new(),
            vmstat_fields: VMSTAT_FIELDS.into(),
            refresh_ms: 60_000,
            first_wait_ms: 500,
            wait_ms: 50,
            deadline_ms: 5_000,
            max_age_ms: 300_000,
        }
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
/// `exclude: None` means the collector's default pattern, which an `include` disables. An empty pattern counts as no
/// pattern. Giving both is an error.
#[derive(Debug, Clone, Default)]
pub struct FilterConfig {
    /// Only names that match are kept.
    pub include: Option<String>,
    /// Names that match are dropped.
    pub exclude: Option<String>,
}

impl FilterConfig {
    pub(crate) fn compile(&self, flags: &FilterFlags) -> Result<Filter, HostError> {
        if given(&self.include).is_some() && given(&self.exclude).is_some() {
            return Err(HostError::Exclusive {
                flag: flags.include,
                other: flags.exclude,
            });
        }
        if given(&self.include).is_some() || self.exclude.is_some() {
            return self.compile_both(flags);
        }
        let exclude = Some(flags.default_exclude).filter(|pattern| !pattern.is_empty());
        Filter::new((flags.include, None), (flags.exclude, exclude))
    }

    /// As `compile`, where both patterns may be given and none is the default.
    pub(crate) fn compile_both(&self, flags: &FilterFlags) -> Result<Filter, HostError> {
        Filter::new(
            (flags.include, given(&self.include)),
            (flags.exclude, given(&self.exclude)),
        )
    }
}

fn given(pattern: &Option<String>) -> Option<&str> {
    pattern.as_deref().filter(|pattern| !pattern.is_empty())
}

/// Flag names and default exclusion of one filter.
pub(crate) struct FilterFlags {
    pub(crate) include: &'static str,
    pub(crate) exclude: &'static str,
    pub(crate) default_exclude: &'static str,
}

/// Declares filters by what the names of their flags begin with, and the default exclusion.
macro_rules! filter_flags {
    ($($name:ident = $prefix:literal, $default_exclude:expr;)+) => {$(
        pub(crate) const $name: FilterFlags = FilterFlags {
            include: concat!($prefix, "-include"),
            exclude: concat!($prefix, "-exclude"),
            default_exclude: $default_exclude,
        };
    )+};
}

filter_flags! {
    DISKSTATS_DEVICE = "collector.diskstats.device", r"^(z?ram|loop|fd|(h|s|v|xv)d[a-z]|nvme\d+n\d+p)\d+$";
    ETHTOOL_DEVICE = "collector.ethtool.device", "";
    MOUNT_POINTS = "collector.filesystem.mount-points", r"^/(dev|proc|run/credentials/.+|sys|var/lib/docker/.+|var/lib/containers/storage/.+)($|/)";
    FS_TYPES = "collector.filesystem.fs-types", "^(autofs|binfmt_misc|bpf|cgroup2?|configfs|debugfs|devpts|devtmpfs|fusectl|hugetlbfs|iso9660|\
                      mqueue|nsfs|overlay|proc|procfs|pstore|rpc_pipefs|securityfs|selinuxfs|squashfs|erofs|sysfs|\
                      tracefs)$";
    ARP_DEVICE = "collector.arp.device", "";
    HWMON_CHIP = "collector.hwmon.chip", "";
    HWMON_SENSOR = "collector.hwmon.sensor", "";
    INFINIBAND_DEVICE = "collector.infiniband.device", "";
    INTERRUPTS_NAME = "collector.interrupts.name", "";
    QDISC_DEVICE = "collector.qdisc.device", "";
    SLABS = "collector.slabinfo.slabs", "";
    NETDEV_DEVICE = "collector.netdev.device", "";
}

/// The labels of ipvs backends, in node_exporter's order.
pub(crate) const IPVS_LABELS: [&str; 6] = [
    "local_address",
    "local_port",
    "remote_address",
    "remote_port",
    "proto",
    "local_mark",
];

pub(crate) const NETSTAT_FIELDS: &str = "^(.*_(InErrors|InErrs)|Ip_Forwarding|Ip(6|Ext)_(InOctets|OutOctets)|\
                                         Icmp6?_(InMsgs|OutMsgs)|TcpExt_(Listen.*|Syncookies.*|TCPSynRetrans|\
                                         TCPTimeouts|TCPOFOQueue|TCPRcvQDrop)|Tcp_(ActiveOpens|InSegs|OutSegs|OutRsts|\
                                         PassiveOpens|RetransSegs|CurrEstab)|Udp6?_(InDatagrams|OutDatagrams|NoPorts|\
                                         RcvbufErrors|SndbufErrors))$";

pub(crate) const VMSTAT_FIELDS: &str = "^(oom_kill|pgpg|pswp|pg.*fault).*";

/// Matches only the empty name.
const NOTHING: &str = "^$";

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
    /// from its last good answer, and not waited for again until it was quicker than this.
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

/// Flags of the ntp collector.
#[derive(Debug, Clone)]
pub struct NtpConfig {
    /// The server's address (`--collector.ntp.server`, `127.0.0.1`).
    pub server: String,
    /// Its UDP port (`--collector.ntp.server-port`, 123).
    pub port: usize,
    /// Whether a server that is not an address of this host may be asked (`--collector.ntp.server-is-local`, off).
    pub is_local: bool,
    /// `--collector.ntp.protocol-version`, 2 to 4.
    pub version: usize,
    /// Hops that a question may take; 0 for the kernel's default (`--collector.ntp.ip-ttl`, 1).
    pub ttl: usize,
    /// Distance from the reference clock up to which an answer is sane (`--collector.ntp.max-distance`).
    pub max_distance: Duration,
    /// By how much an effect may precede its cause in a sane answer (`--collector.ntp.local-offset-tolerance`).
    pub offset_tolerance: Duration,
}

impl Default for NtpConfig {
    fn default() -> Self {
        Self {
            server: "127.0.0.1".into(),
            port: 123,
            is_local: false,
            version: 4,
            ttl: 1,
            max_distance: Duration::from_nanos(3_466_080_000),
            offset_tolerance: Duration::from_millis(1),
        }
    }
}

/// Flags of the perf collector.
#[derive(Debug, Clone, Default)]
pub struct PerfConfig {
    /// CPUs such as `0,4-6,8-16:4`, where the last number is a stride (`--collector.perf.cpus`, all that are online).
    pub cpus: String,
    /// Tracepoints as `subsystem:event` (`--collector.perf.tracepoint`, none).
    pub tracepoints: Vec<String>,
    /// `--collector.perf.hardware-profilers` and `--collector.perf.disable-hardware-profilers`.
    pub hardware: ProfilersConfig,
    /// `--collector.perf.software-profilers` and `--collector.perf.disable-software-profilers`.
    pub software: ProfilersConfig,
    /// `--collector.perf.cache-profilers` and `--collector.perf.disable-cache-profilers`.
    pub cache: ProfilersConfig,
}

/// Counters of one kind of the perf collector.
#[derive(Debug, Clone, Default)]
pub struct ProfilersConfig {
    /// Whether none is reported.
    pub disabled: bool,
    /// Which are reported; all if none is given.
    pub only: Vec<String>,
}

/// Flags of the systemd collector. Patterns match whole names.
#[derive(Debug, Clone)]
pub struct SystemdConfig {
    /// Units to report (`--collector.systemd.unit-include`).
    pub unit_include: String,
    /// Units to leave out (`--collector.systemd.unit-exclude`).
    pub unit_exclude: String,
    /// Whether to ask systemd itself, without the bus (`--collector.systemd.private`, off).
    pub private: bool,
    /// Whether restarts of services are reported (`--collector.systemd.enable-restarts-metrics`, off).
    pub restarts: bool,
    /// Whether the time when units became active is reported (`--collector.systemd.enable-start-time-metrics`, off).
    pub start_time: bool,
    /// Whether tasks of services are reported (`--collector.systemd.enable-task-metrics`, off).
    pub tasks: bool,
}

pub(crate) const SYSTEMD_INCLUDE: &str = ".+";
pub(crate) const SYSTEMD_EXCLUDE: &str = r".+\.(automount|device|mount|scope|slice)";

impl Default for SystemdConfig {
    fn default() -> Self {
        Self {
            unit_include: SYSTEMD_INCLUDE.into(),
            unit_exclude: SYSTEMD_EXCLUDE.into(),
            private: false,
            restarts: false,
            start_time: false,
            tasks: false,
        }
    }
}

/// Source of network device counters.
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
    /// Source of the counters.
    pub source: NetdevSource,
    /// Report the kernel's own counters unfolded (`--collector.netdev.enable-detailed-metrics`, off).
    pub detailed: bool,
    /// Add the label `ifalias` (`--collector.netdev.label-ifalias`, off).
    pub label_ifalias: bool,
    /// Report addresses (`--collector.netdev.address-info`, off).
    pub address_info: bool,
}

/// Flags of the arp collector.
#[derive(Debug, Clone, Default)]
pub struct ArpConfig {
    /// `--collector.arp.device-include` and `-exclude`.
    pub device: FilterConfig,
    /// Read `net/arp` below `procfs` (`--no-collector.arp.netlink`) instead of asking the routing socket.
    pub proc_net_arp: bool,
}

/// Flags of the netclass collector.
#[derive(Debug, Clone)]
pub struct NetclassConfig {
    /// Devices to leave out (`--collector.netclass.ignored-devices`, `^$`).
    pub ignored_devices: String,
    /// Omit the speed if it is unknown (`--collector.netclass.ignore-invalid-speed`, off).
    pub ignore_invalid_speed: bool,
}

impl Default for NetclassConfig {
    fn default() -> Self {
        Self {
            ignored_devices: NOTHING.into(),
            ignore_invalid_speed: false,
        }
    }
}
