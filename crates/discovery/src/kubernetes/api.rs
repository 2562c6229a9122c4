//! Lists and watches: a kind's objects, then each change to them, until the receiver is gone.
//!
//! Invariant: the events after a list are exactly the changes after it. When that is impossible (the API forgot the
//! version, or an event could not be parsed), the list is fetched again and replaces everything.

use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, HeaderValue};
use narthex_net::{Client, Request, StreamedResponse, Url, percent::escape_component};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::cluster_state::{Event, event};
use super::resource::{Change, Resource};
use crate::error::DiscoveryError;
use crate::metrics;

/// Objects requested at once.
const PAGE: u32 = 500;
const LIST_TIMEOUT: Duration = Duration::from_mins(1);
const LIST_LIMIT_BYTES: usize = 256 << 20;
const WATCH_HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Minimum duration of one watch before it is renewed; the maximum is twice that.
const WATCH_SECONDS: u64 = 300;
/// Maximum length of an event.
const EVENT_LIMIT_BYTES: usize = 16 << 20;
const FIRST_PAUSE: Duration = Duration::from_millis(800);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A watch that ends sooner than this counts as failed.
const SHORT_WATCH: Duration = Duration::from_secs(1);
/// The API's code for "that version is too old".
const GONE: u16 = 410;

/// A cluster's API.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) client: Client,
    /// URL without a trailing slash.
    pub(crate) base: String,
}

/// A list and watch.
#[derive(Debug, Clone)]
pub(crate) struct Query {
    pub(crate) path: String,
    pub(crate) namespace: String,
    pub(crate) labels: String,
    pub(crate) fields: String,
}

#[derive(Debug, Deserialize)]
#[serde(bound = "K: Resource")]
struct List<K> {
    #[serde(default)]
    metadata: ListMeta,
    items: Option<Vec<K>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListMeta {
    resource_version: String,
    #[serde(rename = "continue")]
    next: Option<String>,
}

#[derive(Deserialize)]
struct WatchEvent<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// The fields of an object that a bookmark or an error has.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Bare {
    metadata: ListMeta,
    code: u16,
    message: String,
}

/// Reason that a list or watch ended.
#[derive(Debug)]
enum Failure {
    /// The requested version is too old.
    Gone,
    Other(DiscoveryError),
}

impl From<DiscoveryError> for Failure {
    fn from(error: DiscoveryError) -> Self {
        Self::Other(error)
    }
}

impl From<narthex_net::NetError> for Failure {
    fn from(error: narthex_net::NetError) -> Self {
        Self::Other(error.into())
    }
}

/// Lists and watches until the receiver is gone.
pub(crate) async fn follow<K: Resource>(api: Arc<Api>, query: Query, events: mpsc::Sender<Event>) {
    let mut pauses = Pauses::new();
    let mut version: Option<String> = None;
    loop {
        let (start, is_list) = (Instant::now(), version.is_none());
        let ended = if let Some(seen) = &mut version {
            api.watch::<K>(&query, seen, &events).await
        } else {
            let listed = api.list::<K>(&query, &events).await;
            listed.map(|listed| version = Some(listed))
        };
        if events.is_closed() {
            return;
        }
        match ended {
            Ok(()) if is_list || start.elapsed() >= SHORT_WATCH => {
                pauses.reset();
                continue;
            }
            Ok(()) => {}
            Err(failure) => {
                metrics::KUBERNETES_FAILURES.inc();
                match failure {
                    // List again, but not in a tight loop if the API is never satisfied.
                    Failure::Gone => {
                        version = None;
                        tracing::debug!(path = query.path, "Listing anew.");
                    }
                    Failure::Other(error) => {
                        tracing::warn!(%error, path = query.path, "Kubernetes API request failed.");
                    }
                }
            }
        }
        tokio::time::sleep(pauses.next()).await;
    }
}

impl Api {
    /// Sends every object; returns the version from which a watch continues.
    async fn list<K: Resource>(
        &self,
        query: &Query,
        events: &mpsc::Sender<Event>,
    ) -> Result<String, Failure> {
        let mut objects = Vec::new();
        let mut next: Option<String> = None;
        let mut body = Vec::new();
        loop {
            let limit = PAGE.to_string();
            let mut parameters = vec![("limit", limit.as_str())];
            if let Some(next) = &next {
                parameters.push(("continue", next));
            }
            let mut request = self.request(query, &parameters)?;
            request.timeout = LIST_TIMEOUT;
            request.body_limit_bytes = LIST_LIMIT_BYTES;
            let start = Instant::now();
            let head = self.client.get(&request, &mut body).await;
            count(query, head.as_ref().ok().map(|head| head.status), start);
            refuse(head?.status, &body)?;
            let page: List<K> =
                serde_json::from_slice(&body).map_err(|error| parse(query, &error))?;
            objects.extend(page.items.unwrap_or_default());
            next = page.metadata.next.filter(|next| !next.is_empty());
            if next.is_none() {
                let change = Change::Replaced {
                    namespace: query.namespace.clone(),
                    objects,
                };
                // The caller looks whether anybody is left to get it.
                let _ = events.send(event(change)).await;
                return Ok(page.metadata.resource_version);
            }
        }
    }

