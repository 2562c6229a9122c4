//! The push API as a part of another server, whose own metrics, health and lifecycle have the other paths.
//!
//! **Invariant:** a push is answered as by the gateway; only pushes and deletions are at the gateway's paths.

use crate::{
    answers::{not_allowed, not_found},
    batch,
    grouping::Grouping,
    handler::{self, path_of},
    json,
    receiver::{Limits, Receiver},
    status,
    store::Store,
};
use http::{HeaderMap, Method};
use narthex_net::{
    Router,
    axum::{
        extract::{Request, State},
        response::Response,
        routing::{any, get},
    },
    respond_json, run_long,
};
use std::sync::Arc;

struct Shared {
    store: Arc<Store>,
    receiver: Receiver,
}

/// Returns the routes of pushes: `/metrics/job/…` and `/api/v1/push`; `/api/v1/push/groups` lists what is held, and
/// `/push` is a page of it.
pub fn api_routes(store: Arc<Store>, limits: Limits) -> Router {
    let shared = Arc::new(Shared {
        receiver: Receiver::new(Arc::clone(&store), limits),
        store,
    });
    let script = |headers: HeaderMap| async move { status::script(&headers) };
    Router::new()
        .route("/metrics/job/{*group}", any(group))
        .route("/metrics/job@base64/{*group}", any(group))
        .route("/api/v1/push", any(batch))
        .route("/api/v1/push/groups", get(groups))
        .route("/push", get(page))
        .route("/push/push.js", get(script))
        .with_state(shared)
}

async fn group(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let path = match path_of(&request) {
        Ok(path) => path,
        Err(response) => return *response,
    };
    let group = path.strip_prefix("/metrics/").unwrap_or_default();
    match Grouping::from_path(group, shared.store.config().utf8_names) {
        Some(grouping) => handler::change(&shared.store, &shared.receiver, grouping, request).await,
        None => not_found(),
    }
}

async fn batch(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let method = request.method().clone();
    if method != Method::PUT && method != Method::POST {
        return not_allowed(&method, "OPTIONS, POST, PUT");
    }
    let response = batch::answer(&shared.receiver, request).await;
    handler::count("batch", &method, response.status());
    response
}

async fn groups(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let body = run_long(usize::MAX, || json::metrics(&shared.store));
    respond_json(body, &headers)
}

async fn page(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    status::page(&shared.store, None, "push/push.js", &headers)
}
