//! An Alertmanager that records what is posted to it, and answers as a test says.
//!
//! **Invariant:** a request is recorded whole, before it is answered.

use crate::Listener;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, atomic::AtomicBool};
use std::time::Duration;

const WHOLE: &str = "nothing panics while it holds the lock";

/// A request to an Alertmanager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertPost {
    /// Method and path, as in the request line.
    pub target: String,
    /// Header names in lower case, in order.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl AlertPost {
    /// Returns the first header of that name, given in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(found, _)| found == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// A server on a port of its own; it ends when dropped.
#[derive(Debug)]
pub struct Alertmanager {
    listener: Listener,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    posts: Vec<AlertPost>,
    /// Statuses of the next answers; 200 when there are none.
    statuses: VecDeque<u16>,
    is_held: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(WHOLE)
    }
}

impl Default for Alertmanager {
    fn default() -> Self {
        Self::start()
    }
}

impl Alertmanager {
    /// Starts on a free port of the loopback interface.
    ///
    /// # Panics
    ///
    /// When there is none.
    #[must_use]
    pub fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let serving = Arc::clone(&shared);
        let serve = move |stream, _: &AtomicBool| serve(stream, &serving);
        let listener = Listener::start("alertmanager", serve).expect("loopback has a free port");
        Self { listener, shared }
    }

    /// Returns `host:port`.
    #[must_use]
    pub fn address(&self) -> String {
        self.listener.address().to_string()
    }

    /// Sets the statuses of the next answers, one each.
    pub fn answer_with(&self, statuses: &[u16]) {
        self.shared.state().statuses.extend(statuses);
    }

    /// Records requests without answering them, until released.
    pub fn hold(&self) {
        self.shared.state().is_held = true;
    }

    /// Answers everything that is held.
    pub fn release(&self) {
        self.shared.state().is_held = false;
        self.shared.changed.notify_all();
    }

    /// Returns all requests so far.
    #[must_use]
    pub fn posts(&self) -> Vec<AlertPost> {
        self.shared.state().posts.clone()
    }

    /// Waits until there are `count` requests, and returns all.
    ///
    /// # Panics
    ///
    /// When they do not come within `limit`.
    #[must_use]
    pub fn wait_posts(&self, count: usize, limit: Duration) -> Vec<AlertPost> {
        let waiting = self.shared.changed.wait_timeout_while(
            self.shared.state(),
            limit,
            |state: &mut State| state.posts.len() < count,
        );
        let (state, _) = waiting.expect(WHOLE);
        let posts = state.posts.clone();
        // A panic that holds the lock would become another one when this is dropped.
        drop(state);
        assert!(
            posts.len() >= count,
            "only {} requests came: {posts:?}",
            posts.len()
        );
        posts
    }
}

impl Drop for Alertmanager {
    fn drop(&mut self) {
        self.release();
    }
}

/// Records and answers the requests of a connection.
fn serve(stream: TcpStream, shared: &Shared) {
    let mut stream = BufReader::new(stream);
    while let Some(post) = read_post(&mut stream) {
        let status = record(shared, post);
        let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n");
        if stream.get_mut().write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// Records a request and returns the status of its answer, once there may be one.
fn record(shared: &Shared, post: AlertPost) -> u16 {
    let mut state = shared.state();
    state.posts.push(post);
    let status = state.statuses.pop_front().unwrap_or(200);
    shared.changed.notify_all();
    let held = shared.changed.wait_while(state, |state| state.is_held);
    drop(held.expect(WHOLE));
    status
}

/// Reads a request with a length; `None` at the end of the connection.
fn read_post(stream: &mut BufReader<TcpStream>) -> Option<AlertPost> {
    let mut line = || {
        let mut text = String::new();
        stream.read_line(&mut text).ok().filter(|read| *read > 0)?;
        Some(text.trim_end().to_owned())
    };
    let first = line()?;
    let target = first.strip_suffix(" HTTP/1.1")?.to_owned();
    let mut headers = Vec::new();
    loop {
        let text = line()?;
        let Some((name, value)) = text.split_once(": ") else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.map_or(Some(0), |(_, value)| value.parse().ok())?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(AlertPost {
        target,
        headers,
        body: String::from_utf8(body).ok()?,
    })
}
