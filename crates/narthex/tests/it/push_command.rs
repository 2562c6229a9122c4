//! `narthex push` against gateways: what arrives, what is reported, and the exit codes.

use crate::support::{PATIENCE, Running, binary, narthex};
use narthex_testkit::{TempDir, http, process::Finished};
use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

fn gateway() -> Running {
    let spawn = narthex().args(["pushgateway", "--web.listen-address=127.0.0.1:0"]);
    Running::exporter(spawn)
}

fn push(url: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let spawn = narthex().args(["push", "--max-time=0s"]);
    let Finished { exit, stderr, .. } = spawn
        .arg(format!("--gateway={url}"))
        .args(arguments)
        .run(PATIENCE);
    (exit.code, stderr)
}

/// Returns the pushed samples of a gateway.
fn samples(url: &str) -> BTreeSet<String> {
    let page = http::get(&format!("{url}/metrics")).unwrap().text();
    let lines = page
        .lines()
        .filter(|line| line.contains("job=\"") && !line.starts_with("push_"));
    lines
        .map(|line| line.replace("instance=\"\",", ""))
        .collect()
}

fn set(lines: &[&str]) -> BTreeSet<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

#[test]
fn files_are_merged_into_one_push() {
    let (gateway, dir) = (gateway(), TempDir::new("push"));
    dir.write("a.prom", "# TYPE m gauge\nm{k=\"a\"} 1\n");
    dir.write("b.prom", "# TYPE m gauge\nm{k=\"b\"} 2\nm{k=\"a\"} 3\n");
    dir.write("c.txt", "n 4\n");
    let path = |name: &str| dir.join(name).display().to_string();
    let (pattern, c) = (path("*.prom"), path("c.txt"));
    // A push without mistakes says nothing.
    assert_eq!(
        push(&gateway.url, &["--job=j", &c]),
        (Some(0), String::new())
    );
    let (code, said) = push(&gateway.url, &["--job=j", "--label=zone=x/y", &pattern, &c]);
    assert_eq!(
        said,
        format!(
            "narthex: push: {}: 1 metrics are left out, because a file before has them\n",
            path("b.prom")
        )
    );
    assert_eq!(code, Some(0));
    assert_eq!(
        samples(&gateway.url),
        set(&[
            "n{job=\"j\"} 4",
            "m{job=\"j\",k=\"a\",zone=\"x/y\"} 1",
            "m{job=\"j\",k=\"b\",zone=\"x/y\"} 2",
            "n{job=\"j\",zone=\"x/y\"} 4",
        ])
    );
    // A push replaces, or adds; and a group is deleted.
    let a = path("a.prom");
    assert_eq!(push(&gateway.url, &["--job=j", "--add", &a]).0, Some(0));
    assert_eq!(
        push(&gateway.url, &["--job=j", "--label=zone=x/y", "--delete"]).0,
        Some(0)
    );
    assert_eq!(
        samples(&gateway.url),
        set(&["m{job=\"j\",k=\"a\"} 1", "n{job=\"j\"} 4"])
    );
    assert_eq!(push(&gateway.url, &["--job=j", &a]).0, Some(0));
    assert_eq!(samples(&gateway.url), set(&["m{job=\"j\",k=\"a\"} 1"]));
    gateway.stop();
}

