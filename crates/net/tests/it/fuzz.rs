//! Drives the crate's fuzz targets with seeded mutations.

use narthex_net::{fuzz, gzip, zstd};

use crate::certs::Authority;
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
fn glob() {
    let corpus: &[&[u8]] = &[
        b"*.json\nnodes.json",
        b"a*b*c*d\naxbxcxd",
        b"[a-c]?[^x]\\*\nbzy*",
        b"[]\n]",
    ];
    Mutator::new(24)
        .max_len(256)
        .run(corpus, 20_000, fuzz::fuzz_glob);
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
    let zst = zstd(text.as_bytes()).unwrap();
    let zlib: &[u8] = b"\x78\x9c\x4b\x4c\x4a\x06\0\x02\x4d\x01\x27";
    let corpus: &[&[u8]] = &[&gz, &two, &zst, empty, zlib, b"\x4b\x4c\x4a\x06\0", b""];
    Mutator::new(14)
        .max_len(4096)
        .run(corpus, 10_000, fuzz::fuzz_decompress);
}

#[test]
fn pages() {
    let lines = |number: usize| -> String {
        let lines =
            (0..40).map(|at| format!("# TYPE m{at} gauge\nm{at}{{a=\"b\"}} {}\n", at * number));
        lines.collect()
    };
    let same = [lines(1), lines(99), lines(7_654_321)].join("\0");
    let other = [lines(1), "a 1\n".repeat(50), lines(2)].join("\0");
    Mutator::new(29).max_len(16 << 10).run(
        &[same.as_bytes(), other.as_bytes(), b"a 1\n\0"],
        2_000,
        fuzz::fuzz_pages,
    );
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

#[test]
fn certificate() {
    let authority = Authority::new("An authority");
    let leaf = authority.issue(&["a.example", "10.0.0.1"]);
    let corpus: &[&[u8]] = &[&leaf.der, &authority.identity.der];
    Mutator::new(16)
        .max_len(2048)
        .run(corpus, 20_000, fuzz::fuzz_certificate);
}

#[test]
fn web_config() {
    let corpus: &[&[u8]] = &[
        b"tls_server_config:\n  cert_file: a.crt\n  key_file: a.key\n  min_version: TLS12\n",
        b"basic_auth_users:\n  u: $2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi\n",
        b"rate_limit: {burst: 3, interval: 1m30s}\nhttp_server_config:\n  headers:\n    X-Frame-Options: deny\n",
    ];
    Mutator::new(17)
        .max_len(1024)
        .run(corpus, 5_000, fuzz::fuzz_web_config);
}

#[test]
fn no_proxy() {
    let corpus: &[&[u8]] = &[
        b"a.example,.b.example,*.c.example:81,10.0.0.0/8\nx.b.example",
        b"fe80::/10,[::1]:80,::2\nfe80::1",
        b"*\nz",
    ];
    Mutator::new(18)
        .max_len(256)
        .run(corpus, 20_000, fuzz::fuzz_no_proxy);
}

#[test]
fn chain() {
    let root = Authority::new("A root");
    let middle = root.below("Middle");
    let leaf = middle.issue(&["web.a.example"]);
    let of = |ders: &[&[u8]]| -> Vec<u8> {
        let sized = |der: &&[u8]| [&(der.len() as u16).to_be_bytes()[..], der].concat();
        ders.iter().flat_map(sized).collect()
    };
    let (root, middle, leaf) = (&root.identity.der, &middle.identity.der, &leaf.der);
    let corpus: &[&[u8]] = &[
        &of(&[root, leaf, middle]),
        &of(&[middle, leaf]),
        &of(&[root, middle, middle, root, leaf]),
    ];
    Mutator::new(19)
        .max_len(4096)
        .run(corpus, 5_000, fuzz::fuzz_chain);
}

#[test]
fn request() {
    let corpus: &[&[u8]] = &[
        b"GET /a?b=c HTTP/1.1\r\nHost: x\r\nAuthorization: Basic dTpw\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\n\r\n",
        b"PUT /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;e\r\nhello\r\n0\r\nT: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: 20\r\nExpect: 100-continue\r\n\r\n\x1f\x8b\x08\0\0\0\0\0\0\xff\x03\0\0\0\0\0\0\0\0\0",
        b"OPTIONS * HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    ];
    Mutator::new(20)
        .max_len(2048)
        .run(corpus, 10_000, fuzz::fuzz_request);
}

#[test]
fn authorization() {
    let corpus: &[&[u8]] = &[
        b"Basic dXNlcjpwYXNz",
        b"basic OjpA",
        b"Bearer abc",
        b"Basic",
    ];
    Mutator::new(21)
        .max_len(256)
        .run(corpus, 20_000, fuzz::fuzz_authorization);
}
