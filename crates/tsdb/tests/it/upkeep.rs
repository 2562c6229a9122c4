//! Work of `maintain` over time: flushing, releasing memory, truncating the WAL, retention, churn.

use crate::support::{NOW_MS, ROOT, open, options};
use narthex_client::Registry;
use narthex_model::{
    ColumnId, Frame, LabelSet, METRIC_NAME, Matcher, Schema,
    conformance::{BASE_MS, dump},
    metadata::Family,
    storage::{Binding, SeriesSample, Sink, Store, TimeRange},
};
use narthex_testkit::rng::SplitMix64;
use narthex_tsdb::{Clock, Db, DbOptions, FaultyIo, Io as _, ManualClock, Tuning};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

const STEP_MS: i64 = 15_000;
const MINUTE_MS: i64 = 60_000;

struct Fixture {
    disk: FaultyIo,
    clock: ManualClock,
    db: Db,
    now_ms: i64,
}

impl Fixture {
    fn new(options: DbOptions) -> Self {
        let disk = FaultyIo::new();
        let clock = ManualClock::new(BASE_MS);
        let db =
            Db::open(Arc::new(disk.clone()), options, Arc::new(clock.clone())).expect("a database");
        Self {
            disk,
            clock,
            db,
            now_ms: BASE_MS,
        }
    }

    /// Lets time pass with a call of `maintain` every second.
    fn pass(&mut self, ms: i64) {
        for _ in 0..ms / 1000 {
            self.now_ms += 1000;
            self.clock.set(self.now_ms);
            self.db.maintain(self.now_ms).expect("maintained");
        }
    }

    fn files(&self, dir: &str) -> Vec<PathBuf> {
        let dir = PathBuf::from(ROOT).join(dir);
        self.disk
            .paths()
            .into_iter()
            .filter(|path| path.starts_with(&dir))
            .collect()
    }

    fn metric(&self, registry: &Registry, name: &str) -> f64 {
        let mut text = Vec::new();
        registry.encode_text(&mut text);
        let text = String::from_utf8(text).expect("text");
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("{name} ")))
            .unwrap_or_default();
        line.split(' ')
            .nth(1)
            .and_then(|value| value.parse().ok())
            .unwrap_or(f64::NAN)
    }
}

fn schema(instance: &str, columns: usize) -> Schema {
    let mut edit = Schema::new(LabelSet::new([("job", "upkeep"), ("instance", instance)])).edit();
    let family = edit.family(Family {
        name: "m".into(),
        ..Family::default()
    });
    for at in 0..columns {
        edit.push(
            &LabelSet::new([(METRIC_NAME, "m"), ("at", at.to_string().as_str())]),
            family,
        );
    }
    edit.finish()
}

fn append(binding: &mut Box<dyn Binding>, schema: &Schema, time_ms: i64) {
    let mut frame = Frame::new(schema.clone(), time_ms);
    for at in 0..schema.len() as u32 {
        frame.set(
            ColumnId(at),
            f64::from(at) + (time_ms - BASE_MS) as f64 / 1000.0,
        );
    }
    binding.append(&frame).expect("appended");
}

fn count(db: &Db) -> usize {
    dump(db, &[], TimeRange::ALL).values().map(Vec::len).sum()
}

