//! What is described of the API, the query log, and questions from a terminal.

use crate::{
    client,
    support::{self, PATIENCE, Running, until},
    target::{Reply, Target, now_ms},
};
use narthex_testkit::{
    TempDir, http,
    process::Finished,
    remote_write::{Request, Series},
};
use narthex_yaml::{Node, Value};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

const METHODS: [&str; 4] = ["get", "post", "put", "delete"];
/// Calls that end the server, go on for ever, or take seconds.
const UNASKED: [&str; 4] = [
    "get /api/v1/notifications/live",
    "get /debug/flamegraph",
    "get /debug/pprof/profile",
    "post /-/quit",
];

/// Returns a configuration that scrapes one target.
fn scraping(target: &Target, interval: &str) -> String {
    format!(
        "scrape_configs: [{{job_name: j, scrape_interval: {interval}, scrape_timeout: {interval}, \
         static_configs: [{{targets: [{:?}]}}]}}]\n",
        target.address
    )
}

fn pairs(node: &Node) -> Vec<(&str, &Node)> {
    match &node.value {
        Value::Map(pairs) => pairs.iter().map(|(key, node)| (&*key.text, node)).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_described_is_served_by_these_methods_and_no_others() {
    let dir = TempDir::new("described");
    let server = Running::of(support::server_in(&dir.join("data")).args([
        "--web.enable-lifecycle",
        "--web.enable-remote-write-receiver",
        "--web.enable-push-receiver",
        "--enable-feature=search-api,query-cost",
    ]));
    let document = http::get(&format!("{}/api/v1/openapi.yaml", server.url)).unwrap();
    assert_eq!(
        document.header("content-type"),
        Some("application/yaml; charset=utf-8")
    );
    let document = narthex_yaml::read(&document.text()).unwrap();
    let mut asked = 0;
    for (path, item) in pairs(document.get("paths").unwrap()) {
        let below = if item.get("servers").is_some() {
            ""
        } else {
            "/api/v1"
        };
        let path = format!("{below}{}", path.replace("{name}", "job"));
        for method in METHODS {
            let call = format!("{method} {path}");
            if UNASKED.contains(&&*call) || call == "put /-/quit" {
                continue;
            }
            let url = format!("{}{path}", server.url);
            let answer = http::request(&method.to_uppercase(), &url, &[], b"").unwrap();
            let is_served = !matches!(answer.status, 404 | 405);
            let is_described = item.get(method).is_some();
            assert_eq!(is_served, is_described, "{call}: {}", answer.status);
            asked += 1;
        }
    }
    assert!(asked > 200, "{asked}");
    server.stop();
}

#[test]
fn queries_are_logged_in_prometheus_form() {
    let dir = TempDir::new("query-log");
    let config = dir.write("p.yml", "global: {query_log_file: q.json}\n");
    let spawn = support::server_in(&dir.join("data")).arg(support::config_flag(&config));
    let server = Running::of(spawn.arg("--web.enable-lifecycle"));
    let ask = |query: &str| {
        let url = format!("{}/api/v1/query_range", server.url);
        let fields = [
            ("query", query),
            ("start", "10"),
            ("end", "20.5"),
            ("step", "5"),
        ];
        http::post_form(&url, &fields).unwrap().status
    };
    let lines = |file: &str| -> Vec<serde_json::Value> {
        let text = fs::read_to_string(dir.join(file)).unwrap();
        let lines = text.lines().map(serde_json::from_str);
        lines.collect::<Result<_, _>>().unwrap()
    };
    assert_eq!(ask("1 + 1"), 200);
    assert_eq!(ask("1 +"), 400);
    let logged = lines("q.json");
    assert_eq!(logged.len(), 1, "a query that is invalid is not evaluated");
    let line = &logged[0];
    // As Prometheus 3.16 writes it, but for the source and the times.
    assert_eq!(
        line["params"],
        serde_json::json!({
            "end": "1970-01-01T00:00:20.500Z",
            "query": "1 + 1",
            "start": "1970-01-01T00:00:10.000Z",
            "step": 5,
        })
    );
    let request = &line["httpRequest"];
    assert_eq!(request["clientIP"], "127.0.0.1");
    assert_eq!(request["method"], "POST");
    assert_eq!(request["path"], "/api/v1/query_range");
    assert_eq!(
        (&line["level"], &line["msg"]),
        (&"INFO".into(), &"promql query logged".into())
    );
    assert_eq!(line["stats"]["samples"]["totalQueryableSamples"], 0);
    fs::rename(dir.join("q.json"), dir.join("old.json")).unwrap();
    let reloaded = http::post(&format!("{}/-/reload", server.url), "text/plain", b"");
    assert_eq!(reloaded.unwrap().status, 200);
    assert_eq!(ask("2"), 200);
    assert_eq!((lines("old.json").len(), lines("q.json").len()), (1, 1));
    // A file that cannot be opened changes nothing.
    dir.write("p.yml", "global: {query_log_file: none/q.json}\n");
    let refused = http::post(&format!("{}/-/reload", server.url), "text/plain", b"").unwrap();
    assert_eq!(refused.status, 500);
    assert!(refused.text().contains("can't create json log file"));
    assert_eq!(ask("3"), 200);
    assert_eq!(lines("q.json").len(), 2);
    server.stop();
}

#[test]
fn features_of_scraping_change_what_is_stored_and_shown() {
    let dir = TempDir::new("scrape-features");
    let target = Target::answering(|n| Reply {
        status: 200,
        content_type: "application/openmetrics-text; version=1.0.0",
        body: format!("# TYPE a counter\na_total {n}\na_created 1700000000\n# EOF\n").into_bytes(),
    });
    let text = scraping(&target, "200ms");
    let config = dir.write("p.yml", &text);
    let features =
        "extra-scrape-metrics,st-storage,type-and-unit-labels,use-start-timestamps,zstd-scrape";
    let spawn = support::server_in(&dir.join("data"))
        .arg(support::config_flag(&config))
        .arg("--web.enable-lifecycle")
        .arg(format!("--enable-feature={features}"));
    let server = Running::of(spawn);
    server.wait_vector("scrape_timeout_seconds", |elements| !elements.is_empty());
    server.wait_vector("start_timestamp(a_total) == 1700000000", |elements| {
        !elements.is_empty()
    });
    server.wait_vector("a_total{__type__=\"counter\"}", |elements| {
        !elements.is_empty()
    });
    // A function that drops the name drops the type, too.
    server.wait_vector("rate(a_total[10s])", |elements| {
        elements.keys().any(|labels| !labels.contains("__type__"))
    });
    // Reloaded, they still hold.
    let reload = || http::post(&format!("{}/-/reload", server.url), "text/plain", b"").unwrap();
    for _ in 0..2 {
        let shown = server.data("/api/v1/status/config", &[])["yaml"].to_string();
        assert!(shown.contains("extra_scrape_metrics: true"), "{shown}");
        assert!(shown.contains("- PrometheusProto"), "{shown}");
        assert_eq!(reload().status, 200);
    }
    server.stop();
}

/// A counter that restarts between two scrapes has a zero where it began, and no series or start time tells of it otherwise.
#[test]
fn counters_that_begin_get_zeros_where_they_began() {
    let dir = TempDir::new("zeros");
    let began = now_ms() - 90_000;
    let target = Target::answering(move |n| Reply {
        status: 200,
        content_type: "application/openmetrics-text; version=1.0.0",
        body: format!(
            "# TYPE a counter\na_total {}\na_created {}.{:03}\n# EOF\n",
            n + 5,
            began / 1000,
            began % 1000
        )
        .into_bytes(),
    });
    let text = scraping(&target, "200ms");
    let spawn = support::server_in(&dir.join("data"))
        .arg(support::config_flag(&dir.write("p.yml", &text)))
        .arg("--enable-feature=created-timestamp-zero-ingestion");
    let server = Running::of(spawn);
    server.wait_vector("a_total > 8", |elements| !elements.is_empty());
    let stored = client::matrix(&server.url, "a_total[10m]");
    let samples: Vec<_> = stored.into_values().flatten().collect();
    assert_eq!(samples[0], (began, 0.0_f64.to_bits()));
    assert!(samples[1].0 > began + 80_000, "{samples:?}");
    let none = client::matrix(&server.url, "{__name__=~\"a_created|a\"}[10m]");
    assert!(none.is_empty());
    let shown = server.data("/api/v1/features", &[]);
    assert_eq!(shown["scrape"]["start_timestamp_zero_ingestion"], true);
    server.stop();
}

/// Limits of what queries cost follow the configuration, for rules too.
#[test]
fn queries_cost_no_more_than_the_configuration_allows() {
    let dir = TempDir::new("query-cost");
    let target = Target::answering(|n| Reply {
        status: 200,
        content_type: "text/plain; version=0.0.4",
        body: format!("a{{x=\"1\"}} {n}\na{{x=\"2\"}} {n}\n").into_bytes(),
    });
    dir.write(
        "rules.yml",
        "groups: [{name: g, interval: 200ms, rules: [{record: total, expr: sum(a)}]}]\n",
    );
    let limited = |limits: &str| {
        let text = format!(
            "global: {{{limits}}}\nrule_files: [rules.yml]\n{}",
            scraping(&target, "200ms")
        );
        dir.write("p.yml", &text)
    };
    let spawn = support::server_in(&dir.join("data"))
        .arg(support::config_flag(&limited("")))
        .arg("--web.enable-lifecycle")
        .arg("--enable-feature=query-cost");
    let server = Running::of(spawn);
    server.wait_vector("total > 0", |elements| !elements.is_empty());
    let estimate = server.data("/api/v1/query_cost", &[("query", "a")]);
    assert_eq!(
        estimate["estimate"],
        serde_json::json!({"seriesTouched": 2, "samplesRead": 2})
    );
    let reload = |limits: &str| {
        limited(limits);
        let answer = http::post(&format!("{}/-/reload", server.url), "text/plain", b"");
        assert_eq!(answer.unwrap().status, 200, "{limits}");
    };
    let asked = |query: &str| {
        let path = format!("{}/api/v1/query?query={query}", server.url);
        let answer = http::get(&path).unwrap();
        (answer.status, answer.text().contains("\"cost_limit\""))
    };
    let refused = |reason: &str| {
        server.metric(&format!(
            "prometheus_engine_query_rejected_total{{reason=\"{reason}\"}}"
        ))
    };
    reload("query_max_series: 1");
    assert_eq!(asked("a"), (422, true));
    until("a rule is refused, too", || {
        let rules = server.data("/api/v1/rules", &[]);
        let error = &rules["groups"][0]["rules"][0]["lastError"];
        let text = error.as_str().unwrap_or_default();
        text.contains("would load too many series").then_some(())
    });
    assert!(refused("max_series") >= Some(2.0));
    reload("query_max_samples_read: 1");
    assert_eq!(asked("a"), (422, true));
    assert_eq!(asked("a%7Bx=%221%22%7D"), (200, false));
    assert!(refused("max_samples_read") >= Some(1.0));
    reload("");
    assert_eq!(asked("a"), (200, false));
    assert!(server.metric("prometheus_engine_query_series_touched_count") > Some(1.0));
    server.stop();
}

/// Through everything that is between the API and the storage of a server, some of which once hid what the storage knows.
#[test]
fn answers_about_labels_are_sent_again_while_rows_come() {
    let dir = TempDir::new("kept-answers");
    let target = Target::answering(|n| Reply {
        status: 200,
        content_type: "text/plain; version=0.0.4",
        body: format!("a {n}\n").into_bytes(),
    });
    let text = scraping(&target, "200ms");
    let server = Running::start(&dir.join("data"), &dir.write("p.yml", &text));
    server.wait_vector("a > 2", |elements| !elements.is_empty());
    let ask = || {
        let jobs = server.data("/api/v1/label/job/values", &[]);
        let series = server.data("/api/v1/series", &[("match[]", "a")]);
        (jobs.to_string(), series.as_array().map(Vec::len))
    };
    let first = ask();
    assert_eq!(first, (r#"["j"]"#.to_owned(), Some(1)));
    until("answers are kept", || {
        assert_eq!(ask(), first);
        let kept = server.metric("narthex_api_kept_answers_total");
        kept.filter(|kept| *kept >= 4.0)
    });
    server.stop();
}

/// Through everything between the two as well: rows that come change the newest steps, a sample that comes late older ones.
#[test]
fn steps_of_ranges_are_sent_again_while_rows_come() {
    let dir = TempDir::new("kept-steps");
    let target = Target::answering(|n| Reply {
        status: 200,
        content_type: "text/plain; version=0.0.4",
        body: format!("a {n}\n").into_bytes(),
    });
    let text = scraping(&target, "100ms");
    let config = dir.write("p.yml", &text);
    let server = Running::of(
        support::server_in(&dir.join("data"))
            .arg(support::config_flag(&config))
            .arg("--web.enable-remote-write-receiver"),
    );
    server.wait_vector("a > 2", |elements| !elements.is_empty());
    let begin_ms = now_ms();
    let ask = |end_ms: i64, nocache: &'static str| {
        let [start, end] = [begin_ms - 60_000, end_ms].map(crate::pair::seconds);
        let params = [
            ("query", "sum(a) + sum(late or vector(0))"),
            ("start", &*start),
            ("end", &*end),
            ("step", "1"),
            ("nocache", nocache),
        ];
        server.data("/api/v1/query_range", &params)["result"].to_string()
    };
    let reused = || server.metric("narthex_api_reused_steps_total");
    let mut ends = 0;
    until("steps are kept", || {
        // Rows that come meanwhile change neither.
        let end_ms = now_ms() - 2000;
        let (before, found) = (ask(end_ms, "1"), ask(end_ms, "0"));
        assert_eq!(found, before);
        ends += usize::from(found.contains("values"));
        reused().filter(|reused| *reused > 100.0 && ends > 5)
    });
    let count = reused();
    let end_ms = now_ms() - 2000;
    let before = ask(end_ms, "1");
    assert_eq!(reused(), count, "all steps were evaluated");
    let series = Series::new(
        &[("__name__", "late"), ("job", "j")],
        &[(begin_ms - 500, 1000.0)],
    );
    let late = Request {
        series: vec![series],
        ..Request::default()
    };
    assert_eq!(late.send(&server.url).unwrap().status, 204);
    let (found, expected) = (ask(end_ms, "0"), ask(end_ms, "1"));
    assert_eq!(found, expected);
    assert_ne!(found, before);
    server.stop();
}

#[test]
fn queries_of_rules_name_their_group_in_the_log() {
    let dir = TempDir::new("query-log-rules");
    let rules = dir.write(
        "r.yml",
        "groups: [{name: g, interval: 1s, rules: [{record: a, expr: vector(7)}]}]\n",
    );
    let config = dir.write(
        "p.yml",
        "global: {query_log_file: q.json}\nrule_files: [r.yml]\n",
    );
    let server = Running::start(&dir.join("data"), &config);
    let line: serde_json::Value = until("a rule is logged", || {
        let text = fs::read_to_string(dir.join("q.json")).ok()?;
        let line = text.split_inclusive('\n').next()?;
        line.ends_with('\n')
            .then(|| serde_json::from_str(line).unwrap())
    });
    let group = serde_json::json!({ "file": rules.to_str(), "name": "g" });
    assert_eq!(line["ruleGroup"], group);
    assert_eq!(line["params"]["query"], "vector(7)");
    assert!(line.get("httpRequest").is_none());
    server.stop();
}

fn query(arguments: &[&str]) -> Finished {
    support::narthex()
        .arg("query")
        .args(arguments)
        .run(PATIENCE)
}

/// Returns the files below a directory with their contents.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

#[test]
fn a_data_directory_is_asked_without_changing_it() {
    let dir = TempDir::new("query-data");
    let data = dir.join("data");
    let mut server = Running::of(support::server_in(&data));
    until("both targets are stored", || {
        let up = client::vector(&server.url, "up", None);
        (up.len() == 2).then_some(())
    });
    let shown = data.to_str().unwrap();
    let refused = query(&["instant", shown, "up"]);
    assert_eq!(refused.exit.code, Some(1));
    assert!(
        refused
            .stderr
            .contains("a running server has this directory open"),
        "{}",
        refused.stderr
    );
    let asked = query(&["instant", &server.url, "count(up)"]);
    assert!(asked.stdout.starts_with("{} => 2 @["), "{}", asked.stdout);
    server.process.kill9();
    let before = files(&data);
    let asked = query(&["instant", "-o", "csv", shown, "count(up)"]);
    assert_eq!(asked.exit.code, Some(0), "{}", asked.stderr);
    assert!(asked.stdout.ends_with(",2\n"), "{}", asked.stdout);
    assert_eq!(query(&["labels", shown, "job"]).stdout, "narthex\nnode\n");
    let series = query(&["series", "--match=up", "-ojson", shown]);
    assert_eq!(series.stdout.matches("\"__name__\":\"up\"").count(), 2);
    let range = query(&[
        "range",
        "--start=-5m",
        "--step=1m",
        "-o",
        "table",
        shown,
        "count(up)",
    ]);
    assert!(
        range.stdout.starts_with("1 series\nmin  avg  max"),
        "{}",
        range.stdout
    );
    let bad = query(&["instant", shown, "count("]);
    assert_eq!(bad.exit.code, Some(1));
    assert!(bad.stderr.contains("parse error"), "{}", bad.stderr);
    assert!(before == files(&data), "the directory has changed");
}
