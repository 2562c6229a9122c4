//! The collectors by name, and sets of them.
//!
//! Invariant: the list is sorted by name; names are node_exporter's.

use narthex_cli::Flag;

/// Declares the enum, its list, and what is known of each from one table: whether it is off by default, whether it may
/// hang.
macro_rules! collectors {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal $(, $($word:ident)+)?;)+) => {
        /// One collector, named as in `--collector.<name>`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum CollectorKind {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl CollectorKind {
            /// All collectors, in the order of their names.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// Returns the name used in flags and in the `collector` label.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// The flags that switch collectors on and off, in the order of [`CollectorKind::ALL`].
            pub const FLAGS: &[Flag] = &[
                $(Flag::typed::<bool>(
                    concat!("collector.", $name),
                    concat!("Enable the ", $name, " collector."),
                )
                .default(collectors!(@default $($($word)+)?)),)+
            ];

            /// Reports whether reading may take long or hang, because it depends on a device, firmware or a remote file
            /// system.
            pub(crate) fn may_hang(self) -> bool {
                match self {
                    $(Self::$variant => collectors!(@may_hang $($($word)+)?),)+
                }
            }
        }
    };
    (@default off $(may_hang)?) => {
        "false"
    };
    (@default $(may_hang)?) => {
        "true"
    };
    (@may_hang $(off)? may_hang) => {
        true
    };
    (@may_hang $(off)?) => {
        false
    };
}

collectors! {
    /// Neighbours per device.
    Arp = "arp";
    /// Block caches.
    Bcache = "bcache", may_hang;
    /// Counters, compression and devices of bcachefs.
    Bcachefs = "bcachefs", may_hang;
    /// Bonded network devices and their active members.
    Bonding = "bonding", may_hang;
    /// Btrfs allocation, commits and devices.
    Btrfs = "btrfs", may_hang;
    /// Free blocks of memory by size.
    Buddyinfo = "buddyinfo", off;
    /// Control groups by controller.
    Cgroups = "cgroups", off;
    /// Connections that netfilter tracks.
    Conntrack = "conntrack";
    /// Seconds per CPU and mode, throttling, isolation, information.
    Cpu = "cpu";
    /// The CPU's vulnerabilities and their mitigations.
    CpuVulnerabilities = "cpu_vulnerabilities", off;
    /// Clock rates and their limits.
    Cpufreq = "cpufreq", may_hang;
    /// Block device counters and properties.
    Diskstats = "diskstats";
    /// The machine's identification by its firmware.
    Dmi = "dmi", may_hang;
    /// Paths of multipath block devices.
    Dmmultipath = "dmmultipath", may_hang;
    /// Replicated block devices.
    Drbd = "drbd", off;
    /// Graphics cards of AMD.
    Drm = "drm", off may_hang;
    /// Memory errors, corrected and uncorrected.
    Edac = "edac", may_hang;
    /// The kernel's entropy pool.
    Entropy = "entropy";
    /// What drivers of network devices count.
    Ethtool = "ethtool", off may_hang;
    /// Counters of Fibre Channel adapters.
    Fibrechannel = "fibrechannel", may_hang;
    /// Open files and their limit.
    Filefd = "filefd";
    /// Sizes of mounted file systems.
    Filesystem = "filesystem";
    /// Sensors.
    Hwmon = "hwmon", may_hang;
    /// Counters of InfiniBand ports.
    Infiniband = "infiniband", may_hang;
    /// Interrupts by CPU and device.
    Interrupts = "interrupts", off;
    /// IP virtual server.
    Ipvs = "ipvs";
    /// Tasks that the kernel detected as hung.
    KernelHung = "kernel_hung";
    /// Merging of equal pages.
    Ksmd = "ksmd", off;
    /// Counters of network caches.
    Lnstat = "lnstat", off;
    /// Load averages.
    Loadavg = "loadavg";
    /// Sessions of logind.
    Logind = "logind", off may_hang;
    /// Software RAID.
    Mdadm = "mdadm", may_hang;
    /// `/proc/meminfo`.
    Meminfo = "meminfo";
    /// Memory of each NUMA node.
    MeminfoNuma = "meminfo_numa", off;
    /// NFS mounts.
    Mountstats = "mountstats", off may_hang;
    /// Properties of network devices.
    Netclass = "netclass";
    /// Network device counters.
    Netdev = "netdev";
    /// Selected fields of `/proc/net/netstat`, `snmp` and `snmp6`.
    Netstat = "netstat";
    /// Routes by device.
    NetworkRoute = "network_route", off may_hang;
    /// Calls of the NFS client.
    Nfs = "nfs";
    /// Calls of the NFS server.
    Nfsd = "nfsd";
    /// The clock of an NTP server on this host.
    Ntp = "ntp", off may_hang;
    /// NVMe devices and their namespaces.
    Nvme = "nvme", may_hang;
    /// NVMe subsystems and their paths.
    Nvmesubsystem = "nvmesubsystem", off may_hang;
    /// The distribution's identification.
    Os = "os";
    /// PCI devices.
    Pcidevice = "pcidevice", off may_hang;
    /// Counters of CPUs and kernel by `perf_event_open(2)`.
    Perf = "perf", off;
    /// Batteries and mains.
    Powersupplyclass = "powersupplyclass", may_hang;
    /// Time lost waiting for resources.
    Pressure = "pressure";
    /// Processes and threads by state.
    Processes = "processes", off may_hang;
    /// Queueing disciplines of network devices.
    Qdisc = "qdisc", off may_hang;
    /// Energy counters.
    Rapl = "rapl", may_hang;
    /// Services of runit.
    Runit = "runit", off may_hang;
    /// Running and waiting time per CPU.
    Schedstat = "schedstat";
    /// Mode of SELinux.
    Selinux = "selinux";
    /// Slab caches of the kernel.
    Slabinfo = "slabinfo", off may_hang;
    /// Sockets in use.
    Sockstat = "sockstat";
    /// Soft interrupts by CPU and kind.
    Softirqs = "softirqs", off;
    /// Packets handed to the network stack per CPU.
    Softnet = "softnet";
    /// Interrupts, context switches, forks, boot time.
    Stat = "stat";
    /// Processes of supervisord.
    Supervisord = "supervisord", off may_hang;
    /// Swap devices.
    Swap = "swap", off;
    /// Kernel parameters.
    Sysctl = "sysctl", off;
    /// Units of systemd.
    Systemd = "systemd", off may_hang;
    /// Counters of tape drives.
    Tapestats = "tapestats", may_hang;
    /// TCP sockets by state.
    Tcpstat = "tcpstat", off may_hang;
    /// Metrics from files that other programs write.
    Textfile = "textfile", may_hang;
    /// Temperatures of zones, and states of cooling devices.
    ThermalZone = "thermal_zone", may_hang;
    /// System time, zone and clock sources.
    Time = "time";
    /// State of the kernel's clock discipline.
    Timex = "timex";
    /// Bytes queued in UDP sockets.
    UdpQueues = "udp_queues";
    /// Kernel and host names.
    Uname = "uname";
    /// Selected fields of `/proc/vmstat`.
    Vmstat = "vmstat";
    /// Watchdog timers.
    Watchdog = "watchdog", may_hang;
    /// Wireless devices.
    Wifi = "wifi", off may_hang;
    /// Packets that IPsec dropped.
    Xfrm = "xfrm", off;
    /// XFS counters.
    Xfs = "xfs";
    /// ZFS counters.
    Zfs = "zfs";
    /// Memory zones.
    Zoneinfo = "zoneinfo", off;
}

