//! Counts and times every request of an axum server by its route, and exposes the metrics in the format asked for.
//!
//! `cargo run -p narthex-client-http --example axum`, then `curl localhost:9900/hello/you` and
//! `curl localhost:9900/metrics`.
#![expect(clippy::print_stdout, reason = "an example says where it listens")]

use std::error::Error;
use std::time::Instant;

use axum::extract::{MatchedPath, Path, Request};
use axum::http::{HeaderMap, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use narthex_client::{
    CounterFamily, DEFAULT_BOUNDS, Format, HistogramFamily, LabelValue, Labels, global, process,
};

#[derive(Clone, Copy, LabelValue)]
#[label(rename_all = "UPPERCASE")]
enum Method {
    Get,
    Post,
    Other,
}

/// A route is the router's pattern, not the path: there are as many as the program has.
#[derive(Labels)]
struct Answered<'a> {
    method: Method,
    code: u16,
    route: &'a str,
}

#[derive(Labels)]
struct Timed<'a> {
    route: &'a str,
}

static REQUESTS: CounterFamily<Answered<'static>> =
    CounterFamily::new("http_requests_total", "Requests answered.");
static SECONDS: HistogramFamily<Timed<'static>> = HistogramFamily::new(
    "http_request_duration_seconds",
    "Time to answer.",
    &DEFAULT_BOUNDS,
);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    global().register_all(&[&REQUESTS, &SECONDS])?;
    process::register(global())?;
    let greet = |Path(name): Path<String>| async move { format!("Hello, {name}!\n") };
    let app = Router::new()
        .route("/hello/{name}", routing::get(greet))
        .layer(middleware::from_fn(measure))
        .route("/metrics", routing::get(metrics));
    let address = std::env::args()
        .nth(1)
        .unwrap_or("127.0.0.1:9900".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

async fn measure(request: Request, next: Next) -> Response {
    let start = Instant::now();
    let method = match *request.method() {
        axum::http::Method::GET => Method::Get,
        axum::http::Method::POST => Method::Post,
        _ => Method::Other,
    };
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let trace = request.headers().get("x-trace-id").cloned();
    let response = next.run(request).await;
    let route = matched.as_ref().map_or("none", MatchedPath::as_str);
    let code = response.status().as_u16();
    REQUESTS.update(
        &Answered {
            method,
            code,
            route,
        },
        |counter| counter.inc(),
    );
    let seconds = start.elapsed().as_secs_f64();
    SECONDS.update(&Timed { route }, |histogram| {
        // Runs once per bucket and exposition.
        histogram.observe_sampled(seconds, || {
            let trace = trace.as_ref().and_then(|trace| trace.to_str().ok());
            trace.map(|trace| ("trace_id", trace))
        });
    });
    response
}

async fn metrics(headers: HeaderMap) -> impl IntoResponse {
    let accept = headers.get(header::ACCEPT);
    let accept = accept.and_then(|accept| accept.to_str().ok());
    let format = Format::negotiate(accept.unwrap_or_default());
    let mut body = Vec::new();
    global().encode(format, &mut body);
    ([(header::CONTENT_TYPE, format.content_type())], body)
}
