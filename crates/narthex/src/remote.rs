//! Remote ends: what sends samples to them, and the route at which they send theirs.

use crate::{cli::ServerOptions, lifecycle, memory::Memory, reload, storage::StorageFlags};
use narthex_model::storage::Sink;
use narthex_net::Router;
use narthex_remote::{Message, Receiver, ReceiverConfig, RemoteStorage, RemoteStorageOptions};
use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

/// The wall clock, in milliseconds since the epoch.
pub(crate) type NowMs = Arc<dyn Fn() -> i64 + Send + Sync>;

/// Returns what sends samples to remote ends; there are none yet.
pub(crate) fn sending(data: &Path, now_ms: &NowMs) -> Arc<RemoteStorage> {
    RemoteStorage::new(RemoteStorageOptions {
        dir: data.join("remote"),
        runtime: tokio::runtime::Handle::current(),
        client: reload::client_config(),
        now_ms: Arc::clone(now_ms),
    })
}

/// Sends what waits for remote ends as long as they take it, at most until a clean end would take too long.
pub(crate) async fn flush(remote: Arc<RemoteStorage>, deadline: Duration, begin: Instant) {
    let left = lifecycle::STOP_DEADLINE.saturating_sub(begin.elapsed());
    let flushed = tokio::task::spawn_blocking(move || remote.stop(deadline.min(left)));
    if let Err(error) = flushed.await {
        tracing::error!(%error, "Sending to remote ends ended with a panic.");
    }
}

/// Returns the routes of remote write: where it is received, into `sink`, and how sending does.
///
/// # Errors
/// Fails on a message's name that is unknown.
pub(crate) fn routes(
    options: &ServerOptions,
    ends: &Arc<RemoteStorage>,
    sink: Arc<dyn Sink>,
    memory: &Memory,
    threads: usize,
    now_ms: &NowMs,
) -> Result<Router, String> {
    let with_status = |receiving| {
        let status = narthex_remote::status_routes(Arc::clone(ends));
        memory.guard_writes(receiving).merge(status)
    };
    if !options.remote_write_receiver {
        return Ok(with_status(narthex_remote::disabled_routes()));
    }
    let known = [Message::V1, Message::V2];
    let message = |name: &String| {
        let found = known.iter().find(|message| message.name() == name).copied();
        found.ok_or_else(|| format!("unknown protobuf message {name:?}"))
    };
    let messages = options.remote_write_messages.0.iter().map(message);
    let defaults = ReceiverConfig::default();
    // Half of the share: requests that wait for memory are not refused meanwhile, and the rest is left for decoding.
    let readable = usize::try_from(memory.remote_write.percent(50)).unwrap_or(usize::MAX);
    let config = ReceiverConfig {
        messages: messages.collect::<Result<_, _>>()?,
        decoders: 2 * threads,
        reading_wait: options.remote_write_wait,
        reading_limit_bytes: defaults.reading_limit_bytes.min(readable),
        ..defaults
    };
    let receiver = Receiver::within(sink, Arc::clone(now_ms), &memory.receiving())
        .with_future_limit(StorageFlags::from_options(options).future_limit_ms());
    Ok(with_status(narthex_remote::routes(receiver, config)))
}
