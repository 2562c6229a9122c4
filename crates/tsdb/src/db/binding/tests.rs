//! Rounds whose samples have times of their own, divided among strips and not: what can be read is the same.

use super::{DbBinding, LEAST};
use crate::{Db, DbOptions, FaultyIo, ManualClock, Tuning};
use narthex_model::{
    ColumnId, Exemplar, Family, Frame, Histogram, LabelSet, METRIC_NAME, Schema,
    conformance::dump,
    storage::{
        Binding, Budget, Context, Outcome, PressureLevels, Selector, SeriesQuery, Store, SyncToken,
        TimeRange,
    },
};
use narthex_testkit::{rng::SplitMix64, scaled};
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

const START_MS: i64 = 1_700_000_000_000;
const STEP_MS: i64 = 5_000;
/// Lines of a container.
const LINES: usize = 12;

fn options() -> DbOptions {
    DbOptions {
        tuning: Tuning {
            future_limit_ms: None,
            ..Tuning::default()
        },
        fsync_interval_ms: 3_600_000,
        wal_file_bytes: 20_000,
        ..DbOptions::new("/data")
    }
}

/// A database that one origin writes to.
struct Written {
    disk: FaultyIo,
    clock: ManualClock,
    db: Db,
    binding: Option<DbBinding>,
    least: usize,
}

impl Written {
    /// Returns an empty database, in which groups of `least` samples get strips.
    fn new(least: usize) -> Self {
        let (disk, clock) = (FaultyIo::new(), ManualClock::new(START_MS));
        let db = open(&disk, &clock);
        Self {
            disk,
            clock,
            db,
            binding: None,
            least,
        }
    }

    fn append(&mut self, frame: &Frame) -> Outcome {
        self.clock.set(frame.time_ms().max(START_MS));
        let bind = || DbBinding::new(Arc::clone(&self.db.0), frame.schema());
        let binding = self.binding.get_or_insert_with(bind);
        binding.least = self.least;
        let outcome = binding.append(frame).expect("appended");
        Outcome {
            token: SyncToken::default(),
            ..outcome
        }
    }

    fn kill(&mut self) {
        self.disk.kill();
        self.binding = None;
        self.db = open(&self.disk, &self.clock);
        assert_eq!(self.db.damage(), [], "no damage");
    }

    fn out_of_order(&self) -> u64 {
        self.db.0.metrics.out_of_order_appended.get() as u64
    }

    fn strips(&self) -> usize {
        self.db.0.head.index().strips().len()
    }

    /// Returns how many strips were made since the start.
    fn strips_made(&self) -> u32 {
        self.db.0.head.next_strip()
    }
}

fn open(disk: &FaultyIo, clock: &ManualClock) -> Db {
    let io = Arc::new(disk.clone());
    Db::open(io, options(), Arc::new(clock.clone())).expect("a database")
}

/// A container of a page.
struct Container {
    columns: Vec<ColumnId>,
    time_ms: i64,
}

/// A page with containers, and lines without a time.
struct Page {
    random: SplitMix64,
    schema: Schema,
    plain: Vec<ColumnId>,
    containers: Vec<Container>,
    named: usize,
    values: Vec<f64>,
    now_ms: i64,
}

impl Page {
    fn new(seed: u64, containers: usize) -> Self {
        let mut page = Self {
            random: SplitMix64::new(seed),
            schema: Schema::new(LabelSet::new([("job", "cadvisor"), ("instance", "a")])),
            plain: Vec::new(),
            containers: Vec::new(),
            named: 0,
            values: Vec::new(),
            now_ms: START_MS,
        };
        page.plain = page.lines(10);
        for _ in 0..containers {
            page.add_container();
        }
        page
    }

    /// Adds lines to the schema.
    fn lines(&mut self, count: usize) -> Vec<ColumnId> {
        let mut edit = self.schema.edit();
        let family = edit.family(Family {
            name: "m".into(),
            ..Family::default()
        });
        let columns = (0..count).map(|line| {
            let (id, line) = (self.named.to_string(), line.to_string());
            let labels = [(METRIC_NAME, "m"), ("id", &*id), ("line", &*line)];
            edit.push(&LabelSet::new(labels), family)
        });
        let columns = columns.collect();
        self.schema = edit.finish();
        self.named += 1;
        self.values.resize(self.schema.len(), 0.0);
        columns
    }

