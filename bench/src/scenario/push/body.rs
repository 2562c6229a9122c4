//! What processes push: bodies made ahead, in which only values move, each at its place and of the same length.
//!
//! A process has counters, gauges and histograms like a game server's. A body is one process' series, or those of all
//! processes of a host, which then have a `process` label in the body instead of in the grouping key: what a gateway
//! stores is the same. **Invariant:** a value is a pure function of process, series and round, in every format, and is
//! exact as a float, so that what is read back can be compared.

use crate::load::protobuf;
use std::fmt::Write;

/// Series of a family of counters.
const COUNTERS: usize = 20;
/// Series of a family of gauges.
const GAUGES: usize = 15;
/// Buckets of a histogram, without the last one.
const BUCKETS: usize = 10;
/// Lines of a histogram: buckets, the last one, sum and count.
const HISTOGRAM: usize = BUCKETS + 3;
/// One histogram for each so many series.
const SERIES_A_HISTOGRAM: usize = 100;
/// Longest label of an update that fits the fixed width of values.
pub(crate) const LAST_ROUND: u64 = 1_000_000;

/// How a body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Protobuf,
}

impl Format {
    /// Returns the content type of its bodies.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4",
            Self::Protobuf => protobuf::METRIC_FAMILIES,
        }
    }
}

/// What a series' value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A whole number of ten digits that grows.
    Counter,
    /// Six decimals, anew every round.
    Gauge,
    /// As a counter, and larger for a larger bucket of the same histogram: which histogram, which bucket.
    Bucket(u32, u32),
}

/// One series of a process.
#[derive(Debug)]
struct Series {
    /// The sample's name.
    name: String,
    /// Its labels as they are written, without those of host and process.
    labels: String,
    kind: Kind,
}

/// The families of a process, and so its series in order.
#[derive(Debug)]
pub(crate) struct Catalogue {
    families: Vec<Family>,
    series: Vec<Series>,
}

#[derive(Debug)]
struct Family {
    name: String,
    help: String,
    shape: Shape,
    /// Its series.
    from: usize,
    to: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Counter,
    Gauge,
    Histogram,
}

impl Catalogue {
    /// Returns the catalogue of a process with that many series.
    pub(crate) fn new(series: usize) -> Self {
        let mut catalogue = Self {
            families: Vec::new(),
            series: Vec::with_capacity(series),
        };
        for number in 0..series / SERIES_A_HISTOGRAM {
            catalogue.add_histogram(number);
        }
        let gauges = series / 4;
        for number in 0..gauges.div_ceil(GAUGES) {
            let count = GAUGES.min(gauges - number * GAUGES);
            catalogue.add_plain(Shape::Gauge, number, count);
        }
        let counters = series - catalogue.series.len();
        for number in 0..counters.div_ceil(COUNTERS) {
            let count = COUNTERS.min(counters - number * COUNTERS);
            catalogue.add_plain(Shape::Counter, number, count);
        }
        catalogue
    }

    fn add_plain(&mut self, shape: Shape, number: usize, count: usize) {
        let from = self.series.len();
        let (name, help, kind) = match shape {
            Shape::Counter => (
                format!("game_events_{number:02}_total"),
                "Events the simulation has handled.",
                Kind::Counter,
            ),
            _ => (
                format!("game_load_{number:02}_ratio"),
                "Share of the time a worker was busy.",
                Kind::Gauge,
            ),
        };
        self.series.extend((0..count).map(|at| Series {
            name: name.clone(),
            labels: format!("event=\"e{at:02}\",realm=\"eu-west-{:02}\"", at % 7),
            kind,
        }));
        self.end_family(name, help, shape, from);
    }

