//! Families of a body: which columns of its frame are the cells of which family.
//!
//! **Invariant:** the parts of a histogram or summary are complete and in the order of the page, whatever their order in
//! the body.

use crate::{
    family::{Metric, NO_TIME, Numbers, Part, Shape, native_cell},
    gauges,
};
use narthex_expfmt::Format;
use narthex_model::{
    ColumnId, Family, Frame, LabelHash, LabelSet, METRIC_NAME, MetricType, cell::Cell,
};
use std::{collections::HashMap, sync::Arc};

/// A cell without a column.
const NO_COLUMN: u32 = u32::MAX;
/// Suffix of the series of OpenMetrics that tells when another one began.
const CREATED: &str = "_created";

/// Returns the numbers of a frame, given the column of each cell.
pub(crate) fn numbers(columns: &[u32], frame: &Frame) -> Numbers {
    let values = frame.values();
    let value_of = |column: &u32| values.get(*column as usize).copied().unwrap_or_default();
    let mut numbers = Numbers {
        cells: columns.iter().map(value_of).collect(),
        ..Numbers::default()
    };
    if !frame.histograms().is_empty() {
        for cell in &mut numbers.cells {
            if let Cell::Histogram(at) = Cell::decode(*cell) {
                let native = Arc::clone(&frame.histograms()[at as usize]);
                numbers.natives.push(native);
                *cell = native_cell(numbers.natives.len() - 1);
            }
        }
    }
    let times_ms = frame.times_ms();
    if !times_ms.is_empty() {
        let time_of = |column: &u32| times_ms.get(*column as usize).copied();
        let each = columns.iter().map(time_of);
        numbers.times_ms = each.map(|time_ms| time_ms.unwrap_or(NO_TIME)).collect();
    }
    numbers
}

/// A family under construction.
struct Builder {
    shape: Shape,
    /// Metrics by the hash of their labels.
    places: HashMap<LabelHash, usize>,
    /// Parts of each metric, with their columns.
    parts: Vec<Vec<(Part, u32)>>,
    last: (LabelHash, usize),
}

/// Groups the columns of a body into families, ordered by name; also returns the column of each of their cells.
pub(crate) fn plans(format: Format, frame: &Frame) -> (Vec<Arc<Shape>>, Vec<u32>) {
    let schema = frame.schema();
    let declared: Declared<'_> = schema
        .families()
        .iter()
        .map(|family| (&*family.name, (family.metric_type, &family.help)))
        .collect();
    let mut builders: Vec<Builder> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (id, column) in schema.columns() {
        if !frame.present().contains(id.index()) {
            continue;
        }
        let metric = column.set.metric_name();
        let family = match format {
            Format::Text => family_of(metric, &declared),
            Format::Protobuf => &*schema.family(id).name,
            Format::OpenMetrics => open_family_of(metric, schema.family(id)),
        };
        // The gateway writes these itself, whatever is pushed.
        if gauges::is_own(family) {
            continue;
        }
        let at = *places.entry(family).or_insert_with(|| {
            let known = match format {
                Format::OpenMetrics => Some(open_metadata(metric, schema.family(id))),
                _ => declared.get(family).copied(),
            };
            builders.push(Builder::new(family, known));
            builders.len() - 1
        });
        builders[at].add(id, &column.set, frame);
    }
    builders.sort_by(|a, b| a.shape.name.cmp(&b.shape.name));
    let mut columns = Vec::new();
    let shapes = builders
        .into_iter()
        .map(|builder| builder.finish(&mut columns));
    let shapes = shapes.collect();
    columns.shrink_to_fit();
    (shapes, columns)
}

/// Type and help of families by name.
type Declared<'a> = HashMap<&'a str, (MetricType, &'a Arc<str>)>;

/// Returns the family of a sample in the text format: the one with its own name, or one it is a part of.
fn family_of<'a>(metric: &'a str, declared: &Declared<'_>) -> &'a str {
    if declared.contains_key(metric) {
        return metric;
    }
    for (suffix, types) in [
        ("_count", &[MetricType::Summary, MetricType::Histogram][..]),
        ("_sum", &[MetricType::Summary, MetricType::Histogram]),
        ("_bucket", &[MetricType::Histogram]),
    ] {
        if let Some(base) = metric.strip_suffix(suffix)
            && declared
                .get(base)
                .is_some_and(|(found, _)| types.contains(found))
        {
            return base;
        }
    }
    metric
}

/// Returns the family that a sample of OpenMetrics has in the text format: its own name, unless it is a part of a
/// histogram or summary.
fn open_family_of<'a>(metric: &'a str, family: &'a Family) -> &'a str {
    let has_parts = matches!(
        family.metric_type,
        MetricType::Histogram | MetricType::GaugeHistogram | MetricType::Summary
    );
    if has_parts && !metric.ends_with(CREATED) {
        &family.name
    } else {
        metric
    }
}

/// Returns type and help that such a family has in the text format.
fn open_metadata<'a>(metric: &str, family: &'a Family) -> (MetricType, &'a Arc<str>) {
    let metric_type = if metric.ends_with(CREATED) && *metric != *family.name {
        MetricType::Gauge
    } else {
        family.metric_type
    };
    (metric_type, &family.help)
}

