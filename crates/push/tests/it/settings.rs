//! What bodies and senders may say beside plain samples: OpenMetrics, timestamps, expected intervals.

use crate::rig::{Rig, config};
use narthex_expfmt::{Format, KeepLabels, ParseOptions, Parser};
use narthex_model::{ColumnId, LabelSet};
use narthex_push::StoreConfig;
use narthex_testkit::{
    TempDir,
    http::{self, Response},
};
use std::time::Duration;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

fn put(rig: &Rig, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
    http::request(
        "PUT",
        &format!("{}{path}", rig.url),
        headers,
        body.as_bytes(),
    )
    .unwrap()
}

/// Returns the lines of a scrape that contain a text, without the gateway's own gauges.
fn lines(rig: &Rig, with: &str) -> Vec<String> {
    let page = rig.ask("GET", "/metrics", "").text();
    let lines = page.lines().filter(|line| line.contains(with));
    let lines = lines.filter(|line| !line.starts_with("push_"));
    lines.map(str::to_owned).collect()
}

#[test]
fn openmetrics_becomes_what_the_text_format_has_for_it() {
    let rig = Rig::in_memory(config());
    let body = |value: u32| {
        format!(
            "# TYPE req counter\n# HELP req Help.\nreq_total 9\n\
             # TYPE c counter\n# HELP c Counted.\nc_total{{a=\"1\"}} {value} # {{id=\"7\"}} 1 2\nc_created{{a=\"1\"}} 12.5\n\
             # TYPE g gaugehistogram\ng_bucket{{le=\"1\"}} 1\ng_bucket{{le=\"+Inf\"}} 3\ng_gcount 3\ng_gsum 4.5\n\
             # TYPE h histogram\nh_bucket{{le=\"1.0\"}} 1\nh_bucket{{le=\"+Inf\"}} 2\nh_count 2\nh_sum 5\nh_created 3\n\
             # TYPE i info\ni_info{{v=\"1\"}} 1\n\
             # TYPE s stateset\ns{{s=\"on\"}} 1\ns{{s=\"off\"}} 0\n\
             # TYPE q summary\nq{{quantile=\"0.5\"}} 2\nq_count 1\nq_sum 2\nq_created 4\n# EOF\n"
        )
    };
    for value in [7, 8] {
        let headers = [("Content-Type", OPEN_METRICS)];
        let answer = put(&rig, "/metrics/job/j", &headers, &body(value));
        assert_eq!(answer.status, 200, "{}", answer.text());
        let page = rig.ask("GET", "/metrics", "").text();
        let expected = format!(
            "# HELP c_created Counted.\n# TYPE c_created gauge\nc_created{{a=\"1\",instance=\"\",job=\"j\"}} 12.5\n\
             # HELP c_total Counted.\n# TYPE c_total counter\nc_total{{a=\"1\",instance=\"\",job=\"j\"}} {value}\n\
             # TYPE g histogram\ng_bucket{{instance=\"\",job=\"j\",le=\"1\"}} 1\ng_bucket{{instance=\"\",job=\"j\",le=\"+Inf\"}} 3\n\
             g_sum{{instance=\"\",job=\"j\"}} 4.5\ng_count{{instance=\"\",job=\"j\"}} 3\n\
             # TYPE h histogram\nh_bucket{{instance=\"\",job=\"j\",le=\"1\"}} 1\nh_bucket{{instance=\"\",job=\"j\",le=\"+Inf\"}} 2\n\
             h_sum{{instance=\"\",job=\"j\"}} 5\nh_count{{instance=\"\",job=\"j\"}} 2\n\
             # TYPE h_created gauge\nh_created{{instance=\"\",job=\"j\"}} 3\n\
             # TYPE i_info gauge\ni_info{{instance=\"\",job=\"j\",v=\"1\"}} 1\n"
        );
        assert!(page.starts_with(&expected), "{page}\n{expected}");
        for line in [
            "# TYPE q summary",
            "q{instance=\"\",job=\"j\",quantile=\"0.5\"} 2",
            "# TYPE q_created gauge",
            "# HELP req_total Help.",
            "# TYPE s gauge",
            "s{instance=\"\",job=\"j\",s=\"off\"} 0",
        ] {
            assert!(page.contains(&format!("{line}\n")), "{line}\n{page}");
        }
    }
    // A counter in the text format is the same family.
    rig.put(
        "/metrics/job/other",
        "# TYPE c_total counter\nc_total{a=\"1\"} 1\n",
    );
    let cut = body(1).replace("# EOF\n", "");
    let answer = put(
        &rig,
        "/metrics/job/j",
        &[("Content-Type", OPEN_METRICS)],
        &cut,
    );
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("# EOF"), "{}", answer.text());
}

