//! Counts the requests of a hyper server and exposes them in the format asked for.
//!
//! `cargo run -p narthex-client-http --example hyper`, then `curl localhost:9901/` and `curl localhost:9901/metrics`.
#![expect(clippy::print_stdout, reason = "an example says where it listens")]

use std::convert::Infallible;
use std::error::Error;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use narthex_client::{CounterVec, Format, Gauge, NativeHistogram, NativeOptions, global, process};

static REQUESTS: CounterVec<1> =
    CounterVec::new("http_requests_total", "Requests answered.", &["code"]);
static CONNECTIONS: Gauge = Gauge::new("http_connections", "Open connections.");
static SECONDS: NativeHistogram = NativeHistogram::new(
    "http_request_duration_seconds",
    "Time to answer.",
    NativeOptions::new(),
);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    global().register_all(&[&REQUESTS, &CONNECTIONS, &SECONDS])?;
    process::register(global())?;
    let address = std::env::args()
        .nth(1)
        .unwrap_or("127.0.0.1:9901".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            CONNECTIONS.inc();
            let connection = http1::Builder::new();
            let served = connection.serve_connection(TokioIo::new(stream), service_fn(answer));
            // A client that goes away ends its connection, not the server.
            let _ = served.await;
            CONNECTIONS.dec();
        });
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let start = std::time::Instant::now();
    let response = match request.uri().path() {
        "/" => Response::new(Full::from("Hello!\n")),
        "/metrics" => metrics(&request),
        _ => {
            let mut response = Response::new(Full::from("Not found.\n"));
            *response.status_mut() = StatusCode::NOT_FOUND;
            response
        }
    };
    REQUESTS.update(&[response.status().as_str()], |counter| counter.inc());
    SECONDS.observe_duration(start.elapsed());
    Ok(response)
}

fn metrics(request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let accept = request.headers().get(ACCEPT);
    let accept = accept.and_then(|accept| accept.to_str().ok());
    let format = Format::negotiate(accept.unwrap_or_default());
    let mut body = Vec::new();
    global().encode(format, &mut body);
    let mut response = Response::new(Full::from(body));
    let content_type = HeaderValue::from_static(format.content_type());
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}
