//! Listen addresses in the syntax of Go's `net.Listen`: `:9090`, `localhost:9090`, `[::1]:9090`.
//!
//! Invariant: an address without a host means all interfaces, both IPv6 and IPv4.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, sockopt};
use tokio::net::{TcpListener, TcpSocket};

use crate::error::NetError;
use crate::url::{is_of_name, parse_digits};

/// Connections the kernel queues until they are accepted.
const BACKLOG: u32 = 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListenHost {
    /// `:port`
    Any,
    Ip(IpAddr),
    Name(String),
}

/// Splits a listen address; does not resolve names.
pub(crate) fn parse_listen(address: &str) -> Result<(ListenHost, u16), NetError> {
    split(address).map_err(|reason| NetError::ListenAddress {
        address: address.chars().take(200).collect(),
        reason,
    })
}

/// Binds a listener to one address.
pub(crate) async fn listen(address: &str) -> Result<TcpListener, NetError> {
    let (host, port) = parse_listen(address)?;
    let bound = match host {
        ListenHost::Any => listen_any(port),
        ListenHost::Ip(ip) => listen_on(SocketAddr::new(ip, port), false),
        ListenHost::Name(name) => listen_name(&name, port).await,
    };
    bound.map_err(|source| NetError::Bind {
        address: address.to_owned(),
        source,
    })
}

/// Takes over a listening TCP socket, the one `at` this place of those that were passed.
pub(crate) fn adopt(at: usize, socket: OwnedFd) -> Result<TcpListener, NetError> {
    let fail = |reason| NetError::PassedSocket { at, reason };
    match sockopt::socket_domain(&socket) {
        Ok(AddressFamily::INET | AddressFamily::INET6) => {}
        _ => return Err(fail("it is not a TCP socket")),
    }
    match sockopt::socket_acceptconn(&socket) {
        Ok(true) => {}
        _ => return Err(fail("it is not listening")),
    }
    let listener = std::net::TcpListener::from(socket);
    let adopted = listener.set_nonblocking(true);
    adopted
        .and_then(|()| TcpListener::from_std(listener))
        .map_err(|_failed| fail("it can't be used without blocking"))
}

fn split(address: &str) -> Result<(ListenHost, u16), &'static str> {
    let address = address.trim();
    let (host, port) = if let Some(rest) = address.strip_prefix('[') {
        let (host, port) = rest.split_once(']').ok_or("missing ']' in address")?;
        let ip = host
            .parse::<Ipv6Addr>()
            .map_err(|_invalid| "not an IPv6 address")?;
        (
            ListenHost::Ip(ip.into()),
            port.strip_prefix(':').ok_or("missing port in address")?,
        )
    } else {
        let (host, port) = address.rsplit_once(':').ok_or("missing port in address")?;
        (parse_host(host)?, port)
    };
    if port.is_empty() {
        return Err("missing port in address");
    }
    let port = parse_digits(port).ok_or("the port is not a number from 0 to 65535")?;
    Ok((host, port))
}

fn parse_host(host: &str) -> Result<ListenHost, &'static str> {
    if host.is_empty() {
        return Ok(ListenHost::Any);
    }
    if host.contains(':') {
        return Err("too many colons in address (IPv6 needs brackets)");
    }
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(ListenHost::Ip(ip));
    }
    if host.len() <= 255 && host.bytes().all(is_of_name) {
        return Ok(ListenHost::Name(host.to_owned()));
    }
    Err("neither a host name nor an IP address")
}

/// Binds dual-stack if the kernel has IPv6, else IPv4 only.
fn listen_any(port: u16) -> io::Result<TcpListener> {
    match listen_on(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)), true) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
        Err(_no_ipv6) => listen_on(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)), false),
        bound => bound,
    }
}

/// Binds the first address of a name, trying IPv4 before IPv6 as Go does.
async fn listen_name(name: &str, port: u16) -> io::Result<TcpListener> {
    let mut addresses: Vec<_> = tokio::net::lookup_host((name, port)).await?.collect();
    addresses.sort_by_key(SocketAddr::is_ipv6);
    let first = addresses
        .first()
        .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    listen_on(*first, false)
}

fn listen_on(address: SocketAddr, dual_stack: bool) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    if dual_stack {
        // The kernel's default is a sysctl; ":9090" must not depend on it.
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    // A restart must not wait for the previous process's connections to leave TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
mod tests;
