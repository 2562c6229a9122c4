//! The storage engine under rules: series come as rows when their time comes, blocks are made meanwhile, and a restart
//! is a kill.

use narthex_model::{
    ColumnId, Frame, LabelSet, Schema,
    cell::is_stale,
    metadata::Family,
    storage::{Binding, Sink as _},
};
use narthex_promql::testing::SeriesValue;
use narthex_tsdb::{Db, DbOptions, FaultyIo, ManualClock, Tuning};
use std::{collections::BTreeMap, sync::Arc};

/// A series, with a value for each step.
pub(crate) type Series = (LabelSet, Vec<SeriesValue>);

pub(crate) struct Engine {
    pub(crate) db: Db,
    disk: FaultyIo,
    targets: Vec<Target>,
    step_ms: i64,
    /// The first step that is not stored.
    next: usize,
}

/// Series with the same label `a`, which come together.
struct Target {
    schema: Schema,
    values: Vec<Vec<SeriesValue>>,
    binding: Option<Box<dyn Binding>>,
}

impl Engine {
    pub(crate) fn new(series: Vec<Series>, step_ms: i64) -> Self {
        let disk = FaultyIo::new();
        let mut targets: BTreeMap<String, Vec<Series>> = BTreeMap::new();
        for one in series {
            let name = one.0.get("a").unwrap_or_default().to_owned();
            targets.entry(name).or_default().push(one);
        }
        let targets = targets.into_iter();
        Self {
            db: open(&disk, 0),
            disk,
            targets: targets.map(|(a, series)| Target::new(&a, series)).collect(),
            step_ms,
            next: 0,
        }
    }

    /// Stores what comes up to `time_ms`, and does what is due then.
    pub(crate) fn advance(&mut self, time_ms: i64) {
        while self.next as i64 * self.step_ms <= time_ms {
            let now_ms = self.next as i64 * self.step_ms;
            for target in &mut self.targets {
                target.append(&self.db, self.next, now_ms);
            }
            self.next += 1;
        }
        self.db.maintain(time_ms).unwrap();
    }

    /// Ends as a killed process does, and begins again.
    pub(crate) fn restart(&mut self, time_ms: i64) {
        for target in &mut self.targets {
            target.binding = None;
        }
        self.disk.kill();
        self.db = open(&self.disk, time_ms);
    }
}

fn open(disk: &FaultyIo, now_ms: i64) -> Db {
    let options = DbOptions {
        tuning: Tuning {
            future_limit_ms: None,
            ..Tuning::default()
        },
        // Small, so that a test sees many blocks.
        flush_rows: 50,
        block_window_ms: 20 * 60_000,
        wal_file_bytes: 50_000,
        ..DbOptions::new("/data")
    };
    let clock = Arc::new(ManualClock::new(now_ms));
    Db::open(Arc::new(disk.clone()), options, clock).unwrap()
}

impl Target {
    fn new(a: &str, series: Vec<Series>) -> Self {
        let common = LabelSet::new([("a", a)].into_iter().filter(|(_, a)| !a.is_empty()));
        let mut edit = Schema::new(common).edit();
        let family = edit.family(Family::default());
        let mut values = Vec::new();
        for (labels, of_series) in series {
            edit.push(&labels.without(&["a"]), family);
            values.push(of_series);
        }
        Self {
            schema: edit.finish(),
            values,
            binding: None,
        }
    }

    fn append(&mut self, db: &Db, step: usize, time_ms: i64) {
        let mut frame = Frame::new(self.schema.clone(), time_ms);
        for (at, values) in self.values.iter().enumerate() {
            let column = ColumnId(at as u32);
            match values.get(step) {
                Some(SeriesValue::Float(value)) if is_stale(*value) => frame.mark_stale(column),
                Some(SeriesValue::Float(value)) => frame.set(column, *value),
                Some(SeriesValue::Histogram { histogram, .. }) => {
                    frame.set_histogram(column, Arc::clone(histogram));
                }
                Some(SeriesValue::Missing) | None => {}
            }
        }
        let binding = match &mut self.binding {
            Some(binding) => binding,
            none => none.insert(db.bind(&self.schema).unwrap()),
        };
        binding.append(&frame).unwrap();
    }
}
