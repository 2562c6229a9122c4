//! Compression of responses, including streamed ones.
//!
//! Invariant: a handler's output is not delayed while it waits to produce more: the compressor is flushed whenever
//! nothing further is ready. If a body breaks off, so does its compressed form.

use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::Response;
use bytes::Bytes;
use flate2::write::GzEncoder;
use http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderValue, VARY,
};
use http::{HeaderMap, Method};
use hyper::body::{Body as HttpBody, Frame};
use zstd::stream::write::Encoder as ZstdEncoder;

use crate::encoding::Encoding;
use crate::negotiation::choose_encoding;
use crate::respond::ZSTD_LEVEL;

/// Approximate size of the pieces of compressed output.
const PIECE_BYTES: usize = 16 << 10;

/// Returns the router with responses compressed as the client accepts (zstd, gzip).
///
/// Left unchanged: bodies known to be shorter than `from_bytes`, those already encoded (everything made by
/// [`crate::respond`]), event streams, and types that are compressed already.
pub fn compress(router: Router, from_bytes: usize) -> Router {
    router.layer(middleware::from_fn(move |request: Request, next: Next| {
        encode(request, next, from_bytes)
    }))
}

async fn encode(request: Request, next: Next, from_bytes: usize) -> Response {
    let encoding = choose_encoding(request.headers());
    let is_head = request.method() == Method::HEAD;
    let mut response = next.run(request).await;
    let short = HttpBody::size_hint(response.body())
        .upper()
        .is_some_and(|upper| upper < from_bytes as u64);
    if is_head || short || !is_compressible(response.headers()) {
        return response;
    }
    let headers = response.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    let encoder: Box<dyn Encoder> = match encoding {
        Encoding::Gzip => {
            let fast = flate2::Compression::fast();
            Box::new(GzEncoder::new(Vec::new(), fast))
        }
        Encoding::Zstd => match ZstdEncoder::new(Vec::new(), ZSTD_LEVEL) {
            Ok(encoder) => Box::new(encoder),
            Err(_no_memory) => return response,
        },
        Encoding::Identity | Encoding::Deflate => return response,
    };
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding.name()));
    headers.remove(CONTENT_LENGTH);
    response.map(|body| {
        Body::new(Compressed {
            body,
            encoder: Some(encoder),
            pending: false,
        })
    })
}

fn is_compressible(headers: &HeaderMap) -> bool {
    if headers.contains_key(CONTENT_ENCODING) || headers.contains_key(CONTENT_RANGE) {
        return false;
    }
    let value = headers.get(CONTENT_TYPE).map_or(&b""[..], |v| v.as_bytes());
    let kind = value.split(|b| *b == b';').next().unwrap_or_default();
    let kind = kind.trim_ascii().to_ascii_lowercase();
    if kind == b"text/event-stream" {
        return false;
    }
    kind.starts_with(b"text/")
        || [&b"/json"[..], b"+json", b"/xml", b"+xml", b"/javascript"]
            .iter()
            .any(|end| kind.ends_with(end))
        || kind.starts_with(b"application/openmetrics-text")
}

/// Compresses what is written to it.
trait Encoder: Write + Send {
    /// Returns the output so far.
    fn made(&mut self) -> &mut Vec<u8>;

    fn finish(self: Box<Self>) -> io::Result<Vec<u8>>;
}

impl Encoder for GzEncoder<Vec<u8>> {
    fn made(&mut self) -> &mut Vec<u8> {
        self.get_mut()
    }

    fn finish(self: Box<Self>) -> io::Result<Vec<u8>> {
        (*self).finish()
    }
}

impl Encoder for ZstdEncoder<'static, Vec<u8>> {
    fn made(&mut self) -> &mut Vec<u8> {
        self.get_mut()
    }

    fn finish(self: Box<Self>) -> io::Result<Vec<u8>> {
        (*self).finish()
    }
}

/// A body between its handler and the connection.
struct Compressed {
    body: Body,
    /// `None` once the body has ended.
    encoder: Option<Box<dyn Encoder>>,
    /// Whether the encoder holds unflushed data.
    pending: bool,
}

impl HttpBody for Compressed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        loop {
            let Some(encoder) = &mut this.encoder else {
                return Poll::Ready(None);
            };
            match Pin::new(&mut this.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => {
                    // No handler uses trailers.
                    let Ok(data) = frame.into_data() else {
                        continue;
                    };
                    encoder.write_all(&data).map_err(axum::Error::new)?;
                    this.pending = true;
                    if encoder.made().len() >= PIECE_BYTES {
                        return piece(std::mem::take(encoder.made()));
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    this.encoder = None;
                    return Poll::Ready(Some(Err(error)));
                }
                Poll::Ready(None) => {
                    let rest = this.encoder.take().map(Encoder::finish).transpose();
                    return piece(rest.map_err(axum::Error::new)?.unwrap_or_default());
                }
                Poll::Pending => {
                    if std::mem::take(&mut this.pending) {
                        encoder.flush().map_err(axum::Error::new)?;
                    }
                    if encoder.made().is_empty() {
                        return Poll::Pending;
                    }
                    return piece(std::mem::take(encoder.made()));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.encoder.is_none()
    }
}

fn piece(data: Vec<u8>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
    Poll::Ready(Some(Ok(Frame::data(Bytes::from(data)))))
}

#[cfg(test)]
mod tests;
