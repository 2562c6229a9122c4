//! The HTTP client: keep-alive, redirects, deadlines and caps, into buffers that callers reuse.
//!
//! Invariant: no call outlives its request's timeout, no body exceeds its limit on the wire or
//! decompressed, and credentials never follow a redirect to another host.

mod chunked;
pub(crate) mod config;
mod exchange;
mod head;
mod pool;
pub(crate) mod proxy;

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, COOKIE, HOST, USER_AGENT};
use tokio::net::TcpStream;
use tokio::time::Instant;

use config::HttpClientConfig;
use proxy::ProxyEnvironment;

use crate::blocking;
use crate::encoding::Encoding;
use crate::error::NetError;
use crate::inflate::decompress;
use crate::url::Url;
use exchange::{Answer, Buffers, exchange};
use pool::Pool;

/// Scratch buffers kept for reuse, and the largest worth keeping.
const SCRATCH_KEPT: usize = 64;
const SCRATCH_KEPT_BYTES: usize = 1 << 20;

/// Settings of a [`Client`], shared by all its requests.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ClientConfig {
    /// For a connection to be established, name resolution included, all addresses together. 10 s.
    pub connect_timeout: Duration,
    /// How long an unused connection is kept. 5 min.
    pub idle_timeout: Duration,
    /// Unused connections kept per `host:port`; 0 turns keep-alive off. 4.
    pub max_idle_per_host: usize,
    /// The `User-Agent` of requests that don't set one. `Narthex/<version>`.
    pub user_agent: String,
    /// What `proxy_from_environment` refers to. Nothing.
    pub environment: ProxyEnvironment,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_mins(5),
            max_idle_per_host: 4,
            user_agent: concat!("Narthex/", env!("CARGO_PKG_VERSION")).to_owned(),
            environment: ProxyEnvironment::default(),
        }
    }
}

/// What to ask for, and how much of time and memory the answer may take. Reusable.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Request {
    /// Where.
    pub url: Url,
    /// Sent as they are; `Host`, `User-Agent` and `Accept-Encoding` are added unless present.
    pub headers: HeaderMap,
    /// For everything: connecting, redirects, the whole body. 10 s.
    pub timeout: Duration,
    /// Longest body, on the wire and decompressed. 256 MiB.
    pub body_limit_bytes: usize,
    /// Redirects followed; with 0 the redirecting answer itself is returned. 10.
    pub max_redirects: u32,
    /// Whether to accept gzip. Yes.
    pub accept_gzip: bool,
}

impl Request {
    /// Returns a request with no headers and the default limits.
    #[must_use]
    pub fn new(url: Url) -> Self {
        Self {
            url,
            headers: HeaderMap::new(),
            timeout: Duration::from_secs(10),
            body_limit_bytes: 256 << 20,
            max_redirects: 10,
            accept_gzip: true,
        }
    }
}

/// An answer without its body, which is in the caller's buffer.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ResponseHead {
    /// The status code, of any class.
    pub status: u16,
    /// `Content-Type`, if sent.
    pub content_type: Option<String>,
    /// `Retry-After`, if sent.
    pub retry_after: Option<String>,
    /// How the body was compressed on the wire.
    pub encoding: Encoding,
    /// Bytes received for this answer: head, framing and body, compressed.
    pub wire_bytes: u64,
    /// Length of the decoded body.
    pub body_bytes: u64,
    /// Redirects followed to get here.
    pub redirects: u32,
    /// Whether the connection had served a request before.
    pub reused: bool,
}

impl ResponseHead {
    /// Returns an error unless the status is 200, as a scrape demands.
    ///
    /// # Errors
    /// [`NetError::Status`] in Prometheus' words.
    pub fn require_ok(&self) -> Result<(), NetError> {
        if self.status == 200 {
            Ok(())
        } else {
            Err(NetError::Status { code: self.status })
        }
    }
}

/// Connections made and used by a client since it was built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ClientStats {
    /// Connections established.
    pub connections_opened_total: u64,
    /// Requests that found an open connection.
    pub connections_reused_total: u64,
}

/// Fetches over HTTP/1.1. Cheap to clone; clones share connections.
#[derive(Debug, Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    config: ClientConfig,
    pool: Pool,
    scratch: Mutex<Vec<Scratch>>,
    opened_total: AtomicU64,
    reused_total: AtomicU64,
}

/// Buffers of one request in flight.
#[derive(Debug, Default)]
struct Scratch {
    /// The request's head as sent.
    request: Vec<u8>,
    answer: Buffers,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Get,
    Post,
}

impl Method {
    fn token(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
        }
    }

    /// As Go names it in errors.
    fn title(self) -> &'static str {
        match self {
            Self::Get => "Get",
            Self::Post => "Post",
        }
    }
}

impl Client {
    /// Builds a client with no connections.
    #[must_use]
    pub fn new(config: ClientConfig) -> Self {
        let pool = Pool::new(config.max_idle_per_host, config.idle_timeout);
        Self {
            inner: Arc::new(Inner {
                config,
                pool,
                scratch: Mutex::new(Vec::new()),
                opened_total: AtomicU64::new(0),
                reused_total: AtomicU64::new(0),
            }),
        }
    }

