//! Tests of when a response is compressed, and of its headers.

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, VARY};
use http_body_util::BodyExt;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use super::{body_channel, body_of, gzip, respond, respond_json, respond_text};
use crate::encoding::Encoding;
use crate::inflate::decompress;

fn accepting(value: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(value));
    headers
}

async fn encoded(length: usize, headers: &HeaderMap) -> (bool, Bytes) {
    let response = respond("a/b", Bytes::from(vec![b'x'; length]), headers);
    assert_eq!(response.headers()[CONTENT_TYPE], "a/b");
    assert_eq!(response.headers()[VARY], "Accept-Encoding");
    let gzipped = response
        .headers()
        .get(CONTENT_ENCODING)
        .is_some_and(|v| v == "gzip");
    (
        gzipped,
        response
            .into_body()
            .collect()
            .await
            .expect("whole")
            .to_bytes(),
    )
}

#[tokio::test]
async fn long_bodies_are_compressed_for_those_who_accept() {
    let (gzipped, body) = encoded(1024, &accepting("gzip")).await;
    assert!(gzipped);
    let mut out = Vec::new();
    decompress(Encoding::Gzip, &body, 1024, &mut out).expect("our own gzip");
    assert_eq!(out, [b'x'; 1024]);
    assert_eq!(
        encoded(1023, &accepting("gzip")).await,
        (false, Bytes::from(vec![b'x'; 1023]))
    );
    assert!(!encoded(5000, &accepting("gzip;q=0")).await.0);
    assert!(!encoded(5000, &HeaderMap::new()).await.0);
}

#[test]
fn what_compression_would_lengthen_is_sent_as_it_is() {
    let mut state = 1_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    })
    .take(5000)
    .collect();
    assert_eq!(gzip(&noise), None);
    assert_eq!(gzip(b""), None);
    let response = respond("a/b", Bytes::from(noise), &accepting("gzip"));
    assert!(response.headers().get(CONTENT_ENCODING).is_none());
}

#[test]
fn helpers_name_their_types() {
    let none = HeaderMap::new();
    assert_eq!(
        respond_json("{}", &none).headers()[CONTENT_TYPE],
        "application/json"
    );
    let text = respond_text("x", &none);
    assert_eq!(text.headers()[CONTENT_TYPE], "text/plain; charset=utf-8");
}

#[tokio::test]
async fn producer_waits_for_a_slow_client_and_learns_when_it_left() {
    let (sender, mut body) = body_channel(1);
    sender
        .send(Bytes::from_static(b"a"))
        .await
        .expect("room for one");
    let first = {
        let mut second = std::pin::pin!(sender.send(Bytes::from_static(b"b")));
        let waiting = std::future::poll_fn(|context| {
            std::task::Poll::Ready(second.as_mut().poll(context).is_pending())
        });
        assert!(waiting.await, "the channel holds one piece");
        let first = body.frame().await.expect("a frame").expect("data");
        second.await.expect("room again");
        first
    };
    assert_eq!(first.into_data().expect("data"), "a");
    drop(body);
    assert!(sender.send(Bytes::from_static(b"c")).await.is_err());
    assert!(sender.finish().await.is_err());
}

/// A page of 70 MB that a fast client read was made in one go, and pushes to the same thread waited for all of it.
#[tokio::test]
async fn other_tasks_run_between_the_pieces_of_a_body() {
    let turns = Arc::new(AtomicUsize::new(0));
    let others = Arc::clone(&turns);
    let other = tokio::spawn(async move {
        loop {
            others.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    let mut seen = Vec::new();
    let counted = Arc::clone(&turns);
    let mut body = body_of(move || {
        seen.push(counted.load(Ordering::Relaxed));
        assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
        (seen.len() <= 5).then(|| Bytes::from_static(b"piece"))
    });
    let mut pieces = 0;
    while let Some(piece) = body.frame().await {
        assert_eq!(piece.unwrap().into_data().unwrap(), "piece");
        pieces += 1;
    }
    assert_eq!(pieces, 5);
    other.abort();
}