#[test]
fn timestamps_are_refused_or_kept() {
    let dir = TempDir::new("push");
    let start = |keep_timestamps| {
        let store = StoreConfig {
            keep_timestamps,
            ..StoreConfig::default()
        };
        Rig::start(config(), store, Some(&dir.join("p")))
    };
    let rig = start(false);
    let body =
        "# TYPE h histogram\nh_bucket{le=\"+Inf\"} 1 1000\nh_count 1 1000\nh_sum 2\nm 1 -5\nn 2\n";
    let refusal = rig.ask("PUT", "/metrics/job/a", body);
    assert_eq!(refusal.status, 400);
    assert!(
        refusal.text().contains("must not have timestamps"),
        "{}",
        refusal.text()
    );
    assert_eq!(
        rig.ask("PUT", "/metrics/job/a?timestamps=x", "m 1\n")
            .status,
        400
    );
    let keep = [("Narthex-Push-Timestamps", "keep")];
    let expected = |job: &str, time: &str| {
        [
            format!("h_bucket{{instance=\"\",job=\"{job}\",le=\"+Inf\"}} 1 1000"),
            format!("h_sum{{instance=\"\",job=\"{job}\"}} 2"),
            format!("h_count{{instance=\"\",job=\"{job}\"}} 1 1000"),
            format!("m{{instance=\"\",job=\"{job}\"}} 1{time}"),
            format!("n{{instance=\"\",job=\"{job}\"}} 2"),
        ]
    };
    assert_eq!(put(&rig, "/metrics/job/a", &keep, body).status, 200);
    assert_eq!(lines(&rig, "job=\"a\""), expected("a", " -5"));
    // The same lines, of which one has another time and then none.
    for (time, shown) in [(" -7", " -7"), ("", "")] {
        let body = body.replace(" -5", time);
        assert_eq!(
            rig.ask("PUT", "/metrics/job/a?timestamps=keep", &body)
                .status,
            200
        );
        assert_eq!(lines(&rig, "job=\"a\""), expected("a", shown));
    }
    assert_eq!(rig.ask("PUT", "/metrics/job/a", body).status, 400);
    assert_eq!(put(&rig, "/metrics/job/b", &keep, body).status, 200);
    // Twice the same series is refused, whatever its times.
    let twice = rig.ask("PUT", "/metrics/job/c?timestamps=keep", "m 1 1\nm 2 2\n");
    assert_eq!(twice.status, 400);
    assert!(
        twice.text().contains("collected before"),
        "{}",
        twice.text()
    );
    assert_eq!(rig.ask("DELETE", "/metrics/job/c", "").status, 202);
    drop(rig);
    // The times are in the journal. The flag makes keeping them the default, which a sender may change.
    let rig = start(true);
    assert_eq!(lines(&rig, "job=\"b\""), expected("b", " -5"));
    rig.put("/metrics/job/a", body);
    assert_eq!(
        rig.ask("PUT", "/metrics/job/a?timestamps=refuse", body)
            .status,
        400
    );
}

