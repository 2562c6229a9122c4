//! A notifier's life: configurations come and go, Alertmanagers are slow or absent.

use narthex_discovery::{FileSdConfig, SdConfig, TargetGroup};
use narthex_model::{LabelSet, storage::Budget};
use narthex_net::{HttpClientConfig, Secret};
use narthex_notify::{AlertingConfig, AlertmanagerConfig, Notifier, NotifierOptions, routes};
use narthex_rules::{Alert, AlertSink as _};
use narthex_testkit::{Alertmanager, TempDir};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

pub(crate) const LIMIT: Duration = Duration::from_secs(20);

pub(crate) fn alert(name: &str) -> Alert {
    Alert {
        labels: LabelSet::new([("alertname", name)]),
        annotations: BTreeMap::new(),
        starts_at_ms: 1_700_000_000_000,
        ends_at_ms: 1_700_000_060_000,
        is_resolved: false,
        generator_url: "http://here/graph?g0.expr=up&g0.tab=1".into(),
    }
}

fn set(addresses: &[&Alertmanager]) -> AlertmanagerConfig {
    let addresses = addresses.iter().map(|one| one.address());
    let group = TargetGroup::of_addresses("0", addresses, BTreeMap::new());
    AlertmanagerConfig {
        discovery: vec![SdConfig::Static(vec![group])],
        ..AlertmanagerConfig::default()
    }
}

pub(crate) fn alerting(sets: impl IntoIterator<Item = AlertmanagerConfig>) -> AlertingConfig {
    AlertingConfig {
        sets: sets.into_iter().collect(),
        ..AlertingConfig::default()
    }
}

/// Returns a notifier that has found `count` Alertmanagers.
pub(crate) async fn notifier(
    options: NotifierOptions,
    config: AlertingConfig,
    external: &LabelSet,
    count: usize,
) -> Arc<Notifier> {
    let notifier = Notifier::new(options);
    notifier.apply(config, external).unwrap();
    found(&notifier, count).await;
    notifier
}

/// Waits until a notifier has `count` Alertmanagers.
async fn found(notifier: &Notifier, count: usize) {
    let all = async {
        while notifier.alertmanagers().0.len() != count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, all)
        .await
        .expect("they are found");
}

