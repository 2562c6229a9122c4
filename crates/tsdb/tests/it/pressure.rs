//! The database while the memory of its process is short: it refuses new series, writes early, forgets unused
//! families, and replays a WAL larger than memory permits.

use crate::support::{NOW_MS, ROOT, open, options};
use narthex_model::{
    ColumnId, Exemplar, Frame, LabelSet, METRIC_NAME, Matcher, Schema,
    conformance::{self, Dump},
    metadata::Family,
    storage::{
        Binding, Budget, Context, Outcome, PressureLevels, Selector, SeriesQuery, SeriesSample,
        Sink, Store, TimeRange,
    },
};
use narthex_testkit::rng::SplitMix64;
use narthex_tsdb::{Db, DbOptions, Fault, FaultyIo, Gate, Op};

/// Memory partly used by others.
struct Memory {
    process: Budget,
    others: narthex_model::storage::Account,
}

impl Memory {
    fn new(limit_bytes: u64) -> Self {
        let process = Budget::new("process", limit_bytes);
        let others = process.account();
        Self { process, others }
    }

    fn fill(&self, percent: u8) {
        self.others.set(self.process.percent(percent));
        self.process.observe(&PressureLevels::default(), 0);
    }

    fn options(&self) -> DbOptions {
        DbOptions {
            memory: self.process.clone(),
            ..options()
        }
    }
}

/// A schema whose columns are `m{at="0"}` and so on, each of a family of its own.
fn schema(instance: &str, columns: usize) -> Schema {
    grown(
        &Schema::new(LabelSet::new([("job", "j"), ("instance", instance)])),
        columns,
    )
}

fn grown(schema: &Schema, columns: usize) -> Schema {
    let mut edit = schema.edit();
    for at in schema.len()..columns {
        let name = format!("m{at}");
        let family = edit.family(Family {
            name: name.as_str().into(),
            ..Family::default()
        });
        edit.push(&LabelSet::new([(METRIC_NAME, name.as_str())]), family);
    }
    edit.finish()
}

/// Appends a round of ones, with an exemplar for the last column.
fn round(binding: &mut dyn Binding, schema: &Schema, time_ms: i64) -> Outcome {
    let mut frame = Frame::new(schema.clone(), time_ms);
    for at in 0..schema.len() {
        frame.set(ColumnId(at as u32), 1.0);
    }
    let exemplar = Exemplar {
        labels: LabelSet::new([("trace", "x")]),
        value: 1.0,
        time_ms: None,
    };
    frame.push_exemplar(ColumnId(schema.len() as u32 - 1), exemplar);
    binding.append(&frame).expect("appended")
}

fn dump(db: &Db) -> Dump {
    conformance::dump(db, &[], TimeRange::ALL)
}

fn series(db: &Db) -> usize {
    dump(db).len()
}

#[test]
fn new_series_are_refused_while_memory_is_short_and_come_in_afterwards() {
    let memory = Memory::new(1 << 30);
    let disk = FaultyIo::new();
    let db = open(&disk, &memory.options());
    let known = schema("a", 20);
    let mut a = db.bind(&known).unwrap();
    assert_eq!(round(&mut *a, &known, NOW_MS).accepted, 20);
    memory.fill(80);
    let (wider, new) = (grown(&known, 30), schema("b", 40));
    a.rebind(&wider).unwrap();
    let mut b = db.bind(&new).unwrap();
    for step in 1..3 {
        let outcome = round(&mut *a, &wider, NOW_MS + step);
        assert_eq!((outcome.accepted, outcome.over_limit), (20, 10));
        // The first series of an origin report its state.
        let outcome = round(&mut *b, &new, NOW_MS + step);
        assert_eq!((outcome.accepted, outcome.over_limit), (16, 24));
    }
    let sample = |name: &str| {
        let labels = [(METRIC_NAME, name), ("job", "j"), ("instance", "a")];
        SeriesSample::float(LabelSet::new(labels), NOW_MS - 1, 1.0)
    };
    let outcome = db.append_samples(&[sample("m3"), sample("x")]).unwrap();
    assert_eq!((outcome.accepted, outcome.over_limit), (1, 1));
    let refused: Vec<(String, u64)> = db.take_refused_series().into_iter().collect();
    assert_eq!(refused, [("j".to_owned(), 35)]);
    assert_eq!(series(&db), 36);
    memory.fill(0);
    assert_eq!(round(&mut *a, &wider, NOW_MS + 3).accepted, 30);
    assert_eq!(round(&mut *b, &new, NOW_MS + 3).accepted, 40);
    assert_eq!(db.append_samples(&[sample("x")]).unwrap().accepted, 1);
    assert_eq!((series(&db), db.take_refused_series().len()), (71, 0));
    let before = dump(&db);
    drop((a, b, db));
    disk.kill();
    let db = open(&disk, &memory.options());
    assert_eq!((db.damage(), dump(&db)), (Vec::new(), before));
}

