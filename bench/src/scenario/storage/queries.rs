//! The queries of the servers, while they are measured and without other load.
//!
//! **Invariant:** every server gets the same queries in the same order at the same rates. A response other than a
//! success in the API's envelope is an error, never an empty result; one without a result counts as failed.

use super::plan::{Flags, Plan};
use crate::{
    harness::{BenchError, RunningServer},
    load::{
        Class, Histogram, api,
        fleet::{Clock, Families, now_ms},
    },
    record::Figure,
};
use narthex_testkit::{client::Client, http};
use serde_json::Value;
use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

/// Timeout of a response.
const LIMIT: Duration = Duration::from_secs(30);
/// Steps of a range query.
const STEPS: i64 = 60;
/// Disables VictoriaMetrics' cache, which would not be measured.
const FRESH: &str = "&nocache=1";

/// Returns the classes of queries; each has only a few in progress at once, as in a dashboard.
pub(super) fn classes(flags: &Flags) -> [Class; 4] {
    let class = |key, rate, workers| Class { key, rate, workers };
    [
        class("instant queries", flags.instant_rate, 4),
        class("range queries", flags.range_rate, 4),
        class("heavy queries", flags.heavy_rate, 2),
        class("scans", flags.scan_rate, 1),
    ]
}

/// Returns the function that each worker of a class calls.
pub(super) fn asker(
    plan: &Plan,
    server: &RunningServer,
    clock: Option<Clock>,
    class: usize,
) -> Box<dyn FnMut(u64) -> bool + Send> {
    let mut client = Client::new(SocketAddr::V4(server.address()), LIMIT);
    let base = server.path("");
    let families = plan.fleet.shape.families();
    let range_ms = (plan.flags.range * plan.flags.compress_time).as_millis() as i64;
    let window = window(plan);
    Box::new(move |number| {
        let now = clock.map_or_else(now_ms, |clock| clock.now_ms());
        let path = match class {
            0 => api::instant(&rate_of_one_service(&families, &window, number), Some(now)),
            1 => {
                let step_ms = (range_ms / STEPS / 1000).max(1) * 1000;
                api::range(
                    &rates_of_all(&families, &window),
                    now - range_ms,
                    now,
                    step_ms,
                )
            }
            2 => api::instant(&heavy(&families, number), Some(now)),
            // The names stay, so that series remain apart.
            _ => api::instant("count(last_over_time({job=\"fleet\"}[1m]))", Some(now)),
        };
        let answer = client.get(&format!("{base}{path}{FRESH}"), &[]);
        answer.is_ok_and(|answer| answer.status == 200 && has_result(&answer.body))
    })
}

/// Returns the window of rates: a minute, or four scrapes if these are rare, in the lines' time.
fn window(plan: &Plan) -> String {
    let window = (plan.flags.interval * 4).max(Duration::from_secs(60)) * plan.flags.compress_time;
    format!("{}s", window.as_secs())
}

/// Returns the query of a dashboard's panel of one service.
fn rate_of_one_service(families: &Families, window: &str, number: u64) -> String {
    let (counter, by) = (families.counter, families.by);
    let value = match by {
        "namespace" => format!("team-{:02}", number % 40),
        _ => format!("svc-{:02}", number % 50),
    };
    // A smaller fleet lacks some services; an empty vector is then an answer.
    format!("sum(rate({counter}{{{by}=\"{value}\"}}[{window}])) or vector(0)")
}

/// Returns the query of an overview.
fn rates_of_all(families: &Families, window: &str) -> String {
    let (counter, by) = (families.counter, families.by);
    format!("sum by ({by}) (rate({counter}[{window}]))")
}

