//! Targets replaced all day long: dead series cost disk, not memory.
//!
//! Memory is measured to the byte for the test's thread, so that a leak of one label set per replacement shows. Each
//! test has its own process: the tables of labels are process-wide, and grow on whichever thread fills them.

use crate::support::options;
use narthex_model::{
    ColumnId, Frame, LabelSet, METRIC_NAME, Schema,
    conformance::BASE_MS,
    metadata::Family,
    storage::{Binding, Sink},
};
use narthex_testkit::{TempDir, alloc, alone, rng::SplitMix64, scaled};
use narthex_tsdb::{Db, DbOptions, ManualClock, RealIo};
use std::sync::Arc;

const STEP_MS: i64 = 15_000;
const MINUTE_MS: i64 = 60_000;
/// Between replacements.
const LIFE_MS: i64 = 15 * MINUTE_MS;
const TARGETS: usize = 20;
const SERIES: usize = 100;

/// Owner of the labels that change with a replacement.
#[derive(Clone, Copy, Debug)]
enum Churning {
    /// The target: all of its series share them.
    Targets,
    /// The series: nothing is shared with earlier series or other targets.
    Series,
}

struct Target {
    schema: Schema,
    binding: Box<dyn Binding>,
}

/// A fleet, six tenths of whose targets are replaced from time to time.
struct Fleet {
    kind: Churning,
    clock: ManualClock,
    db: Db,
    now_ms: i64,
    rng: SplitMix64,
    targets: Vec<Target>,
    made: usize,
    _dir: TempDir,
}

impl Fleet {
    fn new(kind: Churning) -> Self {
        let dir = TempDir::new("churn");
        let options = DbOptions {
            path: dir.join("data"),
            cache_bytes: 64 << 10,
            ..options()
        };
        let clock = ManualClock::new(BASE_MS);
        let db = Db::open(Arc::new(RealIo), options, Arc::new(clock.clone())).expect("a database");
        let mut fleet = Self {
            kind,
            clock,
            db,
            now_ms: BASE_MS,
            rng: SplitMix64::new(5),
            targets: Vec::new(),
            made: 0,
            _dir: dir,
        };
        fleet.targets = (0..TARGETS).map(|_| fleet.target()).collect();
        fleet
    }

    /// Returns a target that never existed before.
    fn target(&mut self) -> Target {
        let pod = format!("pod-with-a-long-name-{}", self.made);
        self.made += 1;
        let common = match self.kind {
            Churning::Targets => LabelSet::new([("job", "churn"), ("pod", pod.as_str())]),
            Churning::Series => LabelSet::new([("job", "churn")]),
        };
        let mut edit = Schema::new(common).edit();
        let family = edit.family(Family {
            name: "m".into(),
            ..Family::default()
        });
        for at in 0..SERIES {
            let at = at.to_string();
            let set = LabelSet::new([(METRIC_NAME, "m"), ("at", at.as_str())]);
            let set = match self.kind {
                Churning::Targets => set,
                Churning::Series => set.with("pod", &pod),
            };
            edit.push(&set, family);
        }
        let schema = edit.finish();
        let binding = self.db.bind(&schema).expect("a binding");
        Target { schema, binding }
    }

    fn replace(&mut self) {
        for at in 0..TARGETS {
            if self.rng.below(10) < 6 {
                let next = self.target();
                let mut old = std::mem::replace(&mut self.targets[at], next);
                let mut end = Frame::new(old.schema.clone(), self.now_ms);
                (0..SERIES as u32).for_each(|at| end.mark_stale(ColumnId(at)));
                old.binding.append(&end).expect("appended");
            }
        }
    }

    /// Runs one life of the fleet; returns the peak of memory held at the end of a minute, bytes.
    fn live(&mut self) -> i64 {
        let mut most = i64::MIN;
        for second in 1..=LIFE_MS / 1000 {
            self.now_ms += 1000;
            self.clock.set(self.now_ms);
            if second * 1000 % STEP_MS == 0 {
                self.round();
            }
            self.db.maintain(self.now_ms).expect("maintained");
            if second * 1000 % MINUTE_MS == 0 {
                most = most.max(alloc::thread().live_bytes);
            }
        }
        most
    }

    fn round(&mut self) {
        for target in &mut self.targets {
            let mut frame = Frame::new(target.schema.clone(), self.now_ms);
            for at in 0..SERIES as u32 {
                let seconds = (self.now_ms - BASE_MS) / 1000;
                frame.set(ColumnId(at), f64::from(at) + (seconds / 7) as f64);
            }
            target.binding.append(&frame).expect("appended");
        }
    }
}

fn a_day_of_churn(kind: Churning) {
    let before = alloc::thread().live_bytes;
    let mut fleet = Fleet::new(kind);
    let without = fleet.live() - before;
    let lives = scaled(24).clamp(16, 96);
    let mut held = Vec::new();
    for _ in 0..lives {
        fleet.replace();
        held.push((fleet.live() - before) >> 10);
    }
    let most = |held: &[i64]| held.iter().copied().max().expect("a life");
    // Blocks are two hours long: the first ones include everything. No merge is under way when a minute ends, however
    // busy the machine is: the database's clock stands still while it works.
    let (first, later) = held.split_at(8);
    assert!(
        most(later) * 4 <= most(first) * 5,
        "memory grows by replacements: {first:?}, then {later:?} KiB"
    );
    // The last dead series leave, and memory is as in the beginning, but for tables as long as there were series once.
    fleet.live();
    let quiet = fleet.live() - before;
    assert!(
        quiet * 5 <= without * 8,
        "{} KiB without replacements, {} KiB after them",
        without >> 10,
        quiet >> 10
    );
}

#[test]
fn a_day_of_replaced_targets_costs_no_memory() {
    alone("churn::a_day_of_replaced_targets_costs_no_memory", || {
        a_day_of_churn(Churning::Targets);
    });
}

#[test]
fn a_day_of_replaced_series_costs_no_memory() {
    alone("churn::a_day_of_replaced_series_costs_no_memory", || {
        a_day_of_churn(Churning::Series);
    });
}
