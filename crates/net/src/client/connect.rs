//! Establishing connections: names, addresses, proxies, handshakes.
//!
//! Invariant: proxy credentials go only to the proxy, and nothing is sent to a server before its certificate is
//! verified.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use rustls::ClientConfig as TlsClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::exchange::read_head;
use super::head;
use super::head::push_header;
use super::proxy_url::ProxyUrl;
use super::stream::{Stream, Transport};
use crate::error::{NetError, malformed, tls_error};
use crate::secret::Secret;
use crate::tls::errors::handshake_error;
use crate::url::Url;

/// Timeout of one handshake; Go's value.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Destination and route of a connection.
#[derive(Debug)]
pub(super) struct Route<'a> {
    pub(super) url: &'a Url,
    pub(super) proxy: Option<&'a ProxyUrl>,
    /// TLS settings for `https`.
    pub(super) tls: Option<Arc<TlsClientConfig>>,
    /// TLS settings for an `https` proxy.
    pub(super) proxy_tls: Option<Arc<TlsClientConfig>>,
    /// Name to verify in the server's certificate, if not the URL's host.
    pub(super) server_name: Option<&'a str>,
    pub(super) connect_headers: &'a [(String, Vec<Secret>)],
    pub(super) timeout: Duration,
    /// Whether each connection begins with another of the server's addresses.
    pub(super) round_robin: bool,
}

impl Route<'_> {
    pub(super) async fn connect(&self) -> Result<Stream, NetError> {
        let Some(proxy) = self.proxy else {
            let url = self.url;
            let stream = dial(url.host(), url.port(), self.timeout, self.round_robin).await?;
            return match &self.tls {
                None => Ok(Stream::Plain(stream)),
                Some(tls) => self.encrypt(Transport::Tcp(stream), tls).await,
            };
        };
        let url = proxy.url();
        let stream = dial(url.host(), url.port(), self.timeout, false).await?;
        match (&self.proxy_tls, &self.tls) {
            (None, None) => Ok(Stream::Plain(stream)),
            (None, Some(tls)) => {
                let mut stream = stream;
                self.tunnel(&mut stream, proxy).await?;
                self.encrypt(Transport::Tcp(stream), tls).await
            }
            (Some(outer), None) => {
                let stream = handshake(Transport::Tcp(stream), outer, url.host()).await?;
                Ok(Stream::Tls(Box::new(stream)))
            }
            (Some(outer), Some(tls)) => {
                let mut stream = handshake(stream, outer, url.host()).await?;
                self.tunnel(&mut stream, proxy).await?;
                self.encrypt(Transport::Proxy(Box::new(stream)), tls).await
            }
        }
    }

    async fn encrypt(
        &self,
        transport: Transport,
        tls: &Arc<TlsClientConfig>,
    ) -> Result<Stream, NetError> {
        let name = self.server_name.unwrap_or(self.url.host());
        Ok(Stream::Tls(Box::new(
            handshake(transport, tls, name).await?,
        )))
    }

    /// Asks the proxy to connect to the server.
    async fn tunnel<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut S,
        proxy: &ProxyUrl,
    ) -> Result<(), NetError> {
        let host = self.url.host();
        let target = if host.contains(':') {
            format!("[{host}]:{}", self.url.port())
        } else {
            format!("{host}:{}", self.url.port())
        };
        let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n").into_bytes();
        for (name, values) in self.connect_headers {
            for value in values {
                push_header(&mut request, name, value.expose().as_bytes());
            }
        }
        if let Some(authorization) = proxy.authorization() {
            push_header(
                &mut request,
                "proxy-authorization",
                authorization.as_bytes(),
            );
        }
        request.extend_from_slice(b"\r\n");
        stream.write_all(&request).await.map_err(NetError::write)?;
        stream.flush().await.map_err(NetError::write)?;
        let mut answer = Vec::new();
        let length = read_head(stream, &mut answer).await?;
        let code = head::parse(answer.get(..length).unwrap_or_default())?
            .response
            .status;
        if code != 200 {
            return Err(NetError::Proxy { code });
        }
        // In TLS the client speaks first, so bytes after the head are not the server's.
        if answer.len() > length {
            return Err(malformed("data behind the proxy's answer"));
        }
        Ok(())
    }
}

async fn handshake<S: AsyncRead + AsyncWrite + Unpin>(
    transport: S,
    tls: &Arc<TlsClientConfig>,
    name: &str,
) -> Result<TlsStream<S>, NetError> {
    let name = ServerName::try_from(name.trim_end_matches('.').to_owned())
        .map_err(|_invalid| tls_error(format!("invalid server name {name:?}")))?;
    let connecting = TlsConnector::from(Arc::clone(tls)).connect(name, transport);
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, connecting).await {
        Ok(connected) => connected.map_err(handshake_error),
        Err(_elapsed) => Err(tls_error("handshake timeout")),
    }
}

/// Connects to the first address of a host that responds.
async fn dial(
    host: &str,
    port: u16,
    timeout: Duration,
    round_robin: bool,
) -> Result<TcpStream, NetError> {
    let deadline = Instant::now() + timeout;
    let mut addresses = resolve(host, port, deadline, timeout).await?;
    if round_robin {
        in_turn(&mut addresses);
    }
    let mut left = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    let mut failed = None;
    for address in addresses {
        // Later addresses keep their share of the time when an earlier one does not respond.
        let share = deadline.saturating_duration_since(Instant::now()) / left.max(1);
        left -= 1;
        match tokio::time::timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                stream.set_nodelay(true).map_err(NetError::write)?;
                return Ok(stream);
            }
            Ok(Err(source)) => failed = Some(NetError::Connect { address, source }),
            Err(_elapsed) => failed = Some(NetError::ConnectTimeout { address }),
        }
    }
    Err(failed.unwrap_or_else(|| NetError::Lookup {
        host: host.to_owned(),
        source: std::io::Error::from(std::io::ErrorKind::NotFound),
    }))
}

/// Begins with the address after the one that it began with the last time.
fn in_turn(addresses: &mut [SocketAddr]) {
    static TURN: AtomicUsize = AtomicUsize::new(0);
    // Name servers turn their answers too.
    addresses.sort_unstable();
    if let Some(first) = TURN.fetch_add(1, Relaxed).checked_rem(addresses.len()) {
        addresses.rotate_left(first);
    }
}

async fn resolve(
    host: &str,
    port: u16,
    deadline: Instant,
    timeout: Duration,
) -> Result<Vec<SocketAddr>, NetError> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let lookup = tokio::net::lookup_host((host, port));
    match tokio::time::timeout_at(deadline, lookup).await {
        Ok(Ok(addresses)) => Ok(addresses.collect()),
        Ok(Err(source)) => Err(NetError::Lookup {
            host: host.to_owned(),
            source,
        }),
        Err(_elapsed) => Err(NetError::Deadline { timeout }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn each_address_has_its_turn_first() {
        let all: Vec<SocketAddr> = (1..=3).map(|host| ([10, 0, 0, host], 80).into()).collect();
        let mut first: BTreeMap<SocketAddr, usize> = BTreeMap::new();
        for round in 0..9 {
            let mut addresses = all.clone();
            // As a name server's answers are.
            addresses.rotate_left(round % 3);
            in_turn(&mut addresses);
            *first.entry(addresses[0]).or_default() += 1;
            addresses.sort_unstable();
            assert_eq!(addresses, all);
        }
        assert_eq!(first.into_values().collect::<Vec<_>>(), [3, 3, 3]);
        in_turn(&mut []);
    }
}
