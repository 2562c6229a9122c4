//! Requests that refer to one long symbol everywhere decode to a small multiple of their bytes.

use super::*;
use crate::{Message, Receiver, ReceiverMemory};
use narthex_model::MemStore;
use std::sync::Arc;

/// Length of the long symbol.
const LONG: usize = 1 << 20;
/// Number of series that use it.
const SERIES: usize = 2000;

fn within(requests: &Budget) -> ReceiverMemory {
    ReceiverMemory {
        requests: requests.clone(),
        ..ReceiverMemory::default()
    }
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn bytes(out: &mut Vec<u8>, number: u8, content: &[u8]) {
    out.push(number << 3 | 2);
    varint(out, content.len() as u64);
    out.extend_from_slice(content);
}

fn refs(refs: &[u32]) -> Vec<u8> {
    let mut packed = Vec::new();
    for at in refs {
        varint(&mut packed, u64::from(*at));
    }
    packed
}

/// The symbols `""`, `__name__`, a long one, and `m0`, `m1`, and so on.
fn symbols() -> Vec<u8> {
    let mut body = Vec::new();
    bytes(&mut body, 4, b"");
    bytes(&mut body, 4, METRIC_NAME.as_bytes());
    bytes(&mut body, 4, &vec![b'x'; LONG]);
    for at in 0..SERIES {
        bytes(&mut body, 4, format!("m{at}").as_bytes());
    }
    body
}

const LONG_REF: u32 = 2;

fn name_ref(series: usize) -> u32 {
    3 + u32::try_from(series).unwrap()
}

const SAMPLE: &[u8] = &[1 << 3 | 1, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 2 << 3, 1];

/// Encodes a request of series that `series` builds from their numbers.
fn request(series: impl Fn(usize) -> Vec<u8>) -> Vec<u8> {
    let mut body = symbols();
    for at in 0..SERIES {
        bytes(&mut body, 5, &series(at));
    }
    body
}

fn assert_small(body: &[u8], incoming: &Incoming<'_>) {
    let held = incoming.held_bytes();
    assert!(
        held <= 8 * body.len() + (1 << 20),
        "{held} of {}",
        body.len()
    );
}

#[test]
fn objections_to_long_labels_are_short() {
    let body = request(|at| {
        let mut series = Vec::new();
        let own = refs(&[1, name_ref(at), LONG_REF, LONG_REF]);
        bytes(&mut series, 1, &own);
        series
    });
    let incoming = decode(&body, &KeyHasher::default(), &Budget::unlimited()).unwrap();
    assert_small(&body, &incoming);
    let (texts, more) = incoming.objections.finish();
    assert_eq!(texts.len() + more, SERIES);
    assert!(texts.iter().all(|text| text.len() < 5 << 10));
}

#[test]
fn objections_to_many_references_are_short() {
    let many: Vec<u32> = vec![u32::MAX; 10_000];
    let body = request(|_| {
        let mut series = Vec::new();
        bytes(&mut series, 1, &refs(&many[..101]));
        series
    });
    let incoming = decode(&body, &KeyHasher::default(), &Budget::unlimited()).unwrap();
    let (texts, more) = incoming.objections.finish();
    assert_eq!((texts.len(), more), (100, SERIES - 100));
    assert!(
        texts[0].ends_with("]: invalid labelRefs length 101"),
        "{}",
        texts[0]
    );
}

#[test]
fn metadata_that_names_a_long_symbol_is_paid_for() {
    let body = request(|at| {
        let mut series = Vec::new();
        bytes(&mut series, 1, &refs(&[1, name_ref(at)]));
        bytes(&mut series, 2, SAMPLE);
        // Another help, and so another family, for every series.
        bytes(&mut series, 5, &[1 << 3, 1, 3 << 3, 2]);
        series
    });
    let refused = decode(&body, &KeyHasher::default(), &Budget::unlimited()).unwrap_err();
    assert_eq!(refused.status().as_u16(), 400);
    // Real senders repeat a family's help in all its series.
    let body = request(|_| {
        let mut series = Vec::new();
        bytes(&mut series, 1, &refs(&[1, name_ref(0)]));
        bytes(&mut series, 2, SAMPLE);
        bytes(&mut series, 5, &[1 << 3, 1, 3 << 3, 2]);
        series
    });
    let incoming = decode(&body, &KeyHasher::default(), &Budget::unlimited()).unwrap();
    assert_eq!(
        (incoming.families.len(), incoming.series.len()),
        (1, SERIES)
    );
    assert_small(&body, &incoming);
}

#[test]
fn exemplars_that_no_store_keeps_are_not_made() {
    let mut exemplar = Vec::new();
    bytes(&mut exemplar, 1, &refs(&[1, LONG_REF]));
    let body = request(|at| {
        let mut series = Vec::new();
        bytes(&mut series, 1, &refs(&[1, name_ref(at)]));
        bytes(&mut series, 2, SAMPLE);
        bytes(&mut series, 4, &exemplar);
        series
    });
    let incoming = decode(&body, &KeyHasher::default(), &Budget::unlimited()).unwrap();
    assert_eq!(
        (incoming.exemplars.len(), incoming.floats.len()),
        (0, SERIES)
    );
    assert_small(&body, &incoming);
}

/// The decoder's labels become sets: every series has one of nearly the maximum size.
#[test]
fn labels_made_of_a_long_symbol_are_leased() {
    let mut body = Vec::new();
    bytes(&mut body, 4, b"");
    bytes(&mut body, 4, METRIC_NAME.as_bytes());
    bytes(&mut body, 4, &vec![b'x'; LONG - 1000]);
    for at in 0..SERIES {
        bytes(&mut body, 4, format!("m{at}").as_bytes());
    }
    for at in 0..SERIES {
        let mut series = Vec::new();
        bytes(
            &mut series,
            1,
            &refs(&[1, name_ref(at), name_ref(at), LONG_REF]),
        );
        bytes(&mut series, 2, SAMPLE);
        bytes(&mut body, 5, &series);
    }
    let memory = Budget::new("remote write", 64 << 20);
    let now = Arc::new(|| 1);
    let receiver = Receiver::within(Arc::new(MemStore::new()), now, &within(&memory));
    let refused = receiver.store(Message::V2, &body).unwrap_err();
    assert_eq!(refused.status().as_u16(), 503, "{refused}");
    assert!(memory.peak_bytes() <= 64 << 20);
    assert_eq!((memory.used_bytes(), receiver.series()), (0, 0));
    // A longer one is rejected by itself, and the others stay valid.
    let mut body = symbols();
    for own in [[1, name_ref(0), 1, LONG_REF], [1, name_ref(0), 0, 0]] {
        let mut series = Vec::new();
        bytes(
            &mut series,
            1,
            &refs(&own[..if own[2] == 0 { 2 } else { 4 }]),
        );
        bytes(&mut series, 2, SAMPLE);
        bytes(&mut body, 5, &series);
    }
    let (written, refused) = receiver.store(Message::V2, &body).unwrap();
    assert_eq!(written.samples, 1);
    let refused = refused.unwrap().to_string();
    assert!(refused.contains("more than 1048576"), "{refused}");
}
