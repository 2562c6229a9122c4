//! A dataset as requests of Prometheus' remote write 1.0.
//!
//! **Invariant:** each series' samples are in time order, and time advances for all series together, as in a sender
//! that follows scrapes: servers reject samples far behind. Labels are encoded once for each life of a pod, which ends with a
//! staleness marker of each series.

use super::dataset::{DatasetConfig, POD_SERIES, Pod, labels};
use crate::harness::BenchError;
use narthex_testkit::{client::Client, protobuf::varint};
use std::ops::Range;

/// Pods of one request; with 50 series of 5 steps each this is a request of 10,000 samples.
const PODS_A_REQUEST: usize = 40;
/// Samples of each series in one request.
const STEPS_A_REQUEST: u64 = 5;

/// Generates the requests of a dataset, one after another.
#[derive(Debug)]
pub(crate) struct Requests {
    config: DatasetConfig,
    pods: Vec<Sending>,
    /// The steps and the first pod of the next request.
    steps: Range<u64>,
    pod: usize,
    samples: Vec<Vec<u8>>,
}

/// A pod whose samples are sent.
#[derive(Debug)]
struct Sending {
    values: Pod,
    /// How often it was replaced.
    life: u64,
    /// Labels of its series as fields of their messages, concatenated.
    labels: Vec<u8>,
    /// End of each series' labels.
    ends: Vec<usize>,
}

impl Sending {
    fn new(seed: u64, pod: usize) -> Self {
        let mut sending = Self {
            values: Pod::new(seed, pod),
            life: 0,
            labels: Vec::new(),
            ends: Vec::with_capacity(POD_SERIES),
        };
        sending.encode(pod);
        sending
    }

    fn replace(&mut self, pod: usize) {
        self.values.replace();
        self.life += 1;
        self.encode(pod);
    }

    /// Encodes the labels.
    fn encode(&mut self, pod: usize) {
        let encoded = &mut self.labels;
        encoded.clear();
        self.ends.clear();
        for series in 0..POD_SERIES {
            for (name, value) in labels(pod, self.life, series) {
                let length = 2 + name.len() + value.len() + lengths(name) + lengths(&value);
                encoded.push(0x0a);
                varint(encoded, length as u64);
                for (tag, text) in [(0x0a, name), (0x12, &value)] {
                    encoded.push(tag);
                    varint(encoded, text.len() as u64);
                    encoded.extend_from_slice(text.as_bytes());
                }
            }
            self.ends.push(encoded.len());
        }
        encoded.shrink_to_fit();
    }

    /// Appends the messages of series that have these samples, which are taken; of none, nothing.
    fn write(&self, samples: &mut [Vec<u8>], body: &mut Vec<u8>) {
        let mut from = 0;
        for (samples, end) in samples.iter_mut().zip(&self.ends) {
            let labels = &self.labels[from..*end];
            from = *end;
            if samples.is_empty() {
                continue;
            }
            body.push(0x0a);
            varint(body, (labels.len() + samples.len()) as u64);
            body.extend_from_slice(labels);
            body.append(samples);
        }
    }
}

/// Marks the end of a series.
const STALE: f64 = f64::from_bits(0x7ff0_0000_0000_0002);

impl Requests {
    /// Prepares them all.
    pub(crate) fn new(config: DatasetConfig) -> Self {
        Self {
            config,
            pods: (0..config.pods())
                .map(|pod| Sending::new(config.seed, pod))
                .collect(),
            steps: 0..STEPS_A_REQUEST.min(config.steps()),
            pod: 0,
            samples: vec![Vec::new(); POD_SERIES],
        }
    }

    /// Replaces `body` by the next request and returns its number of samples, staleness markers apart, 0 after the last one.
    pub(crate) fn next(&mut self, body: &mut Vec<u8>) -> u64 {
        body.clear();
        if self.steps.is_empty() || self.pods.is_empty() {
            return 0;
        }
        let end = (self.pod + PODS_A_REQUEST).min(self.pods.len());
        for pod in self.pod..end {
            self.write_pod(pod, body);
        }
        let samples =
            (end - self.pod) as u64 * POD_SERIES as u64 * (self.steps.end - self.steps.start);
        self.pod = end;
        if end == self.pods.len() {
            self.pod = 0;
            let next = self.steps.end;
            self.steps = next..(next + STEPS_A_REQUEST).min(self.config.steps());
        }
        samples
    }

    fn write_pod(&mut self, pod: usize, body: &mut Vec<u8>) {
        let sending = &mut self.pods[pod];
        for step in self.steps.clone() {
            let time_ms = self.config.time_ms(pod, step);
            if self.config.is_replaced(pod, step) {
                self.samples
                    .iter_mut()
                    .for_each(|samples| write_sample(samples, time_ms, STALE));
                sending.write(&mut self.samples, body);
                sending.replace(pod);
            }
            sending.values.step();
            for (series, samples) in self.samples.iter_mut().enumerate() {
                write_sample(samples, time_ms, sending.values.value(series));
            }
        }
        sending.write(&mut self.samples, body);
    }
}

/// Totals of sending a dataset.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Sent {
    pub(crate) requests: u64,
    pub(crate) samples: u64,
    /// Compressed, without heads.
    pub(crate) bytes: u64,
}

/// Sends a whole dataset; `progress` receives the fraction done.
pub(crate) fn send(
    client: &mut Client,
    path: &str,
    config: DatasetConfig,
    name: &str,
    mut progress: impl FnMut(f64),
) -> Result<Sent, BenchError> {
    const HEADERS: [(&str, &str); 4] = [
        ("Content-Type", "application/x-protobuf"),
        ("Content-Encoding", "snappy"),
        ("X-Prometheus-Remote-Write-Version", "0.1.0"),
        ("User-Agent", "narthex-bench"),
    ];
    let mut requests = Requests::new(config);
    let (mut plain, mut packed) = (Vec::new(), Vec::new());
    let mut encoder = snap::raw::Encoder::new();
    let mut sent = Sent::default();
    loop {
        let samples = requests.next(&mut plain);
        if samples == 0 {
            return Ok(sent);
        }
        packed.resize(snap::raw::max_compress_len(plain.len()), 0);
        let length = encoder.compress(&plain, &mut packed);
        let length = length.expect("the buffer has the length the encoder asks for");
        let answer = client
            .post(path, &HEADERS, &packed[..length])
            .map_err(BenchError::io(format!("write to {name}")))?;
        if !(200..300).contains(&answer.status) {
            return Err(BenchError::refused(name, path, &answer));
        }
        sent.requests += 1;
        sent.samples += samples;
        sent.bytes += length as u64;
        progress(sent.samples as f64 / config.samples().max(1) as f64);
    }
}

fn write_sample(out: &mut Vec<u8>, time_ms: i64, value: f64) {
    // Field 2 of the series; inside it value and time, each omitted if it is 0.
    let start = out.len();
    out.extend_from_slice(&[0x12, 0]);
    if value.to_bits() != 0 {
        out.push(0x09);
        out.extend_from_slice(&value.to_bits().to_le_bytes());
    }
    if time_ms != 0 {
        out.push(0x10);
        varint(out, time_ms.cast_unsigned());
    }
    // At most 1 + 8 + 1 + 10 bytes: the length is one byte.
    out[start + 1] = (out.len() - start - 2) as u8;
}

/// Returns the number of bytes of a text's length.
fn lengths(text: &str) -> usize {
    let mut length = Vec::with_capacity(10);
    varint(&mut length, text.len() as u64);
    length.len()
}

#[cfg(test)]
mod tests;
