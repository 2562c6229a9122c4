//! What a server says of its evaluations, in Prometheus' metrics.
//!
//! **Invariant:** a metric that the server lacks is `None`, never 0.

use narthex_testkit::exposition::Line;
use std::collections::BTreeMap;

/// What a page says of all groups: sums by the name behind `prometheus_rule_`, with the quantile if there is one, such as
/// `group_duration_seconds 0.99`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SelfMetrics(BTreeMap<String, f64>);

impl SelfMetrics {
    /// Reads a page in the text format.
    pub(super) fn read(page: &str) -> Self {
        let mut sums = BTreeMap::new();
        for line in page.lines().filter_map(Line::parse) {
            let name = line.name.strip_prefix("prometheus_rule_");
            let (Some(name), Ok(value)) = (name, line.value.parse::<f64>()) else {
                continue;
            };
            let quantile = line.labels.iter().find(|label| label.name == "quantile");
            let key = match quantile {
                Some(quantile) => format!("{name} {}", quantile.value),
                None => name.to_owned(),
            };
            *sums.entry(key).or_default() += value;
        }
        Self(sums)
    }

    /// Returns a sum, `None` if the server has no such metric.
    pub(super) fn get(&self, key: &str) -> Option<f64> {
        self.0.get(key).copied()
    }
}

#[cfg(test)]
mod tests;
