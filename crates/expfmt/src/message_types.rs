//! Metric types in messages `io.prometheus.client.MetricFamily`.

use narthex_model::MetricType;

/// Types by their numbers.
const TYPES: [MetricType; 6] = [
    MetricType::Counter,
    MetricType::Gauge,
    MetricType::Summary,
    MetricType::Unknown,
    MetricType::Histogram,
    MetricType::GaugeHistogram,
];

/// Returns the type with a number.
pub(crate) fn type_of(number: u64) -> Option<MetricType> {
    TYPES.get(usize::try_from(number).ok()?).copied()
}

/// Returns the number of a type; those that the format lacks are gauges.
pub(crate) fn number_of(metric_type: MetricType) -> u64 {
    let known = (0..).zip(TYPES).find(|(_, known)| *known == metric_type);
    known.map_or(1, |(number, _)| number)
}

/// Returns the number of the field that holds a metric's value.
pub(crate) fn value_field(metric_type: MetricType) -> u64 {
    match metric_type {
        MetricType::Gauge | MetricType::Info | MetricType::StateSet => 2,
        MetricType::Counter => 3,
        MetricType::Summary => 4,
        MetricType::Unknown => 5,
        MetricType::Histogram | MetricType::GaugeHistogram => 7,
    }
}

pub(crate) fn is_histogram(metric_type: MetricType) -> bool {
    value_field(metric_type) == 7
}
