//! Comparison with node_exporter on this machine, at the same time and with the same filters.
//!
//! Debian's is 1.5; `NARTHEX_NODE_EXPORTER` names another program. Differences between 1.5 and 1.12 or later are listed
//! here and allowed only with a 1.5.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use narthex_host::{CollectorKind, CollectorSet, FilterConfig, HostConfig, HostSource};
use narthex_testkit::process::Spawn;
use narthex_testkit::{http, tool};

use crate::support::{Families, PATIENT_MS, Samples, families, parse_text, samples};

/// Differences of 1.12 from 1.5, each with its reason.
mod known {
    /// 1.12 adds the labels `rotational` and `adminstate`.
    pub(super) const LABELS: [&str; 2] = ["node_disk_info", "node_network_info"];
    /// Added since 1.5.
    pub(super) const ADDED: [&str; 8] = [
        "node_filesystem_mount_info",
        "node_filesystem_purgeable_bytes",
        "node_netstat_TcpExt_TCPOFOQueue",
        "node_netstat_TcpExt_TCPRcvQDrop",
        "node_softnet_backlog_len",
        "node_softnet_cpu_collision_total",
        "node_softnet_flow_limit_count_total",
        "node_softnet_received_rps_total",
    ];
    /// Since 1.9 the list of memory fields is fixed; 1.5 exports whatever the kernel prints.
    pub(super) const MEMORY_FIELDS_GONE: [&str; 11] = [
        "Balloon",
        "EarlyMemtestBad",
        "FileHugePages",
        "FilePmdMapped",
        "GPUActive",
        "GPUReclaim",
        "Hugetlb",
        "KReclaimable",
        "SecPageTables",
        "ShadowCallStack",
        "Unaccepted",
    ];
}

/// The HTTP handler's own, present even with `--web.disable-exporter-metrics`; and another program's build.
const NOT_THE_HOSTS: [&str; 2] = [
    "promhttp_metric_handler_errors_total",
    "node_exporter_build_info",
];

/// Gauges that change between two reads.
const MOVING: [&str; 17] = [
    "node_arp_entries",
    "node_cpu_scaling_frequency_hertz",
    "node_disk_io_now",
    "node_entropy_available_bits",
    "node_filefd_allocated",
    "node_filesystem_avail_bytes",
    "node_filesystem_files_free",
    "node_filesystem_free_bytes",
    "node_load",
    "node_memory_",
    "node_netstat_Tcp_CurrEstab",
    "node_nf_conntrack_entries",
    "node_procs_",
    "node_scrape_collector_duration_seconds",
    "node_sockstat_",
    "node_timex_",
    "node_udp_queues",
];

/// Set for both sides, because Debian's build has defaults of its own.
const DISKS: &str = r"^(z?ram|loop|fd|(h|s|v|xv)d[a-z]|nvme\d+n\d+p)\d+$";
const MOUNTS: &str = "^/(dev|proc|sys)($|/)";
const TYPES: &str = "^(proc|sysfs|cgroup2?|devpts|devtmpfs|overlay|squashfs)$";
const LINKS: &str = "^ifb";

fn config(collectors: CollectorSet) -> HostConfig {
    let exclude = |pattern: &str| FilterConfig {
        include: None,
        exclude: Some(pattern.into()),
    };
    let mut config = HostConfig {
        diskstats: exclude(DISKS),
        collectors,
        wait_ms: PATIENT_MS,
        ..HostConfig::default()
    };
    config.filesystem.mount_points = exclude(MOUNTS);
    config.filesystem.fs_types = exclude(TYPES);
    config.netdev.device = exclude(LINKS);
    config
}

/// Returns the collectors that the program has, according to its help.
fn known_to(program: &Path) -> CollectorSet {
    let help = Command::new(program).arg("--help").output();
    let help = help.expect("it runs");
    let help = String::from_utf8_lossy(&[help.stdout, help.stderr].concat()).into_owned();
    let words: Vec<&str> = help
        .split_ascii_whitespace()
        .map(|word| word.trim_start_matches("--").trim_start_matches("[no-]"))
        .collect();
    CollectorKind::ALL
        .into_iter()
        .filter(|kind| words.contains(&format!("collector.{}", kind.name()).as_str()))
        .fold(CollectorSet::none(), CollectorSet::with)
}

fn flags(collectors: CollectorSet) -> Vec<String> {
    let mut flags = vec![
        "--web.listen-address=127.0.0.1:0".to_owned(),
        "--web.disable-exporter-metrics".to_owned(),
        "--collector.disable-defaults".to_owned(),
        format!("--collector.diskstats.device-exclude={DISKS}"),
        format!("--collector.filesystem.mount-points-exclude={MOUNTS}"),
        format!("--collector.filesystem.fs-types-exclude={TYPES}"),
        format!("--collector.netdev.device-exclude={LINKS}"),
    ];
    let kinds = CollectorKind::ALL.into_iter();
    let kinds = kinds.filter(|kind| collectors.contains(*kind));
    flags.extend(kinds.map(|kind| format!("--collector.{}", kind.name())));
    flags
}

