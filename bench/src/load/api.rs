//! The query API that all servers share: request paths, and responses.

use super::fleet::clock::seconds;
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
    fn times_are_in_seconds() {
        assert_eq!(
            instant("a b", Some(1_700_000_000_007)),
            "/api/v1/query?query=a%20b&time=1700000000.007"
        );
        assert_eq!(instant("up", None), "/api/v1/query?query=up");
        let range = range("up", 1_000, 2_500, 90_000);
        assert_eq!(
            range,
            "/api/v1/query_range?query=up&start=1.000&end=2.500&step=90.000"
        );
    }
}
