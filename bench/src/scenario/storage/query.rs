//! Questions to a server under test over its HTTP API, and how long the answers took.
//!
//! **Invariant:** an answer that is not a success in the API's envelope is an error, never an empty result.

use super::{load::window, plan::Plan};
use crate::{
    frame::{error::BenchError, measure::quantile, server::RunningServer},
    load::fleet::clock::{Clock, now_ms, seconds},
};
use narthex_testkit::http;
use serde_json::Value;
use std::time::Instant;

/// A query that is timed when nothing else is asked.
#[derive(Debug)]
struct Timed {
    key: &'static str,
    text: String,
    /// As a range of two minutes in steps of 5 s, otherwise an instant.
    is_range: bool,
    /// How often it is asked.
    times: usize,
}

/// Returns what is timed on every server, from a handful of series to all of them.
fn timed(plan: &Plan) -> Vec<Timed> {
    let families = plan.fleet.shape.families();
    let (counter, by, window) = (families.counter, families.by, window(plan));
    let timed = |key, text, is_range, times| Timed {
        key,
        text,
        is_range,
        times,
    };
    vec![
        timed("count(up)", "count(up)".to_owned(), false, 20),
        timed(
            "rate, one family",
            format!("sum by (job) (rate({counter}[{window}]))"),
            false,
            10,
        ),
        timed(
            "rate, one family, 2 min range",
            format!("sum by ({by}) (rate({counter}[{window}]))"),
            true,
            5,
        ),
        timed(
            "count of all series",
            "count({job=\"fleet\"})".to_owned(),
            false,
            3,
        ),
    ]
}

/// The latencies of one query.
#[derive(Debug)]
pub(super) struct Latency {
    pub(super) key: &'static str,
    pub(super) sorted_ms: Vec<f64>,
}

impl Latency {
    /// Returns the median.
    pub(super) fn p50_ms(&self) -> f64 {
        quantile(&self.sorted_ms, 0.5)
    }
}

/// Asks everything that is timed.
pub(super) fn time_all(
    plan: &Plan,
    clock: Option<Clock>,
    server: &RunningServer,
) -> Result<Vec<Latency>, BenchError> {
    let time = |timed: Timed| {
        let mut sorted_ms = Vec::with_capacity(timed.times);
        for _ in 0..timed.times {
            // `up` has the real time, whatever lines have.
            let now = clock.filter(|_| timed.key != "count(up)");
            let now = now.map_or_else(now_ms, |clock| clock.now_ms());
            let start = Instant::now();
            let result = if timed.is_range {
                let back = 120_000 * i64::from(plan.compression);
                range(server, &timed.text, now - back, now, plan.compression * 5)?
            } else {
                instant(server, &timed.text, Some(now))?
            };
            sorted_ms.push(start.elapsed().as_secs_f64() * 1e3);
            if result.is_empty() {
                return Err(wrong(server, &timed.text, "with nothing"));
            }
        }
        sorted_ms.sort_by(f64::total_cmp);
        Ok(Latency {
            key: timed.key,
            sorted_ms,
        })
    };
    timed(plan).into_iter().map(time).collect()
}

/// Returns the one number a query has at a time, now when none is given; None when the result is empty.
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
    // What VictoriaMetrics remembers would not be measured.
    let mut fields = vec![("query", query), ("nocache", "1")];
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
    step_s: u32,
) -> Result<Vec<Value>, BenchError> {
    let (start, end, step) = (seconds(from_ms), seconds(to_ms), step_s.to_string());
    let fields = [
        ("query", query),
        ("start", &start),
        ("end", &end),
        ("step", &step),
        ("nocache", "1"),
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
}
