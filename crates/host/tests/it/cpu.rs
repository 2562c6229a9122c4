//! CPUs that are added, removed, jump back and are switched off.

use narthex_host::CollectorKind::Cpu;

use crate::support::{Tree, of_family, samples, stale};

#[test]
fn an_offline_cpu_ends_and_a_jump_back_resets() {
    let tree = Tree::new("host-cpu");
    tree.write(
        "proc/stat",
        "cpu0 100 0 50 900 3 0 1 0 7 8\ncpu1 200 0 50 900 3 0 1 0 0 0\n",
    );
    let mut host = tree.source(&[Cpu]);
    let first = samples(host.collect(0));
    assert_eq!(first[r#"node_cpu_seconds_total{cpu="1",mode="user"}"#], 2.0);
    assert_eq!(
        first[r#"node_cpu_guest_seconds_total{cpu="0",mode="nice"}"#],
        0.08
    );
    let schema = host.schema().clone();

    // CPU 1 goes away; CPU 0's user time falls a little, which is hidden.
    tree.write("proc/stat", "cpu0 90 0 50 901 3 0 1 0 7 8\n");
    let frame = host.collect(1);
    let second = samples(frame);
    assert_eq!(
        second[r#"node_cpu_seconds_total{cpu="0",mode="user"}"#],
        1.0
    );
    assert_eq!(
        second[r#"node_cpu_seconds_total{cpu="0",mode="idle"}"#],
        9.01
    );
    assert_eq!(stale(frame).len(), 10);
    let diff = host.schema().diff(&schema).expect("one lineage");
    assert_eq!((diff.retired.len(), diff.appended.len()), (10, 0));

    // Idle falls by three seconds: a replaced CPU. CPU 1 comes back with new slots.
    tree.write(
        "proc/stat",
        "cpu0 80 0 50 601 3 0 1 0 7 8\ncpu1 1 0 0 0 0 0 0 0 0 0\n",
    );
    let third = samples(host.collect(2));
    assert_eq!(third[r#"node_cpu_seconds_total{cpu="0",mode="user"}"#], 0.8);
    assert_eq!(
        third[r#"node_cpu_seconds_total{cpu="1",mode="user"}"#],
        0.01
    );
    assert_eq!(host.schema().len(), schema.len() + 10);
}

#[test]
fn online_is_reported_where_cpu_0_can_be_switched_off() {
    let tree = Tree::new("host-online");
    let mut host = tree.source(&[Cpu]);
    for cpu in 0..3 {
        tree.write(
            &format!("sys/devices/system/cpu/cpu{cpu}/topology/core_id"),
            "0\n",
        );
    }
    assert_eq!(of_family(&samples(host.collect(0)), "node_cpu_online"), []);

    for cpu in 0..3 {
        tree.write(&format!("sys/devices/system/cpu/cpu{cpu}/online"), "1\n");
    }
    tree.write("proc/stat", "cpu0 1 1 1 1\ncpu2 1 1 1 1\n");
    tree.write("sys/devices/system/cpu/cpu1/online", "0\n");
    let expected = [
        (r#"{cpu="0"}"#, 1.0),
        (r#"{cpu="1"}"#, 0.0),
        (r#"{cpu="2"}"#, 1.0),
    ];
    assert_eq!(
        of_family(&samples(host.collect(1)), "node_cpu_online"),
        expected
    );

    // The list of all CPUs has the same information in one read; it wins if it exists.
    tree.write("sys/devices/system/cpu/online", "0-1\n");
    let expected = [
        (r#"{cpu="0"}"#, 1.0),
        (r#"{cpu="1"}"#, 1.0),
        (r#"{cpu="2"}"#, 0.0),
    ];
    assert_eq!(
        of_family(&samples(host.collect(2)), "node_cpu_online"),
        expected
    );
}

#[test]
fn throttles_are_counted_once_per_core_and_keep_their_series() {
    let tree = Tree::new("host-throttle");
    for (cpu, core) in [(0, 0), (1, 1), (2, 0)] {
        let base = format!("sys/devices/system/cpu/cpu{cpu}");
        tree.write(&format!("{base}/topology/core_id"), &format!("{core}\n"));
        tree.write(&format!("{base}/topology/physical_package_id"), "0\n");
        tree.write(
            &format!("{base}/thermal_throttle/core_throttle_count"),
            &format!("{}\n", 10 + cpu),
        );
        tree.write(
            &format!("{base}/thermal_throttle/package_throttle_count"),
            "3\n",
        );
    }
    let mut host = tree.source(&[Cpu]);
    let first = samples(host.collect(0));
    let cores = [
        (r#"{core="0",package="0"}"#, 10.0),
        (r#"{core="1",package="0"}"#, 11.0),
    ];
    assert_eq!(of_family(&first, "node_cpu_core_throttles_total"), cores);
    assert_eq!(
        of_family(&first, "node_cpu_package_throttles_total"),
        [(r#"{package="0"}"#, 3.0)]
    );

    // The set of CPUs changes: sysfs is read again, but remaining CPUs keep their slots.
    let schema = host.schema().clone();
    tree.write("proc/stat", "cpu0 1 1 1 1\ncpu1 1 1 1 1\n");
    tree.write(
        "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count",
        "12\n",
    );
    let second = samples(host.collect(1));
    assert_eq!(
        of_family(&second, "node_cpu_core_throttles_total")[0].1,
        12.0
    );
    assert_eq!(
        host.schema().diff(&schema).expect("one lineage").retired,
        []
    );
}
