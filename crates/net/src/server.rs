//! The HTTP server: binds, accepts up to a connection limit, serves, drains.
//!
//! Invariant: after `serve` returns, all its connections are closed and no handler is running, except one that blocks
//! its thread without yielding; the report counts everything cut short.

mod config;
mod conn;
mod head;
mod pace;
mod timed;
mod turns;

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
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
pub use config::{ServeReport, ServerConfig};
use conn::Shared;
pub(crate) use conn::fuzz_serve;

/// Pause before the next accept after one failed for lack of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time for aborted connections to be dropped; one that blocks its thread is left behind.
const ABORT_GRACE: Duration = Duration::from_millis(500);

/// Bound listeners, not yet accepting.
#[derive(Debug)]
pub struct Server {
    listeners: Vec<TcpListener>,
    config: ServerConfig,
    web: Option<Arc<Web>>,
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

    /// Listens on sockets that another process bound, as systemd's socket units do.
    ///
    /// # Errors
    /// Fails on the first that is not a listening TCP socket.
    pub fn on_sockets(sockets: Vec<OwnedFd>, config: ServerConfig) -> Result<Self, NetError> {
        let listeners = sockets
            .into_iter()
            .enumerate()
            .map(|(at, socket)| address::adopt(at, socket))
            .collect::<Result<_, _>>()?;
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
                shared.connections_total.fetch_add(1, Relaxed);
                let drive = conn::drive(
                    stream,
                    peer,
                    router.clone(),
                    tls.clone(),
                    Arc::clone(&shared),
                    stop.clone(),
                );
                // Handlers' panics are caught further down: these are ours or hyper's.
                let driven = catch_panic_in("connection", drive);
                connections.spawn(async move {
                    let _logged = driven.await;
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
    shared
        .cut_requests_total
        .fetch_add(connections.len() as u64, Relaxed);
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
