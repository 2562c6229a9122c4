//! Blocks return what was written: cells, labels, keys, lists, for any query.

use super::set_table::SetTable;
use super::*;
use narthex_chunks::column::decode_column;
use narthex_model::cell::Cell;
use narthex_model::storage::{
    Budget, Collector, Context, Grouping, Hints, LastCell, SeriesQuery, Stop, StopReason,
    StorageError, Tile, TimeRange, group_key_of,
};
use narthex_model::{LabelHash, MatchOp, Matcher};
use std::collections::{BTreeMap, BTreeSet};

/// Time, bits or histogram, start time.
pub(super) type Samples = Vec<(i64, String, i64)>;

fn show(value: f64, histogram: Option<&Histogram>) -> Option<String> {
    match Cell::decode(value) {
        Cell::Absent => None,
        Cell::Histogram(_) => Some(format!(
            "{:?}",
            histogram.expect("a histogram cell has one")
        )),
        Cell::Stale | Cell::Float(_) => Some(format!("{:016x}", value.to_bits())),
    }
}

/// Returns the model's samples.
pub(super) fn expected(
    strips: &[Plain],
    matchers: &[Matcher],
    range: TimeRange,
) -> BTreeMap<LabelSet, Samples> {
    let mut out = BTreeMap::new();
    for strip in strips {
        let overlaps = strip.times_ms.iter().any(|_| true)
            && range.overlaps(TimeRange::new(
                strip.times_ms[0],
                strip.times_ms[strip.times_ms.len() - 1],
            ));
        for column in strip.columns.iter().filter(|_| overlaps) {
            let labels = strip.common.union(&column.set);
            let matches = matchers
                .iter()
                .all(|m| m.matches(labels.get(&m.name).unwrap_or_default()));
            if !matches || column.cells.iter().all(|c| cell::is_absent(*c)) {
                continue;
            }
            let mut samples: Samples = vec![];
            for (r, value) in column.cells.iter().enumerate() {
                let histogram = match Cell::decode(*value) {
                    Cell::Histogram(i) => Some(&*strip.histograms[i as usize]),
                    _ => None,
                };
                let started = column
                    .start_times
                    .iter()
                    .rev()
                    .find(|(from, _)| *from as usize <= r);
                let time_ms = strip.times_ms[r];
                if let Some(shown) = show(*value, histogram).filter(|_| range.contains(time_ms)) {
                    samples.push((time_ms, shown, started.map_or(0, |s| s.1)));
                }
            }
            out.insert(labels, samples);
        }
    }
    out
}

fn grouping(without: bool, names: &[&str]) -> Grouping {
    Grouping {
        without,
        names: names.iter().map(|n| (*n).into()).collect(),
    }
}

/// Returns the block's samples, reading all series of a batch at once, reversed, and one by one.
pub(super) fn found(
    block: &Arc<Block>,
    matchers: &[Matcher],
    range: TimeRange,
    layout: Layout,
) -> BTreeMap<LabelSet, Samples> {
    let ctx = Context::unlimited();
    let selection = block.select(matchers, range, &ctx).unwrap();
    let hints = Hints {
        start_times: true,
        ..Hints::default()
    };
    let estimate = selection.estimate();
    let batches = selection.batches(&hints);
    let series: usize = batches.iter().map(|b| b.len()).sum();
    assert_eq!(estimate.series, series as u64);
    let mut out = BTreeMap::new();
    let mut tile = Tile::default();
    for batch in &batches {
        let reversed: Vec<u32> = (0..batch.len() as u32).rev().collect();
        batch
            .read(&reversed, range, layout, &mut tile, &ctx)
            .unwrap();
        assert_eq!(tile.times_ms.len(), batch.rows(range));
        check_facts(&tile);
        let mut last = Vec::new();
        batch.last(&reversed, range, &mut last, &ctx).unwrap();
        for (at, found) in last.iter().enumerate() {
            let of = |last: &LastCell| {
                let shown = show(last.cell, last.histogram.as_deref());
                (last.time_ms, shown, last.start_time_ms)
            };
            let newest = LastCell::newest_of(&tile, at);
            assert_eq!(found.as_ref().map(of), newest.as_ref().map(of));
        }
        for (at, &series) in reversed.iter().enumerate() {
            let labels = batch.labels(series as usize);
            let samples = samples(&tile, at);
            let mut alone = Tile::default();
            batch
                .read(&[series], range, Layout::SeriesMajor, &mut alone, &ctx)
                .unwrap();
            assert_eq!(self::samples(&alone, 0), samples);
            assert_eq!(batch.identity(series as usize), labels.hash());
            for grouping in [
                grouping(false, &["job", "code"]),
                grouping(true, &["code", "pod"]),
            ] {
                let key = batch.group_key(series as usize, &grouping);
                assert_eq!(key, group_key_of([&labels], &grouping), "{labels}");
            }
            let job = labels.get("job").map(str::to_owned);
            assert_eq!(batch.label(series as usize, "job").map(String::from), job);
            out.insert(labels, samples);
        }
    }
    assert_eq!(out.len(), series, "every identity once");
    out
}

