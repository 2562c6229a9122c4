//! One connection: hyper's state machine around the router, with our limits.
//!
//! Invariant: every path of a request reports the end of its head, body and response to the connection's clock, so
//! every phase has its deadline and no deadline outlives its phase.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, DefaultBodyLimit};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::Request;
use http::header::{CONNECTION, HeaderValue};
use http_body_util::Limited;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::config::{ServeReport, ServerConfig};
use super::head;
use super::pace::Pace;
use super::timed::{Clock, TimedIo, Watchdog};
use super::turns::Turns;
use crate::error::NetError;
use crate::metrics;
use crate::panics::{HTTP, catch_panic, or_500};
use crate::stop::StopToken;
use crate::web::{Web, guard};

/// Size of a connection's buffer for a head or one read of a body: no lease covers it, so it bounds the unleased
/// memory of all connections. Larger than any head of a path and the fields that browsers and proxies send.
const BUFFER_BYTES: usize = 128 << 10;

/// State shared by the connections of one server. Nothing depends on the counters' memory ordering.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) config: ServerConfig,
    pub(super) connections_total: AtomicU64,
    requests_total: AtomicU64,
    slow_clients_total: AtomicU64,
    pub(super) cut_requests_total: AtomicU64,
}

impl Shared {
    pub(super) fn new(config: ServerConfig) -> Self {
        Self {
            config,
            ..Self::default()
        }
    }

    pub(super) fn report(&self) -> ServeReport {
        ServeReport {
            connections_total: self.connections_total.load(Relaxed),
            requests_total: self.requests_total.load(Relaxed),
            slow_clients_total: self.slow_clients_total.load(Relaxed),
            cut_requests_total: self.cut_requests_total.load(Relaxed),
        }
    }

    fn count_slow_client(&self) {
        self.slow_clients_total.fetch_add(1, Relaxed);
        metrics::SLOW_CLIENTS.inc();
    }
}

/// Disables axum's body limit (2 MB, extractors only), since our own applies to every handler.
///
/// A web configuration's checks run before everything in the router.
pub(super) fn prepare(router: Router, web: Option<&Arc<Web>>) -> Router {
    let router = router.layer(DefaultBodyLimit::disable());
    match web {
        None => router,
        Some(web) => router.layer(from_fn_with_state(Arc::clone(web), guard)),
    }
}

/// Serves one connection until it ends, the client is too slow, or the stop has taken effect.
pub(super) async fn drive(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    tls: Option<Arc<Web>>,
    shared: Arc<Shared>,
    stop: StopToken,
) {
    let _open = Open::new();
    let clock = Arc::new(Clock::new(shared.config.header_read_timeout));
    let Some(web) = tls else {
        return serve(stream, peer, router, clock, shared, stop).await;
    };
    // Boxed: connections without TLS would hold the room for its state, too.
    let timeout = shared.config.header_read_timeout;
    let shaking = tokio::time::timeout(timeout, Box::pin(shake_hands(stream, &web)));
    match stop.run(shaking).await {
        Some(Ok(Some(stream))) => {
            Box::pin(serve(stream, peer, router, clock, shared, stop)).await;
        }
        Some(Err(_elapsed)) => shared.count_slow_client(),
        // Refused or stopped: there is nobody to respond to.
        Some(Ok(None)) | None => {}
    }
}

/// Returns the encrypted connection, or `None` if the handshake fails.
async fn shake_hands(mut stream: TcpStream, web: &Web) -> Option<TlsStream<TcpStream>> {
    let mut first = [0; 5];
    let seen = stream.peek(&mut first).await.ok()?;
    if looks_like_http(first.get(..seen).unwrap_or_default()) {
        let answer =
            b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
        let _gone = stream.write_all(answer).await;
        let _gone = stream.shutdown().await;
        return None;
    }
    let config = match web.tls() {
        Ok(config) => config,
        Err(error) => {
            tracing::error!(%error, "TLS handshake failed: the web configuration is unusable.");
            return None;
        }
    };
    match TlsAcceptor::from(config).accept(stream).await {
        Ok(stream) => Some(stream),
        Err(error) => {
            tracing::debug!(%error, "TLS handshake failed.");
            None
        }
    }
}

