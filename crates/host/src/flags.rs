//! node_exporter's flags of host collection as one table, and how a flag changes a configuration.
//!
//! Invariant: every name, default and help is node_exporter's; every flag in the table changes the configuration, but
//! those marked as without effect.

use crate::config::{self, FilterConfig, HostConfig, NetdevSource};
use crate::error::HostError;
use crate::kind::{CollectorKind, CollectorSet};

/// What a flag takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlagKind {
    /// Nothing: `--flag` or `--no-flag`.
    Switch,
    /// Text; given again, the last counts.
    Text,
    /// Text that may be given several times.
    List,
    /// A whole number.
    Count,
    /// A duration such as `5s`.
    Duration,
}

/// A flag of node_exporter that is about what is collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flag {
    /// Its name, without dashes.
    pub name: &'static str,
    /// What it takes.
    pub kind: FlagKind,
    /// Its default as it would be given; a switch's is `true` or `false`.
    pub default: &'static str,
    /// What it does.
    pub help: &'static str,
    /// Not shown by `--help`.
    pub hidden: bool,
    /// Accepted, and changes nothing here.
    pub without_effect: bool,
}

const fn flag(
    name: &'static str,
    kind: FlagKind,
    default: &'static str,
    help: &'static str,
) -> Flag {
    Flag {
        name,
        kind,
        default,
        help,
        hidden: false,
        without_effect: false,
    }
}

const fn hidden(flag: Flag) -> Flag {
    Flag {
        hidden: true,
        ..flag
    }
}

const fn without_effect(flag: Flag) -> Flag {
    Flag {
        without_effect: true,
        ..flag
    }
}

use FlagKind::{Count, Duration, List, Switch, Text};

