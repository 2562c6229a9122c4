//! The scenario with Debian's Pushgateway: every push mode, both formats, a restart.

use crate::support::{figure, record, runs};
use narthex_testkit::tool;
use serde_json::Value;

/// Runs a fleet of 2 hosts × 2 processes × 120 series and returns its record.
fn push(arguments: &[&str]) -> Value {
    let fleet = [
        "push",
        "--hosts=2",
        "--processes=2",
        "--series=120",
        "--interval=250ms",
        "--warmup=250ms",
        "--duration=1s",
        "--scrape-every=250ms",
        "--pushers=4",
        // The machine may be busy.
        "--max-late=1h",
    ];
    record(&[&fleet[..], arguments].concat())
}

fn server(kind: &str) -> String {
    let program = tool("prometheus-pushgateway", "prometheus-pushgateway");
    format!("--server={kind}={}", program.display())
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
        let lines = distribution["corrected"].as_array().expect("a table");
        assert!(!lines.is_empty(), "{distribution}");
    }
}

#[test]
fn all_ways_of_pushing_store_what_was_sent_and_keep_it_over_a_restart() {
    let without = "--server=narthex=/bin/false";
    let record = push(&[&server("pushgateway"), without, "--remedies", "--persist"]);
    let runs = runs(&record);
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
        notes.contains("narthex has no pushgateway command"),
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
    check(&runs(&record)[0]);
    // Debian's version predates snappy: it parses the bytes as text.
    let record = push(&[&server, "--encoding=snappy"]);
    assert_eq!(record["runs"], Value::Array(Vec::new()));
    let notes = record["notes"].to_string();
    assert!(notes.contains("takes no such push: status 400"), "{notes}");
}
