//! Rules in a running server: recorded, alerting, shown, reloaded, restarted.

use crate::{
    client,
    support::{self, PATIENCE, Running, until},
};
use narthex_testkit::{Alertmanager, TempDir, http};
use serde_json::{Value, json};
use std::path::Path;

const CONFIG: &str = "
global:
  evaluation_interval: 200ms
  external_labels: {region: here}
rule_files: [rules/*.yml]
";

const RULES: &str = "
groups:
- name: first
  rules:
  - {record: 'rec:answer', expr: 42, labels: {a: b}}
  - {record: 'rec:double', expr: 'rec:answer * 2'}
  - {alert: Always, expr: 'vector(7) > 1', for: 2s, labels: {severity: page},
     annotations: {text: '{{ $value }} in {{ $externalLabels.region }} at {{ $externalURL }}'}}
  - {record: 'rec:bad', expr: 'rec:answer[1m]'}
- name: second
  limit: 3
  rules:
  - {alert: Never, expr: 'rec:answer == 1', keep_firing_for: 1m}
";

fn start(dir: &TempDir, config: &Path) -> Running {
    let spawn = support::server_in(&dir.join("data"))
        .arg(support::config_flag(config))
        .arg("--web.enable-lifecycle")
        .arg("--web.external-url=http://me.example")
        .arg("--rules.alert.for-grace-period=0s");
    Running::of(spawn)
}

fn reload(server: &Running) -> http::Response {
    http::post(&format!("{}/-/reload", server.url), "text/plain", b"").unwrap()
}

/// Waits until the one alert is `state`, and returns it.
fn alert(server: &Running, state: &str) -> Value {
    until(state, || {
        let alerts = server.data("/api/v1/alerts", &[]);
        let found = alerts["alerts"].get(0)?;
        (found["state"] == state).then(|| found.clone())
    })
}

#[test]
fn rules_are_evaluated_shown_and_outlive_a_restart() {
    let dir = TempDir::new("rules");
    dir.write("rules/a.yml", RULES);
    let config = dir.write("p.yml", CONFIG);
    let server = start(&dir, &config);
    let firing = alert(&server, "firing");
    let pending = "last_over_time(ALERTS{alertname=\"Always\",alertstate=\"pending\"}[1m])";
    server.wait_vector(pending, |found| found.len() == 1);
    let expected = json!({
        "labels": { "alertname": "Always", "severity": "page" },
        "annotations": { "text": "7 in here at http://me.example" },
        "state": "firing",
        "activeAt": firing["activeAt"],
        "value": "7e+00",
    });
    assert_eq!(firing, expected);
    let double = server.wait_vector("rec:double{a=\"b\"}", |found| found.len() == 1);
    assert_eq!(double.values().next().unwrap().1, 84.0);
    let firing_query = "ALERTS{alertname=\"Always\",alertstate=\"firing\",severity=\"page\"}";
    server.wait_vector(firing_query, |found| found.len() == 1);

    let metric = format!(
        "prometheus_rule_evaluation_failures_total{{rule_group=\"{};first\"}} ",
        dir.join("rules/a.yml").display()
    );
    assert!(server.metric(&metric).unwrap() > 0.0);
    server.stop();

    let server = start(&dir, &config);
    let after = alert(&server, "firing");
    // What is stored of an alert's beginning has whole seconds.
    let seconds = |alert: &Value| alert["activeAt"].as_str().unwrap()[..19].to_owned();
    assert_eq!(seconds(&after), seconds(&firing));
    server.stop();
}

#[test]
fn rules_are_listed_as_prometheus_lists_them() {
    let dir = TempDir::new("rules-listed");
    let file = dir.write("rules/a.yml", RULES);
    let config = dir.write("p.yml", CONFIG);
    let server = start(&dir, &config);
    let bad = until("an evaluation", || {
        let found = server.data("/api/v1/rules", &[("rule_name[]", "rec:bad")]);
        let rule = found["groups"][0]["rules"][0].clone();
        (rule["health"] == "err").then_some(rule)
    });
    assert_eq!(bad["lastError"], "rule result is not a vector or scalar");
    assert_eq!(bad["type"], "recording");
    alert(&server, "firing");

    let groups = server.data("/api/v1/rules", &[])["groups"].clone();
    assert_eq!(groups[0]["name"], "first");
    assert_eq!(groups[0]["file"], file.display().to_string());
    assert_eq!(groups[0]["interval"], 0.2);
    assert_eq!(groups[1]["limit"], 3);
    rules_have_keys(&groups[0]["rules"]);
    assert_eq!(
        groups[1]["rules"][0]["graphs"],
        json!([{ "expr": "rec:answer", "thresholds": [{ "op": "==", "value": 1.0 }] }])
    );
    costs_and_readers_are_shown(&server);
    assert_eq!(groups[0]["rules"][0]["labels"], json!({ "a": "b" }));
    assert_eq!(groups[0]["rules"][2]["duration"], 2.0);
    assert_eq!(groups[1]["rules"][0]["keepFiringFor"], 60.0);
    assert_eq!(groups[1]["rules"][0]["alerts"], json!([]));

    filters_choose(&server, &file.display().to_string());
    pages_follow(&server);
    mistakes_are_named(&server);
    server.stop();
}

/// A recording rule comes first, an alert third.
fn rules_have_keys(rules: &Value) {
    let keys = |value: &Value| -> Vec<String> {
        let object = value.as_object().unwrap();
        object.keys().cloned().collect()
    };
    let sorted = |keys: &[&str]| {
        let mut keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
        keys.sort();
        keys
    };
    assert_eq!(
        keys(&rules[2]),
        sorted(&[
            "state",
            "name",
            "query",
            "duration",
            "keepFiringFor",
            "labels",
            "annotations",
            "alerts",
            "health",
            "evaluationTime",
            "lastEvaluation",
            "type",
            "samplesRead",
            "series",
            "graphs",
        ])
    );
    assert_eq!(
        keys(&rules[0]),
        sorted(&[
            "name",
            "query",
            "labels",
            "health",
            "evaluationTime",
            "lastEvaluation",
            "type",
            "samplesRead",
            "series",
            "wasRead",
        ])
    );
}

/// `rec:double` reads `rec:answer`; nobody reads it before the query here.
fn costs_and_readers_are_shown(server: &Running) {
    let rules = || server.data("/api/v1/rules", &[])["groups"][0]["rules"].clone();
    let before = rules();
    assert_eq!(before[0]["samplesRead"], 0);
    assert_eq!(
        (&before[1]["samplesRead"], &before[1]["series"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(
        (&before[3]["samplesRead"], &before[3]["series"]),
        (&json!(0), &json!(0))
    );
    let was_read = |rules: &Value| [rules[0]["wasRead"].clone(), rules[1]["wasRead"].clone()];
    assert_eq!(was_read(&before), [true, false]);
    server.wait_vector("rec:double", |found| found.len() == 1);
    assert_eq!(was_read(&rules()), [true, true]);
}

fn filters_choose(server: &Running, path: &str) {
    let names = |params: &[(&str, &str)]| -> Vec<String> {
        let found = server.data("/api/v1/rules", params);
        let groups = found["groups"].as_array().unwrap().clone();
        let rules = groups
            .iter()
            .flat_map(|group| group["rules"].as_array().unwrap());
        rules
            .map(|rule| rule["name"].as_str().unwrap().to_owned())
            .collect()
    };
    for (params, expected) in [
        (vec![("type", "alert")], vec!["Always", "Never"]),
        (
            vec![("type", "Record")],
            vec!["rec:answer", "rec:double", "rec:bad"],
        ),
        (vec![("rule_group[]", "second")], vec!["Never"]),
        (
            vec![("rule_name[]", "Never"), ("rule_name[]", "Always")],
            vec!["Always", "Never"],
        ),
        (vec![("file[]", "elsewhere")], vec![]),
        (
            vec![("file[]", path), ("rule_group[]", "second")],
            vec!["Never"],
        ),
        (
            vec![("match[]", "{severity=\"page\"}"), ("match[]", "{a=\"b\"}")],
            vec!["rec:answer", "Always"],
        ),
    ] {
        assert_eq!(names(&params), expected, "{params:?}");
    }
    let bare = server.data(
        "/api/v1/rules",
        &[("exclude_alerts", "true"), ("type", "alert")],
    );
    assert_eq!(bare["groups"][0]["rules"][0]["alerts"], Value::Null);
}

fn pages_follow(server: &Running) {
    let page = server.data("/api/v1/rules", &[("group_limit", "1")]);
    assert_eq!(page["groups"].as_array().unwrap().len(), 1);
    let token = page["groupNextToken"].as_str().unwrap();
    let next = server.data(
        "/api/v1/rules",
        &[("group_limit", "1"), ("group_next_token", token)],
    );
    assert_eq!(next["groups"][0]["name"], "second");
    assert!(next.get("groupNextToken").is_none());
}

fn mistakes_are_named(server: &Running) {
    for (query, error) in [
        (
            "type=x",
            "invalid parameter \"type\": not supported value \"x\"",
        ),
        (
            "exclude_alerts=maybe",
            "invalid parameter \"exclude_alerts\": error converting exclude_alerts: strconv.ParseBool: parsing \"maybe\": invalid syntax",
        ),
        (
            "group_limit=0",
            "invalid parameter \"group_limit\": group_limit needs to be greater than 0",
        ),
        (
            "group_limit=x",
            "invalid parameter \"group_limit\": group_limit needs to be a valid number: strconv.ParseInt: parsing \"x\": invalid syntax",
        ),
        (
            "group_next_token=x",
            "invalid parameter \"group_next_token\": group_limit needs to be present in order to paginate over the groups",
        ),
        (
            "group_limit=1&group_next_token=x",
            "invalid parameter \"group_next_token\": invalid group_next_token 'x'. were rule groups changed?",
        ),
        (
            "match[]={}",
            "match[] must contain at least one non-empty matcher",
        ),
    ] {
        let answer = client::get(&format!("{}/api/v1/rules?{query}", server.url));
        assert_eq!(answer.status, 400, "{query}");
        let body: Value = serde_json::from_str(&answer.text()).unwrap();
        assert_eq!(body["error"], error, "{query}");
        assert_eq!(body["errorType"], "bad_data");
    }
}

#[test]
fn a_reload_keeps_alerts_and_an_invalid_one_keeps_everything() {
    let dir = TempDir::new("rules-reload");
    dir.write("rules/a.yml", RULES);
    let config = dir.write("p.yml", CONFIG);
    let server = start(&dir, &config);
    let before = alert(&server, "firing");

    dir.write(
        "rules/b.yml",
        "groups: [{name: g, rules: [{record: a, expr: up +}]}]",
    );
    let answer = reload(&server);
    assert_eq!(answer.status, 500);
    assert!(answer.text().contains("b.yml: 1:"), "{}", answer.text());
    assert_eq!(alert(&server, "firing")["activeAt"], before["activeAt"]);

    dir.write("rules/b.yml", "groups: []");
    dir.write(
        "rules/a.yml",
        RULES
            .replace("at {{", "via {{")
            .replace("rec:double'", "rec:twice'"),
    );
    assert_eq!(reload(&server).status, 200);
    until("the other annotation", || {
        let now = alert(&server, "firing");
        assert_eq!(now["activeAt"], before["activeAt"]);
        let text = now["annotations"]["text"].as_str().unwrap();
        text.contains("via").then_some(())
    });
    server.wait_vector("rec:twice", |found| found.len() == 1);
    server.wait_vector("rec:double", |found| found.is_empty());

    // Without any rules, what they made ends.
    dir.write("p.yml", CONFIG.replace("rule_files: [rules/*.yml]", ""));
    assert_eq!(reload(&server).status, 200);
    assert_eq!(server.data("/api/v1/rules", &[]), json!({ "groups": [] }));
    assert_eq!(server.data("/api/v1/alerts", &[]), json!({ "alerts": [] }));
    server.wait_vector("rec:answer", |found| found.is_empty());
    server.wait_vector("ALERTS", |found| found.is_empty());
    server.stop();
}

#[test]
fn alerts_reach_alertmanagers_and_so_does_their_end() {
    let dir = TempDir::new("rules-notify");
    let manager = Alertmanager::start();
    let rules = "groups: [{name: g, rules: [{alert: A, expr: 'vector(2) > 1', annotations: {v: '{{ $value }}'}}]}]";
    dir.write("rules/a.yml", rules);
    let targets = format!(
        "alerting: {{alertmanagers: [{{static_configs: [{{targets: ['{}']}}]}}]}}\n",
        manager.address()
    );
    let config = dir.write("p.yml", format!("{CONFIG}{targets}"));
    let server = start(&dir, &config);
    let alert_of = |body: &str| -> Value {
        let alerts: Value = serde_json::from_str(body).unwrap();
        assert_eq!(alerts.as_array().unwrap().len(), 1, "{body}");
        alerts[0].clone()
    };
    let posts = manager.wait_posts(1, PATIENCE);
    let firing = alert_of(&posts[0].body);
    assert_eq!(
        firing["labels"],
        json!({ "alertname": "A", "region": "here" })
    );
    assert_eq!(firing["annotations"], json!({ "v": "2" }));
    assert_eq!(
        firing["generatorURL"],
        "http://me.example/graph?g0.expr=vector%282%29+%3E+1&g0.tab=1"
    );
    dir.write("rules/a.yml", rules.replace("> 1", "> 3"));
    assert_eq!(reload(&server).status, 200);
    let posts = manager.wait_posts(2, PATIENCE);
    let resolved = alert_of(&posts[1].body);
    assert_eq!(resolved["startsAt"], firing["startsAt"]);
    let ends = |alert: &Value| alert["endsAt"].as_str().unwrap().to_owned();
    assert!(ends(&resolved) < ends(&firing), "{resolved} {firing}");
    server.stop();
}

#[test]
fn an_agent_has_no_rules() {
    let dir = TempDir::new("rules-agent");
    let config = dir.write(
        "p.yml",
        "rule_files: [x/*]\nremote_write: [{url: 'http://127.0.0.1:1/'}]\n",
    );
    let finished = support::narthex()
        .args(["agent", "--web.listen-address=127.0.0.1:0"])
        .arg(format!(
            "--storage.agent.path={}",
            dir.join("data").display()
        ))
        .arg(support::config_flag(&config))
        .run(PATIENCE);
    assert_ne!(finished.exit.code, Some(0));
    let error = "field rule_files is not allowed in agent mode";
    assert!(finished.stderr.contains(error), "{}", finished.stderr);
}
