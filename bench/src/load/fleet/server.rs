//! The fleet's server: one thread answers `/metrics` of every target, each on its own loopback address.
//!
//! A target advances by one round with every scrape, so values change however often it is scraped. The cost and time of
//! each scrape are recorded, as the outside view of a server's schedule.
//! **Invariant:** listens on 127.1.0.0/16 only; a response is one complete round.

use super::{
    body::Body,
    clock::now_ms,
    config::FleetConfig,
    page::{MEDIA_TYPE, Scratch},
    shape::{NATIVE_FAMILY, Series, Shape},
};
use crate::{
    harness::{error::BenchError, measure::cpu_time, sync::lock},
    load::{gzip::Gzip, protobuf::METRIC_FAMILIES},
};
use rustix::{
    buffer::spare_capacity,
    event::{Timespec, epoll},
    net::sockopt,
    process::{Resource, getrlimit, setrlimit},
    time::ClockId,
};
use std::{
    io::{self, ErrorKind, IoSlice, Read, Write},
    net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
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
    /// When the request was read, since the epoch.
    pub(crate) at_ms: i64,
    /// Time from the wake-up for the request to the first byte of the response.
    pub(crate) lag_us: u32,
    pub(crate) bytes: u32,
    pub(crate) samples: u32,
    /// The value of the target's first series.
    pub(crate) first_value: f64,
}

/// A running fleet; it stops on drop.
#[derive(Debug)]
pub(crate) struct FleetServer {
    config: FleetConfig,
    addresses: Vec<SocketAddrV4>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    thread_id: AtomicI32,
    making_ns: AtomicU64,
    /// Replacements of targets, until the thread applies them.
    replaced: Mutex<Vec<(usize, Body)>>,
    has_replaced: AtomicBool,
    answers: Mutex<Vec<Answer>>,
}

