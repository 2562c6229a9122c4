//! `/api/v1/alertmanagers`.

use crate::notifier::Notifier;
use http::HeaderMap;
use narthex_net::{Router, axum::routing::get, respond_json};
use serde_json::{Value, json};
use std::sync::Arc;

/// Returns the handler that lists a notifier's Alertmanagers.
pub fn routes(notifier: Arc<Notifier>) -> Router {
    let handler = move |headers: HeaderMap| {
        let body = list(&notifier);
        async move { respond_json(body, &headers) }
    };
    Router::new().route("/api/v1/alertmanagers", get(handler))
}

/// Writes the list, its keys in Prometheus' order.
fn list(notifier: &Notifier) -> String {
    let (active, dropped) = notifier.alertmanagers();
    let urls = |urls: Vec<String>| {
        let urls = urls.into_iter().map(|url| json!({ "url": url }));
        urls.collect::<Value>()
    };
    format!(
        r#"{{"status":"success","data":{{"activeAlertmanagers":{},"droppedAlertmanagers":{}}}}}"#,
        urls(active),
        urls(dropped)
    )
}
