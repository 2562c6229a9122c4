//! Parameters from the query string and from form bodies.
//!
//! **Invariant:** names may repeat; the body's values come before the query string's, as in Go's `ParseForm`. A form is
//! leased as it arrives and kept undecoded: a value is decoded when it is read.

use crate::{
    config::Api,
    error::{ApiError, ErrorType},
    time::{MAX_TIME_MS, MIN_TIME_MS, parse_duration, parse_time},
};
use http::{Method, header::CONTENT_TYPE};
use narthex_model::storage::{Lease, TimeRange};
use narthex_net::{
    axum::{body::HttpBody, extract::Request},
    percent::decode_form,
    run_long,
};
use std::{borrow::Cow, future::poll_fn, ops::Range, pin::pin, time::Duration};

/// Longest form body, as in Go.
const BODY_LIMIT_BYTES: usize = 10 << 20;
/// Longest number, time or duration, in bytes as sent. They are parsed, and shown in errors, on the serving threads.
const SCALAR_BYTES: usize = 1 << 10;

/// All parameters of a request.
#[derive(Debug, Default)]
pub(crate) struct Params {
    /// The body and the query string, undecoded.
    texts: [Vec<u8>; 2],
    pairs: Vec<Pair>,
    _lease: Option<Lease>,
}

/// Position of a parameter.
#[derive(Debug)]
struct Pair {
    text: usize,
    name: Range<usize>,
    value: Range<usize>,
}

