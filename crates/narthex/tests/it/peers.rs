//! Interoperation with Debian's Prometheus and `node_exporter`: we scrape them, and Prometheus scrapes us.

use crate::{
    client,
    support::{self, Job, PATIENCE, Running},
};
use narthex_testkit::{TempDir, process::Spawn, tool};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Series that a scrape adds to a page.
const SYNTHETIC: [&str; 5] = [
    "up",
    "scrape_duration_seconds",
    "scrape_samples_scraped",
    "scrape_samples_post_metric_relabeling",
    "scrape_series_added",
];

/// Debian's Prometheus, whose targets are set while it runs.
struct Peer {
    running: Running,
    dir: TempDir,
}

impl Peer {
    fn start() -> Self {
        let dir = TempDir::new("peer");
        dir.write("targets.json", "[]");
        let config = dir.write(
            "prometheus.yml",
            "global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n- job_name: narthex\n  \
             file_sd_configs: [{files: [targets.json], refresh_interval: 1s}]\n",
        );
        let running = Running::prometheus(&dir.join("data"), &config, &[]);
        Self { running, dir }
    }

    fn scrape(&self, address: &str) {
        // Renamed into place, because Prometheus reads the file as soon as it is written.
        let next = self
            .dir
            .write("targets.tmp", format!("[{{\"targets\": [{address:?}]}}]"));
        std::fs::rename(next, self.dir.join("targets.json")).unwrap();
    }
}

/// Returns the sample lines of a page.
fn sample_lines(page: &str) -> impl Iterator<Item = &str> {
    page.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Returns the metric names on a page.
fn names(page: &str) -> BTreeSet<String> {
    let name = |line: &str| line.split(['{', ' ']).next().unwrap().to_owned();
    sample_lines(page).map(name).collect()
}

/// Returns the families of a page with type and help.
fn families(page: &str) -> BTreeMap<String, (String, String)> {
    let mut families = BTreeMap::<String, (String, String)>::new();
    for line in page.lines() {
        let mut parts = line.splitn(4, ' ');
        let (Some("#"), Some(kind), Some(name), rest) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let family = families.entry(name.to_owned()).or_default();
        let rest = rest.unwrap_or_default().to_owned();
        match kind {
            "TYPE" => family.0 = rest,
            _ => family.1 = rest.replace("\\n", "\n").replace("\\\\", "\\"),
        }
    }
    families
}

/// Fails unless everything on a target's page is stored under its job.
fn assert_scraped(ours: &Running, job: &str, url: &str) {
    let up = ours.wait_vector(&format!("up{{job={job:?}}}"), |found| found.len() == 1);
    assert_eq!(up.values().next().unwrap().1, 1.0, "{up:?}");

    // Pages differ a little from scrape to scrape.
    support::until("a scrape as large as the page", || {
        let page = client::get(url).text();
        let query = format!("scrape_samples_scraped{{job={job:?}}}");
        let (_, scraped) = client::vector(&ours.url, &query, None)
            .into_values()
            .next()?;
        (scraped == sample_lines(&page).count() as f64).then_some(())
    });
    let page = client::get(url).text();
    let selector = format!("{{job={job:?}}}");
    let stored = ours.data("/api/v1/label/__name__/values", &[("match[]", &selector)]);
    let stored: BTreeSet<String> = stored
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap().to_owned())
        .collect();
    let synthetic = SYNTHETIC.map(str::to_owned);
    let expected: BTreeSet<String> = names(&page).into_iter().chain(synthetic).collect();
    let missing: Vec<_> = expected.difference(&stored).collect();
    assert!(missing.is_empty(), "{job}: never stored: {missing:?}");
    let count = client::vector(&ours.url, &format!("count({selector})"), None);
    let count = count["{}"].1;
    let scraped = sample_lines(&page).count() as f64 + SYNTHETIC.len() as f64;
    assert!(
        (count - scraped).abs() < 50.0,
        "{job}: {count} series of {scraped}"
    );

    let known = ours.data("/api/v1/metadata", &[]);
    for (name, (kind, help)) in families(&page) {
        // Another page's family of the same name may have another help.
        let entries = known[&name]
            .as_array()
            .unwrap_or_else(|| panic!("no metadata of {name}"));
        let same = |entry: &Value| {
            entry["type"] == *kind.replace("untyped", "unknown")
                && entry["help"] == *help
                && entry["unit"] == ""
        };
        assert!(
            entries.iter().any(same),
            "{name} is a {kind} ({help}), not {entries:?}"
        );
    }
}

