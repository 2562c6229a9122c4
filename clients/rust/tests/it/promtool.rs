//! Debian's promtool accepts our exposition without complaints.

use std::io::Write;
use std::process::{Command, Stdio};

use narthex_client::{
    Counter, CounterVec, DEFAULT_BOUNDS, GaugeVec, HistogramVec, Registry, SummaryVec, process,
    register_info,
};

use crate::{encode, leak};

/// Runs `promtool check metrics`; returns whether it succeeded, and its output.
fn check(text: &str) -> (bool, String) {
    let child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.expect("promtool is not on PATH: apt-get install -y prometheus");
    child
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

#[test]
fn promtool_finds_nothing_wrong() {
    let registry = Registry::new();
    process::register(&registry).unwrap();
    let labels = &["version", "revision"];
    let values = ["0.1".to_owned(), "a\nb".to_owned()];
    register_info(&registry, "narthex_build_info", "Build.", labels, values).unwrap();
    let requests = leak(CounterVec::new(
        "requests_total",
        "Requests.",
        &["code", "path"],
    ));
    requests.with(&["200", "/a\"b\\c\nd"]).inc_by(12_345_678);
    requests.with(&["500", "é"]).add(0.1);
    let temperature = leak(GaugeVec::new("temperature_celsius", "T\\\n.", &["where"]));
    for (i, value) in [f64::NAN, f64::INFINITY, -1e-300, 1e300]
        .into_iter()
        .enumerate()
    {
        temperature.with(&[&i.to_string()]).set(value);
    }
    let latency = leak(HistogramVec::new(
        "latency_seconds",
        "L.",
        &["path"],
        &DEFAULT_BOUNDS,
    ));
    let size = leak(SummaryVec::new(
        "size_bytes",
        "S.",
        &["path"],
        &[0.5, 0.9, 0.99],
    ));
    size.with(&["/"]).observe(10.0);
    let _unobserved = size.with(&["/b"]);
    for i in 0..1000 {
        latency.with(&["/"]).observe(f64::from(i) / 70.0);
    }
    registry
        .register_all(&[requests, temperature, latency, size])
        .unwrap();
    let text = encode(&registry);
    assert_eq!(check(&text), (true, String::new()), "{text}");
}

#[test]
fn promtool_would_find_something() {
    let registry = Registry::new();
    registry
        .register(leak(Counter::new(
            "no_suffix",
            "A counter promtool dislikes.",
        )))
        .unwrap();
    let (content, said) = check(&encode(&registry));
    assert!(!content && said.contains("no_suffix"), "{said}");
}
