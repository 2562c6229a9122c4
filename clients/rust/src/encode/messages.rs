//! Delimited messages `io.prometheus.client.MetricFamily`.
//!
//! Field numbers are those of `io/prometheus/client/metrics.proto` in github.com/prometheus/client_model.
//!
//! **Invariant:** lengths are written before what they measure, in as few bytes as they take.

use crate::exemplar::Exemplar;
use crate::point::{NativePoint, Point, Reading, SeriesVisitor, Side, Wants};
use crate::spec::Spec;
use crate::visit::{MetricType, SampleLabels};

/// Room kept for a family's length until it is known; a family has less than 2^35 bytes.
const LENGTH_BYTES: usize = 5;

/// Writes families and series to the end of a buffer.
pub(crate) struct MessageEncoder<'a> {
    out: &'a mut Vec<u8>,
    /// Where the open family's length will be.
    family_at: Option<usize>,
    bounds: &'static [f64],
    quantiles: &'static [f64],
    /// Parts of the message being written, kept to reuse their memory.
    labels: Vec<u8>,
    value: Vec<u8>,
    part: Vec<u8>,
}

impl<'a> MessageEncoder<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Self {
        Self {
            out,
            family_at: None,
            bounds: &[],
            quantiles: &[],
            labels: Vec::new(),
            value: Vec::new(),
            part: Vec::new(),
        }
    }

    /// Ends the last family.
    pub(crate) fn finish(mut self) {
        self.end_family();
    }

    fn end_family(&mut self) {
        let Some(at) = self.family_at.take() else {
            return;
        };
        let body = at + LENGTH_BYTES;
        let mut length = Vec::with_capacity(LENGTH_BYTES);
        put_varint(&mut length, (self.out.len() - body) as u64);
        self.out.copy_within(body.., at + length.len());
        self.out
            .truncate(self.out.len() - (LENGTH_BYTES - length.len()));
        self.out[at..at + length.len()].copy_from_slice(&length);
    }

    fn put_value(&mut self, reading: &Reading<'_>) -> u64 {
        self.value.clear();
        let (value, part) = (&mut self.value, &mut self.part);
        match reading.point {
            Point::Counter {
                value: number,
                exemplar,
            } => {
                put_double(value, 1, number);
                if let Some(exemplar) = exemplar {
                    put_exemplar(value, 2, exemplar);
                }
                put_time(value, 3, reading.created_ms);
                3
            }
            Point::Gauge(number) => {
                put_double(value, 1, number);
                2
            }
            Point::Histogram {
                sum,
                count,
                buckets,
                exemplars,
                native,
            } => {
                put_integer(value, 1, count);
                put_double(value, 2, sum);
                let has_classic = native.is_none() || !self.bounds.is_empty();
                if has_classic {
                    put_buckets(value, part, self.bounds, buckets, exemplars);
                }
                if let Some(native) = native {
                    put_native(value, part, native);
                    for exemplar in exemplars.iter().flatten().filter(|_| !has_classic) {
                        put_exemplar(value, 16, exemplar);
                    }
                }
                put_time(value, 15, reading.created_ms);
                7
            }
            Point::Summary { sum, count, values } => {
                put_integer(value, 1, count);
                put_double(value, 2, sum);
                for (quantile, number) in self.quantiles.iter().zip(values) {
                    part.clear();
                    put_double(part, 1, *quantile);
                    put_double(part, 2, *number);
                    put_bytes(value, 3, part);
                }
                put_time(value, 4, reading.created_ms);
                4
            }
        }
    }
}

impl SeriesVisitor for MessageEncoder<'_> {
    fn wants(&self) -> Wants {
        Wants {
            exemplars: true,
            messages: true,
            ..Wants::default()
        }
    }

    fn family(&mut self, spec: &Spec) {
        self.end_family();
        self.family_at = Some(self.out.len());
        self.out.extend_from_slice(&[0; LENGTH_BYTES]);
        put_bytes(self.out, 1, spec.name.as_bytes());
        put_bytes(self.out, 2, spec.help.as_bytes());
        let kind = match spec.kind {
            MetricType::Counter => 0,
            MetricType::Gauge => 1,
            MetricType::Summary => 2,
            MetricType::Untyped => 3,
            MetricType::Histogram => 4,
        };
        put_integer(self.out, 3, kind);
        (self.bounds, self.quantiles) = (spec.bounds, spec.quantiles);
    }

    fn series(&mut self, reading: &Reading<'_>) {
        let field = self.put_value(reading);
        let labels = match reading.labels.encoded {
            kept @ [_, ..] => kept,
            [] => {
                self.labels.clear();
                put_labels(&mut self.labels, reading.labels);
                &self.labels
            }
        };
        // The value's field is at most 15, so that its key takes a byte.
        let length = labels.len() + 1 + varint_len(self.value.len() as u64) + self.value.len();
        put_key(self.out, 4, 2);
        put_varint(self.out, length as u64);
        self.out.extend_from_slice(labels);
        put_bytes(self.out, field, &self.value);
    }
}

