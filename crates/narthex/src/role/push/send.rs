//! Sends a push, again and again while the gateway is busy or does not answer.
//!
//! **Invariant:** what the gateway refuses for good is not sent again; a push that is added to others has a name, so
//! that sending it again does not count twice.

use super::{Action, Compression, PushCommand, Target};
use crate::cli::PushFlags;
use crate::role::console::Console;
use crate::server_client::{Answer, ServerClient, block_on};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use narthex_model::duration;
use narthex_net::{NetError, Request, ResponseHead};
use narthex_push::{Merge, Timestamps};
use std::{
    hash::{BuildHasher as _, RandomState},
    time::{Duration, Instant},
};

/// Pause before the second attempt; each further one is twice as long, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What became of a push.
#[derive(Debug)]
pub(super) struct Outcome {
    /// Groups that were stored and refused.
    pub(super) stored: u64,
    pub(super) refused: u64,
    pub(super) took: Duration,
    /// Length of the request's body.
    pub(super) bytes: usize,
}

/// What is sent.
struct Sending<'a> {
    command: &'a PushCommand,
    server: ServerClient,
    request: Request,
    content: Vec<u8>,
}

/// A response that is not success.
struct Refusal {
    reason: String,
    /// Whether another attempt may succeed.
    is_passing: bool,
    retry_after: Option<Duration>,
}

/// Pushes what was merged; the error says why nothing was stored.
pub(super) fn push(
    command: &PushCommand,
    merge: &Merge,
    console: &mut Console<'_>,
) -> Result<Outcome, String> {
    let start = Instant::now();
    let sending = Sending::new(command, &merge.render())?;
    let bytes = sending.content.len();
    console.progress(&format!("pushing {} series, {bytes} bytes", merge.series()))?;
    let (status, body) = sending.send(console)?;
    let (stored, refused) = match &command.target {
        Target::Groups(_) => batch(&body, console)?,
        Target::Group(_) if (200..300).contains(&status) => (1, 0),
        Target::Group(_) => return Err(told(status, &body)),
    };
    Ok(Outcome {
        stored,
        refused,
        took: start.elapsed(),
        bytes,
    })
}

/// Deletes the group; the error says why it is still there.
pub(super) fn delete(command: &PushCommand, console: &mut Console<'_>) -> Result<(), String> {
    match Sending::new(command, &[])?.send(console)? {
        (200..=299, _) => Ok(()),
        (status, body) => Err(told(status, &body)),
    }
}

impl<'a> Sending<'a> {
    fn new(command: &'a PushCommand, page: &[u8]) -> Result<Self, String> {
        let flags = &command.flags;
        let server = ServerClient::open(&flags.gateway, flags.http_config.as_deref())?;
        let path = match &command.target {
            Target::Group(grouping) => format!("/{}", grouping.path(false)),
            Target::Groups(_) => "/api/v1/push".to_owned(),
        };
        let mut request = server.request(&path, flags.timeout)?;
        let content = content(command, page, &mut request.headers);
        headers(command, &mut request.headers)?;
        Ok(Self {
            command,
            server,
            request,
            content,
        })
    }

    fn send(&self, console: &mut Console<'_>) -> Result<Answer, String> {
        block_on(self.attempts(console)).map_err(|error| error.to_string())?
    }

    /// Sends until there is an answer that another attempt would not change; returns its status and body.
    async fn attempts(&self, console: &mut Console<'_>) -> Result<Answer, String> {
        let end = Instant::now() + self.command.flags.max_time;
        let mut pause = FIRST_PAUSE;
        loop {
            let mut body = Vec::new();
            let refusal = match self.once(&mut body).await {
                Ok(head) => match Refusal::of_answer(&head, &body) {
                    Some(refusal) => refusal,
                    None => return Ok((head.status, body)),
                },
                Err(error) => Refusal {
                    is_passing: !matches!(error, NetError::Config { .. }),
                    reason: error.to_string(),
                    retry_after: None,
                },
            };
            let wait = refusal.retry_after.unwrap_or_else(|| jittered(pause));
            pause = (pause * 2).min(LONGEST_PAUSE);
            if !refusal.is_passing || Instant::now() + wait >= end {
                return Err(refusal.reason);
            }
            let seconds = wait.as_secs_f64();
            let reason = &refusal.reason;
            console.progress(&format!("{reason}; trying again in {seconds:.1} s"))?;
            tokio::time::sleep(wait).await;
        }
    }