fn blocks(disk: &FaultyIo) -> usize {
    let dir = std::path::Path::new(ROOT).join("blocks");
    let paths = disk.paths();
    paths.iter().filter(|path| path.starts_with(&dir)).count()
}

#[test]
fn the_head_is_written_early_when_memory_is_short() {
    let memory = Memory::new(8 << 20);
    let disk = FaultyIo::new();
    let options = DbOptions {
        flush_rows: 10_000,
        ..memory.options()
    };
    let db = open(&disk, &options);
    let schema = schema("a", 500);
    let mut binding = db.bind(&schema).unwrap();
    let mut now_ms = NOW_MS;
    let mut write = |rounds: i64| {
        for _ in 0..rounds {
            now_ms += 1000;
            noise(&mut *binding, &schema, now_ms);
        }
        now_ms
    };
    let now_ms = write(100);
    (0..15).for_each(|at| db.maintain(now_ms + at * 1000).unwrap());
    assert_eq!(blocks(&disk), 0, "nothing is due by age or rows");
    memory.fill(65);
    (15..30).for_each(|at| db.maintain(now_ms + at * 1000).unwrap());
    assert_eq!(blocks(&disk), 1);
    // A head with a large share of the memory is flushed, whoever has the rest.
    memory.fill(0);
    let now_ms = write(1000);
    (30..60).for_each(|at| db.maintain(now_ms + at * 1000).unwrap());
    assert!(blocks(&disk) > 1);
}

/// A fleet that timestamps every line held an hour of out-of-order samples, however little memory there was.
#[test]
fn out_of_order_samples_are_written_before_they_take_much_of_the_memory() {
    let memory = Memory::new(64 << 20);
    let disk = FaultyIo::new();
    let options = memory.options();
    let db = open(&disk, &options);
    let series: Vec<LabelSet> = (0..100)
        .map(|at| LabelSet::new([(METRIC_NAME, "loose"), ("at", format!("{at}").as_str())]))
        .collect();
    let mut round = 0;
    let mut write = |rounds: i64| {
        for _ in 0..rounds {
            round += 1;
            let of_series = |(at, labels): (usize, &LabelSet)| {
                let time_ms = NOW_MS - 60_000 + round * 100 + at as i64;
                SeriesSample::float(labels.clone(), time_ms, 1.0)
            };
            let samples: Vec<_> = series.iter().enumerate().map(of_series).collect();
            let outcome = db.append_samples(&samples).expect("appended");
            assert_eq!(outcome.accepted, 100);
        }
    };
    let maintain = |from: i64| {
        (from..from + 30).for_each(|at| db.maintain(NOW_MS + at * 1000).expect("maintained"));
    };
    // A sixteenth of the memory is room for 2^18 samples.
    write(2000);
    maintain(0);
    assert_eq!(blocks(&disk), 0, "nothing is due by age or number");
    let before = db_head_bytes(&memory);
    write(800);
    maintain(30);
    assert!(blocks(&disk) > 0);
    let after = db_head_bytes(&memory);
    assert!(after < before / 4, "{before} bytes, then {after}");
    let stored: usize = dump(&db).values().map(Vec::len).sum();
    assert_eq!(stored, 280_000);
}

/// Returns the head's bytes by the ledger.
fn db_head_bytes(memory: &Memory) -> u64 {
    let shares = memory.process.shares();
    let head = shares.iter().find(|share| &*share.name == "head");
    head.expect("the head's share").used_bytes
}

/// Appends a round of values that take eight bytes each.
fn noise(binding: &mut dyn Binding, schema: &Schema, time_ms: i64) {
    let mut rng = SplitMix64::new(time_ms.unsigned_abs());
    let mut frame = Frame::new(schema.clone(), time_ms);
    for at in 0..schema.len() {
        let value = f64::from_bits(rng.next_u64() >> 2);
        frame.set(ColumnId(at as u32), value);
    }
    binding.append(&frame).expect("appended");
}

