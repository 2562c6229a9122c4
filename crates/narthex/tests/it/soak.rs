//! A Kubernetes-style configuration under reloads: targets that a reload does not touch are not disturbed.
//!
//! `NARTHEX_SOAK_MINUTES` makes it the full soak of this length: 500 targets and four of Debian's exporters, scraped
//! every five seconds, with a reload and a change in the cluster every minute. It uses the server in `NARTHEX_BINARY`.
//!
//! **Invariant:** every target of a job that starts with `kubernetes-` or `exporter-` is unchanged from the first round
//! to the last, except the pods of the namespace `batch`.

use crate::{
    client,
    cluster::{self, Cluster, Size},
    support::{self, Running, until},
    target::now_ms,
};
use narthex_testkit::{TempDir, http, process::Spawn, tool};
use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// Series that reloads must not disturb.
const UNCHANGED: &str = r#"job=~"(kubernetes|exporter)-.+",namespace!="batch""#;

/// Size of the test.
struct Scale {
    size: Size,
    interval_ms: i64,
    rounds: usize,
    /// Length of a round; by default, until everything was scraped again.
    round: Option<Duration>,
}

impl Scale {
    fn new() -> Self {
        let Ok(minutes) = std::env::var("NARTHEX_SOAK_MINUTES") else {
            return Self {
                size: Size {
                    nodes: 3,
                    pods: 20,
                    services: 2,
                    behind: 4,
                    batch: 2,
                    others: 8,
                },
                interval_ms: 500,
                rounds: 6,
                round: None,
            };
        };
        Self {
            size: Size {
                nodes: 20,
                pods: 298,
                services: 7,
                behind: 22,
                batch: 3,
                others: 8,
            },
            interval_ms: 5_000,
            rounds: minutes.parse().unwrap(),
            round: Some(Duration::from_secs(60)),
        }
    }

    fn is_long(&self) -> bool {
        self.round.is_some()
    }
}

/// Exporters outside the cluster, by job name.
struct Exporters {
    running: Vec<(&'static str, Running)>,
    /// Index in `running` of the exporter that probes services.
    prober: Option<usize>,
}

impl Exporters {
    /// Starts Debian's exporters: all four for a soak, otherwise the one that `make test` installs.
    fn start(dir: &TempDir, all: bool) -> Self {
        let mut running = vec![("node", Running::node_exporter())];
        if !all {
            return Self {
                running,
                prober: None,
            };
        }
        let spawn = |program: &str| Spawn::new(tool(program, program));
        let listen = "--web.listen-address=127.0.0.1:0";
        let modules = dir.write("blackbox.yml", "modules: {http_2xx: {prober: http}}\n");
        running.push((
            "process",
            Running::exporter(
                spawn("prometheus-process-exporter")
                    .args(["-web.listen-address", "127.0.0.1:0"])
                    .args(["-procnames", "narthex,prometheus-node,prometheus-push"]),
            ),
        ));
        running.push((
            "blackbox",
            Running::exporter(
                spawn("prometheus-blackbox-exporter")
                    .arg(listen)
                    .arg(support::config_flag(&modules)),
            ),
        ));
        let gateway = Running::exporter(spawn("prometheus-pushgateway").arg(listen));
        let url = format!("{}/metrics/job/batch", gateway.url);
        let pushed = http::post(&url, "text/plain", b"# TYPE last_run gauge\nlast_run 1\n");
        assert_eq!(pushed.unwrap().status, 200);
        running.push(("pushgateway", gateway));
        Self {
            running,
            prober: Some(2),
        }
    }

