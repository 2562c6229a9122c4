//! The API's routes about targets: `/api/v1/targets` and the routes below it, `/api/v1/scrape_pools`.
//!
//! **Invariant:** pools are read off the serving threads: a pool that is being changed, which may take a second, delays
//! no other request.

mod listing;
#[cfg(test)]
mod tests;

use crate::{config::JobConfig, manager::Manager, why};
use http::HeaderMap;
use listing::{Metadata, Targets, labels};
use narthex_model::{
    LabelSet, Matcher, relabel,
    storage::{Budget, Context, Lease},
};
use narthex_net::{
    Gate, Listing, ListingResponse, Refusal, Router,
    axum::{extract::Query, response::Response, routing::get},
    respond_json,
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

type Params = Query<HashMap<String, String>>;

/// Parses a selector of targets, such as `{job="api",zone=~"eu-.*"}`, within the budget of its context; the lease is held
/// as long as the matchers. The error is for the client.
pub type ParseSelector = fn(&str, &Context) -> Result<(Vec<Matcher>, Lease), String>;

/// Limits of the routes.
#[derive(Clone, Debug)]
pub struct RouteLimits {
    /// Memory of all lists until they have been sent.
    pub memory: Budget,
    /// How long a request waits for others to finish.
    pub wait: Duration,
}

impl Default for RouteLimits {
    /// Returns limits with unlimited memory, for tests and tools.
    fn default() -> Self {
        Self {
            memory: Budget::unlimited(),
            wait: Duration::from_mins(2),
        }
    }
}

/// Lists that may be prepared at once: preparing one visits every target.
const AT_ONCE: usize = 4;

/// State shared by the handlers.
struct Routes {
    manager: Arc<Manager>,
    limits: RouteLimits,
    parse_selector: ParseSelector,
    gate: Gate,
}

/// Returns the handlers of scraping.
pub fn routes(manager: Arc<Manager>, limits: RouteLimits, parse_selector: ParseSelector) -> Router {
    let routes = Arc::new(Routes {
        manager,
        limits,
        parse_selector,
        gate: Gate::new("targets", AT_ONCE),
    });
    let route = |path: &str, make: Make| {
        let routes = Arc::clone(&routes);
        let handler = move |Query(query): Params, headers: HeaderMap| {
            let routes = Arc::clone(&routes);
            async move { routes.answer(query, headers, make).await }
        };
        Router::new().route(path, get(handler))
    };
    Router::new()
        .merge(route("/api/v1/targets", targets))
        .merge(route("/api/v1/targets/metadata", metadata))
        .merge(route("/api/v1/targets/relabel_steps", relabel_steps))
        .merge(route("/api/v1/scrape_pools", pools))
        .merge(route("/api/v1/scrape_pools/config", pool_config))
}

/// Builds a response from a request's parameters.
type Make = fn(&Routes, &HashMap<String, String>) -> Result<Made, Refusal>;

/// A response's data, or a list with its envelope.
enum Made {
    Data(Value),
    List(ListingResponse),
}

impl Routes {
    /// Runs `make` off the serving threads.
    async fn answer(
        self: Arc<Self>,
        query: HashMap<String, String>,
        headers: HeaderMap,
        make: Make,
    ) -> Response {
        let routes = Arc::clone(&self);
        let make = move || make(&routes, &query);
        let made = self.gate.prepare(self.limits.wait, make).await;
        match made {
            Ok(Made::List(response)) => response.respond(&headers),
            Ok(Made::Data(data)) => {
                let body = json!({ "status": "success", "data": data });
                respond_json(body.to_string(), &headers)
            }
            Err(refusal) => refusal.respond(&headers),
        }
    }
}

/// Returns a parameter if it is present and not empty.
fn text<'a>(query: &'a HashMap<String, String>, name: &str) -> Option<&'a str> {
    let text = query.get(name).map(String::as_str);
    text.filter(|text| !text.is_empty())
}