/// Applies Go's test for clients that speak plain HTTP to a TLS port.
fn looks_like_http(first: &[u8]) -> bool {
    [&b"GET /"[..], b"HEAD ", b"POST ", b"PUT /", b"OPTIO"].contains(&first)
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    peer: SocketAddr,
    router: Router,
    clock: Arc<Clock>,
    shared: Arc<Shared>,
    stop: StopToken,
) {
    let config = &shared.config;
    let io = TimedIo::new(
        stream,
        Arc::clone(&clock),
        config.header_read_timeout,
        config.write_stall_timeout,
        // A client that accepts nothing has the stall timeout, so one that accepts little gets at least as long.
        Pace::new(
            config.min_rate_bytes,
            config.rate_window.max(config.write_stall_timeout),
        ),
    );
    let router = TowerToHyperService::new(router);
    let service = service_fn(|mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        let guard = InFlight::new(&shared, &clock);
        answer(request, router.clone(), guard)
    });
    let connection = http1::Builder::new()
        .max_buf_size(BUFFER_BYTES)
        // hyper's timer would also end idle connections; `Clock` distinguishes them.
        .header_read_timeout(None)
        // Not `pipeline_flush`: it buffers every response whole while there is a byte after its request, however
        // slowly the client reads, and never sends the response to a malformed head.
        .serve_connection(io, service);
    let mut connection = pin!(connection);
    let mut watchdog = Watchdog::new(Arc::clone(&clock));
    let mut stopped = pin!(stop.stopped());
    let (mut stopping, mut turns) = (false, Turns::default());
    poll_fn(|context| {
        if !stopping && stopped.as_mut().poll(context).is_ready() {
            stopping = true;
            connection.as_mut().graceful_shutdown();
            // hyper would wait for the first request of a connection that never sent one.
            if clock.has_served_nothing() {
                return Poll::Ready(());
            }
        }
        // A broken connection is the client's doing; nobody needs a report.
        let polled = turns.poll(context, |context| connection.as_mut().poll(context));
        if polled.is_ready() {
            return Poll::Ready(());
        }
        let late = watchdog.poll_late(context);
        if late.is_ready() && !clock.is_lingering() {
            shared.count_slow_client();
        }
        late
    })
    .await;
}

/// Counts a connection in the metrics from its start to its end, however it ends.
struct Open;

impl Open {
    fn new() -> Self {
        metrics::ACCEPTED.update(&metrics::LISTENER, |counter| counter.inc());
        Self
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        metrics::CLOSED.update(&metrics::LISTENER, |counter| counter.inc());
    }
}

async fn answer(
    request: Request<Incoming>,
    router: TowerToHyperService<Router>,
    guard: InFlight,
) -> Result<Response<AnswerBody>, std::convert::Infallible> {
    let limit_bytes = guard.shared.config.body_limit_bytes;
    if let Some(mut response) = refused(&request, limit_bytes) {
        // The body is not read, so the connection cannot carry another request.
        response
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
        guard.clock.head_done(None);
        guard.clock.linger();
        return Ok(response.map(|body| AnswerBody {
            body,
            _guard: guard,
        }));
    }
    let timeout = (!request.body().is_end_stream()).then_some(guard.shared.config.read_timeout);
    let mark = guard.clock.head_done(timeout);
    let request = request.map(|body| {
        if timeout.is_none() {
            return Body::empty();
        }
        let clock = Arc::clone(&guard.clock);
        let body = Limited::new(body, limit_bytes);
        let config = &guard.shared.config;
        Body::new(RequestBody {
            body,
            clock,
            pace: Pace::new(config.min_rate_bytes, config.rate_window),
            mark,
            ended: false,
        })
    });
    let response = or_500(async {
        router
            .call(request)
            .await
            .unwrap_or_else(|never| match never {})
    })
    .await;
    Ok(response.map(|body| AnswerBody {
        body,
        _guard: guard,
    }))
}

