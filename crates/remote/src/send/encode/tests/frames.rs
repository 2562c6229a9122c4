//! Frames beside remote write 2.0: what a receiver stores is the same, bit for bit.

use super::*;
use crate::{
    frames::put_head,
    queue::{SampleWriter, kind, tag},
};
use narthex_model::{
    METRIC_NAME, MatchOp, Matcher,
    storage::{Context, Layout, Selector, SeriesQuery, SeriesSample, Store as _, Tile, TimeRange},
    varint::put_varint,
};
use narthex_testkit::{rng::SplitMix64, workspace_root};
use std::fmt::Write as _;

const PARTS: Parts = Parts {
    exemplars: true,
    histograms: true,
    start_times: true,
};

/// A source with its schema, which grows.
struct Source {
    job: String,
    schema: Schema,
    writer: QueueWriter,
    values: Vec<f64>,
    kinds: Vec<u64>,
}

impl Source {
    fn new(number: usize, queue: &Arc<Queue>) -> Self {
        let job = format!("job{number}");
        let schema = Schema::new(LabelSet::new([("instance", "i"), ("job", &*job)]));
        let labelling = Arc::new(Labelling::default());
        let writer = QueueWriter::new(Arc::clone(queue), labelling, PARTS, &schema);
        Self {
            job,
            schema,
            writer,
            values: Vec::new(),
            kinds: Vec::new(),
        }
    }

    fn grow(&mut self, columns: u64, rng: &mut SplitMix64) {
        let mut edit = self.schema.edit();
        for _ in 0..columns {
            let at = self.values.len();
            let family = edit.family(Family {
                name: format!("m{}_{}", self.job, at / 7).into(),
                metric_type: *rng.pick(&[MetricType::Counter, MetricType::Gauge]),
                unit: "".into(),
                help: format!("Help {}.", at / 7).into(),
            });
            let name = format!("m{}_{}", self.job, at / 7);
            let own = [(METRIC_NAME, &*name), ("a", &*format!("{}", at % 7))];
            edit.push(&LabelSet::new(own), family);
            self.values.push(rng.below(1000) as f64 / 4.0);
            self.kinds.push(rng.below(20));
        }
        self.schema = edit.finish();
        self.writer.rebind(&self.schema);
    }

    fn append(&mut self, time_ms: i64, rng: &mut SplitMix64) {
        let mut frame = Frame::new(self.schema.clone(), time_ms);
        let gap = 1 + rng.below(12);
        let own_times = rng.one_in(6);
        for at in 0..self.values.len() {
            let column = ColumnId(at as u32);
            if gap > 9 && !rng.one_in(gap) {
                continue;
            }
            match self.kinds[at] {
                _ if rng.one_in(25) => frame.mark_stale(column),
                _ if rng.one_in(25) => {}
                0 => frame.set_histogram(column, histogram(1)),
                1 => frame.set_histogram(column, histogram(CUSTOM_BUCKETS)),
                2 => frame.set(column, f64::from_bits(rng.next_u64() >> 2)),
                3 => frame.set(column, *rng.pick(&[f64::NAN, -0.0, f64::INFINITY])),
                _ => {
                    self.values[at] += rng.below(9) as f64;
                    frame.set(column, self.values[at]);
                }
            }
            if !frame.present().contains(at) {
                continue;
            }
            if own_times && rng.one_in(3) {
                frame.set_time(column, time_ms - 1 - rng.below(500).cast_signed());
            }
            if rng.one_in(9) {
                frame.set_start_time(column, TIME_MS - rng.below(3).cast_signed());
            }
            if rng.one_in(30) {
                frame.push_exemplar(
                    column,
                    Exemplar {
                        labels: LabelSet::new([("trace_id", &*format!("{}", rng.below(50)))]),
                        value: rng.unit_f64(),
                        time_ms: Some(time_ms - 7),
                    },
                );
            }
        }
        self.writer.append(&frame).unwrap();
    }
}

