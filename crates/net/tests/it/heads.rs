//! Tests of ambiguous heads, and of input after a request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use narthex_net::axum::response::Response;
use narthex_net::axum::routing::{get, post};
use narthex_net::{Router, ServerConfig, body_of};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Running, patient, read_body, read_to_close};

/// Sends bytes and returns the statuses of all responses until the server closes.
async fn statuses(server: &Running, request: &[u8]) -> Vec<String> {
    let mut stream = server.connect().await;
    stream.write_all(request).await.unwrap();
    let answers = read_to_close(&mut stream).await;
    let lines = answers.match_indices("HTTP/1.");
    lines
        .filter_map(|(at, _)| answers.get(at + 9..at + 12).map(str::to_owned))
        .collect()
}

fn echo() -> Router {
    let read = |request| async move {
        match read_body(request, 1 << 20).await {
            Ok(body) => body,
            Err(error) => error.to_string().into(),
        }
    };
    Router::new()
        .route("/", post(read))
        .route("/{name}", get(async || "hello\n"))
}

/// Most statuses are those of Go's server (Prometheus'); it answers 505 to HTTP/3.0 and 501 to unknown codings, and
/// accepts more fields and longer heads.
///
/// Regression: most of these got no response before the connection closed. Two hosts, no host, and codings that
/// nobody decoded were accepted.
#[tokio::test]
async fn heads_with_two_readings_are_refused_in_words() {
    let server = Running::start(echo(), ServerConfig::default()).await;
    let body = "5\r\nhello\r\n0\r\n\r\n";
    let chunked = |field: &str| format!("POST / HTTP/1.1\r\nHost: x\r\n{field}\r\n\r\n{body}");
    let sized = |field: &str| format!("POST / HTTP/1.1\r\nHost: x\r\n{field}\r\n\r\nhello");
    let plain = |field: &str| format!("GET /a HTTP/1.1\r\n{field}\r\n\r\n");
    let many = (0..101).map(|at| format!("X{at}: y\r\n"));
    let many: String = many.chain(["Host: x".to_owned()]).collect();
    let cases = [
        ("400", plain("X: no host")),
        ("400", plain("Host: a\r\nHost: b")),
        ("400", plain("Host: a b")),
        ("400", plain("Host: a/b")),
        ("400", plain("Host: a\r\nX y: z")),
        ("400", plain("Host: a\r\nX: y\0z")),
        ("400", plain("Host: a\r\nno colon")),
        ("400", plain("Host: a").replace("/a", "/%zz")),
        ("400", plain("Host: a").replace("/a", "/%4")),
        ("400", plain("Host: a").replace("/a", "/a b")),
        ("400", plain("Host: a").replace("HTTP/1.1", "HTTP/3.0")),
        ("431", plain(&many)),
        ("414", plain("Host: a").replace("/a", &"/a".repeat(40_000))),
        ("417", plain("Host: a\r\nExpect: 200-ok")),
        ("501", chunked("Transfer-Encoding: gzip, chunked")),
        (
            "501",
            chunked("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
        ),
        ("400", chunked("Transfer-Encoding: xchunked")),
        ("400", chunked("Transfer-Encoding : chunked")),
        ("400", sized("Content-Length: 5\r\nContent-Length: 6")),
        ("400", sized("Content-Length: +5")),
        ("400", sized("Content-Length: -5")),
        ("400", sized("Content-Length: 0x5")),
        ("413", sized("Content-Length: 9223372036854775807")),
    ];
    for (wanted, request) in cases {
        let shown = request.get(..80).unwrap_or(&request);
        assert_eq!(
            statuses(&server, request.as_bytes()).await,
            [wanted],
            "{shown:?}"
        );
    }
    // Similar valid requests are accepted.
    for request in [
        plain("Host: a\r\nConnection: close"),
        plain("Host:\r\nConnection: close"),
        plain("Host: [::1]:9090\r\nConnection: close").replace("/a", "/%41%2f"),
        plain("Connection: close").replace("HTTP/1.1", "HTTP/1.0"),
        chunked("Connection: close\r\nTransfer-Encoding: Chunked"),
        sized("Connection: close\r\nContent-Length: 5\r\nExpect: 100-Continue"),
    ] {
        let answers = statuses(&server, request.as_bytes()).await;
        assert_eq!(
            answers.last().map(String::as_str),
            Some("200"),
            "{request:?}"
        );
    }
}

/// Regression: a byte after the request made the server write the whole response to memory, at once and outside every
/// budget, before sending any of it; 160 kB of requests in a row made 290 MB of responses.
#[tokio::test]
async fn what_is_behind_a_request_does_not_make_its_answer_whole() {
    const PIECES: usize = 4096;
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    let long = move || {
        let count = Arc::clone(&count);
        async move {
            let pieces = move || {
                let before = count.fetch_add(1, Ordering::Relaxed);
                (before < PIECES).then(|| Bytes::from(vec![b'x'; 64 << 10]))
            };
            Response::new(body_of(pieces))
        }
    };
    let router = Router::new().route("/long", get(long));
    let server = Running::start(router, ServerConfig::default()).await;
    let mut stream = server.connect().await;
    let request = b"GET /long HTTP/1.1\r\nHost: x\r\n\r\nG";
    stream.write_all(request).await.unwrap();
    let mut first = [0];
    patient(stream.read_exact(&mut first)).await.unwrap();
    // Sockets hold some megabytes of the 256.
    let made = made.load(Ordering::Relaxed);
    assert!(
        made < PIECES / 4,
        "{made} pieces were made for a client that read one byte"
    );
}
