//! One request to a destination, and what its answer means.
//!
//! **Invariant:** only an answer of the destination makes a request's samples sent or refused; whatever else happens, it
//! is sent again.

use super::{config::RemoteWriteConfig, encode::Counts};
use crate::{Message, frames};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use narthex_model::date::parse_rfc3339;
use narthex_net::{Client, ClientConfig, NetError, Request, ResponseHead, SigV4};
use std::{sync::Arc, time::Duration};

/// Longest part of an answer's body that is shown.
const SHOWN_BYTES: usize = 512;
/// Longest answer that is read.
const ANSWER_BYTES: usize = 1 << 20;
/// Level of zstd: the fastest one, about as fast as snappy.
const ZSTD_LEVEL: i32 = 1;

/// Compression of a request's body.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Compression {
    Snappy,
    Zstd,
}

impl Compression {
    fn name(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Snappy => "snappy",
            Self::Zstd => "zstd",
        })
    }

    /// Compresses a message.
    pub(super) fn compress(self, plain: &[u8]) -> Vec<u8> {
        let made = match self {
            Self::Snappy => snap::raw::Encoder::new().compress_vec(plain).ok(),
            Self::Zstd => zstd::bulk::compress(plain, ZSTD_LEVEL).ok(),
        };
        // Both fail only on messages of gigabytes.
        made.unwrap_or_default()
    }
}

/// What an answer means for the samples of a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Verdict {
    /// They were taken; what was written if the receiver told it.
    Taken {
        written: Option<Counts>,
        /// Whether the receiver takes zstd.
        takes_zstd: bool,
        /// Whether the receiver takes frames.
        takes_frames: bool,
    },
    /// They are to be sent in another session: the receiver does not know theirs.
    SessionLost { reason: String },
    /// They are to be sent again, after this time if the receiver named one.
    Retry {
        reason: String,
        after: Option<Duration>,
    },
    /// They will never be taken.
    Refused {
        reason: String,
        /// Whether the message or its compression is what is not supported.
        is_unsupported: bool,
        written: Option<Counts>,
    },
}

/// Sends requests to one destination.
#[derive(Clone, Debug)]
pub(super) struct Poster {
    client: Client,
    request: Request,
    signer: Option<Arc<SigV4>>,
    retry_on_http_429: bool,
}

impl Poster {
    /// # Errors
    /// Fails if the HTTP settings or headers cannot be used.
    pub(super) fn new(config: &RemoteWriteConfig, base: &ClientConfig) -> Result<Self, NetError> {
        let mut client = base.clone();
        client.max_idle_per_host = config.queue.max_shards;
        client.round_robin = config.round_robin_dns;
        let signer = config.sigv4.as_ref();
        let signer = signer.map(|config| SigV4::new(base, config).map(Arc::new));
        let client = Client::with_http(client, config.http.clone())?;
        let mut request = Request::new(config.url.clone());
        request.timeout = config.remote_timeout;
        request.body_limit_bytes = ANSWER_BYTES;
        for (name, value) in &config.headers {
            let parsed = HeaderName::try_from(name.as_str())
                .ok()
                .zip(HeaderValue::try_from(value.as_str()).ok());
            let (name, value) = parsed.ok_or_else(|| NetError::Config {
                message: format!("header {name:?} or its value is not valid in HTTP"),
            })?;
            request.headers.append(name, value);
        }
        Ok(Self {
            client,
            request,
            signer: signer.transpose()?,
            retry_on_http_429: config.queue.retry_on_http_429,
        })
    }

    /// Sends a body; `attempt` is 0 for the first time.
    pub(super) async fn post(
        &self,
        message: Message,
        compression: Compression,
        body: &[u8],
        attempt: u32,
        now_ms: i64,
    ) -> Verdict {
        let mut request = self.request.clone();
        put_headers(&mut request.headers, message, compression, attempt);
        if let Some(signer) = &self.signer {
            let headers = &mut request.headers;
            let signed = signer.sign(&request.url, headers, body, now_ms);
            if let Err(error) = signed.await {
                return Verdict::Retry {
                    reason: error.to_string(),
                    after: None,
                };
            }
        }
        let mut answer = Vec::new();
        match self.client.post(&request, body, &mut answer).await {
            Err(error) => Verdict::Retry {
                reason: error.to_string(),
                after: None,
            },
            Ok(head) => {
                let written = written(&head);
                if (200..300).contains(&head.status) {
                    return Verdict::Taken {
                        written,
                        takes_zstd: lists(&head, "accept-encoding", |one| {
                            one.eq_ignore_ascii_case("zstd")
                        }),
                        takes_frames: lists(&head, "accept-post", |one| one == frames::MEDIA_TYPE),
                    };
                }
                let reason = refusal(&head, &answer);
                if message == Message::Frames && head.status == 409 {
                    return Verdict::SessionLost { reason };
                }
                let may_pass = head.status >= 500 || (head.status == 429 && self.retry_on_http_429);
                if may_pass {
                    let after = head.retry_after.as_deref();
                    return Verdict::Retry {
                        reason,
                        after: after.and_then(|text| parse_retry_after(text, now_ms)),
                    };
                }
                Verdict::Refused {
                    reason,
                    is_unsupported: head.status == 415,
                    written,
                }
            }
        }
    }
}

