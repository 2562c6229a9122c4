//! Mutated requests: no panic, no memory beyond the limit, the same response twice.

use crate::support::NOW_MS;
use narthex_remote::fuzz;
use narthex_testkit::{
    mutate::Mutator,
    remote_write::{Exemplar, Histogram, Metadata, Request, Series, snappy},
    workspace_root,
};

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
        let path = workspace_root().join("testdata/formats/v1").join(name);
        let body = std::fs::read(path).unwrap();
        session.extend_from_slice(&(body.len() as u16).to_le_bytes());
        session.extend_from_slice(&body);
    }
    Mutator::new(0x9e06).run(&[&session], 4_000, fuzz::fuzz_frames);
}

#[test]
fn mutated_queues() {
    let path = workspace_root().join("testdata/formats/v1/remote_queue_small.queue");
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
