//! Clocks set wrong, and right again: at the start and while samples arrive, by an hour, a day, ten years.
//!
//! Whatever the clock shows, no block is removed before its time has really passed, old blocks are still removed, and
//! rows stay rows.

use crate::support::{ROOT, options};
use narthex_client::Registry;
use narthex_model::{
    ColumnId, Frame, LabelSet, METRIC_NAME, Matcher, Schema,
    conformance::{BASE_MS, dump},
    metadata::Family,
    storage::{Binding, Outcome, SeriesSample, Sink, Store, TimeRange},
};
use narthex_tsdb::{Db, DbOptions, FaultyIo, ManualClock, Tuning};
use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;
const STEPS_MS: [i64; 3] = [HOUR_MS, DAY_MS, 3653 * DAY_MS];
const COLUMNS: usize = 4;

/// A server that scrapes one target every minute, at the time its clock shows, and its machine.
struct Server {
    disk: FaultyIo,
    clock: ManualClock,
    options: DbOptions,
    db: Db,
    registry: Registry,
    schema: Schema,
    binding: Box<dyn Binding>,
    /// Correct time.
    true_ms: i64,
    /// Error of the clock.
    wrong_ms: i64,
    /// The times of all rounds.
    rounds: BTreeSet<i64>,
}

impl Server {
    /// Keeps samples for `retention_ms`.
    fn new(retention_ms: i64) -> Self {
        let options = DbOptions {
            flush_rows: 20,
            tuning: Tuning {
                retention_ms: Some(retention_ms),
                ..Tuning::default()
            },
            ..options()
        };
        let (disk, clock) = (FaultyIo::new(), ManualClock::new(BASE_MS));
        let (db, registry) = open(&disk, &options, &clock);
        let schema = schema();
        let binding = db.bind(&schema).expect("a binding");
        Self {
            disk,
            clock,
            options,
            db,
            registry,
            schema,
            binding,
            true_ms: BASE_MS,
            wrong_ms: 0,
            rounds: BTreeSet::new(),
        }
    }

    /// Sets the clock, to be wrong by `wrong_ms`.
    fn set_clock(&mut self, wrong_ms: i64) {
        self.wrong_ms = wrong_ms;
        self.clock.step_to(self.true_ms + wrong_ms);
    }

    /// Kills the process, and restarts it after a while.
    fn restart(&mut self, away_ms: i64) {
        self.disk.kill();
        self.true_ms += away_ms;
        // No process was running to see time pass.
        self.clock = ManualClock::new(self.true_ms + self.wrong_ms);
        (self.db, self.registry) = open(&self.disk, &self.options, &self.clock);
        assert_eq!(self.db.damage(), []);
        self.binding = self.db.bind(&self.schema).expect("a binding");
    }

    /// Scrapes for a while.
    fn run(&mut self, ms: i64) {
        for _ in 0..ms / MINUTE_MS {
            self.true_ms += MINUTE_MS;
            let time_ms = self.true_ms + self.wrong_ms;
            self.clock.set(time_ms);
            let outcome = self.append(time_ms);
            if self.rounds.insert(time_ms) {
                assert_eq!(outcome.accepted, COLUMNS as u64, "{outcome:?}");
            }
            for _ in 0..3 {
                self.db.maintain(time_ms).expect("maintained");
            }
        }
    }

    fn append(&mut self, time_ms: i64) -> Outcome {
        let mut frame = Frame::new(self.schema.clone(), time_ms);
        for at in 0..COLUMNS as u32 {
            frame.set(ColumnId(at), f64::from(at) + (time_ms / 1000 % 977) as f64);
        }
        self.binding.append(&frame).expect("appended")
    }

    /// Lists the times served; every one must have all columns, once.
    fn served(&self) -> BTreeSet<i64> {
        let all = dump(&self.db, &[Matcher::equal("job", "clock")], TimeRange::ALL);
        let times = |samples: &Vec<(i64, _, i64)>| -> Vec<i64> {
            samples.iter().map(|sample| sample.0).collect()
        };
        let mut series = all.values().map(times);
        let first = series.next().unwrap_or_default();
        assert!(series.all(|other| other == first), "all columns alike");
        first.into_iter().collect()
    }

