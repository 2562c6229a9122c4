//! How destinations do, as JSON: `/api/v1/status/remote_write`. Prometheus has no such call.

use super::storage::RemoteStorage;
use narthex_model::{date::rfc3339, sync::Whole as _};
use narthex_net::{Router, axum::routing::get, respond_json};
use serde_json::json;
use std::sync::Arc;

/// How a destination does.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DestinationStatus {
    /// Its name in metrics and logs.
    pub name: String,
    /// Where requests are sent.
    pub url: String,
    /// The message in use.
    pub message: &'static str,
    /// Requests at a time.
    pub shards: usize,
    /// Most requests at a time.
    pub max_shards: usize,
    /// Samples that wait.
    pub pending_samples: u64,
    /// Samples, histograms and exemplars that were taken since the start.
    pub sent_samples: u64,
    /// Those that were refused for good since the start.
    pub refused_samples: u64,
    /// Samples that were given up since the start.
    pub dropped_samples: u64,
    /// Files and bytes of the queue on disk, and its bound.
    pub queue_files: usize,
    /// Bytes of the queue on disk.
    pub queue_bytes: u64,
    /// Most bytes of the queue on disk.
    pub queue_limit_bytes: u64,
    /// Seconds between the newest sample that came and the newest that was sent.
    pub behind_seconds: f64,
    /// Time of the newest sample that was sent, in milliseconds since the epoch; 0 for none.
    pub newest_sent_ms: i64,
    /// Since when nothing is taken, in milliseconds since the epoch.
    pub failing_since_ms: Option<i64>,
    /// The last error, and when it was.
    pub last_error: Option<(i64, String)>,
}

impl RemoteStorage {
    /// Returns how each destination does, in the order of the configuration.
    #[must_use]
    pub fn status(&self) -> Vec<DestinationStatus> {
        let destinations = self.with_current(|current| current.destinations.clone());
        destinations
            .iter()
            .map(|destination| {
                let mut cursor = destination.cursor().lock().whole();
                let pending_samples = cursor.save(&destination.queue);
                let shards = cursor.workers().iter();
                let shards = shards
                    .map(|worker| worker.lock().whole().range().shards.len())
                    .sum();
                drop(cursor);
                let queue = destination.queue.status();
                let health = destination.health();
                let (sent_samples, refused_samples) = destination.answered();
                DestinationStatus {
                    name: destination.name.clone(),
                    url: destination.config.url.to_string(),
                    message: destination.protocol.message().name(),
                    shards,
                    max_shards: destination.config.queue.max_shards,
                    pending_samples,
                    sent_samples,
                    refused_samples,
                    dropped_samples: destination.metrics.dropped_total(),
                    queue_files: queue.files,
                    queue_bytes: queue.bytes,
                    queue_limit_bytes: destination.config.queue.max_disk_bytes,
                    behind_seconds: destination.behind_seconds(),
                    newest_sent_ms: destination.highest_sent_ms(),
                    failing_since_ms: health.failing_since_ms,
                    last_error: health.last_error,
                }
            })
            .collect()
    }
}

/// Returns the route of the status.
pub fn status_routes(storage: Arc<RemoteStorage>) -> Router {
    let status = move |headers: http::HeaderMap| {
        let storage = Arc::clone(&storage);
        async move {
            let data: Vec<_> = storage.status().iter().map(shown).collect();
            let answer = json!({ "status": "success", "data": data });
            respond_json(answer.to_string(), &headers)
        }
    };
    Router::new().route("/api/v1/status/remote_write", get(status))
}

fn shown(status: &DestinationStatus) -> serde_json::Value {
    json!({
        "name": status.name,
        "url": status.url,
        "message": status.message,
        "shards": status.shards,
        "maxShards": status.max_shards,
        "pendingSamples": status.pending_samples,
        "sentSamples": status.sent_samples,
        "refusedSamples": status.refused_samples,
        "droppedSamples": status.dropped_samples,
        "queueFiles": status.queue_files,
        "queueBytes": status.queue_bytes,
        "queueLimitBytes": status.queue_limit_bytes,
        "behindSeconds": status.behind_seconds,
        "newestSent": (status.newest_sent_ms > 0).then(|| rfc3339(status.newest_sent_ms)),
        "failingSince": status.failing_since_ms.map(rfc3339),
        "lastError": status.last_error.as_ref().map(|(_, text)| text),
        "lastErrorTime": status.last_error.as_ref().map(|(at_ms, _)| rfc3339(*at_ms)),
    })
}
