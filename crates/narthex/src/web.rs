//! The server's HTTP routes: the page, the API, its own metrics, health.
//!
//! **Invariant:** health, the page, our own metrics and the progress of the replay are served from the moment the port
//! is bound, `/-/ready` and everything else only once storage is open. A server that stops being ready says why on
//! `/-/ready`.

pub(crate) mod exposed;
pub(crate) mod hosts;
mod openapi;
pub(crate) mod origin;
pub(crate) mod prefix;
mod segments;

use crate::{health::Health, reload::Reloader, sources::OwnPage};
use exposed::Exposed;
use hosts::Hosts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use narthex_api::ServerStatus;
use narthex_host::{FACTS_PARAMETER, Facts};
use narthex_net::{
    COMPRESS_FROM_BYTES, Router, StopToken, Stopper,
    axum::{
        body::{Body, Bytes},
        extract::{Path, Request},
        middleware,
        response::{IntoResponse, Response},
        routing::{any, get},
    },
    respond, respond_text,
};
use origin::Origins;
use std::sync::{Arc, OnceLock};
use tokio::sync::Notify;
use tower_service::Service as _;

const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Routes served from the start, and the router mounted once storage is open.
pub(crate) struct Gate {
    pub(crate) health: Arc<Health>,
    inner: OnceLock<Router>,
    opened: Notify,
    /// Readiness ends the moment the server is asked to stop.
    stop: StopToken,
}

impl Gate {
    pub(crate) fn new(stop: StopToken) -> Self {
        Self {
            health: Arc::default(),
            inner: OnceLock::new(),
            opened: Notify::new(),
            stop,
        }
    }

    /// Opens the server: `router` serves all further requests.
    pub(crate) fn open(&self, router: Router) {
        // A second router would mean a second storage; the first one stays.
        let _ = self.inner.set(router);
        self.opened.notify_waiters();
    }

    fn is_ready(&self) -> bool {
        self.inner.get().is_some() && !self.stop.is_stopped()
    }
}

/// Parts of a running server's router.
pub(crate) struct Parts {
    pub(crate) api: Router,
    pub(crate) targets: Router,
    pub(crate) own: Arc<OwnPage>,
    /// What `/metrics` shows beside the process' own metrics.
    pub(crate) exposed: Option<Exposed>,
    /// What `/metrics` adds for those who ask for it.
    pub(crate) facts: Facts,
    pub(crate) stopper: Stopper,
    pub(crate) enable_lifecycle: bool,
    /// `None` without a configuration file.
    pub(crate) reloader: Option<Arc<Reloader>>,
    pub(crate) origins: Origins,
}

/// Returns the outer router: health at once, everything else through the gate, and by `early` while that is closed.
/// Hosts outside `hosts` are refused.
pub(crate) fn outer(gate: Arc<Gate>, early: Router, hosts: Hosts) -> Router {
    let ready = {
        let gate = Arc::clone(&gate);
        move |headers: HeaderMap| async move {
            if gate.is_ready() {
                let Some(trouble) = gate.health.trouble() else {
                    return respond_text("Narthex Server is Ready.\n", &headers);
                };
                // It runs, but cannot do its work.
                let text = format!("Service Unavailable: {trouble}\n");
                return respond_status(StatusCode::SERVICE_UNAVAILABLE, text, &headers);
            }
            // An open gate that is not ready means that the server is stopping.
            unavailable(&headers, gate.inner.get().is_some())
        }
    };
    let through = move |request: Request| {
        let router = gate.inner.get().unwrap_or(&early).clone();
        answer(router, request)
    };
    let healthy =
        |headers: HeaderMap| async move { respond_text("Narthex Server is Healthy.\n", &headers) };
    Router::new()
        .route("/-/healthy", get(healthy))
        .route("/-/ready", get(ready))
        .fallback(through)
        .layer(middleware::from_fn(move |request, next| {
            hosts::check(hosts.clone(), request, next)
        }))
}

/// Returns a text that is the answer with this status.
fn respond_status(status: StatusCode, text: impl Into<Bytes>, headers: &HeaderMap) -> Response {
    let mut response = respond_text(text, headers);
    *response.status_mut() = status;
    response
}

/// Has a router answer a request.
pub(crate) async fn answer(mut router: Router, request: Request) -> Response {
    let answered = router.call(request).await;
    answered.unwrap_or_else(|never| match never {})
}

fn unavailable(headers: &HeaderMap, stopping: bool) -> Response {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    let mut response = respond_status(status, "Service Unavailable", headers);
    let stopping = if stopping { "true" } else { "false" };
    response.headers_mut().insert(
        HeaderName::from_static("x-prometheus-stopping"),
        HeaderValue::from_static(stopping),
    );
    response
}

/// Returns the router of a server whose storage is not open yet.
pub(crate) fn early(own: Arc<OwnPage>, status: Arc<dyn ServerStatus>, notified: Router) -> Router {
    let routes = Router::new()
        .merge(narthex_api::early_routes(status))
        .merge(notified)
        .merge(own_metrics("/metrics", own, None))
        .merge(pages())
        .fallback(async |request: Request| {
            let (path, headers) = (request.uri().path(), request.headers());
            match narthex_ui::asset(path) {
                Some(_) => asset(path, headers),
                None => unavailable(headers, false),
            }
        });
    narthex_net::instrument(narthex_net::compress(routes, COMPRESS_FROM_BYTES))
}

/// Returns the route of our own metrics, with facts of the host for those who ask for them.
fn own_metrics(path: &str, own: Arc<OwnPage>, facts: Option<Facts>) -> Router {
    let metrics = async move |request: Request| {
        let facts = facts_asked_for(facts.as_ref(), request.uri()).await;
        own_page(&own, &facts, request.headers())
    };
    Router::new().route(path, get(metrics))
}

