//! Debian's node_exporter (1.5) on this machine, at the same time and with the same filters.

use std::time::Duration;

use narthex_host::{CollectorKind, FilterConfig, HostConfig, HostSource};
use narthex_testkit::process::Spawn;
use narthex_testkit::{http, tool};

use crate::support::{Families, Samples, families, parse_text, samples};

/// What 1.12 does differently from 1.5, each with its reason.
mod known {
    /// Label sets that differ: 1.12 adds `rotational`; the build is another one.
    pub(super) const LABELS: [&str; 2] = ["node_disk_info", "node_exporter_build_info"];
    /// Added since 1.5.
    pub(super) const ADDED: [&str; 1] = ["node_filesystem_mount_info"];
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
    /// 1.5 has it even with `--web.disable-exporter-metrics`; it is the HTTP handler's.
    pub(super) const HANDLER: &str = "promhttp_metric_handler_errors_total";
}

/// Gauges that move between two looks.
const MOVING: [&str; 8] = [
    "node_disk_io_now",
    "node_filesystem_avail_bytes",
    "node_filesystem_files_free",
    "node_filesystem_free_bytes",
    "node_load",
    "node_memory_",
    "node_procs_",
    "node_scrape_collector_duration_seconds",
];

/// The same on both sides: Debian's build has defaults of its own.
const DISKS: &str = r"^(z?ram|loop|fd|(h|s|v|xv)d[a-z]|nvme\d+n\d+p)\d+$";
const MOUNTS: &str = "^/(dev|proc|sys)($|/)";
const TYPES: &str = "^(proc|sysfs|cgroup2?|devpts|devtmpfs|overlay|squashfs)$";
const LINKS: &str = "^ifb";

fn config() -> HostConfig {
    let exclude = |pattern: &str| FilterConfig {
        include: None,
        exclude: Some(pattern.into()),
    };
    let mut config = HostConfig {
        diskstats: exclude(DISKS),
        ..HostConfig::default()
    };
    config.filesystem.mount_points = exclude(MOUNTS);
    config.filesystem.fs_types = exclude(TYPES);
    config.netdev.device = exclude(LINKS);
    config
}

fn flags() -> Vec<String> {
    let mut flags = vec![
        "--web.listen-address=127.0.0.1:0".to_owned(),
        "--web.disable-exporter-metrics".to_owned(),
        "--collector.disable-defaults".to_owned(),
        format!("--collector.diskstats.device-exclude={DISKS}"),
        format!("--collector.filesystem.mount-points-exclude={MOUNTS}"),
        format!("--collector.filesystem.fs-types-exclude={TYPES}"),
        format!("--collector.netdev.device-exclude={LINKS}"),
    ];
    flags.extend(CollectorKind::ALL.map(|kind| format!("--collector.{}", kind.name())));
    flags
}

fn family_of(series: &str) -> &str {
    series.split('{').next().expect("a name")
}

fn is_gone(family: &str) -> bool {
    let field = family
        .strip_prefix("node_memory_")
        .map(|field| field.trim_end_matches("_bytes"));
    family == known::HANDLER
        || field.is_some_and(|field| known::MEMORY_FIELDS_GONE.contains(&field))
}

fn assert_same_series(ours: &Samples, theirs: &Samples) {
    let comparable = |series: &&String| !known::LABELS.contains(&family_of(series));
    let missing: Vec<_> = theirs
        .keys()
        .filter(comparable)
        .filter(|series| !ours.contains_key(*series) && !is_gone(family_of(series)))
        .collect();
    let extra: Vec<_> = ours
        .keys()
        .filter(comparable)
        .filter(|series| {
            !theirs.contains_key(*series) && !known::ADDED.contains(&family_of(series))
        })
        .collect();
    assert!(
        missing.is_empty() && extra.is_empty(),
        "missing {missing:#?}\nextra {extra:#?}"
    );
}

fn assert_same_families(ours: &Families, theirs: &Families) {
    for (name, family) in theirs {
        assert!(
            is_gone(name) || ours.get(name) == Some(family),
            "{name}: {family:?}, ours {:?}",
            ours.get(name)
        );
    }
    for name in ours.keys() {
        assert!(
            theirs.contains_key(name) || known::ADDED.contains(&name.as_str()),
            "{name} is not theirs"
        );
    }
}

/// Counters and clocks lie between two looks of theirs; gauges that stand still are equal.
fn assert_plausible(series: &str, kind: &str, (before, ours, after): (f64, f64, f64)) {
    // The kernel itself takes back some idle and iowait time.
    let slack = if series.starts_with("node_cpu_") {
        0.05
    } else {
        0.0
    };
    if kind == "counter" || series == "node_time_seconds" || series.starts_with("node_vmstat_") {
        assert!(
            ours >= before - slack && ours <= after + slack,
            "{series}: {before} {ours} {after}"
        );
    } else if !MOVING.iter().any(|begin| series.starts_with(begin)) {
        assert!(
            ours.to_bits() == before.to_bits(),
            "{series}: {before} {ours} {after}"
        );
    }
}

#[test]
fn node_exporter_says_the_same() {
    let program = tool("prometheus-node-exporter", "prometheus-node-exporter");
    let mut exporter = Spawn::new(program).args(flags()).start();
    let port = exporter.wait_port("Listening on", Duration::from_secs(20));
    let scrape = || {
        let page = http::get(&format!("http://127.0.0.1:{port}/metrics")).expect("it answers");
        parse_text(&page.text())
    };
    let mut host = HostSource::new(config()).expect("valid");
    host.collect(0);
    for now_ms in 1..4 {
        let (before, their_families) = scrape();
        let frame = host.collect(now_ms);
        let (ours, our_families) = (samples(frame), families(frame));
        let (after, _) = scrape();
        assert_same_series(&ours, &before);
        assert_same_families(&our_families, &their_families);
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
