//! The collectors, most of them in a file each, and their shared parts: a round's context and the trait.
//!
//! Invariant: a collector that returns an error has no values in the round; its series stay, absent.

pub(crate) mod arp;
pub(crate) mod bcache;
pub(crate) mod bcachefs;
pub(crate) mod bonding;
pub(crate) mod btrfs;
pub(crate) mod buddyinfo;
pub(crate) mod cgroups;
pub(crate) mod conntrack;
pub(crate) mod cpu;
pub(crate) mod cpu_vulnerabilities;
pub(crate) mod cpufreq;
pub(crate) mod cpuinfo;
pub(crate) mod diskstats;
pub(crate) mod dmi;
pub(crate) mod dmmultipath;
pub(crate) mod drbd;
pub(crate) mod drm;
pub(crate) mod edac;
pub(crate) mod ethtool;
pub(crate) mod fibrechannel;
pub(crate) mod filesystem;
pub(crate) mod hwmon;
pub(crate) mod infiniband;
pub(crate) mod interrupts;
pub(crate) mod ipvs;
pub(crate) mod ksmd;
pub(crate) mod lnstat;
pub(crate) mod loadavg;
pub(crate) mod logind;
pub(crate) mod mdadm;
pub(crate) mod meminfo;
pub(crate) mod meminfo_numa;
pub(crate) mod mountstats;
pub(crate) mod netclass;
pub(crate) mod netdev;
pub(crate) mod netstat;
pub(crate) mod network_route;
pub(crate) mod nfs;
pub(crate) mod nfsd;
pub(crate) mod ntp;
pub(crate) mod numbers;
pub(crate) mod nvme;
pub(crate) mod nvmesubsystem;
pub(crate) mod os;
pub(crate) mod pci_ids;
pub(crate) mod pcidevice;
pub(crate) mod perf;
pub(crate) mod powersupplyclass;
pub(crate) mod pressure;
pub(crate) mod processes;
pub(crate) mod qdisc;
pub(crate) mod rapl;
pub(crate) mod runit;
pub(crate) mod schedstat;
pub(crate) mod selinux;
pub(crate) mod slabinfo;
pub(crate) mod sockstat;
pub(crate) mod softirqs;
pub(crate) mod softnet;
pub(crate) mod start;
pub(crate) mod stat;
pub(crate) mod supervisord;
pub(crate) mod swap;
pub(crate) mod sysctl;
pub(crate) mod systemd;
pub(crate) mod tapestats;
pub(crate) mod tcpstat;
pub(crate) mod textfile;
pub(crate) mod thermal_zone;
pub(crate) mod time;
pub(crate) mod timex;
pub(crate) mod udp_queues;
pub(crate) mod uname;
pub(crate) mod vmstat;
pub(crate) mod watchdog;
pub(crate) mod wifi;
pub(crate) mod xfrm;
pub(crate) mod xfs;
pub(crate) mod zfs;
pub(crate) mod zoneinfo;

use crate::error::HostError;
use crate::open_file::ReadBuf;
use crate::sink::Sink;

/// Context of a round, for every collector.
pub(crate) struct Ctx<'a> {
    /// Buffer for any file; the next read overwrites it.
    pub(crate) buf: &'a mut ReadBuf,
    /// Number of the round, from 1.
    pub(crate) round: u64,
    /// Whether slowly changing facts are due to be read again.
    pub(crate) refresh: bool,
    /// UDP sockets of IPv4 and IPv6, once they are counted in this round.
    pub(crate) udp_sockets: [Option<f64>; 2],
}

pub(crate) trait Collector: Send {
    /// Reports whether it may hang as it is configured; only collectors of a kind that may are asked.
    fn may_hang(&self) -> bool {
        true
    }

    /// Reports whether `prepare` does anything.
    fn has_preparation(&self) -> bool {
        false
    }

    /// Starts slow work before any collector collects.
    ///
    /// # Errors
    ///
    /// As `collect`, which is then not called in this round.
    fn prepare(&mut self, _ctx: &mut Ctx<'_>, _out: &mut Sink) -> Result<(), HostError> {
        Ok(())
    }

    /// Sets this round's values.
    ///
    /// # Errors
    ///
    /// Fails if the kernel's data can't be read or is malformed.
    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError>;
}

#[cfg(test)]
pub(crate) mod tests;
