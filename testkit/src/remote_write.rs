//! Requests of Prometheus' remote write, encoded by hand: an independent encoder for tests of the receiver.
//!
//! **Invariant:** fields are written in ascending order and defaults are omitted, as in Go's encoder, so that equal
//! labels encode to equal bytes.

use crate::{
    http::{self, Response},
    protobuf::{self, bytes, number, zigzag},
};
use std::io;

/// A series with its data.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Names and values, in the order in which they are sent.
    pub labels: Vec<(String, String)>,
    /// Times in milliseconds and values.
    pub samples: Vec<(i64, f64)>,
    /// Native histograms.
    pub histograms: Vec<Histogram>,
    /// Labels, value and time of each.
    pub exemplars: Vec<Exemplar>,
    /// When its counter started; 0 for unknown. Only version 2 sends it.
    pub start_ms: i64,
    /// Type, help and unit. Only version 2 sends them with the series.
    pub metadata: Option<Metadata>,
}

/// A native histogram; buckets hold counts, not differences.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// When.
    pub time_ms: i64,
    /// Whether counts are sent as integers.
    pub integer: bool,
    /// All observations.
    pub count: f64,
    /// Their sum.
    pub sum: f64,
    /// The resolution, -53 for custom buckets.
    pub schema: i32,
    /// Width of the zero bucket.
    pub zero_threshold: f64,
    /// Observations in it.
    pub zero_count: f64,
    /// Offsets and lengths.
    pub positive_spans: Vec<(i32, u32)>,
    /// Counts of the buckets they cover.
    pub positive: Vec<f64>,
    /// Offsets and lengths.
    pub negative_spans: Vec<(i32, u32)>,
    /// Counts of the buckets they cover.
    pub negative: Vec<f64>,
    /// Bounds of custom buckets.
    pub custom: Vec<f64>,
    /// 0 unknown, 1 reset, 2 no reset, 3 gauge.
    pub reset_hint: u64,
}

/// An exemplar.
#[derive(Clone, Debug, Default)]
pub struct Exemplar {
    /// Names and values.
    pub labels: Vec<(String, String)>,
    /// The observed value.
    pub value: f64,
    /// When.
    pub time_ms: i64,
}

/// Metadata of a family.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    /// The family's name; version 2 derives it from the series.
    pub family: String,
    /// The number of its type: 1 counter, 2 gauge, 3 histogram, 4 gauge histogram, 5 summary, 6 info, 7 state set.
    pub metric_type: u64,
    /// The help text.
    pub help: String,
    /// The unit.
    pub unit: String,
}

/// A request.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Series in the order in which they are sent.
    pub series: Vec<Series>,
    /// Families; only version 1 sends them apart from series.
    pub families: Vec<Metadata>,
}

impl Series {
    /// Returns a series with these labels and samples.
    #[must_use]
    pub fn new(labels: &[(&str, &str)], samples: &[(i64, f64)]) -> Self {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self {
            labels: labels.iter().map(owned).collect(),
            samples: samples.to_vec(),
            ..Self::default()
        }
    }
}

impl Request {
    /// Encodes the request as `prometheus.WriteRequest`.
    #[must_use]
    pub fn v1(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for series in &self.series {
            let mut message = Vec::new();
            for pair in &series.labels {
                bytes(&mut message, 1, &label(pair));
            }
            for (time_ms, value) in &series.samples {
                bytes(&mut message, 2, &sample(*time_ms, *value, 0));
            }
            for exemplar in &series.exemplars {
                let mut inner = Vec::new();
                for pair in &exemplar.labels {
                    bytes(&mut inner, 1, &label(pair));
                }
                double(&mut inner, 2, exemplar.value);
                varint(&mut inner, 3, exemplar.time_ms.cast_unsigned());
                bytes(&mut message, 3, &inner);
            }
            for histogram in &series.histograms {
                bytes(&mut message, 4, &histogram.encoded(0));
            }
            bytes(&mut out, 1, &message);
        }
        for family in &self.families {
            let mut message = Vec::new();
            varint(&mut message, 1, family.metric_type);
            text(&mut message, 2, &family.family);
            text(&mut message, 4, &family.help);
            text(&mut message, 5, &family.unit);
            bytes(&mut out, 3, &message);
        }
        out
    }

    /// Encodes the request as `io.prometheus.write.v2.Request`.
    #[must_use]
    pub fn v2(&self) -> Vec<u8> {
        let mut symbols = Symbols(vec![String::new()]);
        let mut messages = Vec::new();
        for series in &self.series {
            let mut message = Vec::new();
            symbols.refs(&mut message, &series.labels);
            for (time_ms, value) in &series.samples {
                bytes(&mut message, 2, &sample(*time_ms, *value, series.start_ms));
            }
            for histogram in &series.histograms {
                bytes(&mut message, 3, &histogram.encoded(series.start_ms));
            }
            for exemplar in &series.exemplars {
                let mut inner = Vec::new();
                symbols.refs(&mut inner, &exemplar.labels);
                double(&mut inner, 2, exemplar.value);
                varint(&mut inner, 3, exemplar.time_ms.cast_unsigned());
                bytes(&mut message, 4, &inner);
            }
            if let Some(metadata) = &series.metadata {
                let mut inner = Vec::new();
                varint(&mut inner, 1, metadata.metric_type);
                varint(&mut inner, 3, symbols.reference(&metadata.help));
                varint(&mut inner, 4, symbols.reference(&metadata.unit));
                bytes(&mut message, 5, &inner);
            }
            messages.push(message);
        }
        let mut out = Vec::new();
        for symbol in &symbols.0 {
            bytes(&mut out, 4, symbol.as_bytes());
        }
        for message in &messages {
            bytes(&mut out, 5, message);
        }
        out
    }