    fn add_container(&mut self) {
        let columns = self.lines(LINES);
        let time_ms = self.now_ms;
        self.containers.push(Container { columns, time_ms });
    }

    fn remove_container(&mut self) {
        if self.containers.len() < 2 {
            return;
        }
        let at = self.random.index(self.containers.len());
        let gone = self.containers.remove(at);
        let mut edit = self.schema.edit();
        gone.columns.iter().for_each(|column| edit.retire(*column));
        self.schema = edit.finish();
    }

    /// Starts another lineage of the same series, without those that are gone.
    fn renumber(&mut self) {
        let old = self.schema.clone();
        let mut edit = Schema::new(old.common().clone()).edit();
        let family = edit.family(Family {
            name: "m".into(),
            ..Family::default()
        });
        let groups = self.containers.iter_mut().map(|one| &mut one.columns);
        for columns in groups.chain([&mut self.plain]) {
            for column in columns {
                *column = edit.push(&old.column(*column).set, family);
            }
        }
        self.schema = edit.finish();
        self.values.clear();
        self.values.resize(self.schema.len(), 0.0);
    }

    /// Returns the next round of a page on which nothing odd happens: containers have new times, or the same once more.
    fn steady_round(&mut self) -> Frame {
        self.now_ms += STEP_MS;
        let mut frame = Frame::new(self.schema.clone(), self.now_ms);
        for column in &self.plain {
            self.values[column.index()] += 1.0;
            frame.set(*column, self.values[column.index()]);
        }
        for container in &mut self.containers {
            let is_new = !self.random.one_in(4);
            if is_new {
                let newest_ms = self.now_ms - 1 - self.random.below(2_000) as i64;
                container.time_ms = newest_ms.max(container.time_ms + 1);
            }
            for column in &container.columns {
                let value = &mut self.values[column.index()];
                if is_new {
                    *value += self.random.below(9) as f64;
                }
                frame.set(*column, *value);
                frame.set_time(*column, container.time_ms);
            }
        }
        frame
    }

    /// Returns the next round of a page on which anything may happen.
    fn odd_round(&mut self) -> Frame {
        match self.random.below(40) {
            0 | 1 => self.add_container(),
            2 => self.remove_container(),
            3 => self.renumber(),
            4 => self.merge_containers(),
            5 => self.divide_container(),
            _ => {}
        }
        let mut frame = self.steady_round();
        let columns: Vec<ColumnId> = self
            .containers
            .iter()
            .flat_map(|one| one.columns.clone())
            .collect();
        match self.random.below(16) {
            // No line has a time.
            0 => {
                let mut plain = Frame::new(self.schema.clone(), self.now_ms);
                columns.iter().for_each(|column| plain.set(*column, 1.0));
                return plain;
            }
            // Every line has another.
            1 => {
                for column in &columns {
                    let time_ms = self.now_ms - self.random.below(20_000) as i64;
                    frame.set_time(*column, time_ms);
                }
            }
            // A round that is no newer than the last brings late samples.
            2 => {
                let mut late = Frame::new(self.schema.clone(), self.now_ms - STEP_MS);
                let time_ms = self.now_ms - self.random.below(30_000) as i64;
                for column in &columns {
                    if self.random.one_in(2) {
                        continue;
                    }
                    late.set(*column, self.random.below(3) as f64);
                    late.set_time(*column, time_ms);
                }
                return late;
            }
            // The origin is gone.
            3 => {
                let mut ends = Frame::new(self.schema.clone(), self.now_ms);
                let all = self.plain.iter().chain(&columns);
                all.for_each(|column| ends.mark_stale(*column));
                return ends;
            }
            _ => {}
        }
        columns
            .iter()
            .for_each(|column| self.make_odd(&mut frame, *column));
        frame
    }

    /// Makes a sample something else now and then.
    fn make_odd(&mut self, frame: &mut Frame, column: ColumnId) {
        match self.random.below(200) {
            0 => frame.mark_stale(column),
            1 => frame.set_time(column, self.now_ms - self.random.below(40_000) as i64),
            2 => frame.set(column, self.random.below(3) as f64),
            3 => frame.set_histogram(
                column,
                Arc::new(Histogram {
                    sum: 3.0,
                    ..Histogram::default()
                }),
            ),
            4 => frame.set_start_time(column, self.now_ms - 60_000),
            5 => frame.push_exemplar(
                column,
                Exemplar {
                    labels: LabelSet::new([("trace_id", "t")]),
                    // A store may drop a repetition.
                    value: (self.now_ms - START_MS) as f64,
                    time_ms: None,
                },
            ),
            _ => {}
        }
    }

