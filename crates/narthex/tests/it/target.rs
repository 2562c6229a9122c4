//! A target with known pages: a small HTTP server inside the test.
//!
//! **Invariant:** page `n` is the result of `page(n)`, `n` rises by one with every scrape from 1, and the time of each
//! request is recorded.

use narthex_model::sync::Whole as _;
use std::{
    io::{BufRead, BufReader, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{SystemTime, UNIX_EPOCH},
};

/// A target's response.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) body: Vec<u8>,
}

impl From<String> for Reply {
    fn from(page: String) -> Self {
        Self {
            status: 200,
            content_type: "text/plain; version=0.0.4",
            body: page.into_bytes(),
        }
    }
}

/// Returns a page by its number.
pub(crate) type Page = dyn Fn(u64) -> Reply + Send + Sync;

/// A running target. Dropping it closes it and all its connections.
pub(crate) struct Target {
    /// `127.0.0.1:port`.
    pub(crate) address: String,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    page: Box<Page>,
    /// Times of the requests for each page, in milliseconds since the epoch.
    asked_ms: Mutex<Vec<i64>>,
    connections: Mutex<Vec<TcpStream>>,
    stop: AtomicBool,
}

impl Target {
    /// Starts a target on a free port that serves pages of text.
    pub(crate) fn start(page: impl Fn(u64) -> String + Send + Sync + 'static) -> Self {
        Self::answering(move |number| page(number).into())
    }

    /// Starts a target on a free port.
    pub(crate) fn answering(page: impl Fn(u64) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let shared = Arc::new(Shared {
            page: Box::new(page),
            asked_ms: Mutex::default(),
            connections: Mutex::default(),
            stop: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&shared);
        let accepting = thread::spawn(move || of_thread.accept(&listener));
        Self {
            address,
            shared,
            accepting: Some(accepting),
        }
    }

    /// Returns the time of the request for page `n`, in milliseconds since the epoch, if there was one.
    pub(crate) fn asked_ms(&self, n: u64) -> Option<i64> {
        let index = usize::try_from(n).ok()?.checked_sub(1)?;
        self.shared.asked().get(index).copied()
    }

    /// Returns the number of connections made.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections().len()
    }

    /// Returns the number of pages requested.
    pub(crate) fn count(&self) -> u64 {
        self.shared.asked().len() as u64
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        // Wakes the accepting thread; a failure means that it has ended already.
        drop(TcpStream::connect(&self.address));
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        for connection in self.shared.connections().iter() {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

impl Shared {
    fn asked(&self) -> std::sync::MutexGuard<'_, Vec<i64>> {
        self.asked_ms.lock().whole()
    }

    fn connections(&self) -> std::sync::MutexGuard<'_, Vec<TcpStream>> {
        self.connections.lock().whole()
    }

    fn accept(self: Arc<Self>, listener: &TcpListener) {
        for stream in listener.incoming().map_while(Result::ok) {
            if self.stop.load(Ordering::Acquire) {
                return;
            }
            let Ok(copy) = stream.try_clone() else { return };
            self.connections().push(copy);
            let shared = Arc::clone(&self);
            thread::spawn(move || shared.answer_all(&stream));
        }
    }

    /// Answers a connection's requests until it closes.
    fn answer_all(&self, stream: &TcpStream) {
        let mut lines = BufReader::new(stream).lines();
        loop {
            let head: Vec<String> = lines
                .by_ref()
                .map_while(Result::ok)
                .take_while(|line| !line.is_empty())
                .collect();
            if head.is_empty() {
                return;
            }
            let number = {
                let mut asked = self.asked();
                asked.push(now_ms());
                asked.len() as u64
            };
            let reply = (self.page)(number);
            let mut answer = format!(
                "HTTP/1.1 {} Status\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n",
                reply.status,
                reply.content_type,
                reply.body.len()
            )
            .into_bytes();
            answer.extend(reply.body);
            if (&mut &*stream).write_all(&answer).is_err() {
                return;
            }
        }
    }
}

/// Returns the current time in milliseconds since the epoch.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("it is after 1970");
    i64::try_from(since.as_millis()).expect("milliseconds of this century")
}
