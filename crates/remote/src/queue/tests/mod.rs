//! Queues from inside: what is written comes back, bounds hold, damage costs what it is in.

mod golden;

use super::{
    disk::{Disk, RealDisk},
    format::path_of,
    *,
};
use narthex_model::{
    ColumnId, Exemplar, Frame, Histogram, LabelSet, NameScheme, Schema, cell,
    histogram::Span,
    metadata::{Family, MetricType},
    relabel::{Action, RelabelConfig, Rule},
    storage::SeriesSample,
};
use narthex_testkit::TempDir;
use std::{
    fs::File,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

const ALL: Parts = Parts {
    exemplars: true,
    histograms: true,
    start_times: true,
};
const MANY: u64 = 1 << 40;

/// Items as text: labels, time, value, start, exemplars, family.
#[derive(Default)]
struct Seen {
    lines: Vec<String>,
    entries: Vec<Position>,
}

impl Visit for Seen {
    fn entry(&mut self, at: Position) {
        self.entries.push(at);
    }

    fn item(&mut self, symbols: &Symbols, item: Item<'_>) {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let label = |number: &u32| {
            let (name, value) = symbols.label(*number).unwrap();
            (text(name), text(value))
        };
        let pairs: Vec<_> = item
            .series
            .labels(symbols)
            .into_iter()
            .flatten()
            .map(label)
            .collect();
        let set = LabelSet::new(pairs.iter().map(|(name, value)| (&**name, &**value)));
        let value = match &item.value {
            Value::Float(value) if cell::is_stale(*value) => "stale".to_owned(),
            Value::Float(value) => value.to_string(),
            Value::Histogram(one) => format!("histogram of {}", one.count),
            Value::Nothing => "nothing".to_owned(),
        };
        let mut line = format!("{set} {} {value}", item.time_ms);
        if item.start_ms != 0 {
            line += &format!(" since {}", item.start_ms);
        }
        for exemplar in item.exemplars {
            let labels: Vec<_> = symbols
                .set(exemplar.labels)
                .unwrap()
                .iter()
                .map(label)
                .collect();
            line += &format!(" # {labels:?} {} {}", exemplar.value, exemplar.time_ms);
        }
        if let Some(family) = item
            .series
            .family()
            .and_then(|family| symbols.family(family))
        {
            line += &format!(" [{} {}]", text(family.name), family.metric_type);
        }
        self.lines.push(line);
    }
}

fn queue(dir: &Path, limit_bytes: u64) -> Arc<Queue> {
    Arc::new(Queue::open(dir, limit_bytes, Position::default()).unwrap())
}

fn writer(queue: &Arc<Queue>, labelling: Labelling, schema: &Schema) -> QueueWriter {
    QueueWriter::new(Arc::clone(queue), Arc::new(labelling), ALL, schema)
}

/// Reads everything from a place on.
fn read_from(queue: &Arc<Queue>, from: Position) -> (Seen, QueueReader) {
    let mut reader = QueueReader::new(Arc::clone(queue), from, None);
    let mut seen = Seen::default();
    while reader.read(&mut seen).unwrap() == Read::Entry {}
    (seen, reader)
}

fn read(queue: &Arc<Queue>) -> Vec<String> {
    read_from(queue, queue.oldest()).0.lines
}

fn family(name: &str, metric_type: MetricType) -> Family {
    Family {
        name: name.into(),
        metric_type,
        ..Family::default()
    }
}

/// Returns a schema of target labels and counters `c0`, `c1` …
fn schema(columns: usize) -> Schema {
    grown(
        &Schema::new(LabelSet::new([("instance", "i"), ("job", "j")])),
        0,
        columns,
    )
}

fn grown(schema: &Schema, from: usize, to: usize) -> Schema {
    let mut edit = schema.edit();
    let family = edit.family(family("c", MetricType::Counter));
    for at in from..to {
        edit.push(&LabelSet::new([("__name__", &*format!("c{at}"))]), family);
    }
    edit.finish()
}

fn round(schema: &Schema, time_ms: i64, values: &[f64]) -> Frame {
    let mut frame = Frame::new(schema.clone(), time_ms);
    for (column, value) in (0..).zip(values) {
        frame.set(ColumnId(column), *value);
    }
    frame
}

