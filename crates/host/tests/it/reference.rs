//! node_exporter 1.12's own fixture tree and the page it prints over it.

use std::path::Path;

use narthex_host::{CollectorKind, HostConfig, HostSource, NetdevSource};
use narthex_testkit::{TempDir, corpora};

use crate::support::{families, parse_text, samples, unpack_ttar};

/// Switched off where the page was printed; their own tests are in `filesystem.rs` and `host.rs`.
const NOT_IN_THE_PAGE: [CollectorKind; 2] = [CollectorKind::Filesystem, CollectorKind::Uname];

/// What our collectors export, by the beginning of the family's name, and what begins alike but is others'.
const OURS: [&str; 17] = [
    "node_boot_time_seconds",
    "node_context_switches_total",
    "node_cpu_",
    "node_disk_",
    "node_exporter_build_info",
    "node_forks_total",
    "node_intr_total",
    "node_load",
    "node_memory_",
    "node_network_receive_",
    "node_network_transmit_",
    "node_procs_blocked",
    "node_procs_running",
    "node_scrape_collector_",
    "node_softirqs_total",
    "node_time_",
    "node_vmstat_",
];
const OTHERS: [&str; 4] = [
    "node_cpu_scaling_",
    "node_cpu_vulnerabilities_",
    "node_memory_numa_",
    "node_network_transmit_queue_length",
];

/// Values that depend on when and where the page was printed; the page itself has none.
const VOLATILE: [&str; 8] = [
    "node_exporter_build_info",
    "node_network_receive_bytes_total",
    "node_network_receive_packets_total",
    "node_network_transmit_bytes_total",
    "node_network_transmit_packets_total",
    "node_scrape_collector_duration_seconds",
    "node_time_seconds",
    "node_time_zone_offset_seconds",
];

fn is_ours(family: &str) -> bool {
    let begins = |list: &[&str]| list.iter().any(|begin| family.starts_with(begin));
    begins(&OURS) && !begins(&OTHERS)
}

fn family_of(series: &str) -> &str {
    series.split('{').next().expect("a name")
}

/// The flags of FLAGS.md, as far as they concern us.
fn config(proc: &Path, unpacked: &Path) -> HostConfig {
    let mut config = HostConfig {
        procfs: proc.to_path_buf(),
        sysfs: unpacked.join("sys"),
        rootfs: unpacked.to_path_buf(),
        udev_data: unpacked.join("udev/data"),
        stat_softirq: true,
        ..HostConfig::default()
    };
    for kind in NOT_IN_THE_PAGE {
        config.collectors = config.collectors.without(kind);
    }
    config.cpu.info = true;
    config.cpu.info_bugs_include = Some("^(cpu_meltdown|spectre_.*|mds)$".into());
    config.cpu.info_flags_include = Some("^(aes|avx.?|constant_tsc)$".into());
    config.netdev.device.include = Some("lo".into());
    config.netdev.source = NetdevSource::Netlink;
    config
}

#[test]
fn every_family_label_and_value_is_node_exporters() {
    let Some(dir) = corpora::dir("node-exporter") else {
        return corpora::report("node_exporter fixtures", 0, 0);
    };
    let unpacked = TempDir::new("host-reference");
    unpack_ttar(&dir.join("sys.ttar"), unpacked.path());
    unpack_ttar(&dir.join("udev.ttar"), unpacked.path());
    let page = std::fs::read_to_string(dir.join("e2e-output.txt")).expect("the page is text");
    let (mut expected, mut expected_families) = parse_text(&page);
    let success = "node_scrape_collector_success{collector=";
    expected.retain(|series, _| {
        let ours = CollectorKind::ALL
            .iter()
            .any(|kind| series == &format!("{success}{:?}}}", kind.name()));
        is_ours(family_of(series)) && (ours || !series.starts_with(success))
    });
    expected_families.retain(|name, _| is_ours(name));

    let mut host = HostSource::new(config(&dir.join("proc"), unpacked.path())).expect("valid");
    // Twice: what is known from the first round must not change the second.
    for now_ms in [0, 1_000] {
        let frame = host.collect(now_ms);
        let mut collected = samples(frame);
        let ours = families(frame);
        collected.retain(|series, _| !VOLATILE.contains(&family_of(series)));
        let missing: Vec<_> = expected
            .keys()
            .filter(|series| !collected.contains_key(*series))
            .collect();
        let extra: Vec<_> = collected
            .keys()
            .filter(|series| !expected.contains_key(*series))
            .collect();
        assert!(
            missing.is_empty() && extra.is_empty(),
            "missing {missing:#?}\nextra {extra:#?}"
        );
        for (series, value) in &expected {
            assert_eq!(
                value.to_bits(),
                collected[series].to_bits(),
                "{series}: {value} {}",
                collected[series]
            );
        }
        assert_eq!(ours, expected_families);
    }
    let total = expected.len() + expected_families.len();
    corpora::report("node_exporter fixtures (series and families)", total, total);
}
