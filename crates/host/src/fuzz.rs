//! Entry points for fuzzing: everything here reads bytes the kernel, udev or a fixture wrote.
//!
//! Invariant: none of them panics, allocates more than a small multiple of its input, or runs longer than linear in
//! its input's size.

use crate::collector::{cpu, cpuinfo, diskstats, loadavg, meminfo, netdev, vmstat};
use crate::procstat::{self, StatSnapshot};
use crate::timezone::{Zone, parse_rule_text};
use crate::udev::UdevInfo;
use crate::{links, mountinfo, netlink};

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
    ] {
        let _ = netlink::parse_part(data, SEQUENCE, wanted, &mut |body| {
            match wanted {
                netlink::RTM_NEWLINK => drop(links::parse_link(body)?),
                netlink::RTM_NEWSTATS => drop(links::parse_stats(body)?),
                _ => drop(links::parse_address(body)?.map(|address| address.scope())),
            }
            Ok(())
        });
    }
}

/// A time zone file, and a rule as text.
pub fn fuzz_timezone(data: &[u8]) {
    parse_rule_text(data);
    if let Some(zone) = Zone::parse(data) {
        for now_s in [i64::MIN, -1, 0, 1_700_000_000, i64::MAX] {
            let _ = zone.offset_at(now_s);
        }
    }
}
