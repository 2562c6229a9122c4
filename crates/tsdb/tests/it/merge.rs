//! Blocks merged into one: the same answers from fewer and smaller files, whatever happens on the way.

use crate::{
    support::{NOW_MS, ROOT, Settle, TestDb, open, options},
    workload::{self, Acknowledged, Workload, missing, served},
};
use narthex_model::{
    ColumnId, Frame, Histogram, LabelSet, METRIC_NAME, MemStore, MetricType, Schema,
    conformance::{BASE_MS, check, dump},
    metadata::Family,
    storage::{Binding, Context, SeriesSample, Sink, Store, TimeRange},
};
use narthex_testkit::{rng::SplitMix64, scaled};
use narthex_tsdb::{Block, BlockCache, Db, DbOptions, FaultyIo, PowerLoss};
use std::{path::PathBuf, sync::Arc};

const HOUR_MS: i64 = 3_600_000;

fn merging() -> DbOptions {
    DbOptions {
        merge_blocks: 2,
        ..options()
    }
}

fn blocks(disk: &FaultyIo) -> Vec<PathBuf> {
    let paths = disk.paths().into_iter();
    paths
        .filter(|path| path.starts_with(format!("{ROOT}/blocks")))
        .collect()
}

/// Lets a day pass, after which every window is over.
fn pass_a_day(db: &Db) {
    for second in 0..30 {
        db.maintain(NOW_MS + 24 * HOUR_MS + second * 1000)
            .expect("maintained");
    }
}

#[test]
fn merged_stores_conform() {
    check(&mut || Box::new(TestDb::new(merging(), Settle::Merge)));
}

#[test]
fn merged_stores_conform_after_a_kill() {
    let options = || DbOptions {
        flush_rows: 7,
        block_window_ms: 20_000,
        ..merging()
    };
    check(&mut || Box::new(TestDb::new(options(), Settle::MergeAndKill)));
}

/// An origin whose columns come, go and come back, beside its image in the model.
struct Origin {
    schema: Schema,
    bound: Option<(Box<dyn Binding>, Box<dyn Binding>)>,
}

impl Origin {
    fn new(at: usize) -> Self {
        let instance = format!("i{at}");
        let common = LabelSet::new([("job", "merge"), ("instance", instance.as_str())]);
        let schema = grown(&Schema::new(common), 1 + at * 9);
        Self {
            schema,
            bound: None,
        }
    }

    fn round(&mut self, db: &Db, model: &MemStore, time_ms: i64, random: &mut SplitMix64) {
        if random.one_in(12) {
            self.schema = grown(&self.schema, 1 + random.index(2));
            if let Some((binding, of_model)) = &mut self.bound {
                binding.rebind(&self.schema).expect("rebound");
                of_model.rebind(&self.schema).expect("rebound");
            }
        }
        let mut frame = Frame::new(self.schema.clone(), time_ms);
        for at in (0..self.schema.len() as u32).map(ColumnId) {
            match random.below(24) {
                0..3 => {}
                3 => frame.mark_stale(at),
                4 => frame.set_histogram(at, histogram(random.below(50) as f64)),
                _ if at.0 % 5 == 2 => frame.set_histogram(at, histogram((time_ms / 1000) as f64)),
                5 => frame.set(at, f64::from_bits(random.next_u64() >> 2)),
                _ => frame.set(at, (time_ms / 1000) as f64),
            }
            if at.0 % 4 == 1 {
                frame.set_start_time(at, BASE_MS - HOUR_MS * (1 + time_ms % 3));
            }
            let late = at.0 % 6 == 5 && frame.present().contains(at.index());
            if late && random.one_in(5) {
                frame.set_time(at, time_ms - random.below(20_000_000) as i64);
            }
        }
        let (binding, of_model) = self.bound.get_or_insert_with(|| {
            let own = db.bind(&self.schema).expect("bound");
            (own, model.bind(&self.schema).expect("bound"))
        });
        binding.append(&frame).expect("appended");
        of_model.append(&frame).expect("appended");
    }
}

fn histogram(count: f64) -> Arc<Histogram> {
    Arc::new(workload::histogram(count))
}

fn grown(schema: &Schema, columns: usize) -> Schema {
    let mut edit = schema.edit();
    let family = edit.family(Family {
        name: "m".into(),
        metric_type: MetricType::Counter,
        unit: "seconds".into(),
        help: "It is merged.".into(),
    });
    for at in schema.len()..schema.len() + columns {
        let at = at.to_string();
        edit.push(&LabelSet::new([(METRIC_NAME, "m"), ("at", &at)]), family);
    }
    edit.finish()
}

/// Individual samples of any age, some for times that are taken: the first value stays.
fn append_out_of_order(
    db: &Db,
    model: &MemStore,
    time_ms: i64,
    series: u64,
    random: &mut SplitMix64,
) {
    let samples: Vec<SeriesSample> = (0..random.below(2 + series))
        .map(|_| {
            let series = random.below(series).to_string();
            let labels = LabelSet::new([(METRIC_NAME, "loose"), ("i", series.as_str())]);
            let age_ms = random.below(400) as i64 * 60_000;
            SeriesSample::float(labels, time_ms - age_ms, random.below(9) as f64)
        })
        .collect();
    db.append_samples(&samples).expect("appended");
    model.append_samples(&samples).expect("appended");
}

