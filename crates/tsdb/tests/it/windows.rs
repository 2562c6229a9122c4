//! Windows of the newest rows, read after every row as rules do, have the samples of the model.
//!
//! The storage keeps them decoded. What may go wrong: rows that were taken back, rows that are on their way to the log,
//! blocks that took rows over, views from before a row, columns that come, histograms, samples out of order, restarts.

use crate::support::options;
use narthex_model::{
    ColumnId, Frame, Histogram, LabelSet, METRIC_NAME, Matcher, MemStore, Schema,
    cell::{self, Cell},
    conformance::BASE_MS,
    metadata::Family,
    storage::{
        Binding, Context, LastCell, Layout, Prepared, Selector, SeriesSample, Sink, Store, Tile,
        TimeRange,
    },
};
use narthex_testkit::{alloc, rng::SplitMix64, scaled};
use narthex_tsdb::{Db, DbOptions, Fault, FaultyIo, Gate, ManualClock, Op};
use std::{collections::BTreeMap, sync::Arc, thread};

const STEP_MS: i64 = 5000;
const ROUNDS: i64 = 70;
/// Rounds and rows of strips where long windows are asked for.
const MANY_ROUNDS: i64 = 150;
const MANY_ROWS: usize = 200;

/// Samples by series: times and bits, those of a histogram its sum's.
type Found = BTreeMap<String, Vec<(i64, u64)>>;

struct Origin {
    schema: Schema,
    /// Of the storage and of the model.
    bindings: Option<(Box<dyn Binding>, Box<dyn Binding>)>,
    values: Vec<f64>,
}

impl Origin {
    fn new(at: u64) -> Self {
        let instance = at.to_string();
        let mut origin = Self {
            schema: Schema::new(LabelSet::new([("instance", &*instance)])),
            bindings: None,
            values: Vec::new(),
        };
        (0..12).for_each(|_| origin.add_column());
        origin
    }

    fn add_column(&mut self) {
        let mut edit = self.schema.edit();
        let family = edit.family(Family::default());
        let (at, name) = (self.values.len(), ["a", "b"][self.values.len() % 2]);
        edit.push(
            &LabelSet::new([(METRIC_NAME, name), ("at", &*at.to_string())]),
            family,
        );
        self.schema = edit.finish();
        self.values.push(0.0);
    }

    fn frame(&mut self, time_ms: i64, random: &mut SplitMix64) -> Frame {
        let mut frame = Frame::new(self.schema.clone(), time_ms);
        for (at, value) in self.values.iter_mut().enumerate() {
            let column = ColumnId(at as u32);
            *value += random.below(90) as f64;
            match random.below(60) {
                0 => {}
                1 => frame.mark_stale(column),
                2 => frame.set(
                    column,
                    *random.pick(&[f64::INFINITY, -0.0, cell::NAN, 0.1, 1e300]),
                ),
                3 if random.one_in(6) => frame.set_histogram(column, Arc::new(histogram(*value))),
                4 => *value = 0.0,
                _ => frame.set(column, *value),
            }
        }
        frame
    }
}

fn histogram(sum: f64) -> Histogram {
    Histogram {
        sum,
        ..Histogram::default()
    }
}

/// What rules ask, and for how long a time.
fn selectors(time_ms: i64) -> Vec<Selector> {
    let matchers = [
        vec![Matcher::equal(METRIC_NAME, "a")],
        vec![
            Matcher::equal(METRIC_NAME, "b"),
            Matcher::equal("instance", "1"),
        ],
        vec![Matcher::equal(METRIC_NAME, "a"), Matcher::equal("at", "4")],
    ];
    let windows = [
        (0, 20_000),
        (0, 60_000),
        (1, 20_000),
        (1, 31_000),
        (2, 47_000),
        (0, 20_000),
        (0, 400_000),
        (2, 450_000),
    ];
    let selector = |(which, window_ms): (usize, i64)| {
        let range = TimeRange::new(time_ms - window_ms + 1, time_ms);
        Selector::new(matchers[which].clone(), range)
    };
    windows.into_iter().map(selector).collect()
}

