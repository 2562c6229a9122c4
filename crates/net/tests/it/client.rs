//! Tests the client against our server and against scripted, misbehaving ones.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, StatusCode};
use narthex_net::axum::response::IntoResponse;
use narthex_net::axum::routing::get;
use narthex_net::{
    Allowance, Client, ClientConfig, Encoding, NetError, Request, ResponseHead, Router,
    ServerConfig, Url, gzip, respond_text,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Running, patient, peak_bytes, read_until, scripted, zeros_gzip};

fn client() -> Client {
    Client::new(ClientConfig::default())
}

fn url(address: SocketAddr) -> Url {
    Url::parse(&format!("http://{address}/metrics")).unwrap()
}

/// Fetches from a peer that sends these bytes for every request and then closes.
async fn fetch(answer: impl AsRef<[u8]>) -> Result<(ResponseHead, Vec<u8>), NetError> {
    fetch_within(answer, 256 << 20).await
}

async fn fetch_within(
    answer: impl AsRef<[u8]>,
    limit_bytes: usize,
) -> Result<(ResponseHead, Vec<u8>), NetError> {
    let address = scripted(vec![answer.as_ref().to_vec()]).await;
    let mut request = Request::new(url(address));
    request.body_limit_bytes = limit_bytes;
    let mut body = Vec::new();
    let head = patient(client().get(&request, &mut body)).await?;
    Ok((head, body))
}

fn with_length(headers: &str, body: &[u8]) -> Vec<u8> {
    let mut out = format!(
        "HTTP/1.1 200 OK\r\n{headers}Content-Length: {}\r\n\r\n",
        body.len()
    );
    out.push_str("");
    let mut out = out.into_bytes();
    out.extend_from_slice(body);
    out
}

#[tokio::test]
async fn bodies_of_every_framing_are_read() {
    let (head, body) = fetch(with_length("Content-Type: text/plain\r\n", b"up 1\n"))
        .await
        .unwrap();
    assert_eq!(body, b"up 1\n");
    assert_eq!(head.content_type.as_deref(), Some("text/plain"));
    assert_eq!((head.status, head.body_bytes, head.reused), (200, 5, false));

    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                   3;x=y\r\nabc\r\n00A\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n";
    assert_eq!(fetch(chunked).await.unwrap().1, b"abc0123456789");
    assert_eq!(
        fetch("HTTP/1.0 200 OK\r\n\r\nto the end").await.unwrap().1,
        b"to the end"
    );
    assert_eq!(
        fetch("HTTP/1.1 200\nServer: lf only\nContent-Length: 2\n\nok")
            .await
            .unwrap()
            .1,
        b"ok"
    );
    assert_eq!(
        fetch("HTTP/1.1 204 No Content\r\n\r\n").await.unwrap().1,
        b""
    );
    let interim = [
        &b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"[..],
        &with_length("", b"x"),
    ]
    .concat();
    assert_eq!(fetch(interim).await.unwrap().1, b"x");
}

