//! One request and its response on one connection.
//!
//! Hand-written because hyper's client costs more than twice the kernel's own reads on bodies of 100 KB (figures in
//! bench/record/net-fetch.md): here bytes go from the socket straight into the caller's buffer, in the caller's task.
//!
//! Invariant: no byte after the response is read into the body, memory grows only with received bytes and within the
//! caller's allowance, and a connection is reusable only if its response ended exactly.

use bytes::BufMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::chunked::Chunked;
use super::head::{self, Framing, Head};
use crate::allowance::{Allowance, reserve};
use crate::encoding::Encoding;
use crate::error::{NetError, malformed};

/// Size of the first read: a whole head, but little of the body, which would have to be copied.
const HEAD_READ_BYTES: usize = 1 << 10;
/// Longest accepted head.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Interim (1xx) responses skipped before the final one.
const MAX_INTERIM: usize = 8;
/// Least room for reading a body.
const READ_BYTES: usize = 16 << 10;
/// Largest reservation for a `Content-Length` at once.
const RESERVE_BYTES: usize = 256 << 10;
/// Bytes kept of an unsuccessful response's body: enough for any error text.
const ERROR_BODY_BYTES: usize = 64 << 10;

/// Scratch of an exchange, reused by the next one.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    /// The response head as received; after a failure, it is empty exactly if no byte arrived.
    pub(super) head: Vec<u8>,
    /// The response body, if it is compressed.
    pub(super) wire: Vec<u8>,
    /// Whether the response head was complete: later failures are reported as the body's, as in Go.
    pub(super) in_body: bool,
}

/// Limit on a response body.
pub(super) struct Room<'a> {
    pub(super) limit_bytes: usize,
    /// Bytes to reserve in advance.
    pub(super) expected_bytes: usize,
    pub(super) allowance: &'a mut dyn Allowance,
}

/// A response head, with its body still encoded, and the connection's state.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) head: Head,
    /// Bytes of the response as received, head included.
    pub(super) wire_bytes: u64,
    pub(super) reusable: bool,
}

/// Sends `request` (a head) and `content`; reads the response body into `body`, or into `buffers.wire` when it is
/// compressed.
///
/// The body of an unsuccessful response is truncated to 64 KiB instead of failing at the limit.
pub(super) async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    request: &[u8],
    content: &[u8],
    room: &mut Room<'_>,
    buffers: &mut Buffers,
    body: &mut Vec<u8>,
) -> Result<Answer, NetError> {
    buffers.head.clear();
    buffers.in_body = false;
    let sent = send(stream, request, content).await;
    match (read_answer(stream, room, buffers, body).await, sent) {
        (Ok(mut answer), sent) => {
            // A server may respond and close without reading all of a large request.
            answer.reusable &= sent.is_ok();
            Ok(answer)
        }
        (Err(_read), Err(error)) => Err(NetError::write(error)),
        (Err(error), Ok(())) => Err(error),
    }
}

async fn send<S: AsyncWrite + Unpin>(
    stream: &mut S,
    request: &[u8],
    content: &[u8],
) -> std::io::Result<()> {
    stream.write_all(request).await?;
    if !content.is_empty() {
        stream.write_all(content).await?;
    }
    stream.flush().await
}