    /// Builds a client that authenticates, encrypts and travels as `http` says.
    ///
    /// # Errors
    /// [`NetError::Config`] for settings that contradict each other, and what reading certificates
    /// and keys fails with.
    pub fn with_http(config: ClientConfig, mut http: HttpClientConfig) -> Result<Self, NetError> {
        http.validate()?;
        if http != HttpClientConfig::default() {
            return Err(config::invalid("not supported by this version"));
        }
        Ok(Self::new(config))
    }

    /// Gets a URL; `body` is replaced by the decoded body, reusing its allocation.
    ///
    /// Any status is an answer, see [`ResponseHead::require_ok`]; the body of an unsuccessful one is
    /// cut at 64 KiB. Dropping the future closes the connection.
    ///
    /// # Errors
    /// When there is no complete answer within the request's limits; `body` is then unspecified.
    pub async fn get(
        &self,
        request: &Request,
        body: &mut Vec<u8>,
    ) -> Result<ResponseHead, NetError> {
        self.run(Method::Get, request, &[], body).await
    }

    /// Posts `content`, whose type and encoding `request.headers` tell; otherwise as [`Client::get`].
    ///
    /// # Errors
    /// As [`Client::get`]. A request that may have been received is not repeated.
    pub async fn post(
        &self,
        request: &Request,
        content: &[u8],
        body: &mut Vec<u8>,
    ) -> Result<ResponseHead, NetError> {
        self.run(Method::Post, request, content, body).await
    }

    /// Returns how connections were used so far.
    #[must_use]
    pub fn stats(&self) -> ClientStats {
        ClientStats {
            connections_opened_total: self.inner.opened_total.load(Relaxed),
            connections_reused_total: self.inner.reused_total.load(Relaxed),
        }
    }

    async fn run(
        &self,
        method: Method,
        request: &Request,
        content: &[u8],
        body: &mut Vec<u8>,
    ) -> Result<ResponseHead, NetError> {
        let mut scratch = self.inner.take_scratch();
        let work = self
            .inner
            .follow(method, request, content, &mut scratch, body);
        let result = match tokio::time::timeout(request.timeout, work).await {
            Ok(result) => result,
            Err(_elapsed) => Err(NetError::Request {
                method: method.title(),
                url: request.url.to_string(),
                source: Box::new(NetError::Deadline {
                    timeout: request.timeout,
                }),
            }),
        };
        self.inner.return_scratch(scratch);
        result
    }
}

impl Inner {
    /// Requests, and follows redirects, until there is an answer to return.
    async fn follow(
        &self,
        mut method: Method,
        request: &Request,
        content: &[u8],
        scratch: &mut Scratch,
        body: &mut Vec<u8>,
    ) -> Result<ResponseHead, NetError> {
        let mut moved: Option<Url> = None;
        let mut redirects = 0;
        loop {
            let url = moved.as_ref().unwrap_or(&request.url);
            let within = |source| NetError::Request {
                method: method.title(),
                url: url.to_string(),
                source: Box::new(source),
            };
            let trusted = url.host() == request.url.host();
            let content = if method == Method::Get {
                &[][..]
            } else {
                content
            };
            self.render(
                method,
                url,
                request,
                trusted,
                content.len(),
                &mut scratch.request,
            );
            let fetched = self
                .fetch(method, url, request, content, scratch, body)
                .await;
            let (answer, reused) = match fetched {
                Ok(fetched) => fetched,
                Err(error) if scratch.answer.in_body => return Err(error),
                Err(error) => return Err(within(error)),
            };
            if answer.head.is_redirect() && request.max_redirects > 0 {
                if redirects == request.max_redirects {
                    return Err(within(NetError::Redirects { limit: redirects }));
                }
                redirects += 1;
                let location = answer.head.location.as_deref().unwrap_or_default();
                let next = url.join(location).map_err(within)?;
                if !matches!(answer.head.status, 307 | 308) {
                    method = Method::Get;
                }
                moved = Some(next);
                continue;
            }
            return finish(answer, reused, redirects, request, scratch, body);
        }
    }