    fn prober<'a>(&'a self, cluster: &'a Cluster) -> &'a str {
        match self.prober {
            Some(at) => self.running[at].1.address(),
            None => &cluster.others[7].address,
        }
    }
}

/// Writes the configuration of a round. Rounds change in turn: whether a job exists, its parameters, its rules and its
/// interval; every round changes a file of targets.
fn configure(dir: &TempDir, scale: &Scale, cluster: &Cluster, exporters: &Exporters, round: usize) {
    let interval_ms = scale.interval_ms;
    let mut text = format!(
        "global: {{scrape_interval: {interval_ms}ms, scrape_timeout: {interval_ms}ms}}\nscrape_configs:\n"
    );
    text.push_str(&cluster::jobs(&cluster.api.url, exporters.prober(cluster)));
    for (name, exporter) in &exporters.running {
        let address = exporter.address();
        let _ = writeln!(
            text,
            "- job_name: exporter-{name}\n  static_configs: [{{targets: ['{address}']}}]"
        );
    }
    let other = |at: usize| &cluster.others[at].address;
    let _ = writeln!(
        text,
        "- job_name: asked\n  params: {{round: ['{}']}}\n  static_configs: [{{targets: ['{}']}}]",
        round / 4,
        other(0)
    );
    let _ = writeln!(
        text,
        "- job_name: relabelled\n  relabel_configs: [{{target_label: round, replacement: '{}'}}]\n  \
         metric_relabel_configs: [{{source_labels: [code], regex: '{}', action: drop}}]\n  \
         static_configs: [{{targets: ['{}']}}]",
        (round + 1) / 4,
        if round.is_multiple_of(2) { 200 } else { 404 },
        other(1)
    );
    let paced_ms = interval_ms + interval_ms / 2 * ((round as i64 + 2) / 4 % 2);
    let _ = writeln!(
        text,
        "- job_name: paced\n  scrape_interval: {paced_ms}ms\n  static_configs: [{{targets: ['{}']}}]",
        other(2)
    );
    text.push_str("- job_name: moving\n  file_sd_configs: [{files: [moving.json]}]\n");
    if round.div_ceil(4) % 2 == 1 {
        let _ = writeln!(
            text,
            "- job_name: extra\n  static_configs: [{{targets: ['{}']}}]",
            other(3)
        );
    }
    let moving = [4, 5, 6].map(|at| other((at + round) % 3 + 4).clone());
    let list = format!("[{{\"targets\": {:?}}}]", &moving[..2]);
    let aside = dir.write("moving.tmp", list);
    fs::rename(aside, dir.join("moving.json")).unwrap();
    dir.write("p.yml", text);
}

/// Resources of the server at one moment.
#[derive(Clone, Copy)]
struct Cost {
    rss_kb: u64,
    fds: usize,
    threads: u64,
    series: f64,
    disk_bytes: u64,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.1} MiB resident, {} descriptors, {} threads, {} series in the head, {:.1} MiB on disk",
            self.rss_kb as f64 / 1024.0,
            self.fds,
            self.threads,
            self.series,
            self.disk_bytes as f64 / 1_048_576.0
        )
    }
}

fn cost(server: &Running, data: &Path) -> Cost {
    let pid = server.process.pid();
    let status = narthex_testkit::proc::ProcFile::read(pid, "status").unwrap();
    let files = narthex_testkit::corpora::files(data, "");
    Cost {
        rss_kb: status.number("VmRSS:").unwrap(),
        fds: fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count(),
        threads: status.number("Threads:").unwrap(),
        series: server
            .metric("prometheus_tsdb_head_series ")
            .unwrap_or(-1.0),
        disk_bytes: (files.iter())
            .filter_map(|file| fs::metadata(file).ok())
            .map(|file| file.len())
            .sum(),
    }
}

/// Observations about the unchanged targets.
#[derive(Debug, Default)]
struct Findings {
    targets: usize,
    samples: usize,
    /// Missing scrapes.
    gaps: i64,
    /// Distances between samples above one and a half intervals.
    wide: usize,
    longest_ms: i64,
    /// Samples with exactly their target's usual offset.
    punctual: usize,
    /// Targets whose scrape offset changed.
    moved: Vec<String>,
    /// Targets without samples at the start or at the end.
    partial: Vec<String>,
    /// Scrapes that failed.
    down: usize,
    /// Pages that were served but not stored.
    lost: u64,
}

