//! Cost of storing samples: append with one WAL fsync a second, flushes, memory, bytes, replay.
//!
//! `cargo bench -p narthex-tsdb --bench append [-- shape…]`; shapes: fleet, tiny, wide, flapping, out-of-order,
//! medium, cadvisor.
//! Values are made outside the measured calls. NARTHEX_BENCH_DIR says where the data goes.

use narthex_model::{
    ColumnId, Frame, LabelSet, METRIC_NAME, Matcher, Schema,
    metadata::Family,
    storage::{
        Batch, Binding, Context, Layout, Selector, SeriesSample, Sink, Store, Tile, TimeRange,
    },
};
use narthex_testkit::{TempDir, rng::SplitMix64};
use narthex_tsdb::{Db, DbOptions, ManualClock, RealIo};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

const STEP_MS: i64 = 5_000;
/// Columns that share a time.
const TIMED: usize = 60;
const START_MS: i64 = 1_767_225_600_000;

fn main() {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    let chosen = |name: &str| wanted.is_empty() || wanted.iter().any(|other| other == name);
    let mut out = String::from(
        "| shape | series | rounds | append ns/sample | p99 frame us | maintain ns/sample | RSS B/series | log written B/sample | log B/sample | blocks B/sample | flushed B/sample | merged B/sample | merge ns/sample | replay s | select ns/series | last ns/series | scan ns/sample |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for (name, shape) in SHAPES {
        if chosen(name) {
            out.push_str(&run(name, &shape));
        }
    }
    std::io::Write::write_all(&mut std::io::stdout(), out.as_bytes())
        .expect("standard output is writable");
}

struct Shape {
    strips: usize,
    columns: usize,
    rounds: usize,
    flapping: bool,
    /// Samples go through `append_samples`, shuffled.
    out_of_order: bool,
    /// Every sixty lines have a time of their own, up to ten seconds old; a quarter repeat that of the round before.
    timed: bool,
}

const SHAPES: [(&str, Shape); 7] = [
    (
        "fleet",
        Shape {
            strips: 850,
            columns: 588,
            rounds: 300,
            flapping: false,
            out_of_order: false,
            timed: false,
        },
    ),
    (
        "tiny",
        Shape {
            strips: 7_500,
            columns: 5,
            rounds: 300,
            flapping: false,
            out_of_order: false,
            timed: false,
        },
    ),
    (
        "wide",
        Shape {
            strips: 1,
            columns: 500_000,
            rounds: 60,
            flapping: false,
            out_of_order: false,
            timed: false,
        },
    ),
    (
        "flapping",
        Shape {
            strips: 200,
            columns: 588,
            rounds: 300,
            flapping: true,
            out_of_order: false,
            timed: false,
        },
    ),
    (
        "out-of-order",
        Shape {
            strips: 100,
            columns: 588,
            rounds: 60,
            flapping: false,
            out_of_order: true,
            timed: false,
        },
    ),
    (
        "cadvisor",
        Shape {
            strips: 400,
            columns: 588,
            rounds: 120,
            flapping: false,
            out_of_order: false,
            timed: true,
        },
    ),
    (
        "medium",
        Shape {
            strips: 2_000,
            columns: 100,
            rounds: 300,
            flapping: false,
            out_of_order: false,
            timed: false,
        },
    ),
];

struct Origin {
    schema: Schema,
    frame: Frame,
    /// Of groups of lines: time of the round before, and whether it was new in it.
    times_ms: Vec<(i64, bool)>,
    shown: Vec<f64>,
    binding: Option<Box<dyn Binding>>,
    values: Vec<f64>,
    labels: Vec<LabelSet>,
}

