//! Alertmanagers in the configuration of the real server.

use crate::support::{PATIENCE, Running, config_flag, narthex, server_in, until};
use narthex_testkit::{Alertmanager, TempDir, http};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

fn config(managers: &str) -> String {
    format!("alerting:\n  alertmanagers: [{managers}]\n")
}

fn statically(server: &Alertmanager) -> String {
    format!(
        "{{path_prefix: am, static_configs: [{{targets: ['{}']}}]}}",
        server.address()
    )
}

fn url(server: &Alertmanager) -> String {
    format!("http://{}/am/api/v2/alerts", server.address())
}

fn reload(server: &Running) -> http::Response {
    http::post(&format!("{}/-/reload", server.url), "text/plain", b"").unwrap()
}

#[test]
fn alertmanagers_follow_the_configuration() {
    let dir = TempDir::new("alerting");
    let (first, second) = (Alertmanager::start(), Alertmanager::start());
    let path = dir.write("prometheus.yml", config(&statically(&first)));
    let spawn = server_in(&dir.path().join("data"))
        .arg(config_flag(&path))
        .arg("--web.enable-lifecycle")
        .arg("--alertmanager.notification-queue-capacity=77");
    let server = Running::of(spawn);
    let listed = |active: &[&Alertmanager]| {
        let urls = active.iter().map(|one| json!({ "url": url(one) }));
        let expected = json!({
            "activeAlertmanagers": urls.collect::<Vec<_>>(),
            "droppedAlertmanagers": [],
        });
        until("the list of Alertmanagers", || {
            (server.data("/api/v1/alertmanagers", &[]) == expected).then_some(())
        });
    };
    listed(&[&first]);
    let of = |family: &str, one: &Alertmanager| {
        let series = format!(
            "prometheus_notifications_{family}{{alertmanager=\"{}\"}}",
            url(one)
        );
        server.metric(&series)
    };
    assert_eq!(
        server.metric("prometheus_notifications_queue_capacity"),
        Some(77.0)
    );
    assert_eq!(
        server.metric("prometheus_notifications_alertmanagers_discovered"),
        Some(1.0)
    );
    assert_eq!(of("sent_total", &first), Some(0.0));

    let both = format!("{}, {}", statically(&second), statically(&first));
    dir.write("prometheus.yml", config(&both));
    assert_eq!(reload(&server).status, 200);
    listed(&[&second, &first]);

    dir.write(
        "prometheus.yml",
        config("{static_configs: [{targets: ['http://h']}]}"),
    );
    let answer = reload(&server);
    assert_eq!(answer.status, 500);
    assert!(
        answer
            .text()
            .contains(r#""http://h" is not a valid hostname"#),
        "{}",
        answer.text()
    );
    listed(&[&second, &first]);

    dir.write("prometheus.yml", config(&statically(&second)));
    assert_eq!(reload(&server).status, 200);
    listed(&[&second]);
    until("the series of the first", || {
        of("sent_total", &first).is_none().then_some(())
    });
    server.stop();
}

/// Prometheus' words for an agent with alerts.
#[test]
fn an_agent_has_no_alerts() {
    let dir = TempDir::new("agent-alerting");
    let path = dir.write(
        "prometheus.yml",
        config("{static_configs: [{targets: ['h:1']}]}"),
    );
    let mut agent = narthex()
        .arg("agent")
        .arg("--web.listen-address=127.0.0.1:0")
        .arg(format!(
            "--storage.agent.path={}",
            dir.path().join("data").display()
        ))
        .arg(config_flag(&path))
        .start();
    let exit = agent.wait_exit(PATIENCE);
    let log = agent.stderr();
    assert_ne!(exit.code, Some(0), "{log}");
    assert!(
        log.contains("field alerting is not allowed in agent mode"),
        "{log}"
    );
}

/// Returns the seconds of the day in a time such as `2026-01-01T12:30:00.5Z`.
fn second_of_day(time: &Value) -> f64 {
    let clock = time.as_str().unwrap()[11..].trim_end_matches('Z');
    let parts = clock.split(':').map(|part| part.parse::<f64>().unwrap());
    parts.fold(0.0, |seconds, part| seconds * 60.0 + part)
}

/// Waits for an alert that is sent `lasting` seconds after its beginning, if it were to end as it says.
fn sent(manager: &Alertmanager, lasting: &dyn Fn(f64) -> bool) -> Value {
    until("an alert is sent", || {
        let posts = manager.posts().into_iter();
        let mut alerts = posts.flat_map(|post| -> Vec<Value> {
            assert_eq!(post.target, "POST /am/api/v2/alerts");
            serde_json::from_str(&post.body).unwrap()
        });
        alerts.find(|alert| {
            let [begin, end] = ["startsAt", "endsAt"].map(|key| second_of_day(&alert[key]));
            lasting((end - begin).rem_euclid(86_400.0))
        })
    })
}

#[test]
fn what_rules_find_reaches_alertmanagers_and_is_taken_back() {
    let dir = TempDir::new("alerting");
    let manager = Alertmanager::start();
    let until_s = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
        + 6;
    dir.write(
        "rules.yml",
        format!(
            "groups: [{{name: g, rules: [{{alert: Soon, expr: 'vector(time()) < {until_s}', labels: {{severity: page}}, \
             annotations: {{text: 'in {{{{ $externalLabels.region }}}}'}}}}]}}]"
        ),
    );
    let text = format!(
        "global: {{evaluation_interval: 300ms, external_labels: {{region: eu}}}}\nrule_files: [rules.yml]\n{}",
        config(&statically(&manager))
    );
    let path = dir.write("prometheus.yml", text);
    let spawn = server_in(&dir.path().join("data"))
        .arg(config_flag(&path))
        .arg("--web.external-url=http://me.example");
    let server = Running::of(spawn);
    let fired = sent(&manager, &|seconds| seconds > 60.0);
    assert_eq!(
        fired["labels"],
        json!({ "alertname": "Soon", "severity": "page", "region": "eu" })
    );
    assert_eq!(fired["annotations"], json!({ "text": "in eu" }));
    let generator = fired["generatorURL"].as_str().unwrap();
    assert!(
        generator.starts_with("http://me.example/graph?g0.expr=vector"),
        "{generator}"
    );
    let resolved = sent(&manager, &|seconds| seconds < 60.0);
    assert_eq!(resolved["startsAt"], fired["startsAt"]);
    assert_eq!(resolved["labels"], fired["labels"]);
    server.stop();
}
