//! Tests of compressed responses.

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, HeaderValue};
use narthex_net::axum::response::{IntoResponse, Response};
use narthex_net::axum::routing::get;
use narthex_net::{
    Client, ClientConfig, Encoding, Request, Router, ServerConfig, body_channel, compress,
    respond_text,
};
use tokio::sync::mpsc;

use crate::support::{Running, patient};

fn line() -> String {
    "metric{label=\"value\"} 1\n".repeat(2000)
}

async fn fetch(server: &Running, path: &str, accept: &'static str) -> (Encoding, u64, Vec<u8>) {
    let client = Client::new(ClientConfig::default());
    let mut request = Request::new(server.url(path));
    let accept = HeaderValue::from_static(accept);
    request.headers.insert(ACCEPT_ENCODING, accept);
    let mut body = Vec::new();
    let head = patient(client.get(&request, &mut body)).await.unwrap();
    (head.encoding, head.wire_bytes, body)
}

#[tokio::test]
async fn long_texts_are_compressed_as_the_client_likes() {
    let stream = || async {
        let (sender, body) = body_channel(2);
        tokio::spawn(async move {
            for _ in 0..10 {
                sender.send(Bytes::from(line())).await.unwrap();
            }
            sender.finish().await.unwrap();
        });
        ([("content-type", "text/plain")], body)
    };
    let router = Router::new()
        .route("/long", get(|| async { line() }))
        .route("/short", get(|| async { "short" }))
        .route("/stream", get(stream))
        .route(
            "/image",
            get(|| async { ([("content-type", "image/png")], line()) }),
        )
        .route(
            "/events",
            get(|| async { ([("content-type", "text/event-stream")], line()) }),
        )
        .route(
            "/done",
            get(|headers: http::HeaderMap| async move { respond_text(line(), &headers) }),
        );
    let server = Running::start(compress(router, 1024), ServerConfig::default()).await;
    let ten = line().repeat(10);
    for (path, accept, encoding, want) in [
        ("/long", "gzip", Encoding::Gzip, line()),
        ("/long", "gzip, zstd", Encoding::Zstd, line()),
        ("/long", "br", Encoding::Identity, line()),
        ("/short", "gzip", Encoding::Identity, "short".to_owned()),
        ("/stream", "gzip", Encoding::Gzip, ten.clone()),
        ("/stream", "zstd", Encoding::Zstd, ten),
        ("/image", "gzip", Encoding::Identity, line()),
        ("/events", "gzip", Encoding::Identity, line()),
        ("/done", "zstd", Encoding::Zstd, line()),
    ] {
        let (got, wire_bytes, body) = fetch(&server, path, accept).await;
        assert_eq!(got, encoding, "{path} {accept}");
        assert_eq!(body.len(), want.len(), "{path} {accept}");
        assert!(body == want.as_bytes(), "{path} {accept}");
        if encoding != Encoding::Identity {
            assert!(
                wire_bytes < body.len() as u64 / 5,
                "{path} {accept}: {wire_bytes}"
            );
        }
    }
}

/// A waiting handler must not hold back its earlier output.
#[tokio::test]
async fn streams_are_flushed_while_they_wait() {
    for accept in ["gzip", "zstd"] {
        let (go, wait) = mpsc::channel::<()>(1);
        let wait = std::sync::Arc::new(tokio::sync::Mutex::new(wait));
        let handler = move || {
            let wait = std::sync::Arc::clone(&wait);
            async move {
                let (sender, body) = body_channel(1);
                tokio::spawn(async move {
                    sender.send(Bytes::from_static(b"first ")).await.unwrap();
                    wait.lock().await.recv().await;
                    sender.send(Bytes::from_static(b"second")).await.unwrap();
                    sender.finish().await.unwrap();
                });
                ([("content-type", "text/plain")], body)
            }
        };
        let router = Router::new().route("/", get(handler));
        let server = Running::start(compress(router, 0), ServerConfig::default()).await;
        let mut stream = server.connect().await;
        let request = format!("GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: {accept}\r\n\r\n");
        tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes())
            .await
            .unwrap();
        // The head and a chunk arrive while the handler is still waiting.
        let mut seen = Vec::new();
        let head = loop {
            let read = tokio::io::AsyncReadExt::read_buf(&mut stream, &mut seen);
            assert!(patient(read).await.unwrap() > 0, "closed");
            let end = seen.windows(4).position(|four| four == b"\r\n\r\n");
            if let Some(end) = end
                && seen.len() > end + 4
            {
                break String::from_utf8(seen[..end + 4].to_vec()).unwrap();
            }
        };
        assert!(
            head.contains(&format!("content-encoding: {accept}\r\n")),
            "{head}"
        );
        assert!(!head.contains("content-length"), "{head}");
        go.send(()).await.unwrap();
        read_to_last_chunk(&mut stream).await;
    }
}

async fn read_to_last_chunk(stream: &mut tokio::net::TcpStream) {
    let mut all = Vec::new();
    while !all.ends_with(b"0\r\n\r\n") {
        let read = tokio::io::AsyncReadExt::read_buf(stream, &mut all);
        assert!(patient(read).await.unwrap() > 0, "closed before the end");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_breaks_off() {
    let handler = || async {
        let (sender, body) = body_channel(1);
        tokio::spawn(async move {
            sender.send(Bytes::from(line())).await.unwrap();
        });
        let response: Response = ([("content-type", "text/plain")], body).into_response();
        response
    };
    let router = Router::new().route("/", get(handler));
    let server = Running::start(compress(router, 0), ServerConfig::default()).await;
    let client = Client::new(ClientConfig::default());
    let request = Request::new(server.url("/"));
    let broken = patient(client.get(&request, &mut Vec::new())).await;
    assert!(broken.is_err(), "{broken:?}");
}