fn family_of(series: &str) -> &str {
    series.split('{').next().expect("a name")
}

/// Expected differences.
struct Expected {
    is_1_5: bool,
}

impl Expected {
    fn is_gone(&self, family: &str) -> bool {
        let field = family
            .strip_prefix("node_memory_")
            .map(|field| field.trim_end_matches("_bytes"));
        self.is_1_5 && field.is_some_and(|field| known::MEMORY_FIELDS_GONE.contains(&field))
    }

    fn is_added(&self, family: &str) -> bool {
        self.is_1_5 && known::ADDED.contains(&family)
    }

    fn has_other_labels(&self, family: &str) -> bool {
        self.is_1_5 && known::LABELS.contains(&family)
    }

    fn assert_same_series(&self, ours: &Samples, theirs: &Samples) {
        let lacks = |there: &Samples, series: &String| {
            let family = family_of(series);
            !there.contains_key(series)
                && !self.has_other_labels(family)
                && !NOT_THE_HOSTS.contains(&family)
        };
        let missing: Vec<_> = theirs
            .keys()
            .filter(|series| lacks(ours, series) && !self.is_gone(family_of(series)))
            .collect();
        let extra: Vec<_> = ours
            .keys()
            .filter(|series| lacks(theirs, series) && !self.is_added(family_of(series)))
            .collect();
        assert!(
            missing.is_empty() && extra.is_empty(),
            "missing {missing:#?}\nextra {extra:#?}"
        );
    }

    fn assert_same_families(&self, ours: &Families, theirs: &Families) {
        for (name, family) in theirs {
            let excused = self.is_gone(name) || NOT_THE_HOSTS.contains(&name.as_str());
            assert!(
                excused || ours.get(name) == Some(family),
                "{name}: {family:?}, ours {:?}",
                ours.get(name)
            );
        }
        for name in ours.keys() {
            assert!(
                theirs.contains_key(name) || self.is_added(name),
                "{name} is not theirs"
            );
        }
    }
}

/// Asserts that counters and clocks lie between two readings of theirs, and that constant gauges are equal.
fn assert_plausible(series: &str, kind: &str, (before, ours, after): (f64, f64, f64)) {
    // The kernel itself takes back some idle and iowait time.
    let slack = if series.starts_with("node_cpu_") {
        0.05
    } else {
        0.0
    };
    let is_moving = MOVING.iter().any(|begin| series.starts_with(begin));
    // The kernel does not say which of these are counters; all that don't move at random are.
    let counts = ["node_netstat_", "node_vmstat_"]
        .iter()
        .any(|begin| series.starts_with(begin));
    if kind == "counter" || series == "node_time_seconds" || (counts && !is_moving) {
        assert!(
            ours >= before - slack && ours <= after + slack,
            "{series}: {before} {ours} {after}"
        );
    } else if !is_moving {
        assert!(
            ours.to_bits() == before.to_bits(),
            "{series}: {before} {ours} {after}"
        );
    }
}

#[test]
fn node_exporter_says_the_same() {
    let program: PathBuf = match std::env::var_os("NARTHEX_NODE_EXPORTER") {
        Some(path) => path.into(),
        None => tool("prometheus-node-exporter", "prometheus-node-exporter"),
    };
    let version = Command::new(&program)
        .arg("--version")
        .output()
        .expect("it runs");
    let version = [version.stdout, version.stderr].concat();
    let expected = Expected {
        is_1_5: String::from_utf8_lossy(&version).contains("version 1.5."),
    };
    let collectors = known_to(&program);
    let mut exporter = Spawn::new(program).args(flags(collectors)).start();
    let port = exporter.wait_port("Listening on", Duration::from_secs(20));
    let scrape = || {
        let page = http::get(&format!("http://127.0.0.1:{port}/metrics")).expect("it answers");
        parse_text(&page.text())
    };
    let mut host = HostSource::new(config(collectors)).expect("valid");
    host.collect(0);
    for now_ms in 1..4 {
        let (before, their_families) = scrape();
        let frame = host.collect(now_ms);
        let (ours, our_families) = (samples(frame), families(frame));
        let (after, _) = scrape();
        expected.assert_same_series(&ours, &before);
        expected.assert_same_families(&our_families, &their_families);
        let mut compared = 0;
        for (series, value) in &ours {
            if let (Some(before), Some(after)) = (before.get(series), after.get(series)) {
                let (kind, _) = &our_families[family_of(series)];
                assert_plausible(series, kind, (*before, *value, *after));
                compared += 1;
            }
        }
        assert!(compared > 150, "only {compared} series were compared");
    }
}