    fn blocks(&self) -> BTreeSet<PathBuf> {
        let dir = PathBuf::from(ROOT).join("blocks");
        let paths = self.disk.paths().into_iter();
        paths.filter(|path| path.starts_with(&dir)).collect()
    }

    fn metric(&self, name: &str) -> f64 {
        let mut text = Vec::new();
        self.registry.encode_text(&mut text);
        let text = String::from_utf8(text).expect("text");
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        value.expect("a metric").trim().parse().expect("a number")
    }

    /// Fails unless every round is served and nothing else.
    fn check_all(&self, what: &str) {
        let served = self.served();
        let lost: Vec<_> = self.rounds.difference(&served).take(5).collect();
        assert!(lost.is_empty(), "{what}: lost {lost:?} and more");
        assert_eq!(served.len(), self.rounds.len(), "{what}");
    }

    /// Fails unless everything of the last `ms` of true time is served, and nothing of more than two hours before.
    fn check_kept(&self, ms: i64, what: &str) {
        let served = self.served();
        let from_ms = self.true_ms - ms;
        let lost: Vec<i64> = self
            .rounds
            .range(from_ms..=self.true_ms)
            .filter(|time_ms| !served.contains(time_ms))
            .copied()
            .collect();
        assert!(
            lost.is_empty(),
            "{what}: lost {} from {:?} on",
            lost.len(),
            lost[0]
        );
        let oldest = served.first().expect("samples");
        let age_ms = self.true_ms - oldest;
        assert!(age_ms < ms + 3 * HOUR_MS, "{what}: {age_ms} ms are kept");
    }
}

fn open(disk: &FaultyIo, options: &DbOptions, clock: &ManualClock) -> (Db, Registry) {
    let io = Arc::new(disk.clone());
    let db = Db::open(io, options.clone(), Arc::new(clock.clone())).expect("a database");
    let registry = Registry::new();
    db.register_metrics(&registry).expect("registered");
    (db, registry)
}

fn schema() -> Schema {
    let mut edit = Schema::new(LabelSet::new([("job", "clock")])).edit();
    let family = edit.family(Family::default());
    for at in 0..COLUMNS {
        let at = at.to_string();
        edit.push(&LabelSet::new([(METRIC_NAME, "m"), ("at", &at)]), family);
    }
    edit.finish()
}

const OUT_OF_ORDER: &str = "narthex_tsdb_head_out_of_order_samples_appended_total";

/// A clock set forward while the server ran removed every block within ten seconds.
#[test]
fn a_clock_set_forward_removes_nothing_and_what_is_old_still_goes() {
    for step_ms in STEPS_MS {
        let mut server = Server::new(12 * HOUR_MS);
        server.run(14 * HOUR_MS);
        server.check_kept(12 * HOUR_MS, "before");
        server.set_clock(step_ms);
        server.run(2 * HOUR_MS);
        let served = server.served();
        let wrong = served.range(server.true_ms + 1..).count();
        assert!(wrong > 0 || step_ms < 2 * HOUR_MS, "rounds go on");
        server.check_kept(12 * HOUR_MS, "while it was wrong");
        let late = SeriesSample::float(
            LabelSet::new([(METRIC_NAME, "from_a_sender")]),
            server.true_ms,
            1.0,
        );
        let outcome = server.db.append_samples(&[late]).expect("appended");
        assert_eq!(outcome.accepted, 1, "who has the right time is taken");
        server.set_clock(0);
        server.run(2 * HOUR_MS);
        server.check_kept(12 * HOUR_MS, "put right");
        assert_eq!(server.db.clock_doubt_ms(), 0, "{step_ms}");
    }
}

