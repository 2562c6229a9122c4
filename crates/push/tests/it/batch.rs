//! Batches: many groups in one request.

use crate::rig::{Rig, config, limits};
use narthex_model::protobuf::Message;
use narthex_push::{GatewayConfig, Limits};
use narthex_testkit::http::{self, Response};
use serde_json::Value;

fn send(rig: &Rig, method: &str, query: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
    let url = format!("{}/api/v1/push{query}", rig.url);
    http::request(method, &url, headers, body).unwrap()
}

/// Returns the status of a response and the parts of its report: stored, refused, ungrouped, and each group in one line.
fn report(answer: &Response) -> (u16, [u64; 3], Vec<String>) {
    let body: Value = serde_json::from_str(&answer.text()).unwrap();
    let data = &body["data"];
    assert_eq!(body["status"] == "success", answer.status < 300);
    let counts = [
        data["stored"].as_u64().unwrap(),
        data["refused"].as_u64().unwrap(),
        data["ungrouped"]["total"].as_u64().unwrap(),
    ];
    let groups = data["groups"].as_array().unwrap().iter();
    let groups =
        groups.map(|group| format!("{} {} {}", group["labels"], group["status"], group["error"]));
    (answer.status, counts, groups.collect())
}

const BODY: &str = "# HELP c Counted.\n# TYPE c counter\nc{job=\"a\",instance=\"1\",k=\"x\"} 1\nc{instance=\"2\",job=\"a\"} 2\n\
    # TYPE h histogram\nh_bucket{job=\"a\",instance=\"1\",le=\"+Inf\"} 3\nh_sum{job=\"a\",instance=\"1\"} 1\nh_count{job=\"a\",instance=\"1\"} 3\n\
    u{job=\"b\"} 4\n";

#[test]
fn each_series_goes_to_the_group_of_its_labels() {
    let rig = Rig::in_memory(config());
    rig.put("/metrics/job/a/instance/1", "old 1\nu 7\n");
    rig.put("/metrics/job/z", "stays 1\n");
    let groups = [
        r#"{"instance":"1","job":"a"} 200 null"#,
        r#"{"instance":"2","job":"a"} 200 null"#,
        r#"{"job":"b"} 200 null"#,
    ]
    .map(str::to_owned)
    .to_vec();
    for _ in 0..2 {
        let answer = send(&rig, "POST", "", &[], BODY.as_bytes());
        assert_eq!(report(&answer), (200, [3, 0, 0], groups.clone()));
        assert_eq!(rig.samples().len(), 9);
        let page = rig.ask("GET", "/metrics", "").text();
        assert!(page.contains("# HELP c Counted.\n# TYPE c counter\nc{instance=\"1\",job=\"a\",k=\"x\"} 1\nc{instance=\"2\",job=\"a\"} 2\n"), "{page}");
        assert!(page.contains("# TYPE h histogram\n"), "{page}");
    }
    // PUT replaces the groups that are in the batch, and no others.
    let answer = send(&rig, "PUT", "", &[], BODY.as_bytes());
    assert_eq!(answer.status, 200);
    let left: Vec<String> = rig.samples().into_keys().collect();
    assert!(
        left.contains(&"stays{instance=\"\",job=\"z\"}".to_owned()),
        "{left:?}"
    );
    assert_eq!(left.len(), 7, "{left:?}");
    // The same groups as those of paths.
    assert_eq!(
        rig.ask("DELETE", "/metrics/job/a/instance/1", "").status,
        202
    );
    assert_eq!(rig.samples().len(), 3);
}

