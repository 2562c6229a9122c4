//! Metadata of families in requests of their own, as version 1.0 of remote write has it.
//!
//! **Invariant:** metadata never delays samples: it is sent beside them, tried a few times, and left for the next time.

use super::{
    backoff::Backoff,
    destination::Destination,
    encode,
    post::{Compression, Verdict},
};
use crate::{Message, queue::Symbols};
use std::{collections::HashSet, sync::Arc};

/// Attempts for each request.
const ATTEMPTS: u32 = 5;

/// A request, and how many families it has.
pub(super) type MetadataRequest = (Vec<u8>, u64);

/// Returns requests with the families of a file, each with at most `most`.
pub(super) fn requests(symbols: &Symbols, most: usize) -> Vec<MetadataRequest> {
    let mut seen = HashSet::new();
    let families: Vec<_> = symbols
        .families()
        .filter(|family| !family.name.is_empty() && seen.insert(*family))
        .collect();
    families
        .chunks(most.max(1))
        .map(|some| {
            let message = encode::metadata(some.iter().copied());
            (Compression::Snappy.compress(&message), some.len() as u64)
        })
        .collect()
}

/// Sends requests one after the other.
pub(super) async fn send(destination: Arc<Destination>, requests: Vec<MetadataRequest>) {
    for (body, families) in requests {
        let queue = &destination.config.queue;
        let mut backoff = Backoff::new(queue.min_backoff, queue.max_backoff);
        for attempt in 0..ATTEMPTS {
            let now_ms = destination.now_ms();
            let posted =
                destination
                    .poster
                    .post(Message::V1, Compression::Snappy, &body, attempt, now_ms);
            match posted.await {
                Verdict::Taken { .. } => {
                    destination.metrics.metadata.inc_by(families);
                    destination.metrics.metadata_bytes.inc_by(body.len() as u64);
                    break;
                }
                Verdict::Refused { reason, .. } => {
                    destination.metrics.metadata_failed.inc_by(families);
                    tracing::warn!(
                        remote_name = destination.name,
                        families,
                        reason,
                        "A remote end refuses metadata."
                    );
                    break;
                }
                Verdict::Retry { after, .. } if attempt + 1 < ATTEMPTS => {
                    destination.metrics.metadata_retried.inc_by(families);
                    tokio::time::sleep(backoff.pause(after)).await;
                }
                // Metadata has no session.
                Verdict::Retry { .. } | Verdict::SessionLost { .. } => {
                    destination.metrics.metadata_failed.inc_by(families);
                }
            }
        }
    }
}