fn samples(tile: &Tile, series: usize) -> Samples {
    let cells = (0..tile.times_ms.len()).map(|row| (row, tile.get(row, series)));
    let shown = cells.filter_map(|(row, value)| {
        let histogram = match Cell::decode(value) {
            Cell::Histogram(i) => Some(&*tile.histograms[i as usize]),
            _ => None,
        };
        Some((
            tile.times_ms[row],
            show(value, histogram)?,
            tile.start_times_ms[tile.at(row, series)],
        ))
    });
    shown.collect()
}

fn check_facts(tile: &Tile) {
    assert!(!tile.facts.all_floats || tile.cells.iter().all(|c| cell::is_float(*c)));
    assert_eq!(tile.facts.no_histograms, tile.histograms.is_empty());
    if tile.facts.no_decrease {
        for series in 0..tile.series {
            let cells: Vec<f64> = (0..tile.times_ms.len())
                .map(|row| tile.get(row, series))
                .collect();
            assert!(cells.is_sorted(), "{cells:?}");
        }
    }
}

fn matchers() -> Vec<Vec<Matcher>> {
    let m = |op, name: &str, value: &str| Matcher::new(op, name, value).unwrap();
    use MatchOp::{Equal, NotEqual, NotRegex, Regex};
    vec![
        vec![],
        vec![m(Equal, "__name__", "up")],
        vec![
            m(Equal, "job", "node"),
            m(Equal, "__name__", "requests_total"),
        ],
        vec![m(NotEqual, "job", "node")],
        vec![m(Equal, "pod", "")],
        vec![m(NotEqual, "pod", "")],
        vec![m(Regex, "pod", "pod-000[1-3]|")],
        vec![
            m(Regex, "pod", "pod-0001|pod-0017|nope"),
            m(NotRegex, "code", "2.5"),
        ],
        vec![
            m(Regex, "instance", "host-[02].*"),
            m(Regex, "code", "20[13]"),
        ],
        vec![m(NotRegex, "instance", "host-[02].*")],
        vec![m(Equal, "nope", "")],
        vec![m(Equal, "nope", "x")],
        vec![
            m(Regex, "instance", "host-6.*"),
            m(Equal, "instance", "host-1:9100"),
        ],
    ]
}

#[test]
fn selections_agree_with_the_model() {
    let strips = strips(1);
    let io = disk();
    let meta = write(&io, 1, &strips).unwrap();
    let block = open(&io, &meta).unwrap();
    assert_eq!(block.meta(), &meta);
    let start = strips[0].times_ms[0];
    let ranges = [
        TimeRange::ALL,
        TimeRange::new(start + 30_000, start + 300_000),
        TimeRange::new(start + 30_001, start + 30_002),
        TimeRange::new(0, start - 1),
        TimeRange::new(start + 60_000 * 6, i64::MAX),
    ];
    for matchers in matchers() {
        for range in ranges {
            let want = expected(&strips, &matchers, range);
            for layout in [Layout::SeriesMajor, Layout::TimeMajor] {
                assert_eq!(
                    found(&block, &matchers, range, layout),
                    want,
                    "{matchers:?} {range:?}"
                );
            }
        }
    }
}