fn meminfo_total_bytes() -> f64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .unwrap();
    line.split_whitespace()
        .next()
        .unwrap()
        .parse::<f64>()
        .unwrap()
        * 1024.0
}

#[test]
fn debians_exporter_and_prometheus_are_scraped_and_queried() {
    let dir = TempDir::new("peers");
    let node = Running::node_exporter();
    let peer = Peer::start();
    let jobs = [
        Job {
            name: "node",
            targets: vec![node.address()],
            more: "",
        },
        Job {
            name: "prometheus",
            targets: vec![peer.running.address()],
            more: "",
        },
    ];
    let config = support::config(&dir, "1s", &jobs);
    let mut ours = Running::start(&dir.join("data"), &config);
    assert_scraped(&ours, "node", &format!("{}/metrics", node.url));
    assert_scraped(
        &ours,
        "prometheus",
        &format!("{}/metrics", peer.running.url),
    );

    // Each holds once both were scraped twice.
    let facts = [
        "count(node_cpu_seconds_total{mode=\"idle\",cpu=\"0\"}) == 1",
        "node_load1 >= 0",
        "node_uname_info{sysname=\"Linux\"} == 1",
        "count(node_filesystem_size_bytes > 0) >= 1",
        "node_time_seconds - timestamp(node_time_seconds) < 60",
        "rate(node_cpu_seconds_total{mode=\"idle\",cpu=\"0\"}[1m]) >= 0",
        "prometheus_build_info{version=~\"2\\\\.42\\\\..*\"} == 1",
        "prometheus_ready == 1",
        "go_goroutines{job=\"prometheus\"} > 10",
        "count(go_gc_duration_seconds{job=\"prometheus\",quantile=\"0.5\"}) == 1",
        "sum(rate(prometheus_http_requests_total{handler=\"/metrics\"}[1m])) > 0",
        "histogram_quantile(0.9, sum by (le) (rate(prometheus_http_request_duration_seconds_bucket{handler=\"/metrics\"}[1m]))) > 0",
        "prometheus_http_response_size_bytes_count{handler=\"/metrics\"} >= 1",
        "count by (job) (up == 1) == 1",
    ];
    for fact in facts {
        ours.wait_vector(fact, |found| !found.is_empty());
    }
    let total = client::vector(&ours.url, "node_memory_MemTotal_bytes", None);
    assert_eq!(total.values().next().unwrap().1, meminfo_total_bytes());

    let targets = ours.data("/api/v1/targets", &[]);
    let active = targets["activeTargets"].as_array().unwrap();
    let pools: Vec<&Value> = active.iter().map(|target| &target["scrapePool"]).collect();
    assert_eq!(pools, ["node", "prometheus"]);
    for target in active {
        assert_eq!(
            (&target["health"], &target["lastError"]),
            (&"up".into(), &"".into()),
            "{target}"
        );
    }

    scraped_by_prometheus(&mut ours, &peer);
    a_target_that_ends_is_stale(&ours, node);
    ours.stop();
}