fn put_headers(headers: &mut HeaderMap, message: Message, compression: Compression, attempt: u32) {
    let (content_type, version) = match message {
        Message::V1 => ("application/x-protobuf", Some("0.1.0")),
        Message::V2 => (
            "application/x-protobuf;proto=io.prometheus.write.v2.Request",
            Some("2.0.0"),
        ),
        Message::Frames => (frames::MEDIA_TYPE, None),
    };
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CONTENT_ENCODING, compression.name());
    if let Some(version) = version {
        headers.insert(
            HeaderName::from_static("x-prometheus-remote-write-version"),
            HeaderValue::from_static(version),
        );
    }
    if attempt > 0 {
        headers.insert(
            HeaderName::from_static("retry-attempt"),
            HeaderValue::from(attempt),
        );
    }
}

/// Reports whether a header of an answer lists what `is` looks for.
fn lists(head: &ResponseHead, name: &str, is: impl Fn(&str) -> bool) -> bool {
    let listed = head.kept(name).unwrap_or_default();
    listed.split(',').any(|one| is(one.trim()))
}

/// Returns what a receiver says it wrote.
fn written(head: &ResponseHead) -> Option<Counts> {
    let of = |kind: &str| {
        let name = format!("x-prometheus-remote-write-{kind}-written");
        head.kept(&name).and_then(|text| text.trim().parse().ok())
    };
    let [samples, histograms, exemplars] = ["samples", "histograms", "exemplars"].map(of);
    samples.or(histograms).or(exemplars)?;
    Some(Counts {
        samples: samples.unwrap_or_default(),
        histograms: histograms.unwrap_or_default(),
        exemplars: exemplars.unwrap_or_default(),
    })
}

/// Describes an unsuccessful answer.
fn refusal(head: &ResponseHead, answer: &[u8]) -> String {
    let status = match head.require_ok() {
        Err(error) => error.to_string(),
        Ok(()) => String::new(),
    };
    let text = String::from_utf8_lossy(answer);
    let text = text.trim();
    let shown = text.get(..text.floor_char_boundary(SHOWN_BYTES));
    match shown.unwrap_or(text) {
        "" => status,
        shown => format!("{status}: {shown}"),
    }
}

/// Parses `Retry-After`: seconds, or a date as HTTP writes it; `None` if it is neither or not in the future.
fn parse_retry_after(text: &str, now_ms: i64) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return (seconds > 0).then(|| Duration::from_secs(seconds));
    }
    let mut parts = text.split_once(", ")?.1.split(' ');
    let day: u8 = parts.next()?.parse().ok()?;
    let month = parts.next()?;
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let month = 1 + MONTHS.iter().position(|name| *name == month)?;
    let (year, time) = (parts.next()?, parts.next()?);
    let at_ms = parse_rfc3339(&format!("{year}-{month:02}-{day:02}T{time}Z"))?;
    let left_ms = u64::try_from(at_ms - now_ms).ok().filter(|ms| *ms > 0)?;
    Some(Duration::from_millis(left_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now_ms = 784_111_777_000 - 90_000;
        let parsed = |text: &str| parse_retry_after(text, now_ms).map(|after| after.as_secs());
        assert_eq!(parsed("7"), Some(7));
        assert_eq!(parsed("Sun, 06 Nov 1994 08:49:37 GMT"), Some(90));
        for text in [
            "",
            "0",
            "-3",
            "soon",
            "Sun, 06 Nov 1993 08:49:37 GMT",
            "Sun, x",
        ] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }

    #[test]
    fn both_compressions_are_what_receivers_undo() {
        let plain = b"abcabcabcabcabcabc".repeat(100);
        let snappy = Compression::Snappy.compress(&plain);
        assert_eq!(
            snap::raw::Decoder::new().decompress_vec(&snappy).unwrap(),
            plain
        );
        let zstd = Compression::Zstd.compress(&plain);
        assert_eq!(zstd::decode_all(&zstd[..]).unwrap(), plain);
    }
}