#[tokio::test]
async fn large_bodies_survive_every_framing() {
    let big: Vec<u8> = (0..3_000_000_u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    assert_eq!(fetch(with_length("", &big)).await.unwrap().1, big);
    let mut chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for (i, piece) in big.chunks(4099).enumerate() {
        // Every piece twice, as two chunks of different sizes, to move the boundaries.
        let (a, b) = piece.split_at(piece.len() * (i % 7) / 7);
        for part in [a, b].into_iter().filter(|p| !p.is_empty()) {
            chunked.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
            chunked.extend_from_slice(part);
            chunked.extend_from_slice(b"\r\n");
        }
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    assert_eq!(fetch(chunked).await.unwrap().1, big);
    let closed = [&b"HTTP/1.1 200 OK\r\n\r\n"[..], &big].concat();
    assert_eq!(fetch(closed).await.unwrap().1, big);
}

#[tokio::test]
async fn truncated_answers_are_errors() {
    for (answer, want) in [
        ("", "EOF"),
        ("HTTP/1.1 200 OK\r\nConte", "unexpected EOF after 22 bytes"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this",
            "unexpected EOF after 49 bytes",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
            "unexpected EOF after 52 bytes",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n",
            "unexpected EOF after 57 bytes",
        ),
    ] {
        let error = fetch(answer).await.unwrap_err();
        assert_eq!(error.failure().to_string(), want, "{answer:?}");
    }
}

#[tokio::test]
async fn malformed_answers_are_errors() {
    for (answer, want) in [
        ("SSH-2.0-OpenSSH_9\r\n\r\n", "not HTTP/1"),
        ("HTTP/1.1 abc OK\r\n\r\n", "bad status line"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
            "bad Content-Length",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n12345",
            "bad Content-Length",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            "conflicting Content-Length",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "unsupported Transfer-Encoding",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
            "malformed chunked encoding",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n11111111111111111\r\n",
            "chunk size too long",
        ),
        (
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
            "unexpected interim answer",
        ),
    ] {
        let error = fetch(answer).await.unwrap_err();
        let want = format!("malformed HTTP response: {want}");
        assert_eq!(error.failure().to_string(), want, "{answer:?}");
    }
    let early = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(9);
    let error = fetch(format!("{early}HTTP/1.1 204 No Content\r\n\r\n"))
        .await
        .unwrap_err();
    assert!(
        error.to_string().ends_with("unexpected interim answer"),
        "{error}"
    );
    let endless = [&b"HTTP/1.1 200 OK\r\n"[..], &b"X: y\r\n".repeat(20_000)].concat();
    let error = fetch(endless).await.unwrap_err();
    assert!(
        error.to_string().contains("head longer than 65536 bytes"),
        "{error}"
    );
}

#[tokio::test]
async fn more_than_the_declared_length_is_not_taken_for_the_next_answer() {
    let first = with_length("", b"one");
    let stray = [
        &first[..],
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nforged",
    ]
    .concat();
    let address = scripted(vec![stray, with_length("", b"two")]).await;
    let client = client();
    let request = Request::new(url(address));
    let mut body = Vec::new();
    for _ in 0..2 {
        client.get(&request, &mut body).await.unwrap();
        assert_eq!(body, b"one");
    }
    assert_eq!(client.stats().connections_opened_total, 2);
}

#[tokio::test]
async fn connections_are_kept_alive_and_counted() {
    let server = Running::start(
        Router::new().route(
            "/metrics",
            get(|h: HeaderMap| async move { respond_text("up 1\n", &h) }),
        ),
        ServerConfig::default(),
    )
    .await;
    let client = client();
    let request = Request::new(server.url("/metrics"));
    let mut body = Vec::new();
    for round in 0..10 {
        let head = client.get(&request, &mut body).await.unwrap();
        assert_eq!(head.reused, round > 0);
    }
    let stats = client.stats();
    assert_eq!(
        (
            stats.connections_opened_total,
            stats.connections_reused_total
        ),
        (1, 9)
    );
    server.stopper.stop();
    assert_eq!(server.ended().await.connections_total, 1);
}

#[tokio::test]
async fn connections_that_may_not_be_reused_are_not() {
    let chunked = "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    for answer in [
        "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 3\r\n\r\nabc".to_owned(),
        "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc".to_owned(),
        format!("HTTP/1.1 200 OK\r\n{chunked}"),
    ] {
        let address = scripted(vec![answer.clone().into_bytes(); 3]).await;
        let (client, request, mut body) = (client(), Request::new(url(address)), Vec::new());
        for _ in 0..2 {
            assert!(
                !client.get(&request, &mut body).await.unwrap().reused,
                "{answer:?}"
            );
            assert_eq!(body, b"abc");
        }
    }
    let kept = "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabc";
    let address = scripted(vec![kept.as_bytes().to_vec(); 2]).await;
    let (client, request, mut body) = (client(), Request::new(url(address)), Vec::new());
    client.get(&request, &mut body).await.unwrap();
    assert!(client.get(&request, &mut body).await.unwrap().reused);
}

#[tokio::test]
async fn idle_connections_are_bounded_in_time_and_number() {
    let address = scripted(vec![with_length("", b"abc"); 10]).await;
    let request = Request::new(url(address));
    let mut config = ClientConfig::default();
    config.idle_timeout = Duration::ZERO;
    let (client, mut body) = (Client::new(config), Vec::new());
    for _ in 0..2 {
        assert!(!client.get(&request, &mut body).await.unwrap().reused);
    }

    let mut config = ClientConfig::default();
    config.max_idle_per_host = 1;
    let (client, mut other) = (Client::new(config), Vec::new());
    for round in 0..3 {
        let both = async {
            tokio::join!(
                client.get(&request, &mut body),
                client.get(&request, &mut other)
            )
        };
        let (first, second) = patient(both).await;
        // One of the two connections of a round is kept.
        let reused = u32::from(first.unwrap().reused) + u32::from(second.unwrap().reused);
        assert_eq!(reused, u32::from(round > 0));
    }
    let mut config = ClientConfig::default();
    config.max_idle_per_host = 0;
    let client = Client::new(config);
    for _ in 0..2 {
        assert!(!client.get(&request, &mut body).await.unwrap().reused);
    }
}

#[tokio::test]
async fn connection_closed_while_idle_is_replaced_unseen() {
    // Each connection serves one request and closes without announcing it.
    let address = scripted(vec![with_length("", b"one")]).await;
    let client = client();
    let request = Request::new(url(address));
    let mut body = Vec::new();
    for _ in 0..20 {
        patient(client.get(&request, &mut body)).await.unwrap();
        assert_eq!(body, b"one");
    }
    assert_eq!(client.stats().connections_opened_total, 20);
}

#[tokio::test]
async fn gzip_is_decoded_into_the_reused_buffer() {
    let text = "metric_name{label=\"value\"} 12345\n".repeat(500);
    let gz = gzip(text.as_bytes()).unwrap();
    let answer = with_length("Content-Encoding: gzip\r\n", &gz);
    let address = scripted(vec![answer; 5]).await;
    let client = client();
    let request = Request::new(url(address));
    let mut body = Vec::with_capacity(100_000);
    let buffer = body.as_ptr();
    for _ in 0..5 {
        let head = client.get(&request, &mut body).await.unwrap();
        assert_eq!(body, text.as_bytes());
        assert_eq!(body.as_ptr(), buffer);
        assert_eq!(
            (head.encoding, head.body_bytes),
            (Encoding::Gzip, text.len() as u64)
        );
        assert!(head.wire_bytes > gz.len() as u64 && head.wire_bytes < gz.len() as u64 + 100);
    }
    assert_eq!(client.stats().connections_opened_total, 1);

    // Several members, as flushed by some servers.
    let two = [gz.clone(), gz.clone()].concat();
    let (_head, body) = fetch(with_length("Content-Encoding: gzip\r\n", &two))
        .await
        .unwrap();
    assert_eq!(body, [text.as_bytes(), text.as_bytes()].concat());
    let broken = fetch(with_length("Content-Encoding: gzip\r\n", &gz[..40]))
        .await
        .unwrap_err();
    assert_eq!(broken.to_string(), "gzip: corrupt or truncated data");
    let unknown = fetch(with_length("Content-Encoding: br\r\n", b"abc"))
        .await
        .unwrap_err();
    assert_eq!(
        unknown.failure().to_string(),
        "unsupported content encoding \"br\""
    );
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a test tells its story in one piece")]
async fn bodies_above_the_limit_are_refused_in_flat_memory() {
    let limit = "body size limit exceeded (limit 1000 bytes)";
    let long = vec![b'x'; 1001];
    assert_eq!(
        fetch_within(with_length("", &long), 1000)
            .await
            .unwrap_err()
            .failure()
            .to_string(),
        limit
    );
    assert!(
        fetch_within(with_length("", &long[..1000]), 1000)
            .await
            .is_ok()
    );
    let mut chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    chunked.extend_from_slice(
        &b"190\r\n"
            .iter()
            .chain(&[b'y'; 400])
            .chain(b"\r\n")
            .copied()
            .collect::<Vec<_>>()
            .repeat(3),
    );
    chunked.extend_from_slice(b"0\r\n\r\n");
    assert_eq!(
        fetch_within(&chunked, 1000)
            .await
            .unwrap_err()
            .failure()
            .to_string(),
        limit
    );
    assert!(fetch_within(&chunked, 1200).await.is_ok());
    let closed = [&b"HTTP/1.1 200 OK\r\n\r\n"[..], &long].concat();
    assert_eq!(
        fetch_within(&closed, 1000)
            .await
            .unwrap_err()
            .failure()
            .to_string(),
        limit
    );
    assert!(fetch_within(&closed, 1001).await.is_ok());

    let bomb = with_length("Content-Encoding: gzip\r\n", &zeros_gzip(512 << 20));
    let before = peak_bytes();
    let error = fetch_within(&bomb, 16 << 20).await.unwrap_err();
    assert!(
        matches!(
            error.failure(),
            NetError::BodyTooLarge {
                limit_bytes: 16_777_216
            }
        ),
        "{error}"
    );
    let grown = peak_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "a 512 MiB bomb cost {grown} bytes");

    // An announced length alone reserves nothing.
    let before = peak_bytes();
    let lie = "HTTP/1.1 200 OK\r\nContent-Length: 200000000\r\n\r\nx";
    let mut body = Vec::new();
    let address = scripted(vec![lie.as_bytes().to_vec()]).await;
    client()
        .get(&Request::new(url(address)), &mut body)
        .await
        .unwrap_err();
    assert!(
        body.capacity() < 1 << 20,
        "{} bytes reserved",
        body.capacity()
    );
    assert!(peak_bytes().saturating_sub(before) < 64 << 20);
}

/// Grants up to a limit and records the amount.
struct Grants {
    left_bytes: usize,
    granted_bytes: usize,
}

impl Grants {
    fn new(left_bytes: usize) -> Self {
        Self {
            left_bytes,
            granted_bytes: 0,
        }
    }
}

impl Allowance for Grants {
    fn grow(&mut self, bytes: usize) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.left_bytes = self.left_bytes.checked_sub(bytes).ok_or("used up")?;
        self.granted_bytes += bytes;
        Ok(())
    }

    fn shrink(&mut self, bytes: usize) {
        self.left_bytes += bytes;
        self.granted_bytes -= bytes;
    }
}

