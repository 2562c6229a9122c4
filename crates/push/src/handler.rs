//! The Pushgateway's HTTP interface.
//!
//! Paths are percent-decoded before they are split, as in Go's servers: `%2F` separates like a slash.
//!
//! **Invariant:** a waiting request does not block a thread. Responses have the Pushgateway's statuses and texts.

use crate::{
    answers::{bare, empty, not_allowed, not_found, redirect, refusal},
    batch,
    error::PushError,
    grouping::Grouping,
    json::{self, Status},
    metrics,
    page::{self, Page, Plain},
    receiver::{Limits, Receiver},
    status,
    store::Store,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use narthex_client::Registry;
use narthex_expfmt::Format;
use narthex_net::{
    Encoding, GzipStream, Router,
    axum::{
        body::Body,
        extract::{Request, State},
        response::Response,
    },
    body_of, choose_encoding, percent, respond, respond_error, respond_pieces, run_long,
};
use std::{sync::Arc, time::Instant};

/// Content type of the page, unless another format is asked for.
const TEXT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Settings of a gateway's HTTP interface.
pub struct GatewayConfig {
    /// Limits of pushes.
    pub limits: Limits,
    /// Prefix of all paths, empty or with a leading slash.
    pub route_prefix: String,
    /// Path of the metrics page.
    pub telemetry_path: String,
    /// Called by requests to end the process; `None` to forbid them.
    pub quit: Option<Arc<dyn Fn() + Send + Sync>>,
    /// Whether requests may delete all groups.
    pub enable_admin_api: bool,
    /// Information about the process for the API.
    pub status: Status,
}

struct Shared {
    store: Arc<Store>,
    own: &'static Registry,
    config: GatewayConfig,
    receiver: Receiver,
}

/// Returns the routes of a gateway.
pub fn routes(store: Arc<Store>, own: &'static Registry, config: GatewayConfig) -> Router {
    let shared = Shared {
        receiver: Receiver::new(Arc::clone(&store), config.limits),
        store,
        own,
        config,
    };
    Router::new().fallback(answer).with_state(Arc::new(shared))
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let path = match path_of(&request) {
        Ok(path) => path,
        Err(response) => return *response,
    };
    let method = request.method().clone();
    // This path never has the prefix.
    if path == "/-/quit" && method == Method::GET {
        return bare(
            StatusCode::METHOD_NOT_ALLOWED,
            "Only POST or PUT requests allowed.",
        );
    }
    let Some(rest) = path.strip_prefix(&shared.config.route_prefix) else {
        return not_found();
    };
    if rest == shared.config.telemetry_path && method == Method::GET {
        return scrape(&shared, request.headers());
    }
    if let Some(group) = rest.strip_prefix("/metrics/")
        && let Some(grouping) = Grouping::from_path(group, shared.store.config().utf8_names)
    {
        return change(&shared.store, &shared.receiver, grouping, request).await;
    }
    let changes = [Method::PUT, Method::POST, Method::DELETE];
    if rest == "/metrics/job/" && changes.contains(&method) {
        return redirect(path.trim_end_matches('/'), request.uri().query());
    }
    if rest == "/api/v1/push" && (method == Method::PUT || method == Method::POST) {
        let response = batch::answer(&shared.receiver, request).await;
        count("batch", &method, response.status());
        return response;
    }
    if rest == "/api/v1" {
        return redirect(&format!("{path}/"), request.uri().query());
    }
    let (handler, response) = other(&shared, rest, &method, request.headers());
    if let Some(handler) = handler {
        count(handler, &method, response.status());
    }
    response
}

/// Handles requests that are neither a push nor a scrape; also returns the name for metrics.
fn other(
    shared: &Shared,
    path: &str,
    method: &Method,
    headers: &HeaderMap,
) -> (Option<&'static str>, Response) {
    if let Some(rest) = path.strip_prefix("/api/v1/") {
        return api(shared, rest, method, headers);
    }
    let handled = |handler, response| (Some(handler), response);
    match (path, method.as_str()) {
        ("/-/healthy", "GET") => handled("healthy", bare(StatusCode::OK, "OK")),
        ("/-/ready", "GET") => handled("ready", bare(StatusCode::OK, "OK")),
        ("/-/quit", "PUT" | "POST") => (None, quit(shared)),
        ("/" | "/status", "GET") => {
            let process = status::Process {
                status: &shared.config.status,
                may_wipe: shared.config.enable_admin_api,
            };
            let page = status::page(&shared.store, Some(&process), "static/push.js", headers);
            handled("status", page)
        }
        ("/static/push.js", "GET") => handled("static", status::script(headers)),
        ("/-/healthy" | "/-/ready" | "/" | "/status" | "/static/push.js", _) => {
            (None, not_allowed(method, "GET, OPTIONS"))
        }
        ("/-/quit", _) => (None, not_allowed(method, "GET, OPTIONS, POST, PUT")),
        (path, _) if path == shared.config.telemetry_path => {
            (None, not_allowed(method, "GET, OPTIONS"))
        }
        _ => (None, not_found()),
    }
}

fn api(
    shared: &Shared,
    path: &str,
    method: &Method,
    headers: &HeaderMap,
) -> (Option<&'static str>, Response) {
    let may_wipe = shared.config.enable_admin_api;
    let (handler, mut response) = match (path, method.as_str()) {
        (_, "OPTIONS") => ("api/v1/options", Response::new(Body::empty())),
        ("status", "GET") => {
            let body = json::status(&shared.config.status);
            ("api/v1/status", narthex_net::respond_json(body, headers))
        }
        ("metrics", "GET") => {
            let body = run_long(usize::MAX, || json::metrics(&shared.store));
            ("api/v1/metrics", narthex_net::respond_json(body, headers))
        }
        ("admin/wipe", "PUT") if may_wipe => {
            let response = match run_long(usize::MAX, || shared.store.wipe()) {
                Ok(()) => empty(StatusCode::ACCEPTED),
                Err(error) => refusal(&error),
            };
            return (Some("wipe"), response);
        }
        ("push", _) => return (None, not_allowed(method, "OPTIONS, POST, PUT")),
        ("status" | "metrics", _) => return (None, not_allowed(method, "GET, OPTIONS")),
        ("admin/wipe", _) if may_wipe => return (None, not_allowed(method, "OPTIONS, PUT")),
        _ => return (None, not_found()),
    };
    for (name, value) in [
        (
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            "Accept, Authorization, Content-Type, Origin",
        ),
        (
            header::ACCESS_CONTROL_ALLOW_METHODS,
            "GET, POST, DELETE, OPTIONS",
        ),
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (header::ACCESS_CONTROL_EXPOSE_HEADERS, "Date"),
        (header::CACHE_CONTROL, "no-cache, no-store, must-revalidate"),
    ] {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    (Some(handler), response)
}

fn quit(shared: &Shared) -> Response {
    match &shared.config.quit {
        Some(quit) => {
            quit();
            bare(StatusCode::OK, "Requesting termination... Goodbye!")
        }
        None => bare(StatusCode::FORBIDDEN, "Lifecycle API is not enabled."),
    }
}

fn scrape(shared: &Shared, headers: &HeaderMap) -> Response {
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok());
    let style = page::negotiate(accept.unwrap_or_default());
    let page = run_long(usize::MAX, || {
        let groups = shared.store.groups();
        Page::new(groups, shared.store.now_ns(), shared.own, style.escaping)
    });
    let mut response = if style.format == Format::Protobuf {
        let body = run_long(usize::MAX, || page.messages());
        respond(TEXT_TYPE, body.into(), headers)
    } else {
        send(page, headers)
    };
    if style.format != Format::Text
        && let Ok(content_type) = HeaderValue::try_from(style.content_type())
    {
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, content_type);
    }
    response
}