/// The flags, in the order of their names, but for those that switch a collector on and off, which are
/// [`CollectorKind::flag`].
pub const FLAGS: &[Flag] = &[
    flag(
        "collector.arp.device-exclude",
        Text,
        "",
        "Regexp of arp devices to exclude (mutually exclusive to device-include).",
    ),
    flag(
        "collector.arp.device-include",
        Text,
        "",
        "Regexp of arp devices to include (mutually exclusive to device-exclude).",
    ),
    flag(
        "collector.arp.netlink",
        Switch,
        "true",
        "Use netlink to gather stats instead of /proc/net/arp.",
    ),
    flag(
        "collector.bcache.priorityStats",
        Switch,
        "false",
        "Expose expensive priority stats.",
    ),
    flag(
        "collector.cpu.guest",
        Switch,
        "true",
        "Enables metric node_cpu_guest_seconds_total",
    ),
    flag(
        "collector.cpu.info",
        Switch,
        "false",
        "Enables metric cpu_info",
    ),
    flag(
        "collector.cpu.info.bugs-include",
        Text,
        "",
        "Filter the `bugs` field in cpuInfo with a value that must be a regular expression",
    ),
    flag(
        "collector.cpu.info.flags-include",
        Text,
        "",
        "Filter the `flags` field in cpuInfo with a value that must be a regular expression",
    ),
    flag(
        "collector.disable-defaults",
        Switch,
        "false",
        "Set all collectors to disabled by default.",
    ),
    flag(
        "collector.diskstats.device-exclude",
        Text,
        config::DISKSTATS_DEVICE.default_exclude,
        "Regexp of diskstats devices to exclude (mutually exclusive to device-include).",
    ),
    flag(
        "collector.diskstats.device-include",
        Text,
        "",
        "Regexp of diskstats devices to include (mutually exclusive to device-exclude).",
    ),
    flag(
        "collector.filesystem.fs-types-exclude",
        Text,
        config::FS_TYPES.default_exclude,
        "Regexp of filesystem types to exclude for filesystem collector. (mutually exclusive to fs-types-include)",
    ),
    flag(
        "collector.filesystem.fs-types-include",
        Text,
        "",
        "Regexp of filesystem types to exclude for filesystem collector. (mutually exclusive to fs-types-exclude)",
    ),
    flag(
        "collector.filesystem.mount-points-exclude",
        Text,
        config::MOUNT_POINTS.default_exclude,
        "Regexp of mount points to exclude for filesystem collector. (mutually exclusive to mount-points-include)",
    ),
    flag(
        "collector.filesystem.mount-points-include",
        Text,
        "",
        "Regexp of mount points to include for filesystem collector. (mutually exclusive to mount-points-exclude)",
    ),
    hidden(flag(
        "collector.filesystem.mount-timeout",
        Duration,
        "5s",
        "how long to wait for a mount to respond before marking it as stale",
    )),
    hidden(flag(
        "collector.filesystem.stat-workers",
        Count,
        "4",
        "how many stat calls to process simultaneously",
    )),
    flag(
        "collector.hwmon.chip-exclude",
        Text,
        "",
        "Regexp of hwmon chip to exclude (mutually exclusive to device-include).",
    ),
    flag(
        "collector.hwmon.chip-include",
        Text,
        "",
        "Regexp of hwmon chip to include (mutually exclusive to device-exclude).",
    ),
    flag(
        "collector.hwmon.sensor-exclude",
        Text,
        "",
        "Regexp of hwmon sensor to exclude (mutually exclusive to sensor-include).",
    ),
    flag(
        "collector.hwmon.sensor-include",
        Text,
        "",
        "Regexp of hwmon sensor to include (mutually exclusive to sensor-exclude).",
    ),
    flag(
        "collector.infiniband.device-exclude",
        Text,
        "",
        "Regexp of infiniband devices to exclude (mutually exclusive to device-include).",
    ),
    flag(
        "collector.infiniband.device-include",
        Text,
        "",
        "Regexp of infiniband devices to include (mutually exclusive to device-exclude).",
    ),
    flag(
        "collector.ipvs.backend-labels",
        Text,
        "local_address,local_port,remote_address,remote_port,proto,local_mark",
        "Comma separated list for IPVS backend stats labels.",
    ),
    flag(
        "collector.netclass.ignore-invalid-speed",
        Switch,
        "false",
        "Ignore devices where the speed is invalid. This will be the default behavior in 2.x.",
    ),
    flag(
        "collector.netclass.ignored-devices",
        Text,
        "^$",
        "Regexp of net devices to ignore for netclass collector.",
    ),
    without_effect(flag(
        "collector.netclass.netlink",
        Switch,
        "false",
        "Use netlink to gather stats instead of /proc/net/dev.",
    )),
    without_effect(flag(
        "collector.netclass_rtnl.with-stats",
        Switch,
        "false",
        "Expose the statistics for each network device, replacing netdev collector.",
    )),
    flag(
        "collector.netdev.address-info",
        Switch,
        "false",
        "Collect address-info for every device",
    ),
    flag(
        "collector.netdev.device-exclude",
        Text,
        "",
        "Regexp of net devices to exclude (mutually exclusive to device-include).",
    ),
    flag(
        "collector.netdev.device-include",
        Text,
        "",
        "Regexp of net devices to include (mutually exclusive to device-exclude).",
    ),
    flag(
        "collector.netdev.enable-detailed-metrics",
        Switch,
        "false",
        "Use (incompatible) metric names that provide more detailed stats on Linux",
    ),
    flag(
        "collector.netdev.label-ifalias",
        Switch,
        "false",
        "Add ifAlias label",
    ),
    flag(
        "collector.netdev.netlink",
        Switch,
        "true",
        "Use netlink to gather stats instead of /proc/net/dev.",
    ),
    flag(
        "collector.netstat.fields",
        Text,
        config::NETSTAT_FIELDS,
        "Regexp of fields to return for netstat collector.",
    ),
    flag(
        "collector.powersupply.ignored-supplies",
        Text,
        "^$",
        "Regexp of power supplies to ignore for powersupplyclass collector.",
    ),
    flag(
        "collector.rapl.enable-zone-label",
        Switch,
        "false",
        "Enables service unit metric unit_start_time_seconds",
    ),
    flag(
        "collector.stat.softirq",
        Switch,
        "false",
        "Export softirq calls per vector",
    ),
    flag(
        "collector.tapestats.ignored-devices",
        Text,
        "^$",
        "Regexp of devices to ignore for tapestats.",
    ),
    flag(
        "collector.textfile.directory",
        List,
        "",
        "Directory to read text files with metrics from, supports glob matching. (repeatable)",
    ),
    flag(
        "collector.vmstat.fields",
        Text,
        config::VMSTAT_FIELDS,
        "Regexp of fields to return for vmstat collector.",
    ),
    flag("path.procfs", Text, "/proc", "procfs mountpoint."),
    flag("path.rootfs", Text, "/", "rootfs mountpoint."),
    flag("path.sysfs", Text, "/sys", "sysfs mountpoint."),
    flag("path.udev.data", Text, "/run/udev/data", "udev data path."),
];

