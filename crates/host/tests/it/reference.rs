//! node_exporter 1.12's own fixture tree and its page of it.

use std::path::Path;

use narthex_host::{CollectorKind, CollectorSet, HostConfig, HostSource};
use narthex_testkit::{
    TempDir, corpora,
    node_exporter::{OF_THIS_HOST, VOLATILE},
    ttar,
};

use crate::support::{
    Families, PATIENT_MS, Samples, assert_own_labels, families, parse_text, samples, unpack_ttar,
};

/// Disabled where the page was generated; they are tested in `filesystem.rs` and `host.rs`.
const NOT_IN_THE_PAGE: [CollectorKind; 4] = [
    CollectorKind::Filesystem,
    CollectorKind::Selinux,
    CollectorKind::Timex,
    CollectorKind::Uname,
];

/// Prefixes of the exporter's own families.
const OTHERS: [&str; 3] = ["go_", "process_", "promhttp_"];

/// Off by default, and on where the page was generated.
const ON: [CollectorKind; 18] = [
    CollectorKind::Buddyinfo,
    CollectorKind::Cgroups,
    CollectorKind::CpuVulnerabilities,
    CollectorKind::Drbd,
    CollectorKind::Interrupts,
    CollectorKind::Ksmd,
    CollectorKind::Lnstat,
    CollectorKind::MeminfoNuma,
    CollectorKind::Mountstats,
    CollectorKind::Pcidevice,
    CollectorKind::Processes,
    CollectorKind::Qdisc,
    CollectorKind::Slabinfo,
    CollectorKind::Softirqs,
    CollectorKind::Sysctl,
    CollectorKind::Wifi,
    CollectorKind::Xfrm,
    CollectorKind::Zoneinfo,
];

/// Prefixes of families whose helps are our own words.
const OWN_HELP: [&str; 19] = [
    "node_bcachefs_",
    "node_buddyinfo_",
    "node_cgroups_",
    "node_cpu_vulnerabilities_",
    "node_drbd_",
    "node_interrupts_",
    "node_ksmd_",
    "node_lnstat_",
    "node_memory_numa_",
    "node_mountstats_",
    "node_pcidevice_",
    "node_processes_",
    "node_qdisc_",
    "node_slabinfo_",
    "node_softirqs_functions_",
    "node_sysctl_",
    "node_wifi_",
    "node_xfrm_",
    "node_zoneinfo_",
];

fn is_ours(family: &str) -> bool {
    !OTHERS.iter().any(|begin| family.starts_with(begin))
}

fn family_of(series: &str) -> &str {
    series.split('{').next().expect("a name")
}

