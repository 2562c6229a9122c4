//! Heads of HTTP/1 messages: a response's status and the few headers that a client needs, lines of a request.
//!
//! Invariant: the framing is unambiguous or the response is rejected. Conflicting lengths, a transfer coding other
//! than chunked, or a length with other characters than digits never reach the body reader.

use std::mem::MaybeUninit;

use httparse::{Header, ParserConfig, Response, Status};

use super::request::ResponseHead;
use crate::encoding::Encoding;
use crate::error::{NetError, malformed};
use crate::url::parse_digits;

/// Most header lines accepted. Go limits only their size; 128 is twice what proxies add.
const MAX_HEADERS: usize = 128;

/// Headers that are kept for callers, in lower case: what a remote write receiver says of a request.
const KEPT: [&str; 5] = [
    "accept-encoding",
    "accept-post",
    "x-prometheus-remote-write-samples-written",
    "x-prometheus-remote-write-histograms-written",
    "x-prometheus-remote-write-exemplars-written",
];

/// Framing of a response body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Empty,
    Length(u64),
    Chunked,
    UntilClose,
}

/// The relevant parts of a response head.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) framing: Framing,
    /// Whether the connection remains usable after the body.
    pub(super) keep_alive: bool,
    pub(super) location: Option<String>,
    /// What callers get, without the counts.
    pub(super) response: ResponseHead,
}

impl Head {
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.response.status)
    }

    pub(super) fn is_redirect(&self) -> bool {
        matches!(self.response.status, 301 | 302 | 303 | 307 | 308) && self.location.is_some()
    }
}

/// Returns the end of the head in `bytes`, if complete; only `bytes[from..]` has not been searched.
pub(super) fn find_end(bytes: &[u8], from: usize) -> Option<usize> {
    let start = from.saturating_sub(3);
    let unsearched = bytes.get(start..)?;
    for (at, _newline) in unsearched
        .iter()
        .enumerate()
        .filter(|(_at, byte)| **byte == b'\n')
    {
        match unsearched.get(at + 1..) {
            Some([b'\n', ..]) => return Some(start + at + 2),
            Some([b'\r', b'\n', ..]) => return Some(start + at + 3),
            _ => {}
        }
    }
    None
}

/// Parses a complete head (up to and including its empty line).
pub(super) fn parse(bytes: &[u8]) -> Result<Head, NetError> {
    let mut headers = [MaybeUninit::<Header<'_>>::uninit(); MAX_HEADERS];
    let mut response = Response::new(&mut []);
    let parsed = ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        bytes,
        &mut headers,
    );
    match parsed {
        Ok(Status::Complete(_length)) => {}
        Ok(Status::Partial) => return Err(malformed("incomplete head")),
        Err(httparse::Error::TooManyHeaders) => return Err(malformed("more than 128 headers")),
        Err(httparse::Error::Version) => return Err(malformed("not HTTP/1")),
        Err(httparse::Error::Status) => return Err(malformed("bad status line")),
        Err(_other) => return Err(malformed("bad header line")),
    }
    let status = response.code.unwrap_or(0);
    if !(100..1000).contains(&status) {
        return Err(malformed("bad status code"));
    }
    let mut fields = Fields::default();
    fields.response.status = status;
    for header in response.headers.iter() {
        fields.read_header(header)?;
    }
    fields.into_head(response.version == Some(1))
}

/// The headers as received, before conflicts are resolved.
#[derive(Debug, Default)]
struct Fields {
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
    location: Option<String>,
    response: ResponseHead,
}

impl Fields {
    fn read_header(&mut self, header: &Header<'_>) -> Result<(), NetError> {
        let (name, value) = (header.name.as_bytes(), header.value);
        let response = &mut self.response;
        // The length distinguishes nearly all of them before any letter is compared.
        match name.len() {
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                // Digits only, as RFC 9112 requires: no sign, no list.
                let length = std::str::from_utf8(value.trim_ascii())
                    .ok()
                    .and_then(parse_digits)
                    .ok_or(malformed("bad Content-Length"))?;
                if self.length.is_some_and(|known| known != length) {
                    return Err(malformed("conflicting Content-Length"));
                }
                self.length = Some(length);
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                if self.chunked || !value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    return Err(malformed("unsupported Transfer-Encoding"));
                }
                self.chunked = true;
            }
            10 if name.eq_ignore_ascii_case(b"connection") => {
                for token in value.split(|b| *b == b',') {
                    self.close |= token.trim_ascii().eq_ignore_ascii_case(b"close");
                    self.keep_alive |= token.trim_ascii().eq_ignore_ascii_case(b"keep-alive");
                }
            }
            16 if name.eq_ignore_ascii_case(b"content-encoding") => {
                if response.encoding != Encoding::Identity {
                    return Err(NetError::UnknownEncoding {
                        encoding: "several".to_owned(),
                    });
                }
                response.encoding = Encoding::parse(value)?;
            }
            12 if name.eq_ignore_ascii_case(b"content-type") => {
                response.content_type.get_or_insert_with(|| text(value));
            }
            8 if name.eq_ignore_ascii_case(b"location") => {
                self.location.get_or_insert_with(|| text(value));
            }
            11 if name.eq_ignore_ascii_case(b"retry-after") => {
                response.retry_after.get_or_insert_with(|| text(value));
            }
            _ => {
                let kept = KEPT
                    .iter()
                    .find(|kept| kept.as_bytes().eq_ignore_ascii_case(name));
                response.kept.extend(kept.map(|kept| (*kept, text(value))));
            }
        }
        Ok(())
    }

    fn into_head(self, http_1_1: bool) -> Result<Head, NetError> {
        if self.chunked && !http_1_1 {
            return Err(malformed("Transfer-Encoding in HTTP/1.0"));
        }
        let framing = match (self.response.status, self.chunked, self.length) {
            (100..200 | 204 | 304, ..) => Framing::Empty,
            (_, true, _) => Framing::Chunked,
            (_, false, Some(0)) => Framing::Empty,
            (_, false, Some(length)) => Framing::Length(length),
            (_, false, None) => Framing::UntilClose,
        };
        // Chunked and a length together may be a smuggling attempt: read the response, then close.
        let ambiguous = self.chunked && self.length.is_some();
        let persistent = if http_1_1 {
            !self.close
        } else {
            self.keep_alive && !self.close
        };
        Ok(Head {
            framing,
            keep_alive: persistent && !ambiguous && framing != Framing::UntilClose,
            location: self.location,
            response: self.response,
        })
    }
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value.trim_ascii()).into_owned()
}

/// Writes a line of a request's head.
pub(super) fn push_header(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}
