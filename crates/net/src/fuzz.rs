//! Fuzz targets for everything that reads bytes from outside.
//!
//! Invariant: no target panics, hangs, or lets memory grow beyond its limit on any input.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, Request};
use rustls::pki_types::{CertificateDer, UnixTime};
use tokio::io::{AsyncRead, ReadBuf};

use crate::address::parse_listen;
use crate::basic_auth::credentials;
use crate::body::read_wire_body;
use crate::client::fuzz_read_answer;
use crate::client::proxy::NoProxy;
use crate::encoding::Encoding;
use crate::inflate::decompress;
use crate::negotiation::Weights;
use crate::page_compressor::PageCompressor;
use crate::respond::{gzip, zstd};
use crate::server::fuzz_serve;
use crate::tls::chain::Roots;
use crate::tls::der::{CLIENT_AUTH, Certificate};
use crate::tls::errors::text_of;
use crate::tls::verify::judge;
use crate::url::Url;

const LIMIT_BYTES: usize = 32 << 10;

/// Fuzzes `Accept-Encoding` values: adding an unknown encoding never changes the choice.
pub fn fuzz_accept_encoding(data: &[u8]) {
    let weights = Weights::read(std::iter::once(data));
    let padded = [b"br;q=1,,", data].concat();
    assert_eq!(weights, Weights::read(std::iter::once(&padded[..])));
    assert_eq!(weights, Weights::read(data.split(|b| *b == b',')));
}

/// Fuzzes URLs: an accepted URL is unchanged by parsing it again and cannot break a request line.
pub fn fuzz_url(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let base = Url::parse("http://base.example:8080/a/b?c=d").expect("a plain URL");
    for url in [Url::parse(&text), base.join(&text)].into_iter().flatten() {
        assert!(url.as_str().bytes().all(|b| b.is_ascii_graphic()), "{url}");
        assert!(url.path_and_query().starts_with('/'), "{url}");
        assert_eq!(Url::parse(url.as_str()).expect("its own text"), url);
    }
}

/// Fuzzes listen addresses.
pub fn fuzz_listen_address(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Err(error) = parse_listen(&text) {
        assert!(error.to_string().len() < 2_000, "{error}");
    }
}

/// Fuzzes decompression: it is bounded for any input, and our own compressed output decompresses to the original.
pub fn fuzz_decompress(data: &[u8]) {
    let mut out = Vec::new();
    let all = [
        Encoding::Gzip,
        Encoding::Deflate,
        Encoding::Zstd,
        Encoding::Identity,
    ];
    for encoding in all {
        let result = decompress(encoding, data, LIMIT_BYTES, &mut out);
        assert!(out.len() <= LIMIT_BYTES && out.capacity() <= 2 * LIMIT_BYTES);
        assert!(result.is_ok() || out.is_empty());
    }
    if let Some(packed) = gzip(data) {
        decompress(Encoding::Gzip, &packed, data.len(), &mut out).expect("our own gzip");
        assert_eq!(out, data);
    }
    if let Some(packed) = zstd(data) {
        decompress(Encoding::Zstd, &packed, data.len(), &mut out).expect("our own zstd");
        assert_eq!(out, data);
    }
}

/// Fuzzes pages that follow one another, separated by zero bytes: each one comes back.
pub fn fuzz_pages(data: &[u8]) {
    let mut compressor = PageCompressor::new();
    let mut out = Vec::new();
    // Twice, so that each can be compared with its own text.
    for page in data.split(|byte| *byte == 0).flat_map(|page| [page, page]) {
        if let Some(packed) = compressor.gzip(page) {
            assert!(packed.len() < page.len());
            decompress(Encoding::Gzip, &packed, page.len(), &mut out).expect("our own gzip");
            assert_eq!(out, page);
        }
    }
}

/// Fuzzes certificates: every parsed field is a part of the input.
pub fn fuzz_certificate(data: &[u8]) {
    if let Some(certificate) = Certificate::parse(data) {
        assert!(certificate.signed.len() < data.len());
        assert!((1..=u8::MAX).contains(&certificate.version));
    }
}

/// Fuzzes chains: the first certificate is the only authority, the second is verified, the others are intermediates.
/// Each is preceded by its length in two bytes.
pub fn fuzz_chain(data: &[u8]) {
    let mut ders = Vec::new();
    let mut rest = data;
    while let Some((length, more)) = rest.split_first_chunk::<2>() {
        let here = usize::from(u16::from_be_bytes(*length)).min(more.len());
        let (der, after) = more.split_at(here);
        ders.push(der);
        rest = after;
    }
    let [root, chain @ ..] = &ders[..] else {
        return;
    };
    for client in [false, true] {
        let judged = judge_chain(&[root], chain, "web.a.example", client, 1_800_000_000);
        let again = judge_chain(&[root], chain, "web.a.example", client, 1_800_000_000);
        assert_eq!(judged, again);
    }
}

