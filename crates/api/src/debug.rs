//! `/debug/pprof/*` and `/debug/flamegraph`: where the process spends its time.
//!
//! **Invariant:** nothing is measured until somebody asks, and the measuring ends when the asker goes away.

use crate::params::Params;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use narthex_net::{
    axum::{body::Body, extract::Request, response::Response},
    respond,
};
use narthex_profile::{Profile, ProfileError};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Seconds that a profile takes where nobody says.
const DEFAULT_SECONDS: u64 = 30;
/// Seconds that a profile takes at most.
const MAX_SECONDS: u64 = 600;

/// Sends a CPU profile as `go tool pprof` reads it.
pub(crate) async fn profile(request: Request) -> Response {
    match taken(request).await {
        Ok(profile) => {
            let bytes = profile.to_pprof();
            // Readers of profiles know them by their compression, not by a header.
            let bytes = narthex_net::gzip(&bytes).unwrap_or(bytes);
            let mut response = Response::new(Body::from(bytes));
            let headers = response.headers_mut();
            headers.insert(
                header::CONTENT_TYPE,
                HeaderValue::from_static("application/octet-stream"),
            );
            headers.insert(
                header::CONTENT_DISPOSITION,
                HeaderValue::from_static("attachment; filename=\"profile\""),
            );
            response
        }
        Err(refusal) => refusal,
    }
}

/// Draws a CPU profile.
pub(crate) async fn flamegraph(headers: HeaderMap, request: Request) -> Response {
    match taken(request).await {
        Ok(profile) => respond("image/svg+xml", profile.to_svg().into(), &headers),
        Err(refusal) => refusal,
    }
}

/// Sends the command line, its arguments separated by NUL.
pub(crate) async fn cmdline() -> Response {
    let line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let mut response = Response::new(Body::from(
        line.strip_suffix(&[0]).unwrap_or(&line).to_vec(),
    ));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

async fn taken(request: Request) -> Result<Profile, Response> {
    let params = Params::of(request)
        .await
        .map_err(|error| refused(StatusCode::BAD_REQUEST, &error.message))?;
    let seconds = match params.get("seconds").parse() {
        Ok(seconds @ 1..) => MAX_SECONDS.min(seconds),
        // As Go: what makes no sense means the default.
        _ => DEFAULT_SECONDS,
    };
    let gone = Arc::new(AtomicBool::new(false));
    let guard = StopOnDrop(Arc::clone(&gone));
    let task = tokio::task::spawn_blocking(move || {
        narthex_profile::cpu(Duration::from_secs(seconds), &|| {
            gone.load(Ordering::Relaxed)
        })
    });
    let outcome = task.await;
    drop(guard);
    match outcome {
        Ok(Ok(profile)) => Ok(profile),
        Ok(Err(error @ ProfileError::Busy)) => Err(refused(
            StatusCode::INTERNAL_SERVER_ERROR,
            &format!("Could not enable CPU profiling: {error}"),
        )),
        Ok(Err(error)) => Err(refused(
            StatusCode::INTERNAL_SERVER_ERROR,
            &error.to_string(),
        )),
        Err(panic) => Err(refused(
            StatusCode::INTERNAL_SERVER_ERROR,
            &panic.to_string(),
        )),
    }
}

fn refused(status: StatusCode, text: &str) -> Response {
    let mut response = Response::new(Body::from(format!("{text}\n")));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

/// Ends the measuring when its request is dropped.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
