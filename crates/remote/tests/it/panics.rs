//! Panics in the middle of a request: half-changed state is not used again, everything else is.
//!
//! Poisoned locks used to be ignored, so a binding that had panicked got the next rounds.

use crate::support::{NOW_MS, samples_of};
use narthex_model::{
    Frame, MemStore, Schema,
    storage::{Binding, Outcome, SeriesSample, Sink, StorageError, SyncToken},
};
use narthex_remote::{Message, Receiver};
use narthex_testkit::remote_write::{Metadata, Request, Series};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
};

/// A sink that panics on demand, and detects the reuse of a binding that panicked.
#[derive(Clone, Default)]
struct Fragile {
    store: MemStore,
    wanted: Arc<Wanted>,
}

/// Number of calls until one panics; never while negative.
#[derive(Default)]
struct Wanted {
    bind: AtomicI64,
    rebind: AtomicI64,
    append: AtomicI64,
    misused: AtomicU64,
    binds: AtomicU64,
}

struct FragileBinding {
    binding: Box<dyn Binding>,
    wanted: Arc<Wanted>,
    broken: bool,
}

/// Panics when `left` reaches zero.
fn count_down(left: &AtomicI64) {
    let before = left.fetch_sub(1, Ordering::Relaxed);
    assert!(before != 1, "injected");
}

impl Sink for Fragile {
    fn bind(&self, schema: &Schema) -> Result<Box<dyn Binding>, StorageError> {
        count_down(&self.wanted.bind);
        self.wanted.binds.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(FragileBinding {
            binding: self.store.bind(schema)?,
            wanted: Arc::clone(&self.wanted),
            broken: false,
        }))
    }

    fn append_samples(&self, samples: &[SeriesSample]) -> Result<Outcome, StorageError> {
        self.store.append_samples(samples)
    }

    fn sync(&self, token: SyncToken) -> Result<(), StorageError> {
        self.store.sync(token)
    }
}

impl FragileBinding {
    fn use_by(&mut self, left: impl Fn(&Wanted) -> &AtomicI64) {
        let misused = u64::from(self.broken);
        self.wanted.misused.fetch_add(misused, Ordering::Relaxed);
        // Half-changed until the end of the call.
        self.broken = true;
        count_down(left(&self.wanted));
        self.broken = false;
    }
}

impl Binding for FragileBinding {
    fn rebind(&mut self, schema: &Schema) -> Result<(), StorageError> {
        self.use_by(|wanted| &wanted.rebind);
        self.binding.rebind(schema)
    }

    fn append(&mut self, frame: &Frame) -> Result<Outcome, StorageError> {
        self.use_by(|wanted| &wanted.append);
        self.binding.append(frame)
    }
}

/// Builds a request with series `from..to` of an instance at a time; their numbers are their values.
fn request(instance: &str, from: usize, to: usize, time_ms: i64) -> Request {
    let series = (from..to).map(|at| {
        let number = at.to_string();
        let labels = [
            ("__name__", "m"),
            ("at", &*number),
            ("instance", instance),
            ("job", "j"),
        ];
        Series::new(&labels, &[(time_ms, at as f64)])
    });
    Request {
        series: series.collect(),
        ..Request::default()
    }
}

struct Rig {
    sink: Fragile,
    receiver: Receiver,
}

impl Rig {
    fn new() -> Self {
        let sink = Fragile::default();
        let receiver = Receiver::new(Arc::new(sink.clone()), Arc::new(|| NOW_MS));
        Self { sink, receiver }
    }

    fn store(&self, request: &Request) {
        let (written, refused) = self.receiver.store(Message::V1, &request.v1()).unwrap();
        assert!(refused.is_none(), "{refused:?}");
        assert_eq!(written.samples, request.series.len() as u64);
    }

    fn panics(&self, request: &Request) {
        let body = request.v1();
        let store = AssertUnwindSafe(|| self.receiver.store(Message::V1, &body));
        assert!(catch_unwind(store).is_err());
    }

