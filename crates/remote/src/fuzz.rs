//! Fuzz targets: plain functions over bytes from outside.

use crate::{Message, Receiver, incoming::KeyHasher, snappy, v1, v2};
use narthex_model::{
    MemStore,
    storage::{Budget, Store},
};
use std::sync::Arc;

/// Decompresses the bytes under a small cap.
///
/// # Panics
/// Panics when more than the cap comes out or is reserved: that is what fuzzing looks for.
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

/// Decodes the bytes as version 1 and stores what they hold, twice.
///
/// # Panics
/// Panics when the second time refuses what the first took: that is what fuzzing looks for.
pub fn fuzz_v1(data: &[u8]) {
    twice(Message::V1, data);
    if let Ok(incoming) = v1::decode(data, &KeyHasher::default(), &Budget::unlimited()) {
        assert!(incoming.held_bytes() <= data.len() * 8 + (64 << 10));
    }
}

/// Decodes the bytes as version 2 and stores what they hold, twice.
///
/// # Panics
/// As `fuzz_v1`.
pub fn fuzz_v2(data: &[u8]) {
    twice(Message::V2, data);
    if let Ok(incoming) = v2::decode(data, &KeyHasher::default(), &Budget::unlimited()) {
        assert!(incoming.held_bytes() <= data.len() * 8 + (64 << 10));
    }
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
