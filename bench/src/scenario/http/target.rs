//! The URL to load, and whether it is allowed.
//!
//! **Invariant:** only loopback is loaded unless the user allows more: a generator that hits the wrong host is an
//! attack.

use crate::load::Scraper;
use std::{
    net::{SocketAddr, ToSocketAddrs},
    time::Duration,
};

/// Timeout of a scrape.
const SCRAPE_LIMIT: Duration = Duration::from_secs(60);

/// An address and the request to send there.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Target {
    pub(super) address: SocketAddr,
    /// Value of the `Host` header.
    pub(super) host: String,
    pub(super) path: String,
}

impl Target {
    /// Parses `http://host[:port]/path`; the host has to be this machine unless `is_remote_allowed`.
    pub(super) fn parse(url: &str, is_remote_allowed: bool) -> Result<Self, String> {
        let rest = url
            .strip_prefix("http://")
            .ok_or_else(|| format!("{url:?} is not an http:// URL"))?;
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (host, path) = rest.split_at(end);
        if host.is_empty() || path.starts_with('?') || path.contains([' ', '\r', '\n']) {
            return Err(format!("{url:?} is not an http:// URL"));
        }
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| {
            !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
        });
        let authority = if has_port {
            host.to_owned()
        } else {
            format!("{host}:80")
        };
        let addresses: Vec<SocketAddr> = authority
            .to_socket_addrs()
            .map_err(|e| format!("{host}: {e}"))?
            .collect();
        if !is_remote_allowed && addresses.iter().any(|address| !address.ip().is_loopback()) {
            return Err(format!(
                "{host} is not this machine; --allow-remote says that it may be loaded"
            ));
        }
        let address = addresses.first().copied();
        Ok(Self {
            address: address.ok_or_else(|| format!("{host} has no address"))?,
            host: host.to_owned(),
            path: if path.is_empty() { "/" } else { path }.to_owned(),
        })
    }

    pub(super) fn scraper(&self) -> Scraper {
        Scraper::new(&self.host, &[self.address], &self.path, SCRAPE_LIMIT)
    }

    /// Returns the bytes of a GET.
    pub(super) fn request(&self) -> Vec<u8> {
        let Self { host, path, .. } = self;
        format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: narthex-bench\r\n\r\n").into()
    }
}

#[cfg(test)]
mod tests;
