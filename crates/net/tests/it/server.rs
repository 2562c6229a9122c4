//! Tests of the server's limits, drain and responses, with hand-written clients.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Request as HttpRequest};
use narthex_net::axum::body::Body;
use narthex_net::axum::extract::ConnectInfo;
use narthex_net::axum::response::{IntoResponse, Response};
use narthex_net::axum::routing::{get, post};
use narthex_net::{
    Client, ClientConfig, NetError, Request, Router, Server, ServerConfig, body_channel, gzip,
    respond_text,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

use crate::support::{
    Running, patient, peak_bytes, read_body, read_to_close, read_until, zeros_gzip,
};

const HELLO: &str = "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n";

fn config(change: impl FnOnce(&mut ServerConfig)) -> ServerConfig {
    let mut config = ServerConfig::default();
    change(&mut config);
    config
}

/// Serves `/hello`; `/wait`, which signals its start and responds when released; `/echo`, which reads its body.
fn router(begun: &Arc<Notify>, go: &Arc<Notify>) -> Router {
    let (begun, go) = (Arc::clone(begun), Arc::clone(go));
    let wait = move |headers: HeaderMap| async move {
        begun.notify_one();
        go.notified().await;
        respond_text("waited\n", &headers)
    };
    let echo = |request: HttpRequest<Body>| async move {
        match read_body(request, 1 << 20).await {
            Ok(body) => format!("{} bytes\n", body.len()).into_response(),
            Err(error) => error.into_response(),
        }
    };
    Router::new()
        .route(
            "/hello",
            get(|headers: HeaderMap| async move { respond_text("hello\n", &headers) }),
        )
        .route("/wait", get(wait))
        .route("/echo", post(echo))
}

fn plain() -> Router {
    router(&Arc::default(), &Arc::default())
}

#[tokio::test]
async fn stop_lets_a_request_in_flight_finish() {
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let server = Running::start(router(&begun, &go), ServerConfig::default()).await;
    let address = server.address;
    let mut idle = server.connect().await;
    idle.write_all(HELLO.as_bytes()).await.unwrap();
    read_until(&mut idle, "hello\n").await;
    let mut fresh = server.connect().await;
    let mut begun_head = server.connect().await;
    begun_head.write_all(b"GET /hel").await.unwrap();
    let mut busy = server.connect().await;
    busy.write_all(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    patient(begun.notified()).await;

    server.stopper.stop();
    // Idle connections end at once, while the handler is still working.
    assert_eq!(read_to_close(&mut idle).await, "");
    assert_eq!(read_to_close(&mut fresh).await, "");
    assert_eq!(read_to_close(&mut begun_head).await, "");
    let refused = tokio::net::TcpStream::connect(address).await;
    assert_eq!(
        refused.unwrap_err().kind(),
        std::io::ErrorKind::ConnectionRefused
    );

    go.notify_one();
    let answer = read_to_close(&mut busy).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(
        answer.to_lowercase().contains("connection: close"),
        "{answer}"
    );
    assert!(answer.ends_with("waited\n"), "{answer}");
    let report = server.ended().await;
    assert_eq!((report.connections_total, report.requests_total), (4, 2));
    assert_eq!(report.cut_requests_total, 0);
}

#[tokio::test]
async fn stop_cuts_what_is_left_at_the_deadline() {
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let server = Running::start(router(&begun, &go), ServerConfig::default()).await;
    let mut busy = server.connect().await;
    busy.write_all(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    patient(begun.notified()).await;
    let start = Instant::now();
    server
        .stopper
        .stop_by(tokio::time::Instant::now() + Duration::from_millis(300));
    let report = server.ended().await;
    assert_eq!(report.cut_requests_total, 1);
    let took = start.elapsed();
    assert!(
        took >= Duration::from_millis(300) && took < Duration::from_secs(5),
        "{took:?}"
    );
    assert_eq!(read_to_close(&mut busy).await, "");
}

#[tokio::test]
async fn second_stop_brings_the_deadline_forward() {
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let server = Running::start(router(&begun, &go), ServerConfig::default()).await;
    let mut busy = server.connect().await;
    busy.write_all(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    patient(begun.notified()).await;
    let now = tokio::time::Instant::now();
    server.stopper.stop_by(now + Duration::from_secs(600));
    tokio::task::yield_now().await;
    server.stopper.stop_by(now);
    assert_eq!(server.ended().await.cut_requests_total, 1);
}

#[tokio::test]
async fn stop_without_deadline_uses_the_configured_drain() {
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let short = config(|c| c.drain_timeout = Duration::from_millis(200));
    let server = Running::start(router(&begun, &go), short).await;
    let mut busy = server.connect().await;
    busy.write_all(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    patient(begun.notified()).await;
    server.stopper.stop();
    assert_eq!(server.ended().await.cut_requests_total, 1);
}

#[tokio::test]
async fn slow_head_is_cut_but_an_idle_connection_is_kept() {
    let short = config(|c| c.header_read_timeout = Duration::from_millis(300));
    let server = Running::start(plain(), short).await;
    let mut idle = server.connect().await;
    idle.write_all(HELLO.as_bytes()).await.unwrap();
    read_until(&mut idle, "hello\n").await;

    let start = Instant::now();
    let mut slow = server.connect().await;
    slow.write_all(b"GET /hello HT").await.unwrap();
    assert_eq!(read_to_close(&mut slow).await, "");
    assert!(
        start.elapsed() >= Duration::from_millis(250),
        "{:?}",
        start.elapsed()
    );
    let mut silent = server.connect().await;
    assert_eq!(read_to_close(&mut silent).await, "");

    // Idle for longer than a head may take, then served; then too slow in its next head, and cut.
    idle.write_all(HELLO.as_bytes()).await.unwrap();
    read_until(&mut idle, "hello\n").await;
    idle.write_all(b"GET /hel").await.unwrap();
    assert_eq!(read_to_close(&mut idle).await, "");

    server.stopper.stop();
    assert_eq!(server.ended().await.slow_clients_total, 3);
}

#[tokio::test]
async fn slow_body_and_long_idling_are_cut() {
    let short = config(|c| c.read_timeout = Duration::from_millis(300));
    let server = Running::start(plain(), short).await;
    let mut slow = server.connect().await;
    slow.write_all(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc")
        .await
        .unwrap();
    let start = Instant::now();
    assert_eq!(read_to_close(&mut slow).await, "");
    assert!(
        start.elapsed() >= Duration::from_millis(250),
        "{:?}",
        start.elapsed()
    );
    let mut idle = server.connect().await;
    idle.write_all(HELLO.as_bytes()).await.unwrap();
    assert!(read_to_close(&mut idle).await.ends_with("hello\n"));
    server.stopper.stop();
    assert_eq!(server.ended().await.slow_clients_total, 2);
}

#[tokio::test]
async fn handler_may_take_longer_than_the_read_timeout() {
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let short = config(|c| {
        c.read_timeout = Duration::from_millis(200);
        c.header_read_timeout = Duration::from_millis(200);
    });
    let server = Running::start(router(&begun, &go), short).await;
    let mut busy = server.connect().await;
    busy.write_all(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    patient(begun.notified()).await;
    // Not a wait for an event: the test requires that 600 ms pass without one.
    let cut = tokio::time::timeout(Duration::from_millis(600), busy.read_u8()).await;
    assert!(cut.is_err(), "the connection ended: {cut:?}");
    go.notify_one();
    read_until(&mut busy, "waited\n").await;
}

#[tokio::test]
async fn client_that_does_not_read_its_answer_is_cut() {
    let short = config(|c| c.write_stall_timeout = Duration::from_millis(300));
    let router = Router::new().route("/big", get(|| async { Bytes::from(vec![b'x'; 64 << 20]) }));
    let server = Running::start(router, short).await;
    let mut stream = server.connect().await;
    stream
        .write_all(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    let mut head = [0; 15];
    patient(stream.read_exact(&mut head)).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200 OK");
    // Reads nothing for longer than the stall timeout, so it gets only the buffered bytes.
    tokio::time::sleep(Duration::from_millis(900)).await;
    let rest = read_to_close(&mut stream).await;
    assert!(rest.len() < 64 << 20, "all {} bytes arrived", rest.len());
    server.stopper.stop();
    assert_eq!(server.ended().await.slow_clients_total, 1);
}

/// Regression: a byte at a time, each well within every timeout, held a connection and its body for five minutes.
#[tokio::test]
async fn a_body_that_trickles_is_cut_and_one_that_flows_is_not() {
    let short = config(|c| {
        c.min_rate_bytes = 10_000;
        c.rate_window = Duration::from_secs(2);
    });
    let server = Running::start(plain(), short).await;
    let head = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n";
    let mut slow = server.connect().await;
    slow.write_all(head.as_bytes()).await.unwrap();
    let trickle = async {
        // Ends with the connection; 100,000 bytes would take half an hour.
        while slow.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    patient(trickle).await;
    let mut flowing = server.connect().await;
    flowing.write_all(head.as_bytes()).await.unwrap();
    for _ in 0..10 {
        flowing.write_all(&[b'x'; 10_000]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
    read_until(&mut flowing, "100000 bytes\n").await;
    server.stopper.stop();
    assert_eq!(server.ended().await.slow_clients_total, 1);
}

/// Regression: a client that accepted a little of its response now and then restarted the stall timeout for ever.
#[tokio::test]
async fn a_client_that_sips_its_answer_is_cut() {
    let short = config(|c| {
        c.min_rate_bytes = 1 << 30;
        c.rate_window = Duration::from_millis(500);
        c.write_stall_timeout = Duration::from_millis(500);
    });
    let router = Router::new().route("/big", get(|| async { Bytes::from(vec![b'x'; 256 << 20]) }));
    let server = Running::start(router, short).await;
    let mut stream = server.connect().await;
    stream
        .write_all(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    // A megabyte every 50 ms is never a stall, but below the required rate.
    let mut taken = 0;
    let mut piece = vec![0; 1 << 20];
    let sip = async {
        loop {
            match stream.read(&mut piece).await {
                Ok(0) | Err(_) => break,
                Ok(bytes) => taken += bytes,
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    patient(sip).await;
    assert!(taken < 256 << 20, "all {taken} bytes arrived");
    server.stopper.stop();
    assert_eq!(server.ended().await.slow_clients_total, 1);
}

#[tokio::test]
async fn connections_above_the_limit_wait_for_a_place() {
    let server = Running::start(plain(), config(|c| c.max_connections = 2)).await;
    let mut first = server.connect().await;
    let mut second = server.connect().await;
    for stream in [&mut first, &mut second] {
        stream.write_all(HELLO.as_bytes()).await.unwrap();
        read_until(stream, "hello\n").await;
    }
    let mut third = server.connect().await;
    third.write_all(HELLO.as_bytes()).await.unwrap();
    let early = tokio::time::timeout(Duration::from_millis(300), third.read_u8()).await;
    assert!(early.is_err(), "served above the limit: {early:?}");
    drop(first);
    read_until(&mut third, "hello\n").await;
    server.stopper.stop();
    assert_eq!(server.ended().await.connections_total, 3);
}

#[tokio::test]
async fn body_above_the_servers_limit_gets_413() {
    let server = Running::start(plain(), config(|c| c.body_limit_bytes = 1000)).await;
    let mut declared = server.connect().await;
    let request = format!(
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n{}",
        "y".repeat(300_000)
    );
    declared.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    patient(declared.read_to_string(&mut answer))
        .await
        .expect("an end, not a reset");
    assert!(
        answer.starts_with("HTTP/1.1 413 Payload Too Large\r\n"),
        "{answer}"
    );
    assert!(
        answer.ends_with("body size limit exceeded (limit 1000 bytes)\n"),
        "{answer}"
    );

    // A client that keeps sending for a moment before it reads sees no reset either.
    for _piece in 0..3 {
        declared.write_all(&[b'y'; 1000]).await.unwrap();
    }

    let mut chunked = server.connect().await;
    let request = format!(
        "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n{}\r\n0\r\n\r\n",
        "y".repeat(2000)
    );
    chunked.write_all(request.as_bytes()).await.unwrap();
    let answer = read_until(&mut chunked, "bytes)\n").await;
    assert!(
        answer.starts_with("HTTP/1.1 413 Payload Too Large\r\n"),
        "{answer}"
    );
}

#[tokio::test]
async fn body_above_the_handlers_limit_gets_413() {
    let server = Running::start(plain(), ServerConfig::default()).await;
    let client = Client::new(ClientConfig::default());
    let (request, mut answer) = (Request::new(server.url("/echo")), Vec::new());
    let head = client
        .post(&request, &vec![b'y'; 1 << 20], &mut answer)
        .await
        .unwrap();
    assert_eq!((head.status, &answer[..]), (200, &b"1048576 bytes\n"[..]));
    // With a declared length, the server does not wait for the body.
    let mut stream = server.connect().await;
    let declared = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n\r\n";
    stream.write_all(declared.as_bytes()).await.unwrap();
    let text = read_until(&mut stream, "bytes)\n").await;
    assert!(
        text.starts_with("HTTP/1.1 413 Payload Too Large\r\n"),
        "{text}"
    );
    let mut stream = server.connect().await;
    let piece = format!("40000\r\n{}\r\n", "y".repeat(0x40000)).repeat(5);
    let head = "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream
        .write_all(format!("{head}{piece}0\r\n\r\n").as_bytes())
        .await
        .unwrap();
    let text = read_until(&mut stream, "bytes)\n").await;
    assert!(
        text.starts_with("HTTP/1.1 413 Payload Too Large\r\n"),
        "{text}"
    );
}

async fn post_encoded(server: &Running, encoding: &str, body: &[u8]) -> (u16, String) {
    let client = Client::new(ClientConfig::default());
    let mut request = Request::new(server.url("/echo"));
    request
        .headers
        .insert("content-encoding", encoding.parse().unwrap());
    let mut answer = Vec::new();
    let head = client.post(&request, body, &mut answer).await.unwrap();
    (head.status, String::from_utf8(answer).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_bodies_are_decompressed_under_the_cap() {
    let server = Running::start(plain(), ServerConfig::default()).await;
    let text = "some text ".repeat(1000);
    let gz = gzip(text.as_bytes()).unwrap();
    assert_eq!(
        post_encoded(&server, "gzip", &gz).await,
        (200, "10000 bytes\n".to_owned())
    );
    assert_eq!(
        post_encoded(&server, "identity", b"abc").await,
        (200, "3 bytes\n".to_owned())
    );

    let (status, text) = post_encoded(&server, "gzip", &gz[..gz.len() - 9]).await;
    assert_eq!(
        (status, text.as_str()),
        (400, "gzip: corrupt or truncated data\n")
    );
    let (status, text) = post_encoded(&server, "gzip", b"plain").await;
    assert_eq!((status, text.as_str()), (400, "gzip: invalid header\n"));
    let (status, text) = post_encoded(&server, "br", b"plain").await;
    assert_eq!(
        (status, text.as_str()),
        (415, "unsupported content encoding \"br\"\n")
    );

    let bomb = zeros_gzip(1 << 30);
    assert!(bomb.len() < 8 << 20, "{} bytes", bomb.len());
    let before = peak_bytes();
    let (status, text) = post_encoded(&server, "gzip", &bomb[..bomb.len() / 8]).await;
    assert_eq!(
        (status, text.as_str()),
        (413, "body size limit exceeded (limit 1048576 bytes)\n")
    );
    let grown = peak_bytes() - before;
    assert!(grown < 64 << 20, "a 128 MiB bomb cost {grown} bytes");
}

#[tokio::test]
async fn answers_are_compressed_on_request_and_head_agrees() {
    let text: &'static str = "a line of text\n".repeat(200).leak();
    let router = Router::new().route(
        "/long",
        get(move |headers: HeaderMap| async move { respond_text(text, &headers) }),
    );
    let server = Running::start(router, ServerConfig::default()).await;
    let mut stream = server.connect().await;
    let ask = |method: &str, accept: &str| {
        format!("{method} /long HTTP/1.1\r\nHost: x\r\nAccept-Encoding: {accept}\r\n\r\n")
    };
    stream
        .write_all(ask("HEAD", "gzip").as_bytes())
        .await
        .unwrap();
    let head = read_until(&mut stream, "\r\n\r\n").await.to_lowercase();
    for header in [
        "content-encoding: gzip",
        "vary: accept-encoding",
        "content-length: ",
    ] {
        assert!(head.contains(header), "{head}");
    }
    // The next response on the connection follows directly: HEAD sent no body.
    stream
        .write_all(ask("GET", "gzip;q=0, identity").as_bytes())
        .await
        .unwrap();
    let plain = read_until(&mut stream, "a line of text\n").await;
    assert!(plain.starts_with("HTTP/1.1 200 OK\r\n"), "{plain}");
    assert!(
        plain.to_lowercase().contains("content-length: 3000"),
        "{plain}"
    );
    assert!(
        !plain.to_lowercase().contains("content-encoding"),
        "{plain}"
    );

    let client = Client::new(ClientConfig::default());
    let mut body = Vec::new();
    let head = client
        .get(&Request::new(server.url("/long")), &mut body)
        .await
        .unwrap();
    assert_eq!(body, text.as_bytes());
    assert_eq!(head.body_bytes, 3000);
    assert!(head.wire_bytes < 400, "{}", head.wire_bytes);
}

/// Streams three pieces, then ends cleanly or not.
async fn stream_pieces(finish: bool) -> Response {
    let (sender, body) = body_channel(2);
    tokio::spawn(async move {
        for _piece in 0..3 {
            sender
                .send(Bytes::from_static(b"0123456789"))
                .await
                .unwrap();
        }
        if finish {
            sender.finish().await.unwrap();
        }
    });
    Response::new(body)
}

#[tokio::test]
async fn streamed_answer_ends_cleanly_only_when_finished() {
    let router = Router::new()
        .route("/whole", get(|| stream_pieces(true)))
        .route("/broken", get(|| stream_pieces(false)));
    let server = Running::start(router, ServerConfig::default()).await;
    let client = Client::new(ClientConfig::default());
    let mut body = Vec::new();
    client
        .get(&Request::new(server.url("/whole")), &mut body)
        .await
        .unwrap();
    assert_eq!(body, b"012345678901234567890123456789");
    let error = client
        .get(&Request::new(server.url("/broken")), &mut body)
        .await
        .unwrap_err();
    assert!(
        matches!(error, NetError::Closed { received_bytes } if received_bytes > 30),
        "{error}"
    );
}

#[tokio::test]
async fn bind_errors_name_the_address() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let fail = async |address: &str| {
        Server::bind(&[address], ServerConfig::default())
            .await
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        fail(&address).await,
        format!("cannot listen on {address:?}: address already in use")
    );
    assert_eq!(
        fail("192.0.2.1:0").await,
        "cannot listen on \"192.0.2.1:0\": cannot assign requested address"
    );
    assert_eq!(
        fail("9090").await,
        "cannot listen on \"9090\": missing port in address"
    );
    assert_eq!(
        fail("no-such-host.invalid:0").await,
        "cannot listen on \"no-such-host.invalid:0\": no such host"
    );
}

#[tokio::test]
async fn several_addresses_are_served_and_names_resolve() {
    let (stopper, stop) = narthex_net::Stopper::new();
    let addresses = ["127.0.0.1:0", "localhost:0", ":0"];
    let server = Server::bind(&addresses, ServerConfig::default())
        .await
        .unwrap();
    let bound = server.local_addrs();
    assert_eq!(bound.len(), 3);
    assert!(
        bound[1].ip().is_loopback() && bound[2].ip().is_unspecified(),
        "{bound:?}"
    );
    let serving = tokio::spawn(server.serve(plain(), stop));
    for address in &bound {
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", address.port()))
            .await
            .unwrap();
        stream.write_all(HELLO.as_bytes()).await.unwrap();
        read_until(&mut stream, "hello\n").await;
    }
    stopper.stop();
    assert_eq!(patient(serving).await.unwrap().requests_total, 3);
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let server = Running::start(plain(), ServerConfig::default()).await;
    let mut stream = server.connect().await;
    let three = format!("{HELLO}{}{HELLO}", HELLO.replace("/hello", "/none"));
    stream.write_all(three.as_bytes()).await.unwrap();
    let mut text = String::new();
    while text.matches("HTTP/1.1 ").count() < 3 || !text.ends_with("hello\n") {
        text += &read_until(&mut stream, "\n").await;
    }
    let statuses: Vec<_> = text
        .match_indices("HTTP/1.1 ")
        .map(|(at, _)| &text[at + 9..at + 12])
        .collect();
    assert_eq!(statuses, ["200", "404", "200"]);
}

#[tokio::test]
async fn requests_are_counted_by_route_under_prometheus_names() {
    let router = Router::new()
        .route(
            "/api/v1/label/{name}/values",
            get(|| async { "twelve bytes" }),
        )
        .route("/static/{*file}", get(|| stream_pieces(true)))
        .merge(plain());
    let server = Running::start(narthex_net::instrument(router), ServerConfig::default()).await;
    let client = Client::new(ClientConfig::default());
    let mut body = Vec::new();
    for path in [
        "/api/v1/label/a/values",
        "/api/v1/label/b/values",
        "/static/x/y",
        "/no/1",
        "/no/2",
    ] {
        client
            .get(&Request::new(server.url(path)), &mut body)
            .await
            .unwrap();
    }
    server.stopper.stop();
    server.ended().await;

    let registry = narthex_client::Registry::default();
    narthex_net::register_metrics(&registry).unwrap();
    let mut text = Vec::new();
    registry.encode_text(&mut text);
    let text = String::from_utf8(text).unwrap();
    let label = "handler=\"/api/v1/label/:name/values\"";
    for line in [
        format!("prometheus_http_requests_total{{{label},code=\"200\"}} 2"),
        "prometheus_http_requests_total{handler=\"/static/*file\",code=\"200\"} 1".to_owned(),
        "prometheus_http_requests_total{handler=\"unmatched\",code=\"404\"} 2".to_owned(),
        format!("prometheus_http_request_duration_seconds_count{{{label}}} 2"),
        format!("prometheus_http_response_size_bytes_sum{{{label}}} 24"),
        "prometheus_http_response_size_bytes_sum{handler=\"/static/*file\"} 30".to_owned(),
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
    // Other tests' servers run in this process too, so only a lower bound is known.
    for name in ["accepted", "closed"] {
        let line = format!("net_conntrack_listener_conn_{name}_total{{listener_name=\"http\"}} ");
        let value = text.lines().find_map(|l| l.strip_prefix(&line)).unwrap();
        assert!(value.parse::<u64>().unwrap() >= 1, "{line}{value}");
    }
}

#[tokio::test]
async fn handlers_learn_the_clients_address() {
    let show = |ConnectInfo(peer): ConnectInfo<SocketAddr>| async move { format!("{peer}\n") };
    let server = Running::start(Router::new().route("/", get(show)), ServerConfig::default()).await;
    let mut stream = server.connect().await;
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let answer = read_to_close(&mut stream).await;
    let own = stream.local_addr().unwrap();
    assert!(answer.ends_with(&format!("\r\n\r\n{own}\n")), "{answer}");
}

#[tokio::test]
async fn restart_does_not_wait_for_the_predecessors_connections() {
    let server = Running::start(plain(), ServerConfig::default()).await;
    let address = server.address.to_string();
    let mut idle = server.connect().await;
    idle.write_all(HELLO.as_bytes()).await.unwrap();
    read_until(&mut idle, "hello\n").await;
    server.stopper.stop();
    server.ended().await;
    // Our side closed first, so the kernel keeps the connection in TIME_WAIT for a minute.
    assert_eq!(read_to_close(&mut idle).await, "");
    drop(idle);
    Server::bind(&[&address], ServerConfig::default())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_handler_that_panics_answers_500_and_nobody_else_notices() {
    async fn broken() -> &'static str {
        panic!("a bug")
    }
    async fn later() -> &'static str {
        tokio::task::yield_now().await;
        panic!("a bug after waiting")
    }
    let half = || async {
        let mut pieces = 0;
        Response::new(narthex_net::body_of(move || {
            pieces += 1;
            assert!(pieces < 3, "a bug in the answer");
            Some(Bytes::from_static(b"piece"))
        }))
    };
    let router = plain()
        .route("/broken", get(broken))
        .route("/half", get(half))
        .route("/later", get(later));
    let server = Running::start(router, ServerConfig::default()).await;
    let before = narthex_net::panics_total("http");
    let mut stream = server.connect().await;
    for path in ["/broken", "/later"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = read_until(&mut stream, "internal error\n").await;
        assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
    }
    // The same connection continues.
    stream.write_all(HELLO.as_bytes()).await.unwrap();
    read_until(&mut stream, "hello\n").await;
    // A response that breaks off never looks complete.
    let request = "GET /half HTTP/1.1\r\nHost: x\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let answer = read_to_close(&mut stream).await;
    assert!(!answer.contains("\r\n0\r\n"), "{answer}");
    assert_eq!(narthex_net::panics_total("http"), before + 3);
    let mut other = server.connect().await;
    other.write_all(HELLO.as_bytes()).await.unwrap();
    read_until(&mut other, "hello\n").await;
}
