//! Grafana's list of alerts and rules: its requests, answered as Prometheus 3.16 answers them.
//!
//! The list reads pages of groups, and each group by the names that Prometheus and that Mimir give its parameters; the
//! query editor reads all rules once. `tests/rules/grafana.json` has Prometheus' answers without times; with
//! `NARTHEX_PROMETHEUS`, the path of a newer one, that is asked as well.

use crate::support::{self, Running, until};
use narthex_testkit::TempDir;
use serde_json::{Map, Value, json};
use std::path::Path;

const RECORDED: &str = include_str!("../rules/grafana.json");

const CONFIG: &str = "
global: {evaluation_interval: 200ms, external_labels: {region: here}}
rule_files: [rules/*.yml]
";

const FIRST: &str = "
groups:
- name: shared name
  interval: 300ms
  labels: {team: a}
  rules:
  - {record: 'rec:answer', expr: 42, labels: {a: b}}
  - {alert: Always, expr: 'vector(7) > 1', labels: {severity: page},
     annotations: {text: '{{ $value }} in {{ $externalLabels.region }}', fixed: 'as it is'}}
  - {alert: Waiting, expr: 'vector(1e21)', for: 1d, keep_firing_for: 90s}
- name: second
  limit: 3
  rules:
  - {alert: Never, expr: 'absent(vector(1))'}
  - {record: 'rec:bad', expr: 'up[1m]'}
";

const SECOND: &str = "
groups:
- name: shared name
  rules: [{record: 'rec:other', expr: 'vector(1)'}]
- name: empty
  rules: []
- {name: last/one, rules: [{alert: Always, expr: 'vector(0) > 1'}]}
";

type Params<'a> = Vec<(&'a str, &'a str)>;

/// Returns Grafana's requests, each with a name.
fn requests(first: &str) -> Vec<(&'static str, &'static str, Params<'_>)> {
    let group = [("file", first), ("file[]", first)];
    let named = [
        ("rule_group", "shared name"),
        ("rule_group[]", "shared name"),
    ];
    let rule = [("rule_name", "Always"), ("rule_name[]", "Always")];
    let with = |more: &[&[(&'static str, &'static str)]]| -> Params<'_> {
        group.into_iter().chain(more.concat()).collect()
    };
    vec![
        ("editor", "/api/v1/rules", vec![]),
        ("list of a file", "/api/v1/rules", with(&[])),
        ("a group", "/api/v1/rules", with(&[&named])),
        ("a rule", "/api/v1/rules", with(&[&named, &rule])),
        (
            "a rule, by the names of Grafana 11",
            "/api/v1/rules",
            vec![
                ("file[]", first),
                ("group[]", "second"),
                ("rule[]", "Never"),
            ],
        ),
        (
            "without alerts",
            "/api/v1/rules",
            vec![("exclude_alerts", "true"), ("type", "alert")],
        ),
        ("alerts", "/api/v1/alerts", vec![]),
    ]
}

/// Removes what depends on the time, and what only ours has.
fn normalize(value: &mut Value, dir: &str) {
    match value {
        Value::Object(object) => {
            for name in ["evaluationTime", "lastEvaluation", "activeAt"] {
                if let Some(value) = object.remove(name) {
                    let is_time = value.as_str().is_some_and(|text| text.ends_with('Z'));
                    assert!(is_time || value.is_number(), "{name}: {value}");
                }
            }
            for name in ["samplesRead", "series", "wasRead", "graphs"] {
                object.remove(name);
            }
            object.values_mut().for_each(|value| normalize(value, dir));
        }
        Value::Array(all) => all.iter_mut().for_each(|value| normalize(value, dir)),
        Value::String(text) => *text = text.replace(dir, "DIR"),
        _ => {}
    }
}

/// Asks everything that Grafana asks.
fn answers(server: &Running, dir: &Path) -> Value {
    until("every rule was evaluated", || {
        let groups = server.data("/api/v1/rules", &[])["groups"].clone();
        let groups = groups.as_array()?.clone();
        let rules = groups
            .iter()
            .flat_map(|group| group["rules"].as_array().unwrap());
        let healths = rules.map(|rule| rule["health"] != "unknown");
        (groups.len() == 4 && healths.into_iter().all(|known| known)).then_some(())
    });
    let first = dir.join("rules/a.yml").display().to_string();
    let mut all = Map::new();
    for (name, path, params) in requests(&first) {
        all.insert(name.to_owned(), server.data(path, &params));
    }
    let mut alerts = all["alerts"]["alerts"].as_array().unwrap().clone();
    alerts.sort_by_key(|alert| alert["labels"].to_string());
    all["alerts"]["alerts"] = alerts.into();
    all.insert("pages".to_owned(), pages(server));
    let build = server.data("/api/v1/status/buildinfo", &[]);
    // With this key Grafana takes a server for Mimir.
    all.insert("features".to_owned(), build["features"].clone());
    let mut all = Value::Object(all);
    normalize(&mut all, &dir.display().to_string());
    all
}

/// Follows the pages of the list.
fn pages(server: &Running) -> Value {
    let mut pages = Vec::new();
    let mut token = None::<String>;
    loop {
        let mut params = vec![("group_limit", "2")];
        if let Some(token) = &token {
            params.push(("group_next_token", token));
        }
        let page = server.data("/api/v1/rules", &params);
        let groups = page["groups"].as_array().unwrap().iter();
        pages.push(groups.map(|group| group["name"].clone()).collect::<Value>());
        token = page.get("groupNextToken").map(|token| {
            let token = token.as_str().unwrap();
            token.to_owned()
        });
        if token.is_none() {
            return json!(pages);
        }
    }
}

#[test]
fn grafana_is_answered_as_by_prometheus() {
    let dir = TempDir::new("grafana-rules");
    dir.write("rules/a.yml", FIRST);
    dir.write("rules/b.yml", SECOND);
    let config = dir.write("p.yml", CONFIG);
    let mut recorded: Value = serde_json::from_str(RECORDED).unwrap();
    if let Some(newest) = std::env::var_os("NARTHEX_PROMETHEUS") {
        let server = Running::prometheus_at(&newest, &dir.join("theirs"), &config, &[]);
        let theirs = answers(&server, dir.path());
        if std::env::var_os("NARTHEX_UPDATE").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rules/grafana.json");
            let text = serde_json::to_string_pretty(&theirs).unwrap() + "\n";
            std::fs::write(path, text).unwrap();
            recorded = theirs.clone();
        }
        assert_eq!(theirs, recorded, "Prometheus");
        server.stop();
    }
    let spawn = support::server_in(&dir.join("ours")).arg(support::config_flag(&config));
    let server = Running::of(spawn);
    let ours = answers(&server, dir.path());
    for (name, expected) in recorded.as_object().unwrap() {
        assert_eq!(&ours[name], expected, "{name}");
    }
    server.stop();
}
