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

use answer::{Answer, respond};
use error::ApiError;
use http::HeaderMap;
use narthex_net::{
    Router,
    axum::{
        extract::{Request, State},
        routing::{MethodFilter, MethodRouter, get, on, post},
    },
};
use search::SearchKind;
use serde_json::Value;
use std::sync::Arc;

/// How one path is served.
type Route = MethodRouter<Arc<Api>>;

/// Returns the routes of the API.
pub fn routes(api: Arc<Api>) -> Router {
    let all = paths().into_iter();
    let costs = api.engine.cost_limits().is_some().then(cost_paths);
    let all = all.chain(costs.into_iter().flatten());
    let router = all.fold(Router::new(), |router, (path, route)| {
        router.route(path, route)
    });
    router.with_state(api)
}

#[rustfmt::skip]
fn paths() -> [(&'static str, Route); 35] {
    let search = |kind| asked(move |api, request| search::search(api, request, kind));
    let admin = || post(status::admin).put(status::admin);
    [
        ("/api/v1/query", asked(query::instant)),
        ("/api/v1/query_range", asked(query::range)),
        ("/api/v1/query_exemplars", asked(exemplars::exemplars)),
        ("/api/v1/format_query", asked(tree::format_query)),
        ("/api/v1/parse_query", asked(tree::parse_query)),
        ("/api/v1/series", asked(listing::series)),
        ("/api/v1/labels", asked(listing::label_names)),
        ("/api/v1/label/{name}/values", get(listing::label_values)),
        ("/api/v1/metadata", got(listing::metadata)),
        ("/api/v1/features", page(features::features)),
        ("/api/v1/search/metric_names", search(SearchKind::MetricNames)),
        ("/api/v1/search/label_names", search(SearchKind::LabelNames)),
        ("/api/v1/search/label_values", search(SearchKind::LabelValues)),
        ("/api/v1/status/active_queries", page(activity_status::active_queries)),
        ("/api/v1/status/buildinfo", page(status::build_info)),
        ("/api/v1/status/config", page(status::config)),
        ("/api/v1/status/flags", page(status::flags)),
        ("/api/v1/status/memory", page(status::memory)),
        ("/api/v1/status/metric_names_stats", got(activity_status::metric_names_stats)),
        ("/api/v1/status/runtimeinfo", page(status::runtime_info)),
        ("/api/v1/status/self_metrics", got(self_metrics::self_metrics)),
        ("/api/v1/status/top_queries", got(activity_status::top_queries)),
        ("/api/v1/status/tsdb", got(status::tsdb)),
        ("/api/v1/status/tsdb/blocks", page(status::blocks)),
        ("/api/v1/status/walreplay", page(|api| status::wal_replay(&*api.status))),
        ("/api/v1/admin/tsdb/delete_series", admin()),
        ("/api/v1/admin/tsdb/clean_tombstones", admin()),
        ("/api/v1/admin/tsdb/snapshot", admin()),
        ("/version", get(status::version)),
        ("/federate", get(federate::federate)),
        ("/debug/pprof/profile", get(debug::profile)),
        ("/debug/pprof/heap", get(debug::heap)),
        ("/debug/pprof/allocs", get(debug::allocs)),
        ("/debug/pprof/cmdline", get(debug::cmdline)),
        ("/debug/flamegraph", get(debug::flamegraph)),
    ]
}

/// Returns the paths that there are when costs are limited.
fn cost_paths() -> [(&'static str, Route); 2] {
    [
        ("/api/v1/query_cost", asked(estimate::instant)),
        ("/api/v1/query_range_cost", asked(estimate::range)),
    ]
}

/// Serves what `answer` returns, in the API's envelope.
fn serve<F: Future<Output = Result<Answer, ApiError>> + Send>(
    methods: MethodFilter,
    answer: impl Fn(Arc<Api>, Request) -> F + Clone + Send + Sync + 'static,
) -> Route {
    let handler = move |State(api): State<Arc<Api>>, headers: HeaderMap, request: Request| async move {
        respond(answer(api, request).await, &headers)
    };
    on(methods, handler)
}

/// Serves a call that has its parameters in the query string.
fn got<F: Future<Output = Result<Answer, ApiError>> + Send>(
    answer: impl Fn(Arc<Api>, Request) -> F + Clone + Send + Sync + 'static,
) -> Route {
    serve(MethodFilter::GET, answer)
}

/// Serves a call that may have its parameters in a form.
fn asked<F: Future<Output = Result<Answer, ApiError>> + Send>(
    answer: impl Fn(Arc<Api>, Request) -> F + Clone + Send + Sync + 'static,
) -> Route {
    serve(MethodFilter::GET.or(MethodFilter::POST), answer)
}

/// Serves a call without parameters.
fn page(data: fn(&Api) -> Value) -> Route {
    got(move |api, _request| async move { Ok(Answer::json(&data(&api))) })
}
