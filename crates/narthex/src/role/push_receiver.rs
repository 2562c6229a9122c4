//! The push API inside `narthex server`: pushed groups are origins of its storage.
//!
//! **Invariant:** an acknowledged push is in storage and in the journal of groups. A group that is deleted or expires ends
//! its series.

use super::push_upkeep::{self, now_ns};
use crate::{cli::ServerOptions, memory::Memory, worker::Worker};
use narthex_model::storage::Sink;
use narthex_net::Router;
use narthex_push::{Limits, NowNs, Store, StoreConfig, api_routes};
use std::{io, path::Path, sync::Arc, time::Duration};

/// Longest body of a push.
const BODY_BYTES: usize = 64 << 20;
/// Longest time for a body to arrive.
const BODY_TIMEOUT: Duration = Duration::from_mins(1);
/// Most pushes worked on at once.
const CONCURRENCY: usize = 64;

/// Starts accepting pushes: restores the groups of the last run, whose samples then go to `sink` again. Returns the
/// routes of the API and the thread that ends groups.
///
/// # Errors
/// Fails when the journal of groups cannot be used, or no thread can be started.
pub(super) async fn start(
    options: &ServerOptions,
    sink: Arc<dyn Sink>,
    memory: &Memory,
) -> io::Result<(Router, Worker)> {
    let config = StoreConfig {
        utf8_names: true,
        keep_timestamps: options.push_timestamps,
        ttl_ms: options.push_ttls.0.clone(),
        interval_ms: options.push_intervals.0.clone(),
        aggregate: options.push_aggregate.0.clone(),
        memory: Some(memory.senders.clone()),
        ..StoreConfig::default()
    };
    let file = options.storage_path.join("push").join("groups");
    let opened = tokio::task::spawn_blocking(move || open(config, sink, &file));
    let store = Arc::new(opened.await.map_err(io::Error::other)??);
    let reading = usize::try_from(memory.remote_write.limit_bytes() / 4);
    let reading = reading.unwrap_or(usize::MAX);
    let limits = Limits {
        body_bytes: BODY_BYTES.min(reading),
        reading_bytes: reading,
        body_timeout: BODY_TIMEOUT,
        concurrency: CONCURRENCY,
        wait: options.remote_write_wait,
    };
    let upkeep = push_upkeep::start(Arc::clone(&store))?;
    Ok((api_routes(store, limits), upkeep))
}

fn open(config: StoreConfig, sink: Arc<dyn Sink>, file: &Path) -> io::Result<Store> {
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let now_ns: NowNs = Arc::new(now_ns);
    let store = Store::open(config, now_ns, file)?.with_sink(sink);
    // Before the first push, which may leave series out: only what was stored by this process gets a marker.
    store.repeat(0);
    Ok(store)
}