/// Returns the facts of the host if the query asks for them, else nothing.
async fn facts_asked_for(facts: Option<&Facts>, uri: &Uri) -> String {
    let wanted = |pair: &str| pair.split_once('=') == Some((FACTS_PARAMETER, "true"));
    let Some(facts) = facts.filter(|_| uri.query().unwrap_or_default().split('&').any(wanted))
    else {
        return String::new();
    };
    let facts = Arc::clone(facts);
    // It reads a file or two of each process.
    let read = tokio::task::spawn_blocking(move || facts());
    read.await.unwrap_or_default()
}

/// Returns our own metrics in the format that the request asks for, followed by facts if that is text.
fn own_page(own: &OwnPage, facts: &str, headers: &HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT);
    let accept = accept.and_then(|value| value.to_str().ok());
    let (content_type, mut page) = own.render(accept.unwrap_or_default());
    if content_type.is_none() {
        page.extend_from_slice(facts.as_bytes());
    }
    let mut response = respond(METRICS_TYPE, page.into(), headers);
    if let Some(content_type) = content_type.and_then(|text| HeaderValue::try_from(text).ok()) {
        set_type(&mut response, content_type);
    }
    response
}

fn set_type(response: &mut Response, content_type: HeaderValue) {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, content_type);
}

/// Returns the routes of the web page.
fn pages() -> Router {
    narthex_ui::PAGES
        .iter()
        .fold(Router::new(), |router, path| router.route(path, get(page)))
}

/// Returns the inner router of a running server.
pub(crate) fn inner(parts: Parts) -> Router {
    let Parts {
        api,
        targets,
        own,
        exposed,
        facts,
        stopper,
        enable_lifecycle,
        reloader,
        origins,
    } = parts;
    let quit = move |method: Method, headers: HeaderMap| async move {
        if let Some(refusal) = refuse_lifecycle(enable_lifecycle, &method, &headers) {
            return refusal;
        }
        stopper.stop();
        respond_text("Requesting termination... Goodbye!\n", &headers)
    };
    let reloading = reloader.clone();
    let reload = move |method: Method, headers: HeaderMap| async move {
        match refuse_lifecycle(enable_lifecycle, &method, &headers) {
            Some(refusal) => refusal,
            None => reload(reloading, &headers).await,
        }
    };
    let metrics = match exposed {
        Some(exposed) => exposed::routes(exposed, own, facts),
        None => own_metrics("/metrics", own, Some(facts)),
    };
    let readers = origins.clone();
    let routes = Router::new()
        .merge(api)
        .merge(targets)
        .merge(openapi::routes())
        .merge(segments::routes(reloader, enable_lifecycle))
        .layer(middleware::from_fn(move |request, next| {
            origin::allow(readers.clone(), request, next)
        }))
        .merge(metrics)
        .route("/-/quit", any(quit))
        .route("/-/reload", any(reload))
        .merge(pages())
        .route("/{*path}", get(file).fallback(async || missing()))
        .layer(middleware::from_fn(move |request, next| {
            origin::protect(origins.clone(), request, next)
        }));
    narthex_net::instrument(narthex_net::compress(routes, COMPRESS_FROM_BYTES))
}

/// Returns the response that refuses a lifecycle request, if it is disabled or uses the wrong method.
fn refuse_lifecycle(enabled: bool, method: &Method, headers: &HeaderMap) -> Option<Response> {
    let (status, text) = if !enabled {
        (StatusCode::FORBIDDEN, "Lifecycle API is not enabled.\n")
    } else if method != Method::POST && method != Method::PUT {
        let text = "Only POST or PUT requests allowed.\n";
        (StatusCode::METHOD_NOT_ALLOWED, text)
    } else {
        return None;
    };
    Some(respond_status(status, text, headers))
}

async fn reload(reloader: Option<Arc<Reloader>>, headers: &HeaderMap) -> Response {
    let outcome = match reloader {
        Some(reloader) => tokio::task::spawn_blocking(move || reloader.reload())
            .await
            .unwrap_or_else(|error| Err(error.to_string())),
        None => Err("there is no configuration file".to_owned()),
    };
    match outcome {
        Ok(()) => respond_text("", headers),
        Err(error) => {
            let text = format!("failed to reload config: {error}\n");
            respond_status(StatusCode::INTERNAL_SERVER_ERROR, text, headers)
        }
    }
}

async fn page(headers: HeaderMap) -> Response {
    asset("/", &headers)
}

async fn file(Path(path): Path<String>, headers: HeaderMap) -> Response {
    asset(&format!("/{path}"), &headers)
}

fn missing() -> Response {
    (StatusCode::NOT_FOUND, "404 page not found\n").into_response()
}

fn asset(path: &str, headers: &HeaderMap) -> Response {
    let Some(asset) = narthex_ui::asset(path) else {
        return missing();
    };
    let known = headers
        .get(header::IF_NONE_MATCH)
        .and_then(|tag| tag.to_str().ok());
    let unchanged = known.is_some_and(|tags| tags.split(',').any(|tag| tag.trim() == asset.etag));
    let packed = narthex_net::accepts_gzip(headers);
    let body = match packed {
        _ if unchanged => Body::empty(),
        true => Body::from(asset.gzip),
        false => Body::from(asset.plain()),
    };
    let mut response = Response::new(body);
    if unchanged {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let out = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, asset.content_type),
        (header::ETAG, asset.etag),
        (header::CACHE_CONTROL, asset.cache_control()),
        (header::VARY, "Accept-Encoding"),
    ] {
        out.insert(name, HeaderValue::from_static(value));
    }
    if packed && !unchanged {
        out.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    for (name, value) in narthex_ui::SECURITY_HEADERS {
        out.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    response
}
