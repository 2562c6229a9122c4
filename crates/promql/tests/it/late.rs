//! A helper that gets no CPU for a moment goes on helping afterwards.

use narthex_model::{
    LabelSet, METRIC_NAME,
    storage::{
        Batch, Context, Estimate, Helpers, Layout, Prepared, Selector, StorageError, Store, Tile,
        TimeRange, View,
    },
};
use narthex_promql::{Engine, EngineOptions, SampleValue, Value};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

const BATCHES: usize = 150;
/// As many as make a piece of each batch.
const ROWS: i64 = 16 << 10;

/// Reads of helpers, of which the first takes long.
struct Late(Arc<AtomicUsize>);

struct Slow {
    labels: LabelSet,
    helped: Arc<AtomicUsize>,
}

impl Batch for Slow {
    fn len(&self) -> usize {
        1
    }

    fn labels(&self, _: usize) -> LabelSet {
        self.labels.clone()
    }

    fn time_range(&self) -> TimeRange {
        TimeRange::new(0, ROWS - 1)
    }

    fn rows(&self, _: TimeRange) -> usize {
        ROWS as usize
    }

    fn read(
        &self,
        _: &[u32],
        _: TimeRange,
        layout: Layout,
        tile: &mut Tile,
        _: &Context,
    ) -> Result<(), StorageError> {
        let is_helper = thread::current().name() == Some("narthex-query");
        let is_late = is_helper && self.helped.fetch_add(1, Ordering::Relaxed) == 0;
        thread::sleep(Duration::from_micros(if is_late { 20_000 } else { 500 }));
        let times_ms: Vec<i64> = (0..ROWS).collect();
        tile.shape(layout, &times_ms, 1, 1.0);
        tile.establish_facts();
        Ok(())
    }
}

impl Prepared for Late {
    fn estimate(&self) -> Estimate {
        Estimate::default()
    }

    fn batches(&self, _: usize, _: &Context) -> Result<Vec<Arc<dyn Batch>>, StorageError> {
        let batch = |pod: usize| -> Arc<dyn Batch> {
            Arc::new(Slow {
                labels: LabelSet::new([(METRIC_NAME, "x"), ("pod", &pod.to_string())]),
                helped: Arc::clone(&self.0),
            })
        };
        Ok((0..BATCHES).map(batch).collect())
    }
}

impl Store for Late {
    fn view(&self, _: TimeRange) -> Result<Arc<dyn View>, StorageError> {
        panic!("a query asks for what it selects")
    }

    fn prepare(
        &self,
        _: TimeRange,
        _: &[Selector],
        _: &Context,
    ) -> Result<Box<dyn Prepared>, StorageError> {
        Ok(Box::new(Self(Arc::clone(&self.0))))
    }

    fn time_range(&self) -> Option<TimeRange> {
        Some(TimeRange::new(0, ROWS - 1))
    }
}

#[test]
fn a_helper_that_was_late_helps_again() {
    let helped = Arc::new(AtomicUsize::new(0));
    let engine = Engine::new(EngineOptions::default());
    let engine = engine.with_helpers(Helpers::new(1, || ()).at_once());
    let (store, query) = (Late(Arc::clone(&helped)), "sum(count_over_time(x[1m]))");
    let result = engine.instant(&store, query, ROWS - 1, &Context::unlimited());
    let Value::Vector(samples) = result.unwrap().value else {
        panic!("{query} is no vector");
    };
    let SampleValue::Float(sum) = samples[0].value else {
        panic!("{query} is no number");
    };
    assert_eq!(sum, BATCHES as f64 * ROWS as f64);
    // The caller, who needs half a millisecond for each batch, is not halfway through when the helper comes back.
    let helped = helped.load(Ordering::Relaxed);
    assert!(helped > 1, "helpers read {helped} batch");
}
