//! Pushes to `narthex server`: stored at once, again after `kill -9`, and ended with their group.

use crate::support::{self, PATIENCE, Running, narthex};
use narthex_testkit::{TempDir, http};

fn start(dir: &TempDir) -> Running {
    // A configuration without jobs, so that nothing else is stored.
    let config = dir.write("p.yml", "global: {}\n");
    let spawn = support::server_in(&dir.join("data"))
        .arg(support::config_flag(&config))
        .args(["--web.enable-push-receiver", "--push.ttl=short=1s"]);
    Running::of(spawn)
}

fn ask(server: &Running, method: &str, path: &str, body: &str) -> (u16, String) {
    let url = format!("{}{path}", server.url);
    let answer = http::request(method, &url, &[], body.as_bytes()).unwrap();
    (answer.status, answer.text())
}

/// Returns the values of a query by label set.
fn values(server: &Running, query: &str) -> Vec<(String, f64)> {
    let found = crate::client::vector(&server.url, query, None).into_iter();
    found.map(|(labels, (_, value))| (labels, value)).collect()
}

fn pairs(expected: &[(&str, f64)]) -> Vec<(String, f64)> {
    let owned = |(labels, value): &(&str, f64)| ((*labels).to_owned(), *value);
    expected.iter().map(owned).collect()
}

#[test]
fn pushes_are_stored_survive_a_crash_and_end_with_their_group() {
    let dir = TempDir::new("push-receiver");
    let server = start(&dir);
    let ok = (200, String::new());
    let body = "# TYPE m gauge\nm 1\nm{k=\"v\",instance=\"i\"} 2\n";
    assert_eq!(ask(&server, "PUT", "/metrics/job/j/zone/z", body), ok);
    // An answered push is there for the next query.
    let m = [
        (r#"m{instance="i",job="j",k="v",zone="z"}"#, 2.0),
        (r#"m{job="j",zone="z"}"#, 1.0),
    ];
    assert_eq!(values(&server, "m"), pairs(&m));
    let gauges = values(&server, "{__name__=~'push_.*_seconds'}");
    assert_eq!(gauges.len(), 2, "{gauges:?}");
    let file = dir.write("more.prom", "n 3\n");
    let pushed = narthex()
        .args(["push", "--job=j", "--add", "--label=zone=z"])
        .arg(format!("--gateway={}", server.url))
        .arg(&file)
        .run(PATIENCE);
    assert_eq!(pushed.exit.code, Some(0), "{}", pushed.stderr);
    let many = "b{job=\"batched\",k=\"1\"} 4\n";
    let (status, report) = ask(&server, "POST", "/api/v1/push?group-by=job", many);
    assert_eq!(status, 200, "{report}");
    let all = [
        (r#"b{job="batched",k="1"}"#, 4.0),
        m[0],
        m[1],
        (r#"n{job="j",zone="z"}"#, 3.0),
    ];
    assert_eq!(values(&server, "{__name__=~'[bmn]'}"), pairs(&all));
    // What is refused says why, as by the gateway.
    let (status, reason) = ask(&server, "PUT", "/metrics/job/j", "m{k=1} 1\n");
    assert_eq!(status, 400, "{reason}");
    assert!(reason.contains("line 1"), "{reason}");
    let (_, listed) = ask(&server, "GET", "/api/v1/push/groups", "");
    assert!(listed.contains(r#""zone":"z""#), "{listed}");
    let (status, page) = ask(&server, "GET", "/push", "");
    assert!(status == 200 && page.contains("push/push.js"), "{page}");
    let mut server = server;
    server.process.kill9();
    let server = start(&dir);
    assert_eq!(values(&server, "{__name__=~'[bmn]'}"), pairs(&all));
    // Families of a group are replaced by a PUT, groups end when they are deleted or too old.
    assert_eq!(ask(&server, "PUT", "/metrics/job/j/zone/z", "n 5\n"), ok);
    assert_eq!(values(&server, "m"), []);
    let deleted = ask(&server, "DELETE", "/metrics/job/j/zone/z", "");
    assert_eq!(deleted, (202, String::new()));
    assert_eq!(values(&server, "{job='j'}"), []);
    assert_eq!(ask(&server, "PUT", "/metrics/job/short", "s 6\n"), ok);
    server.wait_vector("{job='short'}", |found| found.is_empty());
    let before = values(&server, "max_over_time(s[1h])");
    assert_eq!(before, pairs(&[(r#"{job="short"}"#, 6.0)]));
    server.stop();
}

#[test]
fn pushes_are_refused_unless_asked_for() {
    let dir = TempDir::new("push-receiver");
    let config = dir.write("p.yml", "global: {}\n");
    let server = Running::start(&dir.join("data"), &config);
    let (status, _) = ask(&server, "PUT", "/metrics/job/j", "m 1\n");
    assert_eq!(status, 404);
    assert!(!dir.join("data/push").exists());
    server.stop();
}

#[test]
fn pushes_and_files_go_to_remote_ends_too() {
    let dir = TempDir::new("push-receiver");
    let empty = dir.write("empty.yml", "global: {}\n");
    let far = support::server_in(&dir.join("far"))
        .arg(support::config_flag(&empty))
        .arg("--web.enable-remote-write-receiver");
    let far = Running::of(far);
    dir.write("f.prom", "f 1\n");
    let files = "files: [{job_name: f, paths: [f.prom], interval: 100ms}]";
    let ends = format!("remote_write: [{{url: '{}/api/v1/write'}}]", far.url);
    let config = dir.write("near.yml", format!("{files}\n{ends}\n"));
    let near = support::server_in(&dir.join("near"))
        .arg(support::config_flag(&config))
        .arg("--web.enable-push-receiver");
    let near = Running::of(near);
    let pushed = ask(&near, "PUT", "/metrics/job/j", "m 2\n");
    assert_eq!(pushed, (200, String::new()));
    far.wait_vector("f{job='f'} == 1", |found| found.len() == 1);
    far.wait_vector("m{job='j'} == 2", |found| found.len() == 1);
    // A deleted group ends there as well.
    assert_eq!(ask(&near, "DELETE", "/metrics/job/j", "").0, 202);
    far.wait_vector("m", |found| found.is_empty());
    near.stop();
    far.stop();
}
