//! `/debug/pprof/*` and `/debug/flamegraph`: profiles of the process' CPU time and memory.
//!
//! **Invariant:** CPU time is sampled only during a request for it, and sampling ends when the client disconnects.

use crate::{Api, params::Params};
use http::{
    HeaderMap, StatusCode,
    header::{CONTENT_DISPOSITION, CONTENT_TYPE},
};
use narthex_model::storage::OverBudget;
use narthex_net::{
    Router,
    axum::{
        extract::{Request, State},
        response::{IntoResponse, Response},
        routing::get,
    },
    respond,
};
use narthex_profile::{Heap, HeapView, Profile, ProfileError};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Duration of a profile by default, in seconds.
const DEFAULT_SECONDS: u64 = 30;
/// Longest duration of a profile, in seconds.
const MAX_SECONDS: u64 = 600;

/// A response, or a refusal.
type Outcome = Result<Response, Response>;

/// Returns a CPU profile for `go tool pprof`.
pub(crate) async fn profile(State(api): State<Arc<Api>>, request: Request) -> Outcome {
    let profile = taken(&api, request, |profile| packed(profile.to_pprof())).await?;
    Ok(attached("profile", profile))
}

/// Returns the routes of CPU profiles, for servers that have no API of their own; `prefix` comes before their paths.
pub fn profile_routes(prefix: &str) -> Router {
    let profile = |request: Request| async move {
        let pairs = request.uri().query().unwrap_or_default().split('&');
        let mut seconds = pairs.filter_map(|pair| pair.strip_prefix("seconds="));
        let seconds = seconds.next().unwrap_or_default().to_owned();
        let profile = sampled(&seconds, |profile| packed(profile.to_pprof())).await?;
        Outcome::Ok(attached("profile", profile))
    };
    // What is a pattern in a route is a letter in a prefix.
    let prefix = prefix.replace('{', "{{").replace('}', "}}");
    Router::new()
        .without_v07_checks()
        .route(&format!("{prefix}/debug/pprof/profile"), get(profile))
        .route(&format!("{prefix}/debug/pprof/cmdline"), get(cmdline))
}

/// Returns a profile of the memory in use for `go tool pprof`.
pub(crate) async fn heap(State(api): State<Arc<Api>>, request: Request) -> Outcome {
    memory(&api, request, "heap", HeapView::InUse).await
}

/// Returns a profile of all allocations since the start for `go tool pprof`.
pub(crate) async fn allocs(State(api): State<Arc<Api>>, request: Request) -> Outcome {
    memory(&api, request, "allocs", HeapView::Allocated).await
}

/// Returns a flame graph of CPU time, or with `heap` or `allocs` of memory.
pub(crate) async fn flamegraph(
    State(api): State<Arc<Api>>,
    headers: HeaderMap,
    request: Request,
) -> Outcome {
    let query = request.uri().query().unwrap_or_default();
    let asked = |name: &str| {
        query
            .split('&')
            .any(|part| part.split('=').next() == Some(name))
    };
    let view = match (asked("heap"), asked("allocs")) {
        (true, _) => Some(HeapView::InUse),
        (_, true) => Some(HeapView::Allocated),
        _ => None,
    };
    let picture = match view {
        Some(view) => heap_of(&api, move |profile| profile.to_svg(view)).await?,
        None => taken(&api, request, |profile| profile.to_svg()).await?,
    };
    Ok(respond("image/svg+xml", picture.into(), &headers))
}

async fn memory(api: &Arc<Api>, request: Request, name: &str, view: HeapView) -> Outcome {
    let params = params(api, request).await?;
    if !params.get("seconds").is_empty() {
        let reason = "seconds: take two profiles and compare them with go tool pprof -diff_base";
        return Err(refused(StatusCode::BAD_REQUEST, reason));
    }
    let profile = heap_of(api, move |profile| packed(profile.to_pprof(view))).await?;
    Ok(attached(name, profile))
}

async fn params(api: &Api, request: Request) -> Result<Params, Response> {
    let params = Params::read(api, request).await;
    params.map_err(|error| refused(StatusCode::BAD_REQUEST, &error.message))
}

