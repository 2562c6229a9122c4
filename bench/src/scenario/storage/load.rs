//! The queries that servers answer while they are measured.
//!
//! **Invariant:** every server is asked the same queries in the same order at the same rates; an answer that is no
//! success counts as failed, and one without a result too.

use super::plan::{Plan, Rates};
use crate::{
    frame::server::RunningServer,
    load::{
        client::Client,
        fleet::{
            clock::{Clock, now_ms, seconds},
            shape::Families,
        },
        paced::Class,
    },
};
use narthex_testkit::http;
use std::{net::SocketAddr, time::Duration};

/// Longest wait for one answer.
const LIMIT: Duration = Duration::from_secs(30);
/// Steps of a range query.
const STEPS: u32 = 60;

/// Returns the classes of queries; none has more than a few under way at once, as a dashboard has.
pub(super) fn classes(rates: Rates) -> [Class; 3] {
    let class = |key, rate, workers| Class { key, rate, workers };
    [
        class("instant queries", rates.instant, 4),
        class("range queries", rates.range, 4),
        class("heavy queries", rates.heavy, 2),
    ]
}

/// Returns what each worker of a class calls.
pub(super) fn asker(
    plan: &Plan,
    server: &RunningServer,
    clock: Option<Clock>,
    class: usize,
) -> Box<dyn FnMut(u64) -> bool + Send> {
    let mut client = Client::new(SocketAddr::V4(server.address()), LIMIT);
    let instant = server.path("/api/v1/query");
    let range_path = server.path("/api/v1/query_range");
    let families = plan.fleet.shape.families();
    let range = plan.range * plan.compression;
    let window = window(plan);
    Box::new(move |number| {
        let now = clock.map_or_else(now_ms, |clock| clock.now_ms());
        let time = seconds(now);
        let path = match class {
            0 => {
                let query = of_one(&families, &window, number);
                format!(
                    "{instant}?{}",
                    http::query(&[("query", &query), ("time", &time), ("nocache", "1")])
                )
            }
            1 => {
                let query = of_all(&families, &window);
                let start = seconds(now - range.as_millis() as i64);
                let step = (range / STEPS).as_secs().max(1).to_string();
                let fields = [
                    ("query", query.as_str()),
                    ("start", &start),
                    ("end", &time),
                    ("step", &step),
                    ("nocache", "1"),
                ];
                format!("{range_path}?{}", http::query(&fields))
            }
            _ => {
                let query = heavy(&families, number);
                format!(
                    "{instant}?{}",
                    http::query(&[("query", &query), ("time", &time), ("nocache", "1")])
                )
            }
        };
        let answer = client.get(&path, &[]);
        answer.is_ok_and(|answer| answer.status == 200 && has_result(&answer.body))
    })
}

/// Returns how far back rates look: a minute, or four scrapes where these are rare, in the time of the lines.
pub(super) fn window(plan: &Plan) -> String {
    let window = (plan.interval * 4).max(Duration::from_secs(60)) * plan.compression;
    format!("{}s", window.as_secs())
}

/// What a dashboard's panel of one service asks.
fn of_one(families: &Families, window: &str, number: u64) -> String {
    let (counter, by) = (families.counter, families.by);
    let value = match by {
        "namespace" => format!("team-{:02}", number % 40),
        _ => format!("svc-{:02}", number % 50),
    };
    // A fleet of fewer targets does not have every service; an empty vector is an answer then.
    format!("sum(rate({counter}{{{by}=\"{value}\"}}[{window}])) or vector(0)")
}

/// What an overview asks.
fn of_all(families: &Families, window: &str) -> String {
    let (counter, by) = (families.counter, families.by);
    format!("sum by ({by}) (rate({counter}[{window}]))")
}

/// What alerts and ad-hoc questions ask: many series at once.
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

/// Whether an answer is a success with a result, told without parsing it: megabytes would be the generator's cost.
fn has_result(body: &[u8]) -> bool {
    let head = &body[..body.len().min(200)];
    let has = |what: &[u8]| head.windows(what.len()).any(|window| window == what);
    has(b"\"status\":\"success\"") && !has(b"\"result\":[]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::fleet::shape::Shape;

    #[test]
    fn only_a_success_with_a_result_counts() {
        assert!(has_result(
            br#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{}}]}}"#
        ));
        assert!(!has_result(
            br#"{"status":"success","data":{"resultType":"vector","result":[]}}"#
        ));
        assert!(!has_result(br#"{"status":"error"}"#));
        assert!(!has_result(b""));
    }

    #[test]
    fn queries_are_about_what_the_shape_has() {
        let (fleet, objects) = (Shape::Fleet.families(), Shape::Objects.families());
        assert_eq!(
            of_one(&fleet, "60s", 57),
            "sum(rate(http_server_requests_00_total{service=\"svc-07\"}[60s])) or vector(0)"
        );
        assert!(heavy(&fleet, 3).starts_with("histogram_quantile"));
        assert!(heavy(&objects, 3).starts_with("count by"));
        let native = Shape::Native.families();
        assert!(heavy(&native, 3).contains("sum by (le, service)"));
        assert!(
            heavy(&native, 6).contains("sum by (service) ({__name__=~\"rpc_latency_seconds_.*\"})")
        );
        assert_eq!(heavy(&fleet, 6), heavy(&fleet, 3));
        assert_eq!(seconds(1_700_000_000_007), "1700000000.007");
    }
}
