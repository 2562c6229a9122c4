//! Messages as our own receiver reads them back.

mod frames;

use super::*;
use crate::queue::{Labelling, Parts, Position, Queue, QueueReader, QueueWriter, Read, Visit};
use crate::{Receiver, incoming::KeyHasher, v2 as receive_v2};
use narthex_model::{
    ColumnId, Exemplar, Frame, Histogram, LabelSet, MemStore, Schema, cell,
    histogram::{ResetHint, Span},
    metadata::{Family, MetricType},
    storage::Budget,
};
use narthex_testkit::TempDir;
use std::sync::Arc;

const TIME_MS: i64 = 1_700_000_000_000;

/// Encodes everything that comes.
struct Encode {
    builder: RequestBuilder,
    pushed: Vec<Pushed>,
}

impl Visit for Encode {
    fn entry(&mut self, _: Position) {}

    fn item(&mut self, symbols: &Symbols, item: Item<'_>) {
        self.pushed.push(self.builder.push(symbols, &item));
    }
}

fn histogram(schema: i32) -> Arc<Histogram> {
    let custom = schema == CUSTOM_BUCKETS;
    Arc::new(Histogram {
        histogram_schema: schema,
        integer_counts: true,
        count: 6.0,
        sum: 2.5,
        zero_count: if custom { 0.0 } else { 1.0 },
        zero_threshold: if custom { 0.0 } else { 0.001 },
        positive_spans: vec![Span {
            offset: 0,
            length: 2,
        }],
        positive_buckets: vec![3.0, if custom { 3.0 } else { 2.0 }],
        custom_values: if custom { vec![0.5, 1.0] } else { Vec::new() },
        reset_hint: ResetHint::NotReset,
        ..Histogram::default()
    })
}

/// Returns a round with everything a message can say.
fn frame() -> Frame {
    let mut edit = Schema::new(LabelSet::new([("instance", "i"), ("job", "j")])).edit();
    let counter = edit.family(Family {
        name: "a_total".into(),
        metric_type: MetricType::Counter,
        unit: "".into(),
        help: "Counts \"a\".".into(),
    });
    for name in ["a_total", "ended", "native", "custom", "zero"] {
        let long = "v".repeat(200);
        edit.push(
            &LabelSet::new([("__name__", name), ("long", &*long)]),
            counter,
        );
    }
    let mut frame = Frame::new(edit.finish(), TIME_MS);
    frame.set(ColumnId(0), 1.5);
    frame.set_start_time(ColumnId(0), TIME_MS - 5000);
    frame.mark_stale(ColumnId(1));
    frame.set_histogram(ColumnId(2), histogram(1));
    frame.set_histogram(ColumnId(3), histogram(CUSTOM_BUCKETS));
    frame.set(ColumnId(4), 0.0);
    frame.push_exemplar(
        ColumnId(0),
        Exemplar {
            labels: LabelSet::new([("trace_id", "t")]),
            value: 0.25,
            time_ms: Some(TIME_MS - 1),
        },
    );
    frame
}

fn encode(message: Message, frame: &Frame) -> (Vec<u8>, Counts, Vec<Pushed>) {
    let dir = TempDir::new("encode");
    let queue = Arc::new(Queue::open(dir.path(), 1 << 30, Position::default()).unwrap());
    let parts = Parts {
        exemplars: true,
        histograms: true,
        start_times: true,
    };
    let labelling = Arc::new(Labelling::default());
    let mut writer = QueueWriter::new(Arc::clone(&queue), labelling, parts, frame.schema());
    writer.append(frame).unwrap();
    let mut encode = Encode {
        builder: RequestBuilder::new(message),
        pushed: Vec::new(),
    };
    let mut reader = QueueReader::new(Arc::clone(&queue), queue.oldest(), None);
    assert_eq!(reader.read(&mut encode).unwrap(), Read::Entry);
    let mut body = Vec::new();
    let counts = encode.builder.finish(&mut body);
    (body, counts, encode.pushed)
}

