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

/// As promtool: files of targets may be absent, but what is listed must be hosts after relabelling.
#[test]
fn checks_look_at_alertmanagers() {
    let dir = TempDir::new("check-alerting");
    let check = |managers: &str| {
        let path = dir.write("prometheus.yml", config(managers));
        let checked = narthex().arg("check").arg("config").arg(&path);
        let finished = checked.run(PATIENCE);
        (finished.exit.code, finished.stdout, finished.stderr)
    };
    let (code, out, _) = check("{file_sd_configs: [{files: [absent.json]}]}");
    assert_eq!(code, Some(0));
    let warning = "absent.json\" for file_sd in alertmanager config does not exist";
    assert!(out.contains(warning), "{out}");
    dir.write("bad.json", r#"[{"targets": ["http://h"]}]"#);
    let (code, _, error) = check("{file_sd_configs: [{files: [bad.json]}]}");
    assert_eq!(code, Some(1), "{error}");
    let reason = r#""http://h" is not a valid hostname"#;
    assert!(error.contains(reason), "{error}");
    let rule = "{target_label: __address__, replacement: 'a/b'}";
    let (code, _, error) = check(&format!(
        "{{static_configs: [{{targets: [h]}}], relabel_configs: [{rule}]}}"
    ));
    assert_eq!(code, Some(1), "{error}");
    assert!(
        error.contains(r#""a/b" is not a valid hostname"#),
        "{error}"
    );
}
