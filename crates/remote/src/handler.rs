//! `POST /api/v1/write`: headers, limits, statuses.
//!
//! **Invariant:** memory of all requests together is bounded: bytes are kept only once they are granted, and at most
//! `decoders` bodies are decompressed at a time. A request is charged for what has arrived, not for what it announces,
//! so that slow senders block nobody.

use crate::{
    error::RemoteError,
    frames,
    message::Message,
    metrics,
    receiver::{Receiver, Stored, Written},
    series_cache::EPOCH_MS,
    snappy,
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use narthex_model::{storage::Lease, sync::Whole as _};
use narthex_net::{
    BodyPieces, NetError, Router,
    axum::{
        body::Body,
        extract::{Request, State},
        response::Response,
        routing::post,
    },
    catch_panic, respond_error,
};
use std::{
    sync::{Arc, Mutex, Once, Weak},
    time::{Duration, Instant},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Settings of the handler.
#[derive(Clone, Debug)]
pub struct ReceiverConfig {
    /// Accepted messages, from `--web.remote-write-receiver.accepted-protobuf-messages`.
    pub messages: Vec<Message>,
    /// Longest body, compressed or decompressed.
    pub body_limit_bytes: usize,
    /// Limit on the bytes of all bodies being read.
    pub reading_limit_bytes: usize,
    /// How long a body waits for these bytes before it is rejected with 503.
    pub reading_wait: Duration,
    /// Maximum requests decompressed and stored at once.
    pub decoders: usize,
}

impl Default for ReceiverConfig {
    /// Returns both messages and Prometheus' limit of 32 MiB per request.
    fn default() -> Self {
        Self {
            messages: vec![Message::V1, Message::V2],
            body_limit_bytes: 32 << 20,
            reading_limit_bytes: 256 << 20,
            reading_wait: Duration::from_secs(10),
            decoders: 4,
        }
    }
}

impl ReceiverConfig {
    /// Reports whether frames are accepted: wherever everything that can be sent in them is.
    fn takes_frames(&self) -> bool {
        self.messages.contains(&Message::V2)
    }
}

/// State of the handler.
struct Shared {
    receiver: Receiver,
    /// Starts the periodic forgetting of ended series with the first request.
    forgetting: Once,
    config: ReceiverConfig,
    /// Permits of `GRANT_BYTES` each.
    reading: Arc<Semaphore>,
    decoding: Arc<Semaphore>,
    buffers: Mutex<Vec<Vec<u8>>>,
}

impl Shared {
    fn new(receiver: Receiver, config: ReceiverConfig) -> Self {
        let least = grants_of(config.body_limit_bytes);
        let grants = (config.reading_limit_bytes / GRANT_BYTES).max(least);
        Self {
            receiver,
            reading: Arc::new(Semaphore::new(grants)),
            decoding: Arc::new(Semaphore::new(config.decoders.max(1))),
            buffers: Mutex::default(),
            forgetting: Once::new(),
            config,
        }
    }
}

const GRANT_BYTES: usize = 64 << 10;
/// When a rejected sender should retry.
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("5");
/// Up to this size, a decompressed body's buffer is kept for the next request: there are as many as there were requests at
/// once, not one for each thread.
const KEEP_BYTES: usize = 1 << 20;

/// What may be sent beside remote write.
const ACCEPT_POST: HeaderName = HeaderName::from_static("accept-post");

const WRITTEN: [HeaderName; 3] = [
    HeaderName::from_static("x-prometheus-remote-write-samples-written"),
    HeaderName::from_static("x-prometheus-remote-write-histograms-written"),
    HeaderName::from_static("x-prometheus-remote-write-exemplars-written"),
];

/// Returns the route of a receiver.
pub fn routes(receiver: Receiver, config: ReceiverConfig) -> Router {
    Router::new()
        .route("/api/v1/write", post(write))
        .with_state(Arc::new(Shared::new(receiver, config)))
}

/// Lets the receiver forget ended series even when no requests arrive, until its routes are dropped.
async fn forget_ended(shared: Weak<Shared>) {
    let epoch = Duration::from_millis(EPOCH_MS.unsigned_abs());
    loop {
        tokio::time::sleep(epoch).await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        shared.buffers.lock().whole().clear();
        let swept = tokio::task::spawn_blocking(move || shared.receiver.forget_ended()).await;
        if let Ok(Err(error)) = swept {
            tracing::warn!(%error, "Series that ended could not be given back to storage.");
        }
    }
}

/// Returns the route for a disabled receiver: its response says how to enable it.
pub fn disabled_routes() -> Router {
    let text = "remote write receiver needs to be enabled with --web.enable-remote-write-receiver";
    Router::new().route(
        "/api/v1/write",
        post(move || async move { respond_error(StatusCode::NOT_FOUND, text) }),
    )
}

async fn write(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    shared.forgetting.call_once(|| {
        tokio::spawn(forget_ended(Arc::downgrade(&shared)));
    });
    let message = match message_of(request.headers(), &shared.config) {
        Ok(message) => message,
        Err(error) => return failed("unknown", &error),
    };
    let outcome = store(&shared, message, request).await;
    let (written, error) = outcome.unwrap_or_else(|error| (Written::default(), Some(error)));
    let mut response = match &error {
        None => {
            metrics::REQUESTS.with(&[message.version(), "204"]).inc();
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            response
        }
        Some(error) => failed(message.version(), error),
    };
    let headers = response.headers_mut();
    if shared.config.takes_frames() {
        headers.insert(ACCEPT_POST, HeaderValue::from_static(frames::MEDIA_TYPE));
    }
    if message != Message::V1 {
        let counts = [written.samples, written.histograms, written.exemplars];
        for (name, count) in WRITTEN.into_iter().zip(counts) {
            headers.insert(name, HeaderValue::from(count));
        }
    }
    response
}

async fn store(
    shared: &Arc<Shared>,
    message: Message,
    request: Request,
) -> Result<Stored, RemoteError> {
    check_encoding(request.headers())?;
    let (body, held) = read(shared, request.into_body()).await?;
    let decoding = Arc::clone(&shared.decoding).acquire_owned();
    let permit = decoding.await.map_err(|closed| interrupted(&closed))?;
    let shared = Arc::clone(shared);
    let task = tokio::task::spawn_blocking(move || {
        let (_held, _permit) = (held, permit);
        catch_panic("remote_write", || decode(&shared, message, &body))
    });
    let caught = task.await.map_err(|_cancelled| RemoteError::Panicked)?;
    caught.map_err(|_logged| RemoteError::Panicked)?
}

/// Reads a body as sent; also returns the holder of its memory.
async fn read(shared: &Shared, body: Body) -> Result<(Bytes, RequestMemory), RemoteError> {
    let limit_bytes = shared.config.body_limit_bytes;
    let refused = |error| match error {
        NetError::BodyTooLarge { .. } => RemoteError::TooLarge { limit_bytes },
        other => interrupted(&other),
    };
    let mut pieces = BodyPieces::new(body, limit_bytes).map_err(refused)?;
    let mut grants = Grants::new(shared)?;
    let mut whole: Vec<u8> = Vec::new();
    while let Some(piece) = pieces.next().await.map_err(refused)? {
        if whole.is_empty() && pieces.is_end() {
            grants.cover(piece.len()).await?;
            return Ok((piece, grants.memory));
        }
        if whole.capacity() - whole.len() < piece.len() {
            // Grows by doubling up to what is announced, so at most twice the bytes that arrived are held, and once more
            // while they are copied.
            let arrived = whole.len() + piece.len();
            let room = pieces.announced_bytes().map_or(arrived, |n| n.min(arrived));
            let more = piece.len() + room;
            let more = more.min(limit_bytes - whole.len());
            grants.cover(whole.len() + more).await?;
            let copied = whole.capacity() as u64;
            grants.memory.lease.grow(copied)?;
            whole.reserve_exact(more);
            grants.memory.lease.shrink(copied);
        }
        whole.extend_from_slice(&piece);
    }
    Ok((Bytes::from(whole), grants.memory))
}

/// One request's share of the memory limits.
struct RequestMemory {
    /// Share of the limit on bodies being read; a request that gets too little waits.
    permit: Option<OwnedSemaphorePermit>,
    /// Share of the receiver's memory; a request that gets no more is rejected.
    lease: Lease,
}

/// Grants of a request while its body arrives.
struct Grants<'a> {
    shared: &'a Shared,
    memory: RequestMemory,
}

impl<'a> Grants<'a> {
    fn new(shared: &'a Shared) -> Result<Self, RemoteError> {
        let lease = shared.receiver.memory.lease(0)?;
        let permit = None;
        Ok(Self {
            shared,
            memory: RequestMemory { permit, lease },
        })
    }

    /// Waits until `bytes` are granted in total.
    ///
    /// Requests that wait for each other time out: the first to give up unblocks the others.
    async fn cover(&mut self, bytes: usize) -> Result<(), RemoteError> {
        let permit = self.memory.permit.as_ref();
        let held = permit.map_or(0, |permit| permit.num_permits());
        self.memory.lease.resize(bytes as u64)?;
        let Some(missing) = grants_of(bytes).checked_sub(held).filter(|n| *n > 0) else {
            return Ok(());
        };
        let waited = self.shared.config.reading_wait;
        let reading = Arc::clone(&self.shared.reading).acquire_many_owned(missing as u32);
        let granted = tokio::time::timeout(waited, reading)
            .await
            .map_err(|_elapsed| RemoteError::Busy { waited })?
            .map_err(|closed| interrupted(&closed))?;
        match &mut self.memory.permit {
            Some(permit) => permit.merge(granted),
            empty => *empty = Some(granted),
        }
        Ok(())
    }
}

fn interrupted(error: &dyn std::fmt::Display) -> RemoteError {
    RemoteError::Body {
        detail: error.to_string(),
    }
}

fn decode(shared: &Shared, message: Message, body: &Bytes) -> Result<Stored, RemoteError> {
    let start = Instant::now();
    // The buffers kept between requests are small and not counted.
    let kept = shared.buffers.lock().whole().pop();
    let mut buffer = kept.unwrap_or_default();
    let outcome = decompress_and_store(shared, message, body, &mut buffer);
    if buffer.capacity() <= KEEP_BYTES {
        shared.buffers.lock().whole().push(buffer);
    }
    metrics::SECONDS
        .with(&[message.version()])
        .observe_duration(start.elapsed());
    if let Ok((written, _)) = &outcome {
        for (kind, count) in [
            ("samples", written.samples),
            ("histograms", written.histograms),
            ("exemplars", written.exemplars),
        ] {
            metrics::SAMPLES.with(&[kind]).inc_by(count);
        }
    }
    outcome
}

fn decompress_and_store(
    shared: &Shared,
    message: Message,
    body: &[u8],
    buffer: &mut Vec<u8>,
) -> Result<Stored, RemoteError> {
    let limit_bytes = plain_limit_bytes(shared, message);
    let plain_bytes = snappy::announced(body, limit_bytes)?;
    let _lease = shared.receiver.memory.lease(plain_bytes as u64)?;
    snappy::decompress(body, limit_bytes, buffer)?;
    metrics::BYTES
        .with(&["compressed"])
        .inc_by(body.len() as u64);
    metrics::BYTES.with(&["plain"]).inc_by(buffer.len() as u64);
    shared.receiver.store(message, buffer)
}

/// Returns the limit on a decompressed body.
fn plain_limit_bytes(shared: &Shared, message: Message) -> usize {
    let limit_bytes = shared.config.body_limit_bytes;
    match message {
        Message::Frames => limit_bytes.min(frames::BODY_BYTES),
        Message::V1 | Message::V2 => limit_bytes,
    }
}

fn grants_of(bytes: usize) -> usize {
    bytes.div_ceil(GRANT_BYTES).max(1)
}

fn check_encoding(headers: &HeaderMap) -> Result<(), RemoteError> {
    match headers.get(header::CONTENT_ENCODING) {
        Some(encoding) if !encoding.is_empty() && encoding != "snappy" => {
            Err(RemoteError::Encoding {
                encoding: String::from_utf8_lossy(encoding.as_bytes()).into_owned(),
            })
        }
        _ => Ok(()),
    }
}

/// Returns the message that a request's headers name.
fn message_of(headers: &HeaderMap, config: &ReceiverConfig) -> Result<Message, RemoteError> {
    const MEDIA_TYPE: &str = "application/x-protobuf";
    let refused = |detail: String| Err(RemoteError::ContentType { detail });
    let content_type = headers
        .get(header::CONTENT_TYPE)
        .map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_owned())
        .filter(|value| !value.is_empty())
        .unwrap_or_else(|| MEDIA_TYPE.to_owned());
    if content_type == frames::MEDIA_TYPE && config.takes_frames() {
        return Ok(Message::Frames);
    }
    let mut parts = content_type.split(';');
    if parts.next() != Some(MEDIA_TYPE) {
        return refused(format!(
            "expected {MEDIA_TYPE} as the first (media) part, got {content_type} content-type"
        ));
    }
    let mut message = Message::V1;
    for part in parts {
        let pair: Vec<&str> = part.split('=').collect();
        let [name, value] = pair[..] else {
            return refused(format!(
                "as per https://www.rfc-editor.org/rfc/rfc9110#parameter expected parameters to be key-values, got {part} in {content_type} content-type"
            ));
        };
        if name == "proto" {
            let known = [Message::V1, Message::V2];
            let Some(named) = known.iter().find(|known| known.name() == value) else {
                return refused(format!(
                    "got {content_type} content type; unknown type for remote write protobuf message {value}, supported: {}",
                    names(&known)
                ));
            };
            message = *named;
            break;
        }
    }
    let accepted = &config.messages;
    if !accepted.contains(&message) {
        return refused(format!(
            "{} protobuf message is not accepted by this server; only accepts {}",
            message.name(),
            names(accepted)
        ));
    }
    Ok(message)
}