/// Returns the flags of FLAGS.md, as far as they apply here.
fn config(dir: &Path, unpacked: &Path) -> HostConfig {
    let mut config = HostConfig {
        procfs: unpacked.join("proc"),
        sysfs: unpacked.join("sys"),
        rootfs: unpacked.to_path_buf(),
        udev_data: unpacked.join("udev/data"),
        wait_ms: PATIENT_MS,
        ..HostConfig::default()
    };
    config.collectors = ON.into_iter().fold(config.collectors, CollectorSet::with);
    for kind in NOT_IN_THE_PAGE {
        config.collectors = config.collectors.without(kind);
    }
    let textfiles = dir.join("textfile/two_metric_files");
    let qdisc = dir.join("qdisc").display().to_string();
    let wifi = dir.join("wifi").display().to_string();
    for (flag, value) in [
        ("collector.cpu.info", "true"),
        (
            "collector.cpu.info.bugs-include",
            "^(cpu_meltdown|spectre_.*|mds)$",
        ),
        (
            "collector.cpu.info.flags-include",
            "^(aes|avx.?|constant_tsc)$",
        ),
        ("collector.arp.device-exclude", "nope"),
        ("collector.arp.netlink", "false"),
        ("collector.bcache.priorityStats", "true"),
        (
            "collector.hwmon.chip-include",
            "(applesmc|asus_nb_wmi|coretemp|hwmon4|ieee80211|nct6779)",
        ),
        ("collector.netclass.ignore-invalid-speed", "true"),
        ("collector.netclass.ignored-devices", "(dmz|int)"),
        ("collector.netdev.device-include", "lo"),
        ("collector.netdev.netlink", "true"),
        ("collector.qdisc.device-include", "(wlan0|eth0)"),
        ("collector.qdisc.fixtures", &qdisc),
        ("collector.wifi.fixtures", &wifi),
        ("collector.stat.softirq", "true"),
        ("collector.sysctl.include", "fs.file-nr"),
        ("collector.sysctl.include", "fs.file-nr:total,current,max"),
        ("collector.sysctl.include", "kernel.threads-max"),
        (
            "collector.sysctl.include-info",
            "kernel.seccomp.actions_avail",
        ),
        (
            "collector.textfile.directory",
            &textfiles.display().to_string(),
        ),
    ] {
        config.set_flag(flag, value).expect(flag);
    }
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
    ttar::link_procfs(&dir.join("proc"), &unpacked.join("proc"));
    std::os::unix::fs::symlink(dir.join("usr"), unpacked.join("usr")).expect("writable");
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

    let mut host = HostSource::new(config(&dir, unpacked.path())).expect("valid");
    // Twice: state from the first round must not change the second.
    for now_ms in [0, 1_000] {
        let frame = host.collect(now_ms);
        // The page was generated in the directory above the trees.
        let shown = |text: &str| {
            let text = text.replace(&unpacked.path().display().to_string(), "collector/fixtures");
            text.replace(&dir.display().to_string(), "collector/fixtures")
        };
        let mut collected: Samples = samples(frame)
            .into_iter()
            .map(|(series, value)| (shown(&series), value))
            .collect();
        let ours: Families = families(frame)
            .into_iter()
            .map(|(name, (kind, help))| (name, (kind, shown(&help))))
            .collect();
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
        let other: Vec<_> = expected
            .iter()
            .filter(|(series, value)| {
                let is_of_this_host = OF_THIS_HOST.iter().any(|begin| series.starts_with(begin));
                !is_of_this_host && collected[*series].to_bits() != value.to_bits()
            })
            .map(|(series, value)| format!("{series}: {value} {}", collected[series]))
            .collect();
        assert!(other.is_empty(), "{other:#?}");
        let other: Vec<_> = expected_families
            .iter()
            .filter(|(name, (kind, help))| {
                let is_own = OWN_HELP.iter().any(|begin| name.starts_with(begin));
                let found = ours.get(*name);
                !found.is_some_and(|found| found.0 == *kind && (is_own || found.1 == *help))
            })
            .map(|(name, family)| (name, family, ours.get(name)))
            .collect();
        assert!(other.is_empty(), "{other:#?}");
        assert_eq!(ours.len(), expected_families.len());
    }
    host_labels(config(&dir, unpacked.path()));
    let total = expected.len() + expected_families.len();
    corpora::report("node_exporter fixtures (series and families)", total, total);
}

/// Text files may use any label.
fn host_labels(mut config: HostConfig) {
    config.collectors = config.collectors.without(CollectorKind::Textfile);
    let mut host = HostSource::new(config).expect("valid");
    host.collect(0);
    assert_own_labels(&host);
}

#[test]
fn pci_devices_are_named_as_node_exporter_names_them() {
    let Some(dir) = corpora::dir("node-exporter") else {
        return corpora::report("names of PCI devices", 0, 0);
    };
    let unpacked = TempDir::new("host-pci-names");
    unpack_ttar(&dir.join("sys.ttar"), unpacked.path());
    let mut config = HostConfig {
        sysfs: unpacked.join("sys"),
        wait_ms: PATIENT_MS,
        collectors: CollectorSet::none().with(CollectorKind::Pcidevice),
        pci_names: true,
        pci_ids: dir.join("pci.ids"),
        ..HostConfig::default()
    };
    config.procfs = unpacked.path().to_path_buf();
    let mut host = HostSource::new(config).expect("valid");
    let is_info = |series: &&String| series.starts_with("node_pcidevice_info");
    let page = std::fs::read_to_string(dir.join("pcidevice-names-output.txt"));
    let (expected, _) = parse_text(&page.expect("the page is text"));
    let expected: Vec<_> = expected.keys().filter(is_info).collect();
    let found = samples(host.collect(0));
    assert_eq!(found.keys().filter(is_info).collect::<Vec<_>>(), expected);
    corpora::report("names of PCI devices", expected.len(), expected.len());
}
