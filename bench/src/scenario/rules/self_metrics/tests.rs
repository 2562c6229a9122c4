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
    let expected = SelfMetrics {
        evaluations: Some(7.0),
        rule_seconds: Some(5.0),
        rule_count: Some(9.0),
        rule_p50: Some(0.001),
        rule_p99: Some(0.02),
        group_p99: Some(0.3),
        ..SelfMetrics::default()
    };
    assert_eq!(SelfMetrics::read(page), expected);
}
