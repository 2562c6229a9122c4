//! Dump files: metrics that processes write to disk because they cannot be scraped.
//!
//! It is: entries of patterns ([`FilesConfig`]) whose files are looked at on a schedule ([`FilesManager`]), each file an
//! origin with labels of its own and an `up`; half-written files that are recognised; directories of the Python
//! client's multiprocess mode. It is not: a follower of logs, or node_exporter's textfile collector, which is a
//! [`RoundSource`] of its own.
//!
//! **Limits**: a file is read whole, up to [`FilesConfig::file_size_limit`]; what is kept of files is leased from a
//! budget.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod config;
#[doc(hidden)]
pub mod fuzz;
mod labels;
mod look;
mod manager;
mod metrics;
mod origin;
mod python;
mod source;
mod stamp;
mod watch;

pub use config::{FileKind, FilesConfig, PathLabels};
pub use manager::{Entry, FilesManager, ManagerConfig, RoundSource};
pub use metrics::register_metrics;
pub use source::FileSource;

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: narthex_testkit::alloc::Counting = narthex_testkit::alloc::Counting;
