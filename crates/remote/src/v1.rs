//! Remote write 1.0: `prometheus.WriteRequest`.
//!
//! ```text
//! WriteRequest = { 1: TimeSeries, 3: MetricMetadata }
//! TimeSeries   = { 1: Label {1: name, 2: value}, 2: Sample {1: value, 2: timestamp}, 3: Exemplar, 4: Histogram }
//! ```
//! A sender encodes the labels of a series the same way every time, so the bytes of all its label messages identify the
//! series: they are hashed, and parsed only when seen for the first time.
//!
//! **Invariant:** the whole request is decoded before anything of it is stored; labels that were not decoded are not
//! stored.

use crate::{
    allowance::Allowance,
    block_labels::{BlockLabels, LABEL_TAG, label},
    error::RemoteError,
    histogram,
    incoming::{FloatSample, Incoming, IncomingSeries, KeyHasher, LabelSource},
    message::Message,
    wire::{Field, Reader, malformed},
};
use narthex_model::{Exemplar, LabelSet, MetricType, metadata::Family, storage::Budget};
use std::ops::Range;

/// Maximum bytes of an exemplar's labels: stores keep none with more than 128 characters, as Prometheus.
pub(crate) const MAX_EXEMPLAR_BYTES: usize = 4 * 128;
/// Overhead of an exemplar's label beside its text.
pub(crate) const EXEMPLAR_LABEL_BYTES: usize = 96;

/// The tag of a series within a request.
const SERIES_TAG: u8 = 1 << 3 | 2;
/// The tag of a sample within a series.
const SAMPLE_TAG: u8 = 2 << 3 | 2;

/// Decodes a request.
///
/// # Errors
/// Fails if `body` is malformed; labels are checked later.
pub(crate) fn decode<'a>(
    body: &'a [u8],
    hasher: &KeyHasher,
    memory: &Budget,
) -> Result<Incoming<'a>, RemoteError> {
    let mut incoming = Incoming::for_body(body, memory)?;
    // A series of one sample takes about 100 bytes or more.
    incoming.allowance.lease(body.len() / 2)?;
    incoming.series.reserve(body.len() / 128);
    incoming.floats.reserve(body.len() / 128);
    let mut labels = BlockLabels {
        body,
        ..BlockLabels::default()
    };
    let mut reader = Reader::new(body);
    while !reader.rest().is_empty() {
        let message = match reader.bytes_tagged(SERIES_TAG)? {
            Some(message) => message,
            None => match reader.next()? {
                Some((1, field)) => field.bytes()?,
                Some((3, field)) => {
                    let message = field.bytes()?;
                    incoming
                        .allowance
                        .spend(2 * size_of::<Family>() + message.len())?;
                    incoming.families.push(metadata(message)?);
                    continue;
                }
                _ => continue,
            },
        };
        let at = body.len() - reader.rest().len() - message.len();
        time_series(message, at, hasher, &mut labels, &mut incoming)?;
    }
    incoming.labels = LabelSource::Blocks(labels);
    Ok(incoming)
}

