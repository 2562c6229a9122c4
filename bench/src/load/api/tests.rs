//! Tests of `api`.

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