    fn add_histogram(&mut self, number: usize) {
        let from = self.series.len();
        let name = format!("game_frame_seconds_{number:02}");
        for bucket in 0..=BUCKETS {
            self.series.push(Series {
                name: format!("{name}_bucket"),
                labels: format!("realm=\"eu-west-00\",le=\"{}\"", upper_bound(bucket)),
                kind: Kind::Bucket(number as u32, bucket as u32),
            });
        }
        for (suffix, kind) in [
            ("sum", Kind::Counter),
            ("count", Kind::Bucket(number as u32, BUCKETS as u32)),
        ] {
            self.series.push(Series {
                name: format!("{name}_{suffix}"),
                labels: "realm=\"eu-west-00\"".to_owned(),
                kind,
            });
        }
        self.end_family(name, "Time a frame took.", Shape::Histogram, from);
    }

    fn end_family(&mut self, name: String, help: &str, shape: Shape, from: usize) {
        self.families.push(Family {
            name,
            help: help.to_owned(),
            shape,
            from,
            to: self.series.len(),
        });
    }

    /// Returns the number of series.
    pub(crate) fn len(&self) -> usize {
        self.series.len()
    }

    /// Returns each series' name and labels, as they are written.
    pub(crate) fn identities(&self) -> impl Iterator<Item = (&str, &str)> {
        let series = self.series.iter();
        series.map(|series| (series.name.as_str(), series.labels.as_str()))
    }

    /// Returns the value that a process pushes for a series in a round.
    pub(crate) fn value(&self, process: u32, series: usize, round: u64) -> f64 {
        match self.series[series].kind {
            Kind::Gauge => f64::from(millionths(process, series as u32, round)) / 1e6,
            kind => whole(kind, process, series as u32, round) as f64,
        }
    }
}

fn upper_bound(bucket: usize) -> String {
    match bucket {
        BUCKETS => "+Inf".to_owned(),
        bucket => format!("{}", bound(bucket)),
    }
}

fn bound(bucket: usize) -> f64 {
    0.001 * f64::from(1 << bucket)
}