impl Params {
    /// Reads the parameters of a request, its form body included.
    pub(crate) async fn read(api: &Api, request: Request) -> Result<Self, ApiError> {
        let query = request.uri().query().unwrap_or_default();
        let mut lease = api.parameters.lease(query.len() as u64).map_err(busy)?;
        let query = query.as_bytes().to_vec();
        let is_form = request
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok())
            .is_some_and(|kind| {
                kind.split(';')
                    .next()
                    .unwrap_or_default()
                    .trim()
                    .eq_ignore_ascii_case("application/x-www-form-urlencoded")
            });
        let mut body = Vec::new();
        if request.method() == Method::POST && is_form {
            body = form(request, &mut lease).await?;
        }
        let most = api.config.max_parameters;
        let length = body.len();
        let mut params = run_long(length, || Self::new([body, query], most))?;
        params._lease = Some(lease);
        Ok(params)
    }

    /// Parses the parameters of a form.
    pub(crate) fn of_text(text: &str, most: usize) -> Result<Self, ApiError> {
        Self::new([text.as_bytes().to_vec(), Vec::new()], most)
    }

    fn new(texts: [Vec<u8>; 2], most: usize) -> Result<Self, ApiError> {
        let mut pairs = Vec::new();
        for (text, bytes) in texts.iter().enumerate() {
            let mut begin = 0;
            for part in bytes.split(|byte| *byte == b'&') {
                let end = begin + part.len();
                if !part.is_empty() {
                    if pairs.len() == most {
                        return Err(ApiError::bad_data(format!(
                            "error parsing form values: more than {most} parameters"
                        )));
                    }
                    let equals = part.iter().position(|byte| *byte == b'=');
                    let name_end = begin + equals.unwrap_or(part.len());
                    let value = equals.map_or(end..end, |_| name_end + 1..end);
                    pairs.push(Pair {
                        text,
                        name: begin..name_end,
                        value,
                    });
                }
                begin = end + 1;
            }
        }
        Ok(Self {
            texts,
            pairs,
            _lease: None,
        })
    }

    /// Returns the first value of a parameter; empty if it is missing.
    pub(crate) fn get(&self, name: &str) -> Cow<'_, str> {
        let values = self.pairs.iter();
        let mut values = values.filter_map(|pair| self.value_of(pair, name));
        values.next().unwrap_or_default()
    }

    /// Returns the first value of a parameter that is short by nature; empty if it is missing.
    pub(crate) fn scalar(&self, name: &str) -> Result<Cow<'_, str>, ApiError> {
        let named = |pair: &&Pair| {
            let text = self.texts.get(pair.text);
            let text = text.and_then(|text| text.get(pair.name.clone()));
            text.is_some_and(|text| is_escaped(text, name))
        };
        let mut named = self.pairs.iter().filter(named);
        if named.any(|pair| pair.value.len() > SCALAR_BYTES) {
            let reason = format!("longer than {SCALAR_BYTES} bytes");
            return Err(ApiError::parameter(name, reason));
        }
        Ok(self.get(name))
    }

    /// Reports whether a switch is on.
    pub(crate) fn is_on(&self, name: &str) -> Result<bool, ApiError> {
        Ok(matches!(&*self.scalar(name)?, "1" | "true"))
    }

    /// Returns all values of a parameter; like Go, skips those with invalid escapes.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = Cow<'a, str>> {
        let values = self.pairs.iter();
        values.filter_map(move |pair| self.value_of(pair, name))
    }

    /// Returns the value of a pair called `name`.
    fn value_of(&self, pair: &Pair, name: &str) -> Option<Cow<'_, str>> {
        let text = self.texts.get(pair.text)?;
        let named = is_escaped(text.get(pair.name.clone())?, name);
        if !named {
            return None;
        }
        let value = text.get(pair.value.clone())?;
        run_long(value.len(), || decode_form(value))
    }

    /// Parses a time; `default_ms` if the parameter is missing.
    pub(crate) fn time_or(&self, name: &str, default_ms: i64) -> Result<i64, ApiError> {
        match &*self.scalar(name)? {
            "" => Ok(default_ms),
            text => time(text).map_err(|unread| {
                ApiError::parameter(
                    name,
                    format_args!("invalid time value for '{name}': {unread}"),
                )
            }),
        }
    }

    /// Parses a required time.
    pub(crate) fn time(&self, name: &str) -> Result<i64, ApiError> {
        time(&self.scalar(name)?).map_err(|unread| ApiError::parameter(name, unread))
    }

    /// Parses a required duration, in milliseconds.
    pub(crate) fn duration(&self, name: &str) -> Result<i64, ApiError> {
        let text = self.scalar(name)?;
        parse_duration(&text).map_err(|unread| ApiError::parameter(name, unread))
    }

    /// Parses `timeout`, which is `most` at most and if it is missing.
    pub(crate) fn timeout(&self, most: Duration) -> Result<Duration, ApiError> {
        if self.scalar("timeout")?.is_empty() {
            return Ok(most);
        }
        let asked_ms = self.duration("timeout")?.max(0).unsigned_abs();
        Ok(most.min(Duration::from_millis(asked_ms)))
    }

    /// Parses `limit`; `None` if it is 0 or missing.
    pub(crate) fn limit(&self) -> Result<Option<usize>, ApiError> {
        self.count("limit")
            .map(|limit| limit.filter(|limit| *limit > 0))
    }

    /// Parses a non-negative number; `None` if it is missing.
    pub(crate) fn count(&self, name: &str) -> Result<Option<usize>, ApiError> {
        let text = self.scalar(name)?;
        if text.is_empty() {
            return Ok(None);
        }
        let number: i64 = text.parse().map_err(|_| {
            ApiError::parameter(
                name,
                format_args!("strconv.Atoi: parsing {text:?}: invalid syntax"),
            )
        })?;
        match usize::try_from(number) {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(ApiError::parameter(name, "limit must be non-negative")),
        }
    }

    /// Parses `limit` or a similar parameter of `/metadata`, whose errors differ; `None` if it is negative.
    pub(crate) fn metadata_limit(&self, name: &str) -> Result<Option<usize>, ApiError> {
        let text = self.scalar(name)?;
        if text.is_empty() {
            return Ok(None);
        }
        let number: i64 = text
            .parse()
            .map_err(|_| ApiError::bad_data(format!("{name} must be a number")))?;
        Ok(usize::try_from(number).ok())
    }

    /// Parses `start` and `end` of a listing, all of time by default; an empty range if `end` is before `start`.
    pub(crate) fn range(&self) -> Result<TimeRange, ApiError> {
        Ok(TimeRange::new(
            self.time_or("start", MIN_TIME_MS)?,
            self.time_or("end", MAX_TIME_MS)?,
        ))
    }
}