fn histogram(count: f64) -> Arc<Histogram> {
    Arc::new(Histogram {
        count,
        integer_counts: true,
        positive_spans: vec![Span {
            offset: 0,
            length: 1,
        }],
        positive_buckets: vec![count],
        ..Histogram::default()
    })
}

#[test]
fn everything_of_a_round_comes_back() {
    let dir = TempDir::new("queue-round");
    let queue = queue(dir.path(), MANY);
    let schema = schema(4);
    let mut writer = writer(&queue, Labelling::default(), &schema);
    writer
        .append(&round(&schema, 1000, &[1.0, 2.5, 3.0, 4.0]))
        .unwrap();

    let mut frame = Frame::new(schema, 2000);
    frame.set(ColumnId(0), 2.0);
    frame.set_start_time(ColumnId(0), 500);
    frame.mark_stale(ColumnId(1));
    frame.set_histogram(ColumnId(2), histogram(7.0));
    frame.set(ColumnId(3), -0.0);
    frame.set_time(ColumnId(3), 1999);
    let exemplar = |time_ms| Exemplar {
        labels: LabelSet::new([("trace_id", "t")]),
        value: 0.25,
        time_ms,
    };
    frame.push_exemplar(ColumnId(0), exemplar(None));
    frame.push_exemplar(ColumnId(1), exemplar(Some(7)));
    frame.push_exemplar(ColumnId(3), exemplar(None));
    writer.append(&frame).unwrap();

    let of = |name: &str| format!(r#"{name}{{instance="i", job="j"}}"#);
    assert_eq!(
        read(&queue),
        [
            format!("{} 1000 1 [c 1]", of("c0")),
            format!("{} 1000 2.5 [c 1]", of("c1")),
            format!("{} 1000 3 [c 1]", of("c2")),
            format!("{} 1000 4 [c 1]", of("c3")),
            format!(
                r#"{} 2000 2 since 500 # [("trace_id", "t")] 0.25 2000 [c 1]"#,
                of("c0")
            ),
            format!(
                r#"{} 2000 stale # [("trace_id", "t")] 0.25 7 [c 1]"#,
                of("c1")
            ),
            format!("{} 2000 histogram of 7 [c 1]", of("c2")),
            format!(
                r#"{} 1999 -0 # [("trace_id", "t")] 0.25 1999 [c 1]"#,
                of("c3")
            ),
        ]
    );
    assert_eq!(queue.status().samples, 8);
}

#[test]
fn parts_that_are_not_wanted_are_not_written() {
    let dir = TempDir::new("queue-parts");
    let queue = queue(dir.path(), MANY);
    let schema = schema(2);
    let labelling = Arc::new(Labelling::default());
    let mut writer = QueueWriter::new(Arc::clone(&queue), labelling, Parts::default(), &schema);
    let mut frame = round(&schema, 1000, &[1.0]);
    frame.set_histogram(ColumnId(1), histogram(7.0));
    frame.set_start_time(ColumnId(0), 500);
    frame.push_exemplar(
        ColumnId(0),
        Exemplar {
            labels: LabelSet::empty(),
            value: 1.0,
            time_ms: None,
        },
    );
    writer.append(&frame).unwrap();
    assert_eq!(read(&queue), [r#"c0{instance="i", job="j"} 1000 1 [c 1]"#]);
}

#[test]
fn wide_and_growing_schemas_keep_their_series() {
    let dir = TempDir::new("queue-wide");
    let queue = queue(dir.path(), MANY);
    let narrow = schema(3000);
    let mut writer = writer(&queue, Labelling::default(), &narrow);
    let values = |columns: usize, plus: f64| -> Vec<f64> {
        (0..columns).map(|at| at as f64 + plus).collect()
    };
    writer
        .append(&round(&narrow, 1, &values(3000, 0.0)))
        .unwrap();
    let wide = grown(&narrow, 3000, 4100);
    writer.rebind(&wide);
    writer.append(&round(&wide, 2, &values(4100, 0.5))).unwrap();
    // Few samples of many columns are written one by one.
    let mut sparse = Frame::new(wide.clone(), 3);
    sparse.set(ColumnId(4099), 9.0);
    sparse.mark_stale(ColumnId(5));
    sparse.set_histogram(ColumnId(7), histogram(3.0));
    writer.append(&sparse).unwrap();
    writer
        .append(&round(&wide, 4, &values(4100, 0.25)))
        .unwrap();

    let line = |column: usize, time_ms: i64, value: &dyn fmt::Display| {
        format!(r#"c{column}{{instance="i", job="j"}} {time_ms} {value} [c 1]"#)
    };
    let mut expected: Vec<String> = (0..3000).map(|at| line(at, 1, &at)).collect();
    expected.extend((0..4100).map(|at| line(at, 2, &(at as f64 + 0.5))));
    expected.extend([
        line(5, 3, &"stale"),
        line(7, 3, &"histogram of 3"),
        line(4099, 3, &9),
    ]);
    expected.extend((0..4100).map(|at| line(at, 4, &(at as f64 + 0.25))));
    assert!(read(&queue) == expected);
}

#[test]
fn labels_are_those_of_the_destination() {
    let dir = TempDir::new("queue-labels");
    let queue = queue(dir.path(), MANY);
    let rule = |config: RelabelConfig| Rule::new(config, NameScheme::Utf8).unwrap();
    let labelling = Labelling {
        external: LabelSet::new([("job", "not this"), ("replica", "r1")]),
        rules: vec![
            rule(RelabelConfig {
                source_labels: vec!["__name__".into()],
                regex: Some("c[13]".into()),
                action: Some(Action::Drop),
                ..RelabelConfig::default()
            }),
            rule(RelabelConfig {
                source_labels: vec!["__name__".into()],
                regex: Some("c2".into()),
                target_label: "instance".into(),
                replacement: "other".into(),
                ..RelabelConfig::default()
            }),
        ],
    };
    let first = schema(3);
    let mut writer = writer(&queue, labelling, &first);
    writer.append(&round(&first, 1, &[1.0, 2.0, 3.0])).unwrap();
    // Its last column has another instance than those that the strip began with share.
    let second = grown(&first, 3, 5);
    writer.rebind(&second);
    let mut frame = round(&second, 2, &[1.0, 2.0, 3.0, 4.0, 5.0]);
    frame.mark_stale(ColumnId(2));
    writer.append(&frame).unwrap();
    let external = |name: &str, instance: &str, rest: &str| {
        format!(r#"{name}{{instance="{instance}", job="j", replica="r1"}} {rest} [c 1]"#)
    };
    assert_eq!(
        read(&queue),
        [
            external("c0", "i", "1 1"),
            external("c2", "other", "1 3"),
            external("c0", "i", "2 1"),
            external("c2", "other", "2 stale"),
            external("c4", "i", "2 5"),
        ]
    );
}

#[test]
fn external_labels_give_way_to_labels_of_columns() {
    let dir = TempDir::new("queue-external");
    let queue = queue(dir.path(), MANY);
    let mut edit = Schema::new(LabelSet::new([("job", "j")])).edit();
    let id = edit.family(family("a", MetricType::Gauge));
    edit.push(&LabelSet::new([("__name__", "a")]), id);
    let plain = edit.finish();
    let labelling = Labelling {
        external: LabelSet::new([("zone", "z")]),
        rules: Vec::new(),
    };
    let mut writer = writer(&queue, labelling, &plain);
    writer.append(&round(&plain, 1, &[1.0])).unwrap();
    let mut edit = plain.edit();
    edit.push(&LabelSet::new([("__name__", "b"), ("zone", "own")]), id);
    let mixed = edit.finish();
    writer.rebind(&mixed);
    writer.append(&round(&mixed, 2, &[1.0, 2.0])).unwrap();
    assert_eq!(
        read(&queue),
        [
            r#"a{job="j", zone="z"} 1 1 [a 2]"#,
            r#"a{job="j", zone="z"} 2 1 [a 2]"#,
            r#"b{job="j", zone="own"} 2 2 [a 2]"#,
        ]
    );
}

#[test]
fn changed_metadata_is_told_and_retired_columns_are_not_repeated() {
    let dir = TempDir::new("queue-metadata");
    let queue = queue(dir.path(), MANY);
    let first = schema(2);
    let mut writer = writer(&queue, Labelling::default(), &first);
    writer.append(&round(&first, 1, &[1.0, 2.0])).unwrap();
    let mut edit = first.edit();
    edit.family(family("c", MetricType::Gauge));
    edit.retire(ColumnId(0));
    let second = edit.finish();
    writer.rebind(&second);
    let mut frame = Frame::new(second.clone(), 2);
    frame.set(ColumnId(1), 3.0);
    writer.append(&frame).unwrap();
    let last = read(&queue).pop().unwrap();
    assert_eq!(last, r#"c1{instance="i", job="j"} 2 3 [c 2]"#);
}

#[test]
fn single_samples_are_written_too() {
    let dir = TempDir::new("queue-samples");
    let queue = queue(dir.path(), MANY);
    let labelling = Labelling {
        external: LabelSet::new([("zone", "z")]),
        rules: Vec::new(),
    };
    let mut writer = SampleWriter::new(Arc::clone(&queue), Arc::new(labelling), ALL);
    let labels = LabelSet::new([("__name__", "a")]);
    let mut started = SeriesSample::float(labels.clone(), 5, 1.5);
    started.start_time_ms = 3;
    let samples = [
        started,
        SeriesSample::float(labels.clone(), 4, cell::STALE),
        SeriesSample::histogram(labels, -7, histogram(2.0)),
    ];
    writer.append(&samples).unwrap();
    writer.append(&[]).unwrap();
    assert_eq!(
        read(&queue),
        [
            r#"a{zone="z"} 5 1.5 since 3"#,
            r#"a{zone="z"} 4 stale"#,
            r#"a{zone="z"} -7 histogram of 2"#,
        ]
    );
}

#[test]
fn files_stand_for_themselves_and_places_have_a_meaning() {
    let dir = TempDir::new("queue-files");
    let queue = queue(dir.path(), MANY);
    let schema = schema(3);
    let mut writer = writer(&queue, Labelling::default(), &schema);
    for time_ms in 0..6 {
        if time_ms % 2 == 0 {
            queue.rotate();
        }
        writer
            .append(&round(&schema, time_ms, &[1.0, 2.0, 3.0]))
            .unwrap();
    }
    let (seen, reader) = read_from(&queue, queue.oldest());
    assert_eq!((seen.lines.len(), seen.entries.len()), (18, 6));
    let samples: Vec<u64> = seen.entries.iter().map(|at| at.sample).collect();
    assert_eq!(samples, [0, 3, 6, 9, 12, 15]);
    assert_eq!(reader.position().sample, 18);
    // From the middle of the second file, all of that file is read: its beginning is needed.
    let (later, _) = read_from(&queue, seen.entries[3]);
    assert_eq!(later.lines, seen.lines[6..]);
    assert_eq!(later.entries, seen.entries[2..]);
    // A reader may end before a file.
    let last = seen.entries[4].file;
    let mut reader = QueueReader::new(Arc::clone(&queue), queue.oldest(), Some(last));
    let mut seen = Seen::default();
    while reader.read(&mut seen).unwrap() == Read::Entry {}
    assert_eq!(seen.lines.len(), 12);
    assert_eq!(reader.read(&mut seen).unwrap(), Read::End);
}

#[test]
fn a_restart_goes_on_in_another_file() {
    let dir = TempDir::new("queue-restart");
    let schema = schema(2);
    for life in 0..3 {
        let queue = queue(dir.path(), MANY);
        assert_eq!(queue.status().samples, life * 2);
        let mut writer = writer(&queue, Labelling::default(), &schema);
        writer
            .append(&round(&schema, life as i64, &[1.0, 2.0]))
            .unwrap();
    }
    let last = queue(dir.path(), MANY);
    assert_eq!((last.status().files, read(&last).len()), (3, 6));
    // Files that the cursor is past are not numbered again, even if none is left.
    last.release(6, |_| false);
    let past = Position::start_of(3, 6);
    let queue = Arc::new(Queue::open(dir.path(), MANY, past).unwrap());
    assert_eq!(queue.status().files, 0);
    let mut writer = writer(&queue, Labelling::default(), &schema);
    writer.append(&round(&schema, 9, &[1.0])).unwrap();
    assert_eq!(queue.oldest().file, 4);
    assert_eq!(queue.oldest().sample, 6);
}

#[test]
fn the_oldest_is_given_up_and_counted() {
    let dir = TempDir::new("queue-bound");
    const LIMIT: u64 = 8 << 10;
    let queue = queue(dir.path(), LIMIT);
    let schema = schema(10);
    let mut writer = writer(&queue, Labelling::default(), &schema);
    let mut given_up = 0;
    for time_ms in 0..2000 {
        // Numbers that have nothing to do with one another.
        let values: Vec<f64> = (1..11)
            .map(|at| {
                f64::from_bits((time_ms as u64 * 31 + at).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 2)
            })
            .collect();
        let appended = writer.append(&round(&schema, time_ms, &values)).unwrap();
        given_up += appended.given_up;
        assert!(queue.status().bytes <= LIMIT, "{:?}", queue.status());
    }
    let lines = read(&queue);
    assert!(given_up > 10_000, "{given_up}");
    assert_eq!(lines.len() as u64 + given_up, 20_000);
    assert!(lines.last().unwrap().contains(" 1999 "));
}

#[test]
fn what_was_acknowledged_is_not_counted_as_given_up() {
    let dir = TempDir::new("queue-acknowledged");
    let queue = queue(dir.path(), 4 << 10);
    let schema = schema(1);
    let mut writer = writer(&queue, Labelling::default(), &schema);
    let mut given_up = 0;
    for time_ms in 0..3000 {
        let appended = writer
            .append(&round(&schema, time_ms, &[time_ms as f64]))
            .unwrap();
        given_up += appended.given_up;
        queue.release(time_ms as u64 + 1, |_| true);
    }
    assert_eq!(given_up, 0);
    assert!(queue.oldest().sample > 0);
}

/// Changes bytes of the queue's first file.
fn damage(dir: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let path = path_of(dir, 1);
    let mut bytes = std::fs::read(&path).unwrap();
    change(&mut bytes);
    std::fs::write(&path, bytes).unwrap();
}

/// Writes rounds 0..6 of three counters to one file; returns where entries begin.
fn six_rounds(dir: &Path) -> Vec<Position> {
    let queue = queue(dir, MANY);
    let schema = schema(3);
    let mut writer = writer(&queue, Labelling::default(), &schema);
    for time_ms in 0..6 {
        writer
            .append(&round(&schema, time_ms, &[1.0, 2.0, time_ms as f64]))
            .unwrap();
    }
    read_from(&queue, queue.oldest()).0.entries
}

/// Returns the times of the rounds that are read, and how many samples are lost.
fn times(dir: &Path) -> (Vec<String>, u64) {
    let queue = queue(dir, MANY);
    let schema = schema(1);
    // Another file behind, so that what is lost at the end of the first shows.
    let mut writer = writer(&queue, Labelling::default(), &schema);
    writer.append(&round(&schema, 99, &[1.0])).unwrap();
    let (seen, mut reader) = read_from(&queue, queue.oldest());
    let mut times: Vec<String> = seen
        .lines
        .iter()
        .map(|line| line.split(' ').nth(2).unwrap().to_owned())
        .collect();
    times.dedup();
    (times, reader.take_lost())
}

#[test]
fn damage_costs_what_it_is_in() {
    let dir = TempDir::new("queue-damage");
    let entries = six_rounds(dir.path());
    // A damaged row: those behind it wait for a checkpoint, which a short file does not have.
    damage(dir.path(), |bytes| {
        bytes[entries[3].offset as usize + 12] ^= 1;
    });
    let (seen, lost) = times(dir.path());
    assert_eq!((seen.join(" "), lost), ("0 1 2 99".to_owned(), 9));
}

#[test]
fn a_checkpoint_ends_what_damage_costs() {
    let dir = TempDir::new("queue-checkpoint");
    let queue_of = queue(dir.path(), MANY);
    let schema = schema(3);
    let mut writer = writer(&queue_of, Labelling::default(), &schema);
    for time_ms in 0..400 {
        writer
            .append(&round(
                &schema,
                time_ms,
                &[1.0, 2.0, (time_ms * 7 % 31) as f64],
            ))
            .unwrap();
    }
    let entries = read_from(&queue_of, queue_of.oldest()).0.entries;
    drop((writer, queue_of));
    damage(dir.path(), |bytes| {
        bytes[entries[10].offset as usize + 12] ^= 1;
    });
    let (seen, lost) = times(dir.path());
    assert!(seen.len() > 250, "{}", seen.len());
    assert_eq!(lost as usize, 3 * (401 - seen.len()));
}

#[test]
fn lost_definitions_lose_what_refers_to_them() {
    let dir = TempDir::new("queue-definitions");
    let entries = six_rounds(dir.path());
    damage(dir.path(), |bytes| {
        bytes[entries[0].offset as usize + 20] ^= 1;
    });
    let (seen, lost) = times(dir.path());
    assert_eq!((seen.join(" "), lost), ("99".to_owned(), 18));
}

#[test]
fn a_torn_end_and_a_damaged_header_lose_no_whole_entry() {
    let dir = TempDir::new("queue-torn");
    let entries = six_rounds(dir.path());
    damage(dir.path(), |bytes| {
        bytes.truncate(entries[5].offset as usize + 3);
        bytes[9] ^= 1;
    });
    let (seen, _) = times(dir.path());
    assert_eq!(seen.join(" "), "0 1 2 3 4 99");
}

#[test]
fn files_of_a_newer_release_are_refused() {
    let dir = TempDir::new("queue-newer");
    six_rounds(dir.path());
    damage(dir.path(), |bytes| {
        bytes[8] = 9;
        let crc = crc32c(&[&bytes[..28]]).to_le_bytes();
        bytes[28..32].copy_from_slice(&crc);
    });
    let error = Queue::open(dir.path(), MANY, Position::default()).unwrap_err();
    let text = error.to_string();
    assert!(
        text.ends_with("has version 9 of the format, which is of a newer release"),
        "{text}"
    );
}

/// A disk with this much room, which fails in the middle of the write that exceeds it.
#[derive(Debug)]
struct FullDisk(AtomicI64);

impl Disk for FullDisk {
    fn append(&self, file: &File, bytes: &[u8]) -> io::Result<()> {
        let left = self.0.fetch_sub(bytes.len() as i64, Ordering::Relaxed);
        if left >= bytes.len() as i64 {
            return RealDisk.append(file, bytes);
        }
        self.0.fetch_add(bytes.len() as i64, Ordering::Relaxed);
        let fits = usize::try_from(left).unwrap_or(0).min(bytes.len());
        RealDisk.append(file, &bytes[..fits])?;
        Err(io::ErrorKind::StorageFull.into())
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        RealDisk.sync(file)
    }
}

#[test]
fn a_full_disk_costs_the_rounds_that_do_not_fit() {
    let dir = TempDir::new("queue-full");
    let disk = Arc::new(FullDisk(AtomicI64::new(600)));
    let queue = Queue::open_on(disk.clone(), dir.path(), MANY, Position::default()).unwrap();
    let queue = Arc::new(queue);
    let schema = schema(3);
    let mut writer = writer(&queue, Labelling::default(), &schema);
    let mut stored = Vec::new();
    for time_ms in 0..60 {
        if time_ms == 40 {
            disk.0.store(1 << 20, Ordering::Relaxed);
        }
        match writer.append(&round(&schema, time_ms, &[1.5, 2.5, time_ms as f64])) {
            Ok(_) => stored.push(time_ms.to_string()),
            Err(error) => assert!(error.to_string().starts_with("write "), "{error}"),
        }
    }
    assert!((21..60).contains(&stored.len()), "{stored:?}");
    let mut times: Vec<String> = read(&queue)
        .iter()
        .map(|line| line.split(' ').nth(2).unwrap().to_owned())
        .collect();
    times.dedup();
    assert_eq!(times, stored);
    // Attempts that failed leave no files behind.
    assert!(queue.status().files <= 3, "{:?}", queue.status());
    let on_disk = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(on_disk, queue.status().files);
}

#[test]
fn a_row_costs_about_what_changed() {
    let dir = TempDir::new("queue-bytes");
    let queue = queue(dir.path(), MANY);
    let schema = schema(588);
    let mut writer = writer(&queue, Labelling::default(), &schema);
    let mut fleet = narthex_testkit::fleet::Target::new(1, 0, 588);
    let mut before = 0;
    for time_ms in 0..100 {
        fleet.step();
        writer
            .append(&round(&schema, time_ms * 15_000, fleet.values()))
            .unwrap();
        if time_ms == 0 {
            before = queue.status().bytes;
        }
    }
    let a_sample = (queue.status().bytes - before) as f64 / (99.0 * 588.0);
    assert!(a_sample < 1.5, "{a_sample} bytes a sample");
}
