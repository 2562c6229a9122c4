//! The pushers: threads with a connection each, that push on schedule whether or not the gateway keeps up.
//!
//! A pusher takes the next push, builds its body, sleeps until it is due and sends it. While all of them wait for the
//! gateway, pushes become due that nobody sends: their latency counts from their due time.
//! **Invariant:** the schedule never waits for the gateway. A pusher's own lateness (the time between when it could
//! have sent and when it did) is recorded separately.

use super::{
    body::Body,
    fleet::{Fleet, Packer},
};
use crate::{
    harness::{BenchError, cpu_time, join},
    load::{Histogram, Latencies},
};
use narthex_testkit::client::{Client, is_timeout};
use rustix::time::ClockId;
use std::{
    io,
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

/// Maximum bytes of a rejecting response to keep.
const REASON: usize = 200;

/// An interval of pushing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch {
    /// When the first round begins.
    pub(crate) start: Instant,
    /// Pushes due before this time are sent; anything still waiting counts as waiting until then.
    pub(crate) end: Instant,
    /// Number of pushes, and the round of the first.
    pub(crate) pushes: u64,
    pub(crate) first_round: u64,
    /// Whether pushes wait for their due time; otherwise each is sent as soon as a pusher is free.
    pub(crate) is_paced: bool,
}

/// A push that was sent, to determine afterwards what has to be stored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sent {
    pub(crate) group: u32,
    pub(crate) round: u64,
    pub(crate) sent: Instant,
    pub(crate) ended: Instant,
    pub(crate) is_taken: bool,
}

/// Result of a stretch.
#[derive(Debug, Default)]
pub(crate) struct Pushed {
    pub(crate) latencies: Latencies,
    /// How late pushers sent what they could have sent.
    pub(crate) late: Histogram,
    pub(crate) sent: Vec<Sent>,
    pub(crate) failed: u64,
    /// The first failure's reason.
    pub(crate) failure: Option<String>,
    /// Pushes that nobody was free to send before the end.
    pub(crate) unsent: u64,
    pub(crate) body_bytes: u64,
    /// CPU time of writing bodies, of compressing, and in total.
    pub(crate) writing: Duration,
    pub(crate) packing: Duration,
    pub(crate) cpu: Duration,
    pub(crate) samples: u64,
}

impl Pushed {
    /// Adds another pusher's results.
    fn add(&mut self, other: Self) {
        self.latencies.merge(&other.latencies);
        self.late.merge(&other.late);
        self.sent.extend(other.sent);
        self.failed += other.failed;
        self.failure = self.failure.take().or(other.failure);
        self.unsent += other.unsent;
        self.body_bytes += other.body_bytes;
        self.writing += other.writing;
        self.packing += other.packing;
        self.cpu += other.cpu;
        self.samples += other.samples;
    }

    /// Returns the number of accepted pushes.
    pub(crate) fn taken(&self) -> u64 {
        self.sent.iter().filter(|sent| sent.is_taken).count() as u64
    }
}

/// State shared by all pushers.
#[derive(Debug)]
pub(crate) struct Pushers<'a> {
    pub(crate) fleet: &'a Fleet,
    pub(crate) gateways: &'a [SocketAddr],
    pub(crate) count: usize,
    /// Timeout of a gateway's response.
    pub(crate) limit: Duration,
}

/// Progress that can be watched while pushers work.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    next: AtomicU64,
    pub(crate) ended: AtomicU64,
}

impl Pushers<'_> {
    /// Pushes a whole stretch; meanwhile calls `watch` repeatedly on this thread.
    pub(crate) fn run(
        &self,
        stretch: Stretch,
        mut watch: impl FnMut(&Watched) -> Result<(), BenchError>,
    ) -> Result<Pushed, BenchError> {
        let watched = Watched::default();
        thread::scope(|scope| {
            let pusher = |number| {
                let run = || Pusher::new(self, stretch).run(&watched);
                thread::Builder::new()
                    .name(format!("pusher-{number}"))
                    .spawn_scoped(scope, run)
                    .map_err(BenchError::io("start a thread"))
            };
            let threads: Result<Vec<_>, _> = (0..self.count).map(pusher).collect();
            let watching = match &threads {
                Ok(threads) => loop {
                    if threads.iter().all(thread::ScopedJoinHandle::is_finished) {
                        break Ok(());
                    }
                    let outcome = watch(&watched);
                    if outcome.is_err() {
                        break outcome;
                    }
                },
                Err(_) => Ok(()),
            };
            if watching.is_err() || threads.is_err() {
                // Nobody takes another push.
                watched.next.store(u64::MAX / 2, Relaxed);
            }
            let mut pushed = Pushed::default();
            for thread in threads? {
                pushed.add(join(thread));
            }
            watching.map(|()| pushed)
        })
    }
}