#[test]
fn a_bad_file_costs_itself_and_the_exit_code_says_so() {
    let (gateway, dir) = (gateway(), TempDir::new("push"));
    let path = |name: &str| dir.join(name).display().to_string();
    dir.write("good", "# TYPE m gauge\nm 1\n");
    dir.write("half", "# TYPE m gauge\nm{k=\"1\"} 1");
    dir.write("typed", "# TYPE m counter\nm{k=\"2\"} 1\nn 2\n");
    dir.write("timed", "t 1 5\n");
    dir.write("empty", "");
    let all = ["good", "half", "typed", "timed", "empty", "missing"].map(path);
    let mut arguments = vec!["--job=j"];
    arguments.extend(all.iter().map(String::as_str));
    let (code, said) = push(&gateway.url, &arguments);
    assert_eq!(code, Some(3), "{said}");
    for line in [
        format!("{}: there is no such file\n", all[5]),
        format!(
            "{}: text format parsing error in line 2: unexpected end of input stream; the file is left out\n",
            all[1]
        ),
        format!(
            "{}: m is a counter here and a gauge before; the family is left out\n",
            all[2]
        ),
        format!("{}: pushed metrics are invalid", all[3]),
    ] {
        assert!(
            said.contains(&format!("narthex: push: {line}")),
            "{line}\n{said}"
        );
    }
    assert_eq!(said.lines().count(), 4, "{said}");
    assert_eq!(
        samples(&gateway.url),
        set(&["m{job=\"j\"} 1", "n{job=\"j\"} 2"])
    );
    // Nothing that could be pushed, a refusal, nobody there, and bad arguments.
    assert_eq!(
        push(&gateway.url, &["--job=j", &all[1], &all[4]]).0,
        Some(1)
    );
    let (code, said) = push(&gateway.url, &["--job=other", &all[2]]);
    assert_eq!(code, Some(1));
    assert!(
        said.starts_with("narthex: push: 400: pushed metrics are")
            && said.ends_with("is not a GAUGE\n"),
        "{said}"
    );
    let (code, said) = push("127.0.0.1:1", &["--job=j", &all[0]]);
    assert!(code == Some(1) && said.contains("refused"), "{said}");
    assert_eq!(push(&gateway.url, &["--job=j"]).0, Some(2));
    for (what, expected) in [("strip", "t{job=\"t\"} 1"), ("keep", "t{job=\"t\"} 1 5")] {
        let timestamps = format!("--timestamps={what}");
        let pushed = push(&gateway.url, &["--job=t", &timestamps, &all[3]]);
        assert_eq!(pushed, (Some(0), String::new()));
        assert!(samples(&gateway.url).contains(expected), "{expected}");
    }
    gateway.stop();
}

#[test]
fn standard_input_and_many_groups_are_pushed() {
    let gateway = gateway();
    let body = "# TYPE m gauge\nm{job=\"a\",zone=\"1\"} 1\nm{job=\"b\"} 2\nm{job=\"a\",zone=\"2\"} 3\nstray 4\n";
    let mut child = Command::new(binary())
        .args([
            "push",
            "--group-by=job,zone",
            "--ttl=1h",
            "--interval=1m",
            "-",
        ])
        .arg(format!("--gateway={}", gateway.url))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(body.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("a series has no label \"job\""), "{said}");
    let found = samples(&gateway.url);
    let of_m: BTreeSet<String> = found
        .iter()
        .filter(|line| line.starts_with("m{"))
        .cloned()
        .collect();
    assert_eq!(
        of_m,
        set(&[
            "m{job=\"a\",zone=\"1\"} 1",
            "m{job=\"a\",zone=\"2\"} 3",
            "m{job=\"b\"} 2"
        ])
    );
    assert!(
        found.contains("narthex_push_interval_seconds{job=\"b\"} 60"),
        "{found:?}"
    );
    gateway.stop();
}

/// Reads a request; returns its head in lower case and its body.
fn receive(stream: &mut TcpStream) -> (String, Vec<u8>) {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
    }
    let head = head.to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.unwrap().parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    (head, body)
}

#[test]
fn a_busy_gateway_is_asked_again_when_it_says() {
    let dir = TempDir::new("push");
    let many: String = (0..200).map(|k| format!("m{{k=\"{k}\"}} 1\n")).collect();
    let file = dir.write("m", many);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!(
        "--gateway=http://{}/prefix/",
        listener.local_addr().unwrap()
    );
    let answers = [
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 4\r\n\r\nbusy",
        "",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    ];
    let server = thread::spawn(move || {
        answers.map(|answer| {
            let (mut stream, _) = listener.accept().unwrap();
            let at = Instant::now();
            let request = receive(&mut stream);
            stream.write_all(answer.as_bytes()).unwrap();
            (at, request)
        })
    });
    let finished = narthex()
        .args(["push", "--job=j", "--aggregate=max", "--max-time=1m"])
        .arg(url)
        .arg(file)
        .run(PATIENCE);
    assert_eq!(
        (finished.exit.code, finished.stderr.as_str()),
        (Some(0), "")
    );
    let [(first, request), (second, again), (_, last)] = server.join().unwrap();
    assert!(
        second - first >= Duration::from_secs(1),
        "{:?}",
        second - first
    );
    let (head, body) = &request;
    assert!(
        head.starts_with("put /prefix/metrics/job/j http/1.1\r\n"),
        "{head}"
    );
    for line in [
        "content-encoding: gzip",
        "narthex-push-aggregate: max",
        "narthex-push-id: ",
    ] {
        assert!(head.contains(line), "{head}");
    }
    assert!(body.starts_with(&[0x1f, 0x8b]), "{body:?}");
    // The name of the push is the same each time.
    assert!(request == again && again == last);
}
