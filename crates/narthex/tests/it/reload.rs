//! Configuration changes at run time: unchanged parts are not disturbed, and an invalid file changes nothing.

use crate::{
    client,
    support::{self, Job, PATIENCE, Running, until},
    target::Target,
};
use narthex_testkit::{
    TempDir, http,
    process::{SIGHUP, Spawn},
    scaled,
};
use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

/// Milliseconds between two scrapes.
const INTERVAL_MS: i64 = 200;

fn start(dir: &TempDir, config: &Path, flags: &[&str]) -> Running {
    let spawn = support::server_in(&dir.join("data"))
        .arg(support::config_flag(config))
        .arg("--web.enable-lifecycle")
        .args(flags);
    Running::of(spawn)
}

fn reload(server: &Running) -> http::Response {
    http::post(&format!("{}/-/reload", server.url), "text/plain", b"").unwrap()
}

fn write(dir: &TempDir, name: &str, text: &str) -> std::path::PathBuf {
    dir.write(name, text)
}

fn page(number: u64) -> String {
    format!("# TYPE page gauge\npage {number}\n")
}

/// Returns the sample times of each series that `query` selects.
fn times(server: &Running, query: &str) -> BTreeMap<String, Vec<i64>> {
    let matrix = client::matrix(&server.url, query);
    let of_series = matrix.into_iter();
    of_series
        .map(|(labels, samples)| (labels, samples.into_keys().collect()))
        .collect()
}

/// Returns the number of missing scrapes between the first and the last of a series.
fn gaps(times: &[i64]) -> i64 {
    let (Some(first), Some(last)) = (times.first(), times.last()) else {
        panic!("a series without samples");
    };
    // A busy machine delays scrapes by milliseconds, so count whole intervals.
    let intervals = (last - first + INTERVAL_MS / 2) / INTERVAL_MS;
    intervals + 1 - i64::try_from(times.len()).unwrap()
}

/// Returns the number of scrapes that the server missed because the machine was busy.
fn missed(server: &Running) -> i64 {
    let missed = server.metric("narthex_scrape_missed_total ");
    #[expect(clippy::cast_possible_truncation, reason = "a small count")]
    let missed = missed.unwrap_or_default() as i64;
    missed
}

#[test]
fn a_reload_leaves_unchanged_targets_alone() {
    let dir = TempDir::new("reload-unchanged");
    let (steady, changing) = (Target::start(page), Target::start(page));
    let written = |path: &str| {
        format!(
            "global: {{scrape_interval: {INTERVAL_MS}ms, scrape_timeout: {INTERVAL_MS}ms}}\nscrape_configs:\n\
- job_name: steady\n  static_configs: [{{targets: ['{}']}}]\n\
- job_name: changing\n  metrics_path: {path}\n  static_configs: [{{targets: ['{}']}}]\n",
            steady.address, changing.address
        )
    };
    let config = write(&dir, "p.yml", &written("/a"));
    let server = start(&dir, &config, &[]);
    until("both are scraped", || {
        (steady.count() > 2 && changing.count() > 2).then_some(())
    });
    for round in 0..5 {
        write(&dir, "p.yml", &written(&format!("/b{round}")));
        let answer = reload(&server);
        assert_eq!((answer.status, answer.text().as_str()), (200, ""));
        let (before, other) = (steady.count(), changing.count());
        until("scraping goes on", || {
            (steady.count() > before + 1 && changing.count() > other + 1).then_some(())
        });
    }
    assert_eq!(steady.connections(), 1, "the connection is kept");
    let times = times(&server, "up{job=\"steady\"}[10m]");
    let [series] = times.values().collect::<Vec<_>>()[..] else {
        panic!("{times:?}")
    };
    assert!(gaps(series) <= missed(&server), "{series:?}");
    let shown = server.data("/api/v1/status/config", &[]);
    assert!(
        shown["yaml"]
            .as_str()
            .unwrap()
            .contains("metrics_path: /b4")
    );
    server.stop();
}

