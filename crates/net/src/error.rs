//! The crate's one error: what failed, in words an operator knows from Go's tools.
//!
//! Invariant: `Display` is one line, names the address, URL or limit concerned, and never repeats
//! its `source`'s text twice.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use http::StatusCode;

use crate::encoding::Encoding;

/// Why serving, fetching or decoding failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum NetError {
    /// A listen address that is not `host:port`.
    ListenAddress {
        /// The text as configured.
        address: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A listen address that could not be bound.
    Bind {
        /// The text as configured.
        address: String,
        /// The kernel's or resolver's answer.
        source: io::Error,
    },
    /// A URL that cannot be requested.
    Url {
        /// The text as given.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A request that failed before its answer's head was complete.
    Request {
        /// `GET` or `POST`.
        method: &'static str,
        /// The URL asked for; the redirected one after a redirect.
        url: String,
        /// What happened.
        source: Box<NetError>,
    },
    /// A host name that did not resolve.
    Lookup {
        /// The name.
        host: String,
        /// The resolver's answer.
        source: io::Error,
    },
    /// A connection that could not be made.
    Connect {
        /// The last address tried.
        address: SocketAddr,
        /// The kernel's answer.
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
        /// The kernel's answer.
        source: io::Error,
    },
    /// The peer closed before the answer was complete.
    Closed {
        /// Bytes of the answer that had arrived.
        received_bytes: u64,
    },
    /// An answer that is not HTTP/1.
    Response {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// An answer other than the one the caller needs.
    Status {
        /// The status code.
        code: u16,
    },
    /// More redirects than allowed.
    Redirects {
        /// How many were followed.
        limit: u32,
    },
    /// A redirect that would send a request's body to somebody else than it was meant for.
    RedirectedBody {
        /// Where to: scheme and authority.
        to: String,
    },
    /// A body, or what it decompresses to, above its limit.
    BodyTooLarge {
        /// The limit.
        limit_bytes: usize,
    },
    /// A body that the caller's allowance has no memory for.
    Memory {
        /// What was asked for last.
        wanted_bytes: usize,
        /// Why it was refused.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A compressed body that does not decompress.
    CorruptBody {
        /// How it claims to be compressed.
        encoding: Encoding,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A content encoding this crate does not decode.
    UnknownEncoding {
        /// The header's value.
        encoding: String,
    },
    /// Settings that cannot be used, in Prometheus' words.
    Config {
        /// What is wrong with them.
        message: String,
    },
    /// A file with a certificate, a key or credentials that could not be read.
    ReadFile {
        /// What it holds.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A handshake that failed, or certificates and keys that cannot be used for one.
    Tls {
        /// What is wrong, in Go's words where there are such.
        message: String,
    },
    /// A proxy that refused to connect.
    Proxy {
        /// Its status code.
        code: u16,
    },
    /// An OAuth 2 token that could not be had.
    Token {
        /// What happened.
        source: Box<NetError>,
    },
    /// An answer of a token's URL that holds no token.
    TokenAnswer {
        /// What is wrong with it; no part of a token.
        reason: String,
    },
}

impl NetError {
    /// Returns the status with which a server answers a request that failed so.
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

    /// Returns the failure itself, without the request around it.
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
            Self::Tls { message } if message.starts_with(crate::tls::REMOTE) => {
                f.write_str(message)
            }
            Self::Tls { message } => write!(f, "tls: {message}"),
            Self::Proxy { code } => {
                write!(f, "the proxy answered CONNECT with {}", status_text(*code))
            }
            Self::Token { source } => write!(f, "oauth2: cannot fetch token: {source}"),
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
            Self::Request { source, .. } | Self::Token { source } => Some(source.as_ref()),
            Self::Memory { source, .. } => Some(source.as_ref()),
            _ => None,
        }
    }
}

/// Returns a status as Go prints it: `404 Not Found`.
pub(crate) fn status_text(code: u16) -> String {
    let status = StatusCode::from_u16(code).ok();
    match status.and_then(|status| status.canonical_reason()) {
        Some(text) => format!("{code} {text}"),
        None => code.to_string(),
    }
}

/// Says what happened as Go does: the C library's text in lower case, without "(os error N)".
fn io_text(error: &io::Error) -> String {
    let text = error.to_string();
    // The resolver reports every failure as one uncategorised error whose text carries the reason.
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
