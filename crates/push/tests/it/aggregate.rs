//! Pushes that are added up: sums, refusals, restarts, repeated sending.

use crate::rig::{Rig, config};
use narthex_model::protobuf::Message;
use narthex_push::{GaugeMode, StoreConfig};
use narthex_testkit::{TempDir, http, rng::SplitMix64, scaled};
use std::{collections::BTreeMap, fmt::Write as _, path::Path, thread};

fn start(file: Option<&Path>) -> Rig {
    let store = StoreConfig {
        aggregate: [("ci".to_owned(), GaugeMode::Max)].into(),
        ..StoreConfig::default()
    };
    Rig::start(config(), store, file)
}

/// Returns the pushed samples, without the labels that all of them have.
fn samples(rig: &Rig) -> Vec<String> {
    let all = rig.samples();
    let lines = all
        .iter()
        .map(|(series, value)| format!("{series} {value}"));
    let lines = lines.map(|line| line.replace("instance=\"\",job=\"j\"", ""));
    let lines = lines.map(|line| line.replace(",,", ",").replace("{}", "").replace("{,", "{"));
    lines.map(|line| line.replace(",}", "}")).collect()
}

const BODY: &str = "# TYPE c counter\nc{k=\"a\"} 1\n# TYPE g gauge\ng 5\n\
    # TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_count 2\nh_sum 3.5\n\
    # TYPE s summary\ns{quantile=\"0.5\"} 7\ns_sum 7\ns_count 1\nu 1\n";

#[test]
fn counters_histograms_and_summaries_are_summed() {
    let rig = start(None);
    rig.put("/metrics/job/j?aggregate=last", BODY);
    // What is not in a push stays, also when it would replace the group.
    rig.put(
        "/metrics/job/j?aggregate=last",
        "# TYPE c counter\nc{k=\"b\"} 10\nc{k=\"a\"} 2\nonly 1\n",
    );
    let url = format!("{}/metrics/job/j", rig.url);
    let headers = [("Narthex-Push-Aggregate", "last")];
    let answer = http::request("POST", &url, &headers, BODY.as_bytes()).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(
        samples(&rig),
        [
            "c{k=\"a\"} 4",
            "c{k=\"b\"} 10",
            "g 5",
            "h_bucket{le=\"+Inf\"} 4",
            "h_bucket{le=\"1\"} 2",
            "h_count 4",
            "h_sum 7",
            "only 1",
            "s_count 2",
            "s_sum 14",
            "u 1",
        ]
    );
    // Without the wish a push replaces, as ever; and deleting begins anew.
    rig.put("/metrics/job/j", "# TYPE c counter\nc 1\n");
    assert_eq!(samples(&rig), ["c 1"]);
    assert_eq!(rig.ask("DELETE", "/metrics/job/j", "").status, 202);
    rig.put("/metrics/job/j?aggregate=last", BODY);
    assert_eq!(samples(&rig)[0], "c{k=\"a\"} 1");
    let refused = rig.ask("PUT", "/metrics/job/j?aggregate=mean", BODY);
    assert_eq!(
        refused.text(),
        "invalid aggregate \"mean\": expected last, sum, min, max or off\n"
    );
}

#[test]
fn gauges_are_what_the_mode_says() {
    for (mode, expected) in [("last", 3), ("sum", 11), ("min", 1), ("max", 7)] {
        let rig = start(None);
        for value in [7, 1, 3] {
            let body =
                format!("# TYPE g gauge\ng {value}\nu {value}\n# TYPE c counter\nc {value}\n");
            rig.put(&format!("/metrics/job/j?aggregate={mode}"), &body);
        }
        let expected = [
            "c 11".to_owned(),
            format!("g {expected}"),
            format!("u {expected}"),
        ];
        assert_eq!(samples(&rig), expected, "{mode}");
    }
    // A flag for the job, and a push that does not want it.
    let rig = start(None);
    for value in [7, 1] {
        rig.put(
            "/metrics/job/ci",
            &format!("# TYPE c counter\nc {value}\n# TYPE g gauge\ng {value}\n"),
        );
    }
    let shown = |rig: &Rig| rig.samples().into_values().collect::<Vec<_>>();
    assert_eq!(shown(&rig), ["8", "7"]);
    rig.put("/metrics/job/ci?aggregate=off", "# TYPE c counter\nc 2\n");
    assert_eq!(shown(&rig), ["2"]);
}

