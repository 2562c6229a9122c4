//! Tests of `self_metrics`.

use super::*;

#[test]
fn groups_are_added_up_and_quantiles_kept_apart() {
    let page = "# TYPE prometheus_rule_evaluations_total counter\n\
         prometheus_rule_evaluations_total{rule_group=\"a;b\"} 3\n\
         prometheus_rule_evaluations_total{rule_group=\"a;c\"} 4\n\
         prometheus_rule_evaluation_duration_seconds{quantile=\"0.5\"} 0.001\n\
         prometheus_rule_evaluation_duration_seconds{quantile=\"0.99\"} 0.02\n\
         prometheus_rule_evaluation_duration_seconds_sum 5\n\
         prometheus_rule_evaluation_duration_seconds_count 9\n\
         prometheus_rule_group_duration_seconds{quantile=\"0.99\"} 0.3\n\
         go_goroutines 12\n";
    let expected = [
        ("evaluations_total", 7.0),
        ("evaluation_duration_seconds_sum", 5.0),
        ("evaluation_duration_seconds_count", 9.0),
        ("evaluation_duration_seconds 0.5", 0.001),
        ("evaluation_duration_seconds 0.99", 0.02),
        ("group_duration_seconds 0.99", 0.3),
    ];
    let expected = expected.map(|(key, value)| (key.to_owned(), value));
    let metrics = SelfMetrics::read(page);
    assert_eq!(metrics, SelfMetrics(expected.into()));
    assert_eq!(metrics.get("group_iterations_missed_total"), None);
}
