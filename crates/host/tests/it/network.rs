//! Load balancing, neighbours and properties of network devices.

use std::time::{Duration, Instant};

use narthex_host::CollectorKind::{Arp, Ipvs, Netclass};
use narthex_host::{CollectorSet, HostConfig, HostSource};
use narthex_testkit::corpora;

use crate::netns::{ip, isolated};
use crate::support::{Samples, Tree, families, of_family, parse_text, samples, stale};

/// Selected labels, and the resulting page.
const LABELS: [(&str, &str); 4] = [
    (
        "local_address,local_port,remote_address,remote_port,proto,local_mark",
        "ip_vs_result.txt",
    ),
    (
        "local_address,local_port",
        "ip_vs_result_lbs_local_address_local_port.txt",
    ),
    ("local_port", "ip_vs_result_lbs_local_port.txt"),
    ("", "ip_vs_result_lbs_none.txt"),
];

#[test]
fn ipvs_backends_are_summed_by_the_labels_that_are_kept() {
    let Some(dir) = corpora::dir("node-exporter") else {
        return corpora::report("ipvs labels", 0, LABELS.len());
    };
    for (labels, page) in LABELS {
        let mut config = HostConfig {
            procfs: dir.join("proc"),
            collectors: CollectorSet::none().with(Ipvs),
            ..HostConfig::default()
        };
        config
            .set_flag("collector.ipvs.backend-labels", labels)
            .expect("known");
        let mut host = HostSource::new(config).expect("valid");
        let page = std::fs::read_to_string(dir.join(page)).expect("a page");
        let (expected, expected_families) = parse_text(&page);
        for now_ms in 0..2 {
            let frame = host.collect(now_ms);
            let mut ours = samples(frame);
            ours.retain(|series, _| series.starts_with("node_ipvs_"));
            assert_eq!(ours, expected, "{labels:?}");
            let ours = families(frame);
            for (name, family) in &expected_families {
                assert_eq!(ours.get(name), Some(family));
            }
        }
    }
    corpora::report("ipvs labels", LABELS.len(), LABELS.len());
}