#[test]
fn meta_counts_what_is_there() {
    let strips = strips(1);
    let io = disk();
    let meta = write(&io, 9, &strips).unwrap();
    let all = expected(&strips, &[], TimeRange::ALL);
    assert_eq!(meta.series, all.len() as u64);
    assert_eq!(
        meta.samples,
        all.values().map(|s| s.len() as u64).sum::<u64>()
    );
    assert_eq!(meta.strips, 7);
    assert_eq!(
        meta.min_time_ms,
        strips.iter().map(|s| s.times_ms[0]).min().unwrap()
    );
    assert_eq!(
        meta.max_time_ms,
        strips
            .iter()
            .flat_map(|s| &s.times_ms)
            .copied()
            .max()
            .unwrap()
    );
    assert_eq!((meta.level, &*meta.sources), (0, &[BlockId(9)][..]));
    assert_eq!(io.paths().len(), 1);
    assert_eq!(meta.bytes, io.used_bytes());
}

#[test]
fn listings_agree_with_the_model() {
    let strips = strips(2);
    let io = disk();
    let block = open(&io, &write(&io, 1, &strips).unwrap()).unwrap();
    let ctx = Context::unlimited();
    for matchers in matchers() {
        let any_of = if matchers.is_empty() {
            vec![]
        } else {
            vec![matchers.clone(), vec![Matcher::equal("code", "201")]]
        };
        let query = SeriesQuery {
            any_of: any_of.clone(),
            range: TimeRange::ALL,
            limit: None,
        };
        let mut want: BTreeSet<LabelSet> = BTreeSet::new();
        for matchers in if any_of.is_empty() {
            vec![vec![]]
        } else {
            any_of
        } {
            want.extend(expected(&strips, &matchers, TimeRange::ALL).into_keys());
        }
        let mut series = Collector::new(None, &ctx).unwrap();
        block.series(&query, &ctx, &mut series).unwrap();
        let series: BTreeSet<LabelSet> = series.finish().unwrap().items.into_iter().collect();
        assert_eq!(series, want);
        let mut names = Collector::new(None, &ctx).unwrap();
        block.label_names(&query, &ctx, &mut names).unwrap();
        let of = |set: &LabelSet| set.iter().map(|l| l.name().to_owned()).collect::<Vec<_>>();
        let expected: BTreeSet<String> = want.iter().flat_map(of).collect();
        assert_eq!(names.finish().unwrap().items, Vec::from_iter(expected));
        for name in ["code", "job", "pod", "nope"] {
            let mut values = Collector::new(None, &ctx).unwrap();
            block.label_values(name, &query, &ctx, &mut values).unwrap();
            let expected = want.iter().filter_map(|s| s.get(name));
            let expected: BTreeSet<String> = expected.map(str::to_owned).collect();
            assert_eq!(values.finish().unwrap().items, Vec::from_iter(expected));
        }
    }
    let families = block.families().unwrap();
    assert_eq!(families.len(), 4);
    assert!(families.is_sorted_by(|a, b| a.name < b.name));
    assert_eq!(&*families[1].help, "What requests_total says.");
    assert_eq!(families[1].metric_type, MetricType::Counter);
}

