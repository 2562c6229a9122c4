//! Scraping: targets, their schedules, and the loops that turn bodies into frames for a sink.
//!
//! It is: [`Target`]s built from a [`JobConfig`], one [`Manager`] that runs a loop for each, staleness markers, the
//! synthetic series (`up` and its kin, in the same strip as the target's own), and `/api/v1/targets`. Sources inside
//! the process ([`LocalSource`]) are targets too: same schedule, same synthetic series, no HTTP. It is not:
//! discovery or relabelling.
//!
//! **Limits**: a body is read and parsed whole; the buffer it is read into is shared by all loops of a manager.

mod buffers;
mod config;
mod error;
mod local;
mod manager;
mod metrics;
mod report;
mod resolve;
mod routes;
mod schedule;
mod scrape_loop;
mod status;
mod target;

pub use config::{JobConfig, Limits, StaticGroup};
pub use error::ScrapeError;
pub use local::LocalSource;
pub use manager::{Manager, ManagerConfig};
pub use metrics::register_metrics;
pub use routes::routes;
pub use status::{Health, TargetStatus};
pub use target::Target;
