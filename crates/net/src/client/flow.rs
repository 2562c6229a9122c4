//! A request from the caller's settings to a response: redirects, kept connections, retries.
//!
//! Invariant: once a redirect has left the first host's domain or an encrypted connection, no private headers are
//! sent any more, wherever later redirects lead. A posted body is sent again only to the original host: its fields
//! may be secrets, such as those of OAuth 2.

use crate::sync::Whole as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use http::header::{ACCEPT_ENCODING, AUTHORIZATION, HOST, USER_AGENT};

use super::auth::{ClientAuth, is_same_domain, is_sensitive};
use super::connect::Route;
use super::exchange::{Answer, Buffers, Room, exchange, exchange_heads};
use super::head::push_header;
use super::pool::Pool;
use super::request::{ClientConfig, Method, Request, ResponseHead};
use super::stream::Stream;
use super::streamed::StreamedResponse;
use crate::blocking;
use crate::error::NetError;
use crate::inflate::decompress_within;
use crate::url::Url;

/// Number of scratch buffers kept for reuse, and the largest one kept.
const SCRATCH_KEPT: usize = 64;
const SCRATCH_KEPT_BYTES: usize = 1 << 20;

/// A client's settings, credentials and connections.
#[derive(Debug)]
pub(super) struct Inner {
    config: ClientConfig,
    auth: ClientAuth,
    /// Whether the settings are the default ones, which add nothing to plain requests.
    plain: bool,
    pool: Pool,
    scratch: Mutex<Vec<Scratch>>,
    pub(super) opened_total: AtomicU64,
    pub(super) reused_total: AtomicU64,
}

/// Buffers of one request.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// The request's head as sent.
    request: Vec<u8>,
    answer: Buffers,
}

/// One hop of a request.
#[derive(Debug, Clone, Copy)]
struct Hop<'a> {
    method: Method,
    url: &'a Url,
    request: &'a Request,
    /// Whether private headers may be sent.
    trusted: bool,
    content: &'a [u8],
}

impl Hop<'_> {
    fn failed(&self, source: NetError) -> NetError {
        NetError::Request {
            method: self.method.title(),
            url: self.url.to_string(),
            source: Box::new(source),
        }
    }
}

/// Trust in a chain of redirects.
#[derive(Debug)]
struct Trust<'a> {
    first: &'a Url,
    /// Whether private headers may be sent; once lost, trust is never regained.
    holds: bool,
    /// Whether a connection of the chain was encrypted.
    encrypted: bool,
}

impl<'a> Trust<'a> {
    fn new(first: &'a Url) -> Self {
        Self {
            first,
            holds: true,
            encrypted: first.is_https(),
        }
    }

    /// Goes to the next hop. Go compares only hosts, and so exposes credentials to eavesdroppers after a downgrade.
    fn follow(&mut self, next: &Url) {
        let readable = self.encrypted && !next.is_https();
        self.holds &= !readable && is_same_domain(next.host(), self.first.host());
        self.encrypted |= next.is_https();
    }

    fn is_for_body(&self, next: &Url) -> bool {
        self.holds && next.host() == self.first.host()
    }
}

impl Inner {
    pub(super) fn new(config: ClientConfig, auth: ClientAuth, plain: bool) -> Self {
        Self {
            pool: Pool::new(config.max_idle_per_host, config.idle_timeout),
            config,
            auth,
            plain,
            scratch: Mutex::new(Vec::new()),
            opened_total: AtomicU64::new(0),
            reused_total: AtomicU64::new(0),
        }
    }

    /// Sends the request and follows redirects until there is a response to return.
    pub(super) async fn follow(
        &self,
        mut method: Method,
        request: &Request,
        content: &[u8],
        room: &mut Room<'_>,
        scratch: &mut Scratch,
        body: &mut Vec<u8>,
    ) -> Result<ResponseHead, NetError> {
        let max_redirects = if self.auth.follow_redirects {
            request.max_redirects
        } else {
            0
        };
        let mut moved: Option<Url> = None;
        let mut trust = Trust::new(&request.url);
        let mut redirects = 0;
        loop {
            let url = moved.as_ref().unwrap_or(&request.url);
            let hop = Hop {
                method,
                url,
                request,
                trusted: trust.holds,
                content: if method.has_body() { content } else { &[] },
            };
            self.render(&hop, &mut scratch.request)
                .await
                .map_err(|error| hop.failed(error))?;
            let (answer, reused) = match self.fetch(&hop, room, scratch, body).await {
                Ok(fetched) => fetched,
                Err(error) if scratch.answer.in_body => return Err(error),
                Err(error) => return Err(hop.failed(error)),
            };
            if answer.head.is_redirect() && max_redirects > 0 {
                if redirects == max_redirects {
                    return Err(hop.failed(NetError::Redirects { limit: redirects }));
                }
                redirects += 1;
                let location = answer.head.location.as_deref().unwrap_or_default();
                let next = url.join(location).map_err(|error| hop.failed(error))?;
                if !matches!(answer.head.response.status, 307 | 308) {
                    method = Method::Get;
                }
                trust.follow(&next);
                if method.has_body() && !trust.is_for_body(&next) {
                    let to = next.origin().to_owned();
                    return Err(hop.failed(NetError::RedirectedBody { to }));
                }
                moved = Some(next);
                continue;
            }
            return finish(answer, reused, redirects, room, scratch, body);
        }
    }

