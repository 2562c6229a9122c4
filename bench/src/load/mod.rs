//! What drives servers: fleets that are scraped, requests that are sent, and the clocks both are held against.
//!
//! **Invariant:** load follows its own schedule, never the server's answers, and says what it cost itself.

mod answer;
pub(crate) mod api;
pub(crate) mod client;
pub(crate) mod dataset;
pub(crate) mod fleet;
pub(crate) mod gzip;
pub(crate) mod latency;
pub(crate) mod line;
pub(crate) mod listener;
pub(crate) mod open_loop;
pub(crate) mod paced;
pub(crate) mod protobuf;
pub(crate) mod remote_write;
pub(crate) mod scraper;
pub(crate) mod stall_server;