/// A push to make.
struct Push {
    group: u32,
    round: u64,
    due: Instant,
    /// Since when the pusher has been idle.
    free: Instant,
}

struct Pusher<'a> {
    all: &'a Pushers<'a>,
    stretch: Stretch,
    /// One for each gateway.
    clients: Vec<Client>,
    pushed: Pushed,
}

impl<'a> Pusher<'a> {
    fn new(all: &'a Pushers<'a>, stretch: Stretch) -> Self {
        Self {
            all,
            stretch,
            clients: all
                .gateways
                .iter()
                .map(|address| Client::new(*address, all.limit))
                .collect(),
            pushed: Pushed::default(),
        }
    }

    fn run(mut self, watched: &Watched) -> Pushed {
        let fleet = self.all.fleet;
        let (mut body, mut packer) = (Body::default(), Packer::new(fleet.mode.encoding));
        let begun = cpu_time(ClockId::ThreadCPUTime);
        let mut free = self.stretch.start;
        loop {
            let number = watched.next.fetch_add(1, Relaxed);
            if number >= self.stretch.pushes {
                break;
            }
            let (after, group, round) = fleet.due(number);
            let due = match self.stretch.is_paced {
                true => self.stretch.start + after,
                false => free,
            };
            if Instant::now() >= self.stretch.end {
                self.pushed.unsent += 1;
                // It is still waiting: count at least this long.
                self.pushed.latencies.corrected.add(self.stretch.end - due);
                continue;
            }
            let push = Push {
                group,
                round: self.stretch.first_round + round,
                due,
                free,
            };
            free = self.push(&push, &mut body, &mut packer);
            watched.ended.fetch_add(1, Relaxed);
        }
        self.pushed.cpu = cpu_time(ClockId::ThreadCPUTime).saturating_sub(begun);
        self.pushed
    }

    /// Builds a push's body, waits until it is due, sends it, and returns when its response arrived.
    fn push(&mut self, push: &Push, body: &mut Body, packer: &mut Packer) -> Instant {
        let fleet = self.all.fleet;
        let headers = [
            ("Content-Type", fleet.settings.format.content_type()),
            ("Content-Encoding", packer.content_encoding()),
        ];
        // An uncompressed body needs no header.
        let headers = &headers[..1 + usize::from(headers[1].1 != "identity")];
        let clock = || cpu_time(ClockId::ThreadCPUTime);
        let from = clock();
        let body = fleet.body(push.group, push.round, body);
        let written = clock();
        let packed = packer.pack(body);
        self.pushed.writing += written.saturating_sub(from);
        self.pushed.packing += clock().saturating_sub(written);
        self.pushed.samples += fleet.push_samples() as u64;
        self.pushed.body_bytes += packed.len() as u64;
        let client = &mut self.clients[fleet.gateway_of(push.group)];
        let path = fleet.path(push.group);
        sleep_until(push.due);
        let sent = Instant::now();
        let could = push.due.max(push.free);
        self.pushed.late.add(sent.saturating_duration_since(could));
        let outcome = send(client, fleet.settings.method, &path, headers, packed);
        let ended = Instant::now();
        self.pushed.sent.push(Sent {
            group: push.group,
            round: push.round,
            sent,
            ended,
            is_taken: outcome.is_ok(),
        });
        if outcome.as_ref().err().is_none_or(is_timeout) {
            // A timeout waited at least this long; a rejection says nothing about the duration of a push.
            self.pushed.latencies.add(push.due, sent, ended);
        }
        if let Err(why) = outcome {
            self.pushed.failed += 1;
            self.pushed.failure.get_or_insert(why.to_string());
        }
        ended
    }
}

fn sleep_until(due: Instant) {
    let left = due.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        thread::sleep(left);
    }
}

/// Sends a push and reads its answer; an answer other than 2xx is an error.
fn send(
    client: &mut Client,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<()> {
    let answer = client.send(method, path, headers, body)?;
    if (200..300).contains(&answer.status) {
        return Ok(());
    }
    let reason: String = answer.text().trim().chars().take(REASON).collect();
    Err(io::Error::other(format!(
        "status {}: {reason}",
        answer.status
    )))
}

#[cfg(test)]
mod tests;
