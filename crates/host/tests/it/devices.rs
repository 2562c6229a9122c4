//! Disks and network devices that are added and removed, and their schema.

use narthex_host::CollectorKind::{Diskstats, Loadavg, Meminfo, Netdev, Vmstat};

use crate::support::{Tree, of_family, samples, stale};

const DISK: &str = "1 2 3 4 5 6 7 8 9 10 11";

#[test]
fn a_flapping_disk_edits_the_schema_only_when_it_flaps() {
    let tree = Tree::new("host-disk");
    tree.write(
        "proc/diskstats",
        &format!("8 0 sda {DISK}\n8 16 sdb {DISK}\n7 0 loop0 {DISK}\n"),
    );
    let mut host = tree.source(&[Diskstats]);
    let first = samples(host.collect(0));
    assert_eq!(of_family(&first, "node_disk_read_bytes_total").len(), 2);
    assert_eq!(first[r#"node_disk_read_bytes_total{device="sda"}"#], 1536.0);
    let (schema, version) = (host.schema().clone(), host.schema().version());

    for round in 1..4 {
        host.collect(round);
    }
    assert_eq!(host.schema().version(), version, "nothing came or went");

    tree.write(
        "proc/diskstats",
        &format!("8 0 sda {DISK}\n7 0 loop0 {DISK}\n"),
    );
    let ended = stale(host.collect(4));
    assert_eq!(ended.len(), 12);
    assert!(
        ended
            .iter()
            .all(|series| series.contains(r#"device="sdb""#)),
        "{ended:?}"
    );
    let diff = host.schema().diff(&schema).expect("one lineage");
    assert_eq!((diff.retired.len(), diff.appended.len()), (12, 0));
    assert_eq!(stale(host.collect(5)), [] as [String; 0]);

    tree.write(
        "proc/diskstats",
        &format!("7 0 loop0 {DISK}\n8 16 sdb {DISK}\n8 0 sda {DISK}\n"),
    );
    let schema = host.schema().clone();
    assert_eq!(samples(host.collect(6)).len(), first.len());
    let diff = host.schema().diff(&schema).expect("one lineage");
    assert_eq!((diff.retired.len(), diff.appended.len()), (0, 12));
}

#[test]
fn a_replaced_disk_keeps_its_counters_and_changes_its_labels() {
    let tree = Tree::new("host-hotswap");
    tree.write("proc/diskstats", &format!("8 16 sdb {DISK}\n"));
    tree.write("udev/b8:16", "E:ID_SERIAL_SHORT=old\nE:ID_FS_TYPE=ext4\n");
    tree.write("sys/block/sdb/queue/rotational", "1\n");
    let mut host = tree.source(&[Diskstats]);
    let first = samples(host.collect(0));
    assert_eq!(
        of_family(&first, "node_disk_info")[0].0,
        r#"{device="sdb",major="8",minor="16",rotational="1",serial="old"}"#
    );
    assert_eq!(of_family(&first, "node_disk_filesystem_info").len(), 1);

    let schema = host.schema().clone();
    tree.write(
        "proc/diskstats",
        &format!("8 32 sdb {DISK} 12 13 14 15 16 17\n"),
    );
    tree.write("udev/b8:32", "E:ID_SERIAL_SHORT=new\n");
    let frame = host.collect(1);
    let second = samples(frame);
    assert_eq!(stale(frame).len(), 2);
    assert!(second.contains_key(
        r#"node_disk_info{device="sdb",major="8",minor="32",rotational="1",serial="new"}"#
    ));
    assert_eq!(
        second[r#"node_disk_flush_requests_time_seconds_total{device="sdb"}"#],
        0.017
    );
    let diff = host.schema().diff(&schema).expect("one lineage");
    assert_eq!((diff.retired.len(), diff.appended.len()), (2, 7));
}

#[test]
fn network_devices_of_a_tree() {
    let tree = Tree::new("host-netdev");
    let line = |name: &str| format!("{name}: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n");
    tree.write(
        "proc/net/dev",
        &format!("h\nh\n{}{}", line("lo"), line("eth0")),
    );
    let mut host = tree.source(&[Netdev]);
    let first = samples(host.collect(0));
    assert_eq!(
        first[r#"node_network_receive_bytes_total{device="eth0"}"#],
        1.0
    );
    assert_eq!(
        first[r#"node_network_transmit_compressed_total{device="lo"}"#],
        16.0
    );
    assert_eq!(first.len(), 2 * 16 + 3);
    let schema = host.schema().clone();
    tree.write(
        "proc/net/dev",
        &format!("h\nh\n{}{}", line("veth1"), line("lo")),
    );
    host.collect(1);
    let diff = host.schema().diff(&schema).expect("one lineage");
    assert_eq!((diff.retired.len(), diff.appended.len()), (16, 16));
}

#[test]
fn a_failing_collector_is_absent_and_comes_back_in_its_own_slots() {
    let tree = Tree::new("host-failing");
    let mut host = tree.source(&[Loadavg, Meminfo, Vmstat, Diskstats]);
    let first = samples(host.collect(0));
    let schema = host.schema().clone();

    tree.write("proc/meminfo", "MemTotal: 8 kB\nMemFree: x kB\n");
    tree.write("proc/loadavg", "");
    std::fs::remove_file(tree.dir.join("proc/vmstat")).expect("it was written");
    let frame = host.collect(1);
    let mut ended = stale(frame);
    ended.retain(|series| !series.starts_with("node_vmstat"));
    assert_eq!(
        ended,
        [
            "node_load1",
            "node_load15",
            "node_load5",
            "node_memory_MemFree_bytes",
            "node_memory_MemTotal_bytes"
        ]
    );
    let failed = samples(frame);
    let success = of_family(&failed, "node_scrape_collector_success");
    let names: Vec<_> = success
        .iter()
        .filter(|(_, value)| *value == 0.0)
        .map(|(labels, _)| *labels)
        .collect();
    assert_eq!(
        names,
        [r#"{collector="loadavg"}"#, r#"{collector="meminfo"}"#]
    );
    let error = host.error(Meminfo).expect("it failed");
    let cause = std::error::Error::source(error).expect("a cause");
    assert_eq!(
        cause.to_string(),
        "line 2: expected a number after the field's name"
    );
    assert!(
        error.to_string().ends_with("proc/meminfo is malformed"),
        "{error}"
    );

    let whole = Tree::new("host-whole");
    for name in ["meminfo", "loadavg", "vmstat"] {
        let text = std::fs::read_to_string(whole.dir.join("proc").join(name)).expect("text");
        tree.write(&format!("proc/{name}"), &text);
    }
    assert_eq!(samples(host.collect(2)).len(), first.len());
    assert!(
        host.schema().same(&schema),
        "the same series in the same slots"
    );
    assert!(host.error(Meminfo).is_none());
}
