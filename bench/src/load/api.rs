//! The query API that all servers share: request paths, and responses.

use super::fleet::seconds;
use narthex_testkit::http;
use serde_json::Value;

/// Returns the path of an instant query; without a time, it means now.
pub(crate) fn instant(query: &str, at_ms: Option<i64>) -> String {
    let time = at_ms.map(seconds);
    let mut fields = vec![("query", query)];
    fields.extend(time.as_deref().map(|time| ("time", time)));
    format!("/api/v1/query?{}", http::query(&fields))
}

/// Returns the path of a range query.
pub(crate) fn range(query: &str, start_ms: i64, end_ms: i64, step_ms: i64) -> String {
    let [start, end, step] = [start_ms, end_ms, step_ms].map(seconds);
    let fields = [
        ("query", query),
        ("start", &start),
        ("end", &end),
        ("step", &step),
    ];
    format!("/api/v1/query_range?{}", http::query(&fields))
}

/// Returns the series of a successful answer.
pub(crate) fn result(body: &[u8]) -> Option<Vec<Value>> {
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
mod tests;
