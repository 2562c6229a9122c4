//! The fleet's server: one thread answers `/metrics` of every target, each on its own loopback address.
//!
//! A target advances by one round with every scrape, so values change however often it is scraped. The cost and time of
//! each scrape are recorded, as the outside view of a server's schedule.
//! **Invariant:** listens on 127.1.0.0/16 only; a response is one complete round.

use super::{
    body::Body,
    clock::now,
    config::FleetConfig,
    page::{MEDIA_TYPE, METRIC_FAMILIES, Scratch},
    shape::Shape,
};
use crate::{
    harness::{BenchError, cpu_time, lock},
    load::gzip::Gzip,
};
use narthex_testkit::fleet::NATIVE_A_FAMILY;
use rustix::{
    net::sockopt,
    process::{Resource, getrlimit, setrlimit},
    time::ClockId,
};
use std::{
    io::{self, ErrorKind, IoSlice},
    net::{Ipv4Addr, SocketAddrV4, TcpListener},
    sync::{
        Arc, Mutex,
        atomic::{AtomicI32, AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::Notify,
    task::JoinSet,
};

/// Maximum number of targets: two bytes of an address.
pub(crate) const MAX_TARGETS: usize = 250 * 250;
/// Longest request head.
const MAX_HEAD: usize = 16 << 10;
/// Room for a whole body in the kernel, so that one call sends it.
const SEND_BUFFER: usize = 1 << 20;

/// A scrape that was answered to its last byte.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) target: u32,
    /// When the request was read, since the epoch, and microseconds after that.
    pub(crate) at_ms: i64,
    pub(crate) us: u16,
    /// Time from the wake-up for the request to the first byte of the response.
    pub(crate) lag_us: u32,
    pub(crate) bytes: u32,
    pub(crate) samples: u32,
    /// The value of the target's first series.
    pub(crate) first_value: f64,
}

/// A running fleet; it stops on drop.
pub(crate) struct FleetServer {
    addresses: Vec<SocketAddrV4>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

struct Shared {
    config: FleetConfig,
    stop: Notify,
    thread_id: AtomicI32,
    /// When the thread last found something to do.
    woke: Mutex<Option<Instant>>,
    making_ns: AtomicU64,
    pages: Mutex<Pages>,
    answers: Mutex<Vec<Answer>>,
}

/// The targets, and memory that is reused so that it stays in the processor's cache.
struct Pages {
    targets: Vec<Body>,
    gzip: Gzip,
    text: Vec<u8>,
    scratch: Scratch,
}

impl FleetServer {
    /// Prepares every target's text, binds every address and starts serving.
    pub(crate) fn start(config: FleetConfig) -> Result<Self, BenchError> {
        raise_file_limit(config.targets)?;
        let listeners =
            bind(config.targets).map_err(BenchError::io("bind the fleet's addresses"))?;
        let shared = Arc::new(Shared {
            config,
            stop: Notify::new(),
            thread_id: AtomicI32::new(0),
            woke: Mutex::new(None),
            making_ns: AtomicU64::new(0),
            pages: Mutex::new(Pages {
                targets: Body::fleet(&config),
                // The fastest level.
                gzip: Gzip::new(1),
                text: Vec::new(),
                scratch: Scratch::default(),
            }),
            answers: Mutex::default(),
        });
        let addresses = listeners.iter().map(|(address, _)| *address).collect();
        let listeners = listeners.into_iter().map(|(_, listener)| listener);
        let (listeners, serving) = (listeners.collect(), Arc::clone(&shared));
        let thread = thread::Builder::new()
            .name("fleet".to_owned())
            .spawn(move || serve(listeners, &serving))
            .map_err(BenchError::io("start the fleet"))?;
        Ok(Self {
            addresses,
            shared,
            thread: Some(thread),
        })
    }

    /// Returns the targets' addresses, in order.
    pub(crate) fn addresses(&self) -> &[SocketAddrV4] {
        &self.addresses
    }

    /// Calls `read` with all responses so far, in the order they ended.
    pub(crate) fn with_answers<T>(&self, read: impl FnOnce(&[Answer]) -> T) -> T {
        read(&lock(&self.shared.answers))
    }

    /// Returns the numbers of scrapes answered and of their samples so far.
    pub(crate) fn counts(&self) -> (u64, u64) {
        self.with_answers(|answers| {
            let samples = answers.iter().map(|answer| u64::from(answer.samples)).sum();
            (answers.len() as u64, samples)
        })
    }

    /// Replaces targets: another pod answers at the same address. The new bodies are built on this thread, so that the
    /// fleet keeps answering.
    pub(crate) fn replace(&self, places: impl Iterator<Item = usize>, generation: usize) {
        let mut bodies: Vec<(usize, Body)> = Vec::new();
        for place in places {
            let other = bodies.first().map(|(_, body)| body);
            let body = Body::new(&self.shared.config, place, generation, other);
            bodies.push((place, body));
        }
        let mut pages = lock(&self.shared.pages);
        for (place, body) in bodies {
            pages.targets[place] = body;
        }
    }

    /// Returns the CPU time of generating texts, without sending them.
    pub(crate) fn making(&self) -> Duration {
        Duration::from_nanos(self.shared.making_ns.load(Relaxed))
    }

    /// Returns the number of a target's native histograms in the first family.
    pub(crate) fn first_family(&self) -> usize {
        let FleetConfig { shape, series, .. } = self.shared.config;
        shape
            .target(0, 0, series)
            .natives()
            .len()
            .min(NATIVE_A_FAMILY)
    }

    /// Returns the thread's id, for measuring it.
    pub(crate) fn thread_id(&self) -> i32 {
        self.shared.thread_id.load(Relaxed)
    }

    /// Fails if the fleet is no longer served.
    pub(crate) fn check(&mut self) -> Result<(), BenchError> {
        let Some(thread) = self.thread.take_if(|thread| thread.is_finished()) else {
            return Ok(());
        };
        let ended = thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("it panicked")));
        Err(BenchError::Io {
            what: "serve the fleet".to_owned(),
            source: ended
                .err()
                .unwrap_or_else(|| io::Error::other("it stopped")),
        })
    }
}