#[test]
fn strips_flush_by_rows_memory_comes_back_and_the_log_is_cut() {
    let options = DbOptions {
        flush_rows: 40,
        wal_file_bytes: 100_000,
        ..options()
    };
    let mut fixture = Fixture::new(options.clone());
    let registry = Registry::new();
    fixture.db.register_metrics(&registry).expect("registered");
    let schemas: Vec<Schema> = (0..5).map(|at| schema(&format!("i{at}"), 20)).collect();
    let mut bindings: Vec<_> = schemas
        .iter()
        .map(|schema| fixture.db.bind(schema).expect("a binding"))
        .collect();
    let mut most_bytes: f64 = 0.0;
    for _ in 0..400 {
        for (binding, schema) in bindings.iter_mut().zip(&schemas) {
            append(binding, schema, fixture.now_ms);
        }
        fixture.pass(STEP_MS);
        most_bytes = most_bytes.max(fixture.metric(&registry, "narthex_tsdb_head_bytes"));
    }
    assert_eq!(count(&fixture.db), 400 * 100);
    let blocks = fixture.files("blocks").len();
    assert!((2..=12).contains(&blocks), "{blocks} blocks in 100 minutes");
    assert!(
        fixture.files("wal").len() <= 3,
        "{:?}",
        fixture.files("wal")
    );
    assert!(
        most_bytes < 120_000.0,
        "{most_bytes} bytes held for {} a row",
        100 * 8
    );
    assert_eq!(
        fixture.metric(&registry, "prometheus_tsdb_head_series"),
        100.0
    );
    assert_eq!(
        fixture.metric(&registry, "prometheus_tsdb_head_samples_appended_total"),
        40_000.0
    );
    assert_eq!(
        fixture.metric(&registry, "prometheus_tsdb_blocks_loaded"),
        blocks as f64
    );
    drop(bindings);
    fixture.disk.kill();
    let db = Db::open(
        Arc::new(fixture.disk.clone()),
        options,
        Arc::new(fixture.clock.clone()),
    )
    .expect("a database");
    assert_eq!(db.damage(), []);
    assert_eq!(count(&db), 400 * 100);
}

#[test]
fn no_block_crosses_a_window() {
    let options = DbOptions {
        flush_rows: 500,
        block_window_ms: 10 * MINUTE_MS,
        ..options()
    };
    let mut fixture = Fixture::new(options);
    let schema = schema("i", 3);
    let mut binding = fixture.db.bind(&schema).expect("a binding");
    for round in 0..200 {
        append(&mut binding, &schema, fixture.now_ms);
        if round % 9 == 0 {
            let late = LabelSet::new([(METRIC_NAME, "late")]);
            let sample = SeriesSample::float(late, fixture.now_ms - 25 * MINUTE_MS, 1.0);
            fixture.db.append_samples(&[sample]).expect("appended");
        }
        fixture.pass(STEP_MS);
    }
    fixture.db.flush().expect("flushed");
    let cache = Arc::new(narthex_tsdb::BlockCache::new(1 << 20));
    let paths = fixture.files("blocks");
    assert!(paths.len() > 5, "{paths:?}");
    for path in paths {
        let block = narthex_tsdb::Block::open(&fixture.disk, &path, &cache).expect("a block");
        let window = |time_ms: i64| time_ms.div_euclid(10 * MINUTE_MS);
        let meta = block.meta();
        assert_eq!(
            window(meta.min_time_ms),
            window(meta.max_time_ms),
            "{meta:?}"
        );
    }
    assert_eq!(count(&fixture.db), 600 + 23);
}

#[test]
fn churn_costs_disk_not_memory() {
    let mut fixture = Fixture::new(DbOptions {
        flush_rows: 40,
        ..options()
    });
    let registry = Registry::new();
    fixture.db.register_metrics(&registry).expect("registered");
    for generation in 0..12 {
        let schema = schema(&format!("pod-{generation}"), 50);
        let mut binding = fixture.db.bind(&schema).expect("a binding");
        for _ in 0..12 {
            append(&mut binding, &schema, fixture.now_ms);
            fixture.pass(STEP_MS);
        }
    }
    fixture.pass(20 * MINUTE_MS);
    assert_eq!(
        fixture.metric(&registry, "prometheus_tsdb_head_series"),
        0.0,
        "all are gone from the head"
    );
    assert_eq!(
        fixture.metric(&registry, "prometheus_tsdb_head_series_removed_total"),
        600.0
    );
    assert_eq!(count(&fixture.db), 12 * 12 * 50, "and served from blocks");
    let one = [Matcher::equal("instance", "pod-3")];
    assert_eq!(dump(&fixture.db, &one, TimeRange::ALL).len(), 50);
    let schema = schema("pod-3", 50);
    let mut binding = fixture.db.bind(&schema).expect("a binding");
    append(&mut binding, &schema, fixture.now_ms);
    assert_eq!(
        count(&fixture.db),
        12 * 12 * 50 + 50,
        "one that comes back goes on"
    );
}