/// A target that sends a megabyte of gzip containing a gigabyte, or an endless plain body, takes only as much memory
/// as the caller allows, not as much as the body limit.
#[tokio::test]
async fn bodies_take_no_memory_that_was_not_granted() {
    let bomb = with_length("Content-Encoding: gzip\r\n", &zeros_gzip(1 << 30));
    let plain = vec![b'x'; 3 << 20];
    let length = with_length("", &plain);
    let closed = [&b"HTTP/1.1 200 OK\r\n\r\n"[..], &plain].concat();
    let size = format!("{:x}\r\n", plain.len());
    let chunked = [
        &b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"[..],
        size.as_bytes(),
        &plain,
        b"\r\n0\r\n\r\n",
    ]
    .concat();
    for (answer, allowed_bytes) in [
        (&bomb, 16 << 20),
        (&length, 1 << 20),
        (&closed, 1 << 20),
        (&chunked, 1 << 20),
    ] {
        let address = scripted(vec![answer.clone()]).await;
        let mut request = Request::new(url(address));
        request.body_limit_bytes = 1 << 30;
        let mut grants = Grants::new(allowed_bytes);
        let mut body = Vec::new();
        let before = peak_bytes();
        let client = client();
        let got = patient(client.get_within(&request, &mut body, &mut grants)).await;
        let error = got.unwrap_err();
        assert!(
            matches!(error.failure(), NetError::Memory { .. }),
            "{error}"
        );
        // Concurrent tests take some memory too.
        let grown = peak_bytes().saturating_sub(before);
        assert!(grown < 128 << 20, "{grown} of {allowed_bytes}");
        assert!(body.capacity() <= allowed_bytes, "{}", body.capacity());
        if answer.len() == bomb.len() {
            continue;
        }
        let mut grants = Grants::new(usize::MAX);
        let mut body = Vec::new();
        let got = patient(client.get_within(&request, &mut body, &mut grants)).await;
        assert_eq!(got.unwrap().status, 200);
        assert!(body == plain);
        assert!(grants.granted_bytes >= body.capacity());
        // A large enough buffer requests nothing.
        let mut none = Grants::new(0);
        let got = patient(client.get_within(&request, &mut body, &mut none)).await;
        assert!(got.is_ok() && body == plain, "{got:?}");
    }
}

