//! node_exporter's flags of host collection, each with its place in the configuration.
//!
//! Invariant: every name and default is node_exporter's; every flag changes the configuration, but those without
//! effect.

use crate::config::{self, HostConfig, NetdevSource};
use crate::error::HostError;
use crate::kind::{CollectorKind, CollectorSet};
use narthex_cli::{Flag, GoDuration, Value, Values};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

const DISABLE_DEFAULTS: &str = "collector.disable-defaults";

/// Former names of flags, each with its successor.
pub const DEPRECATED: &[(&str, &str)] = &[
    (
        "collector.diskstats.ignored-devices",
        "collector.diskstats.device-exclude",
    ),
    (
        "collector.filesystem.ignored-fs-types",
        "collector.filesystem.fs-types-exclude",
    ),
    (
        "collector.filesystem.ignored-mount-points",
        "collector.filesystem.mount-points-exclude",
    ),
    (
        "collector.netdev.device-blacklist",
        "collector.netdev.device-exclude",
    ),
    (
        "collector.netdev.device-whitelist",
        "collector.netdev.device-include",
    ),
    (
        "collector.netdev.ignored-devices",
        "collector.netdev.device-exclude",
    ),
    (
        "collector.qdisk.device-exclude",
        "collector.qdisc.device-exclude",
    ),
    (
        "collector.qdisk.device-include",
        "collector.qdisc.device-include",
    ),
    (
        "collector.systemd.unit-blacklist",
        "collector.systemd.unit-exclude",
    ),
    (
        "collector.systemd.unit-whitelist",
        "collector.systemd.unit-include",
    ),
];