impl CollectorKind {
    /// Returns the collector of that name, or `None`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A set of collectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectorSet(u128);

impl CollectorSet {
    /// Returns the set of the collectors that node_exporter runs by default.
    pub fn defaults() -> Self {
        let on = CollectorKind::FLAGS
            .iter()
            .map(|flag| flag.default == "true");
        CollectorKind::ALL
            .into_iter()
            .zip(on)
            .filter(|(_, is_on)| *is_on)
            .fold(Self::none(), |set, (kind, _)| set.with(kind))
    }

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

    /// Returns this set with `kind` added.
    #[must_use]
    pub fn with(self, kind: CollectorKind) -> Self {
        Self(self.0 | 1 << kind as u64)
    }

    /// Returns this set without `kind`.
    #[must_use]
    pub fn without(self, kind: CollectorKind) -> Self {
        Self(self.0 & !(1 << kind as u64))
    }

    /// Reports whether `kind` is in the set.
    pub fn contains(self, kind: CollectorKind) -> bool {
        self.0 & (1 << kind as u64) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_lead_back() {
        let names = CollectorKind::ALL.map(CollectorKind::name);
        assert!(names.is_sorted());
        for kind in CollectorKind::ALL {
            assert_eq!(CollectorKind::from_name(kind.name()), Some(kind));
            assert!(CollectorSet::none().with(kind).contains(kind));
            assert!(!CollectorSet::all().without(kind).contains(kind));
            let flag = CollectorKind::FLAGS[kind as usize];
            assert_eq!(flag.name, format!("collector.{}", kind.name()));
        }
        assert_eq!(CollectorKind::from_name("nope"), None);
    }
}