/// Decodes one series whose message begins at byte `at` of the body.
fn time_series(
    message: &[u8],
    at: usize,
    hasher: &KeyHasher,
    labels: &mut BlockLabels<'_>,
    incoming: &mut Incoming<'_>,
) -> Result<(), RemoteError> {
    incoming.allowance.spend(size_of::<IncomingSeries>())?;
    let series = count(incoming.series.len())?;
    let before = incoming.floats.len() + incoming.histograms.len();
    let (mut block, mut scattered): (Range<usize>, Vec<u8>) = (0..0, Vec::new());
    let mut reader = Reader::new(message);
    reader.skip_run(LABEL_TAG)?;
    block.end = message.len() - reader.rest().len();
    while let Some(message) = reader.bytes_tagged(SAMPLE_TAG)? {
        incoming.push_float(sample(message, series)?)?;
    }
    loop {
        let from = message.len() - reader.rest().len();
        let Some((number, field)) = reader.next()? else {
            break;
        };
        match number {
            1 => {
                field.bytes()?;
                let to = message.len() - reader.rest().len();
                if block.end == from && scattered.is_empty() {
                    block.end = to;
                } else {
                    incoming.allowance.lease(to - from + block.len())?;
                    scattered.extend_from_slice(&message[std::mem::take(&mut block)]);
                    scattered.extend_from_slice(&message[from..to]);
                }
            }
            2 => {
                let sample = sample(field.bytes()?, series)?;
                incoming.push_float(sample)?;
            }
            3 => {
                incoming.allowance.spend(size_of::<(u32, Exemplar)>())?;
                let exemplar = exemplar(field.bytes()?, &mut incoming.allowance)?;
                incoming.exemplars.extend(exemplar.map(|one| (series, one)));
            }
            4 => {
                let decoded =
                    histogram::decode(field.bytes()?, Message::V1, &mut incoming.allowance)?;
                incoming.push_histogram(series, decoded);
            }
            _ => {}
        }
    }
    let range = if scattered.is_empty() {
        count(at + block.start)?..count(at + block.end)?
    } else {
        let from = labels.body.len() + labels.moved.len();
        labels.moved.extend_from_slice(&scattered);
        count(from)?..count(from + scattered.len())?
    };
    let samples = count(incoming.floats.len() + incoming.histograms.len() - before)?;
    incoming.series.push(IncomingSeries {
        key: hasher.key(labels.bytes(&range)),
        labels: range,
        samples,
    });
    Ok(())
}

/// The size limit keeps bodies far below 4 GiB.
fn count(number: usize) -> Result<u32, RemoteError> {
    u32::try_from(number).map_err(|_| malformed("too long"))
}

#[inline]
fn sample(message: &[u8], series: u32) -> Result<FloatSample, RemoteError> {
    let mut reader = Reader::new(message);
    let mut value = reader.double_tagged(1 << 3 | 1)?.unwrap_or_default();
    let mut time_ms = reader.int64_tagged(2 << 3)?.unwrap_or_default();
    while let Some((number, field)) = reader.next()? {
        match number {
            1 => value = field.double()?,
            2 => time_ms = field.int64()?,
            _ => {}
        }
    }
    Ok(FloatSample {
        series,
        time_ms,
        start_ms: 0,
        value,
    })
}

/// Decodes an exemplar; `None` if its labels are longer than any store keeps.
fn exemplar(message: &[u8], allowance: &mut Allowance) -> Result<Option<Exemplar>, RemoteError> {
    let (mut pairs, mut value, mut time_ms) = (Vec::new(), 0.0, 0);
    let mut bytes = 0;
    let mut reader = Reader::new(message);
    while let Some((number, field)) = reader.next()? {
        match number {
            1 => {
                let (name, text) = label(field.bytes()?)?;
                let pair = (Field::Bytes(name).text()?, Field::Bytes(text).text()?);
                allowance.spend(size_of_val(&pair))?;
                bytes += name.len() + text.len();
                pairs.push(pair);
            }
            2 => value = field.double()?,
            3 => time_ms = field.int64()?,
            _ => {}
        }
    }
    if bytes > MAX_EXEMPLAR_BYTES || pairs.len() > MAX_EXEMPLAR_BYTES {
        return Ok(None);
    }
    allowance.lease(pairs.len() * EXEMPLAR_LABEL_BYTES + bytes)?;
    Ok(Some(Exemplar {
        labels: LabelSet::new(pairs),
        value,
        time_ms: Some(time_ms).filter(|time_ms| *time_ms != 0),
    }))
}

fn metadata(message: &[u8]) -> Result<Family, RemoteError> {
    let mut family = Family::default();
    let mut reader = Reader::new(message);
    while let Some((number, field)) = reader.next()? {
        match number {
            1 => family.metric_type = metric_type(field.uint32()?),
            2 => family.name = field.text()?.into(),
            4 => family.help = field.text()?.into(),
            5 => family.unit = field.text()?.into(),
            _ => {}
        }
    }
    Ok(family)
}

