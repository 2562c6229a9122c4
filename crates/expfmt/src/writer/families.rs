//! The order in which families and their columns are written.

use crate::format::Format;
use narthex_model::{ColumnId, LabelSet, MetricType, Schema};
use std::collections::HashMap;

/// Lists the columns of each family in the order they are written.
pub(super) fn families(schema: &Schema) -> Vec<Vec<ColumnId>> {
    let mut order: Vec<ColumnId> = schema
        .columns()
        .map(|(id, _)| id)
        .filter(|id| !schema.is_retired(*id))
        .collect();
    order.sort_by(|a, b| schema.family(*a).name.cmp(&schema.family(*b).name));
    let same = |a: &ColumnId, b: &ColumnId| schema.family(*a).name == schema.family(*b).name;
    let mut families: Vec<Vec<ColumnId>> = order.chunk_by(same).map(<[_]>::to_vec).collect();
    for columns in &mut families {
        let metric_type = columns.first().map(|id| schema.family(*id).metric_type);
        if let Some(label) = metric_type.and_then(part_label) {
            let mut places: HashMap<LabelSet, usize> = HashMap::new();
            let mut place = |id: &ColumnId| {
                let labels = schema.column(*id).set.without(&["__name__", label]);
                let next = places.len();
                *places.entry(labels).or_insert(next)
            };
            columns.sort_by_cached_key(|id| (place(id), *id));
        }
    }
    families
}

/// Returns the label that distinguishes the parts of one metric, for types whose metrics have several series.
pub(super) fn part_label(metric_type: MetricType) -> Option<&'static str> {
    match metric_type {
        MetricType::Histogram | MetricType::GaugeHistogram => Some("le"),
        MetricType::Summary => Some("quantile"),
        _ => None,
    }
}

/// Returns the type that a format shows for a family whose first series is `metric`.
pub(super) fn written_type(metric_type: MetricType, metric: &str, format: Format) -> MetricType {
    let is_text = format == Format::Text;
    match metric_type {
        MetricType::Info | MetricType::StateSet if format != Format::OpenMetrics => {
            MetricType::Gauge
        }
        MetricType::GaugeHistogram if is_text => MetricType::Unknown,
        // In OpenMetrics a counter's series must have this suffix.
        MetricType::Counter if format == Format::OpenMetrics && !metric.ends_with("_total") => {
            MetricType::Unknown
        }
        other => other,
    }
}
