//! The push gateway: keeps metrics, by group, from processes that cannot be scraped, until it is scraped itself.
//!
//! It has grouping keys from paths, bodies decoded along the group's last one, a store whose consistency check costs
//! what a push carries, its journal, and the Pushgateway's HTTP interface. It is not a time series database, an
//! aggregator over processes, or a server.
//!
//! **Limits**: body size and time, the bytes of all bodies being read and the requests worked on at once are bounded
//! ([`GatewayConfig`]); excess is refused, and every wait has a limit.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod aggregate;
mod answers;
mod api;
mod asked;
mod batch;
mod body;
mod decode;
mod error;
mod family;
mod forward;
#[doc(hidden)]
pub mod fuzz;
mod gauges;
mod gob;
mod group;
mod grouping;
mod handler;
mod heads;
mod journal;
mod json;
mod layout;
mod merge;
mod metrics;
mod page;
mod plan;
mod receiver;
mod record;
mod registry;
mod split;
mod state;
mod status;
mod store;
mod text;

pub use aggregate::GaugeMode;
pub use api::api_routes;
pub use asked::Asked;
pub use error::PushError;
pub use grouping::Grouping;
pub use handler::{GatewayConfig, routes};
pub use json::Status;
pub use merge::{Merge, Merged, Timestamps};
pub use metrics::register_metrics;
pub use page::own_families;
pub use receiver::Limits;
pub use store::{NowNs, Push, Store, StoreConfig};
