//! `/api/v1/targets`.

use crate::{Manager, status::ActiveTarget};
use http::HeaderMap;
use narthex_model::{LabelSet, duration};
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

/// Formats milliseconds since the epoch as RFC 3339 in UTC.
fn rfc3339(time_ms: i64) -> String {
    let (days, ms_of_day) = (
        time_ms.div_euclid(86_400_000),
        time_ms.rem_euclid(86_400_000),
    );
    let (year, month, day) = civil(days);
    let (seconds, ms) = (ms_of_day / 1000, ms_of_day % 1000);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{ms:03}Z",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// Returns year, month and day of a day since the epoch (H. Hinnant, "chrono-compatible low-level date algorithms").
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc3339() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(1_709_164_799_123), "2024-02-28T23:59:59.123Z");
        assert_eq!(rfc3339(1_709_164_800_000), "2024-02-29T00:00:00.000Z");
        assert_eq!(rfc3339(-1), "1969-12-31T23:59:59.999Z");
    }
}