    fn merge_containers(&mut self) {
        if let (true, Some(one)) = (self.containers.len() > 1, self.containers.pop()) {
            let at = self.random.index(self.containers.len());
            self.containers[at].columns.extend(one.columns);
        }
    }

    fn divide_container(&mut self) {
        let at = self.random.index(self.containers.len());
        let one = &mut self.containers[at];
        let (columns, time_ms) = (one.columns.split_off(one.columns.len() / 2), one.time_ms);
        self.containers.push(Container { columns, time_ms });
    }
}

/// Asserts that both databases have the same.
fn assert_same(divided: &Written, whole: &Written, when: &str) {
    let all = |written: &Written| dump(&written.db, &[], TimeRange::ALL);
    let (divided_all, whole_all) = (all(divided), all(whole));
    for (labels, samples) in &whole_all {
        let found = divided_all.get(labels).into_iter().flatten();
        let first = found.clone().zip(samples).find(|(a, b)| a != b);
        assert_eq!(first, None, "{labels} {when}");
        assert_eq!(found.count(), samples.len(), "{labels} {when}");
    }
    assert_eq!(divided_all.len(), whole_all.len(), "series {when}");
    let exemplars = |written: &Written| {
        let view = written.db.view(TimeRange::ALL).expect("a view");
        let query = SeriesQuery::all(TimeRange::ALL);
        let found = view.exemplars(&query, &Context::unlimited());
        let mut found = found.expect("exemplars");
        // Those of one time are in any order.
        let key = |(time_ms, exemplar): &(i64, Exemplar)| (*time_ms, exemplar.value.to_bits());
        found
            .iter_mut()
            .for_each(|series| series.exemplars.sort_by_key(key));
        found
    };
    let (divided, whole) = (exemplars(divided), exemplars(whole));
    let first = divided.iter().zip(&whole).find(|(a, b)| a != b);
    assert_eq!(first, None, "exemplars {when}");
    assert_eq!(divided.len(), whole.len(), "exemplars {when}");
}

#[test]
fn a_divided_round_is_read_like_a_whole_one() {
    for seed in 0..scaled(6) {
        let mut page = Page::new(seed, 4);
        let has_blocks = seed % 2 == 1;
        let (mut divided, mut whole) = (Written::new(LEAST), Written::new(usize::MAX));
        for round in 0..120 {
            let frame = page.odd_round();
            let when = format!("seed {seed} round {round}");
            let (mut found, mut expected) = (divided.append(&frame), whole.append(&frame));
            if has_blocks {
                // Which late samples are looked up in blocks depends on the strip; reads have the blocks' values.
                for outcome in [&mut found, &mut expected] {
                    outcome.accepted += std::mem::take(&mut outcome.duplicate);
                }
            }
            assert_eq!(found, expected, "{when}");
            for written in [&mut divided, &mut whole] {
                match round % 60 {
                    17 if has_blocks => written.db.flush().expect("flushed"),
                    35 => written.kill(),
                    51 => written.binding = None,
                    _ => written.db.maintain(page.now_ms).expect("maintained"),
                }
            }
            if round % 10 == 7 || round % 60 == 35 {
                assert_same(&divided, &whole, &when);
            }
        }
        for written in [&mut divided, &mut whole] {
            written.kill();
            written.db.flush().expect("flushed");
        }
        assert_same(&divided, &whole, &format!("seed {seed}, in blocks"));
    }
}

#[test]
fn lines_that_share_times_are_rows() {
    let mut page = Page::new(1, 5);
    let mut divided = Written::new(LEAST);
    for _ in 0..50 {
        let frame = page.steady_round();
        assert_eq!(divided.append(&frame).accepted, 10 + 5 * LINES as u64);
    }
    assert_eq!((divided.strips(), divided.out_of_order()), (6, 0));
    // What the same origin writes later continues the strips.
    divided.binding = None;
    divided.append(&page.steady_round());
    divided.kill();
    // Nothing of the round tells that lines have times.
    let mut ends = Frame::new(page.schema.clone(), page.now_ms + 1_000);
    let all = (0..page.schema.len() as u32).map(ColumnId);
    all.for_each(|column| ends.mark_stale(column));
    divided.append(&ends);
    assert_eq!((divided.strips(), divided.out_of_order()), (6, 0));
}

