//! The HTTP server: binds, accepts up to a connection limit, serves, drains.
//!
//! Invariant: after `serve` returns, all its connections are closed and no handler is running, except one that blocks
//! its thread without yielding; the report counts everything cut short.

mod conn;
mod head;
mod pace;
mod timed;

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::address;
use crate::error::NetError;
use crate::panics::catch_panic_in;
use crate::stop::StopToken;
use crate::web::Web;
use conn::Shared;
pub(crate) use conn::fuzz_serve;

/// Pause before the next accept after one failed for lack of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time for aborted connections to be dropped; one that blocks its thread is left behind.
const ABORT_GRACE: Duration = Duration::from_millis(500);

/// Limits of a [`Server`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerConfig {
    /// Most connections served at once; further ones wait unaccepted (`--web.max-connections`). 512.
    pub max_connections: usize,
    /// Time from a connection's start, or a later request's first byte, to the end of its head. 10 s.
    pub header_read_timeout: Duration,
    /// Time from the end of a request's head to the end of its body; also how long a connection may idle between
    /// requests (`--web.read-timeout`). 5 min.
    pub read_timeout: Duration,
    /// Longest time a client may accept no byte of a response. 1 min.
    pub write_stall_timeout: Duration,
    /// Bytes per second that a client must send of a body, or accept of a response, while we wait for it; 0 for no
    /// limit (`--web.min-transfer-rate`). 1 KiB: a modem's rate, and a response of a megabyte in twenty minutes.
    pub min_rate_bytes: u64,
    /// Averaging time of that rate; for responses at least `write_stall_timeout`. 30 s.
    pub rate_window: Duration,
    /// Longest request body on the wire, in bytes; longer ones get 413. 64 MiB.
    pub body_limit_bytes: usize,
    /// Time for requests in flight after a stop without a deadline. 10 s.
    pub drain_timeout: Duration,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            max_connections: 512,
            header_read_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_mins(5),
            write_stall_timeout: Duration::from_mins(1),
            min_rate_bytes: 1 << 10,
            rate_window: Duration::from_secs(30),
            body_limit_bytes: 64 << 20,
            drain_timeout: Duration::from_secs(10),
        }
    }
}

/// Bound listeners, not yet accepting.
#[derive(Debug)]
pub struct Server {
    listeners: Vec<TcpListener>,
    config: ServerConfig,
    web: Option<Arc<Web>>,
}

/// Statistics of a finished server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ServeReport {
    /// Connections accepted.
    pub connections_total: u64,
    /// Requests passed to the router.
    pub requests_total: u64,
    /// Connections closed because the client was too slow.
    pub slow_clients_total: u64,
    /// Requests cut short because the drain's deadline passed.
    pub cut_requests_total: u64,
}

impl Server {
    /// Binds every address: `host:port`, `ip:port`, `[ipv6]:port`, or `:port` for all interfaces.
    ///
    /// # Errors
    /// Fails on the first address that is malformed, in use or not permitted, naming it; none stays bound.
    pub async fn bind<A: AsRef<str>>(
        addresses: &[A],
        config: ServerConfig,
    ) -> Result<Self, NetError> {
        let mut listeners = Vec::with_capacity(addresses.len());
        for address in addresses {
            listeners.push(address::listen(address.as_ref()).await?);
        }
        Ok(Self {
            listeners,
            config,
            web: None,
        })
    }

    /// Applies a web configuration (`--web.config.file`): TLS, users, headers, a rate limit.
    ///
    /// The file and those it refers to are reread when they change.
    ///
    /// # Errors
    /// Fails if the file, a certificate or a key cannot be used.
    pub fn with_web_config(mut self, path: &Path) -> Result<Self, NetError> {
        self.web = Some(Arc::new(Web::open(path)?));
        Ok(self)
    }

