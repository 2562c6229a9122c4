//! Collectors whose devices may hang: each runs on a thread of the pool, into a frame of its own, whose values the
//! round copies once it is complete.
//!
//! Such a frame is an origin within the origin: its schema is bound to the host's once, and again only when it changes.
//!
//! Invariant: the round never waits for such a lock. It is taken only while no run is in progress, and the pool
//! starts none before the round requests it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use narthex_model::{ColumnId, LabelSet, Schema};

use crate::collector::{Collector, Ctx};
use crate::cost::{Cost, Meter};
use crate::error::HostError;
use crate::open_file::ReadBuf;
use crate::pool::{Job, Task, lock};
use crate::sink::{Desc, Sink, Slot};

/// A collector's state, used by the pool's threads.
pub(crate) struct Background(Mutex<Core>);

struct Core {
    collector: Box<dyn Collector>,
    sink: Sink,
    buf: ReadBuf,
    round: u64,
    refresh: bool,
    error: Option<HostError>,
    took: Duration,
    /// Whether the next run is measured.
    measure: bool,
    cost: Option<Cost>,
    ended: Instant,
    /// Whether the round still has to copy the last run's values.
    is_new: bool,
}

impl Job for Background {
    fn run(&self) {
        lock(&self.0).run();
    }
}

impl Core {
    fn run(&mut self) {
        let start = Instant::now();
        let meter = self.measure.then(Meter::start);
        self.sink.begin();
        let mut ctx = Ctx {
            buf: &mut self.buf,
            round: self.round,
            refresh: self.refresh,
            udp_sockets: [None; 2],
        };
        self.error = self.collector.collect(&mut ctx, &mut self.sink).err();
        if self.error.is_some() {
            self.sink.discard(0);
        }
        // A refresh that failed remains due.
        self.refresh &= self.error.is_some();
        self.sink.finish(0);
        self.cost = meter.map(Meter::stop);
        self.ended = Instant::now();
        self.took = self.ended - start;
        self.is_new = true;
    }
}

/// The round's side of a background collector.
pub(crate) struct BackgroundHandle {
    task: Arc<Task<Background>>,
    bound: Schema,
    /// Series by the collector's own columns.
    slots: Vec<Option<Slot>>,
    /// Values of the last good round.
    values: Vec<(Slot, f64)>,
    good_since: Option<Instant>,
    refresh: bool,
    /// Whether the last run found no data: the next refresh tries again.
    is_empty: bool,
    was_asked: bool,
    cost: Option<Cost>,
    new_cost: Option<Cost>,
}

/// What a background collector contributes to a round.
pub(crate) struct Outcome {
    pub(crate) error: Option<HostError>,
    pub(crate) took: Duration,
    /// Age of the values, unless they are this round's.
    pub(crate) age: Option<Duration>,
}

/// How long a run may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// After this, the collector has failed.
    pub(crate) deadline: Duration,
    /// Age at which the last good values are no longer served.
    pub(crate) max_age: Duration,
}

impl BackgroundHandle {
    pub(crate) fn new(collector: Box<dyn Collector>) -> Self {
        let sink = Sink::new(LabelSet::empty());
        Self {
            bound: sink.schema().clone(),
            task: Task::new(Background(Mutex::new(Core {
                collector,
                sink,
                buf: ReadBuf::small(),
                round: 0,
                refresh: true,
                error: None,
                took: Duration::ZERO,
                measure: false,
                cost: None,
                ended: Instant::now(),
                is_new: false,
            }))),
            slots: Vec::new(),
            values: Vec::new(),
            good_since: None,
            refresh: true,
            is_empty: false,
            was_asked: false,
            cost: None,
            new_cost: None,
        }
    }

    /// Returns the cost of a measured run that was not returned yet.
    pub(crate) fn take_new_cost(&mut self) -> Option<Cost> {
        self.new_cost.take()
    }

    /// Returns the cost of the last measured run.
    pub(crate) fn cost(&self) -> Option<Cost> {
        self.cost
    }

    /// Makes the next run read slowly changing facts again.
    pub(crate) fn request_refresh(&mut self) {
        self.refresh = true;
    }

