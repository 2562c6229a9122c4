//! Entry points for fuzzing: everything here parses bytes that the kernel, udev or a fixture wrote.
//!
//! Invariant: none of them panics, allocates more than a small multiple of its input, or takes more than time linear in
//! its input's size.

use crate::collector::{
    arp, bcache, bcachefs, buddyinfo, cgroups, conntrack, cpu, cpuinfo, diskstats, drbd,
    infiniband, interrupts, ipvs, lnstat, loadavg, mdadm, meminfo, meminfo_numa, mountstats,
    netdev, netstat, network_route, numbers, os, pci_ids, pressure, processes, qdisc, schedstat,
    selinux, slabinfo, sockstat, softirqs, softnet, swap, tcpstat, udp_queues, vmstat, zfs,
    zoneinfo,
};
use crate::config::HostConfig;
use crate::proc_table::ProcTable;
use crate::procstat::{self, StatSnapshot};
use crate::rows::Rows;
use crate::sink::Sink;
use crate::timezone::Zone;
use crate::udev::UdevInfo;
use crate::{linkprops, links, mountinfo, netlink, proc_table, scan, sysfs_collector};
use narthex_model::LabelSet;
use std::path::Path;

/// `/proc/stat`.
pub fn fuzz_stat(data: &[u8]) {
    let mut snapshot = StatSnapshot::default();
    let parsed = procstat::parse(data, &mut snapshot);
    if parsed.is_ok() {
        assert!(snapshot.cpus.is_sorted_by(|a, b| a.0 < b.0));
    }
}

/// `/proc/cpuinfo`.
pub fn fuzz_cpuinfo(data: &[u8]) {
    cpuinfo::parse_all(data);
}

/// Lists of CPUs such as `0-3,7`.
pub fn fuzz_ranges(data: &[u8]) {
    assert!(cpu::parse_ranges(data).len() <= 1 << 17);
}

/// `/proc/diskstats`.
pub fn fuzz_diskstats(data: &[u8]) {
    let _ = diskstats::parse(data, |line| {
        if let Some(counters) = line.counters()? {
            assert!((11..=17).contains(&counters.values().len()));
        }
        Ok(())
    });
}

/// A file of udev's database.
pub fn fuzz_udev(data: &[u8]) {
    let _ = UdevInfo::parse(data);
}

/// `/proc/loadavg`.
pub fn fuzz_loadavg(data: &[u8]) {
    let _ = loadavg::parse(data).map(|loads| assert!(loads.iter().all(|load| load.is_finite())));
}

/// `/proc/meminfo`.
pub fn fuzz_meminfo(data: &[u8]) {
    let _ = meminfo::parse(data, |_, _| {});
}

/// `/proc/vmstat`.
pub fn fuzz_vmstat(data: &[u8]) {
    vmstat::learn_and_read(data);
}

/// `/proc/pressure/*`.
pub fn fuzz_pressure(data: &[u8]) {
    pressure::parse(data);
}

/// Files of a few numbers: `file-nr`, `entropy_avail`.
pub fn fuzz_numbers(data: &[u8]) {
    for place in 0..4 {
        assert!(numbers::nth(data, place).is_none_or(|value| !value.is_nan()));
    }
}

/// `/proc/net/netstat`, `snmp` and `snmp6`.
pub fn fuzz_netstat(data: &[u8]) {
    netstat::learn_and_read(data);
}

/// `/proc/net/sockstat`.
pub fn fuzz_sockstat(data: &[u8]) {
    let _ = sockstat::parse(data, |_, field, value| {
        assert!(!field.is_empty() && !value.is_nan());
    });
}

/// `/proc/net/softnet_stat` and `/proc/schedstat`.
pub fn fuzz_per_cpu(data: &[u8]) {
    let _ = softnet::parse(data, &mut |_, values| {
        assert!(values.iter().all(|value| *value <= f64::from(u32::MAX)));
    });
    let _ = schedstat::parse(data, &mut |_, values| {
        assert!(values.iter().all(|value| *value >= 0.0));
    });
}

/// `/proc/net/stat/nf_conntrack`.
pub fn fuzz_conntrack(data: &[u8]) {
    let _ = conntrack::parse(data);
}

/// `/proc/net/udp` and `/proc/net/arp`.
pub fn fuzz_sockets(data: &[u8]) {
    let _ = udp_queues::parse(data);
    let _ = arp::parse(data, |device| assert!(!device.is_empty()));
}

/// `/proc/net/ip_vs` and `ip_vs_stats`.
pub fn fuzz_ipvs(data: &[u8]) {
    ipvs::parse_totals(data);
    let _ = ipvs::parse(data, |row| {
        row.labels();
        Ok(())
    });
}

/// `/proc/mdstat`.
pub fn fuzz_mdstat(data: &[u8]) {
    let _ = mdadm::parse(data, |array| assert!(!array.name.is_empty()));
}

/// `/proc/spl/kstat/zfs/*`.
pub fn fuzz_zfs(data: &[u8]) {
    let _ = zfs::parse(data, |name, value| {
        assert!(!name.is_empty() && !value.is_nan());
    });
    let _ = zfs::parse_io(data);
}

