//! The Prometheus HTTP API v1: queries, labels, series, metadata and status.
//!
//! It has parameters, envelopes, error types and JSON exactly like Prometheus, over any store and the query engine;
//! federation; profiles of the process. It does not have targets, rules or writing, which their own crates mount.
//!
//! **Limits**: queries run on blocking threads, at most `ApiConfig::max_concurrency` at once; form bodies are held
//! whole, long responses are written while they are sent.

#![forbid(unsafe_code)]

mod activity;
mod activity_status;
mod answer;
mod call;
mod config;
mod cost;
mod debug;
mod error;
mod estimate;
mod exemplars;
mod features;
mod federate;
#[doc(hidden)]
pub mod fuzz;
mod json;
mod kept;
mod listing;
mod metrics;
mod params;
mod process;
mod query;
mod search;
mod self_metrics;
mod short_questions;
mod stats;
mod status;
#[cfg(test)]
mod tests;
mod time;
mod tree;

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: narthex_testkit::alloc::Counting = narthex_testkit::alloc::Counting;

pub use activity::{Activity, Origin, register_cost_metrics};
pub use config::{Api, ApiConfig, BuildInfo};
pub use debug::profile_routes;
pub use metrics::register_metrics;
pub use process::{BlockStatus, MemoryStatus, RuntimeInfo, ServerStatus, WalReplay};
pub use status::early_routes;

use narthex_net::{
    Router,
    axum::routing::{MethodRouter, get, post},
};
use std::sync::Arc;

/// Returns the routes of the API.
pub fn routes(api: Arc<Api>) -> Router {
    let admin = || -> MethodRouter<Arc<Api>> { post(status::admin).put(status::admin) };
    Router::new()
        .route("/api/v1/query", get(query::instant).post(query::instant))
        .route("/api/v1/query_range", get(query::range).post(query::range))
        .route(
            "/api/v1/query_exemplars",
            get(exemplars::exemplars).post(exemplars::exemplars),
        )
        .route(
            "/api/v1/format_query",
            get(tree::format_query).post(tree::format_query),
        )
        .route(
            "/api/v1/parse_query",
            get(tree::parse_query).post(tree::parse_query),
        )
        .route("/api/v1/series", get(listing::series).post(listing::series))
        .route(
            "/api/v1/labels",
            get(listing::label_names).post(listing::label_names),
        )
        .route("/api/v1/label/{name}/values", get(listing::label_values))
        .route("/api/v1/metadata", get(listing::metadata))
        .route("/api/v1/status/buildinfo", get(status::build_info))
        .route("/api/v1/status/config", get(status::config))
        .route("/api/v1/status/flags", get(status::flags))
        .route("/api/v1/status/runtimeinfo", get(status::runtime_info))
        .route("/api/v1/status/tsdb", get(status::tsdb))
        .route("/api/v1/status/tsdb/blocks", get(status::blocks))
        .route(
            "/api/v1/status/self_metrics",
            get(self_metrics::self_metrics),
        )
        .route("/api/v1/features", get(features::features))
        .route(
            "/api/v1/search/metric_names",
            get(search::metric_names).post(search::metric_names),
        )
        .route(
            "/api/v1/search/label_names",
            get(search::label_names).post(search::label_names),
        )
        .route(
            "/api/v1/search/label_values",
            get(search::label_values).post(search::label_values),
        )
        .route("/api/v1/status/walreplay", get(status::wal_replay))
        .route(
            "/api/v1/status/active_queries",
            get(activity_status::active_queries),
        )
        .route(
            "/api/v1/status/top_queries",
            get(activity_status::top_queries),
        )
        .route(
            "/api/v1/status/metric_names_stats",
            get(activity_status::metric_names_stats),
        )
        .route("/api/v1/status/memory", get(status::memory))
        .route("/api/v1/admin/tsdb/delete_series", admin())
        .route("/api/v1/admin/tsdb/clean_tombstones", admin())
        .route("/api/v1/admin/tsdb/snapshot", admin())
        .route("/version", get(status::version))
        .route("/federate", get(federate::federate))
        .merge(debug_routes())
        .merge(cost_routes(&api))
        .with_state(api)
}

/// Returns the routes that there are when costs are limited.
fn cost_routes(api: &Api) -> Router<Arc<Api>> {
    if api.engine.cost_limits().is_none() {
        return Router::new();
    }
    Router::new()
        .route(
            "/api/v1/query_cost",
            get(estimate::instant).post(estimate::instant),
        )
        .route(
            "/api/v1/query_range_cost",
            get(estimate::range).post(estimate::range),
        )
}

fn debug_routes() -> Router<Arc<Api>> {
    Router::new()
        .route("/debug/pprof/profile", get(debug::profile))
        .route("/debug/pprof/heap", get(debug::heap))
        .route("/debug/pprof/allocs", get(debug::allocs))
        .route("/debug/pprof/cmdline", get(debug::cmdline))
        .route("/debug/flamegraph", get(debug::flamegraph))
}
