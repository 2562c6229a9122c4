//! The crate's error type, with messages as in Go's tools where they exist.
//!
//! Invariant: `Display` is one line, names the address, URL or limit concerned, and never repeats its `source`'s
//! text.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use http::StatusCode;

use crate::encoding::Encoding;

/// Go's prefix for TLS errors reported by the peer.
pub(crate) const REMOTE_TLS: &str = "remote error: tls: ";

/// A failure to serve, fetch or decode.
#[derive(Debug)]
#[non_exhaustive]
pub enum NetError {
    /// A malformed listen address: not `host:port`.
    ListenAddress {
        /// The text as configured.
        address: String,
        /// Description of the error.
        reason: &'static str,
    },
    /// A listen address that could not be bound.
    Bind {
        /// The text as configured.
        address: String,
        /// The error of the kernel or resolver.
        source: io::Error,
    },
    /// A descriptor that was passed to listen on, and can't be.
    PassedSocket {
        /// Its place among those that were passed, from 0.
        at: usize,
        /// Description of the error.
        reason: &'static str,
    },
    /// An unsupported or malformed URL.
    Url {
        /// The text as given.
        url: String,
        /// Description of the error.
        reason: &'static str,
    },
    /// A request that failed before its response head was complete.
    Request {
        /// `GET` or `POST`.
        method: &'static str,
        /// The requested URL; after a redirect, the new one.
        url: String,
        /// The cause.
        source: Box<NetError>,
    },
    /// A host name that did not resolve.
    Lookup {
        /// The name.
        host: String,
        /// The resolver's error.
        source: io::Error,
    },
    /// A connection that could not be established.
    Connect {
        /// The last address tried.
        address: SocketAddr,
        /// The kernel's error.
        source: io::Error,
    },
    /// No connection within the connect timeout.
    ConnectTimeout {
        /// The last address tried.
        address: SocketAddr,
    },
    /// The whole exchange took longer than its timeout.
    Deadline {
        /// The timeout.
        timeout: Duration,
    },
    /// Reading from or writing to the peer failed.
    Io {
        /// `read` or `write`.
        operation: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// The peer closed before the response was complete.
    Closed {
        /// Bytes of the response that had arrived.
        received_bytes: u64,
    },
    /// A response that is not valid HTTP/1.
    Response {
        /// Description of the error.
        reason: &'static str,
    },
    /// A response status other than the required one.
    Status {
        /// The status code.
        code: u16,
    },
    /// More redirects than allowed.
    Redirects {
        /// Number of redirects allowed.
        limit: u32,
    },
    /// A redirect that would send a request's body to another host.
    RedirectedBody {
        /// Target of the redirect: scheme and authority.
        to: String,
    },
    /// A body, on the wire or decompressed, above its limit.
    BodyTooLarge {
        /// The limit.
        limit_bytes: usize,
    },
    /// A body for which the caller's allowance refused memory.
    Memory {
        /// The last number of bytes requested.
        wanted_bytes: usize,
        /// The reason for the refusal.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A compressed body that does not decompress.
    CorruptBody {
        /// The declared encoding.
        encoding: Encoding,
        /// Description of the error.
        reason: &'static str,
    },
    /// An unsupported content encoding.
    UnknownEncoding {
        /// The header's value.
        encoding: String,
    },
    /// Invalid settings, with Prometheus' text.
    Config {
        /// Description of the error.
        message: String,
    },
    /// A file with a certificate, key or credentials that could not be read.
    ReadFile {
        /// The file's contents.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A failed handshake, or unusable certificates and keys.
    Tls {
        /// Description of the error, with Go's text if it has one.
        message: String,
    },
    /// A proxy that refused to connect.
    Proxy {
        /// Its status code.
        code: u16,
    },
    /// A failure to obtain an OAuth 2 token.
    Token {
        /// The cause.
        source: Box<NetError>,
    },
    /// A failure to obtain credentials for signing as AWS asks for.
    AwsCredentials {
        /// The cause.
        source: Box<NetError>,
    },
    /// A response without the token or credentials it was asked for.
    TokenAnswer {
        /// Description of the error, without any part of a secret.
        reason: String,
    },
}

impl NetError {
    /// Returns the response status for a request that failed with this error.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnknownEncoding { .. } => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Memory { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::Deadline { .. } | Self::ConnectTimeout { .. } => StatusCode::GATEWAY_TIMEOUT,
            Self::CorruptBody { .. } | Self::Closed { .. } | Self::Io { .. } => {
                StatusCode::BAD_REQUEST
            }
            Self::Request { source, .. } => source.status(),
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Returns the underlying failure, without the request around it.
    #[must_use]
    pub fn failure(&self) -> &Self {
        match self {
            Self::Request { source, .. } => source.failure(),
            other => other,
        }
    }

    pub(crate) fn read(source: io::Error) -> Self {
        Self::Io {
            operation: "read",
            source,
        }
    }

    pub(crate) fn write(source: io::Error) -> Self {
        Self::Io {
            operation: "write",
            source,
        }
    }
}

impl fmt::Display for NetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ListenAddress { address, reason } => {
                write!(f, "cannot listen on {address:?}: {reason}")
            }
            Self::Bind { address, source } => {
                write!(f, "cannot listen on {address:?}: {}", io_text(source))
            }
            Self::PassedSocket { at, reason } => {
                write!(f, "cannot listen on the passed socket {at}: {reason}")
            }
            Self::Url { url, reason } => write!(f, "invalid URL {url:?}: {reason}"),
            Self::Request {
                method,
                url,
                source,
            } => write!(f, "{method} {url:?}: {source}"),
            Self::Lookup { host, source } => {
                write!(f, "dial tcp: lookup {host}: {}", io_text(source))
            }
            Self::Connect { address, source } => {
                write!(f, "dial tcp {address}: connect: {}", io_text(source))
            }
            Self::ConnectTimeout { address } => write!(f, "dial tcp {address}: i/o timeout"),
            Self::Deadline { timeout } => {
                write!(f, "context deadline exceeded (timeout {timeout:?})")
            }
            Self::Io { operation, source } => write!(f, "{operation} tcp: {}", io_text(source)),
            Self::Closed { received_bytes: 0 } => f.write_str("EOF"),
            Self::Closed { received_bytes } => {
                write!(f, "unexpected EOF after {received_bytes} bytes")
            }
            Self::Response { reason } => write!(f, "malformed HTTP response: {reason}"),
            Self::Status { code } => {
                write!(f, "server returned HTTP status {}", status_text(*code))
            }
            Self::Redirects { limit } => write!(f, "stopped after {limit} redirects"),
            Self::RedirectedBody { to } => {
                write!(f, "redirected to {to}, which the request's body is not for")
            }
            Self::BodyTooLarge { limit_bytes } => {
                write!(f, "body size limit exceeded (limit {limit_bytes} bytes)")
            }
            Self::Memory {
                wanted_bytes,
                source,
            } => write!(
                f,
                "no memory for {wanted_bytes} more bytes of the body: {source}"
            ),
            Self::CorruptBody { encoding, reason } => write!(f, "{encoding}: {reason}"),
            Self::UnknownEncoding { encoding } => {
                write!(f, "unsupported content encoding {encoding:?}")
            }
            Self::Config { message } => f.write_str(message),
            Self::ReadFile { what, path, source } => {
                let (path, reason) = (path.display(), strip_code(&source.to_string()));
                write!(f, "unable to read {what}: open {path}: {reason}")
            }
            Self::Tls { message } if message.starts_with(REMOTE_TLS) => f.write_str(message),
            Self::Tls { message } => write!(f, "tls: {message}"),
            Self::Proxy { code } => {
                write!(f, "the proxy answered CONNECT with {}", status_text(*code))
            }
            Self::Token { source } => write!(f, "oauth2: cannot fetch token: {source}"),
            Self::AwsCredentials { source } => {
                write!(f, "could not get SigV4 credentials: {source}")
            }
            Self::TokenAnswer { reason } => f.write_str(reason),
        }
    }
}

