//! What is posted, compared with Prometheus' own notifier byte for byte.

use crate::notifier::notifier;
use narthex_discovery::{SdConfig, TargetGroup};
use narthex_model::{
    LabelSet, NameScheme,
    relabel::{Action, RelabelConfig, Rule},
};
use narthex_notify::{AlertingConfig, AlertmanagerConfig, NotifierOptions};
use narthex_rules::{Alert, AlertSink as _};
use narthex_testkit::{AlertPost, Alertmanager, LineServer, go_program};
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

const LIMIT: Duration = Duration::from_secs(20);

type Pairs = &'static [(&'static str, &'static str)];

/// Labels, annotations, start, end and generator URL of alerts that are hard to print.
const ALERTS: &[(Pairs, Pairs, i64, i64, &str)] = &[
    (
        &[
            ("alertname", "HighLoad"),
            ("severity", "page"),
            ("team", "a"),
            ("secret", "x"),
        ],
        &[
            ("summary", "load is 93.1 %"),
            ("runbook_url", "https://wiki/?a=b&c=<d>"),
        ],
        1_700_000_000_123,
        1_700_000_240_000,
        "http://p:9090/graph?g0.expr=node_load1+%3E+4&g0.tab=1",
    ),
    (
        &[
            ("alertname", "Quotes \"\\ / '"),
            ("dc", "own"),
            ("severity", "info"),
        ],
        &[
            (
                "text",
                "a\nb\tc\r\u{8}\u{c}\u{1}\u{7f} é ü 日本 \u{1f525} \u{2028}\u{2029}",
            ),
            ("empty", ""),
        ],
        0,
        -1,
        "",
    ),
    (
        &[
            ("alertname", "Z"),
            ("UPPER", "1"),
            ("_under", "2"),
            ("http.status", "3"),
            ("é", "4"),
        ],
        &[("B", "1"), ("a", "2"), ("_", "3")],
        253_402_300_799_999,
        1,
        "not a url",
    ),
    (&[("severity", "drop")], &[], 5, 6, "http://p/"),
    (
        &[("alertname", "team b"), ("team", "b")],
        &[("x", "y")],
        5,
        6,
        "http://p/",
    ),
];

fn alert(
    (labels, annotations, starts_at_ms, ends_at_ms, url): &(Pairs, Pairs, i64, i64, &str),
) -> Alert {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Alert {
        labels: LabelSet::new(labels.iter().copied()),
        annotations: annotations.iter().map(owned).collect(),
        starts_at_ms: *starts_at_ms,
        ends_at_ms: *ends_at_ms,
        is_resolved: false,
        generator_url: (*url).into(),
    }
}

fn asked(
    (labels, annotations, starts_at_ms, ends_at_ms, url): &(Pairs, Pairs, i64, i64, &str),
) -> Value {
    let map = |pairs: &Pairs| pairs.iter().copied().collect::<BTreeMap<_, _>>();
    json!({
        "labels": map(labels), "annotations": map(annotations),
        "starts_at_ms": starts_at_ms, "ends_at_ms": ends_at_ms, "generator_url": url,
    })
}

fn rule(config: RelabelConfig) -> Rule {
    Rule::new(config, NameScheme::Utf8).unwrap()
}