/// Every full file of the WAL ends the row chunks of all strips: a strip in blocks for each would be many to read.
#[test]
fn row_chunks_of_a_window_become_one_strip() {
    let options = DbOptions {
        flush_rows: 100_000,
        wal_file_bytes: 1_000,
        ..options()
    };
    // A strip of a block has at most 512 rows.
    for (rows, strips) in [(300, 1), (600, 2)] {
        let mut fixture = Fixture::new(options.clone());
        let schema = schema("steady", 20);
        let mut binding = fixture.db.bind(&schema).expect("a binding");
        let mut log_files = BTreeSet::new();
        for _ in 0..rows {
            append(&mut binding, &schema, fixture.now_ms);
            fixture.pass(1000);
            log_files.extend(fixture.files("wal"));
        }
        assert!(log_files.len() > 2, "{log_files:?}");
        assert_eq!(fixture.db.block_metas(), []);
        let before = dump(&fixture.db, &[], TimeRange::ALL);
        fixture.db.flush().expect("flushed");
        let metas = fixture.db.block_metas();
        let written: Vec<u64> = metas.iter().map(|meta| meta.strips).collect();
        assert_eq!(written, [strips], "of {rows} rows");
        let after = dump(&fixture.db, &[], TimeRange::ALL);
        assert!(after == before, "of {rows} rows");
    }
}

/// Strips are in blocks in the order in which they are read, so that those that share a page are read one after the other.
#[test]
fn a_metric_of_many_targets_is_read_from_few_pages() {
    let options = DbOptions {
        // Of what was read before nothing stays.
        cache_bytes: 100_000,
        ..options()
    };
    let mut fixture = Fixture::new(options);
    // They come in no order, and some differ in width.
    let schemas: Vec<Schema> = (0..300)
        .map(|at| {
            schema(
                &format!("pod-{}", at * 7919 % 300),
                40 + usize::from(at % 50 == 0),
            )
        })
        .collect();
    let mut bindings: Vec<_> = schemas
        .iter()
        .map(|schema| fixture.db.bind(schema).expect("a binding"))
        .collect();
    let mut random = SplitMix64::new(1);
    for part in 0..2 {
        for _ in 0..120 {
            for (binding, schema) in bindings.iter_mut().zip(&schemas) {
                let mut frame = Frame::new(schema.clone(), fixture.now_ms);
                for at in 0..schema.len() as u32 {
                    frame.set(ColumnId(at), random.below(200) as f64);
                }
                binding.append(&frame).expect("appended");
            }
            fixture.now_ms += STEP_MS;
            fixture.clock.set(fixture.now_ms);
        }
        fixture.db.flush().expect("flushed");
        let bytes: u64 = fixture.db.block_metas().iter().map(|meta| meta.bytes).sum();
        let one = [Matcher::equal("at", "20")];
        let before = fixture.disk.reads();
        assert_eq!(dump(&fixture.db, &one, TimeRange::ALL).len(), 300);
        let reads = fixture.disk.reads() - before;
        // A page for each target, or one of sixteen that hold a group's columns.
        assert!(reads < 60, "part {part}: {reads} reads of {bytes} bytes");
    }
}

/// Six in ten targets replaced at once: dead strips must not stay for the minutes that a quiet strip may.
#[test]
fn series_of_replaced_origins_leave_the_head_within_two_minutes() {
    let mut fixture = Fixture::new(options());
    let registry = Registry::new();
    fixture.db.register_metrics(&registry).expect("registered");
    let of = |generation: i64| -> Vec<Schema> {
        (0..20)
            .map(|at| schema(&format!("pod-{generation}-{at}"), 600))
            .collect()
    };
    let stays = schema("stays", 600);
    let mut staying = fixture.db.bind(&stays).expect("a binding");
    let series = |fixture: &Fixture| fixture.metric(&registry, "prometheus_tsdb_head_series");
    let mut most: f64 = 0.0;
    for generation in 0..5 {
        let schemas = of(generation);
        let mut bindings: Vec<_> = schemas
            .iter()
            .map(|schema| fixture.db.bind(schema).expect("a binding"))
            .collect();
        for _ in 0..8 {
            for (binding, schema) in bindings.iter_mut().zip(&schemas) {
                append(binding, schema, fixture.now_ms);
            }
            append(&mut staying, &stays, fixture.now_ms);
            fixture.pass(STEP_MS);
            most = most.max(series(&fixture));
        }
        assert!(
            series(&fixture) <= 600.0 + 12_000.0,
            "{} series {generation} replacements later",
            series(&fixture)
        );
    }
    assert!(most <= 600.0 + 24_000.0, "two generations at most: {most}");
    assert_eq!(count(&fixture.db), 5 * 8 * 20 * 600 + 5 * 8 * 600);
    let blocks = fixture.files("blocks").len();
    assert!(
        blocks <= 6,
        "{blocks} blocks: the origin that stays was not flushed with them"
    );
}