/// Returns the response to a request that reaches no handler.
fn refused(request: &Request<Incoming>, limit_bytes: usize) -> Option<Response> {
    if let Some(refusal) = head::refusal(request) {
        return Some(refusal.into_response());
    }
    let declared_bytes = request.body().size_hint().lower();
    (declared_bytes > limit_bytes as u64).then(|| {
        let error = NetError::BodyTooLarge { limit_bytes };
        (error.status(), format!("{error}\n")).into_response()
    })
}

/// Lives as long as a request; the idle phase starts on drop.
struct InFlight {
    shared: Arc<Shared>,
    clock: Arc<Clock>,
}

impl InFlight {
    fn new(shared: &Arc<Shared>, clock: &Arc<Clock>) -> Self {
        shared.requests_total.fetch_add(1, Relaxed);
        Self {
            shared: Arc::clone(shared),
            clock: Arc::clone(clock),
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.clock.answered(self.shared.config.read_timeout);
    }
}

/// A request's body under the server's limit, which reports to the connection's clock.
struct RequestBody {
    body: Limited<Incoming>,
    clock: Arc<Clock>,
    pace: Pace,
    mark: u64,
    ended: bool,
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        let frame = Pin::new(&mut this.body).poll_frame(context);
        match &frame {
            Poll::Pending => this.clock.body_by(this.pace.wait(Instant::now())),
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                this.pace.moved(Instant::now(), bytes);
                this.clock.body_by(None);
            }
            Poll::Ready(_) => this.clock.body_by(None),
        }
        if matches!(frame, Poll::Ready(None)) || this.body.is_end_stream() {
            this.clock.body_done(this.mark);
            this.ended = true;
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

impl Drop for RequestBody {
    fn drop(&mut self) {
        self.clock.body_done(self.mark);
        if !self.ended {
            self.clock.linger();
        }
    }
}

/// A response body that keeps its request in flight; it breaks off if producing it panics.
struct AnswerBody {
    body: Body,
    _guard: InFlight,
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let body = &mut self.get_mut().body;
        let polled = catch_panic(HTTP, || Pin::new(body).poll_frame(context));
        polled.unwrap_or_else(|_logged| {
            let broken = axum::Error::new("making the answer panicked");
            Poll::Ready(Some(Err(broken)))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Serves `data` as a connection's input and returns the output, for the fuzz target.
pub(crate) fn fuzz_serve(data: &[u8], router: Router) -> Vec<u8> {
    use tokio::io::{AsyncReadExt, duplex, split};
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("threads and timers are there");
    }
    let limit = std::time::Duration::from_secs(5);
    let config = ServerConfig {
        header_read_timeout: limit,
        read_timeout: limit,
        body_limit_bytes: 1 << 10,
        ..ServerConfig::default()
    };
    let shared = Arc::new(Shared::new(config));
    let clock = Arc::new(Clock::new(limit));
    let (_stopper, stop) = crate::stop::Stopper::new();
    let (client, server) = duplex(1 << 10);
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    RUNTIME.with(|runtime| {
        runtime.block_on(async {
            let (mut answers, mut requests) = split(client);
            let asking = async {
                let _gone = requests.write_all(data).await;
                let _gone = requests.shutdown().await;
            };
            let mut out = Vec::new();
            let reading = answers.read_to_end(&mut out);
            let router = prepare(router, None);
            let serving = serve(server, peer, router, clock, shared, stop);
            let (_read, (), ()) = tokio::join!(reading, asking, serving);
            out
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection without TLS had room for the state of one with it, and its task held all of it three times.
    #[test]
    fn a_waiting_connection_is_small() {
        fn size<F>(
            _drive: impl Fn(
                TcpStream,
                SocketAddr,
                Router,
                Option<Arc<Web>>,
                Arc<Shared>,
                StopToken,
            ) -> F,
        ) -> usize {
            size_of::<F>()
        }
        assert!(size(drive) < 3 << 10, "{} bytes", size(drive));
    }
}
