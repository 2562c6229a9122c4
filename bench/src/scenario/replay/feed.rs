//! Recorded targets, served again: each scrape is answered with the next round, once, until none is left.
//!
//! **Invariant:** a round counts as served once the socket accepted its last byte; one that was cut off is served
//! again. The response is built before its scrape arrives.

use super::corpus::{Corpus, Rounds};
use crate::{
    harness::{BenchError, lock},
    load::{fleet::now_ms, gzip::Gzip},
};
use narthex_testkit::{Listener, exposition::Line};
use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

/// Longest head of a request.
const LONGEST_HEAD: usize = 16 << 10;
/// Interval at which an idle connection checks whether to end.
const LOOK: Duration = Duration::from_millis(200);
/// Longest write of an answer.
const WRITE_LIMIT: Duration = Duration::from_secs(30);
/// Compression level of promhttp.
const GZIP_LEVEL: i32 = 6;

/// Timestamps of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Times {
    /// The scrape's time; lines have no timestamps.
    Scraped,
    /// A timestamp in every line: this many milliseconds after it was recorded.
    Written { shift_ms: i64 },
}

/// A served round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Served {
    /// When its response was sent.
    pub(crate) at_ms: i64,
    /// Timestamp of its lines; `at_ms` if they have none.
    pub(crate) time_ms: i64,
    pub(crate) samples: u64,
    /// Size as sent.
    pub(crate) bytes: u64,
}

/// A served target; it stops on drop.
pub(crate) struct Feed {
    listener: Listener,
    state: Arc<Mutex<State>>,
}

struct State {
    rounds: Rounds,
    /// Rounds still to be built.
    left: usize,
    times: Times,
    gzip: Gzip,
    next: Option<Answer>,
    served: Vec<Served>,
    broken: Option<String>,
}

/// The next round, ready to be sent.
struct Answer {
    plain: Vec<u8>,
    packed: Vec<u8>,
    time_ms: i64,
    samples: u64,
}

impl Feed {
    /// Binds an address and serves the first `rounds` rounds of a corpus.
    pub(crate) fn start(
        corpus: &Arc<Corpus>,
        name: &str,
        rounds: usize,
        times: Times,
    ) -> Result<Self, BenchError> {
        let mut state = State {
            rounds: corpus.rounds().map_err(BenchError::damaged(name))?,
            left: rounds,
            times,
            gzip: Gzip::new(GZIP_LEVEL),
            next: None,
            served: Vec::with_capacity(rounds),
            broken: None,
        };
        state.make_next();
        let state = Arc::new(Mutex::new(state));
        let serving = Arc::clone(&state);
        let serve = move |stream: TcpStream, stop: &AtomicBool| serve(stream, &serving, stop);
        let feed = Self {
            listener: Listener::start(&format!("feed-{name}"), serve)
                .map_err(BenchError::io("serve the corpus"))?,
            state,
        };
        feed.served()?;
        Ok(feed)
    }

    /// Returns its address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Returns the rounds served so far.
    pub(crate) fn served(&self) -> Result<Vec<Served>, BenchError> {
        let state = lock(&self.state);
        match &state.broken {
            Some(what) => Err(BenchError::damaged("a corpus")(what.clone())),
            None => Ok(state.served.clone()),
        }
    }

    /// Returns whether every round has been served.
    pub(crate) fn is_done(&self) -> bool {
        let state = lock(&self.state);
        state.next.is_none() && state.broken.is_none()
    }
}

impl State {
    /// Makes the next round's answer.
    fn make_next(&mut self) {
        self.next = None;
        let Some(left) = self.left.checked_sub(1) else {
            return;
        };
        match self.rounds.next() {
            Ok(Some(round)) => {
                let time_ms = match self.times {
                    Times::Scraped => None,
                    Times::Written { shift_ms } => Some(round.at_ms + shift_ms),
                };
                let (plain, samples) = stamped(round.body, time_ms);
                let packed = self.gzip.pack(&plain).to_vec();
                self.left = left;
                self.next = Some(Answer {
                    plain,
                    packed,
                    time_ms: time_ms.unwrap_or_default(),
                    samples,
                });
            }
            Ok(None) => self.left = 0,
            Err(broken) => self.broken = Some(broken),
        }
    }

    /// Answers one scrape; returns whether the connection stays usable.
    fn answer(&mut self, stream: &mut TcpStream, takes_gzip: bool) -> bool {
        let Some(next) = &self.next else {
            let over = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
            return stream.write_all(over).is_ok();
        };
        let (body, encoding) = match takes_gzip {
            true => (&next.packed, "Content-Encoding: gzip\r\n"),
            false => (&next.plain, ""),
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n{encoding}\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        let at_ms = now_ms();
        let answer = [head.as_bytes(), body].concat();
        if stream.write_all(&answer).is_err() {
            return false;
        }
        self.served.push(Served {
            at_ms,
            time_ms: match self.times {
                Times::Scraped => at_ms,
                Times::Written { .. } => next.time_ms,
            },
            samples: next.samples,
            bytes: body.len() as u64,
        });
        self.make_next();
        true
    }
}

/// Returns a body whose lines have a time, when there is one, and the number of its samples.
fn stamped(body: &str, time_ms: Option<i64>) -> (Vec<u8>, u64) {
    let (mut out, mut samples) = (Vec::with_capacity(body.len() * 5 / 4), 0);
    let mut buffer = itoa::Buffer::new();
    for line in body.split_inclusive('\n') {
        let end = line.trim_end_matches('\n').len();
        let parsed = Line::parse(&line[..end]);
        samples += u64::from(parsed.is_some());
        match (parsed, time_ms) {
            (Some(parsed), Some(time_ms)) => {
                // A line's own timestamp would be of another day.
                let own = parsed.timestamp.map_or(0, |own| own.len() + 1);
                out.extend_from_slice(line[..end - own].trim_end().as_bytes());
                out.push(b' ');
                out.extend_from_slice(buffer.format(time_ms).as_bytes());
                out.extend_from_slice(&line.as_bytes()[end..]);
            }
            _ => out.extend_from_slice(line.as_bytes()),
        }
    }
    (out, samples)
}

fn serve(mut stream: TcpStream, state: &Mutex<State>, stop: &AtomicBool) {
    let is_set = stream.set_nodelay(true).is_ok()
        && stream.set_read_timeout(Some(LOOK)).is_ok()
        && stream.set_write_timeout(Some(WRITE_LIMIT)).is_ok();
    let (mut input, mut buffer) = (Vec::new(), [0; 4096]);
    while is_set && !stop.load(Relaxed) && input.len() < LONGEST_HEAD {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => input.extend_from_slice(&buffer[..length]),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
            Err(_) => return,
        }
        // A GET has no body; one scrape is sent at a time.
        if !input.ends_with(b"\r\n\r\n") {
            continue;
        }
        let head = String::from_utf8_lossy(&input).to_ascii_lowercase();
        let mut lines = head.lines();
        let is_scrape = lines
            .next()
            .is_some_and(|line| line.starts_with("get /metrics "));
        let takes_gzip =
            lines.any(|line| line.starts_with("accept-encoding:") && line.contains("gzip"));
        let goes_on = match is_scrape {
            true => lock(state).answer(&mut stream, takes_gzip),
            false => stream
                .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                .is_ok(),
        };
        if !goes_on {
            return;
        }
        input.clear();
    }
}

#[cfg(test)]
mod tests;
