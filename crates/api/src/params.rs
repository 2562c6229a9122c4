//! Parameters from the query string and from form bodies.
//!
//! **Invariant:** names may repeat; the body's values come before the query string's, as Go's `ParseForm` has it.

use crate::{
    error::ApiError,
    time::{MAX_TIME_MS, MIN_TIME_MS, parse_duration, parse_time},
};
use http::{Method, header::CONTENT_TYPE};
use narthex_model::{Matcher, storage::TimeRange};
use narthex_net::axum::extract::Request;
use std::time::Duration;

/// Longest form body.
const BODY_LIMIT_BYTES: usize = 10 << 20;

/// All parameters of a request.
#[derive(Debug, Default)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    /// Reads the parameters of a request, its form body included.
    pub(crate) async fn of(request: Request) -> Result<Self, ApiError> {
        let query = request.uri().query().unwrap_or_default().to_owned();
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
        let mut params = Vec::new();
        if request.method() == Method::POST && is_form {
            let body = narthex_net::axum::body::to_bytes(request.into_body(), BODY_LIMIT_BYTES)
                .await
                .map_err(|error| {
                    ApiError::bad_data(format!("error parsing form values: {error}"))
                })?;
            decode(&String::from_utf8_lossy(&body), &mut params);
        }
        decode(&query, &mut params);
        Ok(Self(params))
    }

    /// Reads the parameters of a form.
    pub(crate) fn of_text(text: &str) -> Self {
        let mut params = Vec::new();
        decode(text, &mut params);
        Self(params)
    }

    pub(crate) fn get(&self, name: &str) -> &str {
        self.0
            .iter()
            .find(|(other, _)| other == name)
            .map(|(_, value)| value.as_str())
            .unwrap_or_default()
    }

    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .filter(move |(other, _)| other == name)
            .map(|(_, value)| value.as_str())
    }

    /// Reads a time, `default_ms` where the parameter is missing.
    pub(crate) fn time_or(&self, name: &str, default_ms: i64) -> Result<i64, ApiError> {
        match self.get(name) {
            "" => Ok(default_ms),
            text => time(text).map_err(|unread| {
                ApiError::parameter(
                    name,
                    format_args!("invalid time value for '{name}': {unread}"),
                )
            }),
        }
    }

    /// Reads a time that has to be there.
    pub(crate) fn time(&self, name: &str) -> Result<i64, ApiError> {
        time(self.get(name)).map_err(|unread| ApiError::parameter(name, unread))
    }

    /// Reads a duration that has to be there, in milliseconds.
    pub(crate) fn duration(&self, name: &str) -> Result<i64, ApiError> {
        let text = self.get(name);
        parse_duration(text).map_err(|unread| ApiError::parameter(name, unread))
    }

    /// Reads `timeout`, `default` where it is missing.
    pub(crate) fn timeout(&self, default: Duration) -> Result<Duration, ApiError> {
        if self.get("timeout").is_empty() {
            return Ok(default);
        }
        Ok(Duration::from_millis(
            self.duration("timeout")?.max(0).unsigned_abs(),
        ))
    }

    /// Reads `limit`; 0 and missing mean none.
    pub(crate) fn limit(&self) -> Result<Option<usize>, ApiError> {
        self.count("limit")
            .map(|limit| limit.filter(|limit| *limit > 0))
    }

    /// Reads a number that is not negative; `None` where it is missing.
    pub(crate) fn count(&self, name: &str) -> Result<Option<usize>, ApiError> {
        let text = self.get(name);
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

    /// Reads `limit` or its kin of `/metadata`, which have words of their own; negative means none.
    pub(crate) fn metadata_limit(&self, name: &str) -> Result<Option<usize>, ApiError> {
        let text = self.get(name);
        if text.is_empty() {
            return Ok(None);
        }
        let number: i64 = text
            .parse()
            .map_err(|_| ApiError::bad_data(format!("{name} must be a number")))?;
        Ok(usize::try_from(number).ok())
    }

    /// Reads `start` and `end` of a listing, all of time where they are missing; empty when they are the wrong way
    /// round.
    pub(crate) fn range(&self) -> Result<TimeRange, ApiError> {
        Ok(TimeRange::new(
            self.time_or("start", MIN_TIME_MS)?,
            self.time_or("end", MAX_TIME_MS)?,
        ))
    }

    /// Reads the selectors of all `match[]`; why not, if one does not parse or selects everything.
    pub(crate) fn selectors(&self) -> Result<Vec<Vec<Matcher>>, String> {
        let parse = |text| {
            let matchers =
                narthex_promql::parse_selector(text).map_err(|error| error.to_string())?;
            if matchers.iter().all(Matcher::matches_empty) {
                return Err("match[] must contain at least one non-empty matcher".to_owned());
            }
            Ok(matchers)
        };
        self.all("match[]").map(parse).collect()
    }
}

fn time(text: &str) -> Result<i64, String> {
    parse_time(text).ok_or_else(|| format!("cannot parse {text:?} to a valid timestamp"))
}

/// Decodes `a=1&b=%20`; pairs with broken escapes are left out, as Go leaves them out.
fn decode(text: &str, params: &mut Vec<(String, String)>) {
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if let (Some(name), Some(value)) = (unescape(name), unescape(value)) {
            params.push((name, value));
        }
    }
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, tail @ ..] = rest {
        rest = tail;
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let [high, low, tail @ ..] = rest else {
                    return None;
                };
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                bytes.push(u8::try_from(digit(high)? * 16 + digit(low)?).ok()?);
                rest = tail;
            }
            byte => bytes.push(*byte),
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_decoded_as_go_does() {
        let params = Params::of_text("query=a%2Bb+c&match[]=x&match%5B%5D=y&bad=%zz&flag&=e");
        assert_eq!(params.get("query"), "a+b c");
        assert_eq!(params.all("match[]").collect::<Vec<_>>(), ["x", "y"]);
        assert_eq!(
            (params.get("bad"), params.get("flag"), params.get("")),
            ("", "", "e")
        );
    }

    #[test]
    fn errors_name_the_parameter() {
        let params = Params(vec![
            ("start".into(), "x".into()),
            ("limit".into(), "-1".into()),
            ("step".into(), "y".into()),
        ]);
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