#[tokio::test]
async fn statuses_read_as_in_prometheus() {
    let (head, body) =
        fetch("HTTP/1.1 500 whatever\r\nContent-Length: 4\r\nRetry-After: 7\r\nAccept-encoding: zstd\r\n\r\noops")
            .await
            .unwrap();
    assert_eq!(body, b"oops");
    assert_eq!(head.retry_after.as_deref(), Some("7"));
    assert_eq!(head.kept("accept-encoding"), Some("zstd"));
    let error = head.require_ok().unwrap_err();
    assert_eq!(
        error.to_string(),
        "server returned HTTP status 500 Internal Server Error"
    );
    // The status counts, not the size of its explanation.
    let page = format!(
        "HTTP/1.1 404 Not Found\r\nContent-Length: 300000\r\n\r\n{}",
        "z".repeat(300_000)
    );
    let (head, body) = fetch_within(page, 1000).await.unwrap();
    assert_eq!((head.status, body.len()), (404, 1000));
}

#[tokio::test]
async fn connection_errors_read_as_go_writes_them() {
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let mut body = Vec::new();
    let error = client()
        .get(&Request::new(url(closed)), &mut body)
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("Get \"http://{closed}/metrics\": dial tcp {closed}: connect: connection refused")
    );
    let unknown = Url::parse("http://no-such-host.invalid/").unwrap();
    let error = client()
        .get(&Request::new(unknown), &mut body)
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "Get \"http://no-such-host.invalid/\": dial tcp: lookup no-such-host.invalid: no such host"
    );
}