#[expect(clippy::too_many_lines, reason = "a measurement is one piece")]
fn run(name: &str, shape: &Shape) -> String {
    let dir = TempDir::new("bench-append");
    let base =
        std::env::var_os("NARTHEX_BENCH_DIR").map_or_else(|| dir.path().to_owned(), PathBuf::from);
    let root = base.join(name);
    let _ = std::fs::remove_dir_all(&root);
    let clock = ManualClock::new(START_MS);
    let db = open(&root, &clock);
    let registry = narthex_client::Registry::new();
    db.register_metrics(&registry).expect("registered");
    let mut random = SplitMix64::new(42);
    let mut origins: Vec<Origin> = (0..shape.strips).map(|at| origin(at, shape)).collect();
    let before = resident_bytes();
    let mut took = Took::default();
    for round in 0..shape.rounds {
        let time_ms = START_MS + round as i64 * STEP_MS;
        clock.set(time_ms);
        for origin in &mut origins {
            next_values(origin, &mut random);
        }
        if shape.out_of_order {
            append_out_of_order(&db, &origins, time_ms, &mut random, &mut took);
        } else {
            let started = cpu();
            for (at, origin) in origins.iter_mut().enumerate() {
                append(
                    &db,
                    origin,
                    time_ms + (at % 50) as i64 * 97,
                    shape,
                    &mut random,
                    &mut took,
                );
            }
            took.append += cpu() - started;
        }
        let started = cpu();
        for second in 0..STEP_MS / 1000 {
            db.maintain(time_ms + second * 1000).expect("maintained");
        }
        took.maintain += cpu() - started;
    }
    let rss = resident_bytes().saturating_sub(before);
    let series = shape.strips * shape.columns;
    let samples = took.samples.max(1) as f64;
    let queries = query(&db);
    let (log, blocks) = (
        size_of_dir(&root.join("wal")),
        size_of_dir(&root.join("blocks")),
    );
    took.frames.sort_unstable();
    let p99 = took
        .frames
        .get(took.frames.len() * 99 / 100)
        .copied()
        .unwrap_or_default();
    origins.iter_mut().for_each(|origin| origin.binding = None);
    let log_written = metric(&registry, "narthex_tsdb_wal_written_bytes_total");
    db.close().expect("closed");
    drop(db);
    let started = Instant::now();
    let db = open(&root, &clock);
    let replay = started.elapsed();
    assert_eq!(db.damage(), []);
    db.flush().expect("flushed");
    let flushed = size_of_dir(&root.join("blocks"));
    // A day later every window is over: all its blocks are merged, including earlier merges.
    let mut merge = Duration::from_secs_f64(metric(&registry, "narthex_tsdb_merge_seconds_total"));
    let started = cpu();
    let end_ms = START_MS + 24 * 3_600_000;
    let mut blocks_left = usize::MAX;
    for second in 0..100_000 {
        db.maintain(end_ms + second * 1000).expect("maintained");
        let left = std::fs::read_dir(root.join("blocks")).map_or(0, Iterator::count);
        if second % 50 == 49 {
            if left == blocks_left {
                break;
            }
            blocks_left = left;
        }
    }
    merge += cpu() - started;
    let merged = size_of_dir(&root.join("blocks"));
    drop(db);
    let _ = std::fs::remove_dir_all(&root);
    format!(
        "| {name} | {series} | {} | {:.1} | {:.0} | {:.1} | {:.0} | {:.2} | {:.2} | {:.2} | {:.3} | {:.3} | {:.1} | {:.2} | {:.0} | {:.0} | {:.1} |\n",
        shape.rounds,
        took.append.as_nanos() as f64 / samples,
        p99.as_nanos() as f64 / 1000.0,
        took.maintain.as_nanos() as f64 / samples,
        rss as f64 / series as f64,
        log_written / samples,
        log as f64 / samples,
        blocks as f64 / samples,
        flushed as f64 / samples,
        merged as f64 / samples,
        merge.as_nanos() as f64 / samples,
        replay.as_secs_f64(),
        queries.select,
        queries.last,
        queries.scan,
    )
}

