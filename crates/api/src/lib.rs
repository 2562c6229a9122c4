//! The Prometheus HTTP API v1: queries, labels, series, metadata and status.
//!
//! It is: parameters, envelopes, error types and JSON exactly as Prometheus has them, over any store and the query
//! engine. It is not: targets, rules, writing or federation, which the crates that own them mount themselves.
//!
//! **Limits**: queries run on blocking threads, at most `ApiConfig::max_concurrency` at once; form bodies and
//! answers are held whole.

mod answer;
mod config;
mod error;
mod json;
mod listing;
mod metrics;
mod params;
mod query;
mod status;
mod time;

pub use config::{Api, ApiConfig, BuildInfo};
pub use metrics::register_metrics;

use narthex_net::{Router, axum::routing::get};
use std::sync::Arc;

/// Returns the handlers of the API.
pub fn routes(api: Arc<Api>) -> Router {
    Router::new()
        .route("/api/v1/query", get(query::instant).post(query::instant))
        .route("/api/v1/query_range", get(query::range).post(query::range))
        .route("/api/v1/series", get(listing::series).post(listing::series))
        .route(
            "/api/v1/labels",
            get(listing::label_names).post(listing::label_names),
        )
        .route("/api/v1/label/{name}/values", get(listing::label_values))
        .route("/api/v1/metadata", get(listing::metadata))
        .route("/api/v1/status/buildinfo", get(status::build_info))
        .with_state(api)
}