#[test]
fn a_target_that_goes_ends_and_one_that_comes_is_scraped() {
    let dir = TempDir::new("reload-targets");
    let (first, second) = (Target::start(page), Target::start(page));
    let job = |name, target: &Target| {
        let jobs = [Job {
            name,
            targets: vec![&target.address],
            more: "",
        }];
        let path = support::config(&dir, "200ms", &jobs);
        fs::copy(path, dir.join("p.yml")).unwrap();
    };
    job("one", &first);
    let server = start(&dir, &dir.join("p.yml"), &[]);
    server.wait_vector("up{job=\"one\"}", |vector| vector.len() == 1);
    job("two", &second);
    server.process.signal(SIGHUP);
    server.wait_vector("up", |vector| {
        vector.keys().all(|labels| labels.contains("two")) && vector.len() == 1
    });
    let pools = server.data("/api/v1/scrape_pools", &[]);
    assert_eq!(pools["scrapePools"], serde_json::json!(["two"]));
    server.stop();
}

#[test]
fn a_bad_file_changes_nothing_and_says_why() {
    let dir = TempDir::new("reload-bad");
    let target = Target::start(page);
    let good = format!(
        "global: {{scrape_interval: 200ms, scrape_timeout: 200ms}}\nscrape_configs:\n- job_name: a\n  static_configs: [{{targets: ['{}']}}]\n",
        target.address
    );
    let config = write(&dir, "p.yml", &good);
    let mut server = start(&dir, &config, &[]);
    const METRIC: &str = "prometheus_config_last_reload_successful ";
    assert_eq!(server.metric(METRIC), Some(1.0));
    for (text, reason) in [
        (
            "scrape_configs: [{}]",
            "line 1, column 18: job_name is empty",
        ),
        (
            "scrape_configs: [{job_name: a, tls_config: {ca_file: nowhere.pem}}]",
            "nowhere.pem",
        ),
        (
            "rule_files: [p.yml]",
            "field rule_files not found in type rulefmt",
        ),
    ] {
        write(&dir, "p.yml", text);
        let answer = reload(&server);
        let body = answer.text();
        assert_eq!(answer.status, 500, "{body}");
        assert!(
            body.starts_with(
                "failed to reload config: couldn't load configuration (--config.file="
            ),
            "{body}"
        );
        assert!(body.contains(reason), "{body}");
        assert_eq!(server.metric(METRIC), Some(0.0));
        server.process.wait_for(reason, PATIENCE);
    }
    let before = target.count();
    until("scraping goes on", || {
        (target.count() > before).then_some(())
    });
    let shown = server.data("/api/v1/status/config", &[]);
    assert!(shown["yaml"].as_str().unwrap().contains("job_name: a"));
    assert_eq!(target.connections(), 1);
    write(&dir, "p.yml", &good);
    assert_eq!(reload(&server).status, 200);
    assert_eq!(server.metric(METRIC), Some(1.0));
    server.stop();
}

#[test]
fn the_lifecycle_is_off_unless_asked_for() {
    let dir = TempDir::new("reload-off");
    let config = write(&dir, "p.yml", "scrape_configs: []\n");
    let server = Running::start(&dir.join("data"), &config);
    assert_eq!(reload(&server).status, 403);
    server.stop();
    let server = start(&dir, &config, &[]);
    let answer = client::get(&format!("{}/-/reload", server.url));
    assert_eq!(answer.status, 405);
    server.stop();
}

#[test]
fn files_that_change_are_loaded_by_themselves() {
    let dir = TempDir::new("reload-auto");
    let target = Target::start(page);
    let config = write(&dir, "p.yml", "scrape_config_files: [jobs/*.yml]\n");
    let flags = [
        "--config.auto-reload",
        "--config.auto-reload-interval=100ms",
    ];
    let server = start(&dir, &config, &flags);
    fs::create_dir(dir.join("jobs")).unwrap();
    let job = format!(
        "scrape_configs: [{{job_name: late, scrape_interval: 200ms, static_configs: [{{targets: ['{}']}}]}}]\n",
        target.address
    );
    fs::write(dir.join("jobs/a.yml"), job).unwrap();
    server.wait_vector("up{job=\"late\"}", |vector| vector.len() == 1);
    server.stop();
}