    /// Fails unless every series of the instance has `count` samples with its own number as value.
    fn check(&self, instance: &str, series: usize, count: usize) {
        let all = samples_of(&self.sink.store, "m");
        let own: Vec<_> = all
            .iter()
            .filter(|(labels, _)| labels.contains(&format!("instance=\"{instance}\"")))
            .collect();
        assert_eq!(own.len(), series, "{all:?}");
        for (labels, samples) in own {
            assert_eq!(samples.len(), count, "{labels}: {samples:?}");
            let number = labels
                .split("at=\"")
                .nth(1)
                .and_then(|rest| rest.split('"').next());
            let number: f64 = number.unwrap().parse().unwrap();
            for sample in samples {
                assert!(
                    sample.starts_with(&format!("{number}@")),
                    "{labels}: {sample}"
                );
            }
        }
        let misused = self.sink.wanted.misused.load(Ordering::Relaxed);
        assert_eq!(misused, 0, "a binding was used after it had panicked");
    }
}

#[test]
fn a_panic_while_a_row_is_stored_costs_its_series_their_places_and_nobody_else() {
    let rig = Rig::new();
    rig.store(&request("a", 0, 40, NOW_MS));
    rig.store(&request("b", 0, 40, NOW_MS));
    let binds = rig.sink.wanted.binds.load(Ordering::Relaxed);
    rig.sink.wanted.append.store(1, Ordering::Relaxed);
    rig.panics(&request("a", 0, 40, NOW_MS + 1000));
    assert_eq!(rig.receiver.series(), 80);
    rig.store(&request("b", 0, 40, NOW_MS + 1000));
    assert_eq!(
        rig.receiver.series(),
        40,
        "those of the broken row are gone"
    );
    rig.store(&request("a", 0, 40, NOW_MS + 2000));
    assert_eq!(rig.receiver.series(), 80);
    let made = rig.sink.wanted.binds.load(Ordering::Relaxed) - binds;
    assert_eq!(made, 1, "the others keep theirs");
    rig.check("a", 40, 2);
    rig.check("b", 40, 2);
}

#[test]
fn a_panic_while_ungrouped_series_are_stored_costs_them_their_places() {
    let rig = Rig::new();
    rig.store(&request("few", 0, 3, NOW_MS));
    rig.sink.wanted.append.store(1, Ordering::Relaxed);
    rig.panics(&request("few", 0, 3, NOW_MS + 1000));
    rig.store(&request("few", 0, 3, NOW_MS + 2000));
    rig.check("few", 3, 2);
}

#[test]
fn a_panic_while_series_get_places_begins_all_of_them_anew() {
    // In the first cohort, in the second, and where one grows.
    for (call, panics_at) in [("bind", 1), ("bind", 2), ("rebind", 1), ("rebind", 2)] {
        let rig = Rig::new();
        rig.store(&request("a", 0, 40, NOW_MS));
        let wanted = match call {
            "bind" => &rig.sink.wanted.bind,
            _ => &rig.sink.wanted.rebind,
        };
        wanted.store(panics_at, Ordering::Relaxed);
        // Wide enough for two cohorts of its own, with a few that the first one accepts.
        let mut both = request("a", 0, 44, NOW_MS + 1000);
        both.series
            .extend(request("b", 0, 400, NOW_MS + 1000).series);
        rig.panics(&both);
        rig.store(&both);
        both = request("a", 0, 44, NOW_MS + 2000);
        both.series
            .extend(request("b", 0, 400, NOW_MS + 2000).series);
        rig.store(&both);
        assert_eq!(rig.receiver.series(), 444, "{call} {panics_at}");
        rig.check("b", 400, 2);
    }
}

#[test]
fn a_panic_while_metadata_is_stored_has_all_of_it_told_again() {
    let rig = Rig::new();
    let metadata = |family: &str| Request {
        families: vec![Metadata {
            family: family.to_owned(),
            metric_type: 1,
            help: "Counts.".to_owned(),
            unit: String::new(),
        }],
        ..Request::default()
    };
    rig.store(&metadata("a_total"));
    rig.sink.wanted.append.store(1, Ordering::Relaxed);
    rig.panics(&metadata("b_total"));
    rig.store(&metadata("b_total"));
    let misused = rig.sink.wanted.misused.load(Ordering::Relaxed);
    assert_eq!(misused, 0);
    let binds = rig.sink.wanted.binds.load(Ordering::Relaxed);
    assert_eq!(binds, 2, "the sink is told by another binding");
}