#[test]
fn a_time_once_more_is_not_written_again() {
    let mut page = Page::new(2, 3);
    let mut divided = Written::new(LEAST);
    let first = page.steady_round();
    divided.append(&first);
    let operations = divided.disk.operations();
    let mut again = Frame::new(page.schema.clone(), page.now_ms + STEP_MS);
    for slot in first.present().iter().skip(10) {
        let column = ColumnId(slot as u32);
        again.set(column, first.values()[slot]);
        again.set_time(column, first.time_of(column));
    }
    let outcome = divided.append(&again);
    assert_eq!((outcome.accepted, outcome.duplicate), (3 * LINES as u64, 0));
    assert_eq!(divided.disk.operations(), operations, "nothing to log");
    let changed = ColumnId(10);
    again.set(changed, -1.0);
    let outcome = divided.append(&again);
    assert_eq!(
        (outcome.accepted, outcome.duplicate),
        (3 * LINES as u64 - 1, 1)
    );
}

#[test]
fn containers_come_and_go_with_their_strips() {
    let mut page = Page::new(3, 3);
    let mut divided = Written::new(LEAST);
    for _ in 0..20 {
        divided.append(&page.steady_round());
        page.add_container();
        divided.append(&page.steady_round());
        page.remove_container();
        divided.append(&page.steady_round());
    }
    assert_eq!(divided.out_of_order(), 0);
    assert_eq!(divided.strips_made(), 25, "one for each container");
    // Strips that were left go a while after.
    for second in 0..600 {
        page.now_ms += 1_000;
        divided.clock.set(page.now_ms);
        if second % 5 == 0 {
            page.now_ms -= STEP_MS;
            divided.append(&page.steady_round());
        }
        divided.db.maintain(page.now_ms).expect("maintained");
    }
    assert_eq!(divided.strips(), 4);
}

#[test]
fn containers_with_the_same_time_by_chance_are_told_apart() {
    let mut page = Page::new(4, 2);
    page.merge_containers();
    let mut divided = Written::new(LEAST);
    divided.append(&page.steady_round());
    assert_eq!(divided.strips(), 2);
    page.divide_container();
    for _ in 0..20 {
        divided.append(&page.steady_round());
    }
    let before = divided.out_of_order();
    assert!(
        before <= 3 * LINES as u64,
        "{before} of the rounds before it was seen"
    );
    for _ in 0..20 {
        divided.append(&page.steady_round());
    }
    assert_eq!((divided.out_of_order(), divided.strips_made()), (before, 5));
}

#[test]
fn a_page_whose_groups_change_all_the_time_makes_few_strips() {
    let mut page = Page::new(5, 10);
    let mut divided = Written::new(LEAST);
    for _ in 0..300 {
        let mut frame = page.steady_round();
        let mut columns: Vec<ColumnId> = page
            .containers
            .iter()
            .flat_map(|one| one.columns.clone())
            .collect();
        page.random.shuffle(&mut columns);
        for (at, column) in columns.iter().enumerate() {
            frame.set_time(*column, page.now_ms - 1 - (at / LINES) as i64);
        }
        divided.append(&frame);
    }
    let most = 10 * LINES / LEAST * 5;
    assert!(
        (divided.strips_made() as usize) < most,
        "{}",
        divided.strips_made()
    );
    assert!(divided.binding.as_ref().is_some_and(|binding| {
        binding
            .split
            .as_ref()
            .is_some_and(|split| split.groups() == 0)
    }));
}

#[test]
fn lines_without_common_times_make_no_strips() {
    let mut page = Page::new(6, 4);
    let mut divided = Written::new(LEAST);
    for _ in 0..40 {
        let mut frame = page.steady_round();
        for slot in 10..page.schema.len() {
            frame.set_time(ColumnId(slot as u32), page.now_ms - 1 - slot as i64);
        }
        divided.append(&frame);
    }
    assert_eq!((divided.strips_made(), divided.strips()), (2, 1));
}