    async fn once(&self, body: &mut Vec<u8>) -> Result<ResponseHead, NetError> {
        let (client, request, content) = (&self.server.client, &self.request, &self.content);
        match self.command.action {
            Action::Replace => client.put(request, content, body).await,
            Action::Add => client.post(request, content, body).await,
            Action::Delete => client.delete(request, body).await,
        }
    }
}

impl Refusal {
    /// Returns why a response has to be asked for again, `None` if it is the last word.
    fn of_answer(head: &ResponseHead, body: &[u8]) -> Option<Self> {
        let is_passing = matches!(head.status, 408 | 429 | 500 | 502..=504);
        let retry_after = head.retry_after.as_deref();
        let retry_after = retry_after.and_then(|text| text.trim().parse().ok());
        is_passing.then(|| Self {
            reason: told(head.status, body),
            is_passing,
            retry_after: retry_after.map(Duration::from_secs),
        })
    }
}

/// Returns the body to send, compressed, and sets the headers that describe it.
fn content(command: &PushCommand, page: &[u8], headers: &mut HeaderMap) -> Vec<u8> {
    if command.action == Action::Delete {
        return Vec::new();
    }
    let text = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, text);
    let (name, compressed) = match command.compression {
        Compression::None => ("", None),
        Compression::Gzip => ("gzip", narthex_net::gzip(page)),
        Compression::Zstd => ("zstd", narthex_net::zstd(page)),
    };
    match compressed {
        Some(compressed) => {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(name));
            compressed
        }
        None => page.to_vec(),
    }
}

/// Sets the headers of what is asked for.
fn headers(command: &PushCommand, headers: &mut HeaderMap) -> Result<(), String> {
    let period =
        |period: &Duration| duration::format(i64::try_from(period.as_millis()).unwrap_or(i64::MAX));
    let keeps = command.timestamps == Timestamps::Keep;
    let by = match &command.target {
        Target::Group(_) => None,
        Target::Groups(by) => Some(by.join(",")),
    };
    let random = || RandomState::new().hash_one(Instant::now());
    let PushFlags {
        ttl,
        interval,
        aggregate,
        ..
    } = &command.flags;
    let id = aggregate.as_ref();
    let id = id.map(|_| format!("{:016x}{:016x}", random(), random()));
    for (name, value) in [
        ("narthex-push-ttl", ttl.as_ref().map(period)),
        ("narthex-push-interval", interval.as_ref().map(period)),
        ("narthex-push-timestamps", keeps.then(|| "keep".to_owned())),
        ("narthex-push-aggregate", aggregate.clone()),
        ("narthex-push-id", id),
        ("narthex-push-group-by", by),
    ] {
        if let Some(value) = value {
            let value = HeaderValue::try_from(&value).map_err(|_| format!("{name}: {value:?}"))?;
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    Ok(())
}

/// Reports the groups of a batch that were refused; returns how many were stored and refused.
fn batch(body: &[u8], console: &mut Console<'_>) -> Result<(u64, u64), String> {
    let Ok(report) = serde_json::from_slice::<serde_json::Value>(body) else {
        // A gateway that does not have the endpoint, or refuses the whole request.
        return Err(String::from_utf8_lossy(body).trim().to_owned());
    };
    let data = &report["data"];
    let ungrouped = &data["ungrouped"];
    for error in ungrouped["errors"].as_array().into_iter().flatten() {
        console.warn(error.as_str().unwrap_or_default())?;
    }
    for group in data["groups"].as_array().into_iter().flatten() {
        if let Some(error) = group["error"].as_str() {
            console.warn(&format!("{}: {error}", group["labels"]))?;
        }
    }
    let number = |value: &serde_json::Value| value.as_u64().unwrap_or_default();
    let refused = number(&data["refused"]) + number(&ungrouped["total"]);
    Ok((number(&data["stored"]), refused))
}

fn told(status: u16, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    format!("{status}: {}", text.trim())
}

/// Returns a pause that is up to a fifth shorter or longer, so that many senders do not come back at once.
fn jittered(pause: Duration) -> Duration {
    let random = RandomState::new().hash_one(Instant::now()) % 401;
    pause.mul_f64(0.8 + random as f64 / 1000.0)
}