/// Flushing replaced origins repeatedly must not delay the others, or the WAL could never be truncated.
#[test]
fn origins_that_stay_are_flushed_while_others_are_replaced() {
    let mut fixture = Fixture::new(DbOptions {
        flush_rows: 40,
        wal_file_bytes: 100_000,
        ..options()
    });
    let registry = Registry::new();
    fixture.db.register_metrics(&registry).expect("registered");
    let stays = schema("stays", 50);
    let mut staying = fixture.db.bind(&stays).expect("a binding");
    for generation in 0..16 {
        let replaced = schema(&format!("pod-{generation}"), 12_000);
        let mut binding = fixture.db.bind(&replaced).expect("a binding");
        for _ in 0..8 {
            append(&mut binding, &replaced, fixture.now_ms);
            append(&mut staying, &stays, fixture.now_ms);
            fixture.pass(STEP_MS);
        }
    }
    let truncations = fixture.metric(&registry, "prometheus_tsdb_wal_truncations_total");
    assert!(truncations > 2.0, "the log was cut {truncations} times");
}

#[test]
fn a_view_keeps_what_is_flushed_and_dropped_under_it() {
    let mut fixture = Fixture::new(DbOptions {
        flush_rows: 20,
        ..options()
    });
    let schema = schema("i", 5);
    let mut binding = fixture.db.bind(&schema).expect("a binding");
    for _ in 0..30 {
        append(&mut binding, &schema, fixture.now_ms);
        fixture.now_ms += STEP_MS;
    }
    let view = fixture.db.view(TimeRange::ALL).expect("a view");
    drop(binding);
    fixture.db.flush().expect("flushed");
    fixture.pass(30 * MINUTE_MS);
    struct Snapshot(Arc<dyn narthex_model::storage::View>);
    impl Store for Snapshot {
        fn view(
            &self,
            _: TimeRange,
        ) -> Result<Arc<dyn narthex_model::storage::View>, narthex_model::storage::StorageError>
        {
            Ok(Arc::clone(&self.0))
        }
        fn time_range(&self) -> Option<TimeRange> {
            None
        }
    }
    let seen: usize = dump(&Snapshot(view), &[], TimeRange::ALL)
        .values()
        .map(Vec::len)
        .sum();
    assert_eq!(seen, 150);
    fixture.pass(MINUTE_MS);
    assert_eq!(count(&fixture.db), 150);
}

#[test]
fn retention_removes_what_is_too_old_and_refuses_it() {
    let options = DbOptions {
        flush_rows: 20,
        tuning: Tuning {
            retention_ms: Some(60 * MINUTE_MS),
            ..Tuning::default()
        },
        ..options()
    };
    let mut fixture = Fixture::new(options);
    let schema = schema("i", 5);
    let mut binding = fixture.db.bind(&schema).expect("a binding");
    for _ in 0..480 {
        append(&mut binding, &schema, fixture.now_ms);
        fixture.pass(STEP_MS);
    }
    let range = fixture.db.time_range().expect("samples");
    let kept_ms = fixture.now_ms - range.min_ms;
    assert!(
        (60 * MINUTE_MS..75 * MINUTE_MS).contains(&kept_ms),
        "{} minutes kept",
        kept_ms / MINUTE_MS
    );
    let old = SeriesSample::float(
        LabelSet::new([(METRIC_NAME, "old")]),
        fixture.now_ms - 61 * MINUTE_MS,
        1.0,
    );
    let outcome = fixture.db.append_samples(&[old]).expect("appended");
    assert_eq!((outcome.accepted, outcome.too_old), (0, 1));
    let mut frame = Frame::new(schema.clone(), fixture.now_ms - 61 * MINUTE_MS + 7);
    frame.set(ColumnId(0), 1.0);
    assert_eq!(binding.append(&frame).expect("appended").too_old, 1);
}

