//! Request bodies, read whole or in pieces under a limit.
//!
//! Invariant: the bytes read from the wire do not exceed the limit, and a header alone makes us reserve only a small amount
//! of memory.

use axum::body::Body;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError};
use hyper::body::Body as HttpBody;

use crate::allowance::{Allowance, Unlimited, ask, reserve};
use crate::error::NetError;

/// Largest reservation for a `Content-Length` before bytes have arrived.
const RESERVE_BYTES: u64 = 64 << 10;

/// Returns a body as it is on the wire: handlers decompress it.
///
/// # Errors
/// [`NetError::BodyTooLarge`] above `limit_bytes`, [`NetError::Io`] when the client disconnected.
pub async fn read_wire_body(body: Body, limit_bytes: usize) -> Result<Bytes, NetError> {
    read_wire_body_within(body, limit_bytes, &mut Unlimited).await
}

/// Like [`read_wire_body`], but requests all memory for the body from `allowance` first.
///
/// # Errors
/// As [`read_wire_body`], and [`NetError::Memory`] (503).
pub async fn read_wire_body_within(
    body: Body,
    limit_bytes: usize,
    allowance: &mut dyn Allowance,
) -> Result<Bytes, NetError> {
    let mut pieces = BodyPieces::new(body, limit_bytes)?;
    let mut out: Vec<u8> = Vec::new();
    while let Some(data) = pieces.next().await? {
        if out.is_empty() && pieces.is_end() {
            // A single piece needs no copy; it occupies the connection's buffer, of the same size.
            ask(data.len(), allowance)?;
            return Ok(data);
        }
        if out.capacity() - out.len() < data.len() {
            let more_bytes = data.len().max(out.len()).max(pieces.expected_bytes());
            let most_bytes = limit_bytes - out.len();
            reserve(&mut out, more_bytes.min(most_bytes), allowance)?;
        }
        out.extend_from_slice(&data);
    }
    Ok(Bytes::from(out))
}

/// A body as it is on the wire, piece by piece, for callers that wait for memory between pieces.
#[derive(Debug)]
pub struct BodyPieces {
    body: Body,
    limit_bytes: usize,
    received_bytes: usize,
}

impl BodyPieces {
    /// Starts reading a body.
    ///
    /// # Errors
    /// [`NetError::BodyTooLarge`] if the announced length exceeds `limit_bytes`.
    pub fn new(body: Body, limit_bytes: usize) -> Result<Self, NetError> {
        if body.size_hint().lower() > limit_bytes as u64 {
            return Err(NetError::BodyTooLarge { limit_bytes });
        }
        Ok(Self {
            body,
            limit_bytes,
            received_bytes: 0,
        })
    }

    /// Waits for the next piece; returns `None` at the end.
    ///
    /// # Errors
    /// [`NetError::BodyTooLarge`] above the limit, [`NetError::Io`] when the client disconnected.
    pub async fn next(&mut self) -> Result<Option<Bytes>, NetError> {
        let limit_bytes = self.limit_bytes;
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|error| read_error(error, limit_bytes))?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            if data.len() > limit_bytes - self.received_bytes {
                return Err(NetError::BodyTooLarge { limit_bytes });
            }
            self.received_bytes += data.len();
            return Ok(Some(data));
        }
        Ok(None)
    }

    /// Returns whether the body is already known to have ended.
    #[must_use]
    pub fn is_end(&self) -> bool {
        self.body.is_end_stream()
    }

    /// Returns the number of bytes still to come, if it was announced.
    #[must_use]
    pub fn announced_bytes(&self) -> Option<usize> {
        usize::try_from(self.body.size_hint().exact()?).ok()
    }

    /// Returns how much of the announced length to reserve in advance.
    fn expected_bytes(&self) -> usize {
        let announced_bytes = self.body.size_hint().lower();
        usize::try_from(announced_bytes.min(RESERVE_BYTES)).unwrap_or(0)
    }
}

/// Converts a read error; the server's own limit may be the smaller one.
fn read_error(error: axum::Error, limit_bytes: usize) -> NetError {
    let error = error.into_inner();
    if error.is::<LengthLimitError>() {
        return NetError::BodyTooLarge { limit_bytes };
    }
    NetError::read(std::io::Error::other(error))
}