    /// Returns whether connections are encrypted.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.web.as_ref().is_some_and(|web| web.is_https())
    }

    /// Returns the bound addresses in the order given, ports resolved.
    #[must_use]
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.listeners
            .iter()
            .filter_map(|l| l.local_addr().ok())
            .collect()
    }

    /// Serves until stopped, then lets requests in flight finish within the stop's deadline.
    ///
    /// Handlers get the client's address from `axum::extract::ConnectInfo<SocketAddr>`.
    pub async fn serve(self, router: Router, stop: StopToken) -> ServeReport {
        let Self {
            listeners,
            config,
            web,
        } = self;
        let max_connections = config.max_connections.clamp(1, Semaphore::MAX_PERMITS);
        let permits = Arc::new(Semaphore::new(max_connections));
        let shared = Arc::new(Shared::new(config));
        let mut connections = JoinSet::new();
        let router = conn::prepare(router, web.as_ref());
        let tls = web.filter(|web| web.is_https());
        let mut acceptor = Acceptor::new(&listeners);

        let accepting = async {
            loop {
                // At the limit, connections stay in the kernel's queue, as in Prometheus.
                let permit = Arc::clone(&permits).acquire_owned().await;
                let permit = permit.expect("the semaphore is never closed");
                let (stream, peer) = acceptor.next().await;
                shared.connections_total.add(1);
                let drive = conn::drive(
                    stream,
                    peer,
                    router.clone(),
                    tls.clone(),
                    Arc::clone(&shared),
                    stop.clone(),
                );
                connections.spawn(async move {
                    // Handlers' panics are caught further down: this one is ours or hyper's.
                    let _logged = catch_panic_in("connection", drive).await;
                    drop(permit);
                });
                while connections.try_join_next().is_some() {}
            }
        };
        tokio::select! {
            biased;
            () = stop.stopped() => {}
            () = accepting => {}
        }
        drop(listeners);
        drain(&mut connections, &shared, &stop).await;
        shared.report()
    }
}

/// Waits for the connections, which have all seen the stop; cuts those left at the deadline.
async fn drain(connections: &mut JoinSet<()>, shared: &Shared, stop: &StopToken) {
    let default = Instant::now() + shared.config.drain_timeout;
    let given = stop.deadline().is_some();
    tokio::select! {
        biased;
        () = async { while connections.join_next().await.is_some() {} } => return,
        () = stop.expired() => {}
        () = tokio::time::sleep_until(default), if !given => {}
    }
    // Idle connections ended at once, so each remaining one has an unfinished request or response.
    while connections.try_join_next().is_some() {}
    shared.cut_requests_total.add(connections.len() as u64);
    connections.abort_all();
    let gone = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(ABORT_GRACE, gone).await.is_err() {
        tracing::warn!(
            left = connections.len(),
            "handlers block their threads past the stop"
        );
        connections.detach_all();
    }
}

/// Accepts connections from all listeners in turn.
struct Acceptor<'a> {
    listeners: &'a [TcpListener],
    first: usize,
    warned: Option<Instant>,
}

impl<'a> Acceptor<'a> {
    fn new(listeners: &'a [TcpListener]) -> Self {
        Self {
            listeners,
            first: 0,
            warned: None,
        }
    }

    /// Returns the next connection, skipping errors before it.
    async fn next(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            match self.accept().await {
                Ok((stream, peer)) => {
                    // Responses are written whole, so Nagle's algorithm would only delay them.
                    let _only_slower = stream.set_nodelay(true);
                    return (stream, peer);
                }
                // The client disconnected before it was accepted.
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    self.warn(&error);
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        poll_fn(|context| {
            for turn in 0..self.listeners.len() {
                let at = (self.first + turn) % self.listeners.len();
                if let Poll::Ready(accepted) = self.listeners[at].poll_accept(context) {
                    self.first = at + 1;
                    return Poll::Ready(accepted);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Logs at most one line in ten seconds: with a full descriptor table, accepting fails ten times a second.
    fn warn(&mut self, error: &io::Error) {
        let recent = |at: Instant| at.elapsed() < Duration::from_secs(10);
        if !self.warned.is_some_and(recent) {
            self.warned = Some(Instant::now());
            tracing::warn!(%error, "cannot accept connections");
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}