impl Builder {
    fn new(name: &str, declared: Option<(MetricType, &Arc<str>)>) -> Self {
        let (metric_type, help) = match declared {
            Some((metric_type, help)) => (metric_type, Arc::clone(help)),
            None => (MetricType::Unknown, "".into()),
        };
        Self {
            shape: Shape::new(name.into(), metric_type, help),
            places: HashMap::new(),
            parts: Vec::new(),
            last: (LabelHash::EMPTY, usize::MAX),
        }
    }

    fn add(&mut self, id: ColumnId, set: &LabelSet, frame: &Frame) {
        let bounded = match self.shape.metric_type {
            MetricType::Histogram | MetricType::GaugeHistogram => Some("le"),
            MetricType::Summary => Some("quantile"),
            _ => None,
        };
        let Some(bounded) = bounded else {
            let labels = set.without(&[METRIC_NAME]);
            self.push_metric(labels, vec![(Part::Value, id.0)]);
            return;
        };
        let bound = set.label(bounded);
        let name = set
            .label(METRIC_NAME)
            .map_or(LabelHash::EMPTY, |label| label.hash());
        let hash = set.hash() - name - bound.map_or(LabelHash::EMPTY, |label| label.hash());
        let suffix = set.metric_name().strip_prefix(&*self.shape.name);
        let is_native = matches!(Cell::decode(frame.values()[id.index()]), Cell::Histogram(_));
        let bound = bound.and_then(|label| label.value().parse().ok());
        let part = match (suffix, bound) {
            _ if is_native => Part::Native,
            (Some("_sum" | "_gsum"), _) => Part::Sum,
            (Some("_count" | "_gcount"), _) => Part::Count,
            (Some("_bucket"), Some(bound)) if bounded == "le" => Part::Point(bound),
            (Some(""), Some(bound)) if bounded == "quantile" => Part::Point(bound),
            // Go's parser accepts such a line and ignores its value.
            _ => return,
        };
        let at = match self.last {
            (last, at) if last == hash && at != usize::MAX => at,
            _ => match self.places.get(&hash) {
                Some(at) => *at,
                None => {
                    let labels = set.without(&[METRIC_NAME, bounded]);
                    self.push_metric(labels, Vec::new());
                    self.places.insert(hash, self.parts.len() - 1);
                    self.parts.len() - 1
                }
            },
        };
        self.last = (hash, at);
        self.parts[at].push((part, id.0));
    }

    fn push_metric(&mut self, labels: LabelSet, parts: Vec<(Part, u32)>) {
        self.shape.metrics.push(Metric {
            labels: labels.intern(),
            parts_end: 0,
        });
        self.parts.push(parts);
    }

    /// Orders the parts of every metric for output, and adds the mandatory ones.
    fn finish(mut self, columns: &mut Vec<u32>) -> Arc<Shape> {
        let is_summary = self.shape.metric_type == MetricType::Summary;
        for (metric, mut parts) in self.shape.metrics.iter_mut().zip(self.parts) {
            if parts.first().is_some_and(|(part, _)| *part != Part::Value) {
                complete(&mut parts, is_summary);
            }
            self.shape.parts.extend(parts.iter().map(|(part, _)| *part));
            columns.extend(parts.iter().map(|(_, column)| *column));
            metric.parts_end = self.shape.parts.len();
        }
        self.shape.parts.shrink_to_fit();
        self.shape.metrics.shrink_to_fit();
        Arc::new(self.shape)
    }
}

/// Sorts the parts of a summary or histogram and adds missing sum, count and last bucket.
fn complete(parts: &mut Vec<(Part, u32)>, is_summary: bool) {
    let column = |parts: &[(Part, u32)], wanted: Part| {
        let found = parts.iter().find(|(part, _)| *part == wanted);
        found.map(|(_, column)| *column)
    };
    let only_native = parts.iter().all(|(part, _)| *part == Part::Native);
    if only_native {
        return;
    }
    let count = column(parts, Part::Count);
    for part in [Part::Sum, Part::Count] {
        if column(parts, part).is_none() {
            parts.push((part, NO_COLUMN));
        }
    }
    let open = Part::Point(f64::INFINITY);
    if !is_summary && column(parts, open).is_none() {
        parts.push((open, count.unwrap_or(NO_COLUMN)));
    }
    let rank = |part: &Part| match part {
        Part::Native => (0, 0.0),
        Part::Value => (1, 0.0),
        Part::Point(bound) => (2, *bound),
        Part::Sum => (3, 0.0),
        Part::Count => (4, 0.0),
    };
    parts.sort_by(|(a, _), (b, _)| {
        let (a, b) = (rank(a), rank(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
}
