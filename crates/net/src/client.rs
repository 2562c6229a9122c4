//! The HTTP client: keep-alive, redirects, deadlines and size limits, into buffers that callers reuse.
//!
//! Invariant: no call outlives its request's timeout, no body exceeds its limit on the wire or decompressed, and no
//! redirect carries credentials out of the first host's domain or out of an encrypted connection.

mod auth;
mod chunked;
pub(crate) mod config;
mod connect;
mod exchange;
mod flow;
mod head;
mod oauth2;
mod pool;
pub(crate) mod proxy;
pub(crate) mod stream;
mod streamed;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::HeaderMap;

use crate::allowance::{Allowance, Unlimited};
use crate::encoding::Encoding;
use crate::error::NetError;
use crate::url::Url;
use auth::ClientAuth;
use config::HttpClientConfig;
use exchange::{Buffers, Room};
use pool::Pool;
use proxy::ProxyEnvironment;
pub use streamed::StreamedResponse;

/// Number of scratch buffers kept for reuse, and the largest one kept.
const SCRATCH_KEPT: usize = 64;
const SCRATCH_KEPT_BYTES: usize = 1 << 20;

/// Settings of a [`Client`], shared by all its requests.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ClientConfig {
    /// Time to establish a connection: name resolution and all addresses together. 10 s.
    pub connect_timeout: Duration,
    /// Longest time an unused connection is kept. 5 min.
    pub idle_timeout: Duration,
    /// Maximum number of unused connections per `host:port`; 0 disables keep-alive. 4.
    pub max_idle_per_host: usize,
    /// The `User-Agent` of requests without one. `Narthex/<version>`.
    pub user_agent: String,
    /// The environment for `proxy_from_environment`. Empty.
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

/// A request, with limits on the time and memory of its response. Reusable.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Request {
    /// The URL to request.
    pub url: Url,
    /// Sent unchanged; `Host`, `User-Agent` and `Accept-Encoding` are added unless present.
    pub headers: HeaderMap,
    /// Time for the whole request: connecting, redirects, the entire body. 10 s.
    pub timeout: Duration,
    /// Longest body, on the wire and decompressed. 256 MiB.
    pub body_limit_bytes: usize,
    /// Bytes of a body to reserve in advance, for example the size of the previous response. 0.
    pub body_expected_bytes: usize,
    /// Maximum number of redirects; with 0 the redirect response itself is returned. 10.
    pub max_redirects: u32,
    /// Whether to accept gzip. Yes.
    pub accept_gzip: bool,
}

impl Request {
    /// Returns a request without headers and with the default limits.
    #[must_use]
    pub fn new(url: Url) -> Self {
        Self {
            url,
            headers: HeaderMap::new(),
            timeout: Duration::from_secs(10),
            body_limit_bytes: 256 << 20,
            body_expected_bytes: 0,
            max_redirects: 10,
            accept_gzip: true,
        }
    }
}

/// A response without its body, which is in the caller's buffer.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ResponseHead {
    /// The status code, of any class.
    pub status: u16,
    /// `Content-Type`, if sent.
    pub content_type: Option<String>,
    /// `Retry-After`, if sent.
    pub retry_after: Option<String>,
    /// Encoding of the body on the wire.
    pub encoding: Encoding,
    /// Bytes received for this response: head, framing and body, compressed.
    pub wire_bytes: u64,
    /// Length of the decoded body.
    pub body_bytes: u64,
    /// Number of redirects followed.
    pub redirects: u32,
    /// Whether the connection had served an earlier request.
    pub reused: bool,
}

impl ResponseHead {
    /// Returns an error unless the status is 200, as scrapes require.
    ///
    /// # Errors
    /// [`NetError::Status`] with Prometheus' text.
    pub fn require_ok(&self) -> Result<(), NetError> {
        if self.status == 200 {
            Ok(())
        } else {
            Err(NetError::Status { code: self.status })
        }
    }
}

/// Connection counts of a client since it was built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ClientStats {
    /// Connections established.
    pub connections_opened_total: u64,
    /// Requests that reused an open connection.
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
    auth: ClientAuth,
    /// Whether the settings are the default ones, which add nothing to plain requests.
    plain: bool,
    pool: Pool,
    scratch: Mutex<Vec<Scratch>>,
    opened_total: AtomicU64,
    reused_total: AtomicU64,
}

/// Buffers of one request.
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

    /// Returns the method's name in Go's errors.
    fn title(self) -> &'static str {
        match self {
            Self::Get => "Get",
            Self::Post => "Post",
        }
    }
}

