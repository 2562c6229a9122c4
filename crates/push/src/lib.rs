//! The push gateway: what processes that cannot be scraped push is kept, by group, until it is scraped.
//!
//! It is: grouping keys from paths, bodies that become families along the group's last one, a store whose check of
//! consistency costs what a push carries, its journal, and the Pushgateway's HTTP interface. It is not: a time series
//! database, a counter of many processes, or a server.
//!
//! **Limits**: bodies, their time, the bytes of all that are being read and the requests worked on at once are bounded
//! ([`GatewayConfig`]); what is over is refused, and nothing waits without an end.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod body;
mod decode;
mod error;
mod family;
#[doc(hidden)]
pub mod fuzz;
mod gob;
mod group;
mod grouping;
mod handler;
mod heads;
mod journal;
mod json;
mod metrics;
mod page;
mod record;
mod registry;
mod status;
mod store;

pub use error::PushError;
pub use grouping::Grouping;
pub use handler::{GatewayConfig, routes};
pub use json::Status;
pub use metrics::register_metrics;
pub use page::own_families;
pub use store::{NowNs, Push, Store, StoreConfig};
