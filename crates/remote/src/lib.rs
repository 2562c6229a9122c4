//! Receiver of Prometheus remote write: `/api/v1/write`, versions 1.0 and 2.0.
//!
//! It is: decoders for both messages, the cache that turns a sender's byte-identical labels into columns, and
//! the HTTP handler with Prometheus' statuses and texts. It is not: sending, relabelling, or remote read.
//!
//! **Limits**: 32 MiB per request, compressed or decompressed; bounded bytes being read and requests being decoded,
//! whatever the number of senders.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod allowance;
mod block_labels;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod handler;
mod histogram;
mod incoming;
mod labels;
mod message;
mod metrics;
mod receiver;
mod refusals;
mod schedule;
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
pub use receiver::{Receiver, ReceiverMemory, Written};