#[derive(Default)]
struct Took {
    append: Duration,
    maintain: Duration,
    frames: Vec<Duration>,
    samples: u64,
}

/// Reads one of the database's metrics.
fn metric(registry: &narthex_client::Registry, name: &str) -> f64 {
    let mut text = Vec::new();
    registry.encode_text(&mut text);
    let text = String::from_utf8_lossy(&text);
    let line = text
        .lines()
        .find(|line| line.split(' ').next() == Some(name));
    line.and_then(|line| line.split(' ').nth(1)?.parse().ok())
        .unwrap_or_default()
}

fn open(root: &Path, clock: &ManualClock) -> Db {
    Db::open(
        Arc::new(RealIo),
        DbOptions::new(root),
        Arc::new(clock.clone()),
    )
    .expect("a database")
}

fn origin(at: usize, shape: &Shape) -> Origin {
    let instance = format!("host-{at}:9100");
    let common = LabelSet::new([
        ("job", "fleet"),
        ("instance", instance.as_str()),
        ("zone", "eu-1"),
        ("team", "a"),
    ]);
    let mut edit = Schema::new(common).edit();
    for column in 0..shape.columns {
        let name = format!("metric_{}_total", column % 97);
        let family = edit.family(Family {
            name: name.as_str().into(),
            ..Family::default()
        });
        let (code, pod) = (format!("{}", column / 97), format!("pod-{}", column / 30));
        let set = LabelSet::new([
            (METRIC_NAME, name.as_str()),
            ("code", &code),
            ("pod", &pod),
            ("path", "/api/v1"),
        ]);
        edit.push(&set, family);
    }
    let schema = edit.finish();
    let labels = if shape.out_of_order {
        schema.columns().map(|(id, _)| schema.labels(id)).collect()
    } else {
        Vec::new()
    };
    Origin {
        frame: Frame::new(schema.clone(), 0),
        times_ms: vec![(0, false); shape.columns.div_ceil(TIMED)],
        shown: vec![0.0; shape.columns],
        values: vec![0.0; shape.columns],
        schema,
        binding: None,
        labels,
    }
}

/// Half counters, a quarter bucket counters, a quarter gauges with three decimals.
fn next_values(origin: &mut Origin, random: &mut SplitMix64) {
    let mut bucket = 0.0;
    for (column, value) in origin.values.iter_mut().enumerate() {
        match column % 4 {
            0 | 1 => *value += random.below(16) as f64,
            2 => {
                bucket += random.below(4) as f64;
                *value += bucket;
                bucket = if column % 40 == 38 { 0.0 } else { bucket };
            }
            _ => *value = random.below(100_000) as f64 / 1000.0,
        }
    }
}

fn append(
    db: &Db,
    origin: &mut Origin,
    time_ms: i64,
    shape: &Shape,
    random: &mut SplitMix64,
    took: &mut Took,
) {
    origin.frame.restart(&origin.schema, time_ms);
    let (cells, present) = origin.frame.cells_mut();
    cells.copy_from_slice(&origin.values);
    present.fill();
    if shape.flapping {
        for _ in 0..shape.columns / 10 {
            let column = random.index(shape.columns);
            origin.frame.mark_stale(ColumnId(column as u32));
        }
    }
    if shape.timed {
        set_times(origin, time_ms, random);
    }
    let started = Instant::now();
    let binding = origin
        .binding
        .get_or_insert_with(|| db.bind(&origin.schema).expect("a binding"));
    let outcome = binding.append(&origin.frame).expect("appended");
    took.frames.push(started.elapsed());
    took.samples += outcome.accepted;
}