fn read(prepared: &dyn Prepared, at: usize, range: TimeRange, random: &mut SplitMix64) -> Found {
    let ctx = Context::unlimited();
    let mut found = Found::new();
    let mut tile = Tile::default();
    for batch in prepared.batches(at, &ctx).expect("batches") {
        let all: Vec<u32> = (0..batch.len() as u32).collect();
        let layout = *random.pick(&[Layout::SeriesMajor, Layout::TimeMajor]);
        let rows = batch.rows(range);
        batch
            .read(&all, range, layout, &mut tile, &ctx)
            .expect("cells");
        assert!(tile.times_ms.len() <= rows);
        let mut last = Vec::new();
        batch.last(&all, range, &mut last, &ctx).expect("cells");
        for (series, last) in last.iter().enumerate() {
            let newest = LastCell::newest_of(&tile, series);
            let bits = |cell: &LastCell| match &cell.histogram {
                Some(histogram) => (cell.time_ms, histogram.sum.to_bits()),
                None => (cell.time_ms, cell.cell.to_bits()),
            };
            assert_eq!(last.as_ref().map(bits), newest.as_ref().map(bits));
        }
        for series in 0..batch.len() {
            let cells = tile
                .times_ms
                .iter()
                .enumerate()
                .filter_map(|(row, time_ms)| {
                    let value = tile.get(row, series);
                    match Cell::decode(value) {
                        Cell::Absent => None,
                        Cell::Histogram(index) => {
                            Some((*time_ms, tile.histograms[index as usize].sum.to_bits()))
                        }
                        _ => Some((*time_ms, value.to_bits())),
                    }
                });
            let of_series = found.entry(batch.labels(series).to_string()).or_default();
            of_series.extend(cells);
        }
    }
    found.retain(|_, samples| {
        samples.sort_unstable();
        !samples.is_empty()
    });
    found
}

fn open(disk: &FaultyIo, options: &DbOptions, now_ms: i64) -> Db {
    let clock = Arc::new(ManualClock::new(now_ms));
    Db::open(Arc::new(disk.clone()), options.clone(), clock).expect("a healthy store")
}

/// A storage and its model.
struct Pair {
    random: SplitMix64,
    disk: FaultyIo,
    options: DbOptions,
    db: Db,
    model: MemStore,
    origins: Vec<Origin>,
    /// What was prepared and is read after later rows.
    earlier: Option<Asked>,
    compared: usize,
    refused: usize,
    /// Rows that were on their way to the log while windows were read.
    asked_early: usize,
}

struct Asked {
    prepared: Box<dyn Prepared>,
    selectors: Vec<Selector>,
    expected: Vec<Found>,
    what: String,
}

impl Pair {
    fn new(seed: u64, is_long: bool) -> Self {
        let mut random = SplitMix64::new(seed);
        let (disk, mut options) = (FaultyIo::new(), options());
        options.flush_rows = if is_long {
            MANY_ROWS
        } else {
            10 + random.index(50)
        };
        options.block_window_ms = *random.pick(&[60_000, 7_200_000]);
        Self {
            db: open(&disk, &options, BASE_MS),
            random,
            disk,
            options,
            model: MemStore::new(),
            origins: (0..3).map(Origin::new).collect(),
            earlier: None,
            compared: 0,
            refused: 0,
            asked_early: 0,
        }
    }