/// Makes requests of everything in a queue, cut at random.
struct Requests {
    builder: RequestBuilder,
    rng: SplitMix64,
    file: u64,
    bodies: Vec<Vec<u8>>,
}

impl Requests {
    fn cut(&mut self) {
        if self.builder.counts.total() > 0 {
            let mut body = Vec::new();
            self.builder.finish(&mut body);
            self.bodies.push(body);
        }
    }
}

impl Visit for Requests {
    fn entry(&mut self, at: Position) {
        if at.file != self.file {
            self.cut();
            self.builder.begin_file();
        }
        self.file = at.file;
    }

    fn item(&mut self, symbols: &Symbols, item: Item<'_>) {
        self.builder.push(symbols, &item);
        if self.rng.one_in(400) {
            self.cut();
        }
    }
}

fn requests(message: Message, queue: &Arc<Queue>, seed: u64) -> Vec<Vec<u8>> {
    let mut requests = Requests {
        builder: RequestBuilder::new(message),
        rng: SplitMix64::new(seed),
        file: 0,
        bodies: Vec::new(),
    };
    let mut reader = QueueReader::new(Arc::clone(queue), queue.oldest(), None);
    while reader.read(&mut requests).unwrap() == Read::Entry {}
    assert_eq!(reader.take_lost(), 0);
    requests.cut();
    requests.bodies
}

fn fill(queue: &Arc<Queue>, seed: u64, rotates: bool) {
    let mut rng = SplitMix64::new(seed);
    let mut sources: Vec<Source> = (0..3).map(|at| Source::new(at, queue)).collect();
    let most = if seed.is_multiple_of(7) { 2500 } else { 120 };
    let labelling = Arc::new(Labelling::default());
    let mut writer = SampleWriter::new(Arc::clone(queue), labelling, PARTS);
    for round in 0..25 {
        let time_ms = TIME_MS - 1_000_000 + round * 15_000 + rng.below(20).cast_signed();
        for source in &mut sources {
            if round == 0 || rng.one_in(8) {
                source.grow(1 + rng.below(most), &mut rng);
            }
            source.append(time_ms, &mut rng);
        }
        if rng.one_in(3) {
            let labels =
                |at: u64| LabelSet::new([(METRIC_NAME, "writer"), ("n", &*at.to_string())]);
            let samples: Vec<SeriesSample> = (0..1 + rng.below(5))
                .map(|at| SeriesSample::float(labels(at), time_ms, rng.unit_f64()))
                .collect();
            writer.append(&samples).unwrap();
        }
        if rotates && rng.one_in(10) {
            queue.rotate();
        }
    }
}

/// Prints everything in a store, values by their bits.
fn dump(store: &MemStore) -> String {
    let ctx = Context::unlimited();
    let view = store.view(TimeRange::ALL).unwrap();
    let all = Matcher::new(MatchOp::NotEqual, METRIC_NAME, "").unwrap();
    let mut selector = Selector::new(vec![all], TimeRange::ALL);
    selector.hints.start_times = true;
    let prepared = view.prepare(&[selector], &ctx).unwrap();
    let mut lines = Vec::new();
    for batch in prepared.batches(0, &ctx).unwrap() {
        let mut tile = Tile::default();
        let columns: Vec<u32> = (0..batch.len() as u32).collect();
        let layout = Layout::SeriesMajor;
        batch
            .read(&columns, TimeRange::ALL, layout, &mut tile, &ctx)
            .unwrap();
        for series in 0..batch.len() {
            let labels = batch.labels(series);
            for (row, time_ms) in tile.times_ms.iter().enumerate() {
                let start_ms = tile.start_times_ms.get(tile.at(row, series));
                let value = match cell::Cell::decode(tile.get(row, series)) {
                    cell::Cell::Absent => continue,
                    cell::Cell::Stale => "stale".to_owned(),
                    cell::Cell::Float(value) => format!("{:016x}", value.to_bits()),
                    cell::Cell::Histogram(at) => tile.histograms[at as usize].test_notation(),
                };
                let start_ms = start_ms.copied().unwrap_or_default();
                lines.push(format!("{labels} {time_ms} {start_ms} {value}"));
            }
        }
    }
    lines.sort();
    let mut out = lines.join("\n");
    let query = SeriesQuery::all(TimeRange::ALL);
    write!(out, "\n{:?}", view.exemplars(&query, &ctx).unwrap()).unwrap();
    write!(out, "\n{:?}", view.metadata(None, &ctx).unwrap()).unwrap();
    out
}