/// Two sets: both drop one severity, the second has a prefix, a team of its own and a renamed label.
fn ours(addresses: &[String; 3]) -> AlertingConfig {
    let drop = rule(RelabelConfig {
        source_labels: vec!["severity".to_owned()],
        regex: Some("drop".to_owned()),
        action: Some(Action::Drop),
        ..RelabelConfig::default()
    });
    let forget = rule(RelabelConfig {
        regex: Some("secret".to_owned()),
        action: Some(Action::LabelDrop),
        ..RelabelConfig::default()
    });
    let team = rule(RelabelConfig {
        source_labels: vec!["team".to_owned()],
        regex: Some("b".to_owned()),
        action: Some(Action::Drop),
        ..RelabelConfig::default()
    });
    let rename = rule(RelabelConfig {
        source_labels: vec!["severity".to_owned()],
        target_label: "prio".to_owned(),
        ..RelabelConfig::default()
    });
    let path = rule(RelabelConfig {
        source_labels: vec!["__address__".to_owned()],
        regex: Some(addresses[2].clone()),
        target_label: "__alerts_path__".to_owned(),
        replacement: "/other path/".to_owned(),
        ..RelabelConfig::default()
    });
    let group = |at: &[String]| {
        let labels = BTreeMap::from([("zone".to_owned(), "z".to_owned())]);
        TargetGroup::of_addresses("0", at.iter().cloned(), labels)
    };
    AlertingConfig {
        alert_relabel_configs: vec![drop, forget],
        sets: vec![
            AlertmanagerConfig {
                discovery: vec![SdConfig::Static(vec![group(&addresses[..1])])],
                ..AlertmanagerConfig::default()
            },
            AlertmanagerConfig {
                path_prefix: "a/../b c//".to_owned(),
                relabel_configs: vec![path],
                alert_relabel_configs: vec![team, rename],
                discovery: vec![SdConfig::Static(vec![group(&addresses[1..])])],
                ..AlertmanagerConfig::default()
            },
        ],
    }
}

fn theirs([first, second, third]: &[String; 3]) -> String {
    format!(
        "
global: {{external_labels: {{dc: eu, replica: a}}}}
alerting:
  alert_relabel_configs:
  - {{source_labels: [severity], regex: drop, action: drop}}
  - {{regex: secret, action: labeldrop}}
  alertmanagers:
  - static_configs: [{{targets: ['{first}'], labels: {{zone: z}}}}]
  - static_configs: [{{targets: ['{second}', '{third}'], labels: {{zone: z}}}}]
    path_prefix: a/../b c//
    relabel_configs:
    - {{source_labels: [__address__], regex: '{third}', target_label: __alerts_path__, replacement: /other path/}}
    alert_relabel_configs:
    - {{source_labels: [team], regex: b, action: drop}}
    - {{source_labels: [severity], target_label: prio}}
"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn notifications_are_those_of_prometheus() {
    let servers = [(); 3].map(|()| Alertmanager::start());
    let addresses = servers.each_ref().map(Alertmanager::address);
    let mut oracle = LineServer::start(&go_program("oracle"));
    let alerts: Vec<Value> = ALERTS.iter().map(asked).collect();
    let request =
        json!({ "notifications": { "config": theirs(&addresses), "alerts": alerts, "posts": 3 } });
    let answer: Value = serde_json::from_str(&oracle.ask(&request.to_string())).unwrap();
    assert_eq!(answer["ok"], true, "{answer}");

    let external = LabelSet::new([("dc", "eu"), ("replica", "a")]);
    let one = notifier(NotifierOptions::default(), ours(&addresses), &external, 3).await;
    one.send(ALERTS.iter().map(alert).collect());
    let mut expected = answer["result"]["active"].as_array().unwrap().clone();
    let mut active = one.alertmanagers().0;
    active.sort();
    expected.sort_by_key(Value::to_string);
    assert_eq!(json!(active), json!(expected));
    for (server, address) in servers.iter().zip(&addresses) {
        let post = server.wait_posts(1, LIMIT).remove(0);
        let same = answer["result"]["posts"].as_array().unwrap().iter();
        let same = same.filter(|theirs| theirs["url"].as_str().unwrap().contains(address));
        let theirs: Vec<&Value> = same.collect();
        assert_eq!(theirs.len(), 1);
        assert_eq!(shown(&post, address), shown_theirs(theirs[0]));
        assert_eq!(post.body, theirs[0]["body"].as_str().unwrap());
    }
    one.end(LIMIT).await;
}

fn shown(post: &AlertPost, address: &str) -> String {
    let (method, path) = post.target.split_once(' ').unwrap();
    let content_type = post.header("content-type").unwrap();
    format!("{method} http://{address}{path} {content_type}")
}

fn shown_theirs(post: &Value) -> String {
    let part = |name: &str| post[name].as_str().unwrap();
    format!(
        "{} {} {}",
        part("method"),
        part("url"),
        part("content_type")
    )
}
