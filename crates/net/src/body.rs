//! Request bodies, read whole and decompressed under one limit.
//!
//! Invariant: neither the bytes read from the wire nor those they decompress to exceed the limit,
//! and no memory is reserved because a header announces it.

use std::pin::pin;

use axum::body::Body;
use bytes::Bytes;
use http::Request;
use http::header::{CONTENT_ENCODING, HeaderMap};
use http_body_util::{BodyExt, LengthLimitError};
use hyper::body::Body as HttpBody;

use crate::blocking;
use crate::encoding::Encoding;
use crate::error::NetError;
use crate::inflate::decompress;

/// The most that a `Content-Length` makes us reserve before bytes have arrived.
const RESERVE_BYTES: u64 = 64 << 10;

/// Returns a request's body, decompressed as its `Content-Encoding` says (gzip, deflate).
///
/// # Errors
/// [`NetError::BodyTooLarge`] (413) above `limit_bytes` on the wire or decompressed,
/// [`NetError::CorruptBody`] (400), [`NetError::UnknownEncoding`] (415), [`NetError::Io`] (400) when
/// the client went away.
pub async fn read_body(request: Request<Body>, limit_bytes: usize) -> Result<Bytes, NetError> {
    let encoding = encoding_of(request.headers())?;
    let wire = read_wire_body(request.into_body(), limit_bytes).await?;
    if encoding == Encoding::Identity {
        return Ok(wire);
    }
    let mut out = Vec::new();
    blocking::run(wire.len() * 8, || {
        decompress(encoding, &wire, limit_bytes, &mut out)
    })?;
    Ok(Bytes::from(out))
}

/// Returns a body as it is on the wire, for handlers with an encoding of their own (snappy).
///
/// # Errors
/// [`NetError::BodyTooLarge`] above `limit_bytes`, [`NetError::Io`] when the client went away.
pub async fn read_wire_body(body: Body, limit_bytes: usize) -> Result<Bytes, NetError> {
    let declared_bytes = body.size_hint().lower();
    if declared_bytes > limit_bytes as u64 {
        return Err(NetError::BodyTooLarge { limit_bytes });
    }
    let mut body = pin!(body);
    let mut out: Vec<u8> = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| read_error(error, limit_bytes))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if data.len() > limit_bytes - out.len() {
            return Err(NetError::BodyTooLarge { limit_bytes });
        }
        if out.is_empty() {
            if body.is_end_stream() {
                return Ok(data);
            }
            out.reserve(usize::try_from(declared_bytes.min(RESERVE_BYTES)).unwrap_or(0));
        }
        out.extend_from_slice(&data);
    }
    Ok(Bytes::from(out))
}

fn encoding_of(headers: &HeaderMap) -> Result<Encoding, NetError> {
    let mut values = headers.get_all(CONTENT_ENCODING).iter();
    let first = values.next().map_or(&b""[..], |v| v.as_bytes());
    if values.next().is_some() {
        return Err(NetError::UnknownEncoding {
            encoding: "several".to_owned(),
        });
    }
    Encoding::parse(first)
}

/// The server's own limit may be the smaller one.
fn read_error(error: axum::Error, limit_bytes: usize) -> NetError {
    let error = error.into_inner();
    if error.is::<LengthLimitError>() {
        return NetError::BodyTooLarge { limit_bytes };
    }
    NetError::read(std::io::Error::other(error))
}
