//! A connection's clock: its phase, and the deadline by which the client must proceed.
//!
//! Invariant: at any moment at most one read deadline applies, plus one for the pace of a request's body. It is the
//! head's while a head is awaited or read, the body's during a request body, the idle one between requests, and none
//! while a handler works; a write deadline applies exactly while a write waits for the client.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::pace::Pace;

const NEVER: u64 = u64::MAX;
/// How long a connection stays open after its last response if the client is still sending.
const LINGER: Duration = Duration::from_millis(500);
/// Most reads in a row, of at most 16 KiB each; a client that sends faster than we discard is cut.
const DISCARD_READS: usize = 512;

/// Deadlines of one connection, as milliseconds after its start.
///
/// Relaxed ordering suffices: the connection's own task reads and writes them, and a body read in another task only
/// removes a deadline, which may be seen late.
#[derive(Debug)]
pub(crate) struct Clock {
    start: Instant,
    read_ms: AtomicU64,
    /// Deadline for the pace of a request's body, within the total time in `read_ms`.
    body_ms: AtomicU64,
    write_ms: AtomicU64,
    /// Between a response's end and the next request's first byte.
    idle: AtomicBool,
    /// Before the first request's head is complete.
    unserved: AtomicBool,
    /// A request's body will not be read completely.
    linger: AtomicBool,
}

impl Clock {
    /// Starts in the phase of the first head.
    pub(crate) fn new(head_timeout: Duration) -> Self {
        let clock = Self {
            start: Instant::now(),
            read_ms: AtomicU64::new(NEVER),
            body_ms: AtomicU64::new(NEVER),
            write_ms: AtomicU64::new(NEVER),
            idle: AtomicBool::new(false),
            unserved: AtomicBool::new(true),
            linger: AtomicBool::new(false),
        };
        clock.read_by(head_timeout);
        clock
    }

    /// Ends the phase of a request's head; its body, if any, has `body_timeout`.
    ///
    /// Returns the phase's mark for [`Clock::body_done`].
    pub(crate) fn head_done(&self, body_timeout: Option<Duration>) -> u64 {
        self.idle.store(false, Relaxed);
        self.unserved.store(false, Relaxed);
        match body_timeout {
            Some(timeout) => self.read_by(timeout),
            None => {
                self.read_ms.store(NEVER, Relaxed);
                NEVER
            }
        }
    }

    /// Sets or clears the deadline of a body's reader that waits for the client.
    pub(crate) fn body_by(&self, deadline: Option<Instant>) {
        self.body_ms.store(self.millis(deadline), Relaxed);
    }

    /// Ends the body's phase after it was read or dropped; does nothing if a later phase has begun.
    pub(crate) fn body_done(&self, mark: u64) {
        self.body_by(None);
        let _later_phase = self.read_ms.compare_exchange(mark, NEVER, Relaxed, Relaxed);
    }

    /// Starts the idle phase after the whole response was handed over.
    pub(crate) fn answered(&self, idle_timeout: Duration) {
        self.idle.store(true, Relaxed);
        self.read_by(idle_timeout);
    }

    /// Records that a request's body was left unread: closing must wait for the client to see the response.
    pub(crate) fn linger(&self) {
        self.linger.store(true, Relaxed);
    }

    pub(crate) fn is_lingering(&self) -> bool {
        self.linger.load(Relaxed)
    }

    pub(crate) fn has_served_nothing(&self) -> bool {
        self.unserved.load(Relaxed)
    }

    fn received(&self, head_timeout: Duration) {
        if self.idle.load(Relaxed) {
            self.idle.store(false, Relaxed);
            self.read_by(head_timeout);
        }
    }

    fn read_by(&self, timeout: Duration) -> u64 {
        let at = self.after(timeout);
        self.read_ms.store(at, Relaxed);
        at
    }

    fn after(&self, timeout: Duration) -> u64 {
        let at = self.start.elapsed().saturating_add(timeout).as_millis();
        u64::try_from(at).unwrap_or(NEVER)
    }

    fn millis(&self, deadline: Option<Instant>) -> u64 {
        let after = deadline.map(|at| at.saturating_duration_since(self.start).as_millis());
        after.map_or(NEVER, |millis| u64::try_from(millis).unwrap_or(NEVER))
    }