/// Returns the names of the alerts in each request.
pub(crate) fn names(from: &Alertmanager, posts: usize) -> Vec<String> {
    let posts = from.wait_posts(posts, LIMIT);
    let names = posts.iter().map(|post| {
        let parts = post.body.split("\"alertname\":\"").skip(1);
        parts
            .filter_map(|part| part.split('"').next())
            .collect::<Vec<_>>()
            .join(" ")
    });
    names.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_alertmanager_delays_no_other() {
    let (slow, fast) = (Alertmanager::start(), Alertmanager::start());
    slow.hold();
    let config = alerting([set(&[&slow, &fast])]);
    let one = notifier(NotifierOptions::default(), config, &LabelSet::empty(), 2).await;
    for number in 0..3 {
        one.send(vec![alert(&format!("A{number}"))]);
        // The slow one has its first request before there is a second alert.
        assert_eq!(slow.wait_posts(1, LIMIT).len(), 1);
        assert_eq!(names(&fast, number + 1).len(), number + 1);
    }
    assert_eq!(names(&slow, 1), ["A0"]);
    slow.release();
    assert_eq!(names(&slow, 2), ["A0", "A1 A2"]);
    one.end(LIMIT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_those_of_prometheus() {
    let server = Alertmanager::start();
    let mut config = set(&[&server]);
    config.path_prefix = "/prefix".to_owned();
    config.http = HttpClientConfig {
        bearer_token: Secret::new("token"),
        ..HttpClientConfig::default()
    };
    let external = LabelSet::new([("dc", "eu")]);
    let options = NotifierOptions::default();
    let one = notifier(options, alerting([config]), &external, 1).await;
    one.send(vec![alert("A")]);
    let post = server.wait_posts(1, LIMIT).remove(0);
    assert_eq!(post.target, "POST /prefix/api/v2/alerts");
    assert_eq!(post.header("content-type"), Some("application/json"));
    assert_eq!(post.header("authorization"), Some("Bearer token"));
    assert!(post.header("user-agent").unwrap().starts_with("Narthex/"));
    assert_eq!(
        post.body,
        r#"[{"endsAt":"2023-11-14T22:14:20.000Z","startsAt":"2023-11-14T22:13:20.000Z","generatorURL":"http://here/graph?g0.expr=up\u0026g0.tab=1","labels":{"alertname":"A","dc":"eu"}}]"#
    );
    one.end(LIMIT).await;
}

/// An error that may pass does not cost the alert: it is sent again after a second.
#[tokio::test(flavor = "multi_thread")]
async fn a_restarting_alertmanager_gets_its_alerts() {
    let server = Alertmanager::start();
    server.answer_with(&[503]);
    let config = alerting([set(&[&server])]);
    let one = notifier(NotifierOptions::default(), config, &LabelSet::empty(), 1).await;
    one.send(vec![alert("A")]);
    assert_eq!(names(&server, 2), ["A", "A"]);
    one.end(LIMIT).await;
}

/// Prometheus' TestApplyConfig: an unchanged set keeps what waits, wherever it stands in the file.
#[tokio::test(flavor = "multi_thread")]
async fn a_reload_keeps_the_queues_of_unchanged_sets() {
    let (kept, other, new) = (
        Alertmanager::start(),
        Alertmanager::start(),
        Alertmanager::start(),
    );
    kept.hold();
    let config = alerting([set(&[&other]), set(&[&kept])]);
    let one = notifier(NotifierOptions::default(), config, &LabelSet::empty(), 2).await;
    one.send(vec![alert("A")]);
    assert_eq!(names(&kept, 1), ["A"]);
    one.send(vec![alert("B")]);
    one.apply(alerting([set(&[&kept]), set(&[&new])]), &LabelSet::empty())
        .unwrap();
    found(&one, 2).await;
    one.send(vec![alert("C")]);
    assert_eq!(names(&new, 1), ["C"]);
    // One queue, whose first request is still under way: otherwise B or C had come by now on another connection.
    assert_eq!(kept.posts().len(), 1);
    kept.release();
    assert_eq!(names(&kept, 2), ["A", "B C"]);
    one.end(LIMIT).await;
    // The set that went got what waited, and nothing later.
    assert_eq!(names(&other, 1).concat().replace(' ', ""), "AB");
}

/// A changed set has its Alertmanagers at once, so that no alert finds none.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_set_is_never_without_alertmanagers() {
    let dir = TempDir::new("notify-files");
    let server = Alertmanager::start();
    let path = dir.path().join("targets.json");
    let target = format!(r#"[{{"targets": ["{}"]}}]"#, server.address());
    std::fs::write(&path, target).unwrap();
    let files = FileSdConfig {
        files: vec![path.to_str().unwrap().to_owned()],
        ..FileSdConfig::default()
    };
    let mut config = AlertmanagerConfig {
        discovery: vec![SdConfig::File(files)],
        ..AlertmanagerConfig::default()
    };
    let options = NotifierOptions::default();
    let first = alerting([config.clone()]);
    let one = notifier(options, first, &LabelSet::empty(), 1).await;
    config.timeout = Duration::from_secs(3);
    one.apply(alerting([config]), &LabelSet::empty()).unwrap();
    one.send(vec![alert("A")]);
    assert_eq!(names(&server, 1), ["A"]);
    one.end(LIMIT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_sent_at_the_end() {
    let server = Alertmanager::start();
    server.hold();
    let options = NotifierOptions {
        max_batch_size: 2,
        ..NotifierOptions::default()
    };
    let config = alerting([set(&[&server])]);
    let one = notifier(options, config, &LabelSet::empty(), 1).await;
    one.send(vec![alert("A")]);
    assert_eq!(names(&server, 1), ["A"]);
    one.send(["B", "C", "D"].map(alert).to_vec());
    let ending = tokio::spawn({
        let one = Arc::clone(&one);
        async move { one.end(LIMIT).await }
    });
    server.release();
    // Not because its time is up.
    let ended = tokio::time::timeout(LIMIT / 2, ending).await;
    ended.expect("it ends when all is sent").unwrap();
    assert_eq!(names(&server, 3), ["A", "B C", "D"]);
    one.send(vec![alert("E")]);
    assert_eq!(server.posts().len(), 3);
}

/// An Alertmanager that never answers does not hold up the end beyond its limit.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_has_a_limit() {
    let server = Alertmanager::start();
    server.hold();
    let config = alerting([set(&[&server])]);
    let one = notifier(NotifierOptions::default(), config, &LabelSet::empty(), 1).await;
    one.send(vec![alert("A")]);
    assert_eq!(names(&server, 1), ["A"]);
    let ending = one.end(Duration::from_millis(50));
    tokio::time::timeout(Duration::from_secs(5), ending)
        .await
        .expect("it ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn alerts_without_memory_are_dropped() {
    let server = Alertmanager::start();
    let options = NotifierOptions {
        memory: Budget::new("alerts", 1500),
        ..NotifierOptions::default()
    };
    let memory = options.memory.clone();
    let config = alerting([set(&[&server])]);
    let one = notifier(options, config, &LabelSet::empty(), 1).await;
    server.hold();
    one.send(["A", "B", "C", "D"].map(alert).to_vec());
    assert_eq!(names(&server, 1), ["A B"]);
    server.release();
    one.end(LIMIT).await;
    assert_eq!(memory.used_bytes(), 0);
}

/// The list of Alertmanagers as Prometheus prints it.
#[tokio::test(flavor = "multi_thread")]
async fn alertmanagers_are_listed() {
    use narthex_net::{Server, ServerConfig, Stopper};
    let (first, second) = (Alertmanager::start(), Alertmanager::start());
    let config = alerting([set(&[&first]), set(&[&second, &second])]);
    let one = notifier(NotifierOptions::default(), config, &LabelSet::empty(), 2).await;
    let server = Server::bind(&["127.0.0.1:0"], ServerConfig::default())
        .await
        .unwrap();
    let address = server.local_addrs()[0];
    let (stopper, stop) = Stopper::new();
    let serving = tokio::spawn(server.serve(routes(Arc::clone(&one)), stop));
    let url = format!("http://{address}/api/v1/alertmanagers");
    let answer = tokio::task::spawn_blocking(move || narthex_testkit::http::get(&url))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(
        answer.text(),
        format!(
            r#"{{"status":"success","data":{{"activeAlertmanagers":[{{"url":"http://{}/api/v2/alerts"}},{{"url":"http://{}/api/v2/alerts"}}],"droppedAlertmanagers":[]}}}}"#,
            first.address(),
            second.address()
        )
    );
    stopper.stop();
    serving.await.unwrap();
    one.end(LIMIT).await;
}
