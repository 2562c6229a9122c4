//! One decoded metric, in memory reused for the next.
//!
//! **Invariant:** allocations are bounded by the bytes of the message: a length in it reserves nothing.

use super::wire::{Reader, Value};
use crate::{
    buckets::check_spans,
    error::{ParseError, ParseErrorKind},
    message_types::value_field,
};
use narthex_model::{
    Exemplar, Histogram, Label, LabelSet, MetricType,
    histogram::{ResetHint, Span},
    varint::unzigzag,
};
use std::ops::Range;

/// A quantile or a bucket.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Point {
    pub(crate) bound: f64,
    pub(crate) value: f64,
    pub(crate) exemplar: Option<Range<usize>>,
}

/// Buckets of one side of a native histogram, as encoded.
#[derive(Debug, Default)]
struct Side {
    spans: Vec<Span>,
    deltas: Vec<i64>,
    counts: Vec<f64>,
}

/// One metric.
#[derive(Debug, Default)]
pub(crate) struct Message {
    /// Range of the encoded labels.
    pub(crate) labels: Range<usize>,
    /// Whether there are labels elsewhere too.
    pub(crate) scattered: bool,
    pub(crate) time_ms: i64,
    pub(crate) start_ms: Option<i64>,
    pub(crate) value: f64,
    pub(crate) exemplar: Option<Range<usize>>,
    pub(crate) count: f64,
    pub(crate) sum: f64,
    pub(crate) points: Vec<Point>,
    pub(crate) exemplars: Vec<Range<usize>>,
    count_float: f64,
    schema: i32,
    zero_threshold: f64,
    zero_count: f64,
    zero_count_float: f64,
    positive: Side,
    negative: Side,
}

impl Message {
    /// Decodes a metric of a family of this kind.
    pub(crate) fn read(
        &mut self,
        mut reader: Reader<'_>,
        kind: MetricType,
    ) -> Result<(), ParseError> {
        self.restart(reader.at);
        while let Some((number, value)) = reader.field()? {
            if number == 1 {
                let contiguous =
                    matches!(value, Value::Bytes(label) if self.labels.end == label_start(label));
                if contiguous {
                    self.labels.end = reader.at;
                } else {
                    self.scattered = true;
                }
            } else if number == 6 {
                self.time_ms = value.integer().cast_signed();
            } else if number == value_field(kind) {
                let message = value.message();
                match kind {
                    MetricType::Summary => self.read_summary(message)?,
                    MetricType::Histogram | MetricType::GaugeHistogram => {
                        self.read_histogram(message)?;
                    }
                    _ => self.read_simple(message)?,
                }
            }
        }
        if self.count_float > 0.0 {
            self.count = self.count_float;
        }
        Ok(())
    }

    fn restart(&mut self, at: usize) {
        let Self {
            points,
            exemplars,
            positive,
            negative,
            ..
        } = std::mem::take(self);
        let emptied = |mut side: Side| {
            side.spans.clear();
            side.deltas.clear();
            side.counts.clear();
            side
        };
        *self = Self {
            labels: at..at,
            points,
            exemplars,
            positive: emptied(positive),
            negative: emptied(negative),
            ..Self::default()
        };
        self.points.clear();
        self.exemplars.clear();
    }

    fn read_simple(&mut self, mut reader: Reader<'_>) -> Result<(), ParseError> {
        while let Some((number, value)) = reader.field()? {
            match number {
                1 => self.value = value.double(),
                2 => self.exemplar = span(value),
                3 => self.start_ms = Some(read_time(value.message())?),
                _ => {}
            }
        }
        Ok(())
    }

    fn read_summary(&mut self, mut reader: Reader<'_>) -> Result<(), ParseError> {
        while let Some((number, value)) = reader.field()? {
            match number {
                1 => self.count = float(value.integer()),
                2 => self.sum = value.double(),
                3 => {
                    let mut point = Point::default();
                    let mut quantile = value.message();
                    while let Some((number, value)) = quantile.field()? {
                        match number {
                            1 => point.bound = value.double(),
                            2 => point.value = value.double(),
                            _ => {}
                        }
                    }
                    self.points.push(point);
                }
                4 => self.start_ms = Some(read_time(value.message())?),
                _ => {}
            }
        }
        Ok(())
    }

