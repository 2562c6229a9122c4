//! node_exporter's HTTP interface: the page of metrics, whole or by collector, and a landing page.
//!
//! A scrape collects and renders on the thread that got its request: handing it to another one and back costs as much as
//! a fifth of the page. Devices that may hang are read by threads of their own.
//!
//! **Invariant:** statuses and texts of refused scrapes are node_exporter's.

mod advice;
mod finding;
mod landing;
mod limit;
mod metrics;
mod renderer;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use http::{HeaderMap, HeaderValue, StatusCode, header};
use narthex_expfmt::{Format, Negotiated};
use narthex_model::Frame;
use narthex_model::sync::Renew as _;
use narthex_net::axum::body::Body;
use narthex_net::axum::extract::{Request, State};
use narthex_net::axum::response::Response;
use narthex_net::{
    Encoding, Router, catch_panic, choose_encoding, keep_until_sent, percent, respond,
    respond_encoded, run_long,
};

use crate::config::HostConfig;
use crate::error::HostError;
use crate::kind::{CollectorKind, CollectorSet};
use crate::source::HostSource;
pub use finding::{Finding, Severity};
use limit::Limit;
pub use metrics::register_metrics;
use renderer::Renderer;

/// Appends this process's own metrics in a format, without the format's end.
pub type OwnMetrics = Arc<dyn Fn(Negotiated, &mut Vec<u8>) + Send + Sync>;

/// Examines a round of the host at a time in milliseconds, for the landing page.
pub type Adviser = Arc<dyn Fn(&Frame, i64) -> Vec<Finding> + Send + Sync>;

/// Returns facts about the host that rules of advice need and no collector has, in the text format.
pub type Facts = Arc<dyn Fn() -> String + Send + Sync>;

/// The parameter of a query that asks for these at the end of the page, with the value `true`.
pub const FACTS_PARAMETER: &str = "host_facts";

/// Settings of the [`routes`].
pub struct ExporterConfig {
    /// Path of the page of metrics, with its slash.
    pub telemetry_path: String,
    /// Most scrapes at once; 0 for no limit.
    pub max_requests: usize,
    /// This process's own metrics, if they are on the page.
    pub own: Option<OwnMetrics>,
    /// Advice on the host, if there is to be some.
    pub adviser: Option<Adviser>,
    /// What is added to a page that is asked for it.
    pub facts: Option<Facts>,
    /// The time in milliseconds.
    pub now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
}

struct Exporter {
    telemetry_path: String,
    limit: Arc<Limit>,
    collectors: CollectorSet,
    adviser: Option<Adviser>,
    facts: Option<Facts>,
    renderer: Mutex<Renderer>,
}

/// What a query asks for.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    collectors: CollectorSet,
    facts: bool,
}

/// Returns the routes of an exporter of this host, after collecting once.
///
/// # Errors
///
/// As [`HostSource::new`].
pub fn routes(host: HostConfig, config: ExporterConfig) -> Result<Router, HostError> {
    let mut renderer = Renderer::new(host, config.own, config.now_ms)?;
    renderer.warm_up();
    let exporter = Exporter {
        telemetry_path: config.telemetry_path,
        limit: Limit::new(config.max_requests),
        collectors: renderer.collectors(),
        adviser: config.adviser,
        facts: config.facts,
        renderer: Mutex::new(renderer),
    };
    Ok(Router::new()
        .fallback(answer)
        .with_state(Arc::new(exporter)))
}

impl Exporter {
    fn landing(&self, headers: &HeaderMap) -> Response {
        let measured = || {
            let mut renderer = self.renderer.lock_or_renew(Renderer::renewed);
            renderer.measured(self.adviser.as_ref())
        };
        let measured = run_long(usize::MAX, || catch_panic("host", measured));
        let (costs, findings) = measured.unwrap_or_default();
        landing::page(&self.telemetry_path, &findings, &costs, headers)
    }
}

async fn answer(State(exporter): State<Arc<Exporter>>, request: Request) -> Response {
    let path = request.uri().path();
    if path == exporter.telemetry_path {
        let query = request.uri().query().unwrap_or_default();
        return match asked(query, exporter.collectors) {
            Ok(asked) => scrape_in_turn(&exporter, &asked, request.headers()).await,
            Err(reason) => text(StatusCode::BAD_REQUEST, reason),
        };
    }
    if path == "/" {
        return exporter.landing(request.headers());
    }
    error(StatusCode::NOT_FOUND, "404 page not found")
}

/// Scrapes, unless too many others do.
async fn scrape_in_turn(exporter: &Exporter, asked: &Asked, headers: &HeaderMap) -> Response {
    let Some(turn) = exporter.limit.turn() else {
        let most = exporter.limit.most();
        let reason = format!("Limit of concurrent requests reached ({most}), try again later.");
        return metrics::count(error(StatusCode::SERVICE_UNAVAILABLE, &reason));
    };
    let answer = metrics::count(scrape(exporter, asked, headers));
    turn.let_others_ask().await;
    keep_until_sent(answer, turn)
}

fn scrape(exporter: &Exporter, asked: &Asked, headers: &HeaderMap) -> Response {
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok());
    let style = Negotiated::from_accept(accept.unwrap_or_default());
    let is_text = style.format == Format::Text;
    let facts = exporter.facts.as_ref().filter(|_| asked.facts && is_text);
    // These follow the page.
    let encoding = match facts {
        Some(_) => Encoding::Identity,
        None => choose_encoding(headers),
    };
    let render = || {
        // What a panic left half-done must not be exported.
        let mut renderer = exporter.renderer.lock_or_renew(Renderer::renewed);
        let mut page = renderer.page(asked.collectors, style, encoding);
        if let Some(facts) = facts {
            page.body = [&page.body, facts().as_bytes()].concat().into();
        }
        page
    };
    let Ok(page) = run_long(usize::MAX, || catch_panic("host", render)) else {
        return error(
            StatusCode::INTERNAL_SERVER_ERROR,
            "An error has occurred while serving metrics: collecting ended in a panic",
        );
    };
    let mut response = match page.encoding {
        Encoding::Identity => respond("text/plain", page.body, headers),
        encoding => respond_encoded("text/plain", page.body, encoding),
    };
    if let Ok(content_type) = HeaderValue::try_from(style.content_type()) {
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, content_type);
    }
    response
}

/// Reads a query, which may select collectors by `collect[]` or `exclude[]`.
fn asked(query: &str, enabled: CollectorSet) -> Result<Asked, String> {
    let (mut collect, mut exclude, mut facts) = (Vec::new(), Vec::new(), false);
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
            FACTS_PARAMETER => facts = value == "true",
            _ => {}
        }
    }
    let collectors = selected(&collect, &exclude, enabled)?;
    Ok(Asked { collectors, facts })
}

/// Returns the collectors that names select among those enabled.
fn selected(
    collect: &[String],
    exclude: &[String],
    enabled: CollectorSet,
) -> Result<CollectorSet, String> {
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
