//! Frames as delimited messages `MetricFamily`.
//!
//! **Invariant:** a family's head and a metric's labels are encoded when the schema is bound and copied afterwards.

use super::{
    FamilyRef, FormatWriter, Shown,
    families::{families, part_label, written_type},
};
use crate::{
    escape::Escaping,
    format::Format,
    message_types::{number_of, value_field},
    number,
};
use narthex_model::{
    ColumnId, Exemplar, Frame, Histogram, LabelSet, METRIC_NAME, MetricType, Schema,
    cell::{self, Cell},
    histogram::Span,
    protobuf::{put_bytes, put_double, put_integer},
    varint::{put_varint, zigzag},
};

/// Renders the frames of one schema.
#[derive(Debug)]
pub(super) struct MessageWriter {
    families: Vec<FamilyPlan>,
    /// The message being written, kept to reuse its memory.
    message: Vec<u8>,
    /// Its parts.
    scratch: [Vec<u8>; 2],
}

#[derive(Debug)]
struct FamilyPlan {
    /// Name of the series, or of the family where its series have several names, escaped.
    name: Box<str>,
    /// The field with the help.
    help: Vec<u8>,
    unit: Vec<u8>,
    metric_type: MetricType,
    /// The type in the head.
    written: MetricType,
    metrics: Vec<MetricPlan>,
}

/// One metric and the columns of its parts.
#[derive(Debug, Default)]
struct MetricPlan {
    labels: Vec<u8>,
    /// The value of a metric with one series, or the native histogram.
    value: Option<ColumnId>,
    count: Option<ColumnId>,
    sum: Option<ColumnId>,
    /// Quantiles or bucket bounds.
    points: Vec<(f64, ColumnId)>,
}

impl MessageWriter {
    pub(super) fn new(schema: &Schema, escaping: Escaping) -> Self {
        let plan = |columns: Vec<ColumnId>| FamilyPlan::new(schema, &columns, escaping);
        Self {
            families: families(schema).into_iter().filter_map(plan).collect(),
            message: Vec::new(),
            scratch: Default::default(),
        }
    }
}

impl FormatWriter for MessageWriter {
    fn write(&mut self, frame: &Frame, out: &mut Vec<u8>) {
        let mut message = std::mem::take(&mut self.message);
        for at in 0..self.families.len() {
            message.clear();
            if self.write_family(at, frame, Shown::WHOLE, &mut message) {
                message.extend_from_slice(self.unit(at));
                put_varint(out, message.len() as u64);
                out.extend_from_slice(&message);
            }
        }
        self.message = message;
    }

    /// Appends the metrics, and the head of the family before the first.
    fn write_family(&mut self, at: usize, frame: &Frame, shown: Shown, out: &mut Vec<u8>) -> bool {
        let [metric_bytes, value_bytes] = &mut self.scratch;
        let family = &self.families[at];
        let metric_type = FamilyPlan::shown_type(shown, family.metric_type);
        let start = out.len();
        if shown.with_head {
            family.put_head(shown, out);
        }
        let empty = out.len();
        for metric in &family.metrics {
            metric_bytes.clear();
            metric_bytes.extend_from_slice(&metric.labels);
            value_bytes.clear();
            if metric.write(frame, metric_type, metric_bytes, value_bytes) {
                put_bytes(out, 4, metric_bytes);
            }
        }
        let any = out.len() > empty;
        if !any {
            out.truncate(start);
        }
        any
    }

    fn families(&self) -> usize {
        self.families.len()
    }

    fn family(&self, at: usize) -> FamilyRef<'_> {
        let family = &self.families[at];
        FamilyRef {
            key: &family.name,
            head: family.name.as_bytes(),
            written: family.written,
            is_single: part_label(family.metric_type).is_none(),
        }
    }

    fn columns(&self, at: usize) -> Vec<ColumnId> {
        let of = |metric: &MetricPlan| {
            let points = metric.points.iter().map(|(_, column)| *column);
            let others = [metric.value, metric.count, metric.sum];
            points
                .chain(others.into_iter().flatten())
                .collect::<Vec<_>>()
        };
        self.families[at].metrics.iter().flat_map(of).collect()
    }

    fn unit(&self, at: usize) -> &[u8] {
        &self.families[at].unit
    }

    fn sizes(&self) -> (usize, usize) {
        let (mut kept, mut page) = (0, 0);
        for family in &self.families {
            let head = family.name.len() + family.help.len() + family.unit.len();
            kept += size_of::<FamilyPlan>() + head;
            page += head;
            for metric in &family.metrics {
                let points = metric.points.len();
                kept += size_of::<MetricPlan>() + metric.labels.capacity();
                kept += points * size_of::<(f64, ColumnId)>();
                page += metric.labels.len() + METRIC_BYTES + points * POINT_BYTES;
            }
        }
        (kept, page)
    }
}

/// Bytes of a metric without its labels and points, about.
const METRIC_BYTES: usize = 40;
/// Bytes of a bucket or quantile, about.
const POINT_BYTES: usize = 24;