    /// Returns the task that the pool should run in this round. First copies the values of a run that ended between
    /// rounds.
    pub(crate) fn begin(
        &mut self,
        round: u64,
        measure: bool,
        out: &mut Sink,
    ) -> Option<&Arc<Task<Background>>> {
        self.was_asked = false;
        if self.task.waiting().is_some() || (self.is_empty && !self.refresh) {
            return None;
        }
        let is_new = lock(&self.task.0).is_new;
        if is_new {
            self.copy_run(out);
        }
        let mut core = lock(&self.task.0);
        core.round = round;
        core.measure = measure;
        core.refresh |= self.refresh;
        self.refresh = false;
        self.was_asked = true;
        Some(&self.task)
    }

    pub(crate) fn task(&self) -> &Arc<Task<Background>> {
        &self.task
    }

    /// Copies the values of the last complete run. While a run is in progress, the last good ones are served, with
    /// their age; past the deadline that is a failure. Returns `None` if nothing was run and nothing changed.
    pub(crate) fn end(&mut self, limits: Limits, out: &mut Sink) -> Option<Outcome> {
        let Some(took) = self.task.waiting() else {
            if !self.was_asked && self.is_empty {
                return None;
            }
            let outcome = self.copy_run(out);
            if outcome.error.is_none() {
                self.serve(out);
            }
            return Some(outcome);
        };
        let age = self.good_since.map(|since| since.elapsed());
        let age = age.filter(|age| *age < limits.max_age);
        if age.is_some() {
            self.serve(out);
        }
        let is_late = age.is_none() || took >= limits.deadline;
        let error = is_late.then_some(HostError::Late {
            deadline_ms: limits.deadline.as_millis(),
        });
        Some(Outcome { error, took, age })
    }

    fn serve(&self, out: &mut Sink) {
        for (slot, value) in &self.values {
            out.set(*slot, *value);
        }
    }

    fn copy_run(&mut self, out: &mut Sink) -> Outcome {
        let task = self.task.clone();
        let mut core = lock(&task.0);
        core.is_new = false;
        if !core.sink.schema().same(&self.bound) {
            self.bind(core.sink.schema(), out);
        }
        let error = core.error.take();
        if error.is_none() {
            self.good_since = Some(core.ended);
            let frame = core.sink.frame();
            self.values.clear();
            self.values.extend(frame.present().iter().filter_map(|at| {
                let slot = *self.slots.get(at)?;
                Some((slot?, *frame.values().get(at)?))
            }));
        }
        let took = core.took;
        if let Some(cost) = core.cost.take() {
            self.cost = Some(cost);
            self.new_cost = Some(cost);
        }
        self.is_empty = match &error {
            Some(error) => error.is_no_data(),
            None => self.values.is_empty(),
        };
        Outcome {
            error,
            took,
            age: None,
        }
    }

    /// Assigns a series of the host to every column of the collector's frame, and retires those that are gone.
    fn bind(&mut self, schema: &Schema, out: &mut Sink) {
        let mut known = HashMap::new();
        for (at, slot) in self.slots.drain(..).enumerate() {
            if let (Some(slot), Some(id)) = (slot, column(at)) {
                known.insert(self.bound.labels(id), slot);
            }
        }
        self.slots.resize(schema.len(), None);
        for (id, _) in schema.columns().filter(|(id, _)| !schema.is_retired(*id)) {
            let labels = schema.labels(id);
            let slot = known.remove(&labels).unwrap_or_else(|| {
                let family = schema.family(id);
                let desc = Desc {
                    name: &family.name,
                    kind: family.metric_type,
                    help: &family.help,
                };
                out.add_set(&desc, &labels)
            });
            if let Some(place) = self.slots.get_mut(id.index()) {
                *place = Some(slot);
            }
        }
        known.into_values().for_each(|slot| out.retire(slot));
        // Values of retired series are no longer valid.
        self.values.clear();
        self.bound = schema.clone();
    }
}

fn column(at: usize) -> Option<ColumnId> {
    u32::try_from(at).ok().map(ColumnId)
}

#[cfg(test)]
mod tests;