#[test]
fn a_push_that_does_not_fit_changes_nothing() {
    let rig = start(None);
    let path = "/metrics/job/j?aggregate=sum";
    rig.put(path, BODY);
    let before = samples(&rig);
    for (body, reason) in [
        (
            "# TYPE c counter\nc{k=\"a\"} 1\n# TYPE h histogram\nh_bucket{le=\"2\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_count 2\nh_sum 1\n",
            "has other buckets than the group, whose are 1, +Inf",
        ),
        (
            "# TYPE c gauge\nc{k=\"a\"} 1\n",
            "family \"c\" is a COUNTER in the group, not a GAUGE",
        ),
        (
            "u 1\n# TYPE c counter\nc{k=\"a\"} -1\n",
            "has a count of -1, which cannot be added",
        ),
        (
            "u 1\n# TYPE c counter\nc{k=\"z\"} NaN\n",
            "has a count of NaN",
        ),
        (
            "# TYPE h histogram\nh_bucket{le=\"1\"} +Inf\nh_bucket{le=\"+Inf\"} 2\n",
            "has a count of +Inf",
        ),
        ("u 1 5\n", "must not have timestamps"),
        ("u 1\nu{", "text format parsing error in line 2"),
    ] {
        for path in [path, "/metrics/job/j?aggregate=sum&timestamps=keep"] {
            let answer = rig.ask("PUT", path, body);
            assert_eq!(answer.status, 400, "{body}");
            assert!(answer.text().contains(reason), "{body}\n{}", answer.text());
            assert_eq!(samples(&rig), before, "{body}");
        }
    }
}

/// Returns a body with a native histogram.
fn native(resolution: i64, counts: &[i64], bounds: &[f64]) -> Vec<u8> {
    let mut inner = Message::default();
    inner.integer(1, counts.iter().sum::<i64>().cast_unsigned());
    inner.double(2, 1.5);
    inner.signed(5, resolution);
    inner.double(6, 0.001);
    inner.integer(7, 0);
    let mut span = Message::default();
    span.signed(1, 0);
    span.integer(2, counts.len() as u64);
    inner.message(12, &span);
    let mut before = 0;
    for count in counts {
        inner.signed(13, count - before);
        before = *count;
    }
    for bound in bounds {
        inner.double(16, *bound);
    }
    let (mut metric, mut family) = (Message::default(), Message::default());
    metric.message(7, &inner);
    family.text(1, "n");
    family.integer(3, 4);
    family.message(4, &metric);
    let mut body = Vec::new();
    family.delimited(&mut body);
    body
}

