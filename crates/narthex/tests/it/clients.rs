//! Released clients: the Python client (Debian's) and curl push, and what the client's multiprocess mode writes is read.

use crate::support::{self, PATIENCE, Running, narthex};
use narthex_testkit::{TempDir, http, process::Spawn, tool, workspace_root};
use std::{fs, io::Write as _, path::Path, process::Stdio};

/// Runs a script of testdata/python with Debian's Python, whose client is a package of its own.
fn python(script: &str, arguments: &[&Path]) {
    let client = Path::new("/usr/lib/python3/dist-packages/prometheus_client");
    assert!(
        client.exists(),
        "the Python client is missing. Install it with:\napt-get install -y python3-prometheus-client"
    );
    let script = workspace_root().join("testdata/python").join(script);
    let spawn = Spawn::new("/usr/bin/python3").arg(script).args(arguments);
    let finished = spawn.run(PATIENCE);
    assert_eq!(finished.exit.code, Some(0), "{}", finished.stderr);
}

/// Pushes with curl; returns its output, with the status at the end.
fn curl(url: &str, flags: &[&str], body: &str) -> String {
    let mut child = std::process::Command::new(tool("curl", "curl"))
        .args(["-s", "-w", " %{http_code}", "--data-binary", "@-"])
        .args(flags)
        .arg(url)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(body.as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn server(dir: &TempDir, config: &str) -> Running {
    let config = dir.write("p.yml", config);
    let spawn = support::server_in(&dir.join("data"))
        .arg(support::config_flag(&config))
        .arg("--web.enable-push-receiver");
    Running::of(spawn)
}

/// Returns the samples of a query, without the labels that `without` says.
fn samples(server: &Running, query: &str, without: &str) -> Vec<(String, u64)> {
    let found = crate::client::vector(&server.url, query, None).into_iter();
    let mut found: Vec<(String, u64)> = found
        .map(|(labels, (_, value))| (labels.replace(without, ""), value.to_bits()))
        .collect();
    found.sort();
    found
}

#[test]
fn the_python_client_and_curl_push_to_the_gateway_and_the_server() {
    let dir = TempDir::new("clients");
    let gateway = narthex().args(["pushgateway", "--web.listen-address=127.0.0.1:0"]);
    let (gateway, server) = (Running::exporter(gateway), server(&dir, "global: {}\n"));
    for pushed in [&gateway, &server] {
        python("push.py", &[Path::new(pushed.address())]);
        let url = format!("{}/metrics/job/c/zone/z", pushed.url);
        assert_eq!(curl(&url, &["-X", "PUT"], "n 1\n"), " 200");
        let refused = curl(&url, &[], "n{k:1} 1\n");
        assert!(
            refused.contains("line 1") && refused.ends_with(" 400"),
            "{refused}"
        );
    }
    let page = http::get(&format!("{}/metrics", gateway.url))
        .unwrap()
        .text();
    let labels = "empty=\"\",instance=\"\",job=\"nightly / ü\",k=\"a/b\"";
    for line in [
        format!("last_success{{{labels}}} 6\n"),
        format!("rows_total{{{labels},table=\"x\\\"y\"}} 3\n"),
        format!("seconds_bucket{{{labels},le=\"2.0\"}} 1\n").replace("2.0", "2"),
        "n{instance=\"\",job=\"c\",zone=\"z\"} 1\n".to_owned(),
    ] {
        assert!(page.contains(&line), "{line}\n{page}");
    }
    assert!(!page.contains("job=\"gone\""), "{page}");
    let query = "{__name__=~'last_success|rows_total|seconds_(sum|bucket)|n'}";
    let expected = [
        (r#"last_success{job="nightly / ü",k="a/b"}"#, 6.0),
        (r#"n{job="c",zone="z"}"#, 1.0),
        (r#"rows_total{job="nightly / ü",k="a/b",table="x\"y"}"#, 3.0),
        (
            r#"seconds_bucket{job="nightly / ü",k="a/b",le="+Inf"}"#,
            1.0,
        ),
        (r#"seconds_bucket{job="nightly / ü",k="a/b",le="1.0"}"#, 0.0),
        (r#"seconds_bucket{job="nightly / ü",k="a/b",le="2.0"}"#, 1.0),
        (r#"seconds_sum{job="nightly / ü",k="a/b"}"#, 1.5),
    ]
    .map(|(labels, value): (&str, f64)| (labels.to_owned(), value.to_bits()));
    assert_eq!(samples(&server, query, ""), expected);
    gateway.stop();
    server.stop();
}

#[test]
fn multiprocess_directories_mean_what_the_python_client_says() {
    let dir = TempDir::new("clients");
    let [values, page, live] = ["values", "page", "live"].map(|name| dir.join(name));
    fs::create_dir(&values).unwrap();
    python("multiprocess.py", &[&values, &page, &live]);
    let server = server(
        &dir,
        "global: {scrape_interval: 100ms}\nfiles:\n- {job_name: page, paths: [page]}\n- {job_name: live, paths: [live]}\n\
- {job_name: all_values, paths: [values], kind: python_multiprocess, check_processes: false}\n\
- {job_name: live_values, paths: [values], kind: python_multiprocess}\n",
    );
    server.wait_vector("up", |found| found.len() == 4);
    for (ours, theirs, least) in [("all_values", "page", 50), ("live_values", "live", 40)] {
        let of = |job: &str| {
            let query = format!("{{job='{job}',file=''}}");
            samples(&server, &query, &format!("job=\"{job}\""))
        };
        let expected = of(theirs);
        assert!(expected.len() >= least, "{}", expected.len());
        assert_eq!(of(ours), expected);
    }
    server.stop();
}