    fn append(&mut self, time_ms: i64, what: &str) {
        for at in 0..self.origins.len() {
            if self.random.one_in(25) {
                self.origins[at].add_column();
            }
            let frame = self.origins[at].frame(time_ms, &mut self.random);
            let schema = self.origins[at].schema.clone();
            let (mut own, mut other) = self.origins[at].bindings.take().unwrap_or_else(|| {
                let own = self.db.bind(&schema).expect("bound");
                (own, self.model.bind(&schema).expect("bound"))
            });
            let is_watched = self.random.one_in(40);
            // Ends that the disk has no room for are stored later, unlike in the model.
            let fails = self.random.one_in(if is_watched { 4 } else { 300 });
            let fails = fails && frame.stale().is_empty();
            let stored = if is_watched {
                self.append_while_asked(&mut *own, &frame, fails, what)
            } else {
                self.fill_disk(fails);
                own.append(&frame).is_ok()
            };
            if stored {
                other.append(&frame).expect("appended");
            }
            self.origins[at].bindings = Some((own, other));
            if fails {
                assert!(!stored, "{what}");
                self.refused += 1;
                self.empty_disk(time_ms);
            }
            if self.random.one_in(30) {
                self.append_late(at, time_ms);
            }
        }
    }

    /// Stores a frame; before it is written, or refused, the windows are read: nobody sees it, and nothing is kept of it.
    fn append_while_asked(
        &mut self,
        binding: &mut dyn Binding,
        frame: &Frame,
        fails: bool,
        what: &str,
    ) -> bool {
        let gate = Gate::new();
        let on_its_way = Fault::on(Op::Append).in_path("wal").hang(&gate);
        self.disk.inject(on_its_way);
        thread::scope(|scope| {
            let stored = scope.spawn(|| binding.append(frame).is_ok());
            assert!(gate.wait_for_one(), "{what}: it writes nothing");
            let what = format!("{what}, before a row is written");
            for _ in 0..2 {
                self.ask(frame.time_ms(), &what);
            }
            self.fill_disk(fails);
            gate.open();
            self.asked_early += 1;
            stored.join().expect("no panic")
        })
    }

    fn fill_disk(&self, fails: bool) {
        if fails {
            self.disk.set_capacity(self.disk.used_bytes());
        }
    }

    /// Makes room, and waits until it is found.
    fn empty_disk(&self, time_ms: i64) {
        self.disk.set_capacity(u64::MAX);
        let probe = LabelSet::new([(METRIC_NAME, "probe"), ("at", &*time_ms.to_string())]);
        let probe = [SeriesSample::float(probe, time_ms, 1.0)];
        while self.db.append_samples(&probe).is_err() {
            thread::yield_now();
        }
    }

    fn append_late(&self, at: usize, time_ms: i64) {
        let instance = at.to_string();
        let labels = [(METRIC_NAME, "a"), ("at", "4"), ("instance", &*instance)];
        let late_ms = time_ms - 7001;
        let late = [SeriesSample::float(LabelSet::new(labels), late_ms, 0.5)];
        self.db.append_samples(&late).expect("appended");
        self.model.append_samples(&late).expect("appended");
    }

    fn ask(&mut self, time_ms: i64, what: &str) {
        let random = &mut self.random;
        let ctx = Context::unlimited();
        let selectors = selectors(time_ms + 10_000 - (random.below(7) as i64) * 2500);
        let ranges = selectors.iter().map(|selector| selector.range);
        let range = ranges.reduce(TimeRange::hull).expect("selectors");
        let reference = self.model.prepare(range, &selectors, &ctx);
        let reference = reference.expect("prepared");
        let expected: Vec<Found> = (0..selectors.len())
            .map(|at| read(&*reference, at, selectors[at].range, random))
            .collect();
        let series = expected.iter().flat_map(BTreeMap::values);
        self.compared += series.map(Vec::len).sum::<usize>();
        let asked = Asked {
            prepared: self.db.prepare(range, &selectors, &ctx).expect("prepared"),
            selectors,
            expected,
            what: what.to_owned(),
        };
        if random.one_in(3) {
            self.earlier = Some(asked);
            return;
        }
        asked.compare(random);
        if let Some(earlier) = self.earlier.take() {
            earlier.compare(random);
        }
    }