#[test]
fn kept_timestamps_are_in_lists_and_messages() {
    let rig = Rig::in_memory(config());
    let body =
        "# TYPE h histogram\nh_bucket{le=\"+Inf\"} 1 1000\nh_count 1 1000\nh_sum 2\nm 1 -5\n";
    let answer = rig.ask("PUT", "/metrics/job/b?timestamps=keep", body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let listed = rig.ask("GET", "/api/v1/metrics", "").text();
    assert!(
        listed.contains(
            "{\"labels\":{\"instance\":\"\",\"job\":\"b\"},\"timestamp_ms\":\"-5\",\"value\":\"1\"}"
        ),
        "{listed}"
    );
    let accept = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
    let url = format!("{}/metrics", rig.url);
    let page = http::request("GET", &url, &[("Accept", accept)], &[]).unwrap();
    let mut parser = Parser::new(LabelSet::empty(), ParseOptions::default());
    let round = parser
        .parse(Format::Protobuf, &page.body, 1, &mut KeepLabels)
        .unwrap();
    let schema = round.frame.schema();
    let m = LabelSet::new([("__name__", "m"), ("job", "b"), ("instance", "")]);
    let found = schema.columns().find(|(_, column)| column.set == m);
    assert_eq!(round.frame.time_of(found.unwrap().0), -5);
    let first = ColumnId(0);
    assert_eq!(schema.column(first).set.metric_name(), "h_count");
    assert_eq!(round.frame.time_of(first), 1000);
}

#[test]
fn a_group_whose_pushes_are_expected_is_up_until_one_is_late() {
    let dir = TempDir::new("push");
    let start = || {
        let store = StoreConfig {
            interval_ms: [
                ("nightly".to_owned(), 86_400_000),
                ("strict".to_owned(), 1000),
            ]
            .into(),
            ..StoreConfig::default()
        };
        Rig::start(config(), store, Some(&dir.join("p")))
    };
    let rig = start();
    rig.put("/metrics/job/plain", "m 1\n");
    assert_eq!(lines(&rig, "narthex_push"), Vec::<String>::new());
    let answer = put(
        &rig,
        "/metrics/job/minute",
        &[("Narthex-Push-Interval", "1m")],
        "m 1\nnarthex_push_up 7\n",
    );
    assert_eq!(answer.status, 200);
    rig.put("/metrics/job/nightly", "m 1\n");
    // A job that pushes only nonsense is not up.
    assert_eq!(rig.ask("PUT", "/metrics/job/strict", "m 1 1\n").status, 400);
    let up = |minute: u32, nightly: u32| {
        vec![
            format!("narthex_push_up{{instance=\"\",job=\"minute\"}} {minute}"),
            format!("narthex_push_up{{instance=\"\",job=\"nightly\"}} {nightly}"),
            "narthex_push_up{instance=\"\",job=\"strict\"} 0".to_owned(),
        ]
    };
    assert_eq!(lines(&rig, "narthex_push_up{"), up(1, 1));
    assert_eq!(
        lines(&rig, "# TYPE narthex_push"),
        [
            "# TYPE narthex_push_interval_seconds gauge",
            "# TYPE narthex_push_up gauge"
        ]
    );
    rig.pass(Duration::from_secs(90));
    assert_eq!(lines(&rig, "narthex_push_up{"), up(1, 1));
    rig.pass(Duration::from_millis(1));
    assert_eq!(lines(&rig, "narthex_push_up{"), up(0, 1));
    let page = rig.ask("GET", "/", "").text();
    assert!(
        page.contains("<td class=\"n\">1m<td><span class=\"failed\">Late<"),
        "{page}"
    );
    let listed = rig.ask("GET", "/api/v1/metrics", "").text();
    assert_eq!(
        listed.matches("\"narthex_push_interval_seconds\"").count(),
        3
    );
    drop(rig);
    // Intervals are in the journal; this clock is where the first one began.
    let rig = start();
    assert_eq!(lines(&rig, "narthex_push_up{"), up(1, 1));
    // Without a header the flags count again, and none is for this job.
    rig.put("/metrics/job/minute", "m 1\n");
    assert_eq!(lines(&rig, "narthex_push_up{"), up(1, 1)[1..]);
    rig.put("/metrics/job/nightly?interval=0", "m 1\n");
    assert_eq!(lines(&rig, "narthex_push_up{"), up(1, 1)[2..]);
    assert_eq!(
        rig.ask("PUT", "/metrics/job/x?interval=often", "m 1\n")
            .text(),
        "invalid interval \"often\": not a valid duration string: \"often\"\n"
    );
}

#[test]
fn a_group_that_never_had_a_push_lives_from_the_refused_one() {
    let store = StoreConfig {
        ttl_ms: [(String::new(), 60_000)].into(),
        ..StoreConfig::default()
    };
    let rig = Rig::start(config(), store, None);
    assert_eq!(rig.ask("PUT", "/metrics/job/a", "m 1 1\n").status, 400);
    let failures = |rig: &Rig| {
        rig.store.expire();
        let page = rig.ask("GET", "/metrics", "").text();
        page.matches("push_failure_time_seconds{").count()
    };
    rig.pass(Duration::from_secs(59));
    assert_eq!(failures(&rig), 1);
    rig.pass(Duration::from_secs(1));
    assert_eq!(failures(&rig), 0);
}
