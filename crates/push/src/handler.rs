//! The Pushgateway's HTTP interface.
//!
//! Paths are percent-decoded before they are split, as in Go's servers: `%2F` separates like a slash.
//!
//! **Invariant:** a waiting request does not block a thread. Responses have the Pushgateway's statuses and texts.

use crate::{
    asked::{Asked, Words},
    body::{self, Room},
    error::PushError,
    grouping::Grouping,
    json::{self, Status},
    metrics, page, status,
    store::{Push, Store},
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use narthex_client::Registry;
use narthex_expfmt::Format;
use narthex_net::{
    Gate, Router,
    axum::{
        body::Body,
        extract::{Request, State},
        response::Response,
    },
    catch_panic, respond, run_long,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// Settings of a gateway's HTTP interface.
pub struct GatewayConfig {
    /// Longest body of a push, compressed or not.
    pub body_limit_bytes: usize,
    /// Most bytes of all bodies being read or decompressed.
    pub reading_limit_bytes: usize,
    /// Longest time for a body to arrive.
    pub body_timeout: Duration,
    /// Most pushes worked on at once.
    pub concurrency: usize,
    /// Longest time a push waits for its turn before it is refused.
    pub wait: Duration,
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
    gate: Gate,
    reading_left: Arc<AtomicUsize>,
    /// Length of the last page.
    page_bytes: AtomicUsize,
}

/// `Retry-After` of refused pushes.
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("1");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Returns the routes of a gateway.
pub fn routes(store: Arc<Store>, own: &'static Registry, config: GatewayConfig) -> Router {
    let shared = Shared {
        gate: Gate::new("push", config.concurrency),
        reading_left: Arc::new(AtomicUsize::new(config.reading_limit_bytes)),
        page_bytes: AtomicUsize::new(0),
        store,
        own,
        config,
    };
    Router::new().fallback(answer).with_state(Arc::new(shared))
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let Some(path) = percent_decoded(request.uri().path()) else {
        return plain(
            StatusCode::BAD_REQUEST,
            "400 Bad Request: the path is not UTF-8",
        );
    };
    let clean = cleaned(&path);
    if clean != path {
        return redirect(&clean, request.uri().query());
    }
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
        return change(&shared, grouping, request).await;
    }
    let changes = [Method::PUT, Method::POST, Method::DELETE];
    if rest == "/metrics/job/" && changes.contains(&method) {
        return redirect(path.trim_end_matches('/'), request.uri().query());
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
    let get = Method::GET;
    let handled = |handler, response| (Some(handler), response);
    match (path, method) {
        ("/-/healthy", m) if *m == get => handled("healthy", bare(StatusCode::OK, "OK")),
        ("/-/ready", m) if *m == get => handled("ready", bare(StatusCode::OK, "OK")),
        ("/-/quit", m) if *m == Method::PUT || *m == Method::POST => (None, quit(shared)),
        ("/" | "/status", m) if *m == get => handled(
            "status",
            status::page(&shared.store, &shared.config.status, headers),
        ),
        ("/static/push.js", m) if *m == get => handled("static", status::script(headers)),
        ("/-/healthy" | "/-/ready" | "/" | "/status" | "/static/push.js", m) => {
            (None, not_allowed(m, "GET, OPTIONS"))
        }
        ("/-/quit", m) => (None, not_allowed(m, "GET, OPTIONS, POST, PUT")),
        (path, m) if path == shared.config.telemetry_path => (None, not_allowed(m, "GET, OPTIONS")),
        _ => (None, not_found()),
    }
}

fn api(
    shared: &Shared,
    path: &str,
    method: &Method,
    headers: &HeaderMap,
) -> (Option<&'static str>, Response) {
    let get = Method::GET;
    let (handler, mut response) = match (path, method) {
        (_, m) if *m == Method::OPTIONS => ("api/v1/options", Response::new(Body::empty())),
        ("status", m) if *m == get => {
            let body = json::status(&shared.config.status);
            ("api/v1/status", narthex_net::respond_json(body, headers))
        }
        ("metrics", m) if *m == get => {
            let body = run_long(usize::MAX, || json::metrics(&shared.store));
            ("api/v1/metrics", narthex_net::respond_json(body, headers))
        }
        ("admin/wipe", m) if *m == Method::PUT && shared.config.enable_admin_api => {
            let response = match run_long(usize::MAX, || shared.store.wipe()) {
                Ok(()) => empty(StatusCode::ACCEPTED),
                Err(error) => refusal(&error),
            };
            return (Some("wipe"), response);
        }
        ("status" | "metrics", m) => return (None, not_allowed(m, "GET, OPTIONS")),
        ("admin/wipe", m) if shared.config.enable_admin_api => {
            return (None, not_allowed(m, "OPTIONS, PUT"));
        }
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
    let room = shared.page_bytes.load(Ordering::Relaxed);
    let page = run_long(usize::MAX, || {
        page::render(
            shared.store.groups(),
            shared.store.now_ns(),
            shared.own,
            style,
            room + room / 16,
        )
    });
    shared.page_bytes.store(page.len(), Ordering::Relaxed);
    let mut response = respond(
        "text/plain; version=0.0.4; charset=utf-8",
        page.into(),
        headers,
    );
    if style.format != Format::Text
        && let Ok(content_type) = HeaderValue::try_from(style.content_type())
    {
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, content_type);
    }
    response
}

/// Handles a push or a deletion.
async fn change(
    shared: &Arc<Shared>,
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
            Ok(grouping) => push(shared, &grouping, request).await,
            Err(error) => Err(error),
        };
        let seconds = metrics::PUSH_SECONDS.with(&[word(&method)]);
        seconds.observe_duration(start.elapsed());
        ("push", outcome)
    } else {
        let outcome = grouping.and_then(|grouping| shared.store.delete(&grouping));
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

async fn push(
    shared: &Arc<Shared>,
    grouping: &Grouping,
    request: Request,
) -> Result<StatusCode, PushError> {
    let config = &shared.config;
    let (head, wire) = request.into_parts();
    let asked = Asked::read(&Words {
        headers: &head.headers,
        query: head.uri.query(),
    })?;
    let mut room = Room::new(&shared.reading_left);
    let wire = body::read(
        wire,
        config.body_limit_bytes,
        config.body_timeout,
        &mut room,
    )
    .await?;
    metrics::PUSH_BYTES
        .with(&[word(&head.method)])
        .observe(wire.len() as f64);
    let busy = |detail: &str| PushError::Busy {
        detail: detail.to_owned(),
    };
    let _pass = shared
        .gate
        .pass(config.wait)
        .await
        .map_err(|_| busy("too many pushes at once"))?;
    let group = shared.store.group(grouping);
    let turn = tokio::time::timeout(config.wait, group.turn.lock()).await;
    let _turn = turn.map_err(|_| busy("too many pushes to this group at once"))?;
    let work = || {
        let body = body::decompress(
            &head.headers,
            wire.clone(),
            config.body_limit_bytes,
            &mut room,
        )?;
        let push = Push {
            replace: head.method == Method::PUT,
            format: body::format_of(&head.headers),
            body: &body,
            asked: &asked,
        };
        shared.store.push(grouping, push)
    };
    let caught = run_long(wire.len(), || catch_panic("push", work));
    let done = caught.map_err(|_logged| PushError::Journal {
        detail: "the push ended in a panic".to_owned(),
    })?;
    done.map(|()| {
        if shared.store.config().is_unchecked {
            StatusCode::ACCEPTED
        } else {
            StatusCode::OK
        }
    })
}

fn count(handler: &str, method: &Method, status: StatusCode) {
    metrics::REQUESTS
        .with(&[status.as_str(), handler, word(method)])
        .inc();
}

/// Returns a method's name in metrics.
fn word(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "get",
        "PUT" => "put",
        "POST" => "post",
        "DELETE" => "delete",
        "OPTIONS" => "options",
        "HEAD" => "head",
        _ => "unknown",
    }
}

fn refusal(error: &PushError) -> Response {
    let mut response = plain(error.status(), &error.to_string());
    if matches!(error, PushError::Busy { .. }) {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, RETRY_AFTER_SECONDS);
    }
    response
}

fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

fn bare(status: StatusCode, text: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, TEXT);
    response
}

/// Returns an error in the form of Go's servers.
fn plain(status: StatusCode, text: &str) -> Response {
    let mut response = Response::new(Body::from(format!("{text}\n")));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, TEXT);
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response
}

fn not_found() -> Response {
    plain(StatusCode::NOT_FOUND, "404 page not found")
}

fn not_allowed(method: &Method, allow: &'static str) -> Response {
    let mut response = if *method == Method::OPTIONS {
        Response::new(Body::empty())
    } else {
        plain(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed")
    };
    response
        .headers_mut()
        .insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}

fn redirect(path: &str, query: Option<&str>) -> Response {
    let mut location = percent_encoded(path);
    if let Some(query) = query {
        location.push('?');
        location.push_str(query);
    }
    let mut response = empty(StatusCode::TEMPORARY_REDIRECT);
    if let Ok(location) = HeaderValue::try_from(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

fn percent_encoded(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.~$&+,:;=@".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

pub(crate) fn percent_decoded(path: &str) -> Option<String> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        if *byte != b'%' {
            out.push(*byte);
            continue;
        }
        let (code, behind) = rest.split_at_checked(2)?;
        let code = str::from_utf8(code).ok()?;
        out.push(u8::from_str_radix(code, 16).ok()?);
        rest = behind;
    }
    String::from_utf8(out).ok()
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
