//! Mutated requests: no panic, no memory beyond the limit, the same response twice.

use crate::support::NOW_MS;
use narthex_model::{
    METRIC_NAME, MatchOp, Matcher, MemStore, conformance::dump, storage::TimeRange,
};
use narthex_remote::{Message, Receiver, fuzz};
use narthex_testkit::{
    mutate::Mutator,
    remote_write::{Exemplar, Histogram, Metadata, Request, Series, snappy},
    workspace_root,
};
use std::sync::Arc;

fn request() -> Request {
    let mut with_all = Series::new(
        &[("__name__", "a_total"), ("instance", "i"), ("job", "j")],
        &[
            (NOW_MS, 1.5),
            (NOW_MS + 1, f64::from_bits(0x7ff0_0000_0000_0002)),
        ],
    );
    with_all.exemplars.push(Exemplar {
        labels: vec![("trace_id".to_owned(), "x".to_owned())],
        value: 2.0,
        time_ms: NOW_MS,
    });
    with_all.metadata = Some(Metadata {
        metric_type: 1,
        help: "Help.".to_owned(),
        ..Metadata::default()
    });
    let mut histogram = Series::new(&[("__name__", "h")], &[]);
    histogram.histograms.push(Histogram {
        time_ms: NOW_MS,
        integer: true,
        count: 6.0,
        sum: 3.5,
        schema: 1,
        positive_spans: vec![(0, 2), (1, 1)],
        positive: vec![1.0, 3.0, 2.0],
        ..Histogram::default()
    });
    Request {
        series: vec![with_all, histogram],
        families: vec![Metadata {
            family: "a".to_owned(),
            metric_type: 1,
            help: "Help.".to_owned(),
            unit: "seconds".to_owned(),
        }],
    }
}

#[test]
fn mutated_requests_of_version_1() {
    Mutator::new(0x9e01).run(&[&request().v1()], 4_000, fuzz::fuzz_v1);
}

#[test]
fn mutated_requests_of_version_2() {
    Mutator::new(0x9e02).run(&[&request().v2()], 4_000, fuzz::fuzz_v2);
}

/// Stores requests by a receiver that goes on, and each by one that knows nothing, into stores of their own; both have the same
/// in the end. Each request is behind its length of two bytes, all behind their version.
fn as_if_alone(data: &[u8]) {
    let Some((version, mut rest)) = data.split_first() else {
        return;
    };
    let message = [Message::V1, Message::V2][usize::from(*version) % 2];
    let stores = [(); 2].map(|()| Arc::new(MemStore::new()));
    let receiver = |store: &Arc<MemStore>| {
        let sink = Arc::<MemStore>::clone(store);
        Receiver::new(sink, Arc::new(|| NOW_MS))
    };
    let going_on = receiver(&stores[0]);
    while let Some((len, behind)) = rest.split_first_chunk() {
        let len = usize::from(u16::from_le_bytes(*len)).min(behind.len());
        let (body, behind) = behind.split_at(len);
        let outcomes = [&going_on, &receiver(&stores[1])].map(|receiver| {
            receiver
                .store(message, body)
                .map(|(outcome, _)| outcome)
                .ok()
        });
        assert_eq!(outcomes[0], outcomes[1]);
        rest = behind;
    }
    let all = [Matcher::new(MatchOp::Regex, METRIC_NAME, ".*").unwrap()];
    let [one, other] = stores.map(|store| format!("{:?}", dump(&*store, &all, TimeRange::ALL)));
    assert_eq!(one, other);
}

#[test]
fn mutated_sequences_of_requests() {
    let series = |name: &str, job: &str, time_ms: i64| {
        Series::new(&[("__name__", name), ("job", job)], &[(time_ms, 1.5)])
    };
    let of = |series: Vec<Series>| Request {
        series,
        ..Request::default()
    };
    let requests = [
        of(vec![series("a", "j", NOW_MS), series("b", "j", NOW_MS)]),
        of(vec![
            series("b", "j", NOW_MS + 1),
            series("a", "j", NOW_MS + 1),
        ]),
        of(vec![series("a", "k", NOW_MS + 2)]),
        request(),
        of(vec![
            series("b", "j", NOW_MS + 3),
            series("a", "k", NOW_MS + 3),
        ]),
    ];
    let sequence = |version: u8, encode: fn(&Request) -> Vec<u8>| {
        let mut all = vec![version];
        for body in requests.iter().map(encode) {
            all.extend_from_slice(&(body.len() as u16).to_le_bytes());
            all.extend_from_slice(&body);
        }
        all
    };
    let corpus = [sequence(0, Request::v1), sequence(1, Request::v2)];
    let corpus: Vec<&[u8]> = corpus.iter().map(Vec::as_slice).collect();
    Mutator::new(0x9e07).run(&corpus, 3_000, as_if_alone);
}

#[test]
fn mutated_blocks() {
    let body = snappy(&request().v1());
    // A copy of earlier bytes: six literals, then twenty more of the same.
    let copies = b"\x1a\x14abcabc\x4d\x03";
    Mutator::new(0x9e03).run(&[&body, copies], 10_000, fuzz::fuzz_snappy);
}

#[test]
fn mutated_requests_with_their_heads() {
    let with = |head: &str, body: &[u8]| [head.as_bytes(), b"\n\n", body].concat();
    let (v1, v2) = (snappy(&request().v1()), snappy(&request().v2()));
    let v2_type = "content-type: application/x-protobuf;proto=io.prometheus.write.v2.Request";
    let corpus = [
        with(
            "content-encoding: snappy\ncontent-type: application/x-protobuf\nx-prometheus-remote-write-version: 0.1.0",
            &v1,
        ),
        with(&format!("content-encoding: snappy\n{v2_type}"), &v2),
        with("content-encoding: zstd\ncontent-type: text/plain; a=b", &v1),
        with(
            "content-type: application/x-protobuf;proto=prometheus.WriteRequest;x",
            &v2,
        ),
    ];
    let corpus: Vec<&[u8]> = corpus.iter().map(Vec::as_slice).collect();
    Mutator::new(0x9e04).run(&corpus, 1_000, fuzz::fuzz_request);
}

#[test]
fn mutated_sessions() {
    let mut session = Vec::new();
    for name in ["remote_frames_first.bin", "remote_frames_next.bin"] {
        let path = workspace_root().join("testdata/formats/v2").join(name);
        let body = std::fs::read(path).unwrap();
        session.extend_from_slice(&(body.len() as u16).to_le_bytes());
        session.extend_from_slice(&body);
    }
    Mutator::new(0x9e06).run(&[&session], 4_000, fuzz::fuzz_frames);
}

#[test]
fn mutated_queues() {
    let path = workspace_root().join("testdata/formats/v2/remote_queue_small.queue");
    let bytes = std::fs::read(path).unwrap();
    // The bodies of its entries alone, each behind its length, as the function takes them.
    let (mut bodies, mut rest) = (Vec::new(), &bytes[32..]);
    while let Some((head, behind)) = rest.split_first_chunk::<10>() {
        let len = u32::from_le_bytes([head[2], head[3], head[4], head[5]]) as usize;
        bodies.extend_from_slice(&(len as u16).to_le_bytes());
        bodies.extend_from_slice(&behind[..len]);
        rest = &behind[len..];
    }
    let cursor = [7, 1, 2, 3, 2, 1, 32, 0, 5, 1, 64, 3, 9];
    Mutator::new(0x9e05).run(&[&bodies, &cursor], 5_000, fuzz::fuzz_queue);
}