impl Error for NetError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Bind { source, .. }
            | Self::ReadFile { source, .. }
            | Self::Lookup { source, .. }
            | Self::Connect { source, .. }
            | Self::Io { source, .. } => Some(source),
            Self::Request { source, .. }
            | Self::Token { source }
            | Self::AwsCredentials { source } => Some(source.as_ref()),
            Self::Memory { source, .. } => Some(source.as_ref()),
            _ => None,
        }
    }
}

/// Returns the error of invalid settings.
pub(crate) fn invalid(message: impl Into<String>) -> NetError {
    NetError::Config {
        message: message.into(),
    }
}

/// Returns the error of a response that is not valid HTTP/1.
pub(crate) fn malformed(reason: &'static str) -> NetError {
    NetError::Response { reason }
}

/// Returns the error of a response without what it was asked for.
pub(crate) fn no_token(reason: impl Into<String>) -> NetError {
    NetError::TokenAnswer {
        reason: reason.into(),
    }
}

/// Returns the error of a failed handshake, or of an unusable certificate or key.
pub(crate) fn tls_error(message: impl Into<String>) -> NetError {
    NetError::Tls {
        message: message.into(),
    }
}

/// Formats a status as Go does: `404 Not Found`.
pub(crate) fn status_text(code: u16) -> String {
    let status = StatusCode::from_u16(code).ok();
    match status.and_then(|status| status.canonical_reason()) {
        Some(text) => format!("{code} {text}"),
        None => code.to_string(),
    }
}

/// Formats an I/O error as Go does: the C library's text in lower case, without "(os error N)".
fn io_text(error: &io::Error) -> String {
    let text = error.to_string();
    // The resolver reports every failure as one uncategorised error; only its text has the reason.
    if error.kind() == io::ErrorKind::NotFound || text.contains("not known") {
        return "no such host".to_owned();
    }
    let reason = text
        .strip_prefix("failed to lookup address information: ")
        .unwrap_or(&text);
    strip_code(reason)
}

fn strip_code(text: &str) -> String {
    let text = text.split(" (os error").next().unwrap_or(text);
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_lowercase().collect::<String>() + chars.as_str()
    })
}

#[cfg(test)]
mod tests;
