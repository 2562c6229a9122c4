//! Responses: whole bodies, compressed when accepted and worthwhile, and streamed ones.
//!
//! Invariant: a response is complete or visibly broken. A whole body has a length; a streamed one whose producer
//! vanished ends in an error, never with a clean last chunk.

use std::cell::RefCell;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::StatusCode;
use http::header::{
    CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, VARY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use libdeflater::{CompressionLvl, Compressor};
use tokio::sync::mpsc;

use crate::blocking;
use crate::encoding::Encoding;
use crate::error::NetError;
use crate::negotiation::choose_encoding;

/// Shorter bodies are sent uncompressed: they fit one packet either way.
pub const COMPRESS_FROM_BYTES: usize = 1 << 10;
/// libdeflate's fastest level that still searches for matches; measured in bench/record/net-fetch.md.
const LEVEL: i32 = 1;
/// zstd's fastest ordinary level.
pub(crate) const ZSTD_LEVEL: i32 = 1;

/// Returns a 200 with this body, compressed if the request accepts it and the result is shorter.
///
/// Handlers pass the request's headers; a HEAD response has the same headers (the router drops the body). Compression
/// of large bodies does not block other tasks of this worker.
#[must_use]
pub fn respond(content_type: &'static str, body: Bytes, request_headers: &HeaderMap) -> Response {
    let encoding = if body.len() >= COMPRESS_FROM_BYTES {
        choose_encoding(request_headers)
    } else {
        Encoding::Identity
    };
    let compressed = match encoding {
        Encoding::Gzip => blocking::run_long(body.len(), || gzip(&body)),
        Encoding::Zstd => blocking::run_long(body.len(), || zstd(&body)),
        Encoding::Identity | Encoding::Deflate => None,
    };
    match compressed {
        Some(compressed) => respond_encoded(content_type, compressed.into(), encoding),
        None => respond_encoded(content_type, body, Encoding::Identity),
    }
}

/// Returns a 200 with a body that has this encoding already, as the request accepts it.
#[must_use]
pub fn respond_encoded(content_type: &'static str, body: Bytes, encoding: Encoding) -> Response {
    respond_pieces(content_type, Body::from(body), encoding)
}

/// Like [`respond_encoded`], for a body that is made while it is sent.
#[must_use]
pub fn respond_pieces(content_type: &'static str, body: Body, encoding: Encoding) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    // Also on the plain form: a cache must not serve either form to the other kind of client.
    headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    if encoding != Encoding::Identity {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding.name()));
    }
    response
}

/// Like [`respond`], for a JSON document.
#[must_use]
pub fn respond_json(body: impl Into<Bytes>, request_headers: &HeaderMap) -> Response {
    respond("application/json", body.into(), request_headers)
}

/// Like [`respond`], for plain text.
#[must_use]
pub fn respond_text(body: impl Into<Bytes>, request_headers: &HeaderMap) -> Response {
    respond("text/plain; charset=utf-8", body.into(), request_headers)
}

