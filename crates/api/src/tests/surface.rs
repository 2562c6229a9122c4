//! Calls about queries, names and the process, through the routes as they are served.

use super::*;

/// Returns the lines of a search.
async fn lines(served: &Served, path: &str) -> Vec<Value> {
    let response = served.get(&format!("/api/v1/search/{path}")).await;
    assert_eq!(
        response.headers()[header::CONTENT_TYPE],
        "application/x-ndjson; charset=utf-8"
    );
    let text = text(response).await;
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

#[test]
fn searches_are_answered_in_lines() {
    run(async {
        let served = served(256 << 20);
        assert_eq!(
            lines(&served, "label_names?sort_by=alpha&sort_dir=dsc").await,
            [
                json!({"results": [{"name": "n"}, {"name": "a"}, {"name": "__name__"}]}),
                json!({"status": "success", "has_more": false}),
            ]
        );
        let path = "label_values?label=n&search[]=1&limit=3&batch_size=2";
        assert_eq!(
            lines(&served, path).await,
            [
                json!({"results": [{"value": "001"}, {"value": "010"}]}),
                json!({"results": [{"value": "011"}]}),
                json!({"status": "success", "has_more": true}),
            ]
        );
        let path = "label_values?label=n&search[]=19&sort_by=score&include_score=true&limit=2&fuzz_alg=jarowinkler";
        assert_eq!(
            lines(&served, path).await[0]["results"],
            json!([{"value": "190", "score": 1}, {"value": "191", "score": 1}])
        );
        let none = lines(&served, "metric_names?search[]=zz").await;
        assert_eq!(none[0], json!({"results": []}));
        assert_eq!(none.len(), 2);
    });
}

#[test]
fn bad_searches_are_refused_in_prometheus_words() {
    run(async {
        let served = served(256 << 20);
        for (path, reason) in [
            ("label_values", "missing required parameter \"label\""),
            (
                "label_names?limit=0",
                "invalid limit \"0\": must be a positive integer",
            ),
            (
                "label_names?limit=10001",
                "limit 10001 exceeds the configured maximum (10000, see --web.search.max-limit)",
            ),
            (
                "label_names?sort_by=x",
                "invalid sort_by \"x\" for label_names: must be \"alpha\" or \"score\"",
            ),
            (
                "label_names?sort_dir=asc",
                "sort_dir is only valid when sort_by is set",
            ),
            (
                "label_names?sort_by=score",
                "sort_by=score requires search[] to be set",
            ),
            (
                "label_names?include_score=maybe",
                "invalid include_score \"maybe\": must be boolean",
            ),
            (
                "label_names?fuzz_alg=x",
                "unsupported fuzz_alg \"x\": must be one of [subsequence jarowinkler]",
            ),
            (
                &format!("label_names?search[]={}", "a".repeat(1025)),
                "invalid parameter \"search[]\": longer than 1024 bytes",
            ),
        ] {
            let response = served.get(&format!("/api/v1/search/{path}")).await;
            assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{path}");
            let whole: Value = serde_json::from_str(&text(response).await).unwrap();
            assert_eq!(whole["error"], reason, "{path}");
        }
    });
}

#[test]
fn statistics_of_steps_count_like_queries_of_their_own() {
    run(async {
        let served = served(256 << 20);
        // Points are 2 s apart.
        let samples = async |query: &str| {
            let query = query
                .replace('{', "%7B")
                .replace('}', "%7D")
                .replace('"', "%22");
            let query = query.replace(' ', "+");
            let path =
                format!("/api/v1/query_range?start=100&end=110&step=5&stats=all&query={query}");
            data(&served, &path).await["stats"]["samples"].clone()
        };
        let one = samples("x{n=\"007\"}").await;
        let step = |at: u32, count: u32| json!([at, count]);
        assert_eq!(
            one["totalQueryableSamplesPerStep"],
            json!([step(100, 1), step(105, 1), step(110, 1)])
        );
        assert_eq!(one["seriesTouched"], 1);
        let window = samples("sum_over_time(x{n=\"007\"}[10s])").await;
        assert_eq!(
            window["totalQueryableSamplesPerStep"],
            json!([step(100, 5), step(105, 5), step(110, 5)])
        );
        assert_eq!(
            window["samplesReadPerStep"],
            json!([step(100, 5), step(105, 2), step(110, 3)])
        );
        assert_eq!(window["totalQueryableSamples"], 15);
        assert_eq!(window["samplesRead"], 10);
        let pinned = samples("sum_over_time(x{n=\"007\"}[10s] @ 50)").await;
        assert_eq!(pinned["totalQueryableSamples"], 15);
        assert_eq!(pinned["samplesRead"], 5);
        let inner = samples("max_over_time(sum_over_time(x{n=\"007\"}[4s])[4s:2s])").await;
        // Two steps of the subquery, each with two samples.
        assert_eq!(
            inner["totalQueryableSamplesPerStep"],
            json!([step(100, 4), step(105, 4), step(110, 4)])
        );
    });
}

#[test]
fn a_trace_says_where_the_time_went() {
    run(async {
        let served = served(256 << 20);
        let path =
            "/api/v1/query_range?start=100&end=900&step=5&trace=1&query=sum(rate(x[1m]))%2B1";
        let trace = data(&served, path).await["trace"].clone();
        let nodes = trace["nodes"].as_array().unwrap();
        let texts: Vec<&str> = nodes.iter().map(|n| n["text"].as_str().unwrap()).collect();
        assert_eq!(
            texts,
            [
                "sum(rate(x[1m]))+1",
                "sum(rate(x[1m]))+1",
                "sum(rate(x[1m]))",
                "rate(x[1m])"
            ]
        );
        let parents: Vec<&Value> = nodes.iter().map(|n| &n["parent"]).collect();
        assert_eq!(parents, [&Value::Null, &json!(0), &json!(1), &json!(2)]);
        assert_eq!(nodes[3]["series"], 200);
        assert_eq!(nodes[2]["series"], 1);
        assert!(nodes[3]["samples"].as_u64().unwrap() > 200 * 400);
        assert!(nodes[3]["seconds"]["read"].as_f64().unwrap() > 0.0);
        let sum: f64 = nodes
            .iter()
            .flat_map(|n| n["seconds"].as_object().unwrap().values())
            .map(|s| s.as_f64().unwrap())
            .sum();
        let total = trace["totalSeconds"].as_f64().unwrap();
        assert!((sum - total).abs() < 1e-9, "{sum} {total}");
        assert!(
            trace["plan"]
                .as_str()
                .unwrap()
                .contains("aggregate sum by ()")
        );
        let plain = data(&served, "/api/v1/query?query=x").await;
        assert!(plain.get("trace").is_none());
    });
}

#[test]
fn federation_ends_at_a_limit() {
    run(async {
        let served = served(256 << 20);
        let lines = async |path: &str| {
            let page = text(served.get(path).await).await;
            page.lines().filter(|line| !line.starts_with('#')).count()
        };
        assert_eq!(lines("/federate?match[]=x").await, 200);
        assert_eq!(lines("/federate?match[]=x&limit=3").await, 3);
        assert_eq!(lines("/federate?match[]=x&limit=0").await, 200);
        let refused = served.get("/federate?match[]=x&limit=-1").await;
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    });
}

/// A query stays among the active ones until its answer has been read.
#[test]
fn queries_are_active_until_they_are_answered() {
    run(async {
        let served = served(256 << 20);
        let unread = served.get(LONG).await;
        let active = data(&served, "/api/v1/status/active_queries").await;
        assert_eq!(active.as_array().map(Vec::len), Some(1), "{active}");
        let one = &active[0];
        assert_eq!(
            [&one["query"], &one["start"], &one["end"], &one["step"]],
            [&json!("x"), &json!(0.0), &json!(1000.0), &json!(2.0)]
        );
        assert_eq!(one["state"], "sending");
        assert_eq!(one["origin"]["path"], "/api/v1/query_range");
        text(unread).await;
        served.settled().await;
        let active = data(&served, "/api/v1/status/active_queries").await;
        assert_eq!(active, json!([]));
        let top = data(&served, "/api/v1/status/top_queries?topN=1").await;
        let list = &top["topBySamples"];
        assert_eq!(list[0]["query"], "x");
        assert_eq!(list[0]["timeRangeSeconds"], 1000);
        assert_eq!(list[0]["samplesRead"], 200 * 501);
    });
}

#[test]
fn metrics_that_nobody_asked_for_come_first() {
    run(async {
        let served = served(256 << 20);
        let path = "/api/v1/status/metric_names_stats?start=0";
        let before = data(&served, path).await;
        assert_eq!(before["statsCollectedSince"], 1000.0);
        assert_eq!(
            before["records"],
            json!([{"metricName": "x", "queryRequestsCount": 0, "queries": 0, "dashboards": 0,
                    "rules": 0, "lastRequestTimestamp": 0}])
        );
        data(&served, "/api/v1/query?query=x").await;
        let after = data(&served, path).await;
        assert_eq!(after["records"][0]["queries"], 1);
        assert_eq!(after["records"][0]["lastRequestTimestamp"], 1000);
        let unused = data(&served, &format!("{path}&le=0")).await;
        assert_eq!(unused["records"], json!([]));
        let other = data(&served, &format!("{path}&match_pattern=y.*")).await;
        assert_eq!(other["records"], json!([]));
    });
}

struct WithMetrics;

impl ServerStatus for WithMetrics {
    fn config_yaml(&self) -> String {
        String::new()
    }

    fn flags(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn runtime(&self) -> RuntimeInfo {
        RuntimeInfo::default()
    }

    fn wal_replay(&self) -> WalReplay {
        WalReplay::default()
    }

    fn visit_metrics(&self, visitor: &mut dyn narthex_client::Visitor) {
        let registry = Box::leak(Box::new(narthex_client::Registry::new()));
        let counter: &'static narthex_client::CounterVec<1> = Box::leak(Box::new(
            narthex_client::CounterVec::new("a_total", "A.", &["l"]),
        ));
        let histogram: &'static narthex_client::Histogram = Box::leak(Box::new(
            narthex_client::Histogram::new("h_seconds", "H.", &[0.5, 1.0]),
        ));
        registry.register_all(&[counter, histogram]).unwrap();
        counter.with(&["v"]).inc_by(3);
        counter.with(&["w"]).inc_by(4);
        histogram.observe(0.25);
        histogram.observe(9.0);
        registry.visit(visitor);
    }
}

#[test]
fn own_metrics_are_shown_as_protobufs_json() {
    run(async {
        let served = served_by(256 << 20, |_| Arc::new(WithMetrics));
        let label = |value: &str| json!([{"name": "l", "value": value}]);
        assert_eq!(
            data(&served, "/api/v1/status/self_metrics").await,
            json!([
                {"name": "a_total", "help": "A.", "type": "COUNTER", "metric": [
                    {"label": label("v"), "counter": {"value": 3}},
                    {"label": label("w"), "counter": {"value": 4}},
                ]},
                {"name": "h_seconds", "help": "H.", "type": "HISTOGRAM", "metric": [
                    {"histogram": {"sampleCount": "2", "sampleSum": 9.25, "bucket": [
                        {"cumulativeCount": "1", "upperBound": 0.5},
                        {"cumulativeCount": "1", "upperBound": 1},
                    ]}},
                ]},
            ])
        );
        let path = "/api/v1/status/self_metrics?metric_name_pattern=h_.*";
        let some = data(&served, path).await;
        assert_eq!(some.as_array().map(Vec::len), Some(1));
    });
}
