//! Both exporters in a network namespace of the test: many devices of several kinds, and devices that come and go.

use super::{
    differential::{Expected, compare},
    is_1_5, ours, real,
};
use crate::support::Running;
use narthex_testkit::{TempDir, corpora, exposition::parse_text, http, scaled, tool};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    io::Write as _,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

/// Pairs of virtual devices, and four times as many at a larger scale, as on a node with many containers: node_exporter
/// takes seconds to say what it knows of those.
const PAIRS: u64 = 50;

/// What both are asked for.
const FLAGS: [&str; 15] = [
    "--web.disable-exporter-metrics",
    // Debian's build leaves out lo by default.
    "--collector.netdev.device-exclude=^none$",
    "--collector.disable-defaults",
    "--collector.arp",
    "--collector.bonding",
    "--collector.conntrack",
    "--collector.ethtool",
    "--collector.netclass",
    "--collector.netdev",
    "--collector.netstat",
    "--collector.network_route",
    "--collector.qdisc",
    "--collector.sockstat",
    "--collector.softnet",
    "--collector.udp_queues",
];

/// Runs commands of `ip -batch`.
pub(super) fn ip(batch: &str) {
    let mut ip = Command::new(tool("ip", "iproute2"))
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    ip.stdin
        .take()
        .unwrap()
        .write_all(batch.as_bytes())
        .unwrap();
    assert!(ip.wait().unwrap().success(), "{batch}");
}

/// Runs `test` on a thread with network devices and a sysfs of its own, which programs that it starts share; says so if
/// that is not permitted.
fn isolated(name: &'static str, test: impl FnOnce() + Send + 'static) {
    isolated_by(
        UnshareFlags::NEWNET | UnshareFlags::NEWNS,
        &[&["--make-rprivate", "/"], &["-t", "sysfs", "sysfs", "/sys"]],
        name,
        test,
    );
}

/// Runs `test` on a thread with namespaces of its own, after some mounts in them.
pub(super) fn isolated_by(
    namespaces: UnshareFlags,
    mounts: &'static [&'static [&'static str]],
    name: &'static str,
    test: impl FnOnce() + Send + 'static,
) {
    let ran = thread::spawn(move || {
        // SAFETY: only this thread's namespaces and its paths change; no file descriptor table is unshared.
        let entered = unsafe { unshare_unsafe(namespaces) };
        let mount = |arguments: &&[&str]| {
            let status = Command::new("mount").args(*arguments).status();
            status.is_ok_and(|status| status.success())
        };
        let ready = entered.is_ok() && mounts.iter().all(mount);
        if ready {
            test();
        }
        ready
    });
    let ran = ran.join().expect("the test passes");
    corpora::report(name, usize::from(ran), 1);
}

/// Adds pairs, a bridge over some, devices on top of another, addresses, routes and neighbours.
fn populate(pairs: usize) {
    let mut batch = String::from("link set lo up\nlink add br0 type bridge\n");
    for at in 0..pairs {
        let _ = writeln!(batch, "link add veth{at} type veth peer name peer{at}");
        if at % 4 == 0 {
            let _ = writeln!(batch, "link set veth{at} master br0");
        }
        if at % 3 == 0 {
            let _ = writeln!(batch, "link set veth{at} up\nlink set peer{at} up");
        }
    }
    batch.push_str(
        "link add mac0 link veth1 type macvlan mode bridge\n\
         link set veth1 mtu 1400 alias uplink\n\
         addr add 10.77.0.1/24 dev veth3\n\
         route add 10.78.0.0/16 via 10.77.0.2 dev veth3\n\
         link set br0 up\n\
         addr add 10.79.0.1/24 dev br0\n",
    );
    for at in 2..40 {
        let _ = writeln!(
            batch,
            "neigh add 10.77.0.{at} lladdr 02:00:00:00:00:{at:02x} dev veth3 nud permanent"
        );
    }
    ip(&batch);
}

#[test]
fn many_devices_are_the_same() {
    isolated("node_exporter beside us with many devices", || {
        let pairs = scaled(PAIRS).min(4 * PAIRS) as usize;
        populate(pairs);
        let expected = Expected {
            is_1_5: is_1_5(),
            has_own_help: true,
        };
        let (ours, real) = (ours(&FLAGS), real(&FLAGS));
        // Each device has forty series.
        compare(&ours, &real, &expected, pairs * 2 * 30);
    });
}

/// Returns the devices of a page, after checking that no series is there twice and no collector failed.
fn devices(page: &str) -> BTreeSet<String> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    let series: Vec<&str> = lines
        .filter_map(|line| Some(line.rsplit_once(' ')?.0))
        .collect();
    let distinct: BTreeSet<&str> = series.iter().copied().collect();
    assert_eq!(distinct.len(), series.len(), "a series is there twice");
    let (samples, _) = parse_text(page);
    for collector in ["arp", "netclass", "netdev", "network_route", "qdisc"] {
        let success = format!("node_scrape_collector_success{{collector=\"{collector}\"}}");
        assert_eq!(samples[&success], 1.0, "{collector}");
    }
    let of_device = |series: &String| {
        let rest = series.strip_prefix("node_network_receive_bytes_total{device=\"")?;
        rest.strip_suffix("\"}").map(str::to_owned)
    };
    samples.keys().filter_map(of_device).collect()
}