fn receiver(store: &MemStore) -> Receiver {
    Receiver::new(Arc::new(store.clone()), Arc::new(|| TIME_MS))
}

#[test]
fn what_is_stored_is_that_of_version_2() {
    for seed in 0..8 {
        let dir = TempDir::new("frames");
        let queue = Arc::new(Queue::open(dir.path(), 1 << 30, Position::default()).unwrap());
        fill(&queue, seed, true);
        let stored = [Message::V2, Message::Frames].map(|message| {
            let store = MemStore::new();
            let receiver = receiver(&store);
            let mut written = [0; 3];
            for body in requests(message, &queue, seed) {
                let (more, _) = receiver.store(message, &body).unwrap();
                let more = [more.samples, more.histograms, more.exemplars];
                written = std::array::from_fn(|at| written[at] + more[at]);
            }
            (written, dump(&store))
        });
        let [(v2_written, v2), (written, frames)] = &stored;
        assert_eq!(v2_written, written, "seed {seed}");
        assert!(written.iter().all(|count| *count > 0), "{written:?}");
        let first = v2.lines().zip(frames.lines()).find(|(a, b)| a != b);
        assert_eq!(first, None, "seed {seed}");
        assert_eq!(v2.len(), frames.len(), "seed {seed}");
    }
}

#[test]
fn a_request_that_is_sent_again_gets_its_answer_and_stores_nothing() {
    let dir = TempDir::new("frames-again");
    let queue = Arc::new(Queue::open(dir.path(), 1 << 30, Position::default()).unwrap());
    fill(&queue, 3, true);
    let store = MemStore::new();
    let receiver = receiver(&store);
    for body in requests(Message::Frames, &queue, 3) {
        let (first, _) = receiver.store(Message::Frames, &body).unwrap();
        let before = dump(&store);
        let (again, _) = receiver.store(Message::Frames, &body).unwrap();
        assert_eq!(first, again);
        assert!(before == dump(&store));
    }
}

#[test]
fn a_session_that_is_not_known_or_not_continued_is_lost() {
    let dir = TempDir::new("frames-lost");
    let queue = Arc::new(Queue::open(dir.path(), 1 << 30, Position::default()).unwrap());
    fill(&queue, 4, false);
    let bodies = requests(Message::Frames, &queue, 4);
    let store = MemStore::new();
    let first = receiver(&store);
    let lost = |receiver: &Receiver, body: &[u8]| {
        let error = receiver.store(Message::Frames, body).unwrap_err();
        assert_eq!(error.status().as_u16(), 409, "{error}");
    };
    first.store(Message::Frames, &bodies[0]).unwrap();
    // The next but one: the session ends, and does not go on with what would have come.
    let before = dump(&store);
    lost(&first, &bodies[2]);
    lost(&first, &bodies[1]);
    assert!(before == dump(&store), "nothing of them was stored");
    // A receiver that restarted.
    lost(&receiver(&store), &bodies[1]);
    // Another request under the number of the last one.
    first.store(Message::Frames, &bodies[0]).unwrap();
    let mut other = bodies[0].clone();
    *other.last_mut().unwrap() ^= 1;
    lost(&first, &other);
}