/// Returns a page as text. A long one is made while it is sent.
fn send(mut page: Page, headers: &HeaderMap) -> Response {
    let mut first = Plain::piece();
    if !page.write(&mut first) {
        return respond(TEXT_TYPE, first.text.into(), headers);
    }
    let mut encoding = choose_encoding(headers);
    let body = match encoding {
        Encoding::Gzip => {
            page.restart();
            let mut packed = Some(GzipStream::new());
            body_of(move || {
                let out = packed.as_mut()?;
                if page.write(out) {
                    return Some(out.take_output().into());
                }
                packed.take().map(|out| out.finish().into())
            })
        }
        Encoding::Zstd => {
            page.restart();
            let mut whole = Plain::whole();
            run_long(usize::MAX, || page.write(&mut whole));
            return respond(TEXT_TYPE, whole.text.into(), headers);
        }
        _ => {
            encoding = Encoding::Identity;
            let mut next = Some(first);
            body_of(move || {
                let piece = next.take()?;
                let mut following = Plain::piece();
                if page.write(&mut following) || !following.text.is_empty() {
                    next = Some(following);
                }
                Some(piece.text.into())
            })
        }
    };
    respond_pieces(TEXT_TYPE, body, encoding)
}

/// Handles a push or a deletion.
pub(crate) async fn change(
    store: &Store,
    receiver: &Receiver,
    grouping: Result<Grouping, String>,
    request: Request,
) -> Response {
    let (start, method) = (Instant::now(), request.method().clone());
    let is_push = method == Method::PUT || method == Method::POST;
    if !is_push && method != Method::DELETE {
        return not_allowed(&method, "DELETE, OPTIONS, POST, PUT");
    }
    let grouping = grouping.map_err(|detail| PushError::Path { detail });
    let (handler, outcome) = if is_push {
        let outcome = match grouping {
            Ok(grouping) => receiver.push(&grouping, request).await,
            Err(error) => Err(error),
        };
        let seconds = metrics::PUSH_SECONDS.with(&[metrics::word(&method)]);
        seconds.observe_duration(start.elapsed());
        ("push", outcome)
    } else {
        let outcome = grouping.and_then(|grouping| store.delete(&grouping));
        ("delete", outcome.map(|()| StatusCode::ACCEPTED))
    };
    let response = match outcome {
        Ok(status) => empty(status),
        Err(error) => {
            tracing::debug!(%error, "A push was refused.");
            refusal(&error)
        }
    };
    count(handler, &method, response.status());
    response
}

