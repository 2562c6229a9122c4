//! Alertmanagers in the configuration of the real server.

use crate::support::{PATIENCE, Running, config_flag, narthex, server_in, until};
use narthex_testkit::{Alertmanager, TempDir, http};
use serde_json::json;

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
