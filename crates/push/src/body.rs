//! Bodies of pushes: their length, compression and format.
//!
//! **Invariant:** every buffered byte is granted first, decompressed ones included.

use crate::error::PushError;
use bytes::Bytes;
use http::{HeaderMap, header};
use narthex_expfmt::Format;
use narthex_net::{
    Allowance, Encoding, NetError, axum::body::Body, decompress_within, read_wire_body_within,
};
use std::{
    error::Error,
    io::Read as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// Magic number of a zstd frame.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Shortest header of a gzip member, in bytes.
const GZIP_HEAD_BYTES: usize = 10;
/// Bytes read at once from a snappy stream: one of its chunks.
const CHUNK_BYTES: usize = 64 << 10;

/// Bytes left for all bodies together, and those that one body has taken.
#[derive(Debug)]
pub(crate) struct Room {
    left: Arc<AtomicUsize>,
    taken: usize,
}

impl Room {
    pub(crate) fn new(left: &Arc<AtomicUsize>) -> Self {
        Self {
            left: Arc::clone(left),
            taken: 0,
        }
    }
}

impl Allowance for Room {
    fn grow(&mut self, bytes: usize) -> Result<(), Box<dyn Error + Send + Sync>> {
        let less = |left: usize| left.checked_sub(bytes);
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        taken.map_err(|left| format!("{left} bytes are left for all pushes"))?;
        self.taken += bytes;
        Ok(())
    }

    fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.taken);
        self.taken -= bytes;
        self.left.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.left.fetch_add(self.taken, Ordering::Relaxed);
    }
}

/// Reads a body without decompressing it.
///
/// # Errors
/// Fails on a body that is too long or too slow, or that exceeds the room left.
pub(crate) async fn read(
    body: Body,
    limit_bytes: usize,
    longest: Duration,
    room: &mut Room,
) -> Result<Bytes, PushError> {
    let reading = read_wire_body_within(body, limit_bytes, room);
    match tokio::time::timeout(longest, reading).await {
        Ok(read) => read.map_err(|error| refused(&error)),
        Err(_elapsed) => Err(PushError::Slow {
            waited_seconds: longest.as_secs(),
        }),
    }
}

fn refused(error: &NetError) -> PushError {
    match error {
        NetError::BodyTooLarge { limit_bytes } => PushError::TooLarge {
            limit_bytes: *limit_bytes,
        },
        NetError::Memory { .. } => PushError::busy(error),
        _ => PushError::body(None, error.to_string()),
    }
}

/// Decompresses a body. Like the Pushgateway, ignores an unknown encoding.
///
/// # Errors
/// Fails on a damaged body, or one longer than `limit_bytes`.
pub(crate) fn decompress(
    headers: &HeaderMap,
    body: Bytes,
    limit_bytes: usize,
    room: &mut Room,
) -> Result<Bytes, PushError> {
    let encoding = headers.get(header::CONTENT_ENCODING);
    let encoding = encoding
        .map(|value| value.as_bytes().to_ascii_lowercase())
        .unwrap_or_default();
    let encoding = match encoding.as_slice() {
        b"gzip" if body.is_empty() => return Err(damaged("EOF")),
        b"gzip" if body.len() < GZIP_HEAD_BYTES => return Err(damaged("unexpected EOF")),
        b"gzip" if !body.starts_with(&[0x1f, 0x8b]) => return Err(damaged("gzip: invalid header")),
        b"gzip" => Encoding::Gzip,
        b"zstd" if body.starts_with(&ZSTD) => Encoding::Zstd,
        b"snappy" => return unsnap(&body, limit_bytes, room),
        _ => return Ok(body),
    };
    let mut out = Vec::new();
    let done = decompress_within(encoding, &body, limit_bytes, room, &mut out);
    done.map_err(|error| refused(&error))?;
    Ok(Bytes::from(out))
}

/// Decompresses snappy's framing format.
fn unsnap(body: &[u8], limit_bytes: usize, room: &mut Room) -> Result<Bytes, PushError> {
    let mut decoder = snap::read::FrameDecoder::new(body);
    let mut out = Vec::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let got = decoder
            .read(&mut chunk)
            .map_err(|_corrupt| damaged("snappy: corrupt input"))?;
        if got == 0 {
            return Ok(Bytes::from(out));
        }
        if out.len() + got > limit_bytes {
            return Err(PushError::TooLarge { limit_bytes });
        }
        room.grow(got).map_err(PushError::busy)?;
        out.extend_from_slice(&chunk[..got]);
    }
}

fn damaged(detail: &str) -> PushError {
    PushError::body(None, detail)
}

/// Returns a body's format: OpenMetrics, or protobuf if its content type fully says so, else text.
pub(crate) fn format_of(headers: &HeaderMap) -> Format {
    let content_type = headers.get(header::CONTENT_TYPE);
    let content_type = content_type
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let mut parts = content_type.split(';').map(str::trim);
    let media = parts.next().unwrap_or_default();
    let (mut is_delimited, mut is_family) = (false, false);
    for part in parts {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let value = value.trim().trim_matches('"');
        match name.trim().to_ascii_lowercase().as_str() {
            "encoding" => is_delimited = value == "delimited",
            "proto" => is_family = value == "io.prometheus.client.MetricFamily",
            _ => {}
        }
    }
    let is_protobuf = media.eq_ignore_ascii_case("application/vnd.google.protobuf");
    if is_protobuf && is_delimited && is_family {
        Format::Protobuf
    } else if media.eq_ignore_ascii_case("application/openmetrics-text") {
        Format::OpenMetrics
    } else {
        Format::Text
    }
}
