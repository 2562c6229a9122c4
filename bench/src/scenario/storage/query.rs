//! Questions to a server under test over its HTTP API, and how long the answers took.
//!
//! **Invariant:** an answer that is not a success in the API's envelope is an error, never an empty result.

use crate::{
    frame::{error::BenchError, measure::quantile, server::RunningServer},
    load::fleet_server::now_ms,
};
use narthex_testkit::http;
use serde_json::Value;
use std::time::{Duration, Instant};

/// A query that is timed.
#[derive(Debug)]
pub(super) struct Timed {
    pub(super) key: &'static str,
    pub(super) text: &'static str,
    /// As a range of two minutes in steps of 5 s, otherwise an instant.
    pub(super) is_range: bool,
    /// How often it is asked.
    pub(super) times: usize,
}

/// What is timed on every server, from a handful of series to all of them.
pub(super) static TIMED: &[Timed] = &[
    Timed {
        key: "count(up)",
        text: "count(up)",
        is_range: false,
        times: 20,
    },
    Timed {
        key: "rate, one family",
        text: "sum by (job) (rate(http_server_requests_00_total[1m]))",
        is_range: false,
        times: 10,
    },
    Timed {
        key: "rate, one family, 2 min range",
        text: "sum by (service) (rate(http_server_requests_00_total[1m]))",
        is_range: true,
        times: 5,
    },
    Timed {
        key: "count of all series",
        text: "count({job=\"fleet\"})",
        is_range: false,
        times: 3,
    },
];

/// The latencies of one query.
#[derive(Debug)]
pub(super) struct Latency {
    pub(super) key: &'static str,
    sorted_ms: Vec<f64>,
}

impl Latency {
    /// Returns the median.
    pub(super) fn p50_ms(&self) -> f64 {
        quantile(&self.sorted_ms, 0.5)
    }
}

/// Asks everything that is timed.
///
/// # Errors
///
/// When an answer is none, or empty.
pub(super) fn time_all(server: &RunningServer) -> Result<Vec<Latency>, BenchError> {
    let time = |timed: &'static Timed| {
        let mut sorted_ms = Vec::with_capacity(timed.times);
        for _ in 0..timed.times {
            let start = Instant::now();
            let result = if timed.is_range {
                let now = now_ms();
                range(server, timed.text, now - 120_000, now)?
            } else {
                instant(server, timed.text, None)?
            };
            sorted_ms.push(start.elapsed().as_secs_f64() * 1e3);
            if result.is_empty() {
                return Err(wrong(server, timed.text, "with nothing"));
            }
        }
        sorted_ms.sort_by(f64::total_cmp);
        Ok(Latency {
            key: timed.key,
            sorted_ms,
        })
    };
    TIMED.iter().map(time).collect()
}

/// Returns the one number a query has at a time, now when none is given; None when the result is empty.
///
/// # Errors
///
/// When the answer is no success or more than one number.
pub(super) fn number(
    server: &RunningServer,
    query: &str,
    at_ms: Option<i64>,
) -> Result<Option<f64>, BenchError> {
    let result = instant(server, query, at_ms)?;
    match result.as_slice() {
        [] => Ok(None),
        [one] => {
            let text = one["value"][1].as_str();
            let number = text.and_then(|text| text.parse().ok());
            number
                .map(Some)
                .ok_or_else(|| wrong(server, query, "without a value"))
        }
        many => Err(wrong(server, query, &format!("with {} series", many.len()))),
    }
}

/// Fails unless a query's one number is `expected`.
///
/// # Errors
///
/// When it is another one.
pub(super) fn expect(server: &RunningServer, query: &str, expected: f64) -> Result<(), BenchError> {
    let got = number(server, query, None)?;
    if got == Some(expected) {
        return Ok(());
    }
    let got = got.map_or_else(|| "nothing".to_owned(), |got| got.to_string());
    Err(wrong(
        server,
        query,
        &format!("with {got} instead of {expected}"),
    ))
}

/// Returns the error of an answer that is not what it must be.
pub(super) fn wrong(server: &RunningServer, query: &str, what: &str) -> BenchError {
    BenchError::Answer {
        name: server.label().to_owned(),
        query: query.to_owned(),
        what: what.to_owned(),
    }
}

fn instant(
    server: &RunningServer,
    query: &str,
    at_ms: Option<i64>,
) -> Result<Vec<Value>, BenchError> {
    let time = at_ms.map(seconds);
    let mut fields = vec![("query", query)];
    if let Some(time) = &time {
        fields.push(("time", time));
    }
    ask(server, "/api/v1/query", query, &fields)
}

fn range(
    server: &RunningServer,
    query: &str,
    from_ms: i64,
    to_ms: i64,
) -> Result<Vec<Value>, BenchError> {
    let (start, end) = (seconds(from_ms), seconds(to_ms));
    let fields = [
        ("query", query),
        ("start", &start),
        ("end", &end),
        ("step", "5"),
    ];
    ask(server, "/api/v1/query_range", query, &fields)
}

fn ask(
    server: &RunningServer,
    path: &str,
    query: &str,
    fields: &[(&str, &str)],
) -> Result<Vec<Value>, BenchError> {
    let url = server.url(&format!("{path}?{}", http::query(fields)));
    let answer =
        http::get(&url).map_err(BenchError::io(format!("ask {} {query:?}", server.label())))?;
    result(&answer.body).ok_or_else(|| {
        let text: String = answer.text().chars().take(300).collect();
        wrong(server, query, &format!("with {}: {text}", answer.status))
    })
}

/// Returns the series of a successful answer.
fn result(body: &[u8]) -> Option<Vec<Value>> {
    let mut answer: Value = serde_json::from_slice(body).ok()?;
    if answer["status"] != "success" {
        return None;
    }
    match answer["data"]["result"].take() {
        Value::Array(result) => Some(result),
        _ => None,
    }
}

fn seconds(ms: i64) -> String {
    let since = Duration::from_millis(ms.unsigned_abs());
    format!("{}.{:03}", since.as_secs(), since.subsec_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_success_has_a_result() {
        let body = br#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"2"]}]}}"#;
        assert_eq!(result(body).unwrap()[0]["value"][1], "2");
        for body in [
            &br#"{"status":"error","errorType":"bad_data","error":"x"}"#[..],
            br#"{"status":"error","data":{"resultType":"vector","result":[]}}"#,
            br#"{"status":"success","data":{}}"#,
            b"404 page not found",
        ] {
            assert!(result(body).is_none());
        }
    }

    #[test]
    fn a_time_keeps_its_milliseconds() {
        assert_eq!(seconds(1_700_000_000_007), "1700000000.007");
    }
}