impl FamilyPlan {
    fn new(schema: &Schema, columns: &[ColumnId], escaping: Escaping) -> Option<Self> {
        let first = columns.first()?;
        let family = schema.family(*first);
        let metric_type = family.metric_type;
        let metric = schema.column(*first).set.metric_name();
        let name = match part_label(metric_type) {
            // Clients name a counter's family like its series.
            None => metric,
            Some(_) => &*family.name,
        };
        let mut help = Vec::new();
        if !family.help.is_empty() {
            put_bytes(&mut help, 2, family.help.as_bytes());
        }
        let mut unit = Vec::new();
        if !family.unit.is_empty() {
            put_bytes(&mut unit, 5, family.unit.as_bytes());
        }
        let mut metrics: Vec<(LabelSet, MetricPlan)> = Vec::new();
        for id in columns {
            add_column(
                &mut metrics,
                schema,
                *id,
                &family.name,
                metric_type,
                escaping,
            );
        }
        Some(Self {
            name: escaping.name(name).into(),
            help,
            unit,
            metric_type,
            written: written_type(metric_type, metric, Format::Protobuf),
            metrics: metrics.into_iter().map(|(_, plan)| plan).collect(),
        })
    }

    fn put_head(&self, shown: Shown, out: &mut Vec<u8>) {
        put_bytes(out, 1, self.name.as_bytes());
        out.extend_from_slice(&self.help);
        let metric_type = Self::shown_type(shown, self.written);
        put_integer(out, 3, number_of(metric_type));
    }

    fn shown_type(shown: Shown, own: MetricType) -> MetricType {
        if shown.as_unknown {
            MetricType::Unknown
        } else {
            own
        }
    }
}

/// Adds a column to its metric; the parts of one metric are adjacent.
fn add_column(
    metrics: &mut Vec<(LabelSet, MetricPlan)>,
    schema: &Schema,
    id: ColumnId,
    family: &str,
    metric_type: MetricType,
    escaping: Escaping,
) {
    let set = &schema.column(id).set;
    let part = part_label(metric_type);
    let labels = set.without(&[METRIC_NAME, part.unwrap_or(METRIC_NAME)]);
    let same = part.is_some() && metrics.last().is_some_and(|(last, _)| *last == labels);
    if !same {
        let mut plan = MetricPlan::default();
        for label in schema.common().union(&labels).iter() {
            let mut pair = Vec::new();
            put_bytes(&mut pair, 1, escaping.name(label.name()).as_bytes());
            put_bytes(&mut pair, 2, label.value().as_bytes());
            put_bytes(&mut plan.labels, 1, &pair);
        }
        metrics.push((labels, plan));
    }
    let Some((_, plan)) = metrics.last_mut() else {
        return;
    };
    let suffix = set.metric_name().strip_prefix(family).unwrap_or_default();
    let bound = part.and_then(|label| number::read(set.get(label)?.as_bytes()));
    match (part, suffix, bound) {
        (Some(_), "_count" | "_gcount", None) => plan.count = Some(id),
        (Some(_), "_sum" | "_gsum", None) => plan.sum = Some(id),
        (Some("le"), "_bucket", Some(bound)) | (Some("quantile"), "", Some(bound)) => {
            let at = plan.points.partition_point(|(other, _)| *other < bound);
            plan.points.insert(at, (bound, id));
        }
        (None, ..) | (Some("le"), "", _) => plan.value = Some(id),
        // A start time, or a series that does not fit its family's type.
        _ => {}
    }
}