impl HostConfig {
    /// Sets what a flag says. `name` has no dashes; a switch takes `true` or `false`. Flags count in their order, but
    /// `collector.disable-defaults` has to come before those of single collectors.
    ///
    /// # Errors
    ///
    /// `Flag` for a name that is not in [`FLAGS`] and no collector's, and for a value the flag does not take.
    pub fn set_flag(&mut self, name: &str, value: &str) -> Result<(), HostError> {
        if let Some(kind) = name
            .strip_prefix("collector.")
            .and_then(CollectorKind::from_name)
        {
            self.collectors = match switch(name, value)? {
                true => self.collectors.with(kind),
                false => self.collectors.without(kind),
            };
            return Ok(());
        }
        if self.set_filter(name, value) {
            return Ok(());
        }
        match name {
            "path.procfs" => self.procfs = value.into(),
            "path.rootfs" => self.rootfs = value.into(),
            "path.sysfs" => self.sysfs = value.into(),
            "path.udev.data" => self.udev_data = value.into(),
            "collector.disable-defaults" => {
                if switch(name, value)? {
                    self.collectors = CollectorSet::none();
                }
            }
            "collector.cpu.info.bugs-include" => self.cpu.info_bugs_include = Some(value.into()),
            "collector.cpu.info.flags-include" => self.cpu.info_flags_include = Some(value.into()),
            "collector.filesystem.mount-timeout" => {
                self.filesystem.mount_timeout_ms = duration_ms(name, value)?;
            }
            "collector.filesystem.stat-workers" => {
                let count = value.parse();
                self.filesystem.stat_workers =
                    count.map_err(|_| problem(name, format!("{value:?} is not a number")))?;
            }
            "collector.ipvs.backend-labels" => self.ipvs_labels = value.into(),
            "collector.netclass.ignored-devices" => self.netclass.ignored_devices = value.into(),
            "collector.netstat.fields" => self.netstat_fields = value.into(),
            "collector.powersupply.ignored-supplies" => self.powersupply_ignored = value.into(),
            "collector.tapestats.ignored-devices" => self.tapestats_ignored = value.into(),
            "collector.textfile.directory" => self.textfile_directories.push(value.into()),
            "collector.vmstat.fields" => self.vmstat_fields = value.into(),
            _ => return self.set_switch(name, value),
        }
        Ok(())
    }

    /// Sets a pattern that keeps or drops names; `false` if the flag is none.
    fn set_filter(&mut self, name: &str, value: &str) -> bool {
        let filters = [
            (&config::ARP_DEVICE, &mut self.arp.device),
            (&config::DISKSTATS_DEVICE, &mut self.diskstats),
            (&config::FS_TYPES, &mut self.filesystem.fs_types),
            (&config::HWMON_CHIP, &mut self.hwmon_chips),
            (&config::HWMON_SENSOR, &mut self.hwmon_sensors),
            (&config::INFINIBAND_DEVICE, &mut self.infiniband),
            (&config::MOUNT_POINTS, &mut self.filesystem.mount_points),
            (&config::NETDEV_DEVICE, &mut self.netdev.device),
        ];
        for (flags, FilterConfig { include, exclude }) in filters {
            let pattern = match name {
                _ if name == flags.include => include,
                _ if name == flags.exclude => exclude,
                _ => continue,
            };
            *pattern = Some(value.into());
            return true;
        }
        false
    }