fn look(server: &Running, scale: &Scale, begin_ms: i64) -> Findings {
    let end_ms = now_ms();
    let mut findings = Findings::default();
    let up = client::matrix(&server.url, &format!("up{{{UNCHANGED}}}[1d]"));
    findings.targets = up.len();
    for (labels, samples) in &up {
        let times: Vec<i64> = samples.keys().copied().collect();
        findings.samples += times.len();
        let up = 1.0_f64.to_bits();
        findings.down += samples.values().filter(|value| **value != up).count();
        for pair in times.windows(2) {
            let distance_ms = pair[1] - pair[0];
            findings.longest_ms = findings.longest_ms.max(distance_ms);
            findings.wide += usize::from(distance_ms * 2 > scale.interval_ms * 3);
            findings.gaps += (distance_ms + scale.interval_ms / 2) / scale.interval_ms - 1;
        }
        let (before, after) = times.split_at(times.len() / 2);
        let (before, after) = (usual(before, scale), usual(after, scale));
        findings.punctual += before.1 + after.1;
        let apart_ms = (before.0 - after.0).rem_euclid(scale.interval_ms);
        // On a busy machine few samples have the exact offset; a changed schedule differs by more than this.
        if apart_ms.min(scale.interval_ms - apart_ms) > scale.interval_ms / 20 {
            findings
                .moved
                .push(format!("{labels}: {before:?}, then {after:?}"));
        }
        let late = times[0] > begin_ms;
        let early = times[times.len() - 1] < end_ms - 2 * scale.interval_ms;
        if late || early {
            findings.partial.push(labels.clone());
        }
    }
    let pages = client::matrix(&server.url, &format!("pages_total{{{UNCHANGED}}}[1d]"));
    for samples in pages.into_values() {
        let values = samples.into_values().map(f64::from_bits);
        let values: Vec<u64> = values.map(|value| value as u64).collect();
        let asked = values.last().unwrap() - values.first().unwrap() + 1;
        findings.lost += asked - values.len() as u64;
    }
    findings
}

/// Returns the most frequent offset in the interval, and the number of samples with it.
fn usual(times: &[i64], scale: &Scale) -> (i64, usize) {
    let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
    for time_ms in times {
        *counts.entry(time_ms % scale.interval_ms).or_default() += 1;
    }
    let (offset, count) = counts.into_iter().max_by_key(|(_, count)| *count).unwrap();
    (offset, count)
}

/// Waits until a round is over.
fn pass(server: &Running, scale: &Scale, mut every: impl FnMut()) {
    let Some(length) = scale.round else {
        let query = format!("min(count_over_time(up{{{UNCHANGED}}}[1d]))");
        let least = || client::vector(&server.url, &query, None)["{}"].1;
        let before = least();
        until("everything is scraped again", || {
            (least() > before + 1.0).then_some(())
        });
        return every();
    };
    let end = Instant::now() + length;
    while Instant::now() < end {
        every();
        // A typical dashboard query.
        let query = "sum by (job) (rate(requests_total[1m]))";
        let rates = client::vector(&server.url, query, None);
        assert!(rates.len() > 3, "{rates:?}");
        thread::sleep(Duration::from_secs(10).min(end.saturating_duration_since(Instant::now())));
    }
}

