//! Include and exclude, their defaults and their conflicts.

use narthex_host::CollectorKind::{self, Diskstats, Netdev, Stat, Vmstat};
use narthex_host::{CollectorSet, FilterConfig, HostConfig, HostError, HostSource};

use narthex_model::LabelSet;

use crate::support::{Tree, assert_own_labels, of_family, samples};

fn filter(include: Option<&str>, exclude: Option<&str>) -> FilterConfig {
    FilterConfig {
        include: include.map(Into::into),
        exclude: exclude.map(Into::into),
    }
}

fn disks(filter: FilterConfig) -> Vec<String> {
    let tree = Tree::new("host-filters");
    let names = [
        "sda",
        "sda1",
        "nvme0n1",
        "nvme0n1p1",
        "loop0",
        "dm-0",
        "zram0",
        "vdb",
        "vdb2",
        "mmcblk0p1",
        "fd0",
    ];
    let lines: Vec<String> = names
        .iter()
        .map(|name| format!("8 0 {name} 1 2 3 4 5 6 7 8 9 10 11"))
        .collect();
    tree.write("proc/diskstats", &lines.join("\n"));
    let config = HostConfig {
        diskstats: filter,
        ..tree.config(&[Diskstats])
    };
    let mut host = HostSource::new(config).expect("valid");
    let samples = samples(host.collect(0));
    let found = of_family(&samples, "node_disk_io_now");
    found
        .iter()
        .map(|(labels, _)| labels.split('"').nth(1).expect("a device").to_owned())
        .collect()
}

#[test]
fn include_replaces_the_default_exclusion() {
    assert_eq!(
        disks(filter(None, None)),
        ["dm-0", "mmcblk0p1", "nvme0n1", "sda", "vdb"]
    );
    assert_eq!(
        disks(filter(Some("^(sda1|loop.*)$"), None)),
        ["loop0", "sda1"]
    );
    assert_eq!(disks(filter(Some("sda"), Some(""))), ["sda", "sda1"]);
    assert_eq!(disks(filter(None, Some(""))).len(), 11);
    assert_eq!(disks(filter(None, Some("\\d$"))), ["sda", "vdb"]);
    assert_eq!(disks(filter(Some(""), None)).len(), 5);
}

#[test]
fn include_with_exclude_is_refused_by_name() {
    let both = filter(Some("a"), Some("b"));
    let mut configs: [HostConfig; 4] = Default::default();
    configs[0].diskstats = both.clone();
    configs[1].filesystem.mount_points = both.clone();
    configs[2].filesystem.fs_types = both.clone();
    configs[3].netdev.device = both;
    let expected = [
        "--collector.diskstats.device-include and --collector.diskstats.device-exclude are mutually exclusive",
        "--collector.filesystem.mount-points-include and --collector.filesystem.mount-points-exclude are mutually exclusive",
        "--collector.filesystem.fs-types-include and --collector.filesystem.fs-types-exclude are mutually exclusive",
        "--collector.netdev.device-include and --collector.netdev.device-exclude are mutually exclusive",
    ];
    for (config, text) in configs.into_iter().zip(expected) {
        let Err(error) = HostSource::new(config) else {
            panic!("{text}")
        };
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn a_bad_pattern_names_its_flag() {
    let configs = [
        (
            HostConfig {
                vmstat_fields: "(".into(),
                ..HostConfig::default()
            },
            "--collector.vmstat.fields",
        ),
        (
            HostConfig {
                diskstats: filter(Some("["), None),
                ..HostConfig::default()
            },
            "--collector.diskstats.device-include",
        ),
    ];
    for (config, flag) in configs {
        let Err(error) = HostSource::new(config) else {
            panic!("{flag}")
        };
        assert!(matches!(error, HostError::Pattern { .. }));
        assert!(error.to_string().starts_with(flag), "{error}");
    }
}

#[test]
fn a_dropped_collector_needs_no_valid_filter() {
    let mut config = HostConfig {
        diskstats: filter(Some("a"), Some("b")),
        ..HostConfig::default()
    };
    config.collectors = CollectorSet::none().with(Stat);
    let mut host = HostSource::new(config).expect("diskstats is off");
    let samples = samples(host.collect(0));
    assert_eq!(
        of_family(&samples, "node_scrape_collector_success"),
        [(r#"{collector="stat"}"#, 1.0)]
    );
}

#[test]
fn vmstat_fields_and_softirqs_and_guest() {
    let tree = Tree::new("host-fields");
    tree.write("proc/vmstat", "nr_free_pages 1\npgpgin 2\nthp_x 3\n");
    tree.write(
        "proc/stat",
        "cpu0 1 1 1 1\nsoftirq 55 1 2 3 4 5 6 7 8 9 10\n",
    );
    let mut config = tree.config(&[Vmstat, Stat, CollectorKind::Cpu]);
    config.vmstat_fields = "^(nr_free|thp)".into();
    config.stat_softirq = true;
    config.cpu.guest = false;
    let mut host = HostSource::new(config).expect("valid");
    let samples = samples(host.collect(0));
    assert_eq!(samples["node_vmstat_nr_free_pages"], 1.0);
    assert_eq!(samples["node_vmstat_thp_x"], 3.0);
    assert!(!samples.contains_key("node_vmstat_pgpgin"));
    assert_eq!(samples[r#"node_softirqs_total{vector="rcu"}"#], 10.0);
    assert_eq!(of_family(&samples, "node_cpu_guest_seconds_total"), []);
}

#[test]
fn network_devices_and_detailed_names() {
    let tree = Tree::new("host-netfilter");
    tree.write("proc/net/dev", "h\nh\nlo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\nveth1: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n");
    let mut config = tree.config(&[Netdev]);
    config.netdev.device.exclude = Some("^veth".into());
    config.netdev.detailed = true;
    let mut host = HostSource::new(config).expect("valid");
    let samples = samples(host.collect(0));
    assert_eq!(
        of_family(&samples, "node_network_receive_errors_total"),
        [(r#"{device="lo"}"#, 3.0)]
    );
    assert_eq!(of_family(&samples, "node_network_receive_errs_total"), []);
}

#[test]
fn a_common_label_must_not_be_one_of_the_series_own() {
    let common = |pairs: &[(&str, &str)]| HostConfig {
        common: LabelSet::new(pairs.iter().copied()),
        ..Tree::new("host-common").config(&CollectorKind::ALL)
    };
    let Err(error) = HostSource::new(common(&[("job", "node"), ("device", "x")])) else {
        panic!("device")
    };
    assert!(matches!(error, HostError::CommonLabel { name } if name == "device"));
    assert!(HostSource::new(common(&[("job", "node"), ("instance", "h:1")])).is_ok());
}

/// Every label that the source can produce is rejected as a common one.
#[test]
fn the_list_of_own_labels_is_whole() {
    let mut config = HostConfig::default();
    config.cpu.info = true;
    config.netdev.address_info = true;
    let mut host = HostSource::new(config).expect("valid");
    host.collect(0);
    assert_own_labels(&host);
}