    /// Sends the request on a separate connection and reads the response head.
    pub(super) async fn open(&self, request: &Request) -> Result<StreamedResponse, NetError> {
        let mut plain = request.clone();
        plain.accept_gzip = false;
        let hop = Hop {
            method: Method::Get,
            url: &request.url,
            request: &plain,
            trusted: true,
            content: &[],
        };
        let opened = async {
            let mut bytes = Vec::new();
            self.render(&hop, &mut bytes).await?;
            let mut stream = self.connect(&hop).await?;
            let begun = match &mut stream {
                Stream::Plain(stream) => exchange_heads(stream, &bytes).await?,
                Stream::Tls(stream) => exchange_heads(stream, &bytes).await?,
            };
            StreamedResponse::new(stream, begun)
        };
        opened.await.map_err(|error| hop.failed(error))
    }

    /// Runs one exchange; retries once when a kept connection turns out to have been closed.
    async fn fetch(
        &self,
        hop: &Hop<'_>,
        room: &mut Room<'_>,
        scratch: &mut Scratch,
        body: &mut Vec<u8>,
    ) -> Result<(Answer, bool), NetError> {
        let origin = hop.url.origin();
        scratch.answer.in_body = false;
        if hop.url.is_https() {
            // Checked before taking a kept connection: changed files close them all.
            self.route_to(hop)?;
        }
        let mut idle = self.pool.take_connection(origin);
        loop {
            let reused = idle.is_some();
            let mut stream = match idle.take() {
                Some(stream) => stream,
                None => self.connect(hop).await?,
            };
            let Scratch {
                request: bytes,
                answer: buffers,
            } = scratch;
            let result = match &mut stream {
                Stream::Plain(stream) => {
                    exchange(stream, bytes, hop.content, room, buffers, body).await
                }
                Stream::Tls(stream) => {
                    exchange(stream, bytes, hop.content, room, buffers, body).await
                }
            };
            match result {
                Ok(answer) => {
                    if reused {
                        self.reused_total.fetch_add(1, Relaxed);
                    }
                    if answer.reusable {
                        self.pool.return_connection(origin, stream);
                    }
                    return Ok((answer, reused));
                }
                // The server closed the connection while the request was on its way and never saw it.
                Err(_closed) if reused && hop.method == Method::Get && buffers.head.is_empty() => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn connect(&self, hop: &Hop<'_>) -> Result<Stream, NetError> {
        let stream = self.route_to(hop)?.connect().await?;
        self.opened_total.fetch_add(1, Relaxed);
        Ok(stream)
    }

    fn route_to<'a>(&'a self, hop: &Hop<'a>) -> Result<Route<'a>, NetError> {
        let (route, changed) = self.auth.route(hop.url, &self.config)?;
        if changed {
            self.pool.clear();
        }
        Ok(route)
    }

    /// Writes the request's head. Header values cannot contain line ends: `http` and `Url` ensure that.
    async fn render(&self, hop: &Hop<'_>, out: &mut Vec<u8>) -> Result<(), NetError> {
        let Hop { url, request, .. } = *hop;
        let authorization = if self.plain || !hop.trusted {
            None
        } else {
            self.auth.authorization().await?
        };
        let proxy = self.auth.proxy(url).filter(|_| !url.is_https());
        out.clear();
        let target = if proxy.is_some() {
            url.as_str()
        } else {
            url.path_and_query()
        };
        for part in [hop.method.token(), " ", target, " HTTP/1.1\r\n"] {
            out.extend_from_slice(part.as_bytes());
        }
        let headers = &request.headers;
        if !headers.contains_key(HOST) || !hop.trusted {
            push_header(out, "host", url.authority().as_bytes());
        }
        if !headers.contains_key(USER_AGENT) {
            push_header(out, "user-agent", self.config.user_agent.as_bytes());
        }
        if request.accept_gzip && !headers.contains_key(ACCEPT_ENCODING) {
            push_header(out, "accept-encoding", b"gzip");
        }
        for (name, value) in headers {
            let private = name == HOST || is_sensitive(name.as_str());
            if hop.trusted || !private {
                push_header(out, name.as_str(), value.as_bytes());
            }
        }
        if !self.plain {
            let authorization = authorization
                .as_ref()
                .filter(|_| !headers.contains_key(AUTHORIZATION));
            self.auth.write_headers(authorization, hop.trusted, out)?;
        }
        if let Some(authorization) = proxy.and_then(|proxy| proxy.authorization()) {
            push_header(out, "proxy-authorization", authorization.as_bytes());
        }
        if hop.method.has_body() {
            let length = hop.content.len().to_string();
            push_header(out, "content-length", length.as_bytes());
        }
        out.extend_from_slice(b"\r\n");
        Ok(())
    }

    pub(super) fn take_scratch(&self) -> Scratch {
        self.scratch.lock().whole().pop().unwrap_or_default()
    }

    pub(super) fn return_scratch(&self, mut scratch: Scratch) {
        if scratch.answer.wire.capacity() > SCRATCH_KEPT_BYTES {
            scratch.answer.wire = Vec::new();
        }
        let mut scratches = self.scratch.lock().whole();
        if scratches.len() < SCRATCH_KEPT {
            scratches.push(scratch);
        }
    }
}

/// Decodes the body and returns the response head.
fn finish(
    answer: Answer,
    reused: bool,
    redirects: u32,
    room: &mut Room<'_>,
    scratch: &Scratch,
    body: &mut Vec<u8>,
) -> Result<ResponseHead, NetError> {
    let head = answer.head;
    let wire = &scratch.answer.wire;
    if !wire.is_empty() {
        let decoded = blocking::run_long(wire.len() * 8, || {
            let encoding = head.response.encoding;
            decompress_within(encoding, wire, room.limit_bytes, room.allowance, body)
        });
        // For an unsuccessful response only the status matters, and its body may be truncated.
        if head.is_success() {
            decoded?;
        }
    }
    Ok(ResponseHead {
        wire_bytes: answer.wire_bytes,
        body_bytes: body.len() as u64,
        redirects,
        reused,
        ..head.response
    })
}
