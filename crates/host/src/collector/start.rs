//! Construction of the collectors.

use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::collector::numbers::Numbers;
use crate::collector::*;
use crate::config::HostConfig;
use crate::filter;
use crate::kind::CollectorKind;
use crate::open_file::OpenFile;
use crate::proc_table::ProcTable;
use crate::procstat::SharedStat;
use crate::statfs::Statfs;
use crate::sysfs_collector::{Plan, SysfsCollector};

pub(crate) type Started = (CollectorKind, Box<dyn Collector>);

/// Builds the configured collectors.
///
/// # Errors
///
/// Fails on unusable flags.
pub(crate) fn start(
    config: &HostConfig,
    statfs: Box<dyn Statfs>,
) -> Result<Vec<Started>, HostError> {
    let stat = SharedStat::new(config.procfs.join("stat"));
    let stat = Arc::new(Mutex::new(stat));
    let mut statfs = Some(statfs);
    let kinds = CollectorKind::ALL.into_iter();
    let kinds = kinds.filter(|kind| config.collectors.contains(*kind));
    let started = kinds.map(|kind| {
        let collector: Box<dyn Collector> = match kind {
            CollectorKind::Cpu => Box::new(cpu::Cpu::new(config, stat.clone())?),
            CollectorKind::Stat => Box::new(stat::Stat::new(config.stat_softirq, stat.clone())),
            CollectorKind::Filesystem => {
                let statfs = statfs.take().expect("one filesystem collector");
                Box::new(filesystem::Filesystem::new(config, statfs)?)
            }
            kind => start_one(kind, config)?,
        };
        Ok((kind, collector))
    });
    started.collect()
}

fn start_one(kind: CollectorKind, config: &HostConfig) -> Result<Box<dyn Collector>, HostError> {
    let procfs = config.procfs.as_path();
    let file = |name: &str| OpenFile::new(procfs.join(name));
    Ok(match kind {
        CollectorKind::Arp => Box::new(arp::Arp::new(config)?),
        CollectorKind::Bonding => Box::new(bonding::Bonding::new(config)),
        CollectorKind::Buddyinfo => {
            Box::new(ProcTable::new(buddyinfo::Buddyinfo::default(), procfs))
        }
        CollectorKind::Cgroups => Box::new(ProcTable::new(cgroups::Cgroups, procfs)),
        CollectorKind::Conntrack => Box::new(conntrack::Conntrack::new(procfs)),
        CollectorKind::Diskstats => Box::new(diskstats::Diskstats::new(config)?),
        CollectorKind::Drbd => Box::new(drbd::new(procfs)),
        CollectorKind::Ethtool => Box::new(ethtool::Ethtool::new(config)?),
        CollectorKind::Entropy | CollectorKind::Filefd | CollectorKind::KernelHung => {
            Box::new(Numbers::new(kind, procfs))
        }
        CollectorKind::Interrupts => Box::new(interrupts::new(config)?),
        CollectorKind::Ipvs => Box::new(ipvs::Ipvs::new(config)?),
        CollectorKind::Lnstat => Box::new(lnstat::Lnstat::new(config)),
        CollectorKind::Loadavg => Box::new(loadavg::Loadavg::new(file("loadavg"))),
        CollectorKind::Logind => Box::new(logind::Logind::new(config)),
        CollectorKind::Mdadm => Box::new(mdadm::Mdadm::new(config)),
        CollectorKind::Meminfo => Box::new(meminfo::Meminfo::new(file("meminfo"))),
        CollectorKind::MeminfoNuma => Box::new(meminfo_numa::MeminfoNuma::new(config)),
        CollectorKind::Mountstats => Box::new(mountstats::Mountstats::new(config)),
        CollectorKind::Netclass => Box::new(netclass::Netclass::new(config)?),
        CollectorKind::Netdev => Box::new(netdev::Netdev::new(config)?),
        CollectorKind::Netstat => Box::new(netstat::Netstat::new(procfs, &config.netstat_fields)?),
        CollectorKind::NetworkRoute => Box::new(network_route::NetworkRoute::default()),
        CollectorKind::Ntp => Box::new(ntp::Ntp::new(config)?),
        CollectorKind::Perf => Box::new(perf::Perf::new(config)?),
        CollectorKind::Pressure => Box::new(pressure::Pressure::new(procfs)),
        CollectorKind::Processes => Box::new(processes::Processes::new(config)),
        CollectorKind::Qdisc => Box::new(qdisc::Qdisc::new(config)?),
        CollectorKind::Runit => Box::new(runit::Runit::new(config)),
        CollectorKind::Schedstat => Box::new(ProcTable::new(schedstat::Schedstat, procfs)),
        CollectorKind::Slabinfo => Box::new(slabinfo::new(config)?),
        CollectorKind::Sockstat => Box::new(sockstat::Sockstat::new(procfs)),
        CollectorKind::Softirqs => Box::new(ProcTable::new(softirqs::Softirqs::default(), procfs)),
        CollectorKind::Softnet => Box::new(ProcTable::new(softnet::Softnet, procfs)),
        CollectorKind::Supervisord => Box::new(supervisord::Supervisord::new(config)?),
        CollectorKind::Swap => Box::new(ProcTable::new(swap::Swap, procfs)),
        CollectorKind::Sysctl => Box::new(sysctl::Sysctl::new(config)),
        CollectorKind::Systemd => Box::new(systemd::Systemd::new(config)?),
        CollectorKind::Tcpstat => Box::new(tcpstat::Tcpstat::new(procfs)),
        CollectorKind::Textfile => Box::new(textfile::Textfile::new(config)),
        CollectorKind::Time => Box::new(time::Time::new(config)),
        CollectorKind::Timex => Box::new(timex::Clock::new()),
        CollectorKind::UdpQueues => Box::new(udp_queues::UdpQueues::new(procfs)),
        CollectorKind::Uname => Box::new(uname::Uname::default()),
        CollectorKind::Vmstat => {
            let fields = filter::compile("collector.vmstat.fields", &config.vmstat_fields)?;
            Box::new(vmstat::Vmstat::new(file("vmstat"), fields))
        }
        CollectorKind::Wifi => Box::new(wifi::Wifi::new(config)),
        CollectorKind::Zfs => Box::new(zfs::Zfs::new(config)),
        CollectorKind::Zoneinfo => Box::new(zoneinfo::new(procfs)),
        kind => Box::new(start_files(kind, config)?),
    })
}

