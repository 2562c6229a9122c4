//! `narthex tsdb backfill rules`: what it writes is what a live evaluation over the same data gives.

use crate::{
    client,
    support::{self, PATIENCE, Running},
};
use narthex_model::{
    LabelSet,
    storage::{SeriesSample, Sink as _},
};
use narthex_testkit::{TempDir, process::Finished};
use narthex_tsdb::{Clock as _, Db, DbOptions, RealIo, SystemClock};
use serde_json::Value;
use std::{path::Path, sync::Arc};

const HOUR_MS: i64 = 3_600_000;
const MINUTE_MS: i64 = 60_000;

const RULES: &str = "
groups:
- name: first
  labels: {team: a}
  rules:
  - {record: 'job:m:sum', expr: 'sum by (job) (m)', labels: {kind: sum}}
  - {record: 'job:m:rate', expr: 'sum by (job) (rate(m[10m]))'}
  - {alert: Never, expr: 'm > 0'}
- name: second
  interval: 2m30s
  query_offset: 30s
  rules:
  - {record: 'm:late', expr: m}
  - {record: scalar, expr: 'vector(3)'}
";

/// Fills a data directory with five hours that end an hour ago, and returns their beginning.
fn fill(data: &Path) -> i64 {
    let now_ms = SystemClock.now_ms();
    let start_ms = (now_ms - 6 * HOUR_MS).div_euclid(MINUTE_MS) * MINUTE_MS;
    let db = Db::open(
        Arc::new(RealIo),
        DbOptions::new(data),
        Arc::new(SystemClock),
    )
    .unwrap();
    let mut samples = Vec::new();
    for series in 0..6_i64 {
        let (job, at) = (format!("j{}", series % 2), series.to_string());
        let labels = LabelSet::new([("__name__", "m"), ("job", &*job), ("at", &*at)]);
        for minute in 0..300 {
            // A series that begins late, and one that ends early.
            if (series, minute < 100) == (4, true) || (series, minute > 150) == (5, true) {
                continue;
            }
            let value = (minute * (series + 1)) as f64;
            let time_ms = start_ms + minute * MINUTE_MS;
            samples.push(SeriesSample::float(labels.clone(), time_ms, value));
        }
    }
    db.append_samples(&samples).unwrap();
    db.close().unwrap();
    start_ms
}

fn backfill(words: &str, flags: &[String], rules: &Path) -> Finished {
    let spawn = support::narthex().arg("tsdb").args(words.split(' '));
    spawn.args(flags).arg(rules).run(PATIENCE)
}

/// Returns what a range query gives, without the name and the labels that rules add.
fn range(server: &Running, query: &str, from_ms: i64, to_ms: i64, step: &str) -> Vec<Value> {
    let seconds = |ms: i64| format!("{}.{:03}", ms / 1000, ms % 1000);
    let (start, end) = (seconds(from_ms), seconds(to_ms));
    let params = [
        ("query", query),
        ("start", &start),
        ("end", &end),
        ("step", step),
    ];
    let mut result = server.data("/api/v1/query_range", &params)["result"].clone();
    let series = result.as_array_mut().unwrap();
    for one in &mut *series {
        let labels = one["metric"].as_object_mut().unwrap();
        for name in ["__name__", "team", "kind"] {
            labels.remove(name);
        }
    }
    series.sort_by_key(|one| one["metric"].to_string());
    series.clone()
}

/// Compares recorded series with their expressions at the times at which they were recorded.
fn compare(server: &Running, start_ms: i64, end_ms: i64) {
    for (recorded, expr, step, interval_ms) in [
        (
            "job:m:sum{kind=\"sum\",team=\"a\"}",
            "sum by (job) (m)",
            "60",
            MINUTE_MS,
        ),
        (
            "job:m:rate{team=\"a\"}",
            "sum by (job) (rate(m[10m]))",
            "60",
            MINUTE_MS,
        ),
        ("m:late", "m", "150", 150_000),
        ("scalar", "vector(3)", "150", 150_000),
    ] {
        let all = format!("min(timestamp({recorded}))");
        let time = (start_ms + 2 * interval_ms + 3 * HOUR_MS) / 1000;
        let newest = client::vector(&server.url, &all, Some(&time.to_string()));
        let (_, at) = newest
            .values()
            .next()
            .unwrap_or_else(|| panic!("{recorded}"));
        // The first time of the grid in the range.
        let phase_ms = (at * 1000.0).round() as i64 % interval_ms;
        let first_ms = start_ms + (phase_ms - start_ms).rem_euclid(interval_ms);
        let wanted = range(server, expr, first_ms, end_ms, step);
        assert!(!wanted.is_empty());
        assert_eq!(
            range(server, recorded, first_ms, end_ms, step),
            wanted,
            "{recorded}"
        );
        // Nothing was recorded outside.
        let before = first_ms - interval_ms;
        assert!(range(server, recorded, before - HOUR_MS, before, step).is_empty());
    }
    assert!(client::vector(&server.url, "ALERTS or Never", None).is_empty());
}