#[test]
fn lists_of_targets_in_files_are_followed() {
    let dir = TempDir::new("reload-file-sd");
    let (first, second) = (Target::start(page), Target::start(page));
    let list = |target: &Target, zone: &str| {
        let text = format!(
            r#"[{{"targets": ["{}"], "labels": {{"__meta_zone": "{zone}"}}}}]"#,
            target.address
        );
        // Written aside and renamed, as real writers of such files do.
        let aside = dir.write("list.new", text);
        fs::rename(aside, dir.join("list.json")).unwrap();
    };
    list(&first, "a");
    let config = write(
        &dir,
        "p.yml",
        r"
global: {scrape_interval: 200ms, scrape_timeout: 200ms}
scrape_configs:
- job_name: files
  file_sd_configs: [{files: [list.json], refresh_interval: 1s}]
  relabel_configs: [{source_labels: [__meta_zone], target_label: zone}]
  metric_relabel_configs: [{action: labeldrop, regex: nothing}]
",
    );
    let server = start(&dir, &config, &[]);
    server.wait_vector("up{zone=\"a\"}", |vector| vector.len() == 1);
    list(&second, "b");
    server.wait_vector("up", |vector| {
        vector.len() == 1 && vector.keys().all(|labels| labels.contains("zone=\"b\""))
    });
    server.stop();
}

#[test]
fn configurations_are_checked_with_exit_codes() {
    let dir = TempDir::new("check-config");
    let good = write(
        &dir,
        "good.yml",
        "scrape_configs: [{job_name: a, scrape_interval: 10m}]\n",
    );
    let bad = write(&dir, "bad.yml", "scrape_configs: [{job_name: ''}]\n");
    let check = |spawn: Spawn, arguments: &[&str], file: &Path| {
        spawn.args(arguments).arg(file).run(PATIENCE)
    };
    let command = ["check", "config"];
    let fine = check(support::narthex(), &command, &good);
    assert_eq!(fine.exit.code, Some(0), "{}", fine.stderr);
    let shown = good.display();
    assert_eq!(
        fine.stdout,
        format!("Checking {shown}\n SUCCESS: {shown} is valid prometheus config file syntax\n\n")
    );
    let failed = check(support::narthex().arg0("/usr/bin/promtool"), &command, &bad);
    assert_eq!(failed.exit.code, Some(1));
    assert!(
        failed.stderr.starts_with("  FAILED: parsing YAML file"),
        "{}",
        failed.stderr
    );
    assert!(failed.stderr.contains("job_name is empty"));
    let linted = ["check", "config", "--lint=all", "--lint-fatal"];
    let linted = check(support::narthex(), &linted, &good);
    assert_eq!(linted.exit.code, Some(3));
    assert!(linted.stderr.contains("too long scrape interval found"));
    let nothing = support::narthex().args(command).run(PATIENCE);
    assert_eq!(nothing.exit.code, Some(2), "{}", nothing.stderr);
    // Under promtool's name, the program has no server.
    let server = support::narthex()
        .arg0("promtool")
        .arg("server")
        .run(PATIENCE);
    assert_eq!(server.exit.code, Some(2));
}

