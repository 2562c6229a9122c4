//! Idle connections, kept per origin (`http://host:port`) for later requests.
//!
//! Invariant: a connection was open and silent when it was taken; the number kept is bounded per host, and none is
//! kept much longer than the idle timeout.

use crate::sync::Whole as _;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use super::stream::Stream;

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
    hosts: HashMap<Box<str>, Vec<IdleConnection>>,
    swept: Instant,
}

#[derive(Debug)]
struct IdleConnection {
    stream: Stream,
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
    pub(super) fn take_connection(&self, origin: &str) -> Option<Stream> {
        let mut idle = self.idle.lock().whole();
        let connections = idle.hosts.get_mut(origin)?;
        while let Some(IdleConnection { mut stream, since }) = connections.pop() {
            if since.elapsed() < self.timeout && stream.is_silent() {
                return Some(stream);
            }
        }
        None
    }

    /// Closes every connection.
    pub(super) fn clear(&self) {
        let mut idle = self.idle.lock().whole();
        idle.hosts.clear();
    }

    pub(super) fn return_connection(&self, origin: &str, stream: Stream) {
        if self.per_host == 0 {
            return;
        }
        let now = Instant::now();
        let mut idle = self.idle.lock().whole();
        if now.duration_since(idle.swept) >= SWEEP_EVERY {
            idle.swept = now;
            idle.hosts.retain(|_origin, connections| {
                connections
                    .retain_mut(|k| k.since.elapsed() < self.timeout && k.stream.is_silent());
                !connections.is_empty()
            });
        }
        let connection = IdleConnection { stream, since: now };
        match idle.hosts.get_mut(origin) {
            Some(list) if list.len() >= self.per_host => {
                list.remove(0);
                list.push(connection);
            }
            Some(list) => list.push(connection),
            None => {
                idle.hosts.insert(origin.into(), vec![connection]);
            }
        }
    }
}