/// A block that cannot be read takes room on the disk, and is not kept for ever.
#[test]
fn retention_removes_what_cannot_be_read() {
    let options = DbOptions {
        tuning: Tuning {
            retention_ms: Some(60 * MINUTE_MS),
            ..Tuning::default()
        },
        ..options()
    };
    let mut fixture = Fixture::new(options.clone());
    let schema = schema("i", 5);
    let mut binding = fixture.db.bind(&schema).expect("a binding");
    append(&mut binding, &schema, fixture.now_ms);
    fixture.db.flush().expect("flushed");
    let block = fixture.files("blocks")[0].clone();
    drop(binding);
    fixture.disk.kill();
    let bytes = fixture.disk.bytes(&block).expect("a block");
    fixture
        .disk
        .put_file(&block, bytes[..bytes.len() / 2].to_vec());
    fixture.db = Db::open(
        Arc::new(fixture.disk.clone()),
        options,
        Arc::new(fixture.clock.clone()),
    )
    .expect("a database");
    assert_eq!(fixture.db.damage().len(), 1);
    // Its age counts from what is stored after it.
    let mut binding = fixture.db.bind(&schema).expect("a binding");
    let mut pass = |minutes: i64| {
        for _ in 0..minutes {
            append(&mut binding, &schema, fixture.now_ms);
            fixture.pass(MINUTE_MS);
        }
        fixture.files("blocks").contains(&block)
    };
    assert!(pass(30));
    assert!(!pass(40));
}

#[test]
fn retention_by_size_removes_the_oldest() {
    let options = DbOptions {
        flush_rows: 20,
        tuning: Tuning {
            retention_bytes: Some(12_000),
            ..Tuning::default()
        },
        wal_file_bytes: 20_000,
        ..options()
    };
    let mut fixture = Fixture::new(options);
    let schema = schema("i", 60);
    let mut binding = fixture.db.bind(&schema).expect("a binding");
    for _ in 0..400 {
        append(&mut binding, &schema, fixture.now_ms);
        fixture.pass(STEP_MS);
    }
    assert!(
        fixture.disk.used_bytes() < 25_000,
        "{} bytes on disk",
        fixture.disk.used_bytes()
    );
    let range = fixture.db.time_range().expect("samples");
    assert!(
        range.max_ms >= fixture.now_ms - 2 * STEP_MS,
        "the newest stay"
    );
    assert!(range.min_ms > BASE_MS, "the oldest are gone");
}

/// Bounds that a reload changes apply from then on to stored and new samples.
#[test]
fn bounds_change_while_the_database_is_open() {
    let options = DbOptions {
        flush_rows: 20,
        ..options()
    };
    let mut fixture = Fixture::new(options);
    let schema = schema("i", 5);
    let mut binding = fixture.db.bind(&schema).expect("a binding");
    for _ in 0..480 {
        append(&mut binding, &schema, fixture.now_ms);
        fixture.pass(STEP_MS);
    }
    let kept_ms = |fixture: &Fixture| {
        let range = fixture.db.time_range().expect("samples");
        fixture.now_ms - range.min_ms
    };
    assert!(kept_ms(&fixture) > 100 * MINUTE_MS);
    let late = |fixture: &Fixture, name: &str, age_ms: i64| {
        let labels = LabelSet::new([(METRIC_NAME, name)]);
        let sample = |age_ms| SeriesSample::float(labels.clone(), fixture.now_ms - age_ms, 1.0);
        let new = fixture.db.append_samples(&[sample(0)]).expect("appended");
        assert_eq!(new.accepted, 1);
        fixture
            .db
            .append_samples(&[sample(age_ms)])
            .expect("appended")
    };
    assert_eq!(late(&fixture, "any", 30 * MINUTE_MS).accepted, 1);
    fixture.db.tune(&Tuning {
        retention_ms: Some(60 * MINUTE_MS),
        out_of_order_window_ms: Some(MINUTE_MS),
        ..Tuning::default()
    });
    assert_eq!(late(&fixture, "within", MINUTE_MS / 2).accepted, 1);
    assert_eq!(late(&fixture, "beyond", 30 * MINUTE_MS).accepted, 0);
    assert_eq!(late(&fixture, "old", 61 * MINUTE_MS).too_old, 1);
    fixture.pass(STEP_MS);
    assert!(kept_ms(&fixture) < 75 * MINUTE_MS, "{}", kept_ms(&fixture));
}

