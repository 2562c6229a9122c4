//! Requests that are refused for their head alone, as Go's server refuses them.
//!
//! Invariant: whatever passes has one reading. A proxy in front of us that reads a head in another way than we do lets a
//! client hide one request within another, or reach a name that the proxy guards.

use http::header::{EXPECT, HOST, HeaderValue, TRANSFER_ENCODING};
use http::{Method, Request, StatusCode, Version};

/// What a head is refused with.
pub(super) type Refusal = (StatusCode, &'static str);

/// Returns why a request is refused, if it is; hyper has checked lengths, names and values of fields.
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
    if !is_escaped(request.uri().path()) {
        return bad("invalid URL escape in the path\n");
    }
    None
}

/// Reports whether Go lets a host have this byte.
fn is_of_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!$%&()*+,-.:;=[]'_~".contains(&byte)
}

/// Reports whether two hexadecimal digits follow every `%`.
fn is_escaped(path: &str) -> bool {
    let mut parts = path.split('%').map(str::as_bytes);
    parts.next();
    parts.all(|part| {
        let digits = part.get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}