#[test]
fn failed_scrapes_are_written_to_files_that_can_be_moved_away() {
    let dir = TempDir::new("failure-log");
    let bad = Target::start(|_| "this is no page\n".to_owned());
    let config = format!(
        "global: {{scrape_interval: 200ms, scrape_timeout: 200ms, scrape_failure_log_file: all.json}}\nscrape_configs:\n\
- {{job_name: closed, static_configs: [{{targets: ['127.0.0.1:1']}}]}}\n\
- {{job_name: 'bad \"one\"', scrape_failure_log_file: own.json, static_configs: [{{targets: ['{}']}}]}}\n",
        bad.address
    );
    let config = dir.write("p.yml", config);
    let server = start(&dir, &config, &[]);
    let line = |file: &str| -> serde_json::Value {
        until(file, || {
            let text = fs::read_to_string(dir.join(file)).ok()?;
            let line = text.split_inclusive('\n').next()?;
            line.ends_with('\n')
                .then(|| serde_json::from_str(line).unwrap())
        })
    };
    let closed = line("all.json");
    assert_eq!(
        (&closed["level"], &closed["job_name"], &closed["target"]),
        (
            &"ERROR".into(),
            &"closed".into(),
            &"http://127.0.0.1:1/metrics".into()
        )
    );
    let message = closed["msg"].as_str().unwrap();
    assert!(
        message.starts_with("Get \"http://127.0.0.1:1/metrics\": "),
        "{message}"
    );
    let keys: Vec<&str> = closed
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(
        keys,
        ["job_name", "level", "msg", "source", "target", "time"]
    );
    assert_eq!(line("own.json")["job_name"], "bad \"one\"");
    // A file that was moved away is still written to until a reload.
    fs::rename(dir.join("all.json"), dir.join("old.json")).unwrap();
    assert_eq!(reload(&server).status, 200);
    assert_eq!(line("all.json")["job_name"], "closed");
    let text = fs::read_to_string(&config).unwrap();
    dir.write("p.yml", text.replace("own.json", "no/such/dir.json"));
    let refused = reload(&server);
    assert_eq!(refused.status, 500);
    assert!(
        refused.text().contains("can't create json log file: open "),
        "{}",
        refused.text()
    );
    server.stop();
}

#[test]
fn bounds_of_storage_follow_the_file() {
    let dir = TempDir::new("reload-storage");
    let target = Target::start(page);
    let write = |storage: &str| {
        dir.write(
            "p.yml",
            format!(
                "{storage}\nscrape_configs: [{{job_name: a, scrape_interval: 200ms, scrape_timeout: 200ms, static_configs: [{{targets: ['{}']}}]}}]\n",
                target.address
            ),
        )
    };
    let config = write("storage: {tsdb: {retention: {time: 30d}}}");
    let server = start(&dir, &config, &["--storage.tsdb.retention.time=40d"]);
    let shown = || {
        let info = server.data("/api/v1/status/runtimeinfo", &[]);
        let limit = |name: &str| server.metric(&format!("prometheus_tsdb_{name} ")).unwrap();
        (
            info["storageRetention"].as_str().unwrap().to_owned(),
            limit("retention_limit_seconds") / 86_400.0,
            limit("retention_limit_bytes"),
            limit("exemplar_max_exemplars"),
        )
    };
    assert_eq!(shown(), ("30d".to_owned(), 30.0, 0.0, 100_000.0));
    write(
        "storage: {tsdb: {retention: {time: 2d, size: 1GB}, out_of_order_time_window: 1m}, exemplars: {max_exemplars: 7}}",
    );
    let answer = reload(&server);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let bytes = f64::from(1 << 30);
    assert_eq!(shown(), (format!("2d or {bytes}B"), 2.0, bytes, 7.0));
    write("");
    assert_eq!(reload(&server).status, 200);
    assert_eq!(shown(), ("40d".to_owned(), 40.0, 0.0, 100_000.0));
    let log = server.stop();
    assert!(!log.contains("take effect at the next start"), "{log}");
}