    /// Sends changes after `version`, updating it; returns when the API ends the watch.
    async fn watch<K: Resource>(
        &self,
        query: &Query,
        version: &mut String,
        events: &mpsc::Sender<Event>,
    ) -> Result<(), Failure> {
        // Randomised, so that the servers' watches are not all renewed at the same time.
        let seconds = WATCH_SECONDS + random(WATCH_SECONDS);
        let text = seconds.to_string();
        let parameters = [
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", version.as_str()),
            ("timeoutSeconds", text.as_str()),
        ];
        let mut request = self.request(query, &parameters)?;
        request.timeout = WATCH_HEAD_TIMEOUT;
        let start = Instant::now();
        let opened = self.client.open(&request).await;
        let status = opened.as_ref().ok().map(|answer| answer.head().status);
        count(query, status, start);
        let mut answer = opened?;
        let mut lines = Lines::default();
        let quiet = Duration::from_secs(seconds) + WATCH_HEAD_TIMEOUT;
        if answer.head().status != 200 {
            // Reading the error is worth a moment, no more.
            let reading = read_error(&mut answer, &mut lines.buffer);
            let _partly = tokio::time::timeout(WATCH_HEAD_TIMEOUT, reading).await;
            refuse(answer.head().status, &lines.buffer)?;
        }
        loop {
            while let Some(line) = lines.next()? {
                if let Some(change) = read_event::<K>(line, query, version)?
                    && events.send(event(change)).await.is_err()
                {
                    return Ok(());
                }
            }
            let more = tokio::time::timeout(quiet, answer.next(&mut lines.buffer)).await;
            match more {
                Ok(Ok(true)) => {}
                // An API that restarts disconnects midway; requesting again loses nothing.
                Ok(Ok(false) | Err(_)) => return Ok(()),
                Err(_elapsed) => return Err(answer_error("a watch fell silent").into()),
            }
        }
    }

    fn request(&self, query: &Query, parameters: &[(&str, &str)]) -> Result<Request, Failure> {
        let mut url = format!("{}{}?", self.base, query.path);
        let selectors = [
            ("labelSelector", query.labels.as_str()),
            ("fieldSelector", query.fields.as_str()),
        ];
        let given = selectors.iter().filter(|(_, value)| !value.is_empty());
        for (at, (name, value)) in parameters.iter().chain(given).enumerate() {
            if at > 0 {
                url.push('&');
            }
            url.push_str(name);
            url.push('=');
            url.push_str(&escape_component(value));
        }
        let mut request = Request::new(Url::parse(&url)?);
        request
            .headers
            .insert(ACCEPT, HeaderValue::from_static("application/json"));
        Ok(request)
    }
}

/// The lines of a watch, as they arrive.
#[derive(Debug, Default)]
struct Lines {
    /// Bytes received and not dropped yet; more are appended here.
    buffer: Vec<u8>,
    /// End of the lines already returned.
    taken: usize,
    /// End of the part known to contain no further newline.
    searched: usize,
}

impl Lines {
    /// Returns the next complete line without its newline; `None` until more has arrived.
    fn next(&mut self) -> Result<Option<&[u8]>, Failure> {
        let Some(end) = find_line(&self.buffer, self.searched) else {
            // Dropped once per batch: dropping each line would move the rest each time.
            self.buffer.drain(..self.taken);
            self.taken = 0;
            self.searched = self.buffer.len();
            if self.searched > EVENT_LIMIT_BYTES {
                return Err(answer_error("an event is longer than 16 MiB").into());
            }
            return Ok(None);
        };
        let start = std::mem::replace(&mut self.taken, end + 1);
        self.searched = end + 1;
        Ok(self.buffer.get(start..end))
    }
}

