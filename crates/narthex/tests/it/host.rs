//! `narthex server` with the host's metrics beside its jobs: what is stored, and what a reload does to it.

use crate::support::{self, Running};
use narthex_testkit::{TempDir, http};

fn config(flags: &str) -> String {
    format!(
        "host: {{interval: 100ms, labels: {{rack: r7}}, flags: [--collector.disable-defaults, {flags}]}}\n"
    )
}

#[test]
fn the_host_is_read_beside_jobs_and_follows_its_flags() {
    let dir = TempDir::new("host");
    let path = dir.write("p.yml", config("--collector.loadavg"));
    let spawn = support::server_in(&dir.join("data"))
        .arg(support::config_flag(&path))
        .arg("--web.enable-lifecycle");
    let server = Running::of(spawn);
    let reload = |server: &Running| {
        http::post(&format!("{}/-/reload", server.url), "text/plain", b"").unwrap()
    };
    server.wait_vector("node_load1{job='node', rack='r7'}", |found| {
        found.len() == 1
    });
    server.wait_vector("{__name__=~'node_uname_info|node_cpu_.*'}", |found| {
        found.is_empty()
    });

    // An unusable flag changes nothing.
    dir.write("p.yml", config("--collector.nothing"));
    let refused = reload(&server);
    assert_eq!(refused.status, 500);
    let said = refused.text();
    assert!(said.contains("--collector.nothing"), "{said}");

    dir.write("p.yml", config("--collector.uname"));
    assert_eq!(reload(&server).status, 200);
    server.wait_vector("node_uname_info{rack='r7'}", |found| found.len() == 1);
    server.wait_vector("node_load1", |found| found.is_empty());

    dir.write("p.yml", "");
    assert_eq!(reload(&server).status, 200);
    server.wait_vector("{job='node'}", |found| found.is_empty());
    server.stop();
}