fn store(message: Message, body: &[u8]) -> (MemStore, crate::Written) {
    let store = MemStore::new();
    let receiver = Receiver::new(Arc::new(store.clone()), Arc::new(|| TIME_MS));
    let (written, refused) = receiver.store(message, body).unwrap();
    assert!(refused.is_none(), "{refused:?}");
    (store, written)
}

#[test]
fn version_1_is_what_a_receiver_takes() {
    let (body, counts, pushed) = encode(Message::V1, &frame());
    assert_eq!(
        counts,
        Counts {
            samples: 3,
            exemplars: 1,
            histograms: 1
        }
    );
    assert_eq!(pushed[3], Pushed::CustomBuckets);
    let (_, written) = store(Message::V1, &body);
    assert_eq!(
        (written.samples, written.histograms, written.exemplars),
        (3, 1, 1)
    );
}

#[test]
fn version_2_says_everything() {
    let (body, counts, pushed) = encode(Message::V2, &frame());
    assert_eq!(
        (counts.samples, counts.histograms, counts.exemplars),
        (3, 2, 1)
    );
    assert!(pushed.iter().all(|pushed| *pushed == Pushed::Added));
    let (_, written) = store(Message::V2, &body);
    assert_eq!(
        (written.samples, written.histograms, written.exemplars),
        (3, 2, 1)
    );

    let incoming = receive_v2::decode(&body, &KeyHasher::default(), &Budget::unlimited()).unwrap();
    assert_eq!(&*incoming.families[0].help, "Counts \"a\".");
    assert_eq!(incoming.families[0].metric_type, MetricType::Counter);
    let floats: Vec<_> = incoming
        .floats
        .iter()
        .map(|one| (one.value, one.start_ms))
        .collect();
    assert_eq!(floats[0], (1.5, TIME_MS - 5000));
    assert!(cell::is_stale(floats[1].0));
    let sent = incoming.histograms[1].histogram.as_ref().unwrap();
    assert_eq!(**sent, *histogram(CUSTOM_BUCKETS));
    let (_, exemplar) = &incoming.exemplars[0];
    assert_eq!(exemplar.labels, LabelSet::new([("trace_id", "t")]));
    assert_eq!(exemplar.time_ms, Some(TIME_MS - 1));
}

#[test]
fn a_builder_begins_anew() {
    for message in [Message::V1, Message::V2] {
        let (first, ..) = encode(message, &frame());
        let dir = TempDir::new("encode-again");
        let queue = Arc::new(Queue::open(dir.path(), 1 << 30, Position::default()).unwrap());
        let labelling = Arc::new(Labelling::default());
        let parts = Parts {
            exemplars: true,
            histograms: true,
            start_times: true,
        };
        let frame = frame();
        let mut writer = QueueWriter::new(Arc::clone(&queue), labelling, parts, frame.schema());
        writer.append(&frame).unwrap();
        queue.rotate();
        writer.append(&frame).unwrap();
        let mut encode = Encode {
            builder: RequestBuilder::new(message),
            pushed: Vec::new(),
        };
        let mut reader = QueueReader::new(Arc::clone(&queue), queue.oldest(), None);
        for _ in 0..2 {
            encode.builder.begin_file();
            reader.read(&mut encode).unwrap();
            let mut body = Vec::new();
            encode.builder.finish(&mut body);
            assert!(body == first);
        }
    }
}

#[test]
fn metadata_is_a_request_of_its_own() {
    let family = FamilyRef {
        metric_type: 2,
        name: b"a",
        unit: b"seconds",
        help: b"Help.",
    };
    let body = metadata([family].into_iter());
    let incoming = crate::v1::decode(&body, &KeyHasher::default(), &Budget::unlimited()).unwrap();
    let found = &incoming.families[0];
    assert_eq!(
        (&*found.name, &*found.unit, &*found.help),
        ("a", "seconds", "Help.")
    );
    assert_eq!(found.metric_type, MetricType::Gauge);
}
