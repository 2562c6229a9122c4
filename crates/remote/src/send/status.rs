//! How destinations do, as JSON: `/api/v1/status/remote_write`. Prometheus has no such call.

use super::{destination::Destination, storage::RemoteStorage};
use narthex_model::{date::rfc3339, sync::Whole as _};
use narthex_net::{Router, axum::routing::get, respond_json};
use serde_json::{Value, json};
use std::sync::Arc;

impl RemoteStorage {
    /// Returns how each destination does, in the order of the configuration.
    #[must_use]
    pub fn status(&self) -> Vec<Value> {
        let destinations = self.with_current(|current| current.destinations.clone());
        destinations.iter().map(|one| status_of(one)).collect()
    }
}

/// Sent and refused are samples, histograms and exemplars since the start; dropped are samples since then.
fn status_of(destination: &Destination) -> Value {
    let mut cursor = destination.cursor();
    let pending = cursor.save(&destination.queue);
    let workers = cursor.workers().iter();
    let shards = workers.map(|worker| worker.lock().whole().range().shards.len());
    let shards: usize = shards.sum();
    drop(cursor);
    let queue = destination.queue.status();
    let health = destination.health();
    let (sent, refused) = destination.answered();
    let newest_sent_ms = destination.highest_sent_ms();
    let (error_ms, error) = health.last_error.unzip();
    json!({
        "name": destination.name,
        "url": destination.config.url.to_string(),
        "message": destination.protocol.message().name(),
        "shards": shards,
        "maxShards": destination.config.queue.max_shards,
        "pendingSamples": pending,
        "sentSamples": sent,
        "refusedSamples": refused,
        "droppedSamples": destination.metrics.dropped_total(),
        "queueFiles": queue.files,
        "queueBytes": queue.bytes,
        "queueLimitBytes": destination.config.queue.max_disk_bytes,
        "behindSeconds": destination.behind_seconds(),
        "newestSent": (newest_sent_ms > 0).then(|| rfc3339(newest_sent_ms)),
        "failingSince": health.failing_since_ms.map(rfc3339),
        "lastError": error,
        "lastErrorTime": error_ms.map(rfc3339),
    })
}

/// Returns the route of the status.
pub fn status_routes(storage: Arc<RemoteStorage>) -> Router {
    let status = move |headers: http::HeaderMap| {
        let storage = Arc::clone(&storage);
        async move {
            let answer = json!({ "status": "success", "data": storage.status() });
            respond_json(answer.to_string(), &headers)
        }
    };
    Router::new().route("/api/v1/status/remote_write", get(status))
}