/// Two replicas, whose configurations differ only in a label, scrape the same targets at different times.
#[test]
fn servers_with_other_external_labels_scrape_at_other_times() {
    let dir = TempDir::new("offsets");
    let target = Target::start(page);
    let phases = |replica: &str| -> BTreeMap<String, i64> {
        let mut text = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s, external_labels: {{replica: {replica}}}}}\nscrape_configs:\n"
        );
        for job in 0..8 {
            let _ = writeln!(
                text,
                "- {{job_name: j{job}, static_configs: [{{targets: ['{}']}}]}}",
                target.address
            );
        }
        let config = dir.write(format!("{replica}.yml"), text);
        let server = Running::start(&dir.join(replica), &config);
        server.wait_vector("up", |vector| vector.len() == 8);
        let times = times(&server, "up[1m]");
        server.stop();
        let first = |(labels, times): (String, Vec<i64>)| (labels, times[0].rem_euclid(1000));
        times.into_iter().map(first).collect()
    };
    let (a, b) = (phases("a"), phases("b"));
    // Scrapes some milliseconds apart count as simultaneous.
    let apart = a.iter().filter(|(labels, phase)| {
        let distance = (*phase - b[*labels]).rem_euclid(1000);
        (100..900).contains(&distance)
    });
    assert!(apart.count() > 0, "{a:?}\n{b:?}");
}

/// Rules that select pods by annotation and name them.
const RULES: &str = r"
  relabel_configs:
  - {source_labels: [__meta_kubernetes_pod_annotation_scrape], regex: 'true', action: keep}
  - {regex: '__meta_kubernetes_pod_label_(.+)', action: labelmap}
  - {source_labels: [__meta_kubernetes_pod_name], target_label: pod}
";

/// A Kubernetes-style configuration: discovered pods, rules that select and name them, a reload for every change.
#[test]
fn many_targets_survive_many_reloads_without_a_gap() {
    let dir = TempDir::new("reload-soak");
    let (steady, moving) = (Target::start(page), Target::start(page));
    let pods = scaled(100);
    let list = |address: &str, app: &str, from: u64, to: u64| {
        let mut text = String::from("[");
        for pod in from..to {
            let separator = if pod == from { "" } else { "," };
            let _ = write!(
                text,
                r#"{separator}{{"targets": ["{address}"], "labels": {{"__meta_kubernetes_pod_name": "{app}-{pod}", "__meta_kubernetes_pod_label_app": "{app}", "__meta_kubernetes_pod_annotation_scrape": "{}"}}}}"#,
                pod % 10 != 0
            );
        }
        text.push(']');
        text
    };
    let configuration = |round: u64| {
        let mut text = format!(
            "global: {{scrape_interval: {INTERVAL_MS}ms, scrape_timeout: {INTERVAL_MS}ms}}\nscrape_configs:\n"
        );
        for (job, extra) in [
            ("steady", String::new()),
            ("moving", format!("  params: {{round: ['{round}']}}\n")),
        ] {
            let _ = write!(
                text,
                "- job_name: {job}\n{extra}  file_sd_configs: [{{files: [{job}.json]}}]{RULES}"
            );
        }
        text
    };
    dir.write("steady.json", list(&steady.address, "web", 0, pods));
    dir.write("moving.json", list(&moving.address, "job", 0, pods));
    let config = dir.write("p.yml", configuration(0));
    let server = start(&dir, &config, &[]);
    let expected = usize::try_from(pods - pods.div_ceil(10)).unwrap();
    server.wait_vector("up{job=\"steady\"}", |vector| vector.len() == expected);
    for round in 1..=scaled(8) {
        dir.write(
            "moving.json",
            list(&moving.address, "job", round, pods + round),
        );
        dir.write("p.yml", configuration(round));
        assert_eq!(reload(&server).status, 200);
        let (before, other) = (steady.count(), moving.count());
        until("scraping goes on", || {
            let round = (steady.count() - before, moving.count() - other);
            (round.0 > pods && round.1 > pods / 2).then_some(())
        });
    }
    let times = times(&server, "up{job=\"steady\"}[1h]");
    assert_eq!(times.len(), expected);
    let total: i64 = times.values().map(|times| gaps(times)).sum();
    let excused = missed(&server);
    println!("{expected} targets, {total} gaps, {excused} scrapes left out by a busy machine");
    assert!(total <= excused, "{total} gaps, {excused} excused");
    let all_up = server.wait_vector("min(min_over_time(up{job=\"steady\"}[1h]))", |_| true);
    assert!(
        all_up.values().all(|(_, value)| *value == 1.0) || excused > 0,
        "{all_up:?}"
    );
    server.stop();
}