/// Builds the collectors of small files.
fn start_files(kind: CollectorKind, config: &HostConfig) -> Result<SysfsCollector, HostError> {
    type Describe = fn(&Path, &mut Plan<'_>) -> Result<(), HostError>;
    let below_sys =
        |path, describe: Describe| SysfsCollector::new(config.sysfs.join(path), describe);
    let below_proc =
        |path, describe: Describe| SysfsCollector::new(config.procfs.join(path), describe);
    Ok(match kind {
        CollectorKind::Bcache => bcache::new(config),
        CollectorKind::Bcachefs => below_sys("fs/bcachefs", bcachefs::describe),
        CollectorKind::Btrfs => below_sys("fs/btrfs", btrfs::describe),
        CollectorKind::CpuVulnerabilities => below_sys(
            "devices/system/cpu/vulnerabilities",
            cpu_vulnerabilities::describe,
        ),
        CollectorKind::Cpufreq => below_sys("devices/system/cpu", cpufreq::describe),
        CollectorKind::Dmi => below_sys("class/dmi/id", dmi::describe),
        CollectorKind::Dmmultipath => below_sys("block", dmmultipath::describe),
        CollectorKind::Drm => below_sys("class/drm", drm::describe),
        CollectorKind::Edac => below_sys("devices/system/edac/mc", edac::describe),
        CollectorKind::Fibrechannel => below_sys("class/fc_host", fibrechannel::describe),
        CollectorKind::Hwmon => hwmon::new(config)?,
        CollectorKind::Infiniband => infiniband::new(config)?,
        CollectorKind::Ksmd => below_sys("kernel/mm/ksm", ksmd::describe),
        CollectorKind::Nfs => below_proc("net/rpc/nfs", nfs::describe),
        CollectorKind::Nfsd => below_proc("net/rpc/nfsd", nfsd::describe),
        CollectorKind::Nvme => below_sys("class/nvme", nvme::describe),
        CollectorKind::Nvmesubsystem => below_sys("class/nvme-subsystem", nvmesubsystem::describe),
        CollectorKind::Os => SysfsCollector::new(config.rootfs.clone(), os::describe),
        CollectorKind::Pcidevice => pcidevice::new(config),
        CollectorKind::Powersupplyclass => powersupplyclass::new(config)?,
        CollectorKind::Rapl => rapl::new(config),
        CollectorKind::Selinux => SysfsCollector::new(selinux::DIRECTORY.into(), selinux::describe),
        CollectorKind::Tapestats => tapestats::new(config)?,
        CollectorKind::ThermalZone => below_sys("class/thermal", thermal_zone::describe),
        CollectorKind::Watchdog => below_sys("class/watchdog", watchdog::describe),
        CollectorKind::Xfrm => below_proc("net/xfrm_stat", xfrm::describe),
        CollectorKind::Xfs => below_sys("fs/xfs", xfs::describe),
        kind => unreachable!("{} is started by the caller", kind.name()),
    })
}