#[test]
fn native_histograms_are_summed_at_the_lower_resolution() {
    let rig = start(None);
    let kind = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
    let url = format!("{}/metrics/job/j?aggregate=last", rig.url);
    let push = |body: &[u8]| http::request("PUT", &url, &[("Content-Type", kind)], body).unwrap();
    // Buckets 0 and 1 of resolution 1 end at 1 and 1.41; of resolution 0 at 1 and 2.
    for body in [native(1, &[1, 2], &[]), native(0, &[4, 8], &[])] {
        let answer = push(&body);
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let listed = rig.ask("GET", "/api/v1/metrics", "").text();
    let buckets = "\"count\":\"15\",\"sum\":\"3\",\"buckets\":[[0,\"0.5\",\"1\",\"5\"],[0,\"1\",\"2\",\"10\"]]";
    assert!(listed.contains(buckets), "{listed}");
    let classic = "# TYPE n histogram\nn_bucket{le=\"1\"} 1\nn_count 1\nn_sum 1\n";
    let answer = rig.ask("PUT", "/metrics/job/j?aggregate=last", classic);
    assert_eq!(answer.status, 400);
    assert!(
        answer.text().contains("has other buckets than the group"),
        "{}",
        answer.text()
    );
}

#[test]
fn sums_survive_restarts_and_are_those_of_a_simple_model() {
    let dir = TempDir::new("push");
    let file = dir.join("p");
    let mut rng = SplitMix64::new(0xa99);
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    let mut rig = start(Some(&file));
    for round in 0..scaled(300) {
        let job = rng.below(3);
        let mut body = "# TYPE c counter\n".to_owned();
        for k in 0..5 {
            if rng.below(2) == 0 {
                let value = rng.below(100);
                let _ = writeln!(body, "c{{k=\"{k}\"}} {value}");
                let series = format!("c{{instance=\"\",job=\"j{job}\",k=\"{k}\"}}");
                *sums.entry(series).or_default() += value;
            }
        }
        // The same push is sent twice, as after a lost answer.
        for _ in 0..2 {
            rig.put(
                &format!("/metrics/job/j{job}?aggregate=last&id=push-{round}"),
                &body,
            );
            match rng.below(30) {
                0 => rig.store.maintain(),
                1 => {
                    drop(rig);
                    rig = start(Some(&file));
                }
                _ => {}
            }
        }
        let expected: BTreeMap<String, String> = sums
            .iter()
            .map(|(series, sum)| (series.clone(), sum.to_string()))
            .collect();
        assert_eq!(rig.samples(), expected, "round {round}");
    }
}

#[test]
fn a_name_is_of_one_group_and_may_not_be_endless() {
    let rig = start(None);
    for (job, times) in [("a", 3), ("b", 1)] {
        for _ in 0..times {
            let url = format!("{}/metrics/job/{job}?aggregate=last", rig.url);
            let headers = [("Narthex-Push-ID", "one")];
            let answer = http::request("POST", &url, &headers, b"# TYPE c counter\nc 1\n").unwrap();
            assert_eq!(answer.status, 200);
        }
    }
    assert_eq!(rig.samples().into_values().collect::<Vec<_>>(), ["1", "1"]);
    // A refused push may be sent again under its name, and pushes that replace have none.
    assert_eq!(
        rig.ask(
            "PUT",
            "/metrics/job/a?aggregate=last&id=two",
            "# TYPE c counter\nc -1\n"
        )
        .status,
        400
    );
    rig.put(
        "/metrics/job/a?aggregate=last&id=two",
        "# TYPE c counter\nc 1\n",
    );
    rig.put("/metrics/job/b?id=one", "# TYPE c counter\nc 9\n");
    assert_eq!(rig.samples().into_values().collect::<Vec<_>>(), ["2", "9"]);
    let path = format!("/metrics/job/a?aggregate=last&id={}", "x".repeat(129));
    assert_eq!(rig.ask("PUT", &path, "c 1\n").status, 400);
}

#[test]
fn pushes_at_the_same_time_are_all_added() {
    let rig = start(None);
    let rounds = scaled(40);
    thread::scope(|scope| {
        for pusher in 0..4 {
            let rig = &rig;
            scope.spawn(move || {
                for _ in 0..rounds {
                    let body = format!("# TYPE c counter\nc 1\nc{{k=\"{pusher}\"}} 2\n");
                    rig.put("/metrics/job/j?aggregate=last", &body);
                }
            });
        }
    });
    let each = (0..4).map(|k| format!("c{{k=\"{k}\"}} {}", 2 * rounds));
    let expected: Vec<String> = each.chain([format!("c {}", 4 * rounds)]).collect();
    assert_eq!(samples(&rig), expected);
}