/// Slow readers each held a list of all columns that no account counted.
#[test]
fn columns_that_a_selector_chooses_are_leased() {
    const SERIES: usize = 3000;
    let db = open(&FaultyIo::new(), &options());
    let schema = schema("a", SERIES);
    round(&mut *db.bind(&schema).unwrap(), &schema, NOW_MS);
    let view = db.view(TimeRange::ALL).unwrap();
    let all = vec![Matcher::equal("job", "j")];
    let query = SeriesQuery {
        any_of: vec![all.clone()],
        ..SeriesQuery::all(TimeRange::ALL)
    };
    let least = SERIES * size_of::<u32>();
    for (bytes, is_enough) in [(least, false), (least * 100, true)] {
        let ctx = Context {
            budget: Budget::new("query", bytes as u64),
            ..Context::unlimited()
        };
        // Three names are all there is to answer.
        let names = view.label_names(&query, &ctx).map(drop);
        assert_eq!(names.is_ok(), is_enough, "{names:?}");
        let selectors = [Selector::new(all.clone(), TimeRange::ALL)];
        let prepared = view.prepare(&selectors, &ctx);
        assert_eq!(prepared.is_ok(), is_enough);
        assert_eq!(ctx.budget.used_bytes() > least as u64, is_enough);
        drop(prepared);
        assert_eq!(ctx.budget.used_bytes(), 0);
    }
}

#[test]
fn metadata_ends_with_its_series() {
    let disk = FaultyIo::new();
    let db = open(&disk, &options());
    let families = |db: &Db| {
        let view = db.view(TimeRange::ALL).unwrap();
        let context = Context::unlimited();
        view.metadata(None, &context).unwrap().len()
    };
    let (stays, goes) = (schema("a", 3), schema("b", 50));
    let mut kept = db.bind(&stays).unwrap();
    let mut gone = db.bind(&goes).unwrap();
    round(&mut *kept, &stays, NOW_MS);
    round(&mut *gone, &goes, NOW_MS);
    assert_eq!(families(&db), 50);
    drop(gone);
    for minute in 0..40 {
        let now_ms = NOW_MS + minute * 60_000;
        round(&mut *kept, &stays, now_ms + 1);
        (0..60).for_each(|at| db.maintain(now_ms + at * 1000).unwrap());
    }
    assert_eq!(families(&db), 3);
}

/// A process that was killed for its size must not be killed again after the restart by the same WAL.
#[test]
fn a_log_that_holds_more_than_memory_may_is_replayed_into_blocks() {
    const COLUMNS: usize = 50;
    let disk = FaultyIo::new();
    let written = {
        let db = open(&disk, &options());
        let schema = schema("a", COLUMNS);
        let mut binding = db.bind(&schema).unwrap();
        for round in 0..2000 {
            noise(&mut *binding, &schema, NOW_MS + round * 1000);
        }
        let out_of_order: Vec<SeriesSample> = (0..1000)
            .map(|at| {
                let labels = LabelSet::new([(METRIC_NAME, "loose")]);
                SeriesSample::float(labels, NOW_MS - 60_000 + at, 1.0)
            })
            .collect();
        db.append_samples(&out_of_order).unwrap();
        disk.kill();
        dump(&db)
    };
    assert_eq!(blocks(&disk), 0);
    // The rows alone are 800,000 bytes.
    let memory = Memory::new(800_000);
    for attempt in 0..3 {
        let db = open(&disk, &memory.options());
        assert!(blocks(&disk) > 0);
        assert_eq!(db.damage(), []);
        let peak = memory.process.peak_bytes();
        // The buffer of a block's writer is a third of it.
        assert!(peak < 760_000, "{peak} bytes at attempt {attempt}");
        assert!(dump(&db) == written, "not the same after attempt {attempt}");
        disk.kill();
    }
}

/// A damaged manifest counted as one without blocks: the one such a replay wrote listed none of the earlier ones, and
/// the next start took them for strays.
#[test]
fn a_replay_into_blocks_lists_those_that_a_damaged_manifest_had() {
    const COLUMNS: usize = 50;
    let disk = FaultyIo::new();
    let written = {
        let db = open(&disk, &options());
        let schema = schema("a", COLUMNS);
        let mut binding = db.bind(&schema).unwrap();
        for round in 0..100 {
            noise(&mut *binding, &schema, NOW_MS + round * 1000);
        }
        db.flush().unwrap();
        for round in 100..2000 {
            noise(&mut *binding, &schema, NOW_MS + round * 1000);
        }
        let written = dump(&db);
        disk.kill();
        written
    };
    let before = blocks(&disk);
    assert!(before > 0);
    let manifest = std::path::Path::new(ROOT).join("MANIFEST");
    disk.put_file(&manifest, b"no manifest".to_vec());
    let memory = Memory::new(800_000);
    let db = open(&disk, &memory.options());
    assert!(
        blocks(&disk) > before,
        "nothing was written while replaying"
    );
    assert_eq!(db.damage().len(), 1, "{:?}", db.damage());
    assert!(dump(&db) == written);
    drop(db);
    disk.kill();
    let db = open(&disk, &memory.options());
    assert_eq!(
        (db.damage(), db.notices().len()),
        (Vec::new(), 0),
        "{:?}",
        db.notices()
    );
    assert!(dump(&db) == written);
}