/// A page that begins to tell times is divided later; its series move, and the strip they had is left.
#[test]
fn a_page_may_begin_to_have_times() {
    let mut page = Page::new(7, 4);
    let mut divided = Written::new(LEAST);
    for _ in 0..3 {
        let frame = page.steady_round();
        let mut plain = Frame::new(page.schema.clone(), frame.time_ms());
        for slot in frame.present().iter() {
            plain.set(ColumnId(slot as u32), frame.values()[slot]);
        }
        divided.append(&plain);
    }
    assert_eq!(divided.strips(), 1);
    for _ in 0..3 {
        divided.append(&page.steady_round());
    }
    let before = divided.out_of_order();
    for _ in 0..10 {
        divided.append(&page.steady_round());
    }
    assert_eq!(divided.out_of_order(), before);
    assert_eq!(divided.strips(), 6, "with the one that was left");
}

/// A binding that resolves every column anew would be refused memory for series that the database has.
#[test]
fn while_memory_is_short_known_series_go_on_and_the_first_of_an_origin_are_taken() {
    let (disk, clock) = (FaultyIo::new(), ManualClock::new(START_MS));
    let memory = Budget::new("process", 64 << 20);
    let others = memory.account();
    let options = DbOptions {
        memory: memory.clone(),
        ..options()
    };
    let open = || {
        let io = Arc::new(disk.clone());
        Db::open(io, options.clone(), Arc::new(clock.clone())).expect("a database")
    };
    let mut page = Page::new(8, 3);
    let db = open();
    let mut binding = DbBinding::new(Arc::clone(&db.0), &page.schema);
    binding.append(&page.steady_round()).expect("appended");
    disk.kill();
    drop(binding);
    drop(db);
    let db = open();
    others.set(memory.percent(97));
    memory.observe(&PressureLevels::default(), 0);
    let mut binding = DbBinding::new(Arc::clone(&db.0), &page.schema);
    let outcome = binding.append(&page.steady_round()).expect("appended");
    assert_eq!(
        (outcome.accepted, outcome.over_limit),
        (10 + 3 * LINES as u64, 0)
    );
    page.add_container();
    let outcome = binding.append(&page.steady_round()).expect("appended");
    assert_eq!(outcome.over_limit, LINES as u64);
}

#[test]
fn readers_see_all_parts_of_a_round_or_none() {
    let mut page = Page::new(10, 30);
    let mut written = Written::new(LEAST);
    let db = written.db.clone();
    let done = AtomicBool::new(false);
    let newest = |db: &Db| -> BTreeSet<u64> {
        let ctx = Context::unlimited();
        let view = db.view(TimeRange::ALL).expect("a view");
        let all = [Selector::new(Vec::new(), TimeRange::ALL)];
        let prepared = view.prepare(&all, &ctx).expect("prepared");
        let mut found = Vec::new();
        for batch in prepared.batches(0, &ctx).expect("batches") {
            let series: Vec<u32> = (0..batch.len() as u32).collect();
            let last = batch.last(&series, TimeRange::ALL, &mut found, &ctx);
            last.expect("last cells");
        }
        found
            .iter()
            .flatten()
            .map(|last| last.cell as u64)
            .collect()
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..scaled(40_000) {
                let steady = page.steady_round();
                let mut frame = Frame::new(page.schema.clone(), steady.time_ms());
                for slot in steady.present().iter() {
                    let column = ColumnId(slot as u32);
                    frame.set(column, round as f64);
                    if slot >= 10 {
                        frame.set_time(column, page.now_ms - 1 - slot as i64 / 50);
                    }
                }
                written.append(&frame);
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            let rounds = newest(&db);
            assert!(rounds.len() <= 1, "{rounds:?}");
        }
    });
}

/// A start time that ended with a strip's first row in a file of the log came back when the log was replayed: the file said
/// which start times held, and not that one had ended.
#[test]
fn a_start_time_that_ends_with_a_file_of_the_log_stays_ended() {
    let mut page = Page::new(9, 0);
    let mut written = Written::new(LEAST);
    let mut frame = page.steady_round();
    frame.set_start_time(ColumnId(3), START_MS - 1);
    written.append(&frame);
    written.db.0.wal.cut(&written.db.0.head).expect("cut");
    written.append(&page.steady_round());
    let before = dump(&written.db, &[], TimeRange::ALL);
    written.kill();
    assert_eq!(dump(&written.db, &[], TimeRange::ALL), before);
}