#[tokio::test]
async fn deadline_covers_the_whole_exchange() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // One byte of a body every 20 ms: alive, but far too slow.
    tokio::spawn(async move {
        while let Ok((mut stream, _peer)) = listener.accept().await {
            tokio::spawn(async move {
                let head = b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n";
                let mut result = stream.write_all(head).await;
                while result.is_ok() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    result = stream.write_all(b"x").await;
                }
            });
        }
    });
    let mut request = Request::new(url(address));
    request.timeout = Duration::from_millis(300);
    let start = Instant::now();
    let mut body = Vec::new();
    let error = patient(client().get(&request, &mut body))
        .await
        .unwrap_err();
    assert!(start.elapsed() >= Duration::from_millis(300));
    assert!(
        error.to_string().contains("context deadline exceeded"),
        "{error}"
    );
    assert!(matches!(error.failure(), NetError::Deadline { .. }));
}

/// Returns a router that redirects according to the path, and echoes the request.
fn redirector(elsewhere: Arc<std::sync::Mutex<String>>) -> Router {
    let show = |headers: HeaderMap| async move {
        let has = |name: &str| {
            headers
                .get(name)
                .map_or("none", |v| v.to_str().unwrap())
                .to_owned()
        };
        format!(
            "auth={} custom={} host={}",
            has("authorization"),
            has("x-custom"),
            has("host")
        )
    };
    let to = |place: String| (StatusCode::FOUND, [("location", place)]).into_response();
    Router::new()
        .route(
            "/show",
            get(show).post(|body: String| async move { format!("posted {body}") }),
        )
        .route("/a/loop", get(move || async move { to("loop".to_owned()) }))
        .route(
            "/a/relative",
            get(move || async move { to("../show?x=1#frag".to_owned()) }),
        )
        .route(
            "/elsewhere",
            get(move || async move { to(elsewhere.lock().unwrap().clone()) }),
        )
        .route(
            "/308",
            get(|| async { (StatusCode::PERMANENT_REDIRECT, [("location", "/show")]) })
                .post(|| async { (StatusCode::PERMANENT_REDIRECT, [("location", "/show")]) }),
        )
        .route(
            "/303",
            get(|| async {}).post(|| async { (StatusCode::SEE_OTHER, [("location", "/show")]) }),
        )
}