#[test]
fn an_out_of_order_window_is_kept() {
    let with = |window_ms| {
        Fixture::new(DbOptions {
            tuning: Tuning {
                out_of_order_window_ms: Some(window_ms),
                ..Tuning::default()
            },
            ..options()
        })
    };
    let labels = LabelSet::new([(METRIC_NAME, "ordered")]);
    let at = |time_ms: i64| {
        [SeriesSample::float(
            labels.clone(),
            BASE_MS + time_ms,
            time_ms as f64,
        )]
    };
    let strict = with(0);
    assert_eq!(
        strict
            .db
            .append_samples(&at(10_000))
            .expect("appended")
            .accepted,
        1
    );
    assert_eq!(
        strict
            .db
            .append_samples(&at(9_000))
            .expect("appended")
            .out_of_order,
        1
    );
    assert_eq!(
        strict
            .db
            .append_samples(&at(10_000))
            .expect("appended")
            .accepted,
        1,
        "the same again"
    );
    let lax = with(5_000);
    assert_eq!(
        lax.db
            .append_samples(&at(10_000))
            .expect("appended")
            .accepted,
        1
    );
    assert_eq!(
        lax.db
            .append_samples(&at(5_000))
            .expect("appended")
            .accepted,
        1
    );
    assert_eq!(
        lax.db.append_samples(&at(4_999)).expect("appended").too_old,
        1
    );
}

#[test]
fn a_page_whose_lines_have_one_time_is_a_row() {
    let mut fixture = Fixture::new(options());
    let registry = Registry::new();
    fixture.db.register_metrics(&registry).expect("registered");
    let schema = schema("a", 20);
    let mut binding = fixture.db.bind(&schema).expect("a binding");
    let out_of_order = |fixture: &Fixture| {
        fixture.metric(
            &registry,
            "narthex_tsdb_head_out_of_order_samples_appended_total",
        )
    };
    for round in 0..10 {
        let time_ms = BASE_MS + round * STEP_MS;
        let mut frame = Frame::new(schema.clone(), time_ms);
        for column in 0..20 {
            frame.set(ColumnId(column), f64::from(column));
            // All but one say when they were taken, and say the same.
            if column > 0 {
                frame.set_time(ColumnId(column), time_ms - 5_000);
            }
        }
        binding.append(&frame).expect("appended");
        fixture.pass(STEP_MS);
    }
    assert_eq!(
        out_of_order(&fixture),
        0.0,
        "the line without a time is a row, too"
    );
    let all = dump(&fixture.db, &[], TimeRange::ALL);
    assert!(all.len() == 20 && all.values().all(|samples| samples.len() == 10));

    // Of lines that each have another time, the first makes a row.
    let mut frame = Frame::new(schema.clone(), fixture.now_ms);
    for column in 0..20 {
        frame.set(ColumnId(column), 1.0);
        frame.set_time(ColumnId(column), fixture.now_ms - i64::from(column) * 100);
    }
    binding.append(&frame).expect("appended");
    assert_eq!(out_of_order(&fixture), 18.0);
}

/// Every file of the log names all series again. Where that takes most of a file's size, each held little else: half a
/// million series with labels of their own wrote thirty megabytes of names for five of samples.
#[test]
fn the_log_does_not_name_series_over_and_over() {
    const COLUMNS: usize = 600;
    const ROUNDS: i64 = 900;
    let logged = |file_bytes: u64, flushes: bool| {
        let disk = FaultyIo::new();
        let options = DbOptions {
            wal_file_bytes: file_bytes,
            ..options()
        };
        let db = open(&disk, &options);
        let registry = Registry::new();
        db.register_metrics(&registry).expect("registered");
        let mut edit = Schema::new(LabelSet::empty()).edit();
        let family = edit.family(Family::default());
        for at in 0..COLUMNS {
            let pod = format!("a-pod-with-quite-a-long-name-{at}");
            edit.push(&LabelSet::new([(METRIC_NAME, "m"), ("pod", &*pod)]), family);
        }
        let schema = edit.finish();
        let mut binding = db.bind(&schema).expect("bound");
        for round in 0..ROUNDS {
            let time_ms = NOW_MS + round * 1000;
            let mut frame = Frame::new(schema.clone(), time_ms);
            let value = |column: u32| f64::from(column) * (round % 7) as f64;
            (0..COLUMNS as u32).for_each(|column| frame.set(ColumnId(column), value(column)));
            binding.append(&frame).expect("appended");
            if flushes && round % 20 == 0 {
                db.flush().expect("flushed");
            }
        }
        let mut page = Vec::new();
        registry.encode_text(&mut page);
        let page = String::from_utf8(page).expect("text");
        let line = page
            .lines()
            .find_map(|line| line.strip_prefix("narthex_tsdb_wal_written_bytes_total "));
        disk.kill();
        line.and_then(|value| value.parse::<f64>().ok())
            .expect("a metric")
    };
    let once = logged(128 << 20, false);
    for flushes in [false, true] {
        let again = logged(20_000, flushes);
        assert!(again < 1.7 * once, "{again} bytes, {once} in one file");
    }
}

