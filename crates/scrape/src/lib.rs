//! Scraping: targets, their schedules, and the loops that turn bodies into frames for a sink.
//!
//! It is: [`JobConfig`], which says what a job scrapes and how; one [`Manager`], whose [`Manager::apply`] relabels
//! discovered groups into targets and runs a loop for each, leaving unchanged ones alone; staleness markers; the
//! synthetic series (`up` and the like, in the same strip as the target's own); and the API's routes about targets.
//! Sources inside the process ([`LocalSource`]) are targets too: same schedule, same synthetic series, no HTTP. It is
//! not: discovery.
//!
//! **Limits**: a body is read and parsed whole, into a buffer shared by all loops of a manager. Pages and the series of
//! targets take memory only from [`ScrapeMemory`].

#![forbid(unsafe_code)]

mod buffers;
mod config;
mod error;
mod failure_log;
mod local;
mod manager;
mod memory;
mod metrics;
mod origin;
mod page;
mod plan;
mod pool;
mod preview;
mod report;
mod resolve;
mod routes;
mod schedule;
mod scrape_loop;
mod status;
mod target;
mod why;
mod zeros;

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: narthex_testkit::alloc::Counting = narthex_testkit::alloc::Counting;

pub use config::{JobConfig, Limits, StartTimes, StaticGroup};
pub use error::ScrapeError;
pub use local::LocalSource;
pub use manager::{LocalHandle, Manager, ManagerConfig};
pub use memory::ScrapeMemory;
pub use metrics::register_metrics;
pub use plan::is_own_scrape;
pub use preview::Preview;
pub use routes::{ParseSelector, RouteLimits, routes};
pub use status::{Health, TargetStatus};
pub use target::Target;