pub(super) async fn read_answer<S: AsyncRead + Unpin>(
    stream: &mut S,
    room: &mut Room<'_>,
    buffers: &mut Buffers,
    body: &mut Vec<u8>,
) -> Result<Answer, NetError> {
    let Room {
        limit_bytes,
        expected_bytes,
        allowance,
    } = room;
    let (limit_bytes, expected_bytes) = (*limit_bytes, *expected_bytes);
    let Buffers {
        head: head_buffer,
        wire,
        in_body,
    } = buffers;
    body.clear();
    wire.clear();
    let (head, head_length, wire_bytes) = begin(stream, head_buffer).await?;
    *in_body = true;
    let is_plain = head.response.encoding == Encoding::Identity;
    let mut reader = BodyReader {
        stream,
        early: &head_buffer[head_length..],
        received_bytes: wire_bytes + head_buffer.len() as u64,
        // Truncation is not an error: the caller needs only the status.
        cut: !head.is_success(),
        limit_bytes: if head.is_success() {
            limit_bytes
        } else {
            limit_bytes.min(ERROR_BODY_BYTES)
        },
        expected_bytes: if is_plain { expected_bytes } else { 0 },
        body: if is_plain { body } else { wire },
        allowance: &mut **allowance,
    };
    let exact = match head.framing {
        Framing::Empty => reader.early.is_empty(),
        Framing::Length(length) => reader.read_length(length).await?,
        Framing::Chunked => reader.read_chunked().await?,
        Framing::UntilClose => reader.read_to_close().await?,
    };
    let wire_bytes = reader.received_bytes;
    let reusable = exact && head.keep_alive;
    Ok(Answer {
        head,
        wire_bytes,
        reusable,
    })
}

/// Reads the first head that is not interim to the beginning of `buffer`.
///
/// Returns it, its length, and the number of bytes of interim responses before it.
async fn begin<S: AsyncRead + Unpin>(
    stream: &mut S,
    buffer: &mut Vec<u8>,
) -> Result<(Head, usize, u64), NetError> {
    let mut wire_bytes = 0;
    let mut interim = 0;
    loop {
        let length = read_head(stream, buffer).await?;
        let head = head::parse(&buffer[..length])?;
        if head.response.status >= 200 {
            return Ok((head, length, wire_bytes));
        }
        interim += 1;
        if interim > MAX_INTERIM || head.response.status == 101 {
            return Err(malformed("unexpected interim answer"));
        }
        wire_bytes += length as u64;
        buffer.drain(..length);
    }
}

/// A response whose head alone was read, on purpose.
#[derive(Debug)]
pub(super) struct Beginning {
    pub(super) head: Head,
    /// Bytes of the body that arrived with the head.
    pub(super) early: Vec<u8>,
    pub(super) wire_bytes: u64,
}

/// Sends a request without a body and reads the response head.
pub(super) async fn exchange_heads<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    request: &[u8],
) -> Result<Beginning, NetError> {
    send(stream, request, &[]).await.map_err(NetError::write)?;
    let mut buffer = Vec::new();
    let (head, length, interim_bytes) = begin(stream, &mut buffer).await?;
    let wire_bytes = interim_bytes + buffer.len() as u64;
    buffer.drain(..length);
    Ok(Beginning {
        head,
        early: buffer,
        wire_bytes,
    })
}

/// Appends to `buffer` until it begins with a complete head; returns the head's length.
pub(super) async fn read_head<S: AsyncRead + Unpin>(
    stream: &mut S,
    buffer: &mut Vec<u8>,
) -> Result<usize, NetError> {
    let mut searched = 0;
    loop {
        if let Some(end) = head::find_end(buffer, searched) {
            return Ok(end);
        }
        searched = buffer.len();
        if searched >= MAX_HEAD_BYTES {
            return Err(malformed("head longer than 65536 bytes"));
        }
        // A read fills at most the spare capacity, and an empty vector would start at 64 bytes.
        buffer.reserve(HEAD_READ_BYTES);
        read_some(stream, buffer, HEAD_READ_BYTES, searched as u64).await?;
    }
}

/// Appends the bytes of one read, at most `most_bytes`.
async fn read_some<S: AsyncRead + Unpin>(
    stream: &mut S,
    buffer: &mut Vec<u8>,
    most_bytes: usize,
    received_bytes: u64,
) -> Result<usize, NetError> {
    let read = stream
        .read_buf(&mut buffer.limit(most_bytes))
        .await
        .map_err(crate::tls::errors::read_error)?;
    if read == 0 {
        return Err(NetError::Closed { received_bytes });
    }
    Ok(read)
}