    /// One exchange; repeated once when a kept connection turns out to have been closed meanwhile.
    async fn fetch(
        &self,
        method: Method,
        url: &Url,
        request: &Request,
        content: &[u8],
        scratch: &mut Scratch,
        body: &mut Vec<u8>,
    ) -> Result<(Answer, bool), NetError> {
        let limit_bytes = request.body_limit_bytes;
        let mut kept = self.pool.take(url.authority());
        loop {
            let reused = kept.is_some();
            let mut stream = match kept.take() {
                Some(stream) => stream,
                None => self.connect(url).await?,
            };
            let Scratch {
                request: bytes,
                answer: buffers,
            } = scratch;
            let result = exchange(&mut stream, bytes, content, limit_bytes, buffers, body).await;
            match result {
                Ok(answer) => {
                    if reused {
                        self.reused_total.fetch_add(1, Relaxed);
                    }
                    if answer.reusable {
                        self.pool.put(url.authority(), stream);
                    }
                    return Ok((answer, reused));
                }
                // The server closed it while the request was on its way and never saw it.
                Err(_closed) if reused && method == Method::Get && buffers.head.is_empty() => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn connect(&self, url: &Url) -> Result<TcpStream, NetError> {
        let deadline = Instant::now() + self.config.connect_timeout;
        let addresses = resolve(url, deadline, self.config.connect_timeout).await?;
        let mut left = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
        let mut failed = None;
        for address in addresses {
            // Later addresses keep their share of the time when an earlier one does not answer.
            let share = deadline.saturating_duration_since(Instant::now()) / left.max(1);
            left -= 1;
            match tokio::time::timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    stream.set_nodelay(true).map_err(NetError::write)?;
                    self.opened_total.fetch_add(1, Relaxed);
                    return Ok(stream);
                }
                Ok(Err(source)) => failed = Some(NetError::Connect { address, source }),
                Err(_elapsed) => failed = Some(NetError::ConnectTimeout { address }),
            }
        }
        Err(failed.unwrap_or_else(|| NetError::Lookup {
            host: url.host().to_owned(),
            source: std::io::Error::from(std::io::ErrorKind::NotFound),
        }))
    }

    /// Writes the request's head. Header values cannot hold line ends: `http` and `Url` see to it.
    fn render(
        &self,
        method: Method,
        url: &Url,
        request: &Request,
        trusted: bool,
        content_bytes: usize,
        out: &mut Vec<u8>,
    ) {
        out.clear();
        for part in [method.token(), " ", url.path_and_query(), " HTTP/1.1\r\n"] {
            out.extend_from_slice(part.as_bytes());
        }
        let headers = &request.headers;
        if !headers.contains_key(HOST) || !trusted {
            push_header(out, "host", url.authority().as_bytes());
        }
        if !headers.contains_key(USER_AGENT) {
            push_header(out, "user-agent", self.config.user_agent.as_bytes());
        }
        if request.accept_gzip && !headers.contains_key(ACCEPT_ENCODING) {
            push_header(out, "accept-encoding", b"gzip");
        }
        for (name, value) in headers {
            let private = name == AUTHORIZATION || name == COOKIE || name == HOST;
            if trusted || !private {
                push_header(out, name.as_str(), value.as_bytes());
            }
        }
        if method == Method::Post {
            push_header(out, "content-length", content_bytes.to_string().as_bytes());
        }
        out.extend_from_slice(b"\r\n");
    }

    fn take_scratch(&self) -> Scratch {
        self.scratch
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop()
            .unwrap_or_default()
    }

    fn return_scratch(&self, mut scratch: Scratch) {
        if scratch.answer.wire.capacity() > SCRATCH_KEPT_BYTES {
            scratch.answer.wire = Vec::new();
        }
        let mut kept = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < SCRATCH_KEPT {
            kept.push(scratch);
        }
    }
}

/// Decodes the body and reports.
fn finish(
    answer: Answer,
    reused: bool,
    redirects: u32,
    request: &Request,
    scratch: &Scratch,
    body: &mut Vec<u8>,
) -> Result<ResponseHead, NetError> {
    let head = answer.head;
    let wire = &scratch.answer.wire;
    if !wire.is_empty() {
        let limit_bytes = request.body_limit_bytes;
        let decoded = blocking::run(wire.len() * 8, || {
            decompress(head.encoding, wire, limit_bytes, body)
        });
        // Of an unsuccessful answer only the status matters, and its body may have been cut.
        if head.is_success() {
            decoded?;
        }
    }
    Ok(ResponseHead {
        status: head.status,
        content_type: head.content_type,
        retry_after: head.retry_after,
        encoding: head.encoding,
        wire_bytes: answer.wire_bytes,
        body_bytes: body.len() as u64,
        redirects,
        reused,
    })
}

async fn resolve(
    url: &Url,
    deadline: Instant,
    timeout: Duration,
) -> Result<Vec<SocketAddr>, NetError> {
    if let Ok(ip) = url.host().parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, url.port())]);
    }
    let lookup = tokio::net::lookup_host((url.host(), url.port()));
    match tokio::time::timeout_at(deadline, lookup).await {
        Ok(Ok(addresses)) => Ok(addresses.collect()),
        Ok(Err(source)) => Err(NetError::Lookup {
            host: url.host().to_owned(),
            source,
        }),
        Err(_elapsed) => Err(NetError::Deadline { timeout }),
    }
}

/// Reads one answer and drops all but its body, for the fuzz target.
pub(crate) async fn fuzz_read_answer<S: tokio::io::AsyncRead + Unpin>(
    source: &mut S,
    limit_bytes: usize,
    body: &mut Vec<u8>,
) -> Result<(), NetError> {
    let mut buffers = Buffers::default();
    exchange::read_answer(source, limit_bytes, &mut buffers, body)
        .await
        .map(drop)
}

fn push_header(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}