/// After a correction all samples were late, one by one, until time caught up with the wrong clock.
#[test]
fn rows_stay_rows_after_a_clock_was_put_right() {
    for step_ms in STEPS_MS {
        let mut server = Server::new(12 * HOUR_MS);
        server.run(HOUR_MS);
        server.set_clock(step_ms);
        server.run(HOUR_MS);
        server.set_clock(0);
        server.run(HOUR_MS / 2);
        assert_eq!(
            server.metric(OUT_OF_ORDER),
            0.0,
            "{step_ms}: no sample is out of order"
        );
        assert_eq!(
            server.metric("narthex_tsdb_head_strips"),
            1.0,
            "{step_ms}: what was ahead is in blocks"
        );
        server.check_all("put right");
        server.restart(MINUTE_MS);
        server.run(HOUR_MS / 2);
        assert_eq!(
            server.metric(OUT_OF_ORDER),
            0.0,
            "{step_ms}: nor after a restart"
        );
        server.check_all("started again");
    }
}

/// The same, when the process is killed before samples from ahead of time are in blocks.
#[test]
fn a_restart_with_the_right_clock_goes_on_with_rows() {
    for step_ms in STEPS_MS {
        let mut server = Server::new(12 * HOUR_MS);
        server.run(HOUR_MS);
        server.set_clock(step_ms);
        server.run(10 * MINUTE_MS);
        server.set_clock(0);
        server.restart(0);
        server.run(30 * MINUTE_MS);
        assert_eq!(server.metric(OUT_OF_ORDER), 0.0, "{step_ms}");
        server.check_all("put right");
    }
}

#[test]
fn a_clock_set_back_loses_no_round_and_no_block() {
    for step_ms in STEPS_MS {
        let mut server = Server::new(12 * HOUR_MS);
        server.run(14 * HOUR_MS);
        // Off the minutes that have samples.
        server.set_clock(-step_ms - 7000);
        let before = server.rounds.len();
        server.run(HOUR_MS);
        assert_eq!(server.rounds.len(), before + 60, "every round has its time");
        assert_eq!(server.metric(OUT_OF_ORDER), 0.0, "{step_ms}: rows are rows");
        server.set_clock(0);
        server.run(HOUR_MS);
        assert_eq!(server.metric(OUT_OF_ORDER), 0.0, "{step_ms}: rows are rows");
        server.check_kept(12 * HOUR_MS, "put right");
    }
}

/// A machine without a battery for its clock starts at any time.
#[test]
fn a_start_with_a_wrong_clock_removes_nothing() {
    for step_ms in STEPS_MS {
        let mut server = Server::new(12 * HOUR_MS);
        server.run(14 * HOUR_MS);
        server.wrong_ms = step_ms;
        server.restart(MINUTE_MS);
        server.run(HOUR_MS);
        server.check_kept(12 * HOUR_MS, "started ahead");
        server.restart(MINUTE_MS);
        server.run(HOUR_MS);
        server.check_kept(12 * HOUR_MS, "started ahead once more");
        server.set_clock(0);
        server.run(HOUR_MS);
        server.check_kept(12 * HOUR_MS, "put right");

        let mut server = Server::new(12 * HOUR_MS);
        server.run(14 * HOUR_MS);
        let blocks = server.blocks();
        server.wrong_ms = -step_ms;
        server.restart(MINUTE_MS);
        server.run(HOUR_MS);
        assert!(server.blocks().is_superset(&blocks), "started behind");
        server.set_clock(0);
        server.run(HOUR_MS);
        server.check_kept(12 * HOUR_MS, "put right");
        let doubt_ms = server.db.clock_doubt_ms();
        assert!(doubt_ms < 2 * HOUR_MS, "{doubt_ms} ms stop retention");
    }
}

/// A server that was really off for a month believes its clock after a while.
#[test]
fn what_is_truly_old_goes_once_the_clock_is_believed() {
    let mut server = Server::new(12 * HOUR_MS);
    server.run(14 * HOUR_MS);
    let old = server.blocks();
    server.restart(30 * DAY_MS);
    server.run(11 * HOUR_MS);
    assert!(!server.blocks().is_disjoint(&old), "not believed yet");
    server.run(3 * HOUR_MS);
    assert!(server.blocks().is_disjoint(&old), "{:?}", server.blocks());
    server.check_kept(12 * HOUR_MS, "goes on");
}

