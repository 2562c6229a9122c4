//! The API's routes about rules: `/api/v1/rules` and `/api/v1/alerts`.
//!
//! **Invariant:** a list is prepared off the serving threads within a budget, and never waits for an evaluation.

mod listing;
mod params;

use crate::eval::Manager;
use http::HeaderMap;
use narthex_model::storage::{Budget, Lease};
use narthex_net::{
    Gate, Refusal, Router,
    axum::{extract::Query, response::Response, routing::get},
    respond_json,
};
use params::Filter;
use serde::Serialize;
use serde_json::json;
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

/// Makes the JSON of a list.
type Make = fn(&Routes, &Params) -> Result<Vec<u8>, Refusal>;

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

fn rules(routes: &Routes, params: &Params) -> Result<Vec<u8>, Refusal> {
    let filter = Filter::read(params).map_err(Refusal::BadData)?;
    let groups = routes.manager.groups();
    let _held = routes.lease(listing::bytes_of(&groups))?;
    let page = listing::rules(&groups, &filter).map_err(Refusal::BadData)?;
    Ok(success(&page))
}

fn alerts(routes: &Routes, _: &Params) -> Result<Vec<u8>, Refusal> {
    let groups = routes.manager.groups();
    let _held = routes.lease(listing::bytes_of(&groups))?;
    Ok(success(&json!({ "alerts": listing::alerts(&groups) })))
}

fn success(data: &impl Serialize) -> Vec<u8> {
    #[derive(Serialize)]
    struct Envelope<'a, T> {
        status: &'static str,
        data: &'a T,
    }
    let envelope = Envelope {
        status: "success",
        data,
    };
    serde_json::to_vec(&envelope).expect("names are texts and no value fails")
}

impl Routes {
    fn lease(&self, bytes: u64) -> Result<Lease, Refusal> {
        self.limits
            .memory
            .lease(bytes)
            .map_err(Refusal::over_budget)
    }

    /// Runs `make` off the serving threads.
    async fn answer(self: Arc<Self>, params: Params, headers: HeaderMap, make: Make) -> Response {
        let routes = Arc::clone(&self);
        let make = move || make(&routes, &params);
        let made = self.gate.prepare(self.limits.wait, make).await;
        match made {
            Ok(body) => respond_json(body, &headers),
            Err(refusal) => refusal.respond(&headers),
        }
    }
}