/// Declares the flags: `(PLACE): TYPE = NAME, METHODS OF FLAG => CONVERSION;`. An empty place is left to the caller; one in
/// brackets is a list to which the flag adds its value.
macro_rules! host_flags {
    ($(
        $(#[doc = $help:literal])+
        $place:tt: $type:ty = $name:literal $(, $modifier:ident($($argument:expr),*))* $(=> $convert:expr)?;
    )*) => {
        /// The flags, in the order of their names, but for those that switch a collector on and off, which are
        /// [`CollectorKind::FLAGS`].
        pub const FLAGS: &[Flag] = &[
            $(Flag::typed::<$type>($name, concat!($($help),+)) $(.$modifier($($argument),*))*,)*
        ];

        fn assign(config: &mut HostConfig, name: &str, value: &OsStr) -> Result<(), String> {
            match name {
                $($name => {
                    let value = <$type>::parse(value)?;
                    $(let value = ($convert)(value);)?
                    host_flags!(@assign config, $place, value);
                })*
                _ => return Err("unknown flag".to_owned()),
            }
            Ok(())
        }
    };
    (@assign $config:ident, (), $value:ident) => {
        let _ = $value;
    };
    (@assign $config:ident, ($($place:ident).+), $value:ident) => {
        $config.$($place).+ = $value.into();
    };
    // The default of node_exporter, none, may be given explicitly.
    (@assign $config:ident, [$($place:ident).+], $value:ident) => {
        let given = $value.into_iter().filter(|text| !text.is_empty());
        $config.$($place).+.extend(given);
    };
}

host_flags! {
    /// Regexp of arp devices to exclude (mutually exclusive to device-include).
    (arp.device.exclude): String = "collector.arp.device-exclude";
    /// Regexp of arp devices to include (mutually exclusive to device-exclude).
    (arp.device.include): String = "collector.arp.device-include";
    /// Use netlink to gather stats instead of /proc/net/arp.
    (arp.proc_net_arp): bool = "collector.arp.netlink", default("true") => |on: bool| !on;
    /// Expose expensive priority stats.
    (bcache_priority): bool = "collector.bcache.priorityStats";
    /// Report what each collector costs: CPU time, system calls, bytes read, series (narthex_host_collector_*).
    (cost_metrics): bool = "collector.cost-metrics";
    /// Enables metric node_cpu_guest_seconds_total.
    (cpu.guest): bool = "collector.cpu.guest", default("true");
    /// Enables metric cpu_info.
    (cpu.info): bool = "collector.cpu.info";
    /// Filter the `bugs` field in cpuInfo with a value that must be a regular expression.
    (cpu.info_bugs_include): String = "collector.cpu.info.bugs-include";
    /// Filter the `flags` field in cpuInfo with a value that must be a regular expression.
    (cpu.info_flags_include): String = "collector.cpu.info.flags-include";
    /// Set all collectors to disabled by default.
    (): bool = "collector.disable-defaults";
    /// Regexp of diskstats devices to exclude (mutually exclusive to device-include).
    (diskstats.exclude): String = "collector.diskstats.device-exclude",
        default(config::DISKSTATS_DEVICE.default_exclude);
    /// Regexp of diskstats devices to include (mutually exclusive to device-exclude).
    (diskstats.include): String = "collector.diskstats.device-include";
    /// Former name of collector.diskstats.device-exclude.
    (diskstats.exclude): String = "collector.diskstats.ignored-devices", hidden();
    /// Regexp of ethtool devices to exclude (mutually exclusive to device-include).
    (ethtool.exclude): String = "collector.ethtool.device-exclude";
    /// Regexp of ethtool devices to include (mutually exclusive to device-exclude).
    (ethtool.include): String = "collector.ethtool.device-include";
    /// Regexp of ethtool stats to include.
    (ethtool_metrics): String = "collector.ethtool.metrics-include", default(".*");
    /// Regexp of filesystem types to exclude for filesystem collector (mutually exclusive to fs-types-include).
    (filesystem.fs_types.exclude): String = "collector.filesystem.fs-types-exclude",
        default(config::FS_TYPES.default_exclude);
    /// Regexp of filesystem types to include for filesystem collector (mutually exclusive to fs-types-exclude).
    (filesystem.fs_types.include): String = "collector.filesystem.fs-types-include";
    /// Former name of collector.filesystem.fs-types-exclude.
    (filesystem.fs_types.exclude): String = "collector.filesystem.ignored-fs-types", hidden();
    /// Former name of collector.filesystem.mount-points-exclude.
    (filesystem.mount_points.exclude): String = "collector.filesystem.ignored-mount-points", hidden();
    /// Regexp of mount points to exclude for filesystem collector (mutually exclusive to mount-points-include).
    (filesystem.mount_points.exclude): String = "collector.filesystem.mount-points-exclude",
        default(config::MOUNT_POINTS.default_exclude);
    /// Regexp of mount points to include for filesystem collector (mutually exclusive to mount-points-exclude).
    (filesystem.mount_points.include): String = "collector.filesystem.mount-points-include";
    /// How long to wait for a mount to respond before marking it as stale.
    (filesystem.mount_timeout_ms): GoDuration = "collector.filesystem.mount-timeout",
        default("5s"), hidden() => milliseconds;
    /// How many stat calls to process simultaneously.
    (filesystem.stat_workers): usize = "collector.filesystem.stat-workers", default("4"), hidden();
    /// Regexp of hwmon chip to exclude (mutually exclusive to device-include).
    (hwmon_chips.exclude): String = "collector.hwmon.chip-exclude";
    /// Regexp of hwmon chip to include (mutually exclusive to device-exclude).
    (hwmon_chips.include): String = "collector.hwmon.chip-include";
    /// Regexp of hwmon sensor to exclude (mutually exclusive to sensor-include).
    (hwmon_sensors.exclude): String = "collector.hwmon.sensor-exclude";
    /// Regexp of hwmon sensor to include (mutually exclusive to sensor-exclude).
    (hwmon_sensors.include): String = "collector.hwmon.sensor-include";
    /// Regexp of infiniband devices to exclude (mutually exclusive to device-include).
    (infiniband.exclude): String = "collector.infiniband.device-exclude";
    /// Regexp of infiniband devices to include (mutually exclusive to device-exclude).
    (infiniband.include): String = "collector.infiniband.device-include";
    /// Include interrupts that have a zero value.
    (interrupts_zeros): bool = "collector.interrupts.include-zeros", default("true");
    /// Regexp of interrupts name to exclude (mutually exclusive to name-include).
    (interrupts.exclude): String = "collector.interrupts.name-exclude";
    /// Regexp of interrupts name to include (mutually exclusive to name-exclude).
    (interrupts.include): String = "collector.interrupts.name-include";
    /// Comma separated list for IPVS backend stats labels.
    (ipvs_labels): String = "collector.ipvs.backend-labels",
        default("local_address,local_port,remote_address,remote_port,proto,local_mark");
    /// Ignore devices where the speed is invalid. This will be the default behavior in 2.x.
    (netclass.ignore_invalid_speed): bool = "collector.netclass.ignore-invalid-speed";
    /// Regexp of net devices to ignore for netclass collector.
    (netclass.ignored_devices): String = "collector.netclass.ignored-devices", default("^$");
    /// Use netlink to gather stats instead of /proc/net/dev.
    (): bool = "collector.netclass.netlink", no_effect("netlink is used where it can be");
    /// Expose the statistics for each network device, replacing netdev collector.
    (): bool = "collector.netclass_rtnl.with-stats", no_effect("netlink is used where it can be");
    /// Collect address-info for every device.
    (netdev.address_info): bool = "collector.netdev.address-info";
    /// Former name of collector.netdev.device-exclude.
    (netdev.device.exclude): String = "collector.netdev.device-blacklist", hidden();
    /// Regexp of net devices to exclude (mutually exclusive to device-include).
    (netdev.device.exclude): String = "collector.netdev.device-exclude";
    /// Regexp of net devices to include (mutually exclusive to device-exclude).
    (netdev.device.include): String = "collector.netdev.device-include";
    /// Former name of collector.netdev.device-include.
    (netdev.device.include): String = "collector.netdev.device-whitelist", hidden();
    /// Use (incompatible) metric names that provide more detailed stats on Linux.
    (netdev.detailed): bool = "collector.netdev.enable-detailed-metrics";
    /// Former name of collector.netdev.device-exclude.
    (netdev.device.exclude): String = "collector.netdev.ignored-devices", hidden();
    /// Add ifAlias label.
    (netdev.label_ifalias): bool = "collector.netdev.label-ifalias";
    /// Use netlink to gather stats instead of /proc/net/dev.
    (netdev.source): bool = "collector.netdev.netlink", default("true") => netdev_source;
    /// Regexp of fields to return for netstat collector.
    (netstat_fields): String = "collector.netstat.fields", default(config::NETSTAT_FIELDS);
    /// IP TTL to use while sending NTP query.
    (ntp.ttl): usize = "collector.ntp.ip-ttl", default("1");
    /// Offset between local clock and local ntpd time to tolerate.
    (ntp.offset_tolerance): GoDuration = "collector.ntp.local-offset-tolerance", default("1ms") => whole;
    /// Max accumulated distance to the root.
    (ntp.max_distance): GoDuration = "collector.ntp.max-distance", default("3.46608s") => whole;
    /// NTP protocol version.
    (ntp.version): usize = "collector.ntp.protocol-version", default("4");
    /// NTP server to use for ntp collector.
    (ntp.server): String = "collector.ntp.server", default("127.0.0.1");
    /// Certify that collector.ntp.server address is not a public ntp server.
    (ntp.is_local): bool = "collector.ntp.server-is-local";
    /// UDP port number to connect to on NTP server.
    (ntp.port): usize = "collector.ntp.server-port", default("123");
    /// Path to pci.ids file to use for PCI device identification.
    (pci_ids): PathBuf = "collector.pcidevice.idsfile";
    /// Enable PCI device name resolution (requires pci.ids file).
    (pci_names): bool = "collector.pcidevice.names";
    /// Cache profiler of the perf collector (repeatable; without it, all).
    [perf.cache.only]: Vec<String> = "collector.perf.cache-profilers";
    /// CPUs that the perf collector counts on, such as 0,4-6 (without it, all).
    (perf.cpus): String = "collector.perf.cpus";
    /// Disable the cache profilers of the perf collector.
    (perf.cache.disabled): bool = "collector.perf.disable-cache-profilers";
    /// Disable the hardware profilers of the perf collector.
    (perf.hardware.disabled): bool = "collector.perf.disable-hardware-profilers";
    /// Disable the software profilers of the perf collector.
    (perf.software.disabled): bool = "collector.perf.disable-software-profilers";
    /// Hardware profiler of the perf collector (repeatable; without it, all).
    [perf.hardware.only]: Vec<String> = "collector.perf.hardware-profilers";
    /// Software profiler of the perf collector (repeatable; without it, all).
    [perf.software.only]: Vec<String> = "collector.perf.software-profilers";
    /// Tracepoint that the perf collector counts, SUBSYSTEM:EVENT (repeatable).
    [perf.tracepoints]: Vec<String> = "collector.perf.tracepoint";
    /// Regexp of power supplies to ignore for powersupplyclass collector.
    (powersupply_ignored): String = "collector.powersupply.ignored-supplies", default("^$");
    /// Regexp of qdisc devices to exclude (mutually exclusive to device-include).
    (qdisc.exclude): String = "collector.qdisc.device-exclude";
    /// Regexp of qdisc devices to include (mutually exclusive to device-exclude).
    (qdisc.include): String = "collector.qdisc.device-include";
    /// Test fixtures to use for qdisc collector end-to-end testing.
    (qdisc_fixtures): PathBuf = "collector.qdisc.fixtures", directory();
    /// Former name of collector.qdisc.device-exclude.
    (qdisc.exclude): String = "collector.qdisk.device-exclude", hidden();
    /// Former name of collector.qdisc.device-include.
    (qdisc.include): String = "collector.qdisk.device-include", hidden();
    /// One family with a label for the zone instead of one for each zone.
    (rapl_zone_label): bool = "collector.rapl.enable-zone-label";
    /// Path to runit service directory.
    (runit_services): PathBuf = "collector.runit.servicedir", default("/etc/service"), directory();
    /// Regexp of slabs to exclude in slabinfo collector.
    (slabs.exclude): String = "collector.slabinfo.slabs-exclude";
    /// Regexp of slabs to include in slabinfo collector.
    (slabs.include): String = "collector.slabinfo.slabs-include", default(".*");
    /// Export softirq calls per vector.
    (stat_softirq): bool = "collector.stat.softirq";
    /// XML RPC endpoint.
    (supervisord_url): String = "collector.supervisord.url", default("http://localhost:9001/RPC2");
    /// Kernel parameter to report, NAME or NAME:KEY,KEY (repeatable).
    [sysctl_numbers]: Vec<String> = "collector.sysctl.include";
    /// Kernel parameter to report as text (repeatable).
    [sysctl_infos]: Vec<String> = "collector.sysctl.include-info";
    /// Enables service unit metric service_restart_total.
    (systemd.restarts): bool = "collector.systemd.enable-restarts-metrics";
    /// Enables service unit metric unit_start_time_seconds.
    (systemd.start_time): bool = "collector.systemd.enable-start-time-metrics";
    /// Enables service unit tasks metrics unit_tasks_current and unit_tasks_max.
    (systemd.tasks): bool = "collector.systemd.enable-task-metrics";
    /// Connect to systemd directly, which only root may.
    (systemd.private): bool = "collector.systemd.private", hidden();
    /// Former name of collector.systemd.unit-exclude.
    (systemd.unit_exclude): String = "collector.systemd.unit-blacklist", hidden();
    /// Regexp of systemd units to exclude. Units must both match include and not match exclude to be included.
    (systemd.unit_exclude): String = "collector.systemd.unit-exclude", default(config::SYSTEMD_EXCLUDE);
    /// Regexp of systemd units to include. Units must both match include and not match exclude to be included.
    (systemd.unit_include): String = "collector.systemd.unit-include", default(config::SYSTEMD_INCLUDE);
    /// Former name of collector.systemd.unit-include.
    (systemd.unit_include): String = "collector.systemd.unit-whitelist", hidden();
    /// Regexp of devices to ignore for tapestats.
    (tapestats_ignored): String = "collector.tapestats.ignored-devices", default("^$");
    /// Directory to read text files with metrics from, supports glob matching (repeatable).
    [textfile_directories]: Vec<String> = "collector.textfile.directory", directory();
    /// Regexp of fields to return for vmstat collector.
    (vmstat_fields): String = "collector.vmstat.fields", default(config::VMSTAT_FIELDS);
    /// Test fixtures to use for wifi collector metrics.
    (wifi_fixtures): PathBuf = "collector.wifi.fixtures", directory();
    /// procfs mountpoint.
    (procfs): PathBuf = "path.procfs", default("/proc"), directory();
    /// rootfs mountpoint.
    (rootfs): PathBuf = "path.rootfs", default("/"), directory();
    /// sysfs mountpoint.
    (sysfs): PathBuf = "path.sysfs", default("/sys"), directory();
    /// udev data path.
    (udev_data): PathBuf = "path.udev.data", default("/run/udev/data"), directory();
}

impl HostConfig {
    /// Sets what a command line of [`CollectorKind::FLAGS`] and [`FLAGS`] gives, other flags apart.
    ///
    /// # Errors
    ///
    /// `Flag` for a value the flag does not take, `Exclusive` for a flag that is given by its former name too.
    pub fn set_flags(&mut self, values: &Values) -> Result<(), HostError> {
        for (former, successor) in DEPRECATED {
            if values.is_given(former) && values.is_given(successor) {
                return Err(HostError::Exclusive {
                    flag: former,
                    other: successor,
                });
            }
        }
        // Collectors that are named count, wherever they stand.
        let (defaults, others): (Vec<_>, Vec<_>) = values
            .given()
            .filter(|(name, _)| name.starts_with("collector.") || name.starts_with("path."))
            .partition(|(name, _)| *name == DISABLE_DEFAULTS);
        for (name, value) in defaults.into_iter().chain(others) {
            self.set_flag(name, value)?;
        }
        Ok(())
    }

    /// Sets what a flag says. `name` has no dashes; a switch takes `true` or `false`. Flags count in their order, but
    /// `collector.disable-defaults` has to come before those of single collectors.
    ///
    /// # Errors
    ///
    /// `Flag` for a name that is not in [`FLAGS`] and no collector's, and for a value the flag does not take.
    pub fn set_flag(&mut self, name: &str, value: impl AsRef<OsStr>) -> Result<(), HostError> {
        let kind = name
            .strip_prefix("collector.")
            .and_then(CollectorKind::from_name);
        let set = match (name, kind) {
            (_, Some(kind)) => bool::parse(value.as_ref()).map(|on| {
                self.collectors = match on {
                    true => self.collectors.with(kind),
                    false => self.collectors.without(kind),
                };
            }),
            (DISABLE_DEFAULTS, _) => bool::parse(value.as_ref()).map(|on| {
                if on {
                    self.collectors = CollectorSet::none();
                }
            }),
            _ => assign(self, name, value.as_ref()),
        };
        set.map_err(|problem| HostError::Flag {
            flag: name.into(),
            problem,
        })
    }
}

fn netdev_source(netlink: bool) -> NetdevSource {
    match netlink {
        true => NetdevSource::Netlink,
        false => NetdevSource::ProcNetDev,
    }
}

fn whole(duration: GoDuration) -> Duration {
    duration.0
}

fn milliseconds(duration: GoDuration) -> u32 {
    u32::try_from(duration.0.as_millis()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_cli::{Class, Surroundings, ValueKind};

    #[test]
    fn every_flag_is_taken_and_sorted() {
        assert!(FLAGS.is_sorted_by(|a, b| a.name < b.name));
        for flag in FLAGS {
            let mut config = HostConfig::default();
            let value = match flag.kind {
                ValueKind::Switch => "true",
                ValueKind::Duration => "1m0.5s",
                ValueKind::Count => "3",
                _ => "x",
            };
            config.set_flag(flag.name, value).expect(flag.name);
            let is_changed = format!("{config:?}") != format!("{:?}", HostConfig::default());
            let is_default = flag.default == value && flag.kind == ValueKind::Switch;
            // Netlink is the automatic choice already.
            let excused = is_default || flag.class != Class::Honoured;
            assert!(is_changed || excused, "--{} changes nothing", flag.name);
        }
    }

    #[test]
    fn collectors_are_switched_in_order() {
        let mut config = HostConfig::default();
        for (name, value) in [
            ("collector.disable-defaults", "true"),
            ("collector.ipvs", "true"),
            ("collector.arp", "true"),
            ("collector.arp", "false"),
        ] {
            config.set_flag(name, value).expect("known");
        }
        assert_eq!(
            config.collectors,
            CollectorSet::none().with(CollectorKind::Ipvs)
        );
    }

    /// node_exporter disables collectors that no flag names, wherever on the line `--collector.disable-defaults` is.
    #[test]
    fn a_command_line_is_a_configuration() {
        const LINE: &[&str] = &[
            "--collector.ipvs",
            "--no-collector.arp",
            "--path.procfs=/x",
            "--collector.disable-defaults",
            "--collector.textfile.directory=a",
            "--collector.textfile.directory=b",
        ];
        let line: Vec<_> = LINE.iter().map(Into::into).collect();
        let values = Values::parse(
            &[CollectorKind::FLAGS, FLAGS],
            &line,
            Surroundings::process(),
        );
        let mut config = HostConfig::default();
        config.set_flags(&values.expect("flags")).expect("values");
        let only = CollectorSet::none().with(CollectorKind::Ipvs);
        assert_eq!(config.collectors, only);
        assert_eq!(config.procfs.to_str(), Some("/x"));
        assert_eq!(config.textfile_directories, ["a", "b"]);
    }

    #[test]
    fn former_names_are_taken_but_not_beside_their_successors() {
        let parsed = |line: &[&str]| {
            let line: Vec<_> = line.iter().map(Into::into).collect();
            let tables = [CollectorKind::FLAGS, FLAGS];
            let values = Values::parse(&tables, &line, Surroundings::process()).expect("flags");
            let mut config = HostConfig::default();
            config.set_flags(&values).map(|()| config)
        };
        for (former, successor) in DEPRECATED {
            let by_former = parsed(&[&format!("--{former}=x")]).expect(former);
            let by_successor = parsed(&[&format!("--{successor}=x")]).expect(successor);
            assert_eq!(format!("{by_former:?}"), format!("{by_successor:?}"));
            let both = parsed(&[&format!("--{successor}=x"), &format!("--{former}=x")]);
            assert_eq!(
                both.expect_err(former).to_string(),
                format!("--{former} and --{successor} are mutually exclusive")
            );
        }
        let none = parsed(&["--collector.textfile.directory="]).expect("no directory");
        assert_eq!(none.textfile_directories, [""; 0]);
    }

    #[test]
    fn bad_values_are_named() {
        let mut config = HostConfig::default();
        for (name, value, text) in [
            ("collector.nope", "true", "--collector.nope: unknown flag"),
            (
                "collector.cpu.guest",
                "maybe",
                "--collector.cpu.guest: not true or false: \"maybe\"",
            ),
            (
                "collector.filesystem.mount-timeout",
                "5",
                "--collector.filesystem.mount-timeout: not a duration: \"5\"",
            ),
            (
                "collector.filesystem.stat-workers",
                "-1",
                "--collector.filesystem.stat-workers: not a whole number, 0 or more: \"-1\"",
            ),
        ] {
            let error = config.set_flag(name, value).expect_err(name);
            assert_eq!(error.to_string(), text);
        }
        config
            .set_flag("collector.filesystem.mount-timeout", "1m0.5s")
            .expect("a duration");
        assert_eq!(config.filesystem.mount_timeout_ms, 60_500);
    }
}