#[test]
fn strips_can_be_streamed_in_order_for_a_merge() {
    let strips = strips(3);
    let io = disk();
    let block = open(&io, &write(&io, 1, &strips).unwrap()).unwrap();
    let mut source = StripSource::new(&block).unwrap();
    let mut table = SetTable::default();
    let heads = source.strips().unwrap();
    for ((s, plain), (extent, common)) in (0u32..).zip(&strips).zip(heads) {
        let mut strip = source.strip(s, &mut table).unwrap();
        assert_eq!(
            (&common, &*strip.times_ms),
            (&plain.common, &*plain.times_ms)
        );
        let ends = (plain.times_ms.first(), plain.times_ms.last());
        assert_eq!((Some(&extent.min_ms), Some(&extent.max_ms)), ends);
        let columns: Vec<&PlainColumn> = plain
            .columns
            .iter()
            .filter(|c| !c.cells.iter().all(|v| cell::is_absent(*v)))
            .collect();
        let sets: Vec<u32> = columns.iter().map(|c| table.set(&c.set)).collect();
        assert_eq!(strip.sets, sets);
        assert_eq!(extent.width, sets.len());
        for (at, column) in (0u32..).zip(&columns) {
            let found = strip.column(at).unwrap().unwrap();
            assert_eq!(found.starts, column.start_times);
            let mut cells = vec![0.0; plain.times_ms.len()];
            decode_column(found.chunk, &mut cells, &mut vec![]).unwrap();
            assert_eq!(cell::is_stale(cells[0]), cell::is_stale(column.cells[0]));
        }
    }
    assert!(source.strip(7, &mut table).is_err());
}

#[test]
fn budgets_and_stops_are_respected() {
    let io = disk();
    let block = open(&io, &write(&io, 1, &strips(4)).unwrap()).unwrap();
    let budget = Budget::new("query", 3000);
    let ctx = Context {
        budget: budget.clone(),
        stop: Stop::never(),
        ..Context::unlimited()
    };
    let over = block.select(&[], TimeRange::ALL, &ctx).unwrap_err();
    assert!(matches!(over, StorageError::OverBudget(_)), "{over}");
    assert_eq!(budget.used_bytes(), 0);
    let roomy = Context {
        budget: Budget::new("query", 1 << 20),
        stop: Stop::never(),
        ..Context::unlimited()
    };
    let selection = block.select(&[], TimeRange::ALL, &roomy).unwrap();
    assert!(roomy.budget.used_bytes() > 3000);
    let batches = selection.batches(&Hints::default());
    assert!(roomy.budget.used_bytes() > 3000, "batches hold it");
    roomy.stop.stop(StopReason::Canceled);
    let stopped = batches[0].read(
        &[0],
        TimeRange::ALL,
        Layout::SeriesMajor,
        &mut Tile::default(),
        &roomy,
    );
    assert!(matches!(
        stopped,
        Err(StorageError::Stopped(StopReason::Canceled))
    ));
    drop(batches);
    assert_eq!(roomy.budget.used_bytes(), 0);
}

/// What matchers select is kept for later queries: of other ranges, and beside matchers that differ in one part only.
#[test]
fn kept_choices_select_what_fresh_ones_do() {
    let io = disk();
    let all = strips(9);
    let meta = write(&io, 1, &all).unwrap();
    let path = Path::new(DIR).join(meta.file_name());
    let matcher = |op, name, value| Matcher::new(op, name, value).unwrap();
    let lists = [
        vec![],
        vec![matcher(MatchOp::Equal, "code", "203")],
        vec![matcher(MatchOp::NotEqual, "code", "203")],
        vec![matcher(MatchOp::Regex, "code", "203")],
        vec![matcher(MatchOp::Regex, "code", "20.")],
        vec![matcher(MatchOp::Equal, "job", "203")],
        vec![
            matcher(MatchOp::Equal, "__name__", "up"),
            matcher(MatchOp::Equal, "job", "node"),
        ],
        vec![
            matcher(MatchOp::NotRegex, "pod", "pod-000.*"),
            matcher(MatchOp::Equal, "instance", "host-1:9100"),
        ],
    ];
    let mut kept = 0;
    for cache_bytes in [1 << 20, 20_000, 0] {
        let cache = Arc::new(BlockCache::new(cache_bytes));
        let block = Arc::new(Block::open(&*io, &path, &cache).unwrap());
        let mut rng = SplitMix64::new(cache_bytes as u64);
        for _ in 0..60 {
            let matchers = rng.pick(&lists);
            kept += usize::from(block.choice(matchers).is_some());
            let from = 1_700_000_000_000 + rng.below(700_000) as i64;
            let range = TimeRange::new(from, from + rng.below(400_000) as i64);
            let found = found(&block, matchers, range, Layout::SeriesMajor);
            assert_eq!(found, expected(&all, matchers, range));
            assert!(cache.used_bytes() <= cache_bytes);
        }
    }
    assert!((40..120).contains(&kept), "{kept} times");
}

