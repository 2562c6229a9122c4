//! The order in which families and their columns are written.

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