/// Returns a request that begins a session.
fn begin(session: u8, samples: u64, records: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    put_head([session; 16], 0, [0; 16], samples, &mut body);
    body.extend_from_slice(records);
    body
}

#[test]
fn small_requests_cannot_take_much_memory() {
    let memory = crate::ReceiverMemory {
        requests: Budget::new("requests", 64 << 20),
        series: Budget::new("series", 4 << 20),
    };
    let receiver = Receiver::within(Arc::new(MemStore::new()), Arc::new(|| TIME_MS), &memory);
    let mut strips = Vec::new();
    for number in 0..1_000_000_u64 {
        strips.push(tag::STRIP);
        put_varint(&mut strips, number);
        put_varint(&mut strips, 0);
    }
    let error = receiver
        .store(Message::Frames, &begin(1, 0, &strips))
        .unwrap_err();
    assert_eq!(error.status().as_u16(), 503, "{error}");
    assert_eq!(memory.series.used_bytes(), 0, "a session that ended");
    assert!(memory.series.peak_bytes() <= 4 << 20);

    // One set of a name, one strip, and a row of more columns than the strip has.
    let mut rows = vec![tag::SET, 1, 0, 0, 8];
    rows.extend_from_slice(b"__name__");
    rows.extend_from_slice(&[1, b'a', tag::STRIP, 0, 0]);
    let more_pages = [&rows[..], &[tag::KEY_ROW, 0, 0, 200, 1, 0]].concat();
    let error = receiver
        .store(Message::Frames, &begin(2, 0, &more_pages))
        .unwrap_err();
    assert!(error.to_string().contains("more pages"), "{error}");

    // Samples that are not what the head says.
    let mut one = vec![tag::SERIES, 1, 0, 2, kind::FLOAT];
    one.extend_from_slice(&1.0_f64.to_le_bytes());
    let records = [&rows[..], &one].concat();
    let error = receiver
        .store(Message::Frames, &begin(3, 2, &records))
        .unwrap_err();
    assert!(error.to_string().contains("not defined"), "{error}");
    let (written, _) = receiver
        .store(Message::Frames, &begin(4, 1, &records))
        .unwrap();
    assert_eq!(written.samples, 1);
}

/// The committed requests: two of a session, which every later version must read.
#[test]
fn committed_requests_are_read() {
    let dir = workspace_root().join("testdata/formats/v2");
    let names = ["remote_frames_first.bin", "remote_frames_next.bin"];
    if std::env::var_os("NARTHEX_UPDATE_GOLDEN").is_some() {
        let temp = TempDir::new("frames-golden");
        let queue = Arc::new(Queue::open(temp.path(), 1 << 30, Position::default()).unwrap());
        let mut rng = SplitMix64::new(11);
        let mut source = Source::new(0, &queue);
        let mut bodies = Vec::new();
        source.grow(30, &mut rng);
        let mut made = Requests {
            builder: RequestBuilder::new(Message::Frames),
            rng: SplitMix64::new(0),
            file: 1,
            bodies: Vec::new(),
        };
        let mut reader = QueueReader::new(Arc::clone(&queue), queue.oldest(), None);
        for round in 0..2 {
            source.append(TIME_MS + round * 15_000, &mut rng);
            source.grow(1, &mut rng);
            reader.read(&mut made).unwrap();
            made.cut();
            bodies.append(&mut made.bodies);
        }
        for (name, body) in names.iter().zip(&bodies) {
            std::fs::write(dir.join(name), body).unwrap();
        }
    }
    let bodies = names.map(|name| std::fs::read(dir.join(name)).unwrap());
    let store = MemStore::new();
    let receiver = Receiver::new(Arc::new(store.clone()), Arc::new(|| TIME_MS + 60_000));
    let mut samples = 0;
    for body in &bodies {
        let (written, refused) = receiver.store(Message::Frames, body).unwrap();
        assert!(refused.is_none(), "{refused:?}");
        samples += written.samples + written.histograms;
    }
    assert_eq!(samples, 60);
    let dump = dump(&store);
    for line in [
        "mjob0_2{a=\"1\", instance=\"i\", job=\"job0\"} 1700000015000 0 406af80000000000",
        "mjob0_2{a=\"4\", instance=\"i\", job=\"job0\"} 1700000015000 0 2d2756ff8e564ab0",
        "mjob0_3{a=\"2\", instance=\"i\", job=\"job0\"} 1700000000000 0 stale",
        "mjob0_4{a=\"2\", instance=\"i\", job=\"job0\"} 1700000015000 0 {{schema:1 count:6 sum:2.5 z_bucket:1 z_bucket_w:0.001 counter_reset_hint:not_reset buckets:[3 2]}}",
    ] {
        assert!(
            dump.lines().any(|one| one == line),
            "{line} is not in\n{dump}"
        );
    }
    assert!(dump.contains("trace_id=\"4\"") && dump.contains("Help 4."));

    // Corrupt ones: cut off anywhere, or one bit flipped, they store what they said or are refused.
    for body in &bodies {
        for at in (0..body.len()).step_by(7) {
            let receiver = self::receiver(&MemStore::new());
            let _ = receiver.store(Message::Frames, &body[..at]);
            let mut flipped = body.clone();
            flipped[at] ^= 1 << (at % 8);
            let _ = receiver.store(Message::Frames, &flipped);
        }
    }
}