/// Returns a query like those of alerts and ad-hoc questions: many series at once.
fn heavy(families: &Families, number: u64) -> String {
    let Families {
        gauge,
        bucket,
        native,
        ..
    } = families;
    match number % 3 {
        // Without rate, which would leave several families with the same labels.
        0 if !native.is_empty() && number.is_multiple_of(2) => format!(
            "histogram_quantile(0.99, sum by (service) ({{__name__=~\"{native}_.*\"}})) or vector(0)"
        ),
        0 if !bucket.is_empty() => format!(
            "histogram_quantile(0.99, sum by (le, service) ({{__name__=~\"{bucket}_.*_bucket\"}})) or vector(0)"
        ),
        1 => format!("topk(10, {{__name__=~\"{gauge}.*\"}}) or vector(0)"),
        _ => "count by (__name__) ({job=\"fleet\"}) or vector(0)".to_owned(),
    }
}

/// Returns whether a response is a success with a result, without parsing it: megabytes would cost the generator.
fn has_result(body: &[u8]) -> bool {
    let head = &body[..body.len().min(200)];
    let has = |what: &[u8]| head.windows(what.len()).any(|window| window == what);
    has(b"\"status\":\"success\"") && !has(b"\"result\":[]")
}

/// Runs queries of a handful of series up to all of them, and returns the median of each.
pub(super) fn time_all(
    plan: &Plan,
    clock: Option<Clock>,
    server: &RunningServer,
) -> Result<Vec<Figure>, BenchError> {
    let families = plan.fleet.shape.families();
    let (counter, by, window) = (families.counter, families.by, window(plan));
    let rate = |by: &str| format!("sum by ({by}) (rate({counter}[{window}]))");
    // With whether it is a range of two minutes in steps of 5 s, otherwise an instant query, and how often it is asked.
    let all = [
        ("count(up)", "count(up)", false, 20),
        ("rate, one family", &rate("job"), false, 10),
        ("rate, one family, 2 min range", &rate(by), true, 5),
        ("count of all series", "count({job=\"fleet\"})", false, 3),
    ];
    let time = |(key, text, is_range, times): (&str, &str, bool, usize)| {
        let mut took = Histogram::default();
        for _ in 0..times {
            // `up` has real timestamps, whatever the lines have.
            let now = clock.filter(|_| key != "count(up)");
            let now = now.map_or_else(now_ms, |clock| clock.now_ms());
            let factor = i64::from(plan.flags.compress_time);
            let path = match is_range {
                true => api::range(text, now - 120_000 * factor, now, 5_000 * factor),
                false => api::instant(text, Some(now)),
            };
            let start = Instant::now();
            let result = ask(server, &path, text)?;
            took.add(start.elapsed());
            if result.is_empty() {
                return Err(wrong(server, text, "with nothing"));
            }
        }
        Ok(Figure::cost(key, "ms", took.quantile_ms(0.5)))
    };
    all.into_iter().map(time).collect()
}

/// Returns a query's single number at a time (default now); `None` if the result is empty.
pub(super) fn number(
    server: &RunningServer,
    query: &str,
    at_ms: Option<i64>,
) -> Result<Option<f64>, BenchError> {
    let result = ask(server, &api::instant(query, at_ms), query)?;
    match result.as_slice() {
        [] => Ok(None),
        [one] => {
            let number = one["value"][1].as_str().and_then(|text| text.parse().ok());
            number
                .map(Some)
                .ok_or_else(|| wrong(server, query, "without a value"))
        }
        many => Err(wrong(server, query, &format!("with {} series", many.len()))),
    }
}

/// Returns the error of a wrong answer.
pub(super) fn wrong(server: &RunningServer, query: &str, what: &str) -> BenchError {
    BenchError::answer(server.label(), query, what)
}

fn ask(server: &RunningServer, path: &str, query: &str) -> Result<Vec<Value>, BenchError> {
    let answer = http::get(&server.url(&format!("{path}{FRESH}")));
    let answer = answer.map_err(BenchError::io(format!("ask {} {query:?}", server.label())))?;
    api::result(&answer.body).ok_or_else(|| BenchError::refused(server.label(), query, &answer))
}

#[cfg(test)]
mod tests;
