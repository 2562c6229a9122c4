//! Prometheus remote write, versions 1.0 and 2.0, received and sent.
//!
//! Receiving is: decoders for both messages, the cache that turns a sender's byte-identical labels into columns, and
//! the HTTP handler of `/api/v1/write` with Prometheus' statuses and texts. Sending ([`RemoteStorage`]) is: a sink that
//! writes rounds to a queue on disk for each destination, and what reads, encodes and posts them. It is not: remote read.
//!
//! **Limits**: 32 MiB per request received, compressed or decompressed; bounded bytes being read and requests being
//! decoded, whatever the number of senders. A queue has a bound in bytes; beyond it the oldest samples are given up.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod allowance;
mod block_labels;
mod entries;
mod error;
mod frames;
#[doc(hidden)]
pub mod fuzz;
mod handler;
mod histogram;
mod incoming;
mod labels;
mod message;
mod metrics;
mod place;
mod queue;
mod receiver;
mod refusals;
mod schedule;
mod send;
mod series_cache;
mod series_group;
mod snappy;
mod v1;
mod v2;
mod wire;

pub use error::RemoteError;
pub use handler::{ReceiverConfig, disabled_routes, routes};
pub use message::Message;
pub use metrics::register_metrics;
pub use queue::QueueError;
pub use receiver::{Receiver, ReceiverMemory, Stored, Written};
pub use send::{
    DEFAULT_DISK_BYTES, MetadataConfig, QueueConfig, RemoteStorage, RemoteStorageError,
    RemoteStorageOptions, RemoteWriteConfig, register_send_metrics, status_routes,
};