impl FleetServer {
    /// Prepares every target's text, binds every address and starts serving.
    pub(crate) fn start(config: FleetConfig) -> Result<Self, BenchError> {
        let shared = Arc::new(Shared::default());
        raise_file_limit(config.targets)?;
        let listeners =
            bind(config.targets).map_err(BenchError::io("bind the fleet's addresses"))?;
        let addresses = listeners.iter().map(|(address, _)| *address).collect();
        let listeners = listeners.into_iter().map(|(_, listener)| listener);
        let mut server = Loop::new(config, listeners.collect(), Arc::clone(&shared))
            .map_err(BenchError::io("prepare the fleet"))?;
        let thread = thread::Builder::new()
            .name("fleet".to_owned())
            .spawn(move || server.run())
            .map_err(BenchError::io("start the fleet"))?;
        Ok(Self {
            config,
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
            let shared = bodies.first().map(|(_, body)| body);
            let body = Body::new(&self.config, place, generation, shared);
            bodies.push((place, body));
        }
        lock(&self.shared.replaced).append(&mut bodies);
        self.shared.has_replaced.store(true, Relaxed);
    }

    /// Returns the CPU time of generating texts, without sending them.
    pub(crate) fn making(&self) -> Duration {
        Duration::from_nanos(self.shared.making_ns.load(Relaxed))
    }

    /// Returns the number of a target's native histograms in the first family.
    pub(crate) fn first_family(&self) -> usize {
        let series = Series::new(self.config.shape, 0, 0, self.config.series);
        series.native_count().min(NATIVE_FAMILY)
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
        self.shared.stop.store(true, Relaxed);
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

/// The serving thread's state. Events carry the target's index for a listener, `targets + slot` for a connection.
struct Loop {
    config: FleetConfig,
    epoll: rustix::fd::OwnedFd,
    listeners: Vec<TcpListener>,
    targets: Vec<Body>,
    connections: Vec<Option<Connection>>,
    gzip: Gzip,
    /// The text of the response being generated, in the processor's cache because its memory is reused.
    text: Vec<u8>,
    scratch: Scratch,
    shared: Arc<Shared>,
}

struct Connection {
    stream: TcpStream,
    target: usize,
    input: Vec<u8>,
    sending: Option<Sending>,
}

/// Bytes for which the socket had no room.
struct Sending {
    rest: Vec<u8>,
    sent: usize,
    /// `None` for a response that is not a scrape.
    answer: Option<Answer>,
}

/// Whether a connection stays open.
#[derive(PartialEq)]
enum Next {
    Wait,
    Close,
}

impl Loop {
    fn new(
        config: FleetConfig,
        listeners: Vec<TcpListener>,
        shared: Arc<Shared>,
    ) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (index, listener) in listeners.iter().enumerate() {
            listener.set_nonblocking(true)?;
            sockopt::set_socket_send_buffer_size(listener, SEND_BUFFER)?;
            let token = epoll::EventData::new_u64(index as u64);
            epoll::add(&epoll, listener, token, epoll::EventFlags::IN)?;
        }
        Ok(Self {
            config,
            epoll,
            listeners,
            targets: Body::fleet(&config),
            connections: Vec::new(),
            // The fastest level.
            gzip: Gzip::new(1),
            text: Vec::new(),
            scratch: Scratch::default(),
            shared,
        })
    }

    fn run(&mut self) -> io::Result<()> {
        let id = rustix::thread::gettid().as_raw_nonzero().get();
        self.shared.thread_id.store(id, Relaxed);
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: 50_000_000,
        };
        let mut events = Vec::with_capacity(256);
        while !self.shared.stop.load(Relaxed) {
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout)) {
                Err(rustix::io::Errno::INTR) => continue,
                other => other?,
            };
            let woke = Instant::now();
            self.replace_targets();
            for event in &events {
                let token = event.data.u64() as usize;
                match token.checked_sub(self.listeners.len()) {
                    None => self.accept(token)?,
                    Some(slot) => self.serve(slot, woke),
                }
            }
        }
        Ok(())
    }

    fn replace_targets(&mut self) {
        if !self.shared.has_replaced.swap(false, Relaxed) {
            return;
        }
        for (place, body) in lock(&self.shared.replaced).drain(..) {
            self.targets[place] = body;
        }
    }

    fn accept(&mut self, target: usize) -> io::Result<()> {
        let stream = match self.listeners[target].accept() {
            Ok((stream, _)) => stream,
            // The client left before it was accepted.
            Err(e)
                if matches!(
                    e.kind(),
                    ErrorKind::WouldBlock | ErrorKind::ConnectionAborted
                ) =>
            {
                return Ok(());
            }
            Err(e) => return Err(e),
        };
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let free = self.connections.iter().position(Option::is_none);
        let slot = free.unwrap_or(self.connections.len());
        let token = epoll::EventData::new_u64((self.listeners.len() + slot) as u64);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        epoll::add(&self.epoll, &stream, token, flags)?;
        if slot == self.connections.len() {
            self.connections.push(None);
        }
        self.connections[slot] = Some(Connection {
            stream,
            target,
            input: Vec::new(),
            sending: None,
        });
        Ok(())
    }

    fn serve(&mut self, slot: usize, woke: Instant) {
        // Closed by an earlier event of the same wake-up.
        let Some(mut connection) = self.connections[slot].take() else {
            return;
        };
        // A killed server resets its connections: nothing to report.
        if matches!(self.go_on(&mut connection, woke), Ok(Next::Wait)) {
            self.connections[slot] = Some(connection);
        }
    }

    /// Sends pending bytes, then reads and answers requests until the socket blocks on either.
    fn go_on(&mut self, connection: &mut Connection, woke: Instant) -> io::Result<Next> {
        loop {
            if let Some(sending) = &mut connection.sending {
                if !sending.go_on(&mut connection.stream)? {
                    return Ok(Next::Wait);
                }
                self.done(sending.answer);
                connection.sending = None;
            }
            let end = find(&connection.input, b"\r\n\r\n").map(|at| at + 4);
            let Some(end) = end else {
                let mut buffer = [0; 4096];
                match connection.stream.read(&mut buffer) {
                    Ok(0) => return Ok(Next::Close),
                    Ok(_) if connection.input.len() > MAX_HEAD => return Ok(Next::Close),
                    Ok(n) => connection.input.extend_from_slice(&buffer[..n]),
                    Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(Next::Wait),
                    Err(e) => return Err(e),
                }
                continue;
            };
            let request = &connection.input[..end];
            connection.sending =
                self.answer(request, connection.target, &mut connection.stream, woke)?;
            connection.input.drain(..end);
        }
    }

    /// Records a response that was sent to its last byte.
    fn done(&self, answer: Option<Answer>) {
        lock(&self.shared.answers).extend(answer);
    }

    /// Answers one request; returns the unsent rest.
    fn answer(
        &mut self,
        request: &[u8],
        index: usize,
        stream: &mut TcpStream,
        woke: Instant,
    ) -> io::Result<Option<Sending>> {
        if !request.starts_with(b"GET /metrics ") {
            return Ok(Some(Sending::refusal("404 Not Found")));
        }
        let is_protobuf = self.config.shape == Shape::Native;
        if is_protobuf && find(request, MEDIA_TYPE.as_bytes()).is_none() {
            return Ok(Some(Sending::refusal("406 Not Acceptable")));
        }
        let target = &mut self.targets[index];
        let start = cpu_time(ClockId::ThreadCPUTime);
        let at_ms = now_ms();
        let stamp_ms = self.config.clock.map_or(at_ms, |clock| clock.at(at_ms));
        let samples = target.next(stamp_ms, &mut self.text, &mut self.scratch);
        let is_packed = self.config.gzip && find(request, b"gzip").is_some();
        let (content, encoding) = match is_packed {
            true => (self.gzip.pack(&self.text), "Content-Encoding: gzip\r\n"),
            false => (self.text.as_slice(), ""),
        };
        let making = cpu_time(ClockId::ThreadCPUTime).saturating_sub(start);
        self.shared
            .making_ns
            .fetch_add(making.as_nanos() as u64, Relaxed);
        let bytes = content.len();
        let kind = if is_protobuf {
            METRIC_FAMILIES
        } else {
            "text/plain; version=0.0.4; charset=utf-8"
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{encoding}Content-Length: {bytes}\r\n\r\n"
        );
        let answer = Answer {
            target: index as u32,
            at_ms,
            lag_us: u32::try_from(woke.elapsed().as_micros()).unwrap_or(u32::MAX),
            bytes: bytes as u32,
            samples: samples as u32,
            first_value: target.values()[0],
        };
        let sent =
            match stream.write_vectored(&[IoSlice::new(head.as_bytes()), IoSlice::new(content)]) {
                Ok(sent) => sent,
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => 0,
                Err(e) => return Err(e),
            };
        if sent == head.len() + bytes {
            self.done(Some(answer));
            return Ok(None);
        }
        let mut rest = head.into_bytes();
        rest.extend_from_slice(content);
        Ok(Some(Sending {
            rest,
            sent,
            answer: Some(answer),
        }))
    }
}

impl Sending {
    /// An answer without a body.
    fn refusal(status: &str) -> Self {
        Self {
            rest: format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").into_bytes(),
            sent: 0,
            answer: None,
        }
    }

    /// Writes as much as the socket accepts; returns whether that was everything.
    fn go_on(&mut self, stream: &mut TcpStream) -> io::Result<bool> {
        while self.sent < self.rest.len() {
            match stream.write(&self.rest[self.sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests;