#[test]
fn devices_come_and_go_during_scrapes() {
    isolated("devices that come and go during scrapes", || {
        populate(20);
        let one = ours(&FLAGS);
        let scrape = |one: &Running| {
            let answer = http::get(&format!("{}/metrics", one.url)).unwrap();
            assert_eq!(answer.status, 200);
            devices(&answer.text())
        };
        let steady = scrape(&one);
        assert_eq!(steady.len(), 2 * 20 + 3);
        let is_done = AtomicBool::new(false);
        let mut seen = BTreeSet::new();
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..60 {
                    // The same names with other numbers, and others.
                    ip(&format!(
                        "link add go0 type veth peer name go1\nlink add go{} type bridge\nlink set go0 up\n",
                        round + 2
                    ));
                    ip(&format!("link del go{}\nlink del go0\n", round + 2));
                }
                is_done.store(true, Ordering::Release);
            });
            while !is_done.load(Ordering::Acquire) {
                let page = scrape(&one);
                assert!(page.is_superset(&steady), "{steady:?} {page:?}");
                seen.extend(page);
            }
        });
        let come_and_gone = seen.difference(&steady).count();
        assert!(come_and_gone > 0, "no scrape saw one of them");
        assert_eq!(scrape(&one), steady);
        let real = real(&FLAGS);
        let expected = Expected {
            is_1_5: is_1_5(),
            has_own_help: true,
        };
        compare(&one, &real, &expected, 1_000);
    });
}

/// Kinds of devices that few kernels for tests have, as their files show them: bonds of two devices, of which one is down, and
/// of none; VLANs, of which one is under a bond.
const FILES: [(&str, &str); 8] = [
    ("sys/class/net/bonding_masters", "bond0 bond1\n"),
    ("sys/class/net/bond0/bonding/slaves", "eth0 eth1\n"),
    (
        "sys/class/net/bond0/lower_eth0/bonding_slave/mii_status",
        "up\n",
    ),
    (
        "sys/class/net/bond0/lower_eth1/bonding_slave/mii_status",
        "down\n",
    ),
    ("sys/class/net/bond1/bonding/slaves", "\n"),
    (
        "proc/net/dev",
        "Inter-|   Receive                                                |  Transmit\n \
         face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n  \
         eth0: 4294967296 70 1 2 3 4 5 6 17 18 19 20 21 22 23 24\n  \
         eth1:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0\n \
         bond0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n\
         bond0.100:18446744073709551615 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n\
         eth0.4094: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n",
    ),
    (
        "proc/net/ip_vs",
        "IP Virtual Server version 1.2.1 (size=4096)\n\
         Prot LocalAddress:Port Scheduler Flags\n  \
         -> RemoteAddress:Port Forward Weight ActiveConn InActConn\n\
         TCP  C0A80016:0CEA wlc\n  \
         -> C0A85216:0CEA      Tunnel  100    248        2\n  \
         -> C0A85318:0CEA      Tunnel  100    248        1\n\
         UDP  [2620:0000:0000:0000:0000:0000:0000:0001]:0050 sh\n  \
         -> [2620:0000:0000:0000:0000:0000:0000:0002]:0050      Route   0      0          3\n\
         FWM  10001000 wlc\n  \
         -> C0A83215:0CEA      Route   20     0          0\n",
    ),
    (
        "proc/net/ip_vs_stats",
        "   Total Incoming Outgoing         Incoming         Outgoing\n   \
         Conns  Packets  Packets            Bytes            Bytes\n \
         16AA370 E33656E5        0     51D8C8883AB3        0\n\n \
         Conns/s   Pkts/s   Pkts/s          Bytes/s          Bytes/s\n       \
         4    1FB3C        0          1282A8F                0\n",
    ),
];

/// Links what `into` does not have itself, but for other processes.
fn link_others(from: &str, into: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let name = entry.unwrap().file_name();
        let is_process = name
            .to_string_lossy()
            .parse::<u32>()
            .is_ok_and(|number| number != 1);
        let link = into.join(&name);
        if !is_process && !link.exists() {
            symlink(Path::new(from).join(name), link).unwrap();
        }
    }
}

/// All else is the kernel's.
#[test]
fn bonds_vlans_and_a_load_balancer_are_the_same() {
    let dir = TempDir::new("bonds");
    for (path, text) in FILES {
        dir.write(path, text);
    }
    link_others("/proc/self/net", &dir.join("proc/net"));
    link_others("/proc", &dir.join("proc"));
    link_others("/sys/class", &dir.join("sys/class"));
    link_others("/sys", &dir.join("sys"));
    let paths = ["proc", "sys"].map(|name| format!("--path.{name}fs={}", dir.join(name).display()));
    let flags = [
        "--web.disable-exporter-metrics",
        "--collector.disable-defaults",
        "--collector.bonding",
        "--collector.cpu",
        "--collector.diskstats",
        "--collector.ipvs",
        "--collector.loadavg",
        "--collector.netdev",
        "--no-collector.netdev.netlink",
        "--collector.netstat",
        "--collector.netdev.device-exclude=^none$",
        "--collector.diskstats.device-exclude=^(z?ram|loop)",
        &paths[0],
        &paths[1],
    ];
    let expected = Expected {
        is_1_5: is_1_5(),
        has_own_help: true,
    };
    compare(&ours(&flags), &real(&flags), &expected, 150);
}