/// Appends the label pairs of a metric.
pub(crate) fn put_labels(out: &mut Vec<u8>, labels: SampleLabels<'_>) {
    for (name, value) in labels.iter() {
        put_pair(out, name, value);
    }
}

fn put_pair(out: &mut Vec<u8>, name: &str, value: &str) {
    let part = |text: &str| 1 + varint_len(text.len() as u64) + text.len();
    put_key(out, 1, 2);
    put_varint(out, (part(name) + part(value)) as u64);
    put_bytes(out, 1, name.as_bytes());
    put_bytes(out, 2, value.as_bytes());
}

/// Appends the classic buckets; the last one only to carry an exemplar, for readers add it from the count.
fn put_buckets<E: AsRef<Exemplar>>(
    out: &mut Vec<u8>,
    part: &mut Vec<u8>,
    bounds: &[f64],
    buckets: &[u64],
    exemplars: &[Option<E>],
) {
    let mut total = 0;
    let all = bounds.iter().copied().chain([f64::INFINITY]);
    for (at, (bucket, bound)) in buckets.iter().zip(all).enumerate() {
        total += bucket;
        let exemplar = exemplars.get(at).and_then(Option::as_ref);
        if bound == f64::INFINITY && exemplar.is_none() {
            break;
        }
        part.clear();
        put_integer(part, 1, total);
        put_double(part, 2, bound);
        if let Some(exemplar) = exemplar {
            put_exemplar(part, 3, exemplar.as_ref());
        }
        put_bytes(out, 3, part);
    }
}

fn put_native(out: &mut Vec<u8>, part: &mut Vec<u8>, native: &NativePoint) {
    put_integer(out, 5, zigzag(native.schema.into()));
    put_double(out, 6, native.zero_threshold);
    put_integer(out, 7, native.zero_count);
    put_side(out, part, 9, &native.negative);
    put_side(out, part, 12, &native.positive);
    if native.positive.is_empty() && native.negative.is_empty() {
        // A span without buckets tells a native histogram without observations from a classic one.
        put_bytes(out, 12, &[]);
    }
}

/// Appends spans as `field` and deltas as the field after it. Neighbouring buckets share a span.
fn put_side(out: &mut Vec<u8>, part: &mut Vec<u8>, field: u64, side: &Side) {
    let mut next = 0;
    for run in side.chunk_by(|a, b| a.0 + 1 == b.0) {
        part.clear();
        put_integer(part, 1, zigzag(i64::from(run[0].0) - next));
        put_integer(part, 2, run.len() as u64);
        put_bytes(out, field, part);
        next = i64::from(run[0].0) + run.len() as i64;
    }
    part.clear();
    let mut before = 0_i64;
    for (_, count) in side {
        let count = count.cast_signed();
        put_varint(part, zigzag(count.wrapping_sub(before)));
        before = count;
    }
    if !part.is_empty() {
        put_bytes(out, field + 1, part);
    }
}

fn put_exemplar(out: &mut Vec<u8>, field: u64, exemplar: &Exemplar) {
    let mut message = Vec::new();
    for (name, value) in &exemplar.labels {
        put_pair(&mut message, name, value);
    }
    put_double(&mut message, 2, exemplar.value);
    put_time(&mut message, 3, exemplar.time_ms);
    put_bytes(out, field, &message);
}

/// Appends a `google.protobuf.Timestamp`; nothing for an unknown time.
fn put_time(out: &mut Vec<u8>, field: u64, time_ms: u64) {
    if time_ms == 0 {
        return;
    }
    let (seconds, nanos) = (time_ms / 1000, time_ms % 1000 * 1_000_000);
    let length = 2 + varint_len(seconds) + varint_len(nanos);
    put_key(out, field, 2);
    put_varint(out, length as u64);
    put_integer(out, 1, seconds);
    put_integer(out, 2, nanos);
}

fn put_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_key(out, field, 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_double(out: &mut Vec<u8>, field: u64, value: f64) {
    put_key(out, field, 1);
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_integer(out: &mut Vec<u8>, field: u64, value: u64) {
    put_key(out, field, 0);
    put_varint(out, value);
}

fn put_key(out: &mut Vec<u8>, field: u64, wire_type: u64) {
    put_varint(out, field << 3 | wire_type);
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn varint_len(value: u64) -> usize {
    (value | 1).ilog2() as usize / 7 + 1
}

fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_numbers_are_those_of_their_bytes() {
        for shift in 0..64 {
            for value in [1_u64 << shift, (1 << shift) - 1] {
                let mut out = Vec::new();
                put_varint(&mut out, value);
                assert_eq!(out.len(), varint_len(value), "{value}");
            }
        }
    }
}