#[tokio::test]
async fn redirects_are_followed_and_credentials_stay_home() {
    let elsewhere = Arc::new(std::sync::Mutex::new(String::new()));
    let server = Running::start(redirector(Arc::clone(&elsewhere)), ServerConfig::default()).await;
    let port = server.address.port();
    *elsewhere.lock().unwrap() = format!("http://localhost:{port}/show");
    let client = client();
    let mut body = Vec::new();
    let ask = |path: &str| {
        let mut request = Request::new(server.url(path));
        request
            .headers
            .insert("authorization", "Bearer secret".parse().unwrap());
        request.headers.insert("x-custom", "1".parse().unwrap());
        request
    };
    let head = client.get(&ask("/a/relative"), &mut body).await.unwrap();
    assert_eq!(
        String::from_utf8_lossy(&body),
        format!("auth=Bearer secret custom=1 host=127.0.0.1:{port}")
    );
    assert_eq!(head.redirects, 1);

    client.get(&ask("/elsewhere"), &mut body).await.unwrap();
    assert_eq!(
        String::from_utf8_lossy(&body),
        format!("auth=none custom=1 host=localhost:{port}")
    );

    let error = client.get(&ask("/a/loop"), &mut body).await.unwrap_err();
    assert_eq!(error.failure().to_string(), "stopped after 10 redirects");
    let mut unfollowed = ask("/a/loop");
    unfollowed.max_redirects = 0;
    let head = client.get(&unfollowed, &mut body).await.unwrap();
    assert_eq!(
        head.require_ok().unwrap_err().to_string(),
        "server returned HTTP status 302 Found"
    );

    client.post(&ask("/308"), b"data", &mut body).await.unwrap();
    assert_eq!(body, b"posted data");
    client.post(&ask("/303"), b"data", &mut body).await.unwrap();
    assert!(
        body.starts_with(b"auth="),
        "{}",
        String::from_utf8_lossy(&body)
    );
}

#[tokio::test]
async fn ipv6_targets_are_reached() {
    let Ok(listener) = tokio::net::TcpListener::bind("[::1]:0").await else {
        println!("no IPv6 loopback here: the case did not run");
        return;
    };
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let (stopper, stop) = narthex_net::Stopper::new();
    let address = format!("[::1]:{port}");
    let server = narthex_net::Server::bind(&[&address], ServerConfig::default())
        .await
        .unwrap();
    let router = Router::new().route("/metrics", get(|| async { "up 1\n" }));
    let serving = tokio::spawn(server.serve(router, stop));
    let url = Url::parse(&format!("http://{address}/metrics?x=y")).unwrap();
    let mut body = Vec::new();
    client().get(&Request::new(url), &mut body).await.unwrap();
    assert_eq!(body, b"up 1\n");
    stopper.stop();
    patient(serving).await.unwrap();
}

/// Starts a peer that silently closes on the second request of its first connection.
async fn hangs_up_once() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        for last in [true, false] {
            let (mut stream, _peer) = listener.accept().await.unwrap();
            read_until(&mut stream, "\r\n\r\n").await;
            stream.write_all(&with_length("", b"one")).await.unwrap();
            read_until(&mut stream, "\r\n\r\n").await;
            if !last {
                stream.write_all(&with_length("", b"two")).await.unwrap();
            }
        }
    });
    address
}

