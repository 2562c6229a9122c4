//! The `http` and `https` URLs that the client requests, parsed once per target.
//!
//! Invariant: a `Url` on the wire is printable ASCII without spaces, so no input can add a header line or a second
//! request.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use crate::error::NetError;
use crate::percent::escape_unprintable;

/// Longest URL accepted, in bytes.
const MAX_BYTES: usize = 64 << 10;

/// An absolute URL, without its fragment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Url {
    /// `http://host[:port]/path?query` or with `https`, as given, escaped.
    text: String,
    /// The host without brackets, in lower case.
    host: String,
    port: u16,
    https: bool,
    /// Start and end of the authority in `text`.
    authority: (usize, usize),
}

impl Url {
    /// Parses an absolute `http` or `https` URL; characters outside ASCII in path and query are escaped.
    ///
    /// # Errors
    /// Fails with the text and the reason: another scheme, credentials, a bad host or port, control characters.
    pub fn parse(text: &str) -> Result<Self, NetError> {
        Self::parse_inner(text).map_err(|reason| NetError::Url {
            url: shown(text),
            reason,
        })
    }

    /// Returns the host: a name in lower case or an IP address without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port; 80 or 443 by default.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns whether the connection is encrypted.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.https
    }

    /// Returns scheme and authority, `http://host[:port]`: the key of kept connections.
    #[must_use]
    pub fn origin(&self) -> &str {
        self.text.get(..self.authority.1).unwrap_or_default()
    }

    /// Returns `host[:port]` as written, for the `Host` header.
    #[must_use]
    pub fn authority(&self) -> &str {
        self.text
            .get(self.authority.0..self.authority.1)
            .unwrap_or_default()
    }

    /// Returns the path and query; at least `/`.
    #[must_use]
    pub fn path_and_query(&self) -> &str {
        self.text.get(self.authority.1..).unwrap_or_default()
    }

    /// Returns the whole URL.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Resolves a `Location` against this URL (RFC 3986 §5.2, without removing `..` inside a query).
    ///
    /// # Errors
    /// As [`Url::parse`].
    pub fn join(&self, reference: &str) -> Result<Self, NetError> {
        let reference = reference.trim();
        if has_scheme(reference) {
            return Self::parse(reference);
        }
        let base = self.path_and_query();
        let base_path = base.split('?').next().unwrap_or(base);
        let without_fragment = reference.split('#').next().unwrap_or_default();
        let target = if let Some(rest) = without_fragment.strip_prefix("//") {
            return Self::parse(&format!("{}://{rest}", self.scheme()));
        } else if without_fragment.is_empty() {
            base.to_owned()
        } else if without_fragment.starts_with('?') {
            format!("{base_path}{without_fragment}")
        } else if without_fragment.starts_with('/') {
            without_fragment.to_owned()
        } else {
            let directory = base_path.rfind('/').map_or("/", |at| &base_path[..=at]);
            format!("{directory}{without_fragment}")
        };
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target.as_str(), None),
        };
        let mut url = format!("{}{}", self.origin(), remove_dots(path));
        if let Some(query) = query {
            url.push('?');
            url.push_str(query);
        }
        Self::parse(&url)
    }

    fn scheme(&self) -> &'static str {
        if self.https { "https" } else { "http" }
    }

    fn parse_inner(text: &str) -> Result<Self, &'static str> {
        if text.len() > MAX_BYTES {
            return Err("longer than 65536 bytes");
        }
        if text.bytes().any(|b| b.is_ascii_control()) {
            return Err("control character in URL");
        }
        let (scheme, rest) = text
            .split_once("://")
            .ok_or("no scheme (want http://host/path)")?;
        let https = scheme.eq_ignore_ascii_case("https");
        if !https && !scheme.eq_ignore_ascii_case("http") {
            return Err("unsupported scheme (want http or https)");
        }
        let rest = rest.split('#').next().unwrap_or(rest);
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err("credentials in a URL are not supported");
        }
        let (host, port) = split_authority(authority, if https { 443 } else { 80 })?;

        let mut out = String::with_capacity(text.len() + 1);
        out.push_str(if https { "https://" } else { "http://" });
        let start = out.len();
        out.push_str(&authority.to_ascii_lowercase());
        let authority = (start, out.len());
        if !path.starts_with('/') {
            out.push('/');
        }
        out.extend(escape_unprintable(path));
        Ok(Self {
            text: out,
            host,
            port,
            https,
            authority,
        })
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn split_authority(authority: &str, default_port: u16) -> Result<(String, u16), &'static str> {
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (host, port) = rest.split_once(']').ok_or("missing ']' in host")?;
        host.parse::<Ipv6Addr>()
            .map_err(|_invalid| "not an IPv6 address between brackets")?;
        (host, port)
    } else {
        let at = authority.find(':').unwrap_or(authority.len());
        let (host, port) = authority.split_at(at);
        check_host(host)?;
        (host, port)
    };
    let port = match port {
        "" | ":" => default_port,
        port => {
            let digits = port.strip_prefix(':').ok_or("text after the host")?;
            parse_digits(digits)
                .filter(|port| *port > 0)
                .ok_or("invalid port")?
        }
    };
    Ok((host.to_ascii_lowercase(), port))
}

/// Reports whether a host's name may have this byte.
pub(crate) fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_')
}

fn check_host(host: &str) -> Result<(), &'static str> {
    match host {
        "" => Err("no host"),
        host if host.len() > 255 => Err("host longer than 255 bytes"),
        host if host.bytes().all(is_of_name) => Ok(()),
        host if host.parse::<IpAddr>().is_ok() => Err("IPv6 address without brackets"),
        _ => Err("invalid character in host"),
    }
}

/// Parses digits only: `str::parse` would also accept a sign.
pub(crate) fn parse_digits<T: FromStr>(digits: &str) -> Option<T> {
    let is_plain = digits.bytes().all(|b| b.is_ascii_digit());
    digits.parse().ok().filter(|_| is_plain)
}

fn has_scheme(reference: &str) -> bool {
    let Some((scheme, rest)) = reference.split_once(':') else {
        return false;
    };
    let mut bytes = scheme.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic())
        && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
        && rest.starts_with("//")
}

fn remove_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                if last {
                    kept.push("");
                }
            }
            segment => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

/// Sanitizes a text for errors, which must stay on one readable line without credentials.
fn shown(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let hidden = match rest.get(..end).and_then(|authority| authority.rfind('@')) {
        Some(at) => format!("{scheme}://xxxxx{}", rest.get(at..).unwrap_or_default()),
        None => text.to_owned(),
    };
    hidden.chars().take(200).collect()
}

#[cfg(test)]
mod tests;