/// Begins a list, with the memory of what it holds and of a piece.
fn leased(
    list: impl Listing,
    held_bytes: usize,
    memory: &Budget,
) -> Result<ListingResponse, Refusal> {
    let bytes = held_bytes + ListingResponse::MAX_PIECE_BYTES;
    let lease = memory.lease(bytes as u64).map_err(Refusal::over_budget)?;
    Ok(ListingResponse::new(list, lease))
}

fn targets(routes: &Routes, query: &HashMap<String, String>) -> Result<Made, Refusal> {
    let pools = routes.manager.pools();
    let list = Targets::new(pools, text(query, "state"), text(query, "scrapePool"));
    let held_bytes = list.held_bytes();
    leased(list, held_bytes, &routes.limits.memory).map(Made::List)
}

fn metadata(routes: &Routes, query: &HashMap<String, String>) -> Result<Made, Refusal> {
    let limit = match text(query, "limit").map(str::parse::<i64>) {
        None => usize::MAX,
        Some(Ok(limit)) => usize::try_from(limit).unwrap_or(usize::MAX),
        Some(Err(_)) => return Err(Refusal::BadData("limit must be a number".to_owned())),
    };
    let ctx = Context {
        budget: routes.limits.memory.clone(),
        ..Context::unlimited()
    };
    let selector = text(query, "match_target").map(|text| (routes.parse_selector)(text, &ctx));
    let selector = selector.transpose().map_err(|error| {
        Refusal::BadData(format!("invalid parameter \"match_target\": {error}"))
    })?;
    let metric = text(query, "metric").map(str::to_owned);
    let list = Metadata::new(&routes.manager.pools(), selector, metric, limit);
    let held_bytes = list.held_bytes();
    leased(list, held_bytes, &routes.limits.memory).map(Made::List)
}

fn pools(routes: &Routes, _: &HashMap<String, String>) -> Result<Made, Refusal> {
    let names = routes.manager.pool_names();
    Ok(Made::Data(json!({ "scrapePools": names })))
}

fn pool_config(routes: &Routes, query: &HashMap<String, String>) -> Result<Made, Refusal> {
    let job = pool_of(&routes.manager, query).map_err(Refusal::BadData)?;
    Ok(Made::Data(json!({ "yaml": &*job.shown })))
}

fn relabel_steps(routes: &Routes, query: &HashMap<String, String>) -> Result<Made, Refusal> {
    let steps = steps_of(&routes.manager, query).map_err(Refusal::BadData)?;
    Ok(Made::Data(json!({ "steps": steps })))
}

/// Returns the configuration of the requested pool.
fn pool_of(manager: &Manager, query: &HashMap<String, String>) -> Result<JobConfig, String> {
    let name = text(query, "scrapePool").ok_or("no scrapePool parameter provided")?;
    manager
        .pool_config(name)
        .ok_or_else(|| format!("error retrieving scrape config: scrape pool {name:?} not found"))
}

/// Returns the labels after each rule of a pool.
fn steps_of(manager: &Manager, query: &HashMap<String, String>) -> Result<Vec<Value>, String> {
    if text(query, "scrapePool").is_none() {
        return Err("no scrapePool parameter provided".to_owned());
    }
    let given = text(query, "labels").ok_or("no labels parameter provided")?;
    let given: BTreeMap<String, String> =
        serde_json::from_str(given).map_err(|error| format!("error parsing labels: {error}"))?;
    let job = pool_of(manager, query)?;
    let given = LabelSet::new(given.iter().map(|(name, value)| (&**name, &**value)));
    let outputs = relabel::steps(&given, &job.relabel_configs);
    let steps = job.relabel_configs.iter().zip(outputs);
    let steps = steps
        .map(|(rule, output)| {
            json!({
                "rule": why::rule(rule),
                "output": labels(output.as_ref().unwrap_or(&LabelSet::empty())),
                "keep": output.is_some(),
            })
        })
        .collect();
    Ok(steps)
}