#[tokio::test]
async fn request_lost_with_a_kept_connection_is_repeated_if_harmless() {
    let mut body = Vec::new();
    let (client, request) = (client(), Request::new(url(hangs_up_once().await)));
    for _ in 0..2 {
        patient(client.get(&request, &mut body)).await.unwrap();
        assert_eq!(body, b"one");
    }
    assert_eq!(client.stats().connections_opened_total, 2);

    let (client, request) = (self::client(), Request::new(url(hangs_up_once().await)));
    patient(client.get(&request, &mut body)).await.unwrap();
    // It is unknown whether the POST was carried out.
    let error = patient(client.post(&request, b"", &mut body))
        .await
        .unwrap_err();
    assert!(
        matches!(error.failure(), NetError::Closed { received_bytes: 0 }),
        "{error}"
    );
}

#[tokio::test]
async fn unasked_for_answers_are_not_taken() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let request = Request::new(url(listener.local_addr().unwrap()));
    let (client, mut body) = (client(), Vec::new());
    for _ in 0..2 {
        let serve = async {
            let (mut stream, _peer) = listener.accept().await.unwrap();
            read_until(&mut stream, "\r\n\r\n").await;
            stream.write_all(&with_length("", b"asked")).await.unwrap();
            stream
        };
        let (head, mut stream) =
            patient(async { tokio::join!(client.get(&request, &mut body), serve) }).await;
        assert!(!head.unwrap().reused);
        assert_eq!(body, b"asked");
        stream
            .write_all(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
            .await
            .unwrap();
        // Until the runtime has polled its sockets again.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn an_answer_before_the_request_was_read_is_understood() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let request = Request::new(url(listener.local_addr().unwrap()));
    let serve = async {
        let (mut stream, _peer) = listener.accept().await.unwrap();
        let _some = stream.read(&mut [0; 1000]).await.unwrap();
        let answer = b"HTTP/1.1 413 Payload Too Large\r\nContent-Length: 3\r\n\r\nbig";
        stream.write_all(answer).await.unwrap();
        // Closing with unread input resets the connection during the client's writes.
    };
    let (large, mut body) = (vec![0; 32 << 20], Vec::new());
    let client = client();
    let post = client.post(&request, &large, &mut body);
    let (head, ()) = patient(async { tokio::join!(post, serve) }).await;
    assert_eq!(head.unwrap().status, 413);
}

#[tokio::test]
async fn a_server_that_answers_before_reading_all_is_understood() {
    let server = Running::start(Router::new(), {
        let mut config = ServerConfig::default();
        config.body_limit_bytes = 1000;
        config
    })
    .await;
    let mut body = Vec::new();
    let request = Request::new(server.url("/none"));
    let large = vec![0; 8 << 20];
    let head = patient(client().post(&request, &large, &mut body))
        .await
        .unwrap();
    assert_eq!(head.status, 413);
}

/// The example in the crate's documentation, which is not compiled itself.
#[tokio::test]
async fn documented_example_works() {
    let (stopper, stop) = narthex_net::Stopper::new();
    let server = narthex_net::Server::bind(&["127.0.0.1:0"], ServerConfig::default())
        .await
        .unwrap();
    let address = server.local_addrs()[0];
    let router = Router::new().route(
        "/hello",
        get(|headers: HeaderMap| async move { respond_text("hi\n", &headers) }),
    );
    let serving = tokio::spawn(server.serve(router, stop));

    let client = Client::new(ClientConfig::default());
    let request = Request::new(Url::parse(&format!("http://{address}/hello")).unwrap());
    let mut body = Vec::new();
    client
        .get(&request, &mut body)
        .await
        .unwrap()
        .require_ok()
        .unwrap();
    assert_eq!(body, b"hi\n");

    stopper.stop();
    assert_eq!(serving.await.unwrap().cut_requests_total, 0);
}
