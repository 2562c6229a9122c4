//! What a sender asks for beside the body of a push: a header, or a parameter of the same meaning.
//!
//! **Invariant:** a header counts before its parameter, and both before the flags.

use crate::{aggregate::GaugeMode, error::PushError};
use http::HeaderMap;
use narthex_model::duration;
use narthex_net::percent;
use std::borrow::Cow;

/// Settings of one push. What is not set is as the flags say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// Lifetime of the group without another push; 0 means for ever.
    pub ttl_ms: Option<u64>,
    /// Longest expected time until the next push; 0 means that none is expected.
    pub interval_ms: Option<u64>,
    /// Whether samples keep their timestamps, instead of being refused for them.
    pub keep_timestamps: Option<bool>,
    /// Whether the push is added to the group, and how its gauges are.
    pub aggregate: Option<Option<GaugeMode>>,
    /// Name of this push, so that it is added once however often it is sent.
    pub id: Option<String>,
}

/// Longest name of a push, in bytes.
const ID_BYTES: usize = 128;

/// Headers and query of a request.
pub(crate) struct Words<'a> {
    pub(crate) headers: &'a HeaderMap,
    pub(crate) query: Option<&'a str>,
}

impl Asked {
    /// Reads the settings from a request.
    ///
    /// # Errors
    /// Names the first invalid one.
    pub(crate) fn read(words: &Words<'_>) -> Result<Self, PushError> {
        let timestamps = words.get("narthex-push-timestamps", "timestamps");
        let keep_timestamps = match timestamps.as_deref() {
            None => None,
            Some("keep") => Some(true),
            Some("refuse") => Some(false),
            Some(other) => {
                let reason = "expected keep or refuse";
                return Err(invalid("timestamps", other, reason));
            }
        };
        let aggregate = words.get("narthex-push-aggregate", "aggregate");
        let aggregate = match aggregate.as_deref() {
            None => None,
            Some("off") => Some(None),
            Some(name) => match GaugeMode::from_name(name) {
                Some(mode) => Some(Some(mode)),
                None => {
                    let reason = "expected last, sum, min, max or off";
                    return Err(invalid("aggregate", name, reason));
                }
            },
        };
        let id = words.get("narthex-push-id", "id").map(Cow::into_owned);
        if let Some(id) = id.as_deref().filter(|id| id.len() > ID_BYTES) {
            return Err(invalid("id", id, "longer than 128 bytes"));
        }
        Ok(Self {
            aggregate,
            id,
            ttl_ms: words.period_ms("narthex-push-ttl", "ttl")?,
            interval_ms: words.period_ms("narthex-push-interval", "interval")?,
            keep_timestamps,
        })
    }
}

impl Words<'_> {
    /// Returns the value of a header, or of a parameter of the query.
    pub(crate) fn get(&self, header: &str, parameter: &str) -> Option<Cow<'_, str>> {
        let of_header = self
            .headers
            .get(header)
            .and_then(|value| value.to_str().ok());
        let of_query = || {
            let mut pairs = self
                .query?
                .split('&')
                .filter_map(|pair| pair.split_once('='));
            let (_, value) = pairs.find(|(name, _)| *name == parameter)?;
            // A value that cannot be decoded is refused as it is.
            Some(percent::decode_form(value.as_bytes()).unwrap_or(Cow::Borrowed(value)))
        };
        of_header.map(Cow::Borrowed).or_else(of_query)
    }

    fn period_ms(&self, header: &str, parameter: &str) -> Result<Option<u64>, PushError> {
        let Some(text) = self.get(header, parameter) else {
            return Ok(None);
        };
        match duration::parse(&text) {
            Ok(period_ms) => Ok(Some(period_ms.unsigned_abs())),
            Err(error) => Err(invalid(parameter, &text, &error.to_string())),
        }
    }
}

pub(crate) fn invalid(parameter: &str, text: &str, reason: &str) -> PushError {
    PushError::Path {
        detail: format!("invalid {parameter} {text:?}: {reason}"),
    }
}