impl Drop for FleetServer {
    fn drop(&mut self) {
        self.shared.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            // `check` has reported the error.
            let _ = thread.join();
        }
    }
}

/// Allows a listener and a few connections for each target.
fn raise_file_limit(targets: usize) -> Result<(), BenchError> {
    let needed = targets as u64 * 3 + 256;
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if limit.maximum.is_some_and(|maximum| maximum < needed) {
        return Err(BenchError::Usage(format!(
            "{targets} targets need {needed} open files, the limit is {}: raise it with ulimit -n",
            limit.maximum.unwrap_or_default()
        )));
    }
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit)
        .map_err(|e| BenchError::io("raise the limit of open files")(e.into()))
}

/// Binds one port on `targets` addresses of 127.1.0.0/16.
fn bind(targets: usize) -> io::Result<Vec<(SocketAddrV4, TcpListener)>> {
    // A port that is free on the first address may be in use on another one.
    let mut attempts = 0;
    loop {
        let first = TcpListener::bind((address(0), 0))?;
        let port = first.local_addr()?.port();
        let rest = (1..targets).map(|index| TcpListener::bind((address(index), port)));
        let all: io::Result<Vec<_>> = std::iter::once(Ok(first)).chain(rest).collect();
        attempts += 1;
        match all {
            Ok(all) => {
                let with_address =
                    |(index, listener)| (SocketAddrV4::new(address(index), port), listener);
                return Ok(all.into_iter().enumerate().map(with_address).collect());
            }
            Err(e) if e.kind() != ErrorKind::AddrInUse || attempts == 20 => return Err(e),
            Err(_) => {}
        }
    }
}

fn address(index: usize) -> Ipv4Addr {
    let (high, low) = (index / 250, index % 250 + 1);
    debug_assert!(high < 250, "the flag's range ends there");
    Ipv4Addr::new(127, 1, high as u8, low as u8)
}

/// Serves on this thread until it is told to stop or a listener fails.
fn serve(listeners: Vec<TcpListener>, shared: &Arc<Shared>) -> io::Result<()> {
    let id = rustix::thread::gettid().as_raw_nonzero().get();
    shared.thread_id.store(id, Relaxed);
    let waking = Arc::clone(shared);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .on_thread_unpark(move || *lock(&waking.woke) = Some(Instant::now()))
        .build()?;
    runtime.block_on(async {
        let mut accepting = JoinSet::new();
        for (target, listener) in listeners.into_iter().enumerate() {
            listener.set_nonblocking(true)?;
            sockopt::set_socket_send_buffer_size(&listener, SEND_BUFFER)?;
            let listener = tokio::net::TcpListener::from_std(listener)?;
            accepting.spawn(accept(listener, target, Arc::clone(shared)));
        }
        tokio::select! {
            () = shared.stop.notified() => Ok(()),
            Some(ended) = accepting.join_next() => ended?,
        }
    })
}