/// Gives groups of samples new times, or the time and the values that they had.
fn set_times(origin: &mut Origin, time_ms: i64, random: &mut SplitMix64) {
    for (group_ms, is_new) in &mut origin.times_ms {
        *is_new = !*is_new || !random.one_in(4);
        let age_ms = random.below(10_000) as i64;
        if *is_new {
            *group_ms = (time_ms - age_ms).max(*group_ms + 1);
        }
    }
    let groups = origin.times_ms.len();
    for column in 0..origin.values.len() {
        let (group_ms, is_new) = origin.times_ms[column % groups];
        if is_new {
            origin.shown[column] = origin.values[column];
        }
        let id = ColumnId(column as u32);
        origin.frame.set(id, origin.shown[column]);
        origin.frame.set_time(id, group_ms);
    }
}

/// Returns this thread's CPU time: other work on the machine does not count.
fn cpu() -> Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(spent.tv_sec.unsigned_abs(), spent.tv_nsec as u32)
}

fn append_out_of_order(
    db: &Db,
    origins: &[Origin],
    time_ms: i64,
    random: &mut SplitMix64,
    took: &mut Took,
) {
    let mut samples: Vec<SeriesSample> = Vec::new();
    for origin in origins {
        for (labels, value) in origin.labels.iter().zip(&origin.values) {
            let jitter = random.below(4000) as i64;
            samples.push(SeriesSample::float(
                labels.clone(),
                time_ms + jitter,
                *value,
            ));
        }
    }
    random.shuffle(&mut samples);
    for chunk in samples.chunks(2000) {
        let (started, before) = (Instant::now(), cpu());
        let outcome = db.append_samples(chunk).expect("appended");
        took.append += cpu() - before;
        took.frames.push(started.elapsed());
        took.samples += outcome.accepted;
    }
}

/// CPU nanoseconds of reading.
struct Queries {
    /// Selecting every series, per series.
    select: f64,
    /// The newest cell of every series within the last minutes, per series.
    last: f64,
    /// All samples of about one series in a hundred, per sample.
    scan: f64,
}

fn query(db: &Db) -> Queries {
    let ctx = Context::unlimited();
    let newest_ms = db.time_range().expect("samples").max_ms;
    let started = cpu();
    let all = batches(db, Vec::new(), TimeRange::ALL);
    let select = (cpu() - started).as_nanos() as f64;
    let series: usize = all.iter().map(|batch| batch.len()).sum();
    drop(all);
    let recent = TimeRange::new(newest_ms - 300_000, newest_ms);
    let started = cpu();
    let mut found = Vec::new();
    for batch in batches(db, Vec::new(), recent) {
        found.clear();
        let all: Vec<u32> = (0..batch.len() as u32).collect();
        batch
            .last(&all, recent, &mut found, &ctx)
            .expect("last cells");
    }
    let last = (cpu() - started).as_nanos() as f64;
    let started = cpu();
    let mut tile = Tile::default();
    let mut cells = 0;
    for batch in batches(
        db,
        vec![Matcher::equal(METRIC_NAME, "metric_3_total")],
        TimeRange::ALL,
    ) {
        let all: Vec<u32> = (0..batch.len() as u32).collect();
        batch
            .read(&all, TimeRange::ALL, Layout::TimeMajor, &mut tile, &ctx)
            .expect("read");
        cells += tile.cells.len();
    }
    let scan = (cpu() - started).as_nanos() as f64;
    Queries {
        select: select / series as f64,
        last: last / series as f64,
        scan: scan / cells.max(1) as f64,
    }
}

fn batches(db: &Db, matchers: Vec<Matcher>, range: TimeRange) -> Vec<Arc<dyn Batch>> {
    let ctx = Context::unlimited();
    let view = db.view(range).expect("a view");
    let prepared = view
        .prepare(&[Selector::new(matchers, range)], &ctx)
        .expect("prepared");
    prepared.batches(0, &ctx).expect("batches")
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm
        .split_whitespace()
        .nth(1)
        .and_then(|field| field.parse().ok())
        .unwrap_or_default();
    pages * 4096
}

fn size_of_dir(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .map(|metadata| metadata.len())
        .sum()
}