/// Random flushes, merges and restarts, with samples of any age, change no answer.
#[test]
fn whatever_is_written_and_merged_answers_as_the_model() {
    let mut merges = 0;
    for seed in 0..scaled(6) {
        let mut random = SplitMix64::new(seed);
        let options = DbOptions {
            block_window_ms: 20 * 60_000,
            flush_rows: 5 + random.index(40),
            merge_blocks: 2 + random.index(3),
            ..options()
        };
        let disk = FaultyIo::new();
        let model = MemStore::new();
        let mut db = open(&disk, &options);
        let mut origins: Vec<Origin> = (0..4).map(Origin::new).collect();
        let mut now_ms = BASE_MS;
        for step in 0..120 {
            now_ms += 15_000 + random.below(7) as i64;
            for origin in &mut origins {
                origin.round(&db, &model, now_ms, &mut random);
            }
            // With many of them each has times of its own.
            let series = if seed % 2 == 0 { 4 } else { 90 };
            append_out_of_order(&db, &model, now_ms, series, &mut random);
            if random.one_in(7) {
                db.flush().expect("flushed");
            }
            if random.one_in(3) {
                let before = blocks(&disk).len();
                db.maintain(now_ms).expect("maintained");
                merges += usize::from(blocks(&disk).len() < before);
            }
            if random.one_in(40) {
                origins.iter_mut().for_each(|origin| origin.bound = None);
                disk.kill();
                db = open(&disk, &options);
                assert_eq!(db.damage(), []);
            }
            if step % 30 == 29 {
                let (found, expected) = (
                    dump(&db, &[], TimeRange::ALL),
                    dump(&model, &[], TimeRange::ALL),
                );
                for (labels, samples) in &expected {
                    assert_eq!(found.get(labels), Some(samples), "seed {seed}, step {step}");
                }
                assert_eq!(found.len(), expected.len());
            }
        }
    }
    assert!(merges > 10, "{merges} merges");
}

/// Writes six blocks of one window; returns the disk and what was acknowledged.
fn six_blocks(seed: u64) -> (FaultyIo, Acknowledged) {
    let disk = FaultyIo::new();
    let db = open(&disk, &merging());
    let mut workload = Workload::new(seed, &[1, 7, 40]);
    for round in 0..60 {
        workload.round(&db).expect("appended");
        if round % 10 == 9 {
            db.flush().expect("flushed");
        }
    }
    workload.unbind();
    db.close().expect("closed");
    (disk, workload.acknowledged(workload.log.len()))
}

#[test]
fn one_block_is_left_of_each_window_and_it_is_smaller() {
    let (disk, acknowledged) = six_blocks(1);
    let before = disk.used_bytes();
    let windows = 2;
    assert!(blocks(&disk).len() > windows);
    let db = open(&disk, &merging());
    pass_a_day(&db);
    assert!(served(&db) == acknowledged);
    let left = blocks(&disk);
    assert!(left.len() <= windows, "{left:?}");
    assert!(
        disk.used_bytes() < before,
        "{} of {before}",
        disk.used_bytes()
    );
    let cache = Arc::new(BlockCache::new(1 << 20));
    for path in &left {
        let block = Block::open(&disk, path, &cache).expect("a block");
        assert_eq!(block.verify().expect("read"), []);
        let meta = block.meta();
        assert!(meta.level > 0 && meta.sources.len() > 1, "{meta:?}");
    }
    drop(db);
    disk.kill();
    let db = open(&disk, &merging());
    assert_eq!(db.damage(), []);
    assert!(served(&db) == acknowledged);
}

/// A view goes on reading the sources of a merge that came after it.
#[test]
fn a_view_outlives_the_files_it_pinned() {
    let (disk, _) = six_blocks(2);
    let db = open(&disk, &merging());
    let (ctx, all) = (
        Context::unlimited(),
        narthex_model::storage::SeriesQuery::all(TimeRange::ALL),
    );
    let view = db.view(TimeRange::ALL).expect("a view");
    let series = view.series(&all, &ctx).expect("series");
    pass_a_day(&db);
    let named = |paths: Vec<PathBuf>| {
        let paths = paths.iter();
        let named = paths.filter(|path| path.extension().is_some_and(|ext| ext == "block"));
        named.count()
    };
    assert!(named(blocks(&disk)) <= 2, "{:?}", blocks(&disk));
    assert!(blocks(&disk).len() >= 6, "what the view reads is there");
    assert_eq!(view.series(&all, &ctx).expect("series").items, series.items);
    drop(view);
    db.maintain(NOW_MS + 25 * HOUR_MS).expect("maintained");
    assert_eq!(named(blocks(&disk)), blocks(&disk).len());
}

