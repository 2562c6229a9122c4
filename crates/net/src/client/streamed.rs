//! Responses read as they arrive, for those that end at the server's choice.
//!
//! Invariant: the appended data is decoded body in order; a truncated body is an error, never an end.

use tokio::io::{AsyncRead, AsyncReadExt};

use super::chunked::Chunked;
use super::exchange::Beginning;
use super::head::Framing;
use super::request::ResponseHead;
use super::stream::Stream;
use crate::encoding::Encoding;
use crate::error::NetError;

/// Room for one read.
const READ_BYTES: usize = 16 << 10;

/// A response whose head has been read. Dropping it closes the connection.
#[derive(Debug)]
pub struct StreamedResponse {
    head: ResponseHead,
    stream: Stream,
    /// Received bytes not returned yet, as on the wire.
    buffer: Vec<u8>,
    rest: Rest,
}

#[derive(Debug)]
enum Rest {
    Nothing,
    Bytes(u64),
    Chunks(Chunked),
    UntilClose,
}

impl StreamedResponse {
    pub(super) fn new(stream: Stream, begun: Beginning) -> Result<Self, NetError> {
        let Beginning {
            head,
            early,
            wire_bytes,
        } = begun;
        let encoding = head.response.encoding;
        if encoding != Encoding::Identity {
            return Err(NetError::UnknownEncoding {
                encoding: encoding.to_string(),
            });
        }
        let rest = match head.framing {
            Framing::Empty => Rest::Nothing,
            Framing::Length(length) => Rest::Bytes(length),
            Framing::Chunked => Rest::Chunks(Chunked::new(usize::MAX)),
            Framing::UntilClose => Rest::UntilClose,
        };
        Ok(Self {
            head: ResponseHead {
                wire_bytes,
                ..head.response
            },
            stream,
            buffer: early,
            rest,
        })
    }

    /// Returns the response head; its sizes are those known when it arrived.
    #[must_use]
    pub fn head(&self) -> &ResponseHead {
        &self.head
    }

    /// Waits for more of the body and appends it; returns whether more may follow.
    ///
    /// There is no deadline: callers apply their own. Cancel safe.
    ///
    /// # Errors
    /// Fails when the connection fails or ends before the body does.
    pub async fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, NetError> {
        loop {
            let before = out.len();
            let more = self.decode(out)?;
            if !more || out.len() > before {
                return Ok(more);
            }
            let read = match &mut self.stream {
                Stream::Plain(stream) => read_some(stream, &mut self.buffer).await?,
                Stream::Tls(stream) => read_some(stream, &mut self.buffer).await?,
            };
            if read == 0 {
                return match self.rest {
                    Rest::UntilClose => Ok(false),
                    _ => Err(NetError::Closed {
                        received_bytes: self.head.wire_bytes,
                    }),
                };
            }
            self.head.wire_bytes += read as u64;
        }
    }

    /// Decodes the received part of the body; returns whether the body continues.
    fn decode(&mut self, out: &mut Vec<u8>) -> Result<bool, NetError> {
        let taken = match &mut self.rest {
            Rest::Nothing => return Ok(false),
            Rest::UntilClose => self.buffer.len(),
            Rest::Bytes(left) => {
                let here = usize::try_from(*left)
                    .unwrap_or(usize::MAX)
                    .min(self.buffer.len());
                *left -= here as u64;
                here
            }
            Rest::Chunks(chunks) => {
                let mut done = 0;
                chunks.advance(&mut self.buffer, &mut done)?;
                done
            }
        };
        out.extend_from_slice(self.buffer.get(..taken).unwrap_or_default());
        // All input has been processed: what is not data was framing.
        self.buffer.clear();
        let ended = match &self.rest {
            Rest::Bytes(left) => *left == 0,
            Rest::Chunks(chunks) => chunks.is_end(),
            Rest::Nothing | Rest::UntilClose => false,
        };
        Ok(!ended)
    }
}

async fn read_some<S: AsyncRead + Unpin>(
    stream: &mut S,
    buffer: &mut Vec<u8>,
) -> Result<usize, NetError> {
    buffer.reserve(READ_BYTES);
    stream
        .read_buf(buffer)
        .await
        .map_err(crate::tls::errors::read_error)
}