    /// Sends the request in version 1 to a server at `http://host:port`.
    ///
    /// # Errors
    ///
    /// When the connection fails or the answer is not complete HTTP.
    pub fn send(&self, url: &str) -> io::Result<Response> {
        send(url, "application/x-protobuf", &snappy(&self.v1()))
    }
}

/// Sends a compressed body.
///
/// # Errors
///
/// When the connection fails or the answer is not complete HTTP.
pub fn send(url: &str, content_type: &str, body: &[u8]) -> io::Result<Response> {
    let headers = [
        ("Content-Type", content_type),
        ("Content-Encoding", "snappy"),
        ("X-Prometheus-Remote-Write-Version", "0.1.0"),
    ];
    http::request("POST", &format!("{url}/api/v1/write"), &headers, body)
}

/// Returns a snappy block that holds `plain` as literals: not shorter, but valid.
#[must_use]
pub fn snappy(plain: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(plain.len() + 16);
    protobuf::varint(&mut out, plain.len() as u64);
    for piece in plain.chunks(1 << 16) {
        // Tag 61 announces a two-byte length, minus one.
        out.push(61 << 2);
        out.extend_from_slice(&((piece.len() - 1) as u16).to_le_bytes());
        out.extend_from_slice(piece);
    }
    out
}

impl Histogram {
    fn encoded(&self, start_ms: i64) -> Vec<u8> {
        let mut out = Vec::new();
        // A count of 0 is written too: its field distinguishes integers from floats.
        let counts = |out: &mut Vec<u8>, integer, float, value: f64| match self.integer {
            true => number(out, integer, value as u64),
            false => protobuf::double(out, float, value),
        };
        counts(&mut out, 1, 2, self.count);
        double(&mut out, 3, self.sum);
        varint(&mut out, 4, zigzag(i64::from(self.schema)));
        double(&mut out, 5, self.zero_threshold);
        counts(&mut out, 6, 7, self.zero_count);
        let sides = [
            (8, &self.negative_spans, &self.negative),
            (11, &self.positive_spans, &self.positive),
        ];
        for (field, spans, buckets) in sides {
            for (offset, length) in spans {
                let mut inner = Vec::new();
                varint(&mut inner, 1, zigzag(i64::from(*offset)));
                varint(&mut inner, 2, u64::from(*length));
                bytes(&mut out, field, &inner);
            }
            let mut packed = Vec::new();
            let mut before = 0;
            for count in buckets {
                if self.integer {
                    protobuf::varint(&mut packed, zigzag(*count as i64 - before));
                    before = *count as i64;
                } else {
                    packed.extend_from_slice(&count.to_bits().to_le_bytes());
                }
            }
            if !packed.is_empty() {
                bytes(&mut out, field + if self.integer { 1 } else { 2 }, &packed);
            }
        }
        varint(&mut out, 14, self.reset_hint);
        varint(&mut out, 15, self.time_ms.cast_unsigned());
        if !self.custom.is_empty() {
            let packed: Vec<u8> = self
                .custom
                .iter()
                .flat_map(|bound| bound.to_bits().to_le_bytes())
                .collect();
            bytes(&mut out, 16, &packed);
        }
        varint(&mut out, 17, start_ms.cast_unsigned());
        out
    }
}

struct Symbols(Vec<String>);

impl Symbols {
    fn reference(&mut self, text: &str) -> u64 {
        let at = self.0.iter().position(|other| other == text);
        at.unwrap_or_else(|| {
            self.0.push(text.to_owned());
            self.0.len() - 1
        }) as u64
    }

    fn refs(&mut self, out: &mut Vec<u8>, labels: &[(String, String)]) {
        let mut packed = Vec::new();
        for (name, value) in labels {
            protobuf::varint(&mut packed, self.reference(name));
            protobuf::varint(&mut packed, self.reference(value));
        }
        bytes(out, 1, &packed);
    }
}

fn label((name, value): &(String, String)) -> Vec<u8> {
    let mut out = Vec::new();
    text(&mut out, 1, name);
    text(&mut out, 2, value);
    out
}

fn sample(time_ms: i64, value: f64, start_ms: i64) -> Vec<u8> {
    let mut out = Vec::new();
    double(&mut out, 1, value);
    varint(&mut out, 2, time_ms.cast_unsigned());
    varint(&mut out, 3, start_ms.cast_unsigned());
    out
}

fn varint(out: &mut Vec<u8>, field: u64, value: u64) {
    if value != 0 {
        number(out, field, value);
    }
}

fn double(out: &mut Vec<u8>, field: u64, value: f64) {
    if value.to_bits() != 0 {
        protobuf::double(out, field, value);
    }
}

fn text(out: &mut Vec<u8>, field: u64, content: &str) {
    if !content.is_empty() {
        bytes(out, field, content.as_bytes());
    }
}
