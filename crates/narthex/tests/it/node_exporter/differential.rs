//! The default collectors of both on this machine, at the same time and with the same flags.
//!
//! Differences between 1.5 and 1.12 or later are listed here and allowed only with a 1.5.

use super::{is_1_5, ours, real};
use crate::support::{PATIENCE, Running};
use narthex_testkit::{
    corpora,
    exposition::{Families, Samples, parse_text},
    http,
    process::Spawn,
};
use std::fs;

/// Differences of 1.12 from 1.5, each with its reason.
mod known {
    /// 1.12 adds the labels `rotational` and `adminstate`.
    pub(super) const LABELS: [&str; 2] = ["node_disk_info", "node_network_info"];
    /// Added since 1.5.
    pub(super) const ADDED: [&str; 9] = [
        "node_filesystem_mount_info",
        "node_filesystem_purgeable_bytes",
        "node_kernel_hung_tasks_total",
        "node_netstat_TcpExt_TCPOFOQueue",
        "node_netstat_TcpExt_TCPRcvQDrop",
        "node_softnet_backlog_len",
        "node_softnet_cpu_collision_total",
        "node_softnet_flow_limit_count_total",
        "node_softnet_received_rps_total",
    ];
    /// In the fixtures' page, and in no release yet.
    pub(super) const UNRELEASED: [&str; 1] = ["node_ksmd_general_profit_bytes"];
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

/// Present when a collector is late.
const AGE: &str = "narthex_host_collector_age_seconds";

/// A state without processes has no series.
const TRANSIENT: [&str; 3] = [
    "node_processes_state",
    "node_processes_threads_state",
    "node_tcp_connection_states",
];

/// Gauges that change between two reads.
const MOVING: [&str; 26] = [
    "node_arp_entries",
    "node_buddyinfo_",
    // Other tests make control groups and remove them.
    "node_cgroups_",
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
    "node_processes_",
    "node_procs_",
    "node_scrape_collector_duration_seconds",
    "node_qdisc_backlog",
    "node_qdisc_current_queue_length",
    "node_slabinfo_",
    "node_sockstat_",
    "node_sysctl_fs_file_nr",
    "node_tcp_connection_states",
    "node_timex_",
    "node_udp_queues",
    "node_zoneinfo_nr_",
];

/// Given to both, because Debian's build has defaults of its own.
pub(super) const FLAGS: [&str; 8] = [
    "--web.disable-exporter-metrics",
    r"--collector.diskstats.device-exclude=^(z?ram|loop|fd|(h|s|v|xv)d[a-z]|nvme\d+n\d+p)\d+$",
    "--collector.filesystem.mount-points-exclude=^/(dev|proc|sys)($|/)",
    "--collector.filesystem.fs-types-exclude=^(proc|sysfs|cgroup2?|devpts|devtmpfs|overlay|squashfs)$",
    // Other tests add and remove these.
    "--collector.netdev.device-exclude=^ifb",
    "--no-collector.arp",
    "--collector.textfile.directory=",
    "--no-collector.systemd",
];

fn family_of(series: &str) -> &str {
    series.split('{').next().expect("a name")
}

/// Expected differences.
pub(super) struct Expected {
    pub(super) is_1_5: bool,
    /// Whether helps are in our own words.
    pub(super) has_own_help: bool,
}

impl Expected {
    fn is_gone(&self, family: &str) -> bool {
        let field = family
            .strip_prefix("node_memory_")
            .map(|field| field.trim_end_matches("_bytes"));
        self.is_1_5 && field.is_some_and(|field| known::MEMORY_FIELDS_GONE.contains(&field))
    }