/// Returns the type that both versions give this number.
pub(crate) fn metric_type(number: u32) -> MetricType {
    let known = MetricType::ALL.get(number as usize);
    known.copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Message, Receiver, ReceiverMemory};
    use narthex_model::MemStore;
    use std::sync::Arc;

    /// An empty label takes two bytes: as an entry of a list it would take fifty times as much.
    #[test]
    fn empty_labels_take_no_memory_each() {
        let mut series = b"\x0a\x00".repeat(4 << 20);
        series.extend(b"\x12\x02\x10\x01");
        let mut body = vec![1 << 3 | 2];
        let mut length = series.len();
        while length >= 0x80 {
            body.push(length as u8 | 0x80);
            length >>= 7;
        }
        body.push(length as u8);
        body.extend(series);
        let memory = Budget::new("remote write", 32 << 20);
        let now = Arc::new(|| 1);
        let requests = ReceiverMemory {
            requests: memory,
            ..ReceiverMemory::default()
        };
        let receiver = Receiver::within(Arc::new(MemStore::new()), now, &requests);
        let (written, _) = receiver.store(Message::V1, &body).unwrap();
        assert_eq!((written.samples, receiver.series()), (0, 0));
        let labels = LabelSource::Blocks(BlockLabels {
            body: &body,
            ..BlockLabels::default()
        });
        let all = 5..u32::try_from(body.len() - 4).unwrap();
        let mut allowance = Allowance::for_body(&body, &Budget::unlimited()).unwrap();
        let refused = crate::labels::resolve(&labels, &all, &mut allowance).unwrap();
        let refused = refused.unwrap_err();
        assert!(refused.starts_with("labels of a series take"), "{refused}");
    }

    /// Senders write tags and fields one way; protobuf allows others.
    #[test]
    fn unusual_encodings_mean_the_same() {
        let field = |tag: &[u8], content: &[u8]| [tag, &[content.len() as u8], content].concat();
        let (name, value) = (field(b"\x0a", b"__name__"), field(b"\x12", b"m"));
        let (a, b) = (field(b"\x0a", b"a"), field(b"\x12", b"b"));
        let (one, second) = (b"\x09\x00\x00\x00\x00\x00\x00\xf0\x3f", b"\x10\xe8\x07");
        let usual = [
            field(b"\x0a", &[name.clone(), value.clone()].concat()),
            field(b"\x0a", &[&a[..], &b].concat()),
            field(b"\x12", &[&one[..], second].concat()),
        ];
        // Tags of two bytes, values first, repeated and unknown fields, and a label after the sample.
        let unusual = [
            field(b"\x8a\x00", &[value, name].concat()),
            field(
                b"\x92\x00",
                &[b"\x10\x01", &second[..], one, b"\x18\x07"].concat(),
            ),
            field(
                b"\x0a",
                &[&field(b"\x0a", b"x")[..], &b, &a, b"\x18\x07"].concat(),
            ),
        ];
        let hasher = KeyHasher::default();
        for (tag, series) in [(&b"\x0a"[..], usual), (b"\x8a\x00", unusual)] {
            let body = field(tag, &series.concat());
            let mut incoming = decode(&body, &hasher, &Budget::unlimited()).unwrap();
            let [series] = &incoming.series[..] else {
                panic!("one series");
            };
            let labels = &series.labels;
            let set = crate::labels::resolve(&incoming.labels, labels, &mut incoming.allowance);
            let expected = LabelSet::new([("__name__", "m"), ("a", "b")]);
            assert_eq!(set.unwrap(), Ok(expected));
            let [sample] = incoming.floats[..] else {
                panic!("one sample");
            };
            assert_eq!((sample.value, sample.time_ms), (1.0, 1000));
        }
    }
}