/// What the fleet of the benches takes on the wire, compressed, after the first round.
#[test]
fn a_sample_takes_less_than_an_eighth_of_version_2() {
    const ROUNDS: i64 = 40;
    let dir = TempDir::new("frames-bytes");
    let queue = Arc::new(Queue::open(dir.path(), 1 << 30, Position::default()).unwrap());
    let mut target = narthex_testkit::fleet::Target::new(0, 0, 588);
    let mut edit = Schema::new(LabelSet::new([("instance", "i:8080"), ("job", "fleet")])).edit();
    for prefix in target.prefixes() {
        let line = prefix.lines().last().unwrap();
        let (name, rest) = line.split_once('{').unwrap();
        let inner = rest.trim_end().trim_end_matches('}');
        let pairs = inner.split("\",").map(|pair| {
            let (name, value) = pair.split_once("=\"").unwrap();
            (name, value.trim_end_matches('"'))
        });
        let family = edit.family(Family::default());
        edit.push(&LabelSet::new(pairs.chain([(METRIC_NAME, name)])), family);
    }
    let schema = edit.finish();
    let labelling = Arc::new(Labelling::default());
    let mut writer = QueueWriter::new(Arc::clone(&queue), labelling, PARTS, &schema);
    for round in 0..=ROUNDS {
        target.step();
        let mut frame = Frame::new(schema.clone(), TIME_MS + round * 15_000);
        for (at, value) in target.values().iter().enumerate() {
            frame.set(ColumnId(at as u32), *value);
        }
        writer.append(&frame).unwrap();
    }
    let bytes = [Message::V2, Message::Frames].map(|message| {
        let mut made = Requests {
            builder: RequestBuilder::new(message),
            rng: SplitMix64::new(0),
            file: 1,
            bodies: Vec::new(),
        };
        let mut reader = QueueReader::new(Arc::clone(&queue), queue.oldest(), None);
        let mut rounds = Vec::new();
        while reader.read(&mut made).unwrap() == Read::Entry {
            made.cut();
            let bodies = made.bodies.drain(..);
            let bytes =
                bodies.map(|body| snap::raw::Encoder::new().compress_vec(&body).unwrap().len());
            rounds.push(bytes.sum::<usize>());
        }
        rounds[1..].iter().sum::<usize>() as f64 / (588 * ROUNDS) as f64
    });
    println!("{bytes:.2?} bytes a sample");
    assert!(bytes[1] * 8.0 < bytes[0], "{bytes:?}");
}