/// Returns an error in the form of Go's servers.
#[must_use]
pub fn respond_error(status: StatusCode, text: &str) -> Response {
    let mut response = (status, format!("{text}\n")).into_response();
    let nosniff = HeaderValue::from_static("nosniff");
    response
        .headers_mut()
        .insert(X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}

/// Returns a gzip member of `input`, or `None` if it would not be shorter.
#[must_use]
pub fn gzip(input: &[u8]) -> Option<Vec<u8>> {
    thread_local! {
        static COMPRESSOR: RefCell<Option<Compressor>> = const { RefCell::new(None) };
    }
    COMPRESSOR.with_borrow_mut(|slot| {
        let compressor = slot.get_or_insert_with(|| {
            let level = CompressionLvl::new(LEVEL).expect("libdeflate has levels 0 to 12");
            Compressor::new(level)
        });
        // With one byte less than the input, "does not fit" means "is not shorter".
        let mut out = vec![0; input.len().checked_sub(1)?];
        let length = compressor.gzip_compress(input, &mut out).ok()?;
        out.truncate(length);
        // The caller holds the response until the client has it, so the slack is worth returning.
        out.shrink_to_fit();
        Some(out)
    })
}

/// Returns a zstd frame of `input`, or `None` if it would not be shorter.
#[must_use]
pub fn zstd(input: &[u8]) -> Option<Vec<u8>> {
    thread_local! {
        static COMPRESSOR: RefCell<Option<zstd::bulk::Compressor<'static>>> =
            const { RefCell::new(None) };
    }
    COMPRESSOR.with_borrow_mut(|slot| {
        let compressor = slot.get_or_insert_with(|| {
            zstd::bulk::Compressor::new(ZSTD_LEVEL).expect("zstd has this level")
        });
        let mut out = vec![0; input.len().checked_sub(1)?];
        let length = compressor.compress_to_buffer(input, &mut out).ok()?;
        out.truncate(length);
        out.shrink_to_fit();
        Some(out)
    })
}

/// Returns a body and its sender, with at most `capacity` pieces in between.
pub fn body_channel(capacity: usize) -> (BodySender, Body) {
    let (sender, receiver) = mpsc::channel(capacity.max(1));
    (
        BodySender { sender },
        Body::new(Streamed {
            receiver,
            ended: false,
        }),
    )
}

/// The sender of a streamed body; dropping it without [`BodySender::finish`] breaks the response off.
#[derive(Debug)]
pub struct BodySender {
    sender: mpsc::Sender<Piece>,
}

#[derive(Debug)]
enum Piece {
    Data(Bytes),
    End,
}

/// The error after the client has disconnected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientGone;

impl BodySender {
    /// Sends a piece, waiting for a slow client.
    ///
    /// # Errors
    /// Fails if the client has disconnected.
    pub async fn send(&self, data: Bytes) -> Result<(), ClientGone> {
        if data.is_empty() {
            return Ok(());
        }
        self.sender
            .send(Piece::Data(data))
            .await
            .map_err(|_gone| ClientGone)
    }

    /// Waits until the client has disconnected.
    pub async fn gone(&self) {
        self.sender.closed().await;
    }

    /// Ends the body cleanly.
    ///
    /// # Errors
    /// Fails if the client has disconnected.
    pub async fn finish(self) -> Result<(), ClientGone> {
        self.sender
            .send(Piece::End)
            .await
            .map_err(|_gone| ClientGone)
    }
}

struct Streamed {
    receiver: mpsc::Receiver<Piece>,
    ended: bool,
}

impl HttpBody for Streamed {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        if this.ended {
            return Poll::Ready(None);
        }
        this.receiver.poll_recv(context).map(|piece| match piece {
            Some(Piece::Data(data)) => Some(Ok(Frame::data(data))),
            Some(Piece::End) => {
                this.ended = true;
                None
            }
            None => {
                this.ended = true;
                Some(Err("the answer's producer gave up"))
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }
}

/// Returns a body produced piece by piece, each after the previous one has been sent, until `next` returns `None`.
///
/// For a slow client only the current piece is in memory; the rest is not produced yet. Between two pieces the thread's
/// other tasks run, however fast the client is.
pub fn body_of(next: impl FnMut() -> Option<Bytes> + Send + 'static) -> Body {
    Body::new(Made {
        next,
        has_made: false,
    })
}

struct Made<F> {
    next: F,
    /// Whether the last thing done was to make a piece, so that others run before the next.
    has_made: bool,
}

impl<F> Unpin for Made<F> {}

impl<F: FnMut() -> Option<Bytes>> HttpBody for Made<F> {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let body = self.get_mut();
        if std::mem::take(&mut body.has_made) {
            ctx.waker().wake_by_ref();
            return Poll::Pending;
        }
        body.has_made = true;
        let piece = (body.next)();
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }
}

/// Keeps a value until the last byte of a response with a body has been handed to the kernel, or the client has gone.
pub fn keep_until_sent(response: Response, kept: impl Send + Sync + 'static) -> Response {
    response.map(|body| {
        Body::new(Keeping {
            body,
            kept: Some(kept),
        })
    })
}

struct Keeping<T> {
    body: Body,
    kept: Option<T>,
}

/// The last piece of a body, and what is kept until it is written.
struct Last<T> {
    data: Bytes,
    _kept: T,
}

impl<T> AsRef<[u8]> for Last<T> {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl<T> Unpin for Keeping<T> {}

impl<T: Send + Sync + 'static> HttpBody for Keeping<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.body).poll_frame(context);
        if !this.body.is_end_stream() {
            return polled;
        }
        polled.map_ok(|frame| match (frame.into_data(), this.kept.take()) {
            (Ok(data), Some(kept)) => Frame::data(Bytes::from_owner(Last { data, _kept: kept })),
            (Ok(data), None) => Frame::data(data),
            (Err(other), _) => other,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl IntoResponse for NetError {
    /// Returns a plain-text response with the error's status and text.
    fn into_response(self) -> Response {
        let status = self.status();
        let text = if status == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::warn!(error = %self, "request failed");
            "internal error\n".to_owned()
        } else {
            format!("{self}\n")
        };
        (status, text).into_response()
    }
}

#[cfg(test)]
mod tests;
