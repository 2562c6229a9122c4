//! Fuzz targets: plain functions over untrusted bytes.

use crate::{
    Message, Receiver, ReceiverMemory, frames, handler, incoming::KeyHasher, queue, snappy, v1, v2,
};
use http::{HeaderName, HeaderValue, StatusCode, header::CONTENT_TYPE};
use narthex_model::{
    MemStore,
    storage::{Budget, Store},
};
use narthex_net::axum::{body::Body, extract::Request};
use std::sync::Arc;

/// Decompresses the bytes under a small cap.
///
/// # Panics
/// Panics if more than the cap is returned or reserved: the bug that fuzzing looks for.
pub fn fuzz_snappy(data: &[u8]) {
    const LIMIT_BYTES: usize = 1 << 16;
    let mut out = Vec::new();
    let outcome = snappy::decompress(data, LIMIT_BYTES, &mut out);
    assert!(out.capacity() <= LIMIT_BYTES);
    if outcome.is_ok() {
        let again = snap::raw::Encoder::new()
            .compress_vec(&out)
            .expect("what fits can be compressed");
        let mut back = Vec::new();
        snappy::decompress(&again, LIMIT_BYTES, &mut back).expect("what was compressed is snappy");
        assert_eq!(out, back);
    }
}

/// Decodes the bytes as version 1 and stores the result twice.
///
/// # Panics
/// Panics if the second time rejects what the first accepted: the bug that fuzzing looks for.
pub fn fuzz_v1(data: &[u8]) {
    twice(Message::V1, data);
    if let Ok(incoming) = v1::decode(data, &KeyHasher::default(), &Budget::unlimited()) {
        assert!(incoming.held_bytes() <= data.len() * 8 + (64 << 10));
    }
}

/// Decodes the bytes as version 2 and stores the result twice.
///
/// # Panics
/// As `fuzz_v1`.
pub fn fuzz_v2(data: &[u8]) {
    twice(Message::V2, data);
    if let Ok(incoming) = v2::decode(data, &KeyHasher::default(), &Budget::unlimited()) {
        assert!(incoming.held_bytes() <= data.len() * 8 + (64 << 10));
    }
}

/// Stores the bytes as requests of sessions, each behind its length of two bytes, with little memory.
///
/// # Panics
/// Panics if memory is held beyond the limits, or for sessions that ended: the bugs that fuzzing looks for.
pub fn fuzz_frames(data: &[u8]) {
    let memory = ReceiverMemory {
        requests: Budget::new("requests", 16 << 20),
        series: Budget::new("series", 1 << 20),
    };
    let store = MemStore::new();
    let receiver = Receiver::within(Arc::new(store), Arc::new(|| i64::MAX / 2), &memory);
    let mut rest = data;
    while let Some((len, behind)) = rest.split_first_chunk() {
        let len = usize::from(u16::from_le_bytes(*len)).min(behind.len());
        let (body, behind) = behind.split_at(len);
        let first = receiver.store(Message::Frames, body);
        if let Ok((first, _)) = first {
            let again = receiver.store(Message::Frames, body);
            let (again, _) = again.expect("the last request may be sent again");
            assert_eq!(first, again, "the same answer");
        }
        assert_eq!(
            memory.requests.used_bytes(),
            0,
            "a request gives back its memory"
        );
        rest = behind;
    }
}

/// Handles the bytes as a request: header fields, one per line, an empty line, a body.
///
/// # Panics
/// Panics if a sender would not understand the response: the bug that fuzzing looks for.
pub fn fuzz_request(data: &[u8]) {
    let end = data.windows(2).position(|pair| pair == b"\n\n");
    let (head, body) = data.split_at(end.unwrap_or(data.len()));
    let mut request = Request::new(Body::from(body.get(2..).unwrap_or_default().to_vec()));
    for line in head.split(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            continue;
        };
        let (name, value) = line.split_at(colon);
        let name = HeaderName::from_bytes(name);
        let value = HeaderValue::from_bytes(value[1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            request.headers_mut().append(name, value);
        }
    }
    let media_type = request.headers().get(CONTENT_TYPE).cloned();
    let status = handler::fuzz_answer(request).status();
    assert!(
        status == StatusCode::NO_CONTENT || status.is_client_error(),
        "{status}"
    );
    if status == StatusCode::NO_CONTENT {
        let media_type = media_type.unwrap_or(HeaderValue::from_static(""));
        let known = media_type.is_empty()
            || media_type.as_bytes().starts_with(b"application/x-protobuf")
            || media_type.as_bytes() == frames::MEDIA_TYPE.as_bytes();
        assert!(known, "{media_type:?} was taken");
    }
}

/// Reads the bytes as entries of a queue file and as a cursor, without their checksums.
///
/// # Panics
/// Panics when an invariant is broken: the bug that fuzzing looks for.
pub fn fuzz_queue(data: &[u8]) {
    queue::fuzz(data);
}

fn twice(message: Message, data: &[u8]) {
    let store = MemStore::new();
    let receiver = Receiver::new(Arc::new(store.clone()), Arc::new(|| i64::MAX / 2));
    let Ok((first, refused)) = receiver.store(message, data) else {
        return;
    };
    let range = store.time_range();
    let (second, again) = receiver
        .store(message, data)
        .expect("what was stored once is stored again");
    assert_eq!(first, second, "the same samples are no duplicates");
    assert_eq!(refused.is_some(), again.is_some());
    assert_eq!(store.time_range(), range);
}
