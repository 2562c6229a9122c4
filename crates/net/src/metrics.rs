//! The server's own metrics, under the names Prometheus gives them.
//!
//! Invariant: the `handler` label has only route patterns and one name for everything else, so that no client can
//! create series by requesting paths.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::middleware::{self, Next};
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use narthex_client::{Counter, CounterVec, HistogramVec, Registry};

use crate::gate;
use crate::panics::or_500;

/// Label of requests that no route matched.
const UNMATCHED: &str = "unmatched";

static REQUESTS: CounterVec<2> = CounterVec::new(
    "prometheus_http_requests_total",
    "Counter of HTTP requests.",
    &["handler", "code"],
);
static DURATION: HistogramVec<1> = HistogramVec::new(
    "prometheus_http_request_duration_seconds",
    "Histogram of latencies for HTTP requests.",
    &["handler"],
    &[0.1, 0.2, 0.4, 1.0, 3.0, 8.0, 20.0, 60.0, 120.0],
);
static SIZE: HistogramVec<1> = HistogramVec::new(
    "prometheus_http_response_size_bytes",
    "Histogram of response size for HTTP requests.",
    &["handler"],
    &[1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9],
);
pub(crate) static ACCEPTED: CounterVec<1> = CounterVec::new(
    "net_conntrack_listener_conn_accepted_total",
    "Total number of connections opened to the listener of a given name.",
    &["listener_name"],
);
pub(crate) static CLOSED: CounterVec<1> = CounterVec::new(
    "net_conntrack_listener_conn_closed_total",
    "Total number of connections closed that were made to the listener of a given name.",
    &["listener_name"],
);
pub(crate) static SLOW_CLIENTS: Counter = Counter::new(
    "narthex_http_slow_clients_total",
    "Connections closed because the client sent or took data too slowly.",
);

/// Prometheus' name for the single listener.
pub(crate) const LISTENER: [&str; 1] = ["http"];

/// Adds this crate's metrics to a registry, once per process.
///
/// # Errors
/// Fails if the registry already has one of their names.
pub fn register_metrics(registry: &Registry) -> Result<(), narthex_client::Error> {
    registry.register_all(&[
        &REQUESTS,
        &DURATION,
        &SIZE,
        &ACCEPTED,
        &CLOSED,
        &SLOW_CLIENTS,
        &crate::panics::PANICS,
        &gate::MOST,
        &gate::IN_FLIGHT,
        &gate::WAITING,
        &gate::REFUSED,
    ])
}

/// Returns the router with the count, time and size of requests recorded by route pattern.
///
/// Call it last: it sees only the routes mounted before. A request's time ends when its response has been handed to
/// the connection.
pub fn instrument(router: Router) -> Router {
    router.layer(middleware::from_fn(measure))
}

async fn measure(request: Request, next: Next) -> Response {
    let start = Instant::now();
    let path = request.extensions().get::<MatchedPath>().cloned();
    // Caught here too, so that the 500 is counted under its route.
    let response = or_500(next.run(request)).await;
    let handler = path
        .as_ref()
        .map_or(UNMATCHED.into(), |path| go_pattern(path.as_str()));
    REQUESTS.update(&[&handler, response.status().as_str()], |counter| {
        counter.inc();
    });
    response.map(|body| {
        Body::new(Measured {
            body,
            handler,
            start,
            sent_bytes: 0,
        })
    })
}

/// Converts axum's `/a/{name}/{*rest}` to Prometheus' form `/a/:name/*rest`.
fn go_pattern(pattern: &str) -> Box<str> {
    if !pattern.contains('{') {
        return pattern.into();
    }
    let segment = |segment: &str| match segment.strip_prefix('{').and_then(|s| s.strip_suffix('}'))
    {
        Some(rest) if rest.starts_with('*') => rest.to_owned(),
        Some(name) => format!(":{name}"),
        None => segment.to_owned(),
    };
    pattern
        .split('/')
        .map(segment)
        .collect::<Vec<_>>()
        .join("/")
        .into()
}

/// A response body that reports its size and time when it has been sent or dropped.
struct Measured {
    body: Body,
    handler: Box<str>,
    start: Instant,
    sent_bytes: usize,
}

impl HttpBody for Measured {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        let frame = Pin::new(&mut this.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &frame {
            this.sent_bytes += frame.data_ref().map_or(0, Bytes::len);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        DURATION.update(&[&self.handler], |h| {
            h.observe_duration(self.start.elapsed());
        });
        SIZE.update(&[&self.handler], |h| h.observe(self.sent_bytes as f64));
    }
}