#[test]
fn a_comment_without_an_end_takes_no_sample_with_it() {
    let rig = Rig::in_memory(config());
    let body = b"c{job=\"a\"} 1\nc{job=\"b\"} 2\n# TYPE c counter";
    let groups = [r#"{"job":"a"} 200 null"#, r#"{"job":"b"} 200 null"#];
    let groups = groups.map(str::to_owned).to_vec();
    let answer = send(&rig, "POST", "", &[], body);
    assert_eq!(report(&answer), (200, [2, 0, 0], groups));
    let page = rig.ask("GET", "/metrics", "").text();
    let lines = "# TYPE c counter\nc{instance=\"\",job=\"a\"} 1\nc{instance=\"\",job=\"b\"} 2\n";
    assert!(page.contains(lines), "{page}");
}

#[test]
fn groups_are_named_by_the_labels_that_the_sender_says() {
    let rig = Rig::in_memory(config());
    let body =
        b"m{job=\"a\\\"b\",instance=\"1\",zone=\"x\"} 1\nm{job=\"a\\\"b\",instance=\"1\"} 2\n";
    let answer = send(&rig, "POST", "?group_by=job%2Czone", &[], body);
    let groups = [
        r#"{"job":"a\"b","zone":"x"} 200 null"#,
        r#"{"job":"a\"b"} 200 null"#,
    ];
    assert_eq!(
        report(&answer),
        (200, [2, 0, 0], groups.map(str::to_owned).to_vec())
    );
    assert!(
        rig.samples()
            .contains_key("m{instance=\"1\",job=\"a\\\"b\",zone=\"x\"}")
    );
    for (by, reason) in [
        ("instance", "job is not among the labels"),
        ("job,__a", "a label name is improper"),
        ("job,", "a label name is improper"),
    ] {
        let headers = [("Narthex-Push-Group-By", by)];
        let answer = send(&rig, "POST", "", &headers, b"m{job=\"a\"} 1\n");
        assert_eq!(answer.status, 400);
        assert_eq!(
            answer.text(),
            format!("invalid group_by \"{by}\": {reason}\n")
        );
    }
    let answer = send(&rig, "GET", "", &[], b"");
    assert_eq!(
        (answer.status, answer.header("Allow")),
        (405, Some("OPTIONS, POST, PUT"))
    );
}

#[test]
fn a_bad_part_is_the_error_of_its_group() {
    let rig = Rig::in_memory(config());
    rig.put("/metrics/job/typed", "# TYPE m counter\nm 1\n");
    let body = "# TYPE g gauge\ng{job=\"good\"} 1\n\ng{job=\"broken\"} 1 2 3\ng{job=\"good\",k=\"1\"} 2\n\
        # TYPE m gauge\nm{job=\"contradicts\"} 1\ng{job=\"timed\"} 1 5\nnobody 1\ng{job=\"cut\n";
    let answer = send(&rig, "PUT", "", &[], body.as_bytes());
    let (status, counts, groups) = report(&answer);
    assert_eq!((status, counts), (400, [1, 3, 2]));
    assert_eq!(groups[0], r#"{"job":"good"} 200 null"#);
    for (group, start) in groups[1..].iter().zip([
        r#"{"job":"broken"} 400 "text format parsing error in line 4: "#,
        r#"{"job":"contradicts"} 400 "pushed metrics are invalid or inconsistent"#,
        r#"{"job":"timed"} 400 "pushed metrics are invalid or inconsistent"#,
    ]) {
        assert!(group.starts_with(start), "{group}");
    }
    let body: Value = serde_json::from_str(&answer.text()).unwrap();
    assert_eq!(
        body["data"]["ungrouped"]["errors"],
        serde_json::json!([
            "text format parsing error in line 9: a series has no label \"job\"",
            "text format parsing error in line 10: the labels of a sample are malformed",
        ])
    );
    assert_eq!(rig.samples().len(), 3);
    // What a sender asks for is asked for every group.
    let answer = send(
        &rig,
        "PUT",
        "?timestamps=keep&ttl=1m",
        &[],
        b"t{job=\"timed\"} 1 5\n",
    );
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(rig.samples()["t{instance=\"\",job=\"timed\"} 1"], "5");
}

#[test]
fn batches_may_be_openmetrics_or_messages() {
    let rig = Rig::in_memory(config());
    let open = [("Content-Type", "application/openmetrics-text")];
    let text = "# TYPE c counter\nc_total{job=\"a\"} 1\nc_total{job=\"b\"} 2\n# EOF\n";
    assert_eq!(send(&rig, "PUT", "", &open, text.as_bytes()).status, 200);
    for (cut, reason) in [
        (text.replace("# EOF\n", ""), "does not end with # EOF"),
        (
            format!("{text}c_total{{job=\"c\"}} 1\n"),
            "in line 5: there is something behind # EOF",
        ),
    ] {
        let answer = send(&rig, "PUT", "", &open, cut.as_bytes());
        assert_eq!(answer.status, 400);
        assert!(answer.text().contains(reason), "{}", answer.text());
    }
    let kind = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
    let messages = [("Content-Type", kind)];
    let metric = |labels: &[(&str, &str)], value: f64| {
        let (mut metric, mut inner) = (Message::default(), Message::default());
        for (name, value) in labels {
            let mut pair = Message::default();
            pair.text(1, name);
            pair.text(2, value);
            metric.message(1, &pair);
        }
        inner.double(1, value);
        metric.message(2, &inner);
        metric
    };
    let mut family = Message::default();
    family.text(1, "g");
    family.message(4, &metric(&[("job", "a")], 1.0));
    family.message(4, &metric(&[("job", "b"), ("instance", "i")], 2.0));
    family.message(4, &metric(&[("job", "a"), ("k", "1")], 3.0));
    family.message(4, &metric(&[], 4.0));
    family.text(2, "Help.");
    family.integer(3, 1);
    let mut body = Vec::new();
    family.delimited(&mut body);
    let answer = send(&rig, "POST", "", &messages, &body);
    let (status, counts, _) = report(&answer);
    assert_eq!((status, counts), (400, [2, 0, 1]));
    let page = rig.ask("GET", "/metrics", "").text();
    let expected = "# HELP g Help.\n# TYPE g gauge\ng{instance=\"i\",job=\"b\"} 2\ng{instance=\"\",job=\"a\"} 1\ng{instance=\"\",job=\"a\",k=\"1\"} 3\n";
    assert!(page.contains(expected), "{page}");
    body.pop();
    let answer = send(&rig, "POST", "", &messages, &body);
    assert_eq!(
        (answer.status, answer.text().as_str()),
        (400, "byte 0: not a delimited message of a metric family\n")
    );
}

/// Every part repeats the comment lines of its families, which must not become gigabytes.
#[test]
fn long_comment_lines_of_many_groups_are_refused() {
    let rig = Rig::in_memory(GatewayConfig {
        limits: Limits {
            body_bytes: 8 << 20,
            reading_bytes: 32 << 20,
            ..limits()
        },
        ..config()
    });
    let mut body = format!("# HELP m {}\n", "x".repeat(1 << 20));
    for job in 0..50 {
        body += &format!("m{{job=\"{job}\"}} 1\n");
    }
    let (status, [stored, refused, _], groups) =
        report(&send(&rig, "PUT", "", &[], body.as_bytes()));
    assert_eq!((status, stored, refused), (400, 5, 45));
    assert!(
        groups[49].contains("the comment lines are too long"),
        "{}",
        groups[49]
    );
}