/// Whichever operation fails, is torn or is the last before power is lost: sources or merged block, never neither.
#[test]
fn a_merge_is_seen_whole_or_not_at_all() {
    let (pristine, acknowledged) = six_blocks(3);
    let files: Vec<(PathBuf, Vec<u8>)> = pristine
        .paths()
        .into_iter()
        .map(|path| (path.clone(), pristine.bytes(&path).expect("a file")))
        .collect();
    let restored = || {
        let disk = FaultyIo::new();
        for (path, bytes) in &files {
            disk.put_file(path, bytes.clone());
        }
        disk
    };
    let operations = {
        let disk = restored();
        let db = open(&disk, &merging());
        let before = disk.operations();
        pass_a_day(&db);
        disk.operations() - before
    };
    assert!(operations > 10, "{operations}");
    for at in 0..operations {
        for torn in [false, true] {
            let disk = restored();
            let db = open(&disk, &merging());
            if torn {
                disk.tear_operation(at, 50);
            } else {
                disk.fail_operation(at);
            }
            for second in 0..30 {
                // A failed fsync of the manifest is not to be had twice.
                if db.maintain(NOW_MS + 24 * HOUR_MS + second * 1000).is_err() {
                    break;
                }
            }
            assert!(served(&db) == acknowledged, "operation {at}");
            if torn {
                disk.power_loss(PowerLoss::DropUnsynced);
            } else {
                disk.kill();
            }
            drop(db);
            let db = open(&disk, &merging());
            assert_eq!(db.damage(), [], "operation {at}");
            assert!(served(&db) == acknowledged, "operation {at}, reopened");
            pass_a_day(&db);
            assert!(served(&db) == acknowledged, "operation {at}, merged");
            assert!(blocks(&disk).len() <= 2, "{:?}", blocks(&disk));
        }
    }
}

/// Without a manifest a merged block and the sources that were not removed yet are all there is.
#[test]
fn without_a_manifest_sources_of_a_merged_block_do_not_count_twice() {
    let (disk, acknowledged) = six_blocks(4);
    let sources: Vec<(PathBuf, Vec<u8>)> = blocks(&disk)
        .into_iter()
        .map(|path| (path.clone(), disk.bytes(&path).expect("a block")))
        .collect();
    let db = open(&disk, &merging());
    pass_a_day(&db);
    drop(db);
    disk.kill();
    for (path, bytes) in sources {
        disk.put_file(&path, bytes);
    }
    narthex_tsdb::Io::remove(&disk, &PathBuf::from(ROOT).join("MANIFEST")).expect("removed");
    let registry = narthex_client::Registry::new();
    let db = open(&disk, &merging());
    db.register_metrics(&registry).expect("registered");
    assert!(served(&db) == acknowledged);
    let mut text = Vec::new();
    registry.encode_text(&mut text);
    let text = String::from_utf8(text).expect("text");
    let loaded = text
        .lines()
        .find(|line| line.starts_with("prometheus_tsdb_blocks_loaded "));
    let loaded: f64 = loaded
        .and_then(|line| line.split(' ').nth(1))
        .expect("a metric")
        .parse()
        .expect("a number");
    assert!(loaded <= 2.0, "{loaded}");
}

/// A page found damaged during a merge is left out and reported; everything else is merged.
#[test]
fn a_damaged_page_costs_a_merge_that_page() {
    let (disk, acknowledged) = six_blocks(5);
    let block = blocks(&disk)[1].clone();
    let mut bytes = disk.bytes(&block).expect("a block");
    bytes[60] ^= 8;
    disk.put_file(&block, bytes);
    let db = open(&disk, &merging());
    pass_a_day(&db);
    assert!(blocks(&disk).len() <= 2);
    let damage = db.damage();
    assert_eq!(damage.len(), 1, "{damage:?}");
    assert_eq!(damage[0].path, block);
    let found = served(&db);
    assert_eq!(missing(&found, &acknowledged), None, "nothing is made up");
    let count = |all: &Acknowledged| all.values().map(|samples| samples.len()).sum::<usize>();
    let lost = count(&acknowledged) - count(&found);
    assert!(lost > 0 && lost * 6 <= count(&acknowledged) + 600, "{lost}");
}

/// A block whose index is damaged stays as it is; those around it are merged.
#[test]
fn a_damaged_index_stays_out_of_merges() {
    let (disk, acknowledged) = six_blocks(6);
    let all = blocks(&disk);
    let name_in = |path: &PathBuf| {
        let bytes = disk.bytes(path).expect("a block");
        let at = (0..bytes.len()).rfind(|at| bytes[*at..].starts_with(b"instance"))?;
        Some((path.clone(), bytes, at))
    };
    let (block, mut bytes, at) = all.iter().skip(2).find_map(name_in).expect("a name");
    bytes[at] ^= 8;
    disk.put_file(&block, bytes);
    let db = open(&disk, &merging());
    pass_a_day(&db);
    let left = blocks(&disk);
    assert!(left.contains(&block) && left.len() < all.len(), "{left:?}");
    assert_eq!(missing(&served(&db), &acknowledged), None);
    assert!(db.damage().iter().all(|damage| damage.path == block));
}