    fn deadline(&self) -> Option<Instant> {
        let reading = self.read_ms.load(Relaxed).min(self.body_ms.load(Relaxed));
        let at = reading.min(self.write_ms.load(Relaxed));
        (at != NEVER)
            .then(|| self.start.checked_add(Duration::from_millis(at)))
            .flatten()
    }
}

/// Completes when a deadline of the clock has passed.
///
/// Polled after the connection in the same task, so it sees each earlier deadline as it is set; a later one is
/// noticed when the timer fires, which saves re-arming it three times per request.
#[derive(Debug)]
pub(crate) struct Watchdog {
    clock: Arc<Clock>,
    timer: Pin<Box<Sleep>>,
    armed: Option<Instant>,
}

impl Watchdog {
    pub(crate) fn new(clock: Arc<Clock>) -> Self {
        let timer = Box::pin(tokio::time::sleep_until(Instant::now()));
        Self {
            clock,
            timer,
            armed: None,
        }
    }

    pub(crate) fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let deadline = self.clock.deadline();
            if let Some(at) = deadline
                && self.armed.is_none_or(|armed| at < armed)
            {
                self.timer.as_mut().reset(at);
                self.armed = Some(at);
            }
            if self.armed.is_none() {
                return Poll::Pending;
            }
            if self.timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            if deadline.is_some_and(|at| at <= Instant::now()) {
                return Poll::Ready(());
            }
            self.armed = None;
        }
    }
}

/// The connection's socket or TLS stream, with the clock.
#[derive(Debug)]
pub(crate) struct TimedIo<S> {
    io: TokioIo<S>,
    clock: Arc<Clock>,
    head_timeout: Duration,
    write_timeout: Duration,
    pace: Pace,
    shut: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> TimedIo<S> {
    pub(crate) fn new(
        stream: S,
        clock: Arc<Clock>,
        head_timeout: Duration,
        write_timeout: Duration,
        pace: Pace,
    ) -> Self {
        Self {
            io: TokioIo::new(stream),
            clock,
            head_timeout,
            write_timeout,
            pace,
            shut: false,
        }
    }

    /// Reads and discards the client's input until it closes or the clock's limit.
    ///
    /// Closing a socket with unread input makes the kernel reset the connection, and the reset may overtake the
    /// response that explains the error.
    fn poll_discard(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut scratch = [0; 16 << 10];
        for _turn in 0..DISCARD_READS {
            let mut buffer = ReadBuf::new(&mut scratch);
            let read = Pin::new(self.io.inner_mut()).poll_read(context, &mut buffer);
            if ready!(read).is_err() || buffer.filled().is_empty() {
                break;
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Updates the write deadline: the client must accept something within the stall timeout, and as much as its pace
    /// requires.
    fn wrote(&mut self, result: &Poll<io::Result<usize>>) {
        match result {
            Poll::Pending if self.pace.is_waiting() => {}
            Poll::Pending => {
                let now = Instant::now();
                let stalled = now + self.write_timeout;
                let slow = self.pace.wait(now).unwrap_or(stalled);
                let at = self.clock.millis(Some(stalled.min(slow)));
                self.clock.write_ms.store(at, Relaxed);
            }
            Poll::Ready(Ok(bytes)) if self.pace.is_waiting() => {
                self.pace.moved(Instant::now(), *bytes);
                self.clock.write_ms.store(NEVER, Relaxed);
            }
            // Nobody waited, so the time does not matter.
            Poll::Ready(Ok(bytes)) => self.pace.moved(self.clock.start, *bytes),
            Poll::Ready(Err(_broken)) => self.clock.write_ms.store(NEVER, Relaxed),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Read for TimedIo<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.io).poll_read(context, buffer);
        if matches!(result, Poll::Ready(Ok(()))) {
            this.clock.received(this.head_timeout);
        }
        result
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Write for TimedIo<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.io).poll_write(context, bytes);
        this.wrote(&result);
        result
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.io).poll_write_vectored(context, slices);
        this.wrote(&result);
        result
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.shut {
            ready!(Pin::new(&mut this.io).poll_shutdown(context))?;
            this.shut = true;
            this.clock.read_by(LINGER);
        }
        if this.clock.is_lingering() {
            this.poll_discard(context)
        } else {
            Poll::Ready(Ok(()))
        }
    }
}
