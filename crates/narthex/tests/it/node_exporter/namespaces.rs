//! Both exporters in a network namespace of the test: many devices of several kinds, and devices that come and go.

use super::{
    differential::{self, Expected, compare},
    is_1_5, ours, real,
};
use crate::support::Running;
use narthex_testkit::{corpora, exposition::parse_text, http, tool};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::{
    collections::BTreeSet,
    fmt::Write as _,
    io::Write as _,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

/// Pairs of virtual devices, as on a node with many containers.
const PAIRS: usize = 200;

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
fn ip(batch: &str) {
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
    let ran = thread::spawn(move || {
        // SAFETY: only this thread's namespaces and its paths change; no file descriptor table is unshared.
        let entered = unsafe { unshare_unsafe(UnshareFlags::NEWNET | UnshareFlags::NEWNS) };
        let mount = |arguments: &[&str]| {
            let status = Command::new("mount").args(arguments).status();
            status.is_ok_and(|status| status.success())
        };
        let ready = entered.is_ok()
            && mount(&["--make-rprivate", "/"])
            && mount(&["-t", "sysfs", "sysfs", "/sys"]);
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
    isolated("node_exporter beside us with 200 pairs of devices", || {
        populate(PAIRS);
        let expected = Expected {
            is_1_5: is_1_5(),
            has_own_help: true,
        };
        let (ours, real) = (ours(&FLAGS), real(&FLAGS));
        // Each of the 403 devices has forty series.
        compare(&ours, &real, &expected, 12_000);
    });
}

/// A container sees its host below a directory. `/mnt` is used, because what is mounted there must never be removed.
#[test]
fn a_container_with_its_hosts_mounts_says_the_same() {
    isolated("a container with its host's mounts", || {
        ip("link set lo up\n");
        let mount = Command::new("mount")
            .args(["--rbind", "/", "/mnt"])
            .status();
        assert!(mount.unwrap().success());
        // Mounts that nobody may enter are reported differently by 1.5.
        let excluded = "--collector.filesystem.mount-points-exclude=";
        let others = differential::FLAGS.into_iter();
        let mut flags: Vec<&str> = others.filter(|flag| !flag.starts_with(excluded)).collect();
        flags.extend([
            "--collector.filesystem.mount-points-exclude=^/.",
            "--path.rootfs=/mnt",
            "--path.procfs=/mnt/proc",
            "--path.sysfs=/mnt/sys",
            "--path.udev.data=/mnt/run/udev/data",
        ]);
        let expected = Expected {
            is_1_5: is_1_5(),
            has_own_help: false,
        };
        let (ours, real) = (ours(&flags), real(&flags));
        compare(&ours, &real, &expected, 150);
        let page = http::get(&format!("{}/metrics", ours.url)).unwrap().text();
        let root = page.lines().find(|line| {
            line.starts_with("node_filesystem_size_bytes") && line.contains("mountpoint=\"/\"")
        });
        assert!(root.is_some(), "{page}");
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