/// Sections too long for the cache were read for every query and counted by nobody.
#[test]
fn sections_that_the_cache_does_not_keep_are_leased() {
    let io = disk();
    // Sets that another test has at the same time would not be counted here.
    let mut strips = strips(4);
    for strip in &mut strips {
        strip.common = strip.common.with("of", "this test");
    }
    let meta = write(&io, 1, &strips).unwrap();
    let path = Path::new(DIR).join(meta.file_name());
    let ctx = || Context {
        budget: Budget::new("query", 1 << 20),
        ..Context::unlimited()
    };
    let leased = |cache_bytes: usize| {
        let cache = Arc::new(BlockCache::new(cache_bytes));
        let block = Arc::new(Block::open(&*io, &path, &cache).unwrap());
        let (selecting, naming) = (ctx(), ctx());
        let selection = block.select(&[], TimeRange::ALL, &selecting).unwrap();
        let sections = selection.index();
        let sections = [&sections.dictionary, &sections.sets, &sections.strips];
        let mut names = Collector::new(None, &naming).unwrap();
        block
            .label_names(&SeriesQuery::all(TimeRange::ALL), &naming, &mut names)
            .unwrap();
        let used = [selecting.budget.used_bytes(), naming.budget.peak_bytes()];
        let mut lease = ctx().budget.lease(0).unwrap();
        let table = block
            .strip_table(selection.index(), &mut lease, &Stop::never())
            .unwrap();
        let sections = sections.map(|section| section.bytes().len() as u64);
        (used, sections, table.bytes() as u64)
    };
    let (kept, sections, whole_table) = leased(1 << 20);
    // Nothing was added to a table that is not kept.
    let (not_kept, _, outlines) = leased(100);
    assert!(outlines < whole_table, "strips that were chosen join");
    for cache_bytes in [1 << 20, outlines * 2, 100] {
        let is_kept = |bytes: &u64| *bytes <= cache_bytes / 2;
        let of_sections: u64 = sections.iter().filter(|bytes| !is_kept(bytes)).sum();
        let of_table = match (is_kept(&outlines), is_kept(&whole_table)) {
            (_, true) => 0,
            (true, false) => whole_table - outlines,
            (false, false) => whole_table,
        };
        let (used, _, _) = leased(cache_bytes as usize);
        assert_eq!(used[0] - kept[0], of_sections + of_table, "{cache_bytes}");
    }
    let [dictionary, ..] = sections;
    assert_eq!(not_kept[1] - kept[1], dictionary, "names need only that");
}

/// With the times of all rows a table was too large to be kept, and every query decoded all strips again.
#[test]
fn the_strips_of_many_rows_are_kept() {
    let io = disk();
    let many = |at: u32| Plain {
        common: LabelSet::new([("pod", format!("pod-{at}").as_str())]),
        // Irregular, because others are few bytes.
        times_ms: (0..5_000).map(|row| row * row).collect(),
        columns: vec![PlainColumn {
            cells: vec![1.0; 5_000],
            ..PlainColumn::default()
        }],
        ..Plain::default()
    };
    let strips: Vec<Plain> = (0..4).map(many).collect();
    let path = Path::new(DIR).join(write(&io, 1, &strips).unwrap().file_name());
    let used = |cache_bytes: usize| {
        let cache = Arc::new(BlockCache::new(cache_bytes));
        let block = Arc::new(Block::open(&*io, &path, &cache).unwrap());
        let ctx = Context {
            budget: Budget::new("query", 1 << 20),
            ..Context::unlimited()
        };
        let selection = block.select(&[], TimeRange::ALL, &ctx).unwrap();
        assert_eq!(selection.strips().len(), 4);
        ctx.budget.used_bytes()
    };
    // Room for the times of two strips.
    assert_eq!(used(200_000), used(1 << 24));
}

