//! A family as described by its lines.

use narthex_model::{LabelSet, METRIC_NAME, MetricType};
use std::collections::HashSet;

/// One sample line.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) offset: usize,
    pub(super) labels: LabelSet,
    pub(super) value: f64,
    pub(super) time_ms: Option<i64>,
}

impl Sample {
    pub(super) fn name(&self) -> &str {
        self.labels.metric_name()
    }
}

/// Lines that belong together.
#[derive(Debug, Default)]
pub(super) struct Family {
    pub(super) name: String,
    pub(super) metric_type: Option<MetricType>,
    pub(super) help: Option<String>,
    pub(super) unit: Option<String>,
    pub(super) offset: usize,
    pub(super) samples: Vec<Sample>,
    /// Label sets of the metrics seen so far.
    pub(super) groups: HashSet<LabelSet>,
    /// Metric of the last line, and that line's time.
    pub(super) group: Option<(LabelSet, Option<i64>)>,
}

/// Returns the labels of the metric that a sample is part of.
pub(super) fn group_of(
    family: &str,
    metric_type: MetricType,
    suffix: &str,
    labels: &LabelSet,
) -> LabelSet {
    match (metric_type, suffix) {
        // An info's labels are its value.
        (MetricType::Info, _) => LabelSet::empty(),
        (MetricType::Summary, "") => labels.without(&[METRIC_NAME, "quantile"]),
        (MetricType::StateSet, _) => labels.without(&[METRIC_NAME, family]),
        (MetricType::Histogram | MetricType::GaugeHistogram, "_bucket") => {
            labels.without(&[METRIC_NAME, "le"])
        }
        _ => labels.without(&[METRIC_NAME]),
    }
}