#[test]
fn backfilled_series_are_those_of_a_live_evaluation() {
    let dir = TempDir::new("backfill");
    let rules = dir.write("rules.yml", RULES);
    let config = dir.write("p.yml", "scrape_configs: []\n");
    let data = dir.join("data");
    let start_ms = fill(&data);
    let (from_ms, to_ms) = (start_ms + 10 * MINUTE_MS, start_ms + 280 * MINUTE_MS);
    let copy = dir.join("copy");
    support::copy_dir(&data, &copy).unwrap();

    // From a server, into its own data directory.
    let server = Running::start(&data, &config);
    let times = [
        format!("--start={}", from_ms / 1000),
        format!("--end={}", to_ms / 1000),
    ];
    let mut flags = times.to_vec();
    flags.push(format!("--url={}", server.url));
    flags.push(format!("--output-dir={}", data.display()));
    let found = backfill("backfill rules", &flags, &rules);
    assert_eq!(found.exit.code, Some(0), "{}", found.stderr);
    assert_eq!(found.stderr, "", "nothing but mistakes without a terminal");
    let end = (to_ms / 1000).to_string();
    assert!(client::vector(&server.url, "scalar", Some(&end)).is_empty());
    server.stop();
    let server = Running::start(&data, &config);
    compare(&server, from_ms, to_ms);
    server.stop();

    // From the files of a server that is not running, to a directory, whose blocks are moved.
    let out = dir.join("out");
    let mut flags = times.to_vec();
    flags.push(format!("--data-dir={}", copy.display()));
    flags.push(format!("--output-dir={}", out.display()));
    let found = backfill("create-blocks-from rules", &flags, &rules);
    assert_eq!(found.exit.code, Some(0), "{}", found.stderr);
    let blocks = support::files_below(&out, "");
    assert!(!blocks.is_empty());
    std::fs::create_dir_all(copy.join("blocks")).unwrap();
    for block in blocks {
        assert_eq!(block.extension(), Some("block".as_ref()), "{block:?}");
        let name = block.file_name().unwrap();
        std::fs::rename(&block, copy.join("blocks").join(name)).unwrap();
    }
    let server = Running::start(&copy, &config);
    compare(&server, from_ms, to_ms);
    server.stop();
}

#[test]
fn a_rule_that_fails_costs_itself() {
    let dir = TempDir::new("backfill-fails");
    let data = dir.join("data");
    let start_ms = fill(&data);
    let rules = dir.write(
        "rules.yml",
        "groups: [{name: g, rules: [{record: bad, expr: m * on(job) m}, {record: same, expr: m, labels: {at: '', job: ''}}, {record: good, expr: sum(m)}]}]",
    );
    let times = [
        format!("--start={}", start_ms / 1000),
        format!("--end={}", start_ms / 1000 + 9000),
    ];
    let run = |more: &[String]| {
        let flags: Vec<String> = times.iter().chain(more).cloned().collect();
        backfill("backfill rules", &flags, &rules)
    };
    let (from, to) = (format!("--data-dir={}", data.display()), dir.join("out"));
    let to = format!("--output-dir={}", to.display());
    let found = run(&[from, to.clone()]);
    assert_eq!(found.exit.code, Some(1), "{}", found.stderr);
    let lines: Vec<&str> = found.stderr.lines().collect();
    let begins = |line: &str, rule: &str| {
        let begin = format!(
            "narthex: backfill: {}: group \"g\", rule {rule:?}: ",
            rules.display()
        );
        assert!(line.starts_with(&begin), "{line}");
    };
    begins(lines[0], "bad");
    assert!(lines[0].contains("many-to-many"), "{}", lines[0]);
    begins(lines[1], "same");
    assert!(lines[1].contains("same labelset"), "{}", lines[1]);
    assert_eq!(lines.len(), 2, "{}", found.stderr);
    let names = support::files_below(&dir.join("out"), "");
    assert!(!names.is_empty(), "the blocks of the good rule");

    let nobody = run(&["--url=http://127.0.0.1:1".to_owned(), to.clone()]);
    assert_eq!(nobody.exit.code, Some(1), "{}", nobody.stderr);
    for (flags, code, reason) in [
        (
            vec!["--start=10", "--end=5"],
            1,
            "start time is not before end time",
        ),
        (vec!["--start=x"], 1, "cannot parse \"x\""),
        (vec![], 2, "--start"),
        (
            vec!["--start=1", "--data-dir=/nowhere"],
            1,
            "not a data directory",
        ),
    ] {
        let mut flags: Vec<String> = flags.into_iter().map(str::to_owned).collect();
        flags.push(to.clone());
        let found = backfill("backfill rules", &flags, &rules);
        assert_eq!(found.exit.code, Some(code), "{}", found.stderr);
        assert!(found.stderr.contains(reason), "{}", found.stderr);
    }
    let left = std::fs::read_dir(dir.join("out")).unwrap();
    let left = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(left.filter(|name| name.starts_with("backfill-")).count(), 0);
}