/// Every query decoded the times of all strips it chose, and held 2 KiB of each.
#[test]
fn regular_times_are_decoded_once_and_not_leased() {
    const ROWS: i64 = 2_000;
    let strip = |job: &str, times_ms: Vec<i64>| Plain {
        common: LabelSet::new([("job", job)]),
        columns: vec![PlainColumn {
            cells: vec![1.0; times_ms.len()],
            ..PlainColumn::default()
        }],
        times_ms,
        ..Plain::default()
    };
    let regular = |rows: i64| (0..rows).map(|row| row * 15_000);
    let irregular = regular(ROWS).map(|time_ms| time_ms + time_ms / 15_000 % 7);
    let with_gaps = regular(ROWS + 4).filter(|time_ms| !(70_000..130_000).contains(time_ms));
    let strips = [
        strip("short", regular(2).collect()),
        strip("regular", regular(ROWS).collect()),
        strip("with gaps", with_gaps.collect()),
        strip("irregular", irregular.collect()),
    ];
    let io = disk();
    let path = Path::new(DIR).join(write(&io, 1, &strips).unwrap().file_name());
    let open = |cache_bytes: usize| {
        let cache = Arc::new(BlockCache::new(cache_bytes));
        Arc::new(Block::open(&*io, &path, &cache).unwrap())
    };
    // What is held while the selection lives, and the most that was held before.
    let leased = |block: &Arc<Block>, job: &str| {
        let ctx = Context {
            budget: Budget::new("query", 1 << 20),
            ..Context::unlimited()
        };
        let matchers = [Matcher::equal("job", job)];
        let selection = block.select(&matchers, TimeRange::ALL, &ctx).unwrap();
        assert_eq!(selection.strips().len(), 1);
        (ctx.budget.used_bytes(), ctx.budget.peak_bytes())
    };
    let list = ROWS as u64 * 8;
    let kept = open(1 << 20);
    let (held, _) = leased(&kept, "short");
    for job in ["regular", "with gaps"] {
        assert_eq!(leased(&kept, job), (held, held + list), "decoded");
        assert_eq!(leased(&kept, job), (held, held), "known");
    }
    for _ in 0..2 {
        assert_eq!(leased(&kept, "irregular"), (held + list, held + list));
    }
    let not_kept = open(0);
    let (held, _) = leased(&not_kept, "short");
    for _ in 0..2 {
        assert_eq!(leased(&not_kept, "regular"), (held, held + list));
    }
}

/// Each block of a target had its labels once more.
#[test]
fn labels_of_a_target_are_shared_by_its_blocks() {
    let io = disk();
    let strip = || Plain {
        common: LabelSet::new([("job", "of two blocks"), ("pod", "a"), ("zone", "b")]),
        times_ms: (0..100).map(|row| row * 15_000).collect(),
        columns: vec![PlainColumn {
            cells: vec![1.0; 100],
            ..PlainColumn::default()
        }],
        ..Plain::default()
    };
    let opened = |id: u128| {
        let meta = write(&io, id, &[strip()]).unwrap();
        let cache = Arc::new(BlockCache::new(1 << 20));
        let path = Path::new(DIR).join(meta.file_name());
        let block = Arc::new(Block::open(&*io, &path, &cache).unwrap());
        let selection = block.select(&[], TimeRange::ALL, &Context::unlimited());
        (selection.unwrap(), cache.used_bytes())
    };
    let [(first, first_bytes), (second, second_bytes)] = [opened(1), opened(2)];
    let [first, second] = [&first, &second].map(|selection| selection.strips()[0].common());
    assert_eq!(first.labels().as_ptr(), second.labels().as_ptr());
    assert_eq!(
        first_bytes - second_bytes,
        first.heap_bytes(),
        "counted once"
    );
}

