//! Tests of `queries`.

use super::*;
use crate::load::fleet::Shape;

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
        rate_of_one_service(&fleet, "60s", 57),
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
}