struct BodyReader<'a, S> {
    stream: &'a mut S,
    /// Body bytes that arrived with the head.
    early: &'a [u8],
    received_bytes: u64,
    limit_bytes: usize,
    cut: bool,
    expected_bytes: usize,
    body: &'a mut Vec<u8>,
    allowance: &'a mut dyn Allowance,
}

/// Each method returns whether the response ended exactly at the end of the received bytes.
impl<S: AsyncRead + Unpin> BodyReader<'_, S> {
    async fn read_length(&mut self, length: u64) -> Result<bool, NetError> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > self.limit_bytes && !self.cut {
            return Err(self.too_large());
        }
        let keep = length.min(self.limit_bytes);
        let most = self.expected_bytes.max(RESERVE_BYTES);
        reserve(self.body, keep.min(most), self.allowance)?;
        let early = self.early.len().min(keep);
        self.body.extend_from_slice(&self.early[..early]);
        while self.body.len() < keep {
            self.make_room(1, keep)?;
            let left = keep - self.body.len();
            self.received_bytes +=
                read_some(self.stream, self.body, left, self.received_bytes).await? as u64;
        }
        Ok(keep == length && self.early.len() <= length)
    }

    async fn read_chunked(&mut self) -> Result<bool, NetError> {
        let mut chunks = Chunked::new(self.limit_bytes);
        let mut done = 0;
        self.reserve_expected()?;
        self.body.extend_from_slice(self.early);
        loop {
            let after = match chunks.advance(self.body, &mut done) {
                Err(NetError::BodyTooLarge { .. }) if self.cut => {
                    self.body.truncate(done);
                    return Ok(false);
                }
                advanced => advanced?,
            };
            self.body.truncate(done);
            if chunks.is_end() {
                return Ok(after == 0);
            }
            // Framing adds to the data, and disappears in decoding.
            self.make_room(READ_BYTES / 4, self.limit_bytes.saturating_add(READ_BYTES))?;
            let room = self.body.capacity() - self.body.len();
            self.received_bytes +=
                read_some(self.stream, self.body, room, self.received_bytes).await? as u64;
        }
    }

    async fn read_to_close(&mut self) -> Result<bool, NetError> {
        self.reserve_expected()?;
        self.body.extend_from_slice(self.early);
        loop {
            if self.body.len() > self.limit_bytes {
                if self.cut {
                    self.body.truncate(self.limit_bytes);
                    return Ok(false);
                }
                return Err(self.too_large());
            }
            self.make_room(READ_BYTES / 4, self.limit_bytes.saturating_add(READ_BYTES))?;
            let room = self.body.capacity() - self.body.len();
            match read_some(self.stream, self.body, room, self.received_bytes).await {
                Ok(read) => self.received_bytes += read as u64,
                Err(NetError::Closed { .. }) => return Ok(true),
                Err(error) => return Err(error),
            }
        }
    }

    /// Reserves room for a body of unknown length: the bytes that came with the head, or the expected size.
    fn reserve_expected(&mut self) -> Result<(), NetError> {
        // The last reads need room beyond the body's end.
        let expected = self.expected_bytes.saturating_add(READ_BYTES);
        let room = match self.expected_bytes {
            0 => 0,
            _ => expected.min(self.limit_bytes),
        };
        reserve(self.body, room.max(self.early.len()), self.allowance)
    }

    /// Doubles the body's capacity, up to `most_bytes`, when less than `least` room is left.
    fn make_room(&mut self, least: usize, most_bytes: usize) -> Result<(), NetError> {
        let length = self.body.len();
        if self.body.capacity() - length < least {
            let more = length
                .max(READ_BYTES)
                .min(most_bytes.saturating_sub(length))
                .max(least);
            reserve(self.body, more, self.allowance)?;
        }
        Ok(())
    }

    fn too_large(&self) -> NetError {
        NetError::BodyTooLarge {
            limit_bytes: self.limit_bytes,
        }
    }
}