/// Samples from a clock ten years ahead would stay for ten years.
#[test]
fn blocks_from_the_future_go_when_as_much_as_is_kept_was_stored_after_them() {
    let mut server = Server::new(12 * HOUR_MS);
    server.run(2 * HOUR_MS);
    server.set_clock(3653 * DAY_MS);
    server.run(HOUR_MS);
    server.set_clock(0);
    server.run(8 * HOUR_MS);
    server.check_all("they are served");
    // Nobody has seen them come.
    server.restart(MINUTE_MS);
    server.run(6 * HOUR_MS);
    let served = server.served();
    assert_eq!(
        served.range(server.true_ms + 1..).count(),
        0,
        "they are gone"
    );
    server.check_kept(12 * HOUR_MS, "the others");
}

#[test]
fn the_oldest_go_for_room_and_not_the_newest_before_those_from_the_future() {
    let mut server = Server::new(12 * HOUR_MS);
    server.options.tuning.retention_ms = None;
    server.restart(0);
    server.run(3 * HOUR_MS);
    server.set_clock(3653 * DAY_MS);
    server.run(HOUR_MS);
    server.set_clock(0);
    server.run(6 * HOUR_MS);
    let bytes = server.disk.used_bytes();
    server.db.tune(&Tuning {
        retention_ms: None,
        retention_bytes: Some(bytes / 2),
        ..Tuning::default()
    });
    server.run(MINUTE_MS);
    let served = server.served();
    assert_eq!(
        served.range(server.true_ms + 1..).count(),
        0,
        "they are gone"
    );
    let kept: Vec<i64> = served.iter().copied().collect();
    let newest: Vec<i64> = server
        .rounds
        .range(kept[0]..=server.true_ms)
        .copied()
        .collect();
    assert!(kept == newest, "the newest are there, without a gap");
}

#[test]
fn samples_too_far_ahead_are_refused_and_counted() {
    let mut server = Server::new(12 * HOUR_MS);
    server.run(HOUR_MS);
    let now_ms = server.true_ms;
    let limit_ms = now_ms + 10 * MINUTE_MS;
    // A page that puts times on its lines: one of them is ahead, or most.
    for ahead in [1, COLUMNS - 1] {
        let mut frame = Frame::new(server.schema.clone(), now_ms + 1 + ahead as i64);
        for at in 0..COLUMNS as u32 {
            frame.set(ColumnId(at), 1.0);
            if (at as usize) < ahead {
                frame.set_time(ColumnId(at), limit_ms + 1);
            }
        }
        let outcome = server.binding.append(&frame).expect("appended");
        let expected = (ahead as u64, (COLUMNS - ahead) as u64);
        assert_eq!((outcome.too_new, outcome.accepted), expected);
    }
    assert_eq!(server.metric(OUT_OF_ORDER), 0.0, "the others are rows");
    let outcome = server.append(limit_ms + 1);
    assert_eq!((outcome.too_new, outcome.accepted), (COLUMNS as u64, 0));
    let sample = |time_ms| {
        let labels = LabelSet::new([(METRIC_NAME, "pushed")]);
        [SeriesSample::float(labels, time_ms, 1.0)]
    };
    let pushed = |server: &Server, time_ms| {
        server
            .db
            .append_samples(&sample(time_ms))
            .expect("appended")
    };
    assert_eq!(pushed(&server, limit_ms).accepted, 1);
    let refused = pushed(&server, limit_ms + 1);
    assert_eq!((refused.too_new, refused.accepted), (1, 0));
    let refused = 1 + (COLUMNS - 1) + COLUMNS + 1;
    assert_eq!(
        server.metric("narthex_tsdb_too_new_samples_total"),
        refused as f64
    );
    let newest = server.db.time_range().expect("samples").max_ms;
    assert_eq!(newest, limit_ms);
    // The limit can be changed while the database is open, and be none.
    server.db.tune(&Tuning {
        future_limit_ms: None,
        ..Tuning::default()
    });
    assert_eq!(pushed(&server, now_ms + 3653 * DAY_MS).accepted, 1);
}
