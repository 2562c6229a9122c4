//! Drives the crate's fuzz targets with seeded mutations.

use narthex_net::{fuzz, gzip};
use narthex_testkit::mutate::Mutator;

#[test]
fn accept_encoding() {
    let corpus: &[&[u8]] = &[
        b"gzip",
        b"gzip;q=1.0, identity; q=0.5, *;q=0",
        b"deflate, gzip;q=0.001",
        b"*;q=0.5,identity;q=1",
    ];
    Mutator::new(11)
        .max_len(256)
        .run(corpus, 20_000, fuzz::fuzz_accept_encoding);
}

#[test]
fn url() {
    let corpus: &[&[u8]] = &[
        b"http://localhost:9090/metrics?a=b#c",
        b"http://[::1]:80/../a/./b",
        b"http://h?x",
        b"//other:1/p",
        b"../../x?y",
    ];
    Mutator::new(12)
        .max_len(512)
        .run(corpus, 20_000, fuzz::fuzz_url);
}

#[test]
fn listen_address() {
    let corpus: &[&[u8]] = &[
        b":9090",
        b"localhost:9090",
        b"[::1]:1",
        b"0.0.0.0:65535",
        b"a:b:c",
    ];
    Mutator::new(13)
        .max_len(128)
        .run(corpus, 20_000, fuzz::fuzz_listen_address);
}

#[test]
fn decompress() {
    let text = "metric{a=\"b\"} 1\n".repeat(100);
    let gz = gzip(text.as_bytes()).unwrap();
    let two = [gz.clone(), gz.clone()].concat();
    let empty: &[u8] = b"\x1f\x8b\x08\0\0\0\0\0\0\xff\x03\0\0\0\0\0\0\0\0\0";
    let zlib: &[u8] = b"\x78\x9c\x4b\x4c\x4a\x06\0\x02\x4d\x01\x27";
    let corpus: &[&[u8]] = &[&gz, &two, empty, zlib, b"\x4b\x4c\x4a\x06\0", b""];
    Mutator::new(14)
        .max_len(4096)
        .run(corpus, 10_000, fuzz::fuzz_decompress);
}

#[test]
fn answer() {
    let corpus: &[&[u8]] = &[
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Type: text/plain\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;e\r\nhello\r\n0\r\nT: x\r\n\r\n",
        b"HTTP/1.0 302 Found\r\nLocation: /x\r\nConnection: keep-alive\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b\x08",
    ];
    Mutator::new(15)
        .max_len(4096)
        .run(corpus, 20_000, fuzz::fuzz_answer);
}
