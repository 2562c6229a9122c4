//! Remote write seen through the API: exemplars, metadata, federation; and the endpoints around queries.

use crate::{
    client,
    support::{self, Running},
    target::now_ms,
};
use narthex_testkit::{
    TempDir, http,
    remote_write::{Exemplar, Histogram, Metadata, Request, Series},
    tool,
};
use serde_json::{Value, json};
use std::process::Command;

fn start(dir: &TempDir) -> Running {
    let config = support::config(dir, "1h", &[]);
    let spawn = support::server_in(&dir.path().join("data"))
        .arg(support::config_flag(&config))
        .arg("--web.enable-remote-write-receiver");
    Running::of(spawn)
}

fn send(server: &Running, request: &Request) {
    let answer = request.send(&server.url).unwrap();
    assert_eq!(answer.status, 204, "{}", answer.text());
}

/// Returns two counters, one of them ended, a native and a custom histogram, at `time_ms`.
fn request(time_ms: i64) -> Request {
    let stale = f64::from_bits(0x7ff0_0000_0000_0002);
    let mut counted = Series::new(
        &[("__name__", "b_total"), ("instance", "i"), ("job", "j")],
        &[(time_ms, 5.0)],
    );
    counted.exemplars.push(Exemplar {
        labels: vec![("trace_id".to_owned(), "abc".to_owned())],
        value: 0.25,
        time_ms,
    });
    let mut native = Series::new(&[("__name__", "n_seconds"), ("job", "j")], &[]);
    native.histograms.push(Histogram {
        time_ms,
        integer: true,
        count: 3.0,
        sum: 1.5,
        positive_spans: vec![(0, 2)],
        positive: vec![1.0, 2.0],
        ..Histogram::default()
    });
    let mut custom = Series::new(&[("__name__", "c_seconds"), ("job", "j")], &[]);
    custom.histograms.push(Histogram {
        time_ms,
        integer: true,
        count: 6.0,
        sum: 2.5,
        schema: -53,
        positive_spans: vec![(0, 3)],
        positive: vec![1.0, 2.0, 3.0],
        custom: vec![0.5, 1.0],
        ..Histogram::default()
    });
    Request {
        series: vec![
            counted,
            Series::new(
                &[("__name__", "a"), ("job", "j"), ("text", "q\"\\\n")],
                &[(time_ms, f64::INFINITY)],
            ),
            Series::new(&[("__name__", "ended"), ("job", "j")], &[(time_ms, stale)]),
            native,
            custom,
        ],
        families: vec![Metadata {
            family: "b_total".to_owned(),
            metric_type: 1,
            help: "Counts b.".to_owned(),
            unit: String::new(),
        }],
    }
}

#[test]
fn what_is_written_can_be_read_everywhere() {
    let dir = TempDir::new("remote-write");
    let server = start(&dir);
    let time_ms = now_ms() - 1000;
    send(&server, &request(time_ms));
    let seconds = |time_ms: i64| json!(time_ms as f64 / 1000.0);

    let exemplars = server.data("/api/v1/query_exemplars", &[("query", "rate(b_total[5m])")]);
    assert_eq!(
        exemplars,
        json!([{
            "seriesLabels": {"__name__": "b_total", "instance": "i", "job": "j"},
            "exemplars": [{
                "labels": {"trace_id": "abc"}, "value": "0.25", "timestamp": seconds(time_ms),
            }],
        }])
    );
    let metadata = server.data("/api/v1/metadata", &[("metric", "b_total")]);
    assert_eq!(
        metadata,
        json!({"b_total": [{"type": "counter", "help": "Counts b.", "unit": ""}]})
    );
    let vector = server.data("/api/v1/query", &[("query", "n_seconds")]);
    assert_eq!(vector["result"][0]["histogram"][1]["count"], "3");
    assert_eq!(
        client::vector(&server.url, "count({job=\"j\"})", None).len(),
        1
    );
    let log = server.stop();
    assert!(!log.contains("panic"), "{log}");
}

#[test]
fn federation_shows_newest_samples_in_order() {
    let dir = TempDir::new("federate");
    let server = start(&dir);
    let time_ms = now_ms() - 1000;
    send(&server, &request(time_ms));
    let page = |accept: &str| {
        let url = format!(
            "{}/federate?{}",
            server.url,
            http::query(&[("match[]", "{job=\"j\"}"), ("match[]", "a"),])
        );
        http::request("GET", &url, &[("Accept", accept)], &[]).unwrap()
    };
    let text = page("text/plain;version=0.0.4");
    assert_eq!(
        text.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8; escaping=underscores")
    );
    assert_eq!(
        text.text(),
        format!(
            "# TYPE a untyped\n\
             a{{job=\"j\",text=\"q\\\"\\\\\\n\",instance=\"\"}} +Inf {time_ms}\n\
             # TYPE b_total untyped\n\
             b_total{{instance=\"i\",job=\"j\"}} 5 {time_ms}\n\
             # TYPE c_seconds histogram\n\
             c_seconds_bucket{{job=\"j\",instance=\"\",le=\"0.5\"}} 1 {time_ms}\n\
             c_seconds_bucket{{job=\"j\",instance=\"\",le=\"1\"}} 3 {time_ms}\n\
             c_seconds_bucket{{job=\"j\",instance=\"\",le=\"+Inf\"}} 6 {time_ms}\n\
             c_seconds_sum{{job=\"j\",instance=\"\"}} 2.5 {time_ms}\n\
             c_seconds_count{{job=\"j\",instance=\"\"}} 6 {time_ms}\n"
        )
    );
    let messages = page(
        "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
    );
    assert!(
        messages
            .header("content-type")
            .unwrap()
            .starts_with("application/vnd.google.protobuf;")
    );
    let has = |name: &[u8]| messages.body.windows(name.len()).any(|bytes| bytes == name);
    assert!(has(b"n_seconds") && has(b"c_seconds") && !has(b"ended"));
    let refused = http::get(&format!("{}/federate?match[]=%7B", server.url)).unwrap();
    assert_eq!(refused.status, 400);
    server.stop();
}