    fn is_added(&self, family: &str) -> bool {
        known::UNRELEASED.contains(&family) || self.is_1_5 && known::ADDED.contains(&family)
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
                && !TRANSIENT.contains(&family)
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
            let is_same = |found: &&(String, String)| {
                found.0 == family.0 && (self.has_own_help || found.1 == family.1)
            };
            assert!(
                excused || ours.get(name).is_some_and(|found| is_same(&found)),
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
    // The size of a table, whatever its type says.
    if series.starts_with("node_lnstat_entries_total") {
        return;
    }
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

/// Removes what is about collectors that `other` does not have.
fn without_collectors_of_one(samples: &mut Samples, other: &Samples) {
    samples.retain(|series, _| {
        let about = |family: &str| series.strip_prefix(family);
        let rest = about("node_scrape_collector_success")
            .or(about("node_scrape_collector_duration_seconds"));
        rest.is_none_or(|labels| {
            other.contains_key(&format!("node_scrape_collector_success{labels}"))
        })
    });
}

/// Scrapes both by turns and compares what they say; at least `count` series must be comparable.
pub(super) fn compare(ours: &Running, real: &Running, expected: &Expected, count: usize) {
    let scrape = |url: &str| {
        let page = http::get(&format!("{url}/metrics")).unwrap();
        parse_text(&page.text())
    };
    const TRIES: usize = 200;
    const ROUNDS: usize = 3;
    let mut rounds = 0;
    // A reading of theirs is the one after a page of ours, and the one before the next.
    let mut last = scrape(&real.url);
    for _ in 0..TRIES {
        let (mut page, our_families) = scrape(&ours.url);
        let (mut before, their_families) = std::mem::replace(&mut last, scrape(&real.url));
        let after = &last.0;
        // On a loaded machine a collector may be late: its values are older than `before`, or not there yet.
        let is_awaited = |(series, success): (&String, &f64)| {
            let collector = series.strip_prefix("node_scrape_collector_success");
            collector.is_some() && *success > page.get(series).copied().unwrap_or(*success)
        };
        if our_families.contains_key(AGE) || before.iter().any(is_awaited) {
            continue;
        }
        let all = page.clone();
        without_collectors_of_one(&mut page, &before);
        without_collectors_of_one(&mut before, &all);
        expected.assert_same_series(&page, &before);
        expected.assert_same_families(&our_families, &their_families);
        let mut compared = 0;
        for (series, value) in &page {
            if let (Some(before), Some(after)) = (before.get(series), after.get(series)) {
                let (kind, _) = &our_families[family_of(series)];
                assert_plausible(series, kind, (*before, *value, *after));
                compared += 1;
            }
        }
        assert!(compared >= count, "only {compared} series were compared");
        rounds += 1;
        if rounds == ROUNDS {
            return;
        }
    }
    assert!(rounds > 0, "a collector was late {TRIES} times");
}

#[test]
fn node_exporter_says_the_same() {
    let expected = Expected {
        is_1_5: is_1_5(),
        has_own_help: false,
    };
    compare(&ours(&FLAGS), &real(&FLAGS), &expected, 150);
}

/// Off by default, but for perf, which has a test of its own. What depends on devices and programs that machines for
/// tests lack is compared by fixtures; here it is compared that both have nothing to report.
const OFF: [&str; 29] = [
    "buddyinfo",
    "cgroups",
    "cpu_vulnerabilities",
    "drbd",
    "drm",
    "ethtool",
    "interrupts",
    "ksmd",
    "lnstat",
    "logind",
    "meminfo_numa",
    "mountstats",
    "network_route",
    "ntp",
    "nvmesubsystem",
    "pcidevice",
    "processes",
    "qdisc",
    "runit",
    "slabinfo",
    "softirqs",
    "supervisord",
    "swap",
    "sysctl",
    "systemd",
    "tcpstat",
    "wifi",
    "xfrm",
    "zoneinfo",
];

/// Given to both beside the collectors that are off by default.
const OFF_FLAGS: [&str; 4] = [
    "--web.disable-exporter-metrics",
    "--collector.sysctl.include=kernel.threads-max",
    "--collector.sysctl.include=fs.file-nr:total,current,max",
    "--collector.sysctl.include-info=kernel.seccomp.actions_avail",
];

/// Returns those of the collectors that the real exporter has, as flags.
pub(super) fn of_both(names: &[&str]) -> Vec<String> {
    let help = Spawn::new(super::program()).arg("--help").run(PATIENCE);
    let help = help.stdout + &help.stderr;
    let has = |name: &&&str| {
        help.split_ascii_whitespace().any(|word| {
            word.trim_start_matches("--").trim_start_matches("[no-]") == format!("collector.{name}")
        })
    };
    let known = names.iter().filter(has);
    known.map(|name| format!("--collector.{name}")).collect()
}

#[test]
fn collectors_that_are_off_by_default_say_the_same() {
    let collectors = of_both(&OFF);
    let mut flags: Vec<&str> = collectors.iter().map(String::as_str).collect();
    flags.push("--collector.disable-defaults");
    flags.extend(OFF_FLAGS);
    let expected = Expected {
        is_1_5: is_1_5(),
        has_own_help: true,
    };
    compare(&ours(&flags), &real(&flags), &expected, 100);
}

/// All of them in one process do not disturb each other.
#[test]
fn every_collector_at_once_says_the_same() {
    let collectors = of_both(&OFF);
    let mut flags: Vec<&str> = collectors.iter().map(String::as_str).collect();
    flags.extend(
        FLAGS
            .iter()
            .filter(|flag| **flag != "--no-collector.systemd"),
    );
    flags.extend(&OFF_FLAGS[1..]);
    let expected = Expected {
        is_1_5: is_1_5(),
        has_own_help: true,
    };
    compare(&ours(&flags), &real(&flags), &expected, 300);
}

const TRACEPOINT: &str = "/sys/kernel/tracing/events/sched/sched_switch/id";

/// Both count from their own start, so the growth between two scrapes is compared.
#[test]
fn perf_counts_the_same() {
    let mut flags = vec![
        "--collector.disable-defaults",
        "--collector.perf",
        "--web.disable-exporter-metrics",
    ];
    // 1.5 looks for tracepoints in another place.
    if !is_1_5() && fs::read(TRACEPOINT).is_ok() {
        flags.push("--collector.perf.tracepoint=sched:sched_switch");
    }
    let (ours, real) = (ours(&flags), real(&flags));
    let scrape = |one: &Running| {
        let page = http::get(&format!("{}/metrics", one.url)).unwrap().text();
        let (mut samples, mut families) = parse_text(&page);
        samples.retain(|series, _| series.starts_with("node_perf_"));
        families.retain(|family, _| family.starts_with("node_perf_"));
        (samples, families)
    };
    let rounds = [&real, &ours, &ours, &real, &real, &ours].map(scrape);
    let [their_0, our_0, our_1, their_1, their_2, our_2] = &rounds;
    assert_eq!(our_0.1, their_0.1);
    assert!(our_0.0.keys().eq(their_0.0.keys()), "{our_0:?} {their_0:?}");
    let mut grew = 0;
    for series in our_0.0.keys() {
        let growth =
            |from: &(Samples, Families), to: &(Samples, Families)| to.0[series] - from.0[series];
        let (inner, outer) = (growth(our_0, our_1), growth(their_0, their_1));
        assert!(inner <= outer, "{series}: {inner} {outer}");
        let (inner, outer) = (growth(their_1, their_2), growth(our_1, our_2));
        assert!(inner <= outer, "{series}: {inner} {outer}");
        grew += usize::from(outer > 0.0);
    }
    // Without the permission neither has any.
    let is_permitted = !our_0.0.is_empty();
    assert!(grew > 0 || !is_permitted, "nothing grew: {rounds:?}");
    corpora::report("perf beside node_exporter", usize::from(is_permitted), 1);
}