/// Returns the bytes of an account.
fn used(memory: &Memory, name: &str) -> u64 {
    let shares = memory.process.shares();
    let share = shares.iter().find(|share| &*share.name == name);
    share.map_or(0, |share| share.used_bytes)
}

/// Memory of blocks being written was in no account: a hanging disk makes it last.
#[test]
fn blocks_count_while_they_are_flushed_and_merged() {
    const COLUMNS: usize = 2000;
    const FLUSHES: i64 = 6;
    let memory = Memory::new(1 << 30);
    let disk = FaultyIo::new();
    let db = open(&disk, &memory.options());
    let schema = schema("a", COLUMNS);
    let mut binding = db.bind(&schema).unwrap();
    let hung = |share: &str, work: &(dyn Fn() + Sync)| {
        let gate = Gate::new();
        disk.inject(Fault::on(Op::Append).in_path("blocks").hang(&gate));
        std::thread::scope(|scope| {
            let working = scope.spawn(work);
            assert!(gate.wait_for_one(), "{share} writes no block");
            let bytes = used(&memory, share);
            disk.clear_faults();
            gate.open();
            working.join().unwrap();
            bytes
        })
    };
    for flush in 0..FLUSHES {
        let from_ms = NOW_MS - (FLUSHES - flush) * 1000;
        round(&mut *binding, &schema, from_ms);
        let bytes = hung("flush", &|| db.flush().unwrap());
        // Labels and sets by number, at least.
        assert!(bytes > COLUMNS as u64 * 20, "{bytes}");
        assert_eq!(used(&memory, "flush"), 0);
    }
    let before = blocks(&disk);
    let merge = || {
        for minute in 0..300 {
            db.maintain(NOW_MS + minute * 60_000).unwrap();
        }
    };
    let bytes = hung("merge", &merge);
    assert!(bytes > COLUMNS as u64 * 20, "{bytes}");
    assert_eq!(used(&memory, "merge"), 0);
    assert!(blocks(&disk) < before, "{before} blocks before");
}

/// The cache had 64 MiB whatever there was, and counted them every ten seconds.
#[test]
fn the_cache_takes_an_eighth_of_the_memory_and_counts_at_once() {
    const LIMIT_BYTES: u64 = 1 << 20;
    let disk = FaultyIo::new();
    let db = open(&disk, &options());
    let schema = schema("a", 300);
    let mut binding = db.bind(&schema).unwrap();
    for round in 0..400 {
        noise(&mut *binding, &schema, NOW_MS - 400_000 + round * 1000);
    }
    db.flush().unwrap();
    drop((binding, db));
    disk.kill();
    let memory = Memory::new(LIMIT_BYTES);
    let db = open(&disk, &memory.options());
    assert_eq!(used(&memory, "block cache"), 0);
    dump(&db);
    let bytes = used(&memory, "block cache");
    assert!(
        (LIMIT_BYTES / 32..=LIMIT_BYTES / 8).contains(&bytes),
        "{bytes}"
    );
    drop(db);
    assert_eq!(used(&memory, "block cache"), 0);
}

/// Merging can wait: it takes nothing that somebody else needs.
#[test]
fn nothing_is_merged_that_there_is_no_memory_for() {
    let memory = Memory::new(1 << 30);
    let disk = FaultyIo::new();
    let db = open(&disk, &memory.options());
    let schema = schema("a", 100);
    let mut binding = db.bind(&schema).unwrap();
    for flush in 0..6 {
        round(&mut *binding, &schema, NOW_MS - 6000 + flush * 1000);
        db.flush().unwrap();
    }
    let before = blocks(&disk);
    let pass = |from: i64| {
        for minute in from..from + 300 {
            db.maintain(NOW_MS + minute * 60_000).unwrap();
        }
    };
    // As the process is before anybody has looked.
    memory.others.set(memory.process.percent(75));
    pass(0);
    assert_eq!(blocks(&disk), before);
    memory.others.set(0);
    pass(300);
    assert!(blocks(&disk) < before);
}