    fn change(&mut self, time_ms: i64) {
        match self.random.below(30) {
            0 if self.options.flush_rows < MANY_ROWS || self.random.one_in(8) => {
                self.db.flush().expect("flushed");
            }
            1 => {
                self.earlier = None;
                self.origins
                    .iter_mut()
                    .for_each(|origin| origin.bindings = None);
                self.db.close().expect("closed");
                self.db = open(&self.disk, &self.options, time_ms);
            }
            _ => {}
        }
    }
}

impl Asked {
    /// Reads all selectors; the storage's answer is the model's.
    fn compare(&self, random: &mut SplitMix64) {
        for (at, selector) in self.selectors.iter().enumerate() {
            let found = read(&*self.prepared, at, selector.range, random);
            assert_eq!(found, self.expected[at], "{}, {selector:?}", self.what);
        }
    }
}

#[test]
fn windows_that_are_read_again_are_those_of_the_model() {
    let (mut compared, mut refused, mut asked_early) = (0, 0, 0);
    let seeds = scaled(12);
    for seed in 1..=seeds {
        let is_long = seed % 6 == 0;
        let mut pair = Pair::new(seed, is_long);
        for round in 0..if is_long { MANY_ROUNDS } else { ROUNDS } {
            let time_ms = BASE_MS + round * STEP_MS;
            let what = format!("seed {seed}, round {round}");
            pair.append(time_ms, &what);
            for _ in 0..1 + pair.random.below(3) {
                pair.ask(time_ms, &what);
            }
            pair.change(time_ms);
        }
        compared += pair.compared;
        refused += pair.refused;
        asked_early += pair.asked_early;
    }
    assert!(compared as u64 > 100_000 * seeds, "{compared}");
    // At least as many a seed as ever.
    let (refused, asked_early) = (12 * refused as u64, 12 * asked_early as u64);
    assert!(
        refused > 10 * seeds && asked_early > 40 * seeds,
        "{refused}, {asked_early}"
    );
}

#[test]
fn few_newest_rows_are_read_without_a_copy_of_their_row_chunk() {
    const ROWS: i64 = 100;
    let (disk, options) = (FaultyIo::new(), options());
    let db = open(&disk, &options, BASE_MS);
    let mut origin = Origin::new(0);
    (0..388).for_each(|_| origin.add_column());
    let mut binding = db.bind(&origin.schema).expect("bound");
    let time_ms = |row: i64| BASE_MS + row * STEP_MS;
    for row in 0..ROWS {
        let mut frame = Frame::new(origin.schema.clone(), time_ms(row));
        for column in 0..400_u32 {
            frame.set(ColumnId(column), (row * row) as f64 * f64::from(column + 1));
        }
        binding.append(&frame).expect("appended");
    }
    let ctx = Context::unlimited();
    // Two other columns with each question, so that no window answers.
    let taken = |first: u32, rows: i64| {
        let range = TimeRange::new(time_ms(ROWS - rows), time_ms(ROWS - 1));
        let selector = Selector::new(vec![Matcher::equal(METRIC_NAME, "a")], range);
        let prepared = db.prepare(range, &[selector], &ctx).expect("prepared");
        let batches = prepared.batches(0, &ctx).expect("batches");
        let mut tile = Tile::default();
        let (_, memory) = alloc::measured(|| {
            batches[0].read(
                &[first, first + 1],
                range,
                Layout::SeriesMajor,
                &mut tile,
                &ctx,
            )
        });
        assert_eq!(tile.times_ms.len() as i64, rows);
        for (at, series) in [first, first + 1].into_iter().enumerate() {
            let column = 2 * series;
            for (row, cell) in (ROWS - rows..ROWS).enumerate() {
                let expected = (cell * cell) as f64 * f64::from(column + 1);
                assert_eq!(tile.get(row, at), expected, "column {column}, row {cell}");
            }
        }
        memory.total_bytes
    };
    let (few, many) = (taken(0, 10), taken(2, ROWS));
    assert!(few < 5000 && many > 10_000, "{few} bytes, then {many}");
}
