//! Collectors that hang, come back, and change what they report.

use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;
use crate::pool::{Pool, SlowFrom, Until};

/// A collector that waits for its next values, and for permission to end.
struct Told {
    orders: Mutex<Receiver<Vec<(&'static str, f64)>>>,
    slots: HashMap<&'static str, Slot>,
}

impl Collector for Told {
    fn collect(&mut self, _ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        let values = lock(&self.orders).recv().expect("the test goes on");
        if values.is_empty() {
            return Err(HostError::NoData {
                path: "sensors".into(),
            });
        }
        self.slots.retain(|name, slot| {
            let stays = values.iter().any(|(other, _)| other == name);
            if !stays {
                out.retire(*slot);
            }
            stays
        });
        for (name, value) in values {
            let mut new = || out.add(&Desc::gauge("sensor", "A sensor."), &[("name", name)]);
            let slot = match self.slots.get(name) {
                Some(slot) => *slot,
                None => *self.slots.entry(name).or_insert(new()),
            };
            out.set(slot, value);
        }
        Ok(())
    }
}

struct Rig {
    orders: Sender<Vec<(&'static str, f64)>>,
    handle: BackgroundHandle,
    pool: Pool<Background>,
    out: Sink,
    round: u64,
}

const LONG: Duration = Duration::from_secs(60);

impl Rig {
    fn new() -> Self {
        let (orders, receiver) = channel();
        let collector = Told {
            orders: Mutex::new(receiver),
            slots: HashMap::new(),
        };
        Self {
            orders,
            handle: BackgroundHandle::new(Box::new(collector)),
            pool: Pool::new("background", 1, SlowFrom(LONG)),
            out: Sink::new(LabelSet::empty()),
            round: 0,
        }
    }

    fn order(&self, values: &[(&'static str, f64)]) {
        self.orders.send(values.to_vec()).expect("it listens");
    }

    /// Runs a round that waits for the collector until it answers, or does not wait at all.
    fn round(&mut self, waits: bool, refresh: bool, max_age: Duration) -> Result<Vec<f64>, String> {
        let deadline = LONG;
        let (outcome, values) = self.served(waits, refresh, Limits { deadline, max_age });
        match outcome {
            None => Err("not asked".into()),
            Some(Outcome { error: None, .. }) => Ok(values),
            Some(Outcome { error, .. }) => Err(error.map(|e| e.to_string()).unwrap_or_default()),
        }
    }

    /// As `round`; returns the values that are served, whatever the outcome.
    fn served(
        &mut self,
        waits: bool,
        refresh: bool,
        limits: Limits,
    ) -> (Option<Outcome>, Vec<f64>) {
        self.round += 1;
        self.out.begin();
        if refresh {
            self.handle.request_refresh();
        }
        let asked = self.handle.begin(self.round, false, &mut self.out).cloned();
        self.pool.ask(asked.iter()).expect("threads start");
        let patience = if waits { LONG } else { Duration::ZERO };
        let tasks = [self.handle.task().clone()];
        let until = Until(Instant::now() + patience);
        self.pool.wait(tasks.iter(), until).expect("threads start");
        let outcome = self.handle.end(limits, &mut self.out);
        let frame = self.out.finish(0);
        let values = frame.present().iter().map(|at| frame.values()[at]);
        (outcome, values.collect())
    }

    /// Waits until the current run has ended.
    fn ended(&self) {
        while self.handle.task().waiting().is_some() {
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_collector_that_hangs_serves_its_last_good_round_for_a_while() {
    let mut rig = Rig::new();
    rig.order(&[("a", 1.0), ("b", 2.0)]);
    assert_eq!(rig.round(true, true, LONG), Ok(vec![1.0, 2.0]));
    // Without new values the next run hangs.
    assert_eq!(rig.round(false, false, LONG), Ok(vec![1.0, 2.0]));
    assert_eq!(rig.round(false, false, LONG), Ok(vec![1.0, 2.0]));
    let late = rig.round(false, false, Duration::ZERO);
    assert!(late.is_err_and(|text| text.starts_with("no answer within")));

    rig.order(&[("a", 3.0), ("b", 4.0)]);
    rig.ended();
    // A run that ended between two rounds counts, though the next one hangs again.
    assert_eq!(rig.round(false, false, LONG), Ok(vec![3.0, 4.0]));
    rig.order(&[("a", 5.0), ("b", 6.0)]);
    rig.ended();
}

#[test]
fn past_its_deadline_a_collector_has_failed_and_its_last_values_have_an_age() {
    let mut rig = Rig::new();
    let limits = |deadline| Limits {
        deadline,
        max_age: LONG,
    };
    rig.order(&[("a", 1.0)]);
    let (outcome, _) = rig.served(true, true, limits(LONG));
    assert_eq!(outcome.expect("it answers").age, None);
    let (outcome, values) = rig.served(false, false, limits(LONG));
    let outcome = outcome.expect("it hangs");
    assert_eq!((values, outcome.error.is_some()), (vec![1.0], false));
    let first = outcome.age.expect("of an earlier round");
    let (outcome, values) = rig.served(false, false, limits(Duration::ZERO));
    let outcome = outcome.expect("it hangs");
    assert_eq!((values, outcome.error.is_some()), (vec![1.0], true));
    assert!(outcome.age.expect("of an earlier round") >= first);
    rig.order(&[("a", 2.0)]);
    rig.ended();
}

#[test]
fn a_collector_that_never_answered_has_failed() {
    let mut rig = Rig::new();
    let late = rig.round(false, true, LONG);
    assert!(late.is_err_and(|text| text.starts_with("no answer within")));
    rig.order(&[("a", 1.0)]);
    rig.ended();
}

#[test]
fn series_come_and_go_and_keep_their_slots() {
    let mut rig = Rig::new();
    rig.order(&[("a", 1.0), ("b", 2.0)]);
    rig.round(true, true, LONG).expect("it answers");
    let schema = rig.out.schema().clone();
    rig.order(&[("b", 3.0), ("c", 4.0)]);
    assert_eq!(rig.round(true, false, LONG), Ok(vec![3.0, 4.0]));
    let diff = rig.out.schema().diff(&schema).expect("one lineage");
    assert_eq!((diff.retired.len(), diff.appended.len()), (1, 1));
}

#[test]
fn what_is_absent_is_asked_again_at_a_refresh() {
    let mut rig = Rig::new();
    rig.order(&[]);
    let absent = Err("nothing to report: no sensors".to_string());
    assert_eq!(rig.round(true, true, LONG), absent);
    // Without new values, a run would hang.
    assert_eq!(rig.round(true, false, LONG), Err("not asked".into()));
    rig.order(&[("a", 1.0)]);
    assert_eq!(rig.round(true, true, LONG), Ok(vec![1.0]));
}