pub(crate) fn count(handler: &str, method: &Method, status: StatusCode) {
    metrics::REQUESTS
        .with(&[status.as_str(), handler, metrics::word(method)])
        .inc();
}

/// Returns the path of a request, percent-decoded.
///
/// # Errors
/// Returns the answer to a request whose path is not UTF-8 or not clean.
pub(crate) fn path_of(request: &Request) -> Result<String, Box<Response>> {
    let Some(path) = percent_decoded(request.uri().path()) else {
        let text = "400 Bad Request: the path is not UTF-8";
        return Err(respond_error(StatusCode::BAD_REQUEST, text).into());
    };
    let clean = cleaned(&path);
    if clean != path {
        return Err(redirect(&clean, request.uri().query()).into());
    }
    Ok(path)
}

pub(crate) fn percent_decoded(path: &str) -> Option<String> {
    String::from_utf8(percent::decode(path)?).ok()
}

/// Returns a path without empty elements, `.` and `..`, to which Go's servers redirect.
pub(crate) fn cleaned(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for element in path.split('/') {
        match element {
            "" | "." => {}
            ".." => {
                kept.pop();
            }
            other => kept.push(other),
        }
    }
    let mut clean = format!("/{}", kept.join("/"));
    if path.ends_with('/') && clean.len() > 1 {
        clean.push('/');
    }
    clean
}