fn time(text: &str) -> Result<i64, String> {
    parse_time(text).ok_or_else(|| format!("cannot parse {text:?} to a valid timestamp"))
}

/// Reads a form's body, leasing memory as it arrives.
async fn form(request: Request, lease: &mut Lease) -> Result<Vec<u8>, ApiError> {
    let broken = |text: String| ApiError::bad_data(format!("error parsing form values: {text}"));
    let mut body = pin!(request.into_body());
    let mut whole = Vec::new();
    while let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
        let frame = frame.map_err(|error| broken(error.to_string()))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if whole.len() + data.len() > BODY_LIMIT_BYTES {
            let message = "error parsing form values: http: request body too large";
            return Err(ApiError::new(ErrorType::TooLarge, message));
        }
        // Twice the length, because a vector grows by doubling.
        lease.grow(2 * data.len() as u64).map_err(busy)?;
        whole.extend_from_slice(&data);
    }
    Ok(whole)
}

fn busy(over: narthex_model::storage::OverBudget) -> ApiError {
    ApiError::new(ErrorType::Busy, over.to_string())
}

/// Reports whether `text` decodes to `name`.
fn is_escaped(text: &[u8], name: &str) -> bool {
    // An escape takes three bytes for one.
    text.len() >= name.len()
        && text.len() <= 3 * name.len()
        && decode_form(text).is_some_and(|text| text == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_decoded_as_go_does() {
        let text = "query=a%2Bb+c&match[]=x&match%5B%5D=y&bad=%zz&flag&=e";
        let params = Params::of_text(text, 10).unwrap();
        assert_eq!(params.get("query"), "a+b c");
        assert_eq!(params.all("match[]").collect::<Vec<_>>(), ["x", "y"]);
        assert_eq!((&*params.get("bad"), &*params.get("flag")), ("", ""));
        assert_eq!(params.get(""), "e");
    }

    /// Ten megabytes of `a&` made five million pairs of texts, half a gigabyte before any permit was taken.
    #[test]
    fn a_form_of_millions_of_parameters_is_refused_by_number() {
        let refused = Params::of_text(&"a&".repeat(5 << 20), 1000).unwrap_err();
        assert_eq!(
            refused.message,
            "error parsing form values: more than 1000 parameters"
        );
        assert!(Params::of_text(&"a&".repeat(1000), 1000).is_ok());
        let empty = Params::of_text(&"&".repeat(5 << 20), 1000).unwrap();
        assert!(empty.pairs.is_empty());
    }

    #[test]
    fn numbers_and_times_are_short() {
        let params = Params::of_text(&format!("limit=&time={}", "1".repeat(2000)), 10).unwrap();
        assert_eq!(
            params.time("time").unwrap_err().message,
            "invalid parameter \"time\": longer than 1024 bytes"
        );
        assert_eq!(params.limit().unwrap(), None);
        assert_eq!(params.get("time").len(), 2000);
    }

    #[test]
    fn errors_name_the_parameter() {
        let params = Params::of_text("start=x&limit=-1&step=y", 10).unwrap();
        let text = |error: ApiError| error.message;
        assert_eq!(
            text(params.range().unwrap_err()),
            "invalid parameter \"start\": invalid time value for 'start': cannot parse \"x\" to a valid timestamp"
        );
        assert_eq!(
            text(params.limit().unwrap_err()),
            "invalid parameter \"limit\": limit must be non-negative"
        );
        assert_eq!(
            text(params.duration("step").unwrap_err()),
            "invalid parameter \"step\": cannot parse \"y\" to a valid duration"
        );
    }
}