impl Client {
    /// Builds a client without connections and credentials that trusts the system's authorities.
    ///
    /// # Panics
    /// Never: nothing is read before the first connection.
    #[must_use]
    pub fn new(config: ClientConfig) -> Self {
        let auth = ClientAuth::new(&config, &HttpClientConfig::default());
        let auth = auth.expect("the defaults do not contradict each other");
        Self::build(config, auth, true)
    }

    fn build(config: ClientConfig, auth: ClientAuth, plain: bool) -> Self {
        let pool = Pool::new(config.max_idle_per_host, config.idle_timeout);
        Self {
            inner: Arc::new(Inner {
                config,
                auth,
                plain,
                pool,
                scratch: Mutex::new(Vec::new()),
                opened_total: AtomicU64::new(0),
                reused_total: AtomicU64::new(0),
            }),
        }
    }

    /// Builds a client with the authentication, TLS, proxy and headers of `http`.
    ///
    /// # Errors
    /// [`NetError::Config`] for contradictory settings, and any error from reading certificates and keys.
    pub fn with_http(config: ClientConfig, mut http: HttpClientConfig) -> Result<Self, NetError> {
        http.validate()?;
        let plain = http == HttpClientConfig::default();
        let auth = ClientAuth::new(&config, &http)?;
        Ok(Self::build(config, auth, plain))
    }

    /// Gets a URL; replaces `body` with the decoded body, reusing its allocation.
    ///
    /// Any status counts as a response, see [`ResponseHead::require_ok`]; the body of an unsuccessful one is
    /// truncated to 64 KiB. Dropping the future closes the connection.
    ///
    /// # Errors
    /// Fails without a complete response within the request's limits; `body` is then unspecified.
    pub async fn get(
        &self,
        request: &Request,
        body: &mut Vec<u8>,
    ) -> Result<ResponseHead, NetError> {
        self.get_within(request, body, &mut Unlimited).await
    }

    /// Like [`Client::get`], but first requests from `allowance` all memory for the body, on the wire and
    /// decompressed, beyond the capacity of `body`.
    ///
    /// # Errors
    /// As [`Client::get`], and [`NetError::Memory`] when the allowance refuses.
    pub async fn get_within(
        &self,
        request: &Request,
        body: &mut Vec<u8>,
        allowance: &mut dyn Allowance,
    ) -> Result<ResponseHead, NetError> {
        self.run(Method::Get, request, &[], body, allowance).await
    }

    /// Posts `content`, with its type and encoding in `request.headers`; otherwise like [`Client::get`].
    ///
    /// # Errors
    /// As [`Client::get`]. A request that the server may have received is not repeated.
    pub async fn post(
        &self,
        request: &Request,
        content: &[u8],
        body: &mut Vec<u8>,
    ) -> Result<ResponseHead, NetError> {
        self.run(Method::Post, request, content, body, &mut Unlimited)
            .await
    }

    /// Gets a URL and returns as soon as the response head has arrived.
    ///
    /// Redirects are not followed and no encoding is accepted. `request.timeout` covers the time up to the head;
    /// `request.body_limit_bytes` is ignored.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn open(&self, request: &Request) -> Result<StreamedResponse, NetError> {
        let work = self.inner.open(request);
        match tokio::time::timeout(request.timeout, work).await {
            Ok(result) => result,
            Err(_elapsed) => Err(NetError::Request {
                method: Method::Get.title(),
                url: request.url.to_string(),
                source: Box::new(NetError::Deadline {
                    timeout: request.timeout,
                }),
            }),
        }
    }

    /// Returns the connection counts so far.
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
        allowance: &mut dyn Allowance,
    ) -> Result<ResponseHead, NetError> {
        let mut scratch = self.inner.take_scratch();
        let mut room = Room {
            limit_bytes: request.body_limit_bytes,
            expected_bytes: request.body_expected_bytes,
            allowance,
        };
        let work = self
            .inner
            .follow(method, request, content, &mut room, &mut scratch, body);
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

/// Reads one response and returns only its body, for the fuzz target.
pub(crate) async fn fuzz_read_answer<S: tokio::io::AsyncRead + Unpin>(
    source: &mut S,
    limit_bytes: usize,
    body: &mut Vec<u8>,
) -> Result<(), NetError> {
    let mut buffers = Buffers::default();
    let mut room = Room {
        limit_bytes,
        expected_bytes: 0,
        allowance: &mut Unlimited,
    };
    exchange::read_answer(source, &mut room, &mut buffers, body)
        .await
        .map(drop)
}

fn push_header(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}