/// Debian's Prometheus scrapes us without an error.
fn scraped_by_prometheus(ours: &mut Running, peer: &Peer) {
    peer.scrape(ours.address());
    peer.running
        .wait_vector("up{job=\"narthex\"} == 1", |found| found.len() == 1);
    let page = client::get(&format!("{}/metrics", ours.url));
    assert_eq!(
        page.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    let page = page.text();
    let scraped = peer
        .running
        .wait_vector("scrape_samples_scraped{job=\"narthex\"}", |found| {
            !found.is_empty()
        });
    let count = sample_lines(&page).count() as f64;
    let scraped = scraped.values().next().unwrap().1;
    // The first response of a handler adds its series.
    assert!(
        (count - scraped).abs() < 100.0 && scraped > 50.0,
        "{scraped} of {count}"
    );
    for fact in [
        "prometheus_tsdb_head_series{job=\"narthex\"} > 500",
        "process_resident_memory_bytes{job=\"narthex\"} > 1e6",
        "process_start_time_seconds{job=\"narthex\"} > 1.6e9",
        "prometheus_tsdb_wal_fsync_duration_seconds_count{job=\"narthex\"} >= 0",
        "prometheus_engine_queries_concurrent_max{job=\"narthex\"} == 20",
    ] {
        peer.running.wait_vector(fact, |found| found.len() == 1);
    }
    let metadata = peer.running.data(
        "/api/v1/targets/metadata",
        &[("match_target", "{job=\"narthex\"}")],
    );
    let of_type = |kind: &str| {
        metadata
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| one["type"] == kind)
            .count()
    };
    assert!(
        of_type("counter") > 5 && of_type("gauge") > 5 && of_type("histogram") > 1,
        "{metadata}"
    );
    assert_promtool_is_content(&page, &peer.dir);
}

/// Fails unless `promtool check metrics` accepts the page.
fn assert_promtool_is_content(page: &str, dir: &TempDir) {
    let check = |page: &str| {
        let file = dir.write("page.txt", page);
        let script = format!(
            "exec {} check metrics < {}",
            tool("promtool", "prometheus").display(),
            file.display()
        );
        Spawn::new("/bin/sh").arg("-c").arg(script).run(PATIENCE)
    };
    let finished = check(page);
    let said = format!("{}{}", finished.stdout, finished.stderr);
    // Prometheus' own metrics have these names, but an older promtool advises against them.
    let advice = "metric name should not include type 'histogram'";
    let said: Vec<&str> = said
        .lines()
        .filter(|line| !line.ends_with(advice))
        .collect();
    assert!(said.is_empty(), "{said:?}\n{page}");
    assert!(matches!(finished.exit.code, Some(0 | 3)), "{page}");
    let complaint = check("# TYPE requests counter\nrequests 1\n");
    assert_ne!(complaint.exit.code, Some(0), "promtool checks nothing");
}

/// When a target becomes unreachable, its series end at once, and no others.
fn a_target_that_ends_is_stale(ours: &Running, node: Running) {
    let count = |job: &str| {
        let found = client::vector(
            &ours.url,
            &format!("count({{job={job:?},__name__!~\"up|scrape_.*\"}})"),
            None,
        );
        found.get("{}").map_or(0.0, |(_, count)| *count)
    };
    assert!(count("node") > 100.0 && count("prometheus") > 100.0);
    let address = node.address().to_owned();
    drop(node);
    ours.wait_vector("up{job=\"node\"} == 0", |found| found.len() == 1);
    assert_eq!(count("node"), 0.0);
    assert!(count("prometheus") > 100.0);
    let before = client::vector(&ours.url, "max_over_time(node_load1[5m])", None);
    assert_eq!(before.len(), 1, "what was stored before stays");
    // The scrape in flight fails with another error than later ones.
    support::until("the target says why", || {
        let targets = ours.data("/api/v1/targets", &[]);
        let shown = &targets["activeTargets"][0];
        let error = shown["lastError"].as_str()?;
        let why = error.contains(&address) && error.contains("refused");
        (shown["health"] == "down" && why).then_some(())
    });
}
