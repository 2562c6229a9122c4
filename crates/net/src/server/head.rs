//! Rejection of requests by their head alone, as in Go's server.
//!
//! Invariant: every accepted request has only one interpretation. A proxy that parses a head differently from us
//! would let a client smuggle a request inside another, or reach a name that the proxy protects.

use http::header::{EXPECT, HOST, HeaderValue, TRANSFER_ENCODING};
use http::{Method, Request, StatusCode, Version};

use crate::percent::is_well_formed;

/// Status and text of a rejection.
pub(super) type Refusal = (StatusCode, &'static str);

/// Returns the reason for rejecting a request, if any; hyper has checked lengths, names and values of fields.
pub(super) fn refusal<B>(request: &Request<B>) -> Option<Refusal> {
    let bad = |text| Some((StatusCode::BAD_REQUEST, text));
    let headers = request.headers();
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _)
            if request.version() >= Version::HTTP_11 && request.method() != Method::CONNECT =>
        {
            return bad("missing required Host header\n");
        }
        (Some(_), Some(_)) => return bad("too many Host headers\n"),
        (Some(host), None) if !host.as_bytes().iter().all(|byte| is_of_host(*byte)) => {
            return bad("malformed Host header\n");
        }
        _ => {}
    }
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let chunked = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    if let Some(first) = codings.next()
        && (!chunked(first) || codings.next().is_some())
    {
        return Some((
            StatusCode::NOT_IMPLEMENTED,
            "unsupported transfer encoding\n",
        ));
    }
    let mut expected = headers.get_all(EXPECT).iter();
    if !expected.all(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue")) {
        return Some((StatusCode::EXPECTATION_FAILED, "unknown expectation\n"));
    }
    if !is_well_formed(request.uri().path().as_bytes()) {
        return bad("invalid URL escape in the path\n");
    }
    None
}

/// Reports whether Go allows this byte in a host.
fn is_of_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!$%&()*+,-.:;=[]'_~".contains(&byte)
}
