//! A gateway's limits, and its responses to requests beyond them.

use crate::rig::{Rig, config, limits};
use narthex_net::axum::body::Bytes;
use narthex_push::{GatewayConfig, Limits};
use narthex_testkit::http;
use std::{
    io::{BufReader, Write},
    net::TcpStream,
    time::Duration,
};

/// Begins a push that announces `length` bytes.
fn begin(rig: &Rig, length: usize, first: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(rig.url.strip_prefix("http://").unwrap()).unwrap();
    let head =
        format!("PUT /metrics/job/slow HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(first).unwrap();
    stream
}

#[test]
fn a_body_that_is_too_long_is_refused_with_413() {
    let rig = Rig::in_memory(GatewayConfig {
        limits: Limits {
            body_bytes: 1000,
            ..limits()
        },
        ..config()
    });
    let long = "# ".to_owned() + &"x".repeat(2000) + "\n";
    assert_eq!(rig.ask("PUT", "/metrics/job/a", &long).status, 413);
    for (encoding, body) in [
        ("gzip", narthex_net::gzip(long.as_bytes()).unwrap()),
        ("zstd", narthex_net::zstd(long.as_bytes()).unwrap()),
        ("snappy", framed(long.as_bytes())),
    ] {
        let url = format!("{}/metrics/job/a", rig.url);
        let answer = http::request("PUT", &url, &[("Content-Encoding", encoding)], &body).unwrap();
        assert_eq!(answer.status, 413, "{encoding}");
    }
    assert!(rig.samples().is_empty());
}

fn framed(plain: &[u8]) -> Vec<u8> {
    let mut encoder = snap::write::FrameEncoder::new(Vec::new());
    encoder.write_all(plain).unwrap();
    encoder.into_inner().unwrap()
}

#[test]
fn compressed_bodies_are_read() {
    let rig = Rig::in_memory(config());
    let plain = "# TYPE m gauge\nm 1\n".to_owned() + &"# padding that compresses well\n".repeat(20);
    for (encoding, body) in [
        ("GZIP", narthex_net::gzip(plain.as_bytes()).unwrap()),
        ("zstd", narthex_net::zstd(plain.as_bytes()).unwrap()),
        ("Snappy", framed(plain.as_bytes())),
    ] {
        let url = format!("{}/metrics/job/{encoding}", rig.url);
        let answer = http::request("PUT", &url, &[("Content-Encoding", encoding)], &body).unwrap();
        assert_eq!(answer.status, 200, "{encoding}: {}", answer.text());
        let cut = Bytes::copy_from_slice(&body[..body.len() / 2]);
        let answer = http::request("PUT", &url, &[("Content-Encoding", encoding)], &cut).unwrap();
        assert_eq!(answer.status, 400, "{encoding}: {}", answer.text());
    }
    assert_eq!(rig.samples().len(), 3);
}

#[test]
fn a_body_that_does_not_come_is_refused_with_408() {
    let rig = Rig::in_memory(GatewayConfig {
        limits: Limits {
            body_timeout: Duration::from_millis(50),
            ..limits()
        },
        ..config()
    });
    let stream = begin(&rig, 100, b"m 1\n");
    let answer = http::read_response(&mut BufReader::new(stream), true).unwrap();
    assert_eq!(answer.status, 408, "{}", answer.text());
    rig.put("/metrics/job/a", "m 1\n");
}

#[test]
fn bodies_beyond_the_memory_of_all_are_refused_with_503() {
    let rig = Rig::in_memory(GatewayConfig {
        limits: Limits {
            reading_bytes: 100 << 10,
            ..limits()
        },
        ..config()
    });
    let body = "# ".to_owned() + &"x".repeat(200 << 10) + "\nm 1\n";
    let answer = rig.ask("PUT", "/metrics/job/a", &body);
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert_eq!(answer.header("Retry-After"), Some("1"));
    // Bytes granted to a refused body are returned.
    for _ in 0..5 {
        rig.put(
            "/metrics/job/a",
            &"# half of what there is room for\n".repeat(1 << 10),
        );
    }
}