/// `/etc/os-release`, `/etc/selinux/config`.
pub fn fuzz_settings(data: &[u8]) {
    let _ = os::parse(data);
    selinux::configured_mode(data);
}

/// Attributes of sysfs.
pub fn fuzz_attributes(data: &[u8]) {
    let text = scan::trim(data);
    infiniband::state(text);
    infiniband::rate(text);
    bcache::size(text);
    for decode in [
        sysfs_collector::Decode::PLAIN,
        sysfs_collector::Decode::Over(1000.0),
        sysfs_collector::Decode::Cell("rw", 1),
        sysfs_collector::Decode::CellOver("commits", 1000.0),
        sysfs_collector::Decode::Is("up".into()),
        sysfs_collector::Decode::Field("commits".into(), 0, bcachefs::human_bytes),
        sysfs_collector::Decode::InSection("read:".into(), "user".into()),
        sysfs_collector::Decode::With(bcachefs::human_bytes),
    ] {
        assert!(decode.decode(data).is_none_or(|value| !value.is_nan()));
    }
}

/// Tables of procfs that become series line by line.
pub fn fuzz_tables(data: &[u8]) {
    let (config, procfs) = (HostConfig::default(), Path::new("/proc"));
    proc_table::fuzz(
        ProcTable::new(buddyinfo::Buddyinfo::default(), procfs),
        data,
    );
    proc_table::fuzz(ProcTable::new(cgroups::Cgroups, procfs), data);
    proc_table::fuzz(drbd::new(procfs), data);
    proc_table::fuzz(ProcTable::new(softirqs::Softirqs::default(), procfs), data);
    proc_table::fuzz(ProcTable::new(swap::Swap, procfs), data);
    proc_table::fuzz(zoneinfo::new(procfs), data);
    proc_table::fuzz(interrupts::new(&config).expect("no filter"), data);
    proc_table::fuzz(slabinfo::new(&config).expect("no filter"), data);
}

/// Files of NUMA nodes, `net/stat/*`, `stat` of a process, `mountstats`, `pci.ids`, fixtures.
pub fn fuzz_nodes(data: &[u8]) {
    let mut out = Sink::new(LabelSet::empty());
    let mut rows = Rows::new();
    out.begin();
    rows.begin();
    let _ = meminfo_numa::parse_meminfo(data, &mut rows, &mut out);
    let _ = meminfo_numa::parse_numastat("0", data, &mut rows, &mut out);
    let _ = mountstats::Families::new().parse(data, &[], &mut rows, &mut out);
    let _ = lnstat::parse("x", data, &mut Vec::new(), &mut rows, &mut out);
    rows.end(&mut out);
    out.finish(0);
    processes::parse(data);
    pci_ids::PciIds::parse(&String::from_utf8_lossy(data));
    qdisc::parse_fixture(data);
}

/// `/proc/net/dev`.
pub fn fuzz_netdev(data: &[u8]) {
    let _ = netdev::parse(data, |name, _| assert!(!name.is_empty()));
}

/// `/proc/1/mountinfo`.
pub fn fuzz_mountinfo(data: &[u8]) {
    let _ = mountinfo::parse(data, |line| {
        let _ = line.read_only();
        let plain = mountinfo::unescape(line.mount_point, b" \t\n\\#");
        assert!(plain.len() <= line.mount_point.len());
    });
}

/// A datagram of the routing socket, with links, statistics and addresses.
pub fn fuzz_netlink(data: &[u8]) {
    const SEQUENCE: u32 = 1;
    for wanted in [
        netlink::RTM_NEWLINK,
        netlink::RTM_NEWSTATS,
        netlink::RTM_NEWADDR,
        netlink::RTM_NEWNEIGH,
        netlink::RTM_NEWROUTE,
        netlink::RTM_NEWQDISC,
        netlink::SOCK_DIAG_BY_FAMILY,
    ] {
        let _ = netlink::parse_part(data, SEQUENCE, wanted, &mut |body| {
            match wanted {
                netlink::RTM_NEWLINK => {
                    links::parse_link(body)?;
                    linkprops::parse(body)?;
                }
                netlink::RTM_NEWNEIGH => drop(links::parse_neighbour(body)?),
                netlink::RTM_NEWROUTE => network_route::parse(body, &mut Vec::new())?,
                netlink::RTM_NEWQDISC => drop(qdisc::parse(body)?),
                netlink::SOCK_DIAG_BY_FAMILY => tcpstat::Counts::default().add(body)?,
                netlink::RTM_NEWSTATS => drop(links::parse_stats(body)?),
                _ => drop(links::parse_address(body)?.map(|address| address.scope())),
            }
            Ok(())
        });
    }
}

/// A time zone file.
pub fn fuzz_timezone(data: &[u8]) {
    if let Some(zone) = Zone::parse(data) {
        for now_s in [i64::MIN, -1, 0, 1_700_000_000, i64::MAX] {
            let _ = zone.offset_at(now_s);
        }
    }
}
