//! The scenario against Debian's Pushgateway: every way of pushing, both formats, a restart.

use narthex_testkit::{TempDir, process::Spawn, tool};
use serde_json::Value;
use std::time::Duration;

/// Runs a fleet of 2 hosts × 2 processes × 120 series and returns its record.
fn push(arguments: &[&str]) -> Value {
    let (work, out) = (TempDir::new("bench-push"), TempDir::new("bench-push-out"));
    let record = out.join("record.json");
    let finished = Spawn::new(env!("CARGO_BIN_EXE_narthex-bench"))
        .args([
            "push",
            "--hosts=2",
            "--processes=2",
            "--series=120",
            "--interval=250ms",
            "--warmup=250ms",
            "--duration=1s",
            "--scrape-every=250ms",
            "--pushers=4",
            // The machine that runs this test may be busy.
            "--max-late=1h",
        ])
        .args(arguments.iter().copied())
        .arg(format!("--dir={}", work.path().display()))
        .arg(format!("--out={}", record.display()))
        .run(Duration::from_secs(240));
    let output = format!("{}{}", finished.stdout, finished.stderr);
    assert_eq!(finished.exit.code, Some(0), "{output}");
    let text = std::fs::read_to_string(&record).expect("the record is written");
    serde_json::from_str(&text).expect("the record is JSON")
}

fn server(kind: &str) -> String {
    let program = tool("prometheus-pushgateway", "prometheus-pushgateway");
    format!("--server={kind}={}", program.display())
}

fn figure(run: &Value, key: &str) -> f64 {
    let mut figures = run["figures"].as_array().expect("figures").iter();
    let figure = figures.find(|figure| figure["key"] == key);
    let value = figure.and_then(|figure| figure["value"].as_f64());
    value.unwrap_or_else(|| panic!("{key} is missing"))
}

/// Fails unless a run stored everything as it was sent.
fn check(run: &Value) {
    assert_eq!(figure(run, "series stored"), 480.0);
    for key in [
        "failed pushes",
        "failed scrapes",
        "series missing",
        "series with a wrong value",
        "series nobody pushed",
    ] {
        assert_eq!(figure(run, key), 0.0, "{key} in {run}");
    }
    assert!(figure(run, "CPU a push") >= 0.0 && figure(run, "RSS a series") > 0.0);
    assert!(figure(run, "push, p50") <= figure(run, "push, p100"));
    assert!(figure(run, "page, gzip") < figure(run, "page, identity"));
    let distributions = run["distributions"].as_array().expect("a list");
    assert_eq!(distributions.len(), 2);
    for distribution in distributions {
        let length = |key: &str| distribution[key].as_array().expect("a table").len();
        assert!(length("corrected") > 3 && length("uncorrected") > 3);
    }
}

#[test]
fn all_ways_of_pushing_store_what_was_sent_and_keep_it_over_a_restart() {
    let without = "--server=narthex=/bin/false";
    let record = push(&[&server("pushgateway"), without, "--remedies", "--persist"]);
    let runs = record["runs"].as_array().expect("runs");
    let ways: Vec<&str> = runs
        .iter()
        .filter_map(|run| run["variant"].as_str())
        .collect();
    let expected = [
        "a push a process",
        "a push a host",
        "a push a host, gzip",
        "a push a host, gzip, a gateway a host",
    ];
    assert_eq!(ways, expected);
    for run in runs {
        check(run);
        assert_eq!(figure(run, "series stored after a restart"), 480.0);
        assert_eq!(
            figure(run, "series with a wrong value after a restart"),
            0.0
        );
    }
    let notes = record["notes"].to_string();
    assert!(
        notes.contains("narthex: this narthex has no pushgateway command"),
        "{notes}"
    );
}

#[test]
fn protobuf_is_taken_and_a_body_of_an_unknown_encoding_is_told() {
    let server = server("pushgateway-unchecked");
    let record = push(&[
        &server,
        "--format=protobuf",
        "--encoding=gzip",
        "--method=post",
    ]);
    check(&record["runs"][0]);
    // Debian's is older than snappy: it reads the bytes as text.
    let record = push(&[&server, "--encoding=snappy"]);
    assert_eq!(record["runs"], Value::Array(Vec::new()));
    let notes = record["notes"].to_string();
    assert!(notes.contains("takes no such push: status 400"), "{notes}");
}