    fn read_histogram(&mut self, mut reader: Reader<'_>) -> Result<(), ParseError> {
        while let Some((number, value)) = reader.field()? {
            match number {
                1 => self.count = float(value.integer()),
                2 => self.sum = value.double(),
                3 => self.points.push(read_bucket(value.message())?),
                4 => self.count_float = value.double(),
                5 => self.schema = narrow(unzigzag(value.integer())),
                6 => self.zero_threshold = value.double(),
                7 => self.zero_count = float(value.integer()),
                8 => self.zero_count_float = value.double(),
                9 => self.negative.spans.push(read_span(value.message())?),
                10 => read_deltas(value, &mut self.negative.deltas)?,
                11 => read_doubles(value, &mut self.negative.counts)?,
                12 => self.positive.spans.push(read_span(value.message())?),
                13 => read_deltas(value, &mut self.positive.deltas)?,
                14 => read_doubles(value, &mut self.positive.counts)?,
                15 => self.start_ms = Some(read_time(value.message())?),
                16 => self.exemplars.extend(span(value)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Reports whether a histogram has native parts.
    pub(crate) fn is_native(&self) -> bool {
        !self.positive.spans.is_empty()
            || !self.negative.spans.is_empty()
            || self.zero_threshold > 0.0
            || self.zero_count > 0.0
    }

    /// Returns the native histogram.
    ///
    /// # Errors
    /// Fails when spans and buckets do not agree.
    pub(crate) fn native(&self, kind: MetricType) -> Result<Histogram, String> {
        let is_float = self.count_float > 0.0 || self.zero_count_float > 0.0;
        let mut histogram = Histogram {
            histogram_schema: self.schema,
            integer_counts: !is_float,
            reset_hint: reset_hint(kind),
            zero_threshold: self.zero_threshold,
            zero_count: if is_float {
                self.zero_count_float
            } else {
                self.zero_count
            },
            count: if is_float {
                self.count_float
            } else {
                self.count
            },
            sum: self.sum,
            positive_buckets: self.positive.absolute("positive", is_float)?,
            negative_buckets: self.negative.absolute("negative", is_float)?,
            positive_spans: self.positive.spans.clone(),
            negative_spans: self.negative.spans.clone(),
            custom_values: Vec::new(),
        };
        histogram.compact();
        Ok(histogram)
    }
}

/// Returns the reset hint of a histogram by its family's kind.
pub(crate) fn reset_hint(kind: MetricType) -> ResetHint {
    if kind == MetricType::GaugeHistogram {
        ResetHint::Gauge
    } else {
        ResetHint::Unknown
    }
}

impl Side {
    /// Returns the absolute counts of the buckets.
    fn absolute(&self, side: &str, is_float: bool) -> Result<Vec<f64>, String> {
        let buckets = if is_float {
            self.counts.len()
        } else {
            self.deltas.len()
        };
        check_spans(side, &self.spans, buckets)?;
        if is_float {
            return Ok(self.counts.clone());
        }
        let mut count = 0i64;
        let absolute = |delta: &i64| {
            count = count.saturating_add(*delta);
            #[expect(clippy::cast_precision_loss, reason = "counts are floats in queries")]
            let count = count as f64;
            count
        };
        Ok(self.deltas.iter().map(absolute).collect())
    }
}

/// Returns the offset of a label's field, given a reader of its content.
fn label_start(label: Reader<'_>) -> usize {
    let len = label.end - label.at;
    // The tag and the length's bytes.
    let length_bytes = (usize::BITS - len.leading_zeros()).div_ceil(7).max(1) as usize;
    label.at.saturating_sub(1 + length_bytes)
}

fn span(value: Value<'_>) -> Option<Range<usize>> {
    match value {
        Value::Bytes(message) => Some(message.at..message.end),
        _ => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "samples are floats")]
fn float(count: u64) -> f64 {
    count as f64
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "as every decoder reads an int32"
)]
fn narrow(value: i64) -> i32 {
    value as i32
}

fn read_bucket(mut reader: Reader<'_>) -> Result<Point, ParseError> {
    let mut point = Point::default();
    let mut count_float = 0.0;
    while let Some((number, value)) = reader.field()? {
        match number {
            1 => point.value = float(value.integer()),
            2 => point.bound = value.double(),
            3 => point.exemplar = span(value),
            4 => count_float = value.double(),
            _ => {}
        }
    }
    if count_float != 0.0 {
        point.value = count_float;
    }
    Ok(point)
}

fn read_span(mut reader: Reader<'_>) -> Result<Span, ParseError> {
    let mut span = Span::default();
    while let Some((number, value)) = reader.field()? {
        match number {
            1 => span.offset = narrow(unzigzag(value.integer())),
            2 => span.length = u32::try_from(value.integer()).unwrap_or(u32::MAX),
            _ => {}
        }
    }
    Ok(span)
}

fn read_deltas(value: Value<'_>, deltas: &mut Vec<i64>) -> Result<(), ParseError> {
    match value {
        Value::Varint(delta) => deltas.push(unzigzag(delta)),
        // Packed.
        Value::Bytes(mut packed) => {
            while !packed.is_empty() {
                deltas.push(unzigzag(packed.varint()?));
            }
        }
        _ => {}
    }
    Ok(())
}

fn read_doubles(value: Value<'_>, counts: &mut Vec<f64>) -> Result<(), ParseError> {
    match value {
        Value::Fixed64(bits) => counts.push(f64::from_bits(bits)),
        // Packed.
        Value::Bytes(packed) => {
            let (doubles, rest) = packed.rest().as_chunks();
            if !rest.is_empty() {
                return Err(packed.error("packed numbers of odd length"));
            }
            counts.extend(doubles.iter().map(|bytes| f64::from_le_bytes(*bytes)));
        }
        _ => {}
    }
    Ok(())
}

/// Reads a timestamp in whole milliseconds.
fn read_time(mut reader: Reader<'_>) -> Result<i64, ParseError> {
    let (mut seconds, mut nanos) = (0i64, 0i64);
    while let Some((number, value)) = reader.field()? {
        match number {
            1 => seconds = value.integer().cast_signed(),
            2 => nanos = i64::from(narrow(value.integer().cast_signed())),
            _ => {}
        }
    }
    Ok(seconds
        .saturating_mul(1000)
        .saturating_add(nanos / 1_000_000))
}

/// Reads the labels of a metric or an exemplar: field 1 of a message, repeated.
pub(crate) fn read_labels(mut reader: Reader<'_>) -> Result<Vec<Label>, ParseError> {
    let mut labels = Vec::new();
    while let Some((number, value)) = reader.field()? {
        if number != 1 {
            continue;
        }
        let mut pair = value.message();
        let at = pair;
        let (mut name, mut content) = ("", "");
        while let Some((number, value)) = pair.field()? {
            match number {
                1 => name = value.message().text()?,
                2 => content = value.message().text()?,
                _ => {}
            }
        }
        if name.is_empty() {
            return Err(at.error("a label without a name"));
        }
        labels.push(Label::new(name, content));
    }
    Ok(labels)
}

/// Reads an exemplar.
pub(crate) fn read_exemplar(body: &[u8], span: Range<usize>) -> Result<Exemplar, ParseError> {
    let mut reader = Reader::part(body, span.start, span.end);
    let labels = LabelSet::from_labels(read_labels(reader)?);
    let (mut number_value, mut time_ms) = (0.0, None);
    while let Some((number, value)) = reader.field()? {
        match number {
            2 => number_value = value.double(),
            3 => time_ms = Some(read_time(value.message())?),
            _ => {}
        }
    }
    Ok(Exemplar {
        labels,
        value: number_value,
        time_ms,
    })
}

/// Returns the error for a reason at a message.
pub(crate) fn contradiction(body: &[u8], at: usize, name: &str, what: String) -> ParseError {
    let name = name.to_owned();
    ParseError::at(body, at, ParseErrorKind::Histogram { name, what })
}
