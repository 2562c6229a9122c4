//! Requests, responses and the settings they share, as plain data.

use std::time::Duration;

use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderValue};

use super::aws_environment::AwsEnvironment;
use super::proxy::ProxyEnvironment;
use crate::encoding::Encoding;
use crate::error::NetError;
use crate::url::Url;

/// Settings of a [`Client`](crate::Client), shared by all its requests.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ClientConfig {
    /// Time to establish a connection: name resolution and all addresses together. 10 s.
    pub connect_timeout: Duration,
    /// Whether each connection begins with another of a name's addresses, instead of with the first. False.
    pub round_robin: bool,
    /// Longest time an unused connection is kept. 5 min.
    pub idle_timeout: Duration,
    /// Maximum number of unused connections per `host:port`; 0 disables keep-alive. 4.
    pub max_idle_per_host: usize,
    /// The `User-Agent` of requests without one. `Narthex/<version>`.
    pub user_agent: String,
    /// The environment for `proxy_from_environment`. Empty.
    pub environment: ProxyEnvironment,
    /// The environment for signing as AWS asks for. Empty.
    pub aws: AwsEnvironment,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            round_robin: false,
            idle_timeout: Duration::from_mins(5),
            max_idle_per_host: 4,
            user_agent: concat!("Narthex/", env!("CARGO_PKG_VERSION")).to_owned(),
            environment: ProxyEnvironment::default(),
            aws: AwsEnvironment::default(),
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

    /// Returns a request for a token or for credentials, whose answer is small.
    pub(crate) fn for_token(url: Url) -> Self {
        Self {
            timeout: Duration::from_secs(30),
            body_limit_bytes: 1 << 20,
            ..Self::new(url)
        }
    }

    /// Returns a request for a token or for credentials, to be sent with a form.
    pub(crate) fn for_token_with_form(url: Url) -> Self {
        let mut request = Self::for_token(url);
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        request.headers.insert(CONTENT_TYPE, form);
        request
    }
}

/// A response without its body, which is in the caller's buffer.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ResponseHead {
    /// The status code, of any class.
    pub status: u16,
    /// `Content-Type`, if sent.
    pub content_type: Option<String>,
    /// `Retry-After`, if sent.
    pub retry_after: Option<String>,
    /// `Accept-Encoding` and the counts of a remote write receiver, names in lower case, if sent.
    pub kept: Vec<(&'static str, String)>,
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
    /// Returns the first value of a kept header.
    #[must_use]
    pub fn kept(&self, name: &str) -> Option<&str> {
        let found = self.kept.iter().find(|(kept, _)| *kept == name);
        found.map(|(_, value)| value.as_str())
    }

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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    Post,
    Put,
    Delete,
}

impl Method {
    /// Returns whether its requests have a body.
    pub(super) fn has_body(self) -> bool {
        matches!(self, Self::Post | Self::Put)
    }

    pub(super) fn token(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }

    /// Returns the method's name in Go's errors.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Get => "Get",
            Self::Post => "Post",
            Self::Put => "Put",
            Self::Delete => "Delete",
        }
    }
}