#[test]
fn unchanged_targets_of_a_cluster_show_no_reload() {
    let scale = Scale::new();
    let dir = TempDir::new("soak");
    let cluster = Cluster::start(scale.size);
    let exporters = Exporters::start(&dir, scale.is_long());
    cluster.churn(0);
    configure(&dir, &scale, &cluster, &exporters, 0);
    let data = dir.join("data");
    let spawn = support::server_in(&data)
        .arg(support::config_flag(&dir.join("p.yml")))
        .arg("--web.enable-lifecycle");
    let server = Running::of(spawn);
    let expected = scale.size.targets() + exporters.running.len();
    server.wait_vector(&format!("count(up{{{UNCHANGED}}} == 1)"), |found| {
        found
            .get("{}")
            .is_some_and(|(_, count)| *count == expected as f64)
    });
    for (served, jobs) in unchanged(&cluster).filter(|_| scale.is_long()) {
        assert_eq!(served.connections(), jobs, "{}", served.address);
    }
    let before = made(&cluster);
    let begin_ms = now_ms();
    let mut costs = vec![cost(&server, &data)];
    for round in 1..=scale.rounds {
        cluster.churn(round);
        match round % 10 {
            // A watch ends and resumes; later one ends whose version is forgotten, so everything is listed again.
            3 => cluster.api.hang_up(),
            7 => {
                cluster.api.forget();
                cluster.api.hang_up();
            }
            _ => {}
        }
        configure(&dir, &scale, &cluster, &exporters, round);
        let answer = http::post(&format!("{}/-/reload", server.url), "text/plain", b"").unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        pass(&server, &scale, || costs.push(cost(&server, &data)));
        if round % 5 == 0 || round == scale.rounds {
            println!("after round {round}: {}", costs.last().unwrap());
        }
    }
    server.wait_vector("count(up{namespace=\"batch\"} == 1)", |found| {
        // Only the last round's pods.
        found
            .get("{}")
            .is_some_and(|(_, count)| *count == scale.size.batch as f64)
    });
    judge(&server, &scale, begin_ms, expected, made(&cluster) - before);
    if scale.is_long() {
        assert_is_flat(&costs);
    }
    let log = server.stop();
    let errors: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("level=ERROR"))
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

/// Fails if the unchanged targets were disturbed.
fn judge(server: &Running, scale: &Scale, begin_ms: i64, expected: usize, reconnected: usize) {
    let findings = look(server, scale, begin_ms);
    let missed = server
        .metric("narthex_scrape_missed_total ")
        .unwrap_or_default();
    println!(
        "{} rounds, {findings:#?}\n{missed} scrapes left out by a busy machine, {reconnected} connections made again",
        scale.rounds
    );
    assert_eq!(findings.targets, expected);
    assert!(
        findings.gaps as f64 <= missed,
        "{} gaps, {missed} excused",
        findings.gaps
    );
    assert!(findings.lost <= findings.down as u64, "pages were lost");
    // A scrape that timed out closes its connection.
    assert!(
        reconnected <= findings.down,
        "{reconnected} connections made again"
    );
    if scale.is_long() {
        assert!(findings.moved.is_empty(), "{:#?}", findings.moved);
        assert!(findings.partial.is_empty(), "{:#?}", findings.partial);
    }
}

/// Returns the number of connections made to unchanged targets.
fn made(cluster: &Cluster) -> usize {
    unchanged(cluster)
        .map(|(served, _)| served.connections())
        .sum()
}

/// Returns the unchanged targets, each with the number of jobs that scrape it.
fn unchanged(cluster: &Cluster) -> impl Iterator<Item = (&cluster::Served, usize)> {
    let nodes = cluster.nodes.iter().map(|node| (node, 2));
    let pods = cluster.pods.iter().chain(&cluster.behind);
    nodes.chain(pods.map(|pod| (pod, 1)))
}

/// Fails if the second half of a soak uses more resources than the first half after its start.
fn assert_is_flat(costs: &[Cost]) {
    let (before, after) = costs.split_at(costs.len() / 2);
    let before = &before[before.len() / 2..];
    let most = |costs: &[Cost], of: fn(&Cost) -> u64| costs.iter().map(of).max().unwrap();
    for (what, of, spare) in [
        (
            "KiB of memory",
            (|cost| cost.rss_kb) as fn(&Cost) -> u64,
            20_000,
        ),
        ("descriptors", |cost| cost.fds as u64, 20),
        ("threads", |cost| cost.threads, 4),
    ] {
        let (before, after) = (most(before, of), most(after, of));
        println!("{what}: {before}, then {after}");
        assert!(
            after <= before + before / 5 + spare,
            "{after} {what} after {before}"
        );
    }
}
