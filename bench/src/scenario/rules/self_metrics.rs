//! What a server says of its evaluations, in Prometheus' metrics.
//!
//! **Invariant:** a metric that the server lacks is `None`, never 0.

use narthex_testkit::exposition::Line;

/// What a page says of all groups.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct SelfMetrics {
    pub(super) evaluations: Option<f64>,
    pub(super) failures: Option<f64>,
    pub(super) iterations: Option<f64>,
    pub(super) missed: Option<f64>,
    /// Samples of every group's last evaluation.
    pub(super) samples: Option<f64>,
    /// Time of all evaluations, and their number.
    pub(super) rule_seconds: Option<f64>,
    pub(super) rule_count: Option<f64>,
    pub(super) rule_p50: Option<f64>,
    pub(super) rule_p99: Option<f64>,
    pub(super) group_p50: Option<f64>,
    pub(super) group_p99: Option<f64>,
}

impl SelfMetrics {
    /// Reads a page in the text format.
    pub(super) fn read(page: &str) -> Self {
        let mut metrics = Self::default();
        for line in page.lines().filter_map(Line::parse) {
            let Some(name) = line.name.strip_prefix("prometheus_rule_") else {
                continue;
            };
            let quantile = line.labels.iter().find(|label| label.name == "quantile");
            let place = match (name, quantile.map(|label| label.value)) {
                ("evaluations_total", _) => &mut metrics.evaluations,
                ("evaluation_failures_total", _) => &mut metrics.failures,
                ("group_iterations_total", _) => &mut metrics.iterations,
                ("group_iterations_missed_total", _) => &mut metrics.missed,
                ("group_last_evaluation_samples", _) => &mut metrics.samples,
                ("evaluation_duration_seconds_sum", _) => &mut metrics.rule_seconds,
                ("evaluation_duration_seconds_count", _) => &mut metrics.rule_count,
                ("evaluation_duration_seconds", Some("0.5")) => &mut metrics.rule_p50,
                ("evaluation_duration_seconds", Some("0.99")) => &mut metrics.rule_p99,
                ("group_duration_seconds", Some("0.5")) => &mut metrics.group_p50,
                ("group_duration_seconds", Some("0.99")) => &mut metrics.group_p99,
                _ => continue,
            };
            if let Ok(value) = line.value.parse::<f64>() {
                *place = Some(place.unwrap_or_default() + value);
            }
        }
        metrics
    }
}

#[cfg(test)]
mod tests;