fn mix(process: u32, series: u32) -> u64 {
    (u64::from(process) << 32 | u64::from(series)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 34
}

/// A counter's value or a bucket's: ten digits, 2^28..2^35.
fn whole(kind: Kind, process: u32, series: u32, round: u64) -> u64 {
    match kind {
        Kind::Bucket(histogram, bucket) => {
            let before = mix(process, histogram) & 0xf_ffff;
            let bucket = u64::from(bucket);
            1_000_000_000 + before + bucket * 100_000_000 + round * 7 * (bucket + 1)
        }
        _ => {
            let mixed = mix(process, series);
            1_000_000_000 + mixed + round * (1 + (mixed & 0x1ff))
        }
    }
}

/// A gauge's value: 100,000..1,000,000, so that six decimals are all needed or all zeros behind are written.
fn millionths(process: u32, series: u32, round: u64) -> u32 {
    let mixed = mix(process, series)
        .wrapping_add(round)
        .wrapping_mul(0xd6e8_feb8_6659_fd93);
    100_000 + (((mixed >> 32) * 900_000) >> 32) as u32
}

/// Where a value is in a body.
#[derive(Debug, Clone, Copy)]
struct Slot {
    at: u32,
    /// Of the body's processes.
    process: u32,
    series: u32,
    kind: Kind,
    width: Width,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Width {
    /// Ten digits, or `0.` and six.
    Digits,
    /// A double.
    Double,
    /// A varint of five bytes.
    Varint,
}

/// A body whose values can be moved.
#[derive(Debug, Clone)]
pub(crate) struct Body {
    bytes: Vec<u8>,
    slots: Vec<Slot>,
    samples: usize,
}

impl Body {
    /// Makes the body of `processes` processes. With one, its label is left to the grouping key; with `None`, too.
    pub(crate) fn new(catalogue: &Catalogue, format: Format, processes: Option<u32>) -> Self {
        let mut body = Self {
            bytes: Vec::new(),
            slots: Vec::new(),
            samples: catalogue.len() * processes.unwrap_or(1) as usize,
        };
        for family in &catalogue.families {
            match format {
                Format::Text => body.add_text(catalogue, family, processes),
                Format::Protobuf => body.add_protobuf(catalogue, family, processes),
            }
        }
        body.fill(0, 0);
        body
    }

    /// Returns the number of samples.
    pub(crate) fn samples(&self) -> usize {
        self.samples
    }

    /// Returns the bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Moves all values to those of a round; `first` is the number of the body's first process.
    pub(crate) fn fill(&mut self, first: u32, round: u64) {
        debug_assert!(
            round <= LAST_ROUND,
            "counters would grow out of their width"
        );
        let bytes = self.bytes.as_mut_slice();
        for slot in &self.slots {
            let at = slot.at as usize;
            let process = first + slot.process;
            match (slot.kind, slot.width) {
                (Kind::Gauge, width) => {
                    let value = millionths(process, slot.series, round);
                    if width == Width::Digits {
                        write_digits(u64::from(value), &mut bytes[at + 2..at + 8]);
                    } else {
                        let bits = (f64::from(value) / 1e6).to_le_bytes();
                        bytes[at..at + 8].copy_from_slice(&bits);
                    }
                }
                (kind, width) => {
                    let value = whole(kind, process, slot.series, round);
                    match width {
                        Width::Digits => write_digits(value, &mut bytes[at..at + 10]),
                        Width::Double => {
                            bytes[at..at + 8].copy_from_slice(&(value as f64).to_le_bytes());
                        }
                        Width::Varint => write_varint(value, &mut bytes[at..at + 5]),
                    }
                }
            }
        }
    }

    fn slot(&mut self, process: u32, series: usize, kind: Kind, width: Width) {
        self.slots.push(Slot {
            at: u32::try_from(self.bytes.len()).expect("a body is far smaller than 4 GB"),
            process,
            series: series as u32,
            kind,
            width,
        });
    }

    fn add_text(&mut self, catalogue: &Catalogue, family: &Family, processes: Option<u32>) {
        let Family { name, help, .. } = family;
        let kind = match family.shape {
            Shape::Counter => "counter",
            Shape::Gauge => "gauge",
            Shape::Histogram => "histogram",
        };
        let head = format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
        self.bytes.extend_from_slice(head.as_bytes());
        for process in 0..processes.unwrap_or(1) {
            for at in family.from..family.to {
                let Series { name, labels, kind } = &catalogue.series[at];
                let mut line = format!("{name}{{{labels}");
                if processes.is_some() {
                    // Writing to a string does not fail.
                    let _ = write!(line, ",process=\"{}\"", process_name(process));
                }
                line.push_str("} ");
                self.bytes.extend_from_slice(line.as_bytes());
                self.slot(process, at, *kind, Width::Digits);
                let blank: &[u8] = match kind {
                    Kind::Gauge => b"0.000000\n",
                    _ => b"0000000000\n",
                };
                self.bytes.extend_from_slice(blank);
            }
        }
    }

    fn add_protobuf(&mut self, catalogue: &Catalogue, family: &Family, processes: Option<u32>) {
        let mut message = Message::default();
        message.text(1, &family.name);
        message.text(2, &family.help);
        let number = match family.shape {
            Shape::Counter => 0,
            Shape::Gauge => 1,
            Shape::Histogram => 4,
        };
        message.number(3, number);
        let lines = if family.shape == Shape::Histogram {
            HISTOGRAM
        } else {
            1
        };
        for process in 0..processes.unwrap_or(1) {
            let owner = processes.map(|_| process_name(process));
            for at in (family.from..family.to).step_by(lines) {
                let mut metric = Message::default();
                let labels = &catalogue.series[at].labels;
                let own = labels.split(',').filter_map(|label| label.split_once('='));
                let own = own.map(|(name, value)| (name, value.trim_matches('"')));
                let labels = own
                    .filter(|(name, _)| *name != "le")
                    .chain(owner.as_deref().map(|owner| ("process", owner)));
                for (name, value) in labels {
                    let mut pair = Message::default();
                    pair.text(1, name);
                    pair.text(2, value);
                    metric.message(1, pair);
                }
                let series = &catalogue.series[at..at + lines];
                match family.shape {
                    Shape::Counter => {
                        metric.message(3, Message::value(process, at, series[0].kind));
                    }
                    Shape::Gauge => metric.message(2, Message::value(process, at, series[0].kind)),
                    Shape::Histogram => metric.message(7, Message::histogram(process, at, series)),
                }
                message.message(4, metric);
            }
        }
        let mut delimited = Message::default();
        delimited.delimited(message);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&delimited.bytes);
        let moved = delimited.slots.into_iter().map(|slot| Slot {
            at: slot.at + start as u32,
            ..slot
        });
        self.slots.extend(moved);
    }
}

/// Returns a process' name within its host.
pub(crate) fn process_name(process: u32) -> String {
    format!("p{process:03}")
}

/// A protobuf message that remembers where its values are.
#[derive(Debug, Default)]
struct Message {
    bytes: Vec<u8>,
    slots: Vec<Slot>,
}

impl Message {
    fn varint(&mut self, number: u64) {
        protobuf::varint(&mut self.bytes, number);
    }

    fn number(&mut self, field: u64, number: u64) {
        protobuf::number(&mut self.bytes, field, number);
    }

    fn text(&mut self, field: u64, text: &str) {
        protobuf::bytes(&mut self.bytes, field, text.as_bytes());
    }

    fn message(&mut self, field: u64, inner: Self) {
        self.varint(field << 3 | 2);
        self.delimited(inner);
    }

    fn delimited(&mut self, inner: Self) {
        self.varint(inner.bytes.len() as u64);
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(&inner.bytes);
        self.slots.extend(inner.slots.into_iter().map(|slot| Slot {
            at: slot.at + start,
            ..slot
        }));
    }

    fn double(&mut self, field: u64, process: u32, series: usize, kind: Kind) {
        self.varint(field << 3 | 1);
        self.place(process, series, kind, Width::Double, 8);
    }

    fn count(&mut self, field: u64, process: u32, series: usize, kind: Kind) {
        self.varint(field << 3);
        self.place(process, series, kind, Width::Varint, 5);
    }

    fn place(&mut self, process: u32, series: usize, kind: Kind, width: Width, length: usize) {
        self.slots.push(Slot {
            at: self.bytes.len() as u32,
            process,
            series: series as u32,
            kind,
            width,
        });
        self.bytes.resize(self.bytes.len() + length, 0);
    }

    /// A counter's or a gauge's.
    fn value(process: u32, series: usize, kind: Kind) -> Self {
        let mut message = Self::default();
        message.double(1, process, series, kind);
        message
    }

    fn histogram(process: u32, from: usize, series: &[Series]) -> Self {
        let mut message = Self::default();
        let [sum, count] = [BUCKETS + 1, BUCKETS + 2];
        message.count(1, process, from + count, series[count].kind);
        message.double(2, process, from + sum, series[sum].kind);
        // The last bucket is the count; readers add it.
        for (bucket, series) in series.iter().enumerate().take(BUCKETS) {
            let mut inner = Self::default();
            inner.count(1, process, from + bucket, series.kind);
            inner.varint(2 << 3 | 1);
            inner.bytes.extend_from_slice(&bound(bucket).to_le_bytes());
            message.message(3, inner);
        }
        message
    }
}

/// Writes a number as exactly so many digits.
fn write_digits(mut number: u64, digits: &mut [u8]) {
    for pair in digits.rchunks_exact_mut(2) {
        let two = (number % 100) as u8;
        number /= 100;
        pair[0] = b'0' + two / 10;
        pair[1] = b'0' + two % 10;
    }
}

/// Writes a number of 2^28..2^35 as five bytes.
fn write_varint(number: u64, bytes: &mut [u8]) {
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = (number >> (at * 7)) as u8 & 0x7f | if at < 4 { 0x80 } else { 0 };
    }
}

#[cfg(test)]
mod tests;