/// Verifies a chain; for tests that compare verdicts.
///
/// # Errors
/// Fails with the reason for rejecting the chain.
pub fn judge_chain(
    roots: &[&[u8]],
    chain: &[&[u8]],
    host: &str,
    client: bool,
    now_seconds: u64,
) -> Result<(), String> {
    let own = |der: &&[u8]| CertificateDer::from(der.to_vec());
    let roots = Roots::new(roots.iter().map(own).collect());
    let chain: Vec<CertificateDer<'static>> = chain.iter().map(own).collect();
    let (leaf, sent) = chain.split_first().ok_or("no certificate")?;
    if client {
        let certificate = Certificate::parse(leaf).ok_or("malformed")?;
        let now = i64::try_from(now_seconds).unwrap_or(i64::MAX);
        return roots
            .verify((leaf, &certificate), sent, now, CLIENT_AUTH)
            .map_err(|distrust| format!("{distrust:?}"));
    }
    let now = UnixTime::since_unix_epoch(Duration::from_secs(now_seconds));
    judge(&roots, leaf, sent, host, now).map_err(|error| text_of(&error))
}

/// Fuzzes consecutive requests on a connection: each is answered or the connection ends, no body exceeds the limit,
/// and no request passes without authentication.
pub fn fuzz_request(data: &[u8]) {
    let answer = |request: Request<Body>| async {
        let known = credentials(request.headers());
        match read_wire_body(request.into_body(), LIMIT_BYTES).await {
            Ok(body) => {
                assert!(body.len() <= LIMIT_BYTES);
                let user = known.map(|(user, _password)| user);
                format!("{} bytes of {user:?}", body.len()).into_response()
            }
            Err(error) => error.into_response(),
        }
    };
    let answers = fuzz_serve(data, Router::new().fallback(answer));
    assert!(answers.is_empty() || answers.starts_with(b"HTTP/1."));
    let text = String::from_utf8_lossy(&answers);
    // Handlers' panics are caught, so the target looks for their responses.
    assert!(!text.contains("internal error"), "{text}");
    let named = data
        .windows(5)
        .any(|five| five.eq_ignore_ascii_case(b"basic"));
    assert!(named || !text.contains("Some("), "{text}");
}

/// Fuzzes `Authorization` headers: the parsed credentials equal the sent ones.
pub fn fuzz_authorization(data: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(data) else {
        return;
    };
    let headers = HeaderMap::from_iter([(AUTHORIZATION, value)]);
    if let Some((user, password)) = credentials(&headers) {
        assert!(!user.contains(':'));
        let text = [user.as_bytes(), b":", &password].concat();
        let sent = BASE64_STANDARD
            .decode(data.get(6..).unwrap_or_default())
            .ok();
        assert_eq!(sent.as_deref(), Some(&text[..]));
    }
}

/// Fuzzes web configurations.
pub fn fuzz_web_config(data: &[u8]) {
    crate::web::fuzz_parse(&String::from_utf8_lossy(data));
}

/// Fuzzes `NO_PROXY` lists: the local machine is never reached through a proxy.
pub fn fuzz_no_proxy(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (list, host) = text.split_once('\n').unwrap_or((&text, "a.example"));
    let parsed = NoProxy::parse(list);
    assert!(parsed.matches("127.0.0.1", 80) && parsed.matches("localhost", 80));
    let _decided = parsed.matches(host, 443);
}

/// Fuzzes responses, at once and byte by byte: both give the same result.
pub fn fuzz_answer(data: &[u8]) {
    let whole = read_answer(data, usize::MAX);
    let pieces = read_answer(data, 7);
    assert_eq!(whole, pieces);
}

fn read_answer(data: &[u8], piece_bytes: usize) -> Result<Vec<u8>, String> {
    let mut source = Pieces { data, piece_bytes };
    let mut body = Vec::new();
    let result = {
        let mut reading = pin!(fuzz_read_answer(&mut source, LIMIT_BYTES, &mut body));
        reading
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
    };
    let Poll::Ready(result) = result else {
        panic!("a source that never waits made its reader wait");
    };
    result.map_err(|error| error.to_string())?;
    assert!(body.len() <= LIMIT_BYTES);
    assert!(
        body.capacity() <= 4 * LIMIT_BYTES,
        "{} bytes",
        body.capacity()
    );
    Ok(body)
}

/// Fuzzes path patterns: a pattern without wildcards matches itself.
pub fn fuzz_glob(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (pattern, name) = text.split_once('\n').unwrap_or((&text, "a.json"));
    let _matched = crate::glob::matches(name, pattern);
    if !pattern.contains(['*', '?', '[', '\\']) {
        assert_eq!(crate::glob::matches(pattern, pattern), Ok(true));
    }
}

/// A reader that is always ready, returns a few bytes at a time, and then ends.
struct Pieces<'a> {
    data: &'a [u8],
    piece_bytes: usize,
}

impl AsyncRead for Pieces<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let most = self
            .piece_bytes
            .min(self.data.len())
            .min(buffer.remaining());
        let (piece, rest) = self.data.split_at(most);
        buffer.put_slice(piece);
        self.data = rest;
        Poll::Ready(Ok(()))
    }
}
