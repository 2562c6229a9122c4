//! Idle connections, kept per `host:port` for the next request.
//!
//! Invariant: a connection handed out was, at that moment, open and silent; the number kept is
//! bounded per host, and none is kept much longer than the idle timeout.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::Instant;

/// Least time between two sweeps of the whole pool.
const SWEEP_EVERY: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Pool {
    idle: Mutex<Idle>,
    per_host: usize,
    timeout: Duration,
}

#[derive(Debug)]
struct Idle {
    hosts: HashMap<Box<str>, Vec<Kept>>,
    swept: Instant,
}

#[derive(Debug)]
struct Kept {
    stream: TcpStream,
    since: Instant,
}

impl Pool {
    pub(super) fn new(per_host: usize, timeout: Duration) -> Self {
        let idle = Idle {
            hosts: HashMap::new(),
            swept: Instant::now(),
        };
        Self {
            idle: Mutex::new(idle),
            per_host,
            timeout,
        }
    }

    /// Takes the most recently used live connection.
    pub(super) fn take(&self, authority: &str) -> Option<TcpStream> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.hosts.get_mut(authority)?;
        while let Some(Kept { stream, since }) = kept.pop() {
            if since.elapsed() < self.timeout && is_silent(&stream) {
                return Some(stream);
            }
        }
        None
    }

    pub(super) fn put(&self, authority: &str, stream: TcpStream) {
        if self.per_host == 0 {
            return;
        }
        let now = Instant::now();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if now.duration_since(idle.swept) >= SWEEP_EVERY {
            idle.swept = now;
            idle.hosts.retain(|_authority, kept| {
                kept.retain(|k| k.since.elapsed() < self.timeout && is_silent(&k.stream));
                !kept.is_empty()
            });
        }
        let kept = Kept { stream, since: now };
        match idle.hosts.get_mut(authority) {
            Some(list) if list.len() >= self.per_host => {
                list.remove(0);
                list.push(kept);
            }
            Some(list) => list.push(kept),
            None => {
                idle.hosts.insert(authority.into(), vec![kept]);
            }
        }
    }
}

/// Between answers a server has nothing to say: input means an end, or garbage.
///
/// Without a system call in the usual case, because tokio knows that nothing has arrived.
fn is_silent(stream: &TcpStream) -> bool {
    let read = stream.try_read(&mut [0]);
    matches!(read, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
}
