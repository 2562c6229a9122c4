//! Requests to the HTTP API, with responses as plain values.

use narthex_testkit::http::{self, Response};
use serde_json::Value;
use std::{collections::BTreeMap, io};

/// An instant vector: time in milliseconds and value, by label set.
pub(crate) type Vector = BTreeMap<String, (i64, f64)>;

/// A matrix: the values' bits by time in milliseconds, by label set; all NaN have the same bits.
pub(crate) type Matrix = BTreeMap<String, BTreeMap<i64, u64>>;

/// Sends a GET; panics without a response.
pub(crate) fn get(url: &str) -> Response {
    http::get(url).unwrap_or_else(|error| panic!("GET {url}: {error}"))
}

/// Sends a request to the API.
///
/// # Errors
/// Fails without a complete response.
pub(crate) fn try_call(base: &str, path: &str, params: &[(&str, &str)]) -> io::Result<Response> {
    http::get(&format!("{base}{path}?{}", http::query(params)))
}

/// Returns the `data` of a response; panics unless it is a success.
pub(crate) fn data(base: &str, path: &str, params: &[(&str, &str)]) -> Value {
    let answer =
        try_call(base, path, params).unwrap_or_else(|error| panic!("{path} {params:?}: {error}"));
    data_of(&answer, &format!("{path} {params:?}"))
}

/// Returns the `data` of a response; panics unless it is a success.
pub(crate) fn data_of(answer: &Response, what: &str) -> Value {
    let text = answer.text();
    assert_eq!(answer.status, 200, "{what}: {text}");
    let mut json: Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{what}: {error}: {text}"));
    assert_eq!(json["status"], "success", "{what}: {text}");
    json["data"].take()
}

/// Returns an instant vector at a time in seconds, by default the server's.
pub(crate) fn vector(base: &str, query: &str, time: Option<&str>) -> Vector {
    let mut params = vec![("query", query)];
    params.extend(time.map(|time| ("time", time)));
    let data = data(base, "/api/v1/query", &params);
    assert_eq!(data["resultType"], "vector", "{query}");
    let series = data["result"].as_array().unwrap();
    let sample = |series: &Value| (labels(&series["metric"]), point(&series["value"]));
    series.iter().map(sample).collect()
}

/// Returns the result of a range selector at the server's time.
pub(crate) fn matrix(base: &str, query: &str) -> Matrix {
    matrix_of(&data(base, "/api/v1/query", &[("query", query)]), query)
}

/// Returns the matrix in a response's `data`.
pub(crate) fn matrix_of(data: &Value, what: &str) -> Matrix {
    assert_eq!(data["resultType"], "matrix", "{what}");
    let mut matrix = Matrix::new();
    for series in data["result"].as_array().unwrap() {
        let points = series["values"].as_array().unwrap();
        let samples = points.iter().map(point);
        let samples: BTreeMap<i64, u64> = samples
            .map(|(time_ms, value)| (time_ms, bits(value)))
            .collect();
        assert_eq!(
            samples.len(),
            points.len(),
            "{what}: a time twice: {series}"
        );
        let before = matrix.insert(labels(&series["metric"]), samples);
        assert!(before.is_none(), "{what}: a series twice: {series}");
    }
    matrix
}

/// Returns a value's bits, the same for all NaN.
pub(crate) fn bits(value: f64) -> u64 {
    if value.is_nan() {
        f64::NAN.to_bits()
    } else {
        value.to_bits()
    }
}

/// Returns labels as `name{a="b"}`, in label order.
pub(crate) fn labels(metric: &Value) -> String {
    let pairs = metric.as_object().unwrap().iter();
    let mut pairs: Vec<(&str, &str)> = pairs
        .map(|(name, value)| (name.as_str(), value.as_str().unwrap()))
        .collect();
    pairs.sort_unstable();
    let name = pairs
        .iter()
        .find(|(name, _)| *name == "__name__")
        .map_or("", |(_, value)| value);
    let others = pairs.iter().filter(|(name, _)| *name != "__name__");
    let others: Vec<String> = others
        .map(|(name, value)| format!("{name}={value:?}"))
        .collect();
    format!("{name}{{{}}}", others.join(","))
}

/// Parses time and value from `[seconds, "value"]`.
fn point(point: &Value) -> (i64, f64) {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "milliseconds of this century"
    )]
    let time_ms = (point[0].as_f64().unwrap() * 1000.0).round() as i64;
    (time_ms, point[1].as_str().unwrap().parse().unwrap())
}
