//! The API's routes about rules: `/api/v1/rules` and `/api/v1/alerts`.
//!
//! **Invariant:** a list is prepared off the serving threads within a budget, and never waits for an evaluation.

mod listing;
mod params;

use crate::eval::Manager;
use http::HeaderMap;
use listing::{Groups, alert_list, rule_list};
use narthex_model::storage::{Budget, Lease};
use narthex_net::{
    Gate, ListingResponse, Refusal, Router,
    axum::{extract::Query, response::Response, routing::get},
};
use params::Filter;
use std::{sync::Arc, time::Duration};

/// Lists that may be prepared at once: preparing one visits every rule.
const AT_ONCE: usize = 4;

/// Limits of the routes.
#[derive(Clone, Debug)]
pub struct RouteLimits {
    /// Memory of all lists until they have been sent.
    pub memory: Budget,
    /// How long a request waits for others to finish.
    pub wait: Duration,
}

/// Parameters, in the order of the request.
type Params = Vec<(String, String)>;

struct Routes {
    manager: Arc<Manager>,
    limits: RouteLimits,
    gate: Gate,
}

/// Begins a list.
type Make = fn(&Routes, &Params) -> Result<ListingResponse, Refusal>;

/// Returns the handlers of rules.
pub fn routes(manager: Arc<Manager>, limits: RouteLimits) -> Router {
    let routes = Arc::new(Routes {
        manager,
        limits,
        gate: Gate::new("rules", AT_ONCE),
    });
    let route = |path: &str, make: Make| {
        let routes = Arc::clone(&routes);
        let handler = move |Query(params): Query<Params>, headers: HeaderMap| {
            let routes = Arc::clone(&routes);
            async move { routes.answer(params, headers, make).await }
        };
        Router::new().route(path, get(handler))
    };
    Router::new()
        .merge(route("/api/v1/rules", rules))
        .merge(route("/api/v1/alerts", alerts))
}

fn rules(routes: &Routes, params: &Params) -> Result<ListingResponse, Refusal> {
    let filter = Filter::read(params).map_err(Refusal::BadData)?;
    let groups = routes.manager.groups();
    let lease = routes.lease(&groups)?;
    let was_read = |metric: &str| routes.manager.was_read(metric);
    let list = rule_list(&groups, &filter, &was_read).map_err(Refusal::BadData)?;
    Ok(ListingResponse::new(list, lease))
}

fn alerts(routes: &Routes, _: &Params) -> Result<ListingResponse, Refusal> {
    let groups = routes.manager.groups();
    let lease = routes.lease(&groups)?;
    Ok(ListingResponse::new(alert_list(&groups), lease))
}

impl Routes {
    /// Leases what a list holds until it has been sent, and a piece of its text.
    fn lease(&self, groups: &Groups) -> Result<Lease, Refusal> {
        let bytes = listing::held_bytes(groups) + ListingResponse::MAX_PIECE_BYTES;
        let lease = self.limits.memory.lease(bytes as u64);
        lease.map_err(Refusal::over_budget)
    }

    /// Runs `make` off the serving threads.
    async fn answer(self: Arc<Self>, params: Params, headers: HeaderMap, make: Make) -> Response {
        let routes = Arc::clone(&self);
        let make = move || make(&routes, &params);
        let made = self.gate.prepare(self.limits.wait, make).await;
        match made {
            Ok(list) => list.respond(&headers),
            Err(refusal) => refusal.respond(&headers),
        }
    }
}
