//! One file per collector, and their shared parts: a round's context, the trait, and their construction.
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
pub(crate) mod entropy;
pub(crate) mod ethtool;
pub(crate) mod fibrechannel;
pub(crate) mod filefd;
pub(crate) mod filesystem;
pub(crate) mod hwmon;
pub(crate) mod infiniband;
pub(crate) mod interrupts;
pub(crate) mod ipvs;
pub(crate) mod kernel_hung;
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
pub(crate) mod percpu;
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

use std::sync::{Arc, Mutex};

use crate::config::HostConfig;
use crate::error::HostError;
use crate::filter;
use crate::kind::CollectorKind;
use crate::open_file::{OpenFile, ReadBuf};
use crate::procstat::SharedStat;
use crate::sink::Sink;
use crate::statfs::Statfs;

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
    fn kind(&self) -> CollectorKind;

    /// Reports whether it may hang, so that a round should not wait for it for long.
    fn may_hang(&self) -> bool {
        self.kind().may_hang()
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

/// Builds the configured collectors.
///
/// # Errors
///
/// Fails on unusable flags.
pub(crate) fn start(
    config: &HostConfig,
    statfs: Box<dyn Statfs>,
) -> Result<Vec<Box<dyn Collector>>, HostError> {
    let stat = SharedStat::new(config.procfs.join("stat"));
    let stat = Arc::new(Mutex::new(stat));
    let mut statfs = Some(statfs);
    CollectorKind::ALL
        .into_iter()
        .filter(|kind| config.collectors.contains(*kind))
        .map(|kind| match kind {
            CollectorKind::Cpu => Ok(Box::new(cpu::Cpu::new(config, stat.clone())?) as Box<_>),
            CollectorKind::Stat => {
                let stat = stat::Stat::new(config.stat_softirq, stat.clone());
                Ok(Box::new(stat) as Box<_>)
            }
            CollectorKind::Filesystem => {
                let statfs = statfs.take().expect("one filesystem collector");
                Ok(Box::new(filesystem::Filesystem::new(config, statfs)?) as Box<_>)
            }
            kind => start_one(kind, config),
        })
        .collect()
}

fn start_one(kind: CollectorKind, config: &HostConfig) -> Result<Box<dyn Collector>, HostError> {
    let procfs = config.procfs.as_path();
    let file = |name: &str| OpenFile::new(procfs.join(name));
    Ok(match kind {
        CollectorKind::Arp => Box::new(arp::Arp::new(config)?),
        CollectorKind::Buddyinfo => Box::new(buddyinfo::new(procfs)),
        CollectorKind::Cgroups => Box::new(cgroups::new(procfs)),
        CollectorKind::Conntrack => Box::new(conntrack::Conntrack::new(procfs)),
        CollectorKind::Cpufreq => Box::new(cpufreq::Cpufreq::new(config)),
        CollectorKind::CpuVulnerabilities => {
            Box::new(cpu_vulnerabilities::CpuVulnerabilities::new(config))
        }
        CollectorKind::Diskstats => Box::new(diskstats::Diskstats::new(config)?),
        CollectorKind::Dmi => Box::new(dmi::Dmi::new(config)),
        CollectorKind::Drbd => Box::new(drbd::new(procfs)),
        CollectorKind::Entropy => Box::new(entropy::new(procfs)),
        CollectorKind::Filefd => Box::new(filefd::new(procfs)),
        CollectorKind::Interrupts => Box::new(interrupts::new(config)?),
        CollectorKind::Ipvs => Box::new(ipvs::Ipvs::new(config)?),
        CollectorKind::KernelHung => Box::new(kernel_hung::new(procfs)),
        CollectorKind::Ksmd => Box::new(ksmd::Ksmd::new(config)),
        CollectorKind::Lnstat => Box::new(lnstat::Lnstat::new(config)),
        CollectorKind::Loadavg => Box::new(loadavg::Loadavg::new(file("loadavg"))),
        CollectorKind::Meminfo => Box::new(meminfo::Meminfo::new(file("meminfo"))),
        CollectorKind::MeminfoNuma => Box::new(meminfo_numa::MeminfoNuma::new(config)),
        CollectorKind::Netclass => Box::new(netclass::Netclass::new(config)?),
        CollectorKind::Netdev => Box::new(netdev::Netdev::new(config)?),
        CollectorKind::Netstat => Box::new(netstat::Netstat::new(procfs, &config.netstat_fields)?),
        CollectorKind::Os => Box::new(os::Os::new(config)),
        CollectorKind::Perf => Box::new(perf::Perf::new(config)?),
        CollectorKind::Pressure => Box::new(pressure::Pressure::new(procfs)),
        CollectorKind::Processes => Box::new(processes::Processes::new(config)),
        CollectorKind::Schedstat => Box::new(schedstat::new(procfs)),
        CollectorKind::Slabinfo => Box::new(slabinfo::new(config)?),
        CollectorKind::Sockstat => Box::new(sockstat::Sockstat::new(procfs)),
        CollectorKind::Softirqs => Box::new(softirqs::new(procfs)),
        CollectorKind::Softnet => Box::new(softnet::new(procfs)),
        CollectorKind::Swap => Box::new(swap::new(procfs)),
        CollectorKind::Sysctl => Box::new(sysctl::Sysctl::new(config)),
        CollectorKind::Time => Box::new(time::Time::new(config)),
        CollectorKind::Timex => Box::new(timex::Clock::default()),
        CollectorKind::UdpQueues => Box::new(udp_queues::UdpQueues::new(procfs)),
        CollectorKind::Uname => Box::new(uname::Uname::default()),
        CollectorKind::Vmstat => {
            let fields = filter::compile("collector.vmstat.fields", &config.vmstat_fields)?;
            Box::new(vmstat::Vmstat::new(file("vmstat"), fields))
        }
        CollectorKind::Xfrm => Box::new(xfrm::Xfrm::new(config)),
        CollectorKind::Zoneinfo => Box::new(zoneinfo::new(procfs)),
        CollectorKind::Mountstats => Box::new(mountstats::Mountstats::new(config)),
        CollectorKind::NetworkRoute => Box::new(network_route::NetworkRoute::default()),
        CollectorKind::Qdisc => Box::new(qdisc::Qdisc::new(config)?),
        CollectorKind::Tcpstat => Box::new(tcpstat::Tcpstat::new(procfs)),
        CollectorKind::Logind => Box::new(logind::Logind::new(config)),
        CollectorKind::Ntp => Box::new(ntp::Ntp::new(config)?),
        CollectorKind::Runit => Box::new(runit::Runit::new(config)),
        CollectorKind::Supervisord => Box::new(supervisord::Supervisord::new(config)?),
        CollectorKind::Ethtool => Box::new(ethtool::Ethtool::new(config)?),
        CollectorKind::Wifi => Box::new(wifi::Wifi::new(config)),
        CollectorKind::Systemd => Box::new(systemd::Systemd::new(config)?),
        kind => start_device(kind, config)?,
    })
}

/// Builds the collectors of devices and file systems.
fn start_device(kind: CollectorKind, config: &HostConfig) -> Result<Box<dyn Collector>, HostError> {
    Ok(match kind {
        CollectorKind::Bcache => Box::new(bcache::Bcache::new(config)),
        CollectorKind::Bcachefs => Box::new(bcachefs::Bcachefs::new(config)),
        CollectorKind::Bonding => Box::new(bonding::Bonding::new(config)),
        CollectorKind::Btrfs => Box::new(btrfs::Btrfs::new(config)),
        CollectorKind::Dmmultipath => Box::new(dmmultipath::Dmmultipath::new(config)),
        CollectorKind::Edac => Box::new(edac::Edac::new(config)),
        CollectorKind::Fibrechannel => Box::new(fibrechannel::Fibrechannel::new(config)),
        CollectorKind::Hwmon => Box::new(hwmon::Hwmon::new(config)?),
        CollectorKind::Infiniband => Box::new(infiniband::Infiniband::new(config)?),
        CollectorKind::Mdadm => Box::new(mdadm::Mdadm::new(config)),
        CollectorKind::Nfs => Box::new(nfs::Nfs::new(config)),
        CollectorKind::Nfsd => Box::new(nfsd::Nfsd::new(config)),
        CollectorKind::Nvme => Box::new(nvme::Nvme::new(config)),
        CollectorKind::Powersupplyclass => {
            Box::new(powersupplyclass::Powersupplyclass::new(config)?)
        }
        CollectorKind::Rapl => Box::new(rapl::Rapl::new(config)),
        CollectorKind::Selinux => Box::new(selinux::Selinux::new(config)),
        CollectorKind::Tapestats => Box::new(tapestats::Tapestats::new(config)?),
        CollectorKind::Textfile => Box::new(textfile::Textfile::new(config)),
        CollectorKind::ThermalZone => Box::new(thermal_zone::ThermalZone::new(config)),
        CollectorKind::Watchdog => Box::new(watchdog::Watchdog::new(config)),
        CollectorKind::Xfs => Box::new(xfs::Xfs::new(config)),
        CollectorKind::Zfs => Box::new(zfs::Zfs::new(config)),
        CollectorKind::Drm => Box::new(drm::Drm::new(config)),
        CollectorKind::Nvmesubsystem => Box::new(nvmesubsystem::NvmeSubsystem::new(config)),
        CollectorKind::Pcidevice => Box::new(pcidevice::Pcidevice::new(config)),
        kind => unreachable!("{} is started by the caller", kind.name()),
    })
}

#[cfg(test)]
pub(crate) mod tests;