/// Files that hold as many dead names as live ones must end, because memory has the names of the one being written.
#[test]
fn dead_series_do_not_make_files_of_the_log_longer() {
    const COLUMNS: usize = 100;
    const FILE_BYTES: u64 = 20_000;
    let disk = FaultyIo::new();
    let options = DbOptions {
        wal_file_bytes: FILE_BYTES,
        ..options()
    };
    let db = open(&disk, &options);
    let wal = Path::new(ROOT).join("wal");
    let mut most_bytes = 0;
    for life in 0..60 {
        let mut edit = Schema::new(LabelSet::new([("job", "churn")])).edit();
        let family = edit.family(Family::default());
        for at in 0..COLUMNS {
            let pod = format!("a-pod-with-quite-a-long-name-{life}-{at}");
            edit.push(&LabelSet::new([(METRIC_NAME, "m"), ("pod", &*pod)]), family);
        }
        let schema = edit.finish();
        let mut binding = db.bind(&schema).expect("bound");
        for round in 0..6 {
            let time_ms = NOW_MS + (life * 6 + round) * STEP_MS;
            let mut frame = Frame::new(schema.clone(), time_ms);
            (0..COLUMNS as u32).for_each(|column| frame.set(ColumnId(column), round as f64));
            binding.append(&frame).expect("appended");
            db.maintain(time_ms).expect("maintained");
        }
        for path in disk.paths().iter().filter(|path| path.starts_with(&wal)) {
            let file = disk.open(path).expect("a file");
            most_bytes = most_bytes.max(file.len_bytes().expect("its length"));
        }
    }
    disk.kill();
    // What is live takes a quarter, and what a round adds may be beyond.
    assert!(most_bytes < 2 * FILE_BYTES, "{most_bytes} bytes");
}

/// A clock that a millisecond passes on whenever it is looked at.
#[derive(Debug, Default)]
struct Ticking(ManualClock);

impl Clock for Ticking {
    fn now_ms(&self) -> i64 {
        self.0.now_ms()
    }

    fn monotonic_ms(&self) -> i64 {
        self.0.set(self.0.now_ms() + 1);
        self.0.monotonic_ms()
    }
}

/// Hours of old samples are flushed as soon as they come, and took half of a core from the queries after them.
#[test]
fn a_flush_leaves_the_time_to_queries_and_goes_on_beside_them() {
    let calls = |is_asked: bool| {
        let clock = Ticking(ManualClock::new(NOW_MS));
        let disk = FaultyIo::new();
        let db = Db::open(Arc::new(disk.clone()), options(), Arc::new(clock)).expect("opened");
        for target in 0..300 {
            let schema = schema(&format!("i{target}"), 3);
            let mut binding = db.bind(&schema).expect("bound");
            append(&mut binding, &schema, BASE_MS);
        }
        let asked = is_asked.then(|| db.view(TimeRange::ALL).expect("a view"));
        let late_ms = NOW_MS + 20 * MINUTE_MS;
        let is_flushed = |call: &i64| {
            db.maintain(late_ms + call * 1000).expect("maintained");
            let mut paths = disk.paths().into_iter();
            paths.any(|path| path.extension().is_some_and(|end| end == "block"))
        };
        let flushed = (1..1000).find(is_flushed);
        drop(asked);
        flushed.expect("flushed")
    };
    let (quiet, asked) = (calls(false), calls(true));
    assert!(asked > 2 * quiet, "{quiet} and {asked} calls");
}