/// Takes a heap profile and converts it, off the serving threads; one at a time, since each needs memory in proportion
/// to the heap.
async fn heap_of<T: Send + 'static>(
    api: &Arc<Api>,
    form: impl FnOnce(Heap) -> T + Send + 'static,
) -> Result<T, Response> {
    let Ok(permit) = Arc::clone(&api.profiles).try_acquire_owned() else {
        let text = "a heap profile is being taken already; try again later";
        return Err(refused(StatusCode::SERVICE_UNAVAILABLE, text));
    };
    let needed = api.lease_for_status(narthex_profile::needed_bytes());
    let lease = needed.map_err(no_memory)?;
    let status = Arc::clone(&api.status);
    let task = tokio::task::spawn_blocking(move || {
        let (_permit, _lease) = (permit, lease);
        let dump = status.heap_dump()?;
        let profile = narthex_profile::heap(&dump).map_err(|error| error.to_string())?;
        drop(dump);
        Ok(form(profile))
    });
    let outcome = task.await.unwrap_or_else(|panic| Err(panic.to_string()));
    outcome.map_err(|reason| refused(StatusCode::INTERNAL_SERVER_ERROR, &reason))
}

/// Returns the error for a profile that needs more memory than is left.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn no_memory(over: OverBudget) -> Response {
    refused(StatusCode::SERVICE_UNAVAILABLE, &over.to_string())
}

/// Compresses a profile: readers detect gzip by content, not by a header.
fn packed(profile: Vec<u8>) -> Vec<u8> {
    narthex_net::gzip(&profile).unwrap_or(profile)
}

/// Returns a response with a profile.
fn attached(name: &str, profile: Vec<u8>) -> Response {
    let disposition = format!("attachment; filename=\"{name}\"");
    ([(CONTENT_DISPOSITION, disposition)], profile).into_response()
}

/// Returns the command line, its arguments separated by NUL.
pub(crate) async fn cmdline() -> impl IntoResponse {
    let line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let line = line.strip_suffix(&[0]).unwrap_or(&line).to_vec();
    ([(CONTENT_TYPE, "text/plain; charset=utf-8")], line)
}

/// Takes a CPU profile and converts it, off the serving threads.
async fn taken<T: Send + 'static>(
    api: &Api,
    request: Request,
    form: impl FnOnce(Profile) -> T + Send + 'static,
) -> Result<T, Response> {
    let params = params(api, request).await?;
    let needed = api.lease_for_status(narthex_profile::needed_bytes());
    let lease = needed.map_err(no_memory)?;
    sampled(&params.get("seconds"), move |profile| {
        let _lease = lease;
        form(profile)
    })
    .await
}

/// Takes a CPU profile of this many seconds and converts it, off the serving threads.
async fn sampled<T: Send + 'static>(
    seconds: &str,
    form: impl FnOnce(Profile) -> T + Send + 'static,
) -> Result<T, Response> {
    let seconds = match seconds.parse() {
        Ok(seconds @ 1..) => MAX_SECONDS.min(seconds),
        // As in Go, an invalid value means the default.
        _ => DEFAULT_SECONDS,
    };
    let gone = Arc::new(AtomicBool::new(false));
    let guard = StopOnDrop(Arc::clone(&gone));
    let task = tokio::task::spawn_blocking(move || {
        narthex_profile::cpu(Duration::from_secs(seconds), &|| {
            gone.load(Ordering::Relaxed)
        })
        .map(form)
    });
    let outcome = task.await;
    drop(guard);
    let reason = match outcome {
        Ok(Ok(profile)) => return Ok(profile),
        Ok(Err(error @ ProfileError::Busy)) => format!("Could not enable CPU profiling: {error}"),
        Ok(Err(error)) => error.to_string(),
        Err(panic) => panic.to_string(),
    };
    Err(refused(StatusCode::INTERNAL_SERVER_ERROR, &reason))
}

fn refused(status: StatusCode, text: &str) -> Response {
    (status, format!("{text}\n")).into_response()
}

/// Ends sampling when its request is dropped.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