fn names(messages: &[Message]) -> String {
    let names: Vec<&str> = messages.iter().map(|message| message.name()).collect();
    names.join(", ")
}

fn failed(version: &str, error: &RemoteError) -> Response {
    let status = error.status();
    metrics::REQUESTS.with(&[version, status.as_str()]).inc();
    if status == StatusCode::SERVICE_UNAVAILABLE {
        // Senders retry, many at once: the budget's metrics count them.
        tracing::debug!(%error, "A remote write request has to wait for memory.");
    } else if status.is_server_error() {
        tracing::error!(%error, "Storing a remote write request failed.");
    } else {
        tracing::debug!(%error, "A remote write request was refused.");
    }
    let mut response = respond_error(status, &error.to_string());
    if status == StatusCode::SERVICE_UNAVAILABLE {
        let headers = response.headers_mut();
        headers.insert(header::RETRY_AFTER, RETRY_AFTER_SECONDS);
    }
    response
}

/// Answers one request with a new receiver, for the fuzz target.
pub(crate) fn fuzz_answer(request: Request) -> Response {
    let config = ReceiverConfig {
        body_limit_bytes: 1 << 16,
        reading_limit_bytes: 1 << 16,
        decoders: 1,
        ..ReceiverConfig::default()
    };
    let store = Arc::new(narthex_model::MemStore::new());
    let receiver = Receiver::new(store, Arc::new(|| i64::MAX / 2));
    let shared = Shared::new(receiver, config);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("threads and timers are there");
    runtime.block_on(write(State(Arc::new(shared)), request))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(content_type: &str, accepted: &[Message]) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_str(content_type).unwrap(),
        );
        let config = ReceiverConfig {
            messages: accepted.to_vec(),
            ..ReceiverConfig::default()
        };
        match message_of(&headers, &config) {
            Ok(message) => message.version().to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn media_types_are_judged_as_prometheus_does() {
        let both = [Message::V1, Message::V2];
        for (content_type, verdict) in [
            ("", "1"),
            ("application/x-protobuf", "1"),
            ("application/x-protobuf;proto=prometheus.WriteRequest", "1"),
            (
                "application/x-protobuf;proto=io.prometheus.write.v2.Request",
                "2",
            ),
            ("application/x-protobuf;charset=utf-8", "1"),
            ("application/vnd.narthex.frames;version=2", "frames"),
            (
                "application/vnd.narthex.frames;version=3",
                "expected application/x-protobuf as the first (media) part, got application/vnd.narthex.frames;version=3 content-type",
            ),
            (
                "text/plain",
                "expected application/x-protobuf as the first (media) part, got text/plain content-type",
            ),
            (
                "application/x-protobuf;proto=x",
                "got application/x-protobuf;proto=x content type; unknown type for remote write protobuf message x, supported: prometheus.WriteRequest, io.prometheus.write.v2.Request",
            ),
        ] {
            assert_eq!(judged(content_type, &both), verdict);
        }
        assert_eq!(
            judged(
                "application/x-protobuf;proto=io.prometheus.write.v2.Request",
                &[Message::V1]
            ),
            "io.prometheus.write.v2.Request protobuf message is not accepted by this server; only accepts prometheus.WriteRequest"
        );
    }
}