impl MetricPlan {
    /// Appends value and time to a metric's labels; reports whether the frame has any of it.
    fn write(
        &self,
        frame: &Frame,
        metric_type: MetricType,
        metric: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> bool {
        let field = value_field(metric_type);
        let shown = match field {
            4 => self.write_summary(frame, value),
            7 => self.write_histogram(frame, value),
            _ => self.write_value(frame, metric_type, value),
        };
        let Some(shown) = shown else { return false };
        put_bytes(metric, field, value);
        let time_ms = frame.time_of(shown);
        if time_ms != frame.time_ms() {
            put_integer(metric, 6, time_ms.cast_unsigned());
        }
        true
    }

    fn write_value(
        &self,
        frame: &Frame,
        metric_type: MetricType,
        out: &mut Vec<u8>,
    ) -> Option<ColumnId> {
        let column = self.value?;
        put_double(out, 1, float(frame, column)?);
        if metric_type == MetricType::Counter
            && let Some(exemplar) = exemplars(frame, column).first()
        {
            put_exemplar(out, 2, &exemplar.1);
        }
        Some(column)
    }

    fn write_summary(&self, frame: &Frame, out: &mut Vec<u8>) -> Option<ColumnId> {
        let mut shown = None;
        let value = |column: Option<ColumnId>| Some((column?, float(frame, column?)?));
        if let Some((column, count)) = value(self.count) {
            put_integer(out, 1, whole(count));
            shown = Some(column);
        }
        if let Some((column, sum)) = value(self.sum) {
            put_double(out, 2, sum);
            shown = Some(column);
        }
        for (quantile, column) in &self.points {
            if let Some(value) = float(frame, *column) {
                let mut point = Vec::with_capacity(18);
                put_double(&mut point, 1, *quantile);
                put_double(&mut point, 2, value);
                put_bytes(out, 3, &point);
                shown = Some(*column);
            }
        }
        shown
    }

    fn write_histogram(&self, frame: &Frame, out: &mut Vec<u8>) -> Option<ColumnId> {
        let native = self.value.and_then(|column| {
            let value = *frame.values().get(column.index())?;
            match Cell::decode(value) {
                Cell::Histogram(at) if frame.present().contains(column.index()) => {
                    Some((column, frame.histograms().get(at as usize)?))
                }
                _ => None,
            }
        });
        let mut shown = None;
        if let Some((column, histogram)) = native {
            put_native(out, histogram);
            for (_, exemplar) in exemplars(frame, column) {
                put_exemplar(out, 16, exemplar);
            }
            shown = Some(column);
        } else {
            for (column, field) in [(self.count, 1), (self.sum, 2)] {
                let value = column.and_then(|column| float(frame, column));
                match value {
                    Some(sum) if field == 2 => put_double(out, 2, sum),
                    Some(count) if count.fract() == 0.0 && count >= 0.0 => {
                        put_integer(out, 1, whole(count));
                    }
                    Some(count) => put_double(out, 4, count),
                    None => continue,
                }
                shown = column;
            }
        }
        for (bound, column) in &self.points {
            if let Some(count) = float(frame, *column) {
                let mut bucket = Vec::with_capacity(24);
                if count.fract() == 0.0 && count >= 0.0 {
                    put_integer(&mut bucket, 1, whole(count));
                } else {
                    put_double(&mut bucket, 4, count);
                }
                put_double(&mut bucket, 2, *bound);
                if let Some((_, exemplar)) = exemplars(frame, *column).first() {
                    put_exemplar(&mut bucket, 3, exemplar);
                }
                put_bytes(out, 3, &bucket);
                shown = Some(*column);
            }
        }
        shown
    }
}

/// Returns the float of a column in this round.
fn float(frame: &Frame, column: ColumnId) -> Option<f64> {
    let value = *frame.values().get(column.index())?;
    (frame.present().contains(column.index()) && cell::is_float(value)).then_some(value)
}

fn exemplars(frame: &Frame, column: ColumnId) -> &[(ColumnId, Exemplar)] {
    let all = frame.exemplars();
    let from = all.partition_point(|(other, _)| *other < column);
    let to = all.partition_point(|(other, _)| *other <= column);
    all.get(from..to).unwrap_or_default()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value is whole and not negative, or as near as a count comes"
)]
fn whole(count: f64) -> u64 {
    count as u64
}

fn put_native(out: &mut Vec<u8>, histogram: &Histogram) {
    if histogram.integer_counts {
        put_integer(out, 1, whole(histogram.count));
        put_integer(out, 7, whole(histogram.zero_count));
    } else {
        put_double(out, 4, histogram.count);
        put_double(out, 8, histogram.zero_count);
    }
    put_double(out, 2, histogram.sum);
    put_integer(out, 5, zigzag(i64::from(histogram.histogram_schema)));
    put_double(out, 6, histogram.zero_threshold);
    let sides = [
        (9, &histogram.negative_spans, &histogram.negative_buckets),
        (12, &histogram.positive_spans, &histogram.positive_buckets),
    ];
    for (field, spans, buckets) in sides {
        for Span { offset, length } in spans {
            let mut span = Vec::with_capacity(12);
            put_integer(&mut span, 1, zigzag(i64::from(*offset)));
            put_integer(&mut span, 2, u64::from(*length));
            put_bytes(out, field, &span);
        }
        let mut packed = Vec::new();
        let mut before = 0i64;
        for count in buckets {
            if histogram.integer_counts {
                let count = whole(*count).cast_signed();
                put_varint(&mut packed, zigzag(count - before));
                before = count;
            } else {
                packed.extend_from_slice(&count.to_le_bytes());
            }
        }
        if !packed.is_empty() {
            let field = field + if histogram.integer_counts { 1 } else { 2 };
            put_bytes(out, field, &packed);
        }
    }
    // Without this span an empty native histogram would look like a classic one.
    if histogram.positive_spans.is_empty() && histogram.negative_spans.is_empty() {
        put_bytes(out, 12, &[]);
    }
}

fn put_exemplar(out: &mut Vec<u8>, field: u64, exemplar: &Exemplar) {
    let mut message = Vec::new();
    for label in &exemplar.labels {
        let mut pair = Vec::new();
        put_bytes(&mut pair, 1, label.name().as_bytes());
        put_bytes(&mut pair, 2, label.value().as_bytes());
        put_bytes(&mut message, 1, &pair);
    }
    put_double(&mut message, 2, exemplar.value);
    if let Some(time_ms) = exemplar.time_ms {
        let mut time = Vec::new();
        put_integer(&mut time, 1, time_ms.div_euclid(1000).cast_unsigned());
        let nanos = time_ms.rem_euclid(1000) * 1_000_000;
        put_integer(&mut time, 2, nanos.cast_unsigned());
        put_bytes(&mut message, 3, &time);
    }
    put_bytes(out, field, &message);
}