#[test]
fn rows_are_found_by_times_of_any_shape() {
    let mut rng = SplitMix64::new(12);
    let shapes: [fn(i64) -> i64; 6] = [
        |row| row * 15_000,
        |row| row * 15_000 + row / 17 * 60_000,
        |row| row * 15_000 + i64::from(row == 21) * 4,
        |row| row * row,
        |row| i64::MIN + row,
        |row| i64::MAX - 100 + row,
    ];
    for (id, shape) in shapes.into_iter().enumerate() {
        let mut all = strips(10 + id as u64);
        for strip in &mut all {
            strip.times_ms = (0..strip.times_ms.len() as i64).map(shape).collect();
        }
        let io = disk();
        let block = open(&io, &write(&io, 1, &all).unwrap()).unwrap();
        let bound = |rng: &mut SplitMix64| {
            let time_ms = shape(rng.below(60) as i64);
            time_ms.saturating_add(rng.below(3) as i64 - 1)
        };
        for at in 0..12 {
            let (from_ms, to_ms) = (bound(&mut rng), bound(&mut rng));
            let range = TimeRange::new(from_ms.min(to_ms), from_ms.max(to_ms));
            let layout = [Layout::SeriesMajor, Layout::TimeMajor][at % 2];
            assert_eq!(
                found(&block, &[], range, layout),
                expected(&all, &[], range)
            );
        }
    }
}

#[test]
fn empty_blocks_and_sets_are_fine() {
    let io = disk();
    let none = open(&io, &write(&io, 1, &[]).unwrap()).unwrap();
    assert!(found(&none, &[], TimeRange::ALL, Layout::TimeMajor).is_empty());
    assert_eq!(none.verify().unwrap(), []);
    let lone = Plain {
        times_ms: vec![5],
        columns: vec![PlainColumn {
            cells: vec![1.0],
            ..PlainColumn::default()
        }],
        ..Plain::default()
    };
    let gone = Plain {
        times_ms: vec![5],
        columns: vec![PlainColumn {
            cells: vec![cell::ABSENT],
            ..PlainColumn::default()
        }],
        ..Plain::default()
    };
    let block = open(&io, &write(&io, 2, &[gone, lone]).unwrap()).unwrap();
    assert_eq!((block.meta().strips, block.meta().series), (1, 1));
    let all = found(&block, &[], TimeRange::ALL, Layout::TimeMajor);
    assert_eq!(
        all.keys().next().map(LabelSet::hash),
        Some(LabelHash::EMPTY)
    );
}

#[test]
fn wide_strips_span_pages_and_share_the_cache() {
    let rows = 50;
    let mut rng = SplitMix64::new(8);
    let columns = (0..3000).map(|c| PlainColumn {
        set: LabelSet::new([("__name__", "m"), ("i", &*c.to_string())]),
        cells: (0..rows).map(|_| rng.unit_f64()).collect(),
        ..PlainColumn::default()
    });
    let strip = Plain {
        times_ms: (0..rows).map(|r| r * 10).collect(),
        columns: columns.collect(),
        ..Plain::default()
    };
    let io = disk();
    let block = open(&io, &write(&io, 1, std::slice::from_ref(&strip)).unwrap()).unwrap();
    let one = [Matcher::equal("i", "2999")];
    let range = TimeRange::new(100, 250);
    assert_eq!(
        found(&block, &one, range, Layout::TimeMajor),
        expected(std::slice::from_ref(&strip), &one, range)
    );
    assert_eq!(
        found(&block, &[], range, Layout::TimeMajor),
        expected(&[strip], &[], range)
    );
}
