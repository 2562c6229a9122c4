//! Remote write, sent: rounds go to a queue on disk for each destination, and from there in batches over HTTP.
//!
//! ```text
//! Sink ─ bind ─ labels resolved ─┐
//!        append ─ QueueWriter ───┴─ queue on disk ─ worker (a thread: reads, encodes) ─ shards (tasks: send, retry)
//! ```
//!
//! **Invariant:** what a sink's append took is sent until the destination takes or refuses it, over restarts, unless the
//! queue's bounds make it give up the oldest, which is counted. Samples of one series are sent in order.

mod backoff;
mod batch;
mod config;
mod control;
mod destination;
mod encode;
mod metadata;
mod metrics;
mod post;
mod progress;
mod reshard;
mod shard;
mod sink;
mod spread;
mod status;
mod storage;
mod worker;

pub use config::{DEFAULT_DISK_BYTES, MetadataConfig, QueueConfig, RemoteWriteConfig};
pub use metrics::register_send_metrics;
pub use status::status_routes;
pub use storage::{RemoteStorage, RemoteStorageError, RemoteStorageOptions};