#[test]
fn queries_are_formatted_taken_apart_and_measured() {
    let dir = TempDir::new("query-endpoints");
    let server = start(&dir);
    let call = |path: &str, params: &[(&str, &str)]| -> Value {
        let answer = client::try_call(&server.url, path, params).unwrap();
        serde_json::from_str(&answer.text()).unwrap()
    };
    assert_eq!(
        call("/api/v1/format_query", &[("query", "foo/bar")])["data"],
        "foo / bar"
    );
    assert_eq!(
        call("/api/v1/format_query", &[("query", "foo /")])["error"],
        "invalid parameter \"query\": 1:6: parse error: unexpected end of input"
    );
    let selector = |name: &str| {
        json!({
            "type": "vectorSelector", "name": name, "offset": 0, "offsetExpr": null,
            "matchers": [{"name": "__name__", "value": name, "type": "="}],
            "timestamp": null, "startOrEnd": null, "anchored": false, "smoothed": false,
        })
    };
    assert_eq!(
        call("/api/v1/parse_query", &[("query", "foo > bool on (a) bar")])["data"],
        json!({
            "type": "binaryExpr", "op": ">", "bool": true,
            "lhs": selector("foo"), "rhs": selector("bar"),
            "matching": {
                "card": "one-to-one", "labels": ["a"], "on": true, "include": [],
                "fillValues": {"lhs": null, "rhs": null},
            },
        })
    );
    let measured = call("/api/v1/query", &[("query", "up"), ("stats", "all")]);
    assert_eq!(measured["data"]["stats"]["samples"]["peakSamples"], 0);
    assert!(measured["data"]["stats"]["timings"]["execTotalTime"].is_number());
    let odd = call("/api/v1/query", &[("query", "up"), ("stats", "some")]);
    assert_eq!(
        odd["warnings"],
        json!([
            "value \"some\" for parameter \"stats\" is deprecated and will be rejected in the next major release, use \"true\" or \"all\""
        ])
    );
    assert_eq!(
        call("/api/v1/query", &[("query", "up"), ("lookback_delta", "x")])["error"],
        "error parsing lookback delta duration: cannot parse \"x\" to a valid duration"
    );
    let nothing = client::try_call(&server.url, "/api/v1/query_exemplars", &[("query", "1")]);
    assert_eq!(nothing.unwrap().status, 204);
    let flags = server.data("/api/v1/status/flags", &[]);
    assert_eq!(flags["web.enable-remote-write-receiver"], "true");
    let runtime = server.data("/api/v1/status/runtimeinfo", &[]);
    assert_eq!(runtime["storageRetention"], "15d");
    assert_eq!(runtime["reloadConfigSuccess"], true);
    let admin = http::post(
        &format!("{}/api/v1/admin/tsdb/snapshot", server.url),
        "",
        &[],
    )
    .unwrap();
    assert_eq!(
        (admin.status, admin.text().as_str()),
        (
            500,
            r#"{"status":"error","errorType":"unavailable","error":"admin APIs disabled"}"#
        )
    );
    server.stop();
}

#[test]
fn cardinality_is_counted() {
    let dir = TempDir::new("tsdb-status");
    let server = start(&dir);
    send(&server, &request(now_ms()));
    let status = server.data("/api/v1/status/tsdb", &[("limit", "2")]);
    assert_eq!(status["headStats"]["numSeries"], 5);
    assert_eq!(
        status["seriesCountByMetricName"].as_array().unwrap().len(),
        2
    );
    assert_eq!(
        status["seriesCountByLabelValuePair"][0],
        json!({"name": "job=j", "value": 5})
    );
    server.stop();
}

#[test]
fn profiles_of_the_server_can_be_read() {
    let dir = TempDir::new("pprof");
    let server = start(&dir);
    let line = http::get(&format!("{}/debug/pprof/cmdline", server.url)).unwrap();
    assert!(
        line.body
            .starts_with(env!("CARGO_BIN_EXE_narthex").as_bytes())
    );
    for (name, what) in [
        ("profile?seconds=1", "Type: cpu"),
        ("heap", "Type: inuse_space"),
        ("allocs", "Type: alloc_space"),
    ] {
        let profile = http::get(&format!("{}/debug/pprof/{name}", server.url)).unwrap();
        assert_eq!(profile.status, 200, "{name}: {}", profile.text());
        let path = dir.write("profile", &profile.body);
        let top = Command::new(tool("go", "golang"))
            .args(["tool", "pprof", "-top"])
            .arg(&path)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&top.stderr);
        assert!(top.status.success(), "{name}: {error}");
        let text = String::from_utf8_lossy(&top.stdout);
        assert!(text.contains(what), "{text}");
        // A CPU profile of a server that has just started may have no samples; a heap profile always has.
        assert!(what.ends_with("cpu") || text.contains("narthex"), "{text}");
    }
    for query in ["seconds=1", "heap"] {
        let picture = http::get(&format!("{}/debug/flamegraph?{query}", server.url)).unwrap();
        assert_eq!(picture.header("content-type"), Some("image/svg+xml"));
        assert!(picture.text().contains("<svg"));
    }
    server.stop();
}
