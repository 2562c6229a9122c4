//! The HTTP client: keep-alive, redirects, deadlines and size limits, into buffers that callers reuse.
//!
//! Invariant: no call outlives its request's timeout, no body exceeds its limit on the wire or decompressed, and no
//! redirect carries credentials out of the first host's domain or out of an encrypted connection.

mod auth;
pub(crate) mod aws_environment;
mod chunked;
pub(crate) mod config;
mod connect;
mod exchange;
mod flow;
mod head;
mod oauth2;
mod pool;
pub(crate) mod proxy;
pub(crate) mod proxy_url;
pub(crate) mod request;
pub(crate) mod sigv4;
pub(crate) mod stream;
mod streamed;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::allowance::{Allowance, Unlimited};
use crate::error::NetError;
use auth::ClientAuth;
use config::HttpClientConfig;
use exchange::{Buffers, Room};
use flow::Inner;
use request::{ClientConfig, Method, Request, ResponseHead};
pub use streamed::StreamedResponse;

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
        let inner = Arc::new(Inner::new(config, auth, plain));
        Self { inner }
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

    /// Puts `content`; otherwise like [`Client::post`].
    ///
    /// # Errors
    /// As [`Client::post`].
    pub async fn put(
        &self,
        request: &Request,
        content: &[u8],
        body: &mut Vec<u8>,
    ) -> Result<ResponseHead, NetError> {
        self.run(Method::Put, request, content, body, &mut Unlimited)
            .await
    }

    /// Deletes a URL; otherwise like [`Client::post`], without content.
    ///
    /// # Errors
    /// As [`Client::post`].
    pub async fn delete(
        &self,
        request: &Request,
        body: &mut Vec<u8>,
    ) -> Result<ResponseHead, NetError> {
        self.run(Method::Delete, request, &[], body, &mut Unlimited)
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
        in_time(Method::Get, request, self.inner.open(request)).await
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
        let result = in_time(method, request, work).await;
        self.inner.return_scratch(scratch);
        result
    }
}

/// Awaits `work` within the request's time.
async fn in_time<T>(
    method: Method,
    request: &Request,
    work: impl Future<Output = Result<T, NetError>>,
) -> Result<T, NetError> {
    let timeout = request.timeout;
    let result = tokio::time::timeout(timeout, work).await;
    result.unwrap_or_else(|_elapsed| {
        Err(NetError::Request {
            method: method.title(),
            url: request.url.to_string(),
            source: Box::new(NetError::Deadline { timeout }),
        })
    })
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