/// Parses one line of a watch; the inner `None` is a bookmark or an empty line.
fn read_event<K: Resource>(
    line: &[u8],
    query: &Query,
    version: &mut String,
) -> Result<Option<Change<K>>, Failure> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    // An event that cannot be parsed is lost: only a new list can make up for it.
    let lost = |error: &serde_json::Error| {
        let path = &query.path;
        tracing::warn!(%error, path, "Unreadable event, listing anew.");
        Failure::Gone
    };
    let event: WatchEvent<'_> = serde_json::from_slice(line).map_err(|error| lost(&error))?;
    let bare: Bare = serde_json::from_str(event.object.get()).map_err(|error| lost(&error))?;
    if event.kind == "ERROR" {
        return match bare.code {
            GONE => Err(Failure::Gone),
            code => Err(answer_error(format!("watch: {code}: {}", bare.message)).into()),
        };
    }
    if !bare.metadata.resource_version.is_empty() {
        version.clone_from(&bare.metadata.resource_version);
    }
    let object = || serde_json::from_str::<K>(event.object.get()).map_err(|error| lost(&error));
    Ok(match event.kind {
        "ADDED" | "MODIFIED" => Some(Change::Applied(object()?)),
        "DELETED" => Some(Change::Deleted(object()?.meta().key())),
        _ => None,
    })
}

async fn read_error(answer: &mut StreamedResponse, buffer: &mut Vec<u8>) {
    while buffer.len() < 64 << 10 {
        match answer.next(buffer).await {
            Ok(true) => {}
            _ => return,
        }
    }
}

/// Returns the API's error if it rejects the request.
fn refuse(status: u16, body: &[u8]) -> Result<(), Failure> {
    match status {
        200 => Ok(()),
        GONE => Err(Failure::Gone),
        status => {
            let said: Bare = serde_json::from_slice(body).unwrap_or_default();
            let text = if said.message.is_empty() {
                format!("the API answered with status {status}")
            } else {
                format!("the API answered with status {status}: {}", said.message)
            };
            Err(answer_error(text).into())
        }
    }
}

fn parse(query: &Query, error: &serde_json::Error) -> DiscoveryError {
    DiscoveryError::Parse {
        what: query.path.clone(),
        message: error.to_string(),
    }
}

fn answer_error(message: impl Into<String>) -> DiscoveryError {
    DiscoveryError::Answer {
        message: message.into(),
    }
}

fn count(query: &Query, status: Option<u16>, start: Instant) {
    let code = status.map_or("<error>".to_owned(), |status| status.to_string());
    metrics::KUBERNETES_REQUESTS.update(&[&code], |c| c.inc());
    let seconds = start.elapsed().as_secs_f64();
    metrics::KUBERNETES_REQUEST_DURATION.update(&[&query.path], |s| s.observe(seconds));
}

fn find_line(buffer: &[u8], from: usize) -> Option<usize> {
    let rest = buffer.get(from..)?;
    rest.iter().position(|b| *b == b'\n').map(|at| from + at)
}

/// Pauses between attempts: doubling, each randomly up to twice as long.
struct Pauses {
    next: Duration,
}

impl Pauses {
    fn new() -> Self {
        Self { next: FIRST_PAUSE }
    }

    fn reset(&mut self) {
        self.next = FIRST_PAUSE;
    }

    fn next(&mut self) -> Duration {
        let base = self.next;
        self.next = (base * 2).min(LONGEST_PAUSE);
        let spread = u64::try_from(base.as_millis()).unwrap_or(u64::MAX);
        base + Duration::from_millis(random(spread))
    }
}

/// Returns a number below `end`, different in every process; nothing depends on its quality.
fn random(end: u64) -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0u8) % end.max(1)
}

/// Splits a watch that arrives in pieces of this size into lines, for the fuzz target.
pub(crate) fn fuzz_lines(data: &[u8], piece_bytes: usize) -> Vec<Vec<u8>> {
    let mut lines = Lines::default();
    let mut found = Vec::new();
    for piece in data.chunks(piece_bytes.max(1)) {
        lines.buffer.extend_from_slice(piece);
        while let Ok(Some(line)) = lines.next() {
            found.push(line.to_vec());
        }
        assert!(lines.buffer.len() <= data.len() && !lines.buffer.contains(&b'\n'));
    }
    found
}

/// Parses a list and a watch's lines, for the fuzz target.
pub(crate) fn fuzz_read<K: Resource>(data: &[u8]) {
    let query = Query {
        path: "/x".to_owned(),
        namespace: String::new(),
        labels: String::new(),
        fields: String::new(),
    };
    let _list = serde_json::from_slice::<List<K>>(data);
    let mut version = String::new();
    for line in data.split(|b| *b == b'\n') {
        let _event = read_event::<K>(line, &query, &mut version);
    }
}
