//! node_exporter's HTTP interface: the page of metrics, whole or by collector, and a landing page.
//!
//! Collectors run on one thread, which also renders: a slow device delays scrapes, never other requests. Scrapes that
//! wait for each other share a round.
//!
//! **Invariant:** statuses and texts of refused scrapes are node_exporter's.

mod landing;
mod metrics;
mod renderer;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use narthex_expfmt::Negotiated;
use narthex_net::axum::body::Body;
use narthex_net::axum::extract::{Request, State};
use narthex_net::axum::response::Response;
use narthex_net::{Router, percent, respond};
use tokio::sync::oneshot;

use crate::config::HostConfig;
use crate::error::HostError;
use crate::kind::{CollectorKind, CollectorSet};
use crate::source::HostSource;
pub use metrics::register_metrics;
use renderer::{Asked, Renderer};

/// Appends this process's own metrics in a format, without the format's end.
pub type OwnMetrics = Arc<dyn Fn(Negotiated, &mut Vec<u8>) + Send + Sync>;

/// Settings of an [`Exporter`].
pub struct ExporterConfig {
    /// Path of the page of metrics, with its slash.
    pub telemetry_path: String,
    /// Most scrapes at once, 0 for no limit; more are answered with 503.
    pub max_requests: usize,
    /// This process's own metrics, if they are on the page.
    pub own: Option<OwnMetrics>,
    /// The time in milliseconds.
    pub now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
}

/// A source of host metrics that answers scrapes.
pub struct Exporter {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

struct Shared {
    config: ExporterConfig,
    collectors: CollectorSet,
    asked: std::sync::mpsc::Sender<Asked>,
    in_flight: AtomicUsize,
}

impl Exporter {
    /// Starts the thread that collects and renders.
    ///
    /// # Errors
    ///
    /// As [`HostSource::new`], and `Worker` if the thread can't be started.
    pub fn start(host: HostConfig, config: ExporterConfig) -> Result<Self, HostError> {
        let own = config.own.clone();
        let renderer = Renderer::new(host, own, Arc::clone(&config.now_ms))?;
        let collectors = renderer.collectors();
        let (asked, asks) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("narthex-host".into())
            .spawn(move || renderer.run(&asks))
            .map_err(|source| HostError::Worker { source })?;
        let shared = Shared {
            config,
            collectors,
            asked,
            in_flight: AtomicUsize::new(0),
        };
        Ok(Self {
            shared: Arc::new(shared),
            thread,
        })
    }

    /// Returns its routes.
    pub fn routes(&self) -> Router {
        Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&self.shared))
    }

    /// Waits for the round in progress, once the routes are gone.
    pub fn join(self) {
        drop(self.shared);
        if self.thread.join().is_err() {
            tracing::error!("Collecting host metrics ended with a panic.");
        }
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let path = request.uri().path();
    if path == shared.config.telemetry_path {
        return metrics::count(scrape(&shared, request.uri().query(), request.headers()).await);
    }
    if path == "/" {
        return landing::page(&shared.config.telemetry_path, request.headers());
    }
    error(StatusCode::NOT_FOUND, "404 page not found")
}

async fn scrape(shared: &Shared, query: Option<&str>, headers: &HeaderMap) -> Response {
    let only = match selected(query.unwrap_or_default(), shared.collectors) {
        Ok(only) => only,
        Err(reason) => return text(StatusCode::BAD_REQUEST, reason),
    };
    let most = shared.config.max_requests;
    let _counted = InFlight::new(&shared.in_flight);
    if most > 0 && shared.in_flight.load(Ordering::Relaxed) > most {
        let reason = format!("Limit of concurrent requests reached ({most}), try again later.");
        return error(StatusCode::SERVICE_UNAVAILABLE, &reason);
    }
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok());
    let style = Negotiated::from_accept(accept.unwrap_or_default());
    let (page, rendered) = oneshot::channel();
    // It fails only when the thread is gone, and so does the answer then.
    let _ = shared.asked.send(Asked { only, style, page });
    let Ok(page) = rendered.await else {
        return error(
            StatusCode::INTERNAL_SERVER_ERROR,
            "An error has occurred while serving metrics: collecting ended with a panic",
        );
    };
    let mut response = respond("text/plain", page, headers);
    if let Ok(content_type) = HeaderValue::try_from(style.content_type()) {
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, content_type);
    }
    response
}

/// Returns the collectors that a query selects by `collect[]` or `exclude[]`.
fn selected(query: &str, enabled: CollectorSet) -> Result<CollectorSet, String> {
    let (mut collect, mut exclude) = (Vec::new(), Vec::new());
    // Go drops malformed pairs.
    for pair in query.split('&').filter(|pair| !pair.contains(';')) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decoded = |text: &str| percent::decode_form(text.as_bytes()).map(Cow::into_owned);
        let (Some(name), Some(value)) = (decoded(name), decoded(value)) else {
            continue;
        };
        match name.as_str() {
            "collect[]" => collect.push(value),
            "exclude[]" => exclude.push(value),
            _ => {}
        }
    }
    if !collect.is_empty() && !exclude.is_empty() {
        return Err("Combined collect and exclude queries are not allowed.".to_owned());
    }
    if collect.is_empty() {
        let excluded = exclude
            .iter()
            .filter_map(|name| CollectorKind::from_name(name));
        return Ok(excluded.fold(enabled, CollectorSet::without));
    }
    let refused = |state: &str, name: &str| {
        format!(
            "Couldn't create filtered metrics handler: couldn't create collector: {state} collector: {name}"
        )
    };
    collect.iter().try_fold(
        CollectorSet::none(),
        |set, name| match CollectorKind::from_name(name) {
            None => Err(refused("missing", name)),
            Some(kind) if !enabled.contains(kind) => Err(refused("disabled", name)),
            Some(kind) => Ok(set.with(kind)),
        },
    )
}

/// A scrape being answered.
struct InFlight<'a>(&'a AtomicUsize);

impl<'a> InFlight<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        metrics::IN_FLIGHT.inc();
        Self(count)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
        metrics::IN_FLIGHT.dec();
    }
}

fn text(status: StatusCode, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type);
    response
}

/// Returns an error in the form of Go's servers.
fn error(status: StatusCode, reason: &str) -> Response {
    let mut response = text(status, format!("{reason}\n"));
    response.headers_mut().insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response
}

/// Lists the errors of a round by collector, without those that only mean that there is nothing to report.
fn failures(source: &HostSource) -> BTreeMap<CollectorKind, String> {
    let failed = source.errors().filter(|(_, error)| !error.is_no_data());
    let shown = failed.map(|(kind, error)| {
        let cause = std::error::Error::source(error);
        let cause = cause.map_or(String::new(), |cause| format!(": {cause}"));
        (kind, format!("{error}{cause}"))
    });
    shown.collect()
}

#[cfg(test)]
mod tests;
