//! `--web.external-url` with a path and `--web.route-prefix`: routes, redirects, the page's files, links in alerts.

use crate::support::{self, PATIENCE, Running};
use narthex_testkit::{
    Alertmanager, TempDir, http,
    process::{Server, Spawn},
    tool,
};
use serde_json::Value;
use std::path::Path;

const RULES: &str = "groups: [{name: g, rules: [{alert: A, expr: 'vector(1)',
  annotations: {text: '{{ externalURL }} {{ pathPrefix }}'}}]}]\n";

fn config(dir: &TempDir, alertmanager: &Alertmanager) -> std::path::PathBuf {
    dir.write("rules.yml", RULES);
    let text = format!(
        "global: {{evaluation_interval: 200ms}}\nrule_files: [rules.yml]\n\
         alerting: {{alertmanagers: [{{static_configs: [{{targets: ['{}']}}]}}]}}\n",
        alertmanager.address()
    );
    dir.write("p.yml", text)
}

/// Returns status and `Location`.
fn answer(url: &str, path: &str) -> (u16, Option<String>) {
    let response = http::get(&format!("{url}{path}")).unwrap();
    let location = response.header("location").map(str::to_owned);
    (response.status, location)
}

fn prometheus(dir: &Path, config: &Path, flags: &[&str]) -> (Server, String) {
    let spawn = Spawn::new(tool("prometheus", "prometheus"))
        .arg("--web.listen-address=127.0.0.1:0")
        .arg(support::path_flag(dir))
        .arg(support::config_flag(config))
        .args(flags);
    let mut process = spawn.start();
    let port = process.wait_port("Listening on", PATIENCE);
    let url = format!("http://127.0.0.1:{port}");
    process.wait_url(&format!("{url}/prom/-/ready"), PATIENCE);
    (process, url)
}

#[test]
fn everything_is_served_below_the_path_of_the_external_url() {
    let dir = TempDir::new("prefix");
    let alertmanager = Alertmanager::start();
    let config = config(&dir, &alertmanager);
    let flags = [
        "--web.external-url=http://me.example/prom/",
        "--web.enable-lifecycle",
    ];
    let spawn = support::server_in(&dir.join("data")).arg(support::config_flag(&config));
    let server = Running::below("/prom", spawn.args(flags));
    let root = server.url.trim_end_matches("/prom").to_owned();
    let (mut other, other_url) = prometheus(&dir.join("theirs"), &config, &flags);
    for path in [
        "/",
        "/prom",
        "/prom?a=b",
        "/prom/-/healthy",
        "/prom/-/ready",
        "/prom/metrics",
        "/prom/api/v1/query?query=1",
        "/prom/api/v1/rules",
        "/prom/federate?match[]=up",
        "/prom/nowhere",
        "/prom/-/reload",
        "/-/healthy",
        "/-/ready",
        "/metrics",
        "/api/v1/query?query=1",
        "/graph",
        "/prometheus/metrics",
        "/promx",
    ] {
        assert_eq!(answer(&root, path), answer(&other_url, path), "{path}");
    }
    other.terminate(PATIENCE);
    let value = server.data("/api/v1/query", &[("query", "1 + 1")]);
    assert_eq!(value["result"][1], "2");
    let reloaded = http::post(&format!("{}/-/reload", server.url), "text/plain", b"").unwrap();
    assert_eq!(reloaded.status, 200);

    // The page, and every file it names, as a browser resolves them.
    for page in ["/", "/graph", "/alerts", "/targets", "/tsdb-status"] {
        let html = http::get(&format!("{}{page}", server.url)).unwrap();
        assert_eq!(html.status, 200, "{page}");
        let html = html.text();
        let named: Vec<&str> = html
            .split([' ', '>'])
            .filter_map(|word| word.strip_prefix("src=").or(word.strip_prefix("href=")))
            .map(|word| word.trim_matches('"'))
            .collect();
        assert!(named.len() > 3, "{html}");
        for file in named {
            let below = file.strip_prefix("./").unwrap_or_else(|| panic!("{file}"));
            let found = http::get(&format!("{}/{below}", server.url)).unwrap();
            assert_eq!(
                (found.status, found.body.is_empty()),
                (200, false),
                "{file}"
            );
            assert_eq!(answer(&root, &format!("/{below}")).0, 404, "{file}");
        }
    }

    let posts = alertmanager.wait_posts(1, PATIENCE);
    let alerts: Value = serde_json::from_str(&posts[0].body).unwrap();
    let link = "http://me.example/prom/graph?g0.expr=vector%281%29&g0.tab=1";
    assert_eq!(alerts[0]["generatorURL"], link);
    let text = "http://me.example/prom /prom";
    assert_eq!(alerts[0]["annotations"]["text"], text);
    server.stop();
}

/// A proxy that takes the path away.
#[test]
fn a_route_prefix_overrides_the_path_of_the_external_url() {
    let dir = TempDir::new("prefix-root");
    let alertmanager = Alertmanager::start();
    let config = config(&dir, &alertmanager);
    let flags = [
        "--web.external-url=http://me.example/prom",
        "--web.route-prefix=/",
    ];
    let spawn = support::server_in(&dir.join("data")).arg(support::config_flag(&config));
    let server = Running::of(spawn.args(flags));
    assert_eq!(answer(&server.url, "/metrics").0, 200);
    assert_eq!(answer(&server.url, "/").0, 200);
    assert_eq!(answer(&server.url, "/prom/metrics").0, 404);
    let posts = alertmanager.wait_posts(1, PATIENCE);
    assert!(posts[0].body.contains("http://me.example/prom/graph?"));
    server.stop();
}
