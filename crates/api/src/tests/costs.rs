//! What queries may cost.

use super::*;
use narthex_promql::{CostLimits, ReadLimits};

/// Serves as `served` does; queries cost what the limits allow.
fn limited() -> (Served, Arc<CostLimits>) {
    let mut limits = None;
    let served = served_with(
        1 << 30,
        filled(),
        |_| Arc::new(process::NoStatus),
        |engine| {
            let all = Arc::new(CostLimits::default());
            limits = Some(Arc::clone(&all));
            engine.limited(all)
        },
    );
    (served, limits.expect("the engine was made"))
}

const RANGE: &str = "query=sum(rate(x[1m]))&start=0&end=1000&step=60";

#[tokio::test]
async fn what_a_query_reads_is_estimated_without_asking_it() {
    let (served, _) = limited();
    let found = data(&served, "/api/v1/query_cost?query=x&stats=true&limit=3").await;
    assert_eq!(
        found,
        json!({"estimate": {"seriesTouched": 200, "samplesRead": 200}})
    );
    let found = data(&served, &format!("/api/v1/query_range_cost?{RANGE}")).await;
    let all = 200 * 481;
    assert_eq!(
        found,
        json!({"estimate": {"seriesTouched": 200, "samplesRead": all}})
    );
    let response = served.post("/api/v1/query_cost", "query=info(x)").await;
    let text = text(response).await;
    assert!(
        text.contains("query cost estimate is incomplete: info()"),
        "{text}"
    );
    for bad in [
        "query_cost?query=x)",
        "query_range_cost?query=x&start=0&end=1",
        "query_cost?query=x&cost=2",
    ] {
        let response = served.get(&format!("/api/v1/{bad}")).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{bad}");
    }
}

#[tokio::test]
async fn an_answer_compares_costs_when_asked() {
    let (served, _) = limited();
    let compared = data(&served, &format!("/api/v1/query_range?{RANGE}&cost=true")).await;
    let (all, cost) = (200 * 481, &compared["cost"]);
    assert_eq!(
        cost["estimated"],
        json!({"seriesTouched": 200, "samplesRead": all})
    );
    assert_eq!(
        (
            &cost["actual"]["seriesTouched"],
            &cost["actual"]["samplesRead"]
        ),
        (&json!(200), &json!(all))
    );
    assert!(cost["actual"]["peakSamples"].as_u64() > Some(0));
    for off in ["", "&cost=", "&cost=false"] {
        let found = data(&served, &format!("/api/v1/query?query=x{off}")).await;
        assert_eq!(found.get("cost"), None);
    }
}

/// Parameters beyond 150 series, 300 samples and 5 seconds, and others that are refused.
const REFUSED: [(&str, &str); 6] = [
    (
        "max_series=151",
        "requested max_series of 151 exceeds the server limit of 150",
    ),
    (
        "max_samples_read=301",
        "requested max_samples_read of 301 exceeds the server limit of 300",
    ),
    (
        "max_query_duration=6",
        "requested max_query_duration of 6s exceeds the server limit of 5s",
    ),
    (
        "max_series=-1",
        "error parsing max_series: strconv.ParseUint: parsing \"-1\": invalid syntax",
    ),
    (
        "max_query_duration=-1",
        "error parsing max_query_duration: must not be negative, got -1s",
    ),
    (
        "cost=maybe",
        "invalid parameter \"cost\": must be a boolean",
    ),
];

#[tokio::test]
async fn limits_refuse_and_may_be_lowered_alone() {
    let (served, limits) = limited();
    let ask = async |query: &str| {
        let response = served.get(&format!("/api/v1/query?query={query}")).await;
        let status = response.status().as_u16();
        let body: Value = serde_json::from_str(&text(response).await).unwrap();
        let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
        (status, text("errorType"), text("error"))
    };
    let refused = |kind: &str, reason: &str| {
        (
            if kind == "bad_data" { 400 } else { 422 },
            kind.to_owned(),
            reason.to_owned(),
        )
    };
    assert_eq!(ask("x").await.0, 200);
    assert_eq!(
        ask("x&max_series=199").await,
        refused(
            "cost_limit",
            "query would load too many series into memory in query execution"
        )
    );
    assert_eq!(
        ask("sum(rate(x[1m]))&max_samples_read=5000").await,
        refused(
            "cost_limit",
            "query would read too many samples in query execution"
        )
    );
    limits.set(
        ReadLimits {
            series: 150,
            samples: 300,
        },
        Duration::from_secs(5),
    );
    assert_eq!(ask("x").await.1, "cost_limit");
    assert_eq!(ask("x{n=%22001%22}&max_series=0").await.0, 200);
    for (parameter, reason) in REFUSED {
        assert_eq!(
            ask(&format!("1&{parameter}")).await,
            refused("bad_data", reason)
        );
    }
    assert_eq!(ask("1&timeout=1h&max_query_duration=5s").await.0, 200);
}

#[tokio::test]
async fn without_the_feature_there_are_no_costs() {
    let served = served(1 << 30);
    let response = served.get("/api/v1/query_cost?query=x").await;
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    let found = data(&served, "/api/v1/query?query=x&cost=maybe&max_series=1").await;
    assert_eq!(found["result"].as_array().map(Vec::len), Some(200));
    let (on, off) = (limited().0, served);
    for (served, is_on) in [(on, true), (off, false)] {
        let features = data(&served, "/api/v1/features").await;
        assert_eq!(features["api"]["query_cost"], json!(is_on));
    }
}