#[test]
fn ipvs_backends_come_and_go() {
    let tree = Tree::new("host-ipvs");
    let head = "IP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler Flags\n  \
                -> RemoteAddress:Port Forward Weight ActiveConn InActConn\n";
    let backend = |last: u8, active: u32| {
        format!("  -> C0A852{last:02X}:0CEA      Masq    100    {active}        2\n")
    };
    let list =
        |services: &[String]| tree.write("proc/net/ip_vs", &format!("{head}{}", services.concat()));
    let service = "TCP  C0A80016:0CEA wlc\n".to_string();
    tree.write(
        "proc/net/ip_vs_stats",
        "   Total Incoming Outgoing         Incoming         Outgoing\n   \
         Conns  Packets  Packets            Bytes            Bytes\n       \
         A        B        C                D                E\n\n",
    );
    list(&[service.clone(), backend(1, 5), backend(2, 6)]);
    let mut host = tree.source(&[Ipvs]);
    let first = samples(host.collect(0));
    assert_eq!(first["node_ipvs_connections_total"], 10.0);
    let active = "node_ipvs_backend_connections_active";
    assert_eq!(of_family(&first, active).len(), 2);

    // Reordered, one removed, one added.
    list(&[service, backend(3, 7), backend(1, 8)]);
    let frame = host.collect(1);
    assert_eq!(stale(frame).len(), 3);
    let second = samples(frame);
    let values: Vec<f64> = of_family(&second, active)
        .iter()
        .map(|(_, value)| *value)
        .collect();
    assert_eq!(values, [8.0, 7.0]);

    // An empty table is not a failure; a missing table is no data.
    list(&[]);
    let empty = samples(host.collect(2));
    assert_eq!(of_family(&empty, active).len(), 0);
    assert_eq!(
        empty[r#"node_scrape_collector_success{collector="ipvs"}"#],
        1.0
    );
    std::fs::remove_file(tree.dir.join("proc/net/ip_vs_stats")).expect("it was written");
    tree.write("proc/net/ip_vs_stats.gone", "");
    let mut host = tree.source(&[Ipvs]);
    let absent = samples(host.collect(3));
    assert_eq!(
        absent[r#"node_scrape_collector_success{collector="ipvs"}"#],
        0.0
    );
    assert!(host.error(Ipvs).expect("absent").is_no_data());
}

fn source(kinds: CollectorSet) -> HostSource {
    HostSource::new(HostConfig {
        collectors: kinds,
        ..HostConfig::default()
    })
    .expect("valid")
}

/// Returns the series whose values both sources report.
fn of_devices(samples: Samples) -> Samples {
    let is_asked =
        |series: &String| series.starts_with("node_network_") || series.starts_with("node_arp");
    samples
        .into_iter()
        .filter(|(series, _)| is_asked(series))
        .collect()
}

#[test]
fn netclass_by_netlink_says_what_sysfs_says() {
    isolated("properties of network devices", || {
        mount_sysfs();
        ip("link add nc0 type veth peer name nc1");
        ip("link set nc0 up");
        ip("link set nc1 mtu 1400 up");
        ip("link add nd0 type veth peer name nd1");
        ip("link set nd0 alias spare");
        let mut told = source(CollectorSet::none().with(Netclass));
        // Another path to the same files is not recognised as the kernel's own.
        let copy = narthex_testkit::TempDir::new("sysfs");
        std::os::unix::fs::symlink("/sys/class", copy.join("class")).expect("writable");
        let mut read = HostSource::new(HostConfig {
            sysfs: copy.path().to_path_buf(),
            collectors: CollectorSet::none().with(Netclass),
            ..HostConfig::default()
        })
        .expect("valid");
        // The kernel updates carriers asynchronously: they may differ between the two reads.
        let mut compare = |now_ms| {
            let end = Instant::now() + Duration::from_secs(20);
            loop {
                let (told, read) = (samples(told.collect(now_ms)), samples(read.collect(now_ms)));
                if of_devices(told.clone()) == of_devices(read.clone()) {
                    return told;
                }
                let late = Instant::now() > end;
                assert!(
                    !late,
                    "told {:#?}\nread {:#?}",
                    of_devices(told),
                    of_devices(read)
                );
                std::thread::yield_now();
            }
        };
        let first = compare(0);
        assert_eq!(first[r#"node_network_mtu_bytes{device="nc1"}"#], 1400.0);
        assert_eq!(first[r#"node_network_up{device="nd0"}"#], 0.0);
        assert_eq!(of_family(&first, "node_network_info").len(), 5);

        // Changes are seen in the next round, without a refresh of either.
        ip("link set nc1 mtu 1300");
        ip("link set nd0 up");
        let second = compare(1);
        assert_eq!(second[r#"node_network_mtu_bytes{device="nc1"}"#], 1300.0);
        ip("link del nc0");
        let third = compare(2);
        assert_eq!(of_family(&third, "node_network_info").len(), 3);
    });
}

/// The host's sysfs in a container: the routing socket lists other devices than sysfs shows.
#[test]
fn a_sysfs_of_another_namespace_is_read_and_not_asked_about() {
    isolated("sysfs of another namespace", || {
        ip("link add ne0 type veth peer name ne1");
        let mut host = source(CollectorSet::none().with(Netclass));
        let shown = std::fs::read_dir("/sys/class/net").expect("sysfs is mounted");
        let shown = shown
            .filter(|entry| entry.as_ref().is_ok_and(|entry| entry.path().is_dir()))
            .count();
        for now_ms in 0..3 {
            let round = samples(host.collect(now_ms));
            assert_eq!(
                of_family(&round, "node_network_info").len(),
                shown,
                "round {now_ms}"
            );
            assert!(!round.contains_key(r#"node_network_up{device="ne0"}"#));
        }
    });
}

/// Mounts a sysfs of this thread's network namespace.
fn mount_sysfs() {
    // SAFETY: only this thread's mounts and working directory change.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) }
        .expect("a mount namespace of its own");
    for arguments in ["--make-rprivate /", "-t sysfs sysfs /sys"] {
        let status = std::process::Command::new("mount")
            .args(arguments.split(' '))
            .status();
        assert!(status.expect("mount runs").success(), "mount {arguments}");
    }
}

#[test]
fn neighbours_by_netlink_are_those_of_the_file() {
    isolated("neighbours", || {
        ip("link add na0 type veth peer name na1");
        ip("addr add 10.77.0.1/24 dev na0");
        ip("link set na0 up");
        ip("link set na1 up");
        for last in 2..7 {
            ip(&format!(
                "neigh add 10.77.0.{last} lladdr 02:00:00:00:00:0{last} dev na0 nud permanent"
            ));
        }
        ip("neigh add 10.77.0.9 lladdr 02:00:00:00:00:09 dev na0 nud noarp");
        let mut told = source(CollectorSet::none().with(Arp));
        let told = samples(told.collect(0));
        assert_eq!(
            of_family(&told, "node_arp_entries"),
            [(r#"{device="na0"}"#, 5.0)]
        );
        let mut config = HostConfig {
            procfs: "/proc/thread-self".into(),
            collectors: CollectorSet::none().with(Arp),
            ..HostConfig::default()
        };
        config
            .set_flag("collector.arp.netlink", "false")
            .expect("known");
        let mut read = HostSource::new(config).expect("valid");
        let read = samples(read.collect(0));
        assert_eq!(
            of_family(&read, "node_arp_entries"),
            of_family(&told, "node_arp_entries")
        );
    });
}