    fn set_switch(&mut self, name: &str, value: &str) -> Result<(), HostError> {
        let on = |value| switch(name, value);
        let place = match name {
            "collector.bcache.priorityStats" => &mut self.bcache_priority,
            "collector.cpu.guest" => &mut self.cpu.guest,
            "collector.cpu.info" => &mut self.cpu.info,
            "collector.netclass.ignore-invalid-speed" => &mut self.netclass.ignore_invalid_speed,
            "collector.netdev.address-info" => &mut self.netdev.address_info,
            "collector.netdev.enable-detailed-metrics" => &mut self.netdev.detailed,
            "collector.netdev.label-ifalias" => &mut self.netdev.label_ifalias,
            "collector.rapl.enable-zone-label" => &mut self.rapl_zone_label,
            "collector.stat.softirq" => &mut self.stat_softirq,
            "collector.arp.netlink" => {
                self.arp.proc_net_arp = !on(value)?;
                return Ok(());
            }
            "collector.netdev.netlink" => {
                self.netdev.source = match on(value)? {
                    true => NetdevSource::Netlink,
                    false => NetdevSource::ProcNetDev,
                };
                return Ok(());
            }
            _ => {
                let mut known = FLAGS.iter().filter(|flag| flag.without_effect);
                return match known.any(|flag| flag.name == name) {
                    true => on(value).map(drop),
                    false => Err(problem(name, "unknown flag".into())),
                };
            }
        };
        *place = on(value)?;
        Ok(())
    }
}

fn switch(name: &str, value: &str) -> Result<bool, HostError> {
    value
        .parse()
        .map_err(|_| problem(name, format!("{value:?} is neither true nor false")))
}

/// Reads a duration as Go writes it: `5s`, `1m30s`, `250ms`.
fn duration_ms(name: &str, value: &str) -> Result<u32, HostError> {
    let bad = || problem(name, format!("{value:?} is not a duration"));
    let mut total = 0.0;
    let mut rest = value;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, tail) = rest
            .split_at_checked(end.ok_or_else(bad)?)
            .ok_or_else(bad)?;
        let end = tail
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let milliseconds = match unit {
            "ns" => 1e-6,
            "us" | "µs" => 1e-3,
            "ms" => 1.0,
            "s" => 1e3,
            "m" => 60e3,
            "h" => 3600e3,
            _ => return Err(bad()),
        };
        let number: f64 = number.parse().map_err(|_| bad())?;
        total += number * milliseconds;
        rest = tail;
    }
    match value.is_empty() || !(0.0..=f64::from(u32::MAX)).contains(&total) {
        true => Err(bad()),
        false => Ok(total as u32),
    }
}

fn problem(flag: &str, problem: String) -> HostError {
    HostError::Flag {
        flag: flag.into(),
        problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_is_taken_and_sorted() {
        assert!(FLAGS.is_sorted_by(|a, b| a.name < b.name));
        for flag in FLAGS {
            let mut config = HostConfig::default();
            let value = match flag.kind {
                Switch => "true",
                Duration => "1m0.5s",
                Count => "3",
                Text | List => "x",
            };
            config.set_flag(flag.name, value).expect(flag.name);
            let is_changed = format!("{config:?}") != format!("{:?}", HostConfig::default());
            let is_default = flag.default == value && flag.kind == Switch;
            // Netlink is the automatic choice already.
            let excused = is_default || flag.without_effect;
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

    #[test]
    fn bad_values_are_named() {
        let mut config = HostConfig::default();
        for (name, value, text) in [
            ("collector.nope", "true", "--collector.nope: unknown flag"),
            (
                "collector.cpu.guest",
                "maybe",
                "--collector.cpu.guest: \"maybe\" is neither true nor false",
            ),
            (
                "collector.filesystem.mount-timeout",
                "5",
                "--collector.filesystem.mount-timeout: \"5\" is not a duration",
            ),
            (
                "collector.filesystem.stat-workers",
                "-1",
                "--collector.filesystem.stat-workers: \"-1\" is not a number",
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
