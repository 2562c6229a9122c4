//! Metrics that other processes keep in shared memory: format, reader, merging.
//!
//! A process writes its numbers into a file of its own, a **segment**, on a memory file system. [`Pool`] reads all
//! segments of a directory, adds up those of one application and returns a [`Frame`](narthex_model::Frame) per round.
//! A round copies each segment once; names and labels are parsed when a series appears.
//!
//! Bytes: [docs/format/segment.md](../../../docs/format/segment.md). The writers are in the client libraries.
//!
//! What it is not: no network, no rendering, no clock. Linux only: it asks `/proc` whether a writer lives.
//!
//! **Invariant:** every byte of a segment is hostile. A broken one is reported and costs itself, nothing else.
//! **Invariant:** a counter of a merged series never falls while the pool or its directory lives: what a writer counted
//! is in its segment or in the retired totals, and never in both.

#![forbid(unsafe_code)]

mod cells;
mod encode;
mod error;
mod family;
mod file;
#[doc(hidden)]
pub mod fuzz;
mod labels;
mod layout;
mod listing;
mod output;
mod owner;
mod pool;
mod quantile;
mod quota;
mod records;
mod retired;
mod totals;

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: narthex_testkit::alloc::Counting = narthex_testkit::alloc::Counting;

pub use error::SegmentError;
pub use family::MetricKind;
pub use listing::{ListedMetric, ListedSegment, list, set_switch};
pub use pool::{Pool, PoolOptions, Problem, register_metrics};