async fn accept(
    listener: tokio::net::TcpListener,
    target: usize,
    shared: Arc<Shared>,
) -> io::Result<()> {
    loop {
        match listener.accept().await {
            // An error is a client that is gone, such as a server that was killed.
            Ok((stream, _)) => drop(tokio::spawn(connection(
                stream,
                target,
                Arc::clone(&shared),
            ))),
            // It left before it was accepted.
            Err(e) if e.kind() == ErrorKind::ConnectionAborted => {}
            Err(e) => return Err(e),
        }
    }
}

/// Answers a connection's requests one after another.
async fn connection(mut stream: TcpStream, target: usize, shared: Arc<Shared>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut input = Vec::with_capacity(1 << 10);
    while input.len() <= MAX_HEAD {
        let Some(at) = find(&input, b"\r\n\r\n") else {
            if stream.read_buf(&mut input).await? == 0 {
                break;
            }
            continue;
        };
        let (rest, answer) = shared.answer(&input[..at + 4], target, &stream)?;
        input.drain(..at + 4);
        stream.write_all(&rest).await?;
        lock(&shared.answers).extend(answer);
    }
    Ok(())
}

impl Shared {
    /// Sends as much of an answer as the socket takes; returns the rest, and what to record unless it is a refusal.
    fn answer(
        &self,
        request: &[u8],
        index: usize,
        stream: &TcpStream,
    ) -> io::Result<(Vec<u8>, Option<Answer>)> {
        let refusal = |status: &str| {
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
            Ok((head.into_bytes(), None))
        };
        if !request.starts_with(b"GET /metrics ") {
            return refusal("404 Not Found");
        }
        let is_protobuf = self.config.shape == Shape::Native;
        if is_protobuf && find(request, MEDIA_TYPE.as_bytes()).is_none() {
            return refusal("406 Not Acceptable");
        }
        let mut pages = lock(&self.pages);
        let Pages {
            targets,
            gzip,
            text,
            scratch,
        } = &mut *pages;
        let target = &mut targets[index];
        let start = cpu_time(ClockId::ThreadCPUTime);
        let (at_ms, us) = now();
        let stamp_ms = self.config.clock.map_or(at_ms, |clock| clock.at(at_ms));
        let samples = target.next(stamp_ms, text, scratch);
        let is_packed = self.config.gzip && find(request, b"gzip").is_some();
        let (content, encoding) = match is_packed {
            true => (gzip.pack(text), "Content-Encoding: gzip\r\n"),
            false => (text.as_slice(), ""),
        };
        let making = cpu_time(ClockId::ThreadCPUTime).saturating_sub(start);
        self.making_ns.fetch_add(making.as_nanos() as u64, Relaxed);
        let bytes = content.len();
        let kind = if is_protobuf {
            METRIC_FAMILIES
        } else {
            "text/plain; version=0.0.4; charset=utf-8"
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{encoding}Content-Length: {bytes}\r\n\r\n"
        );
        let lag = lock(&self.woke).map_or(Duration::ZERO, |woke| woke.elapsed());
        let answer = Answer {
            target: index as u32,
            at_ms,
            us,
            lag_us: u32::try_from(lag.as_micros()).unwrap_or(u32::MAX),
            bytes: bytes as u32,
            samples: samples as u32,
            first_value: target.values()[0],
        };
        let both = [IoSlice::new(head.as_bytes()), IoSlice::new(content)];
        let sent = match stream.try_write_vectored(&both) {
            Err(e) if e.kind() == ErrorKind::WouldBlock => 0,
            sent => sent?,
        };
        let of_content = sent.saturating_sub(head.len());
        let rest = [
            &head.as_bytes()[sent.min(head.len())..],
            &content[of_content..],
        ];
        Ok((rest.concat(), Some(answer)))
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests;
