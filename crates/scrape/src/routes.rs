//! `/api/v1/targets`.

use crate::{Manager, status::ActiveTarget};
use http::HeaderMap;
use narthex_model::{LabelSet, date::rfc3339, duration};
use narthex_net::{
    Router,
    axum::{extract::Query, response::Response, routing::get},
    respond_json,
};
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

/// Returns the handlers of scraping.
pub fn routes(manager: Arc<Manager>) -> Router {
    let targets = move |query: Query<HashMap<String, String>>, headers: HeaderMap| {
        let answer = targets(&manager, &query, &headers);
        async move { answer }
    };
    Router::new().route("/api/v1/targets", get(targets))
}

fn targets(manager: &Manager, query: &HashMap<String, String>, headers: &HeaderMap) -> Response {
    let state = query.get("state").map(|state| state.to_ascii_lowercase());
    let pool = query.get("scrapePool").filter(|pool| !pool.is_empty());
    let wants = |wanted| {
        matches!(state.as_deref(), None | Some("" | "any")) || state.as_deref() == Some(wanted)
    };
    let wants_active = wants("active");
    let mut active = manager.active();
    // Nothing drops targets: relabelling is not there.
    let dropped: Option<BTreeMap<String, u64>> = wants("dropped").then(|| {
        active
            .iter()
            .map(|target| (target.pool.clone(), 0))
            .collect()
    });
    active.retain(|target| wants_active && pool.is_none_or(|pool| *pool == target.pool));
    active.sort_by(|a, b| (&a.pool, &a.target.labels).cmp(&(&b.pool, &b.target.labels)));
    let active: Vec<Value> = active.iter().map(|target| shown(target)).collect();
    let data =
        json!({ "activeTargets": active, "droppedTargets": [], "droppedTargetCounts": dropped });
    respond_json(
        json!({ "status": "success", "data": data }).to_string(),
        headers,
    )
}

fn shown(active: &ActiveTarget) -> Value {
    let status = active.status();
    json!({
        "discoveredLabels": labels(&active.target.discovered),
        "labels": labels(&active.target.labels),
        "scrapePool": active.pool,
        "scrapeUrl": active.target.shown_url,
        "globalUrl": active.target.shown_url,
        "lastError": status.last_error,
        "lastScrape": status.last_scrape_ms.map_or_else(|| "0001-01-01T00:00:00Z".to_owned(), rfc3339),
        "lastScrapeDuration": status.last_duration.as_secs_f64(),
        "lastScrapeBytes": status.body_bytes,
        "lastScrapeSamples": status.samples,
        "health": status.health.as_str(),
        "scrapeInterval": period(active.interval),
        "scrapeTimeout": period(active.timeout),
    })
}

fn labels(set: &LabelSet) -> Value {
    let pairs = set
        .iter()
        .map(|label| (label.name().to_owned(), Value::from(label.value())));
    Value::Object(pairs.collect::<Map<String, Value>>())
}

fn period(duration: Duration) -> String {
    duration::format(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
}
