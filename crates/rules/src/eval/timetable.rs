//! When groups are evaluated, and by which threads.
//!
//! One task waits for the times of all groups. Most groups take a fraction of a millisecond, so that waking a thread for
//! each cost about as much as evaluating it: what is due within the same moment is evaluated after one wake-up, by the
//! thread that waited. Groups that take long have threads of their own, and so have those that are late, for which one
//! thread is too little.
//!
//! While that thread evaluates, nobody waits for the times of other groups. A deputy looks from time to time whether it is
//! held up, and begins another task in its place.
//!
//! **Invariant:** a group is evaluated as of its own times and by one thread at a time.
//! **Invariant:** a group that takes long unexpectedly delays others by a few seconds at most, and only once.

use super::{
    group::Group,
    metrics,
    query::{Settings, Tools},
};
use narthex_model::sync::Whole as _;
use narthex_net::{StopToken, catch_panic};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, Weak},
    thread,
    time::Duration,
};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::{Notify, watch},
    task::JoinSet,
};

/// Longest sleep between two looks at the wall clock, which may be set.
const LONGEST_SLEEP: Duration = Duration::from_secs(10);
/// Moments in milliseconds, each a multiple of the next so that groups with different ones meet.
const MOMENTS_MS: [i64; 5] = [100, 50, 10, 5, 1];
/// How many moments an interval has at least.
const MOMENTS_OF_INTERVAL: i64 = 100;
/// A group that took no longer the last time is evaluated by the thread that waits.
const SHORT: Duration = Duration::from_millis(5);
/// One that is later than this is not.
const LATE_MS: i64 = 250;
/// Time between two looks of the deputy.
const TICK: Duration = Duration::from_secs(1);
/// Name under which panics are counted.
const TASK: &str = "rule group";

/// The times of all groups.
pub(super) struct Timetable {
    runtime: Handle,
    settings: Arc<Settings>,
    tools: watch::Receiver<Option<Arc<Tools>>>,
    stop: StopToken,
    state: Mutex<State>,
    /// Tells the one who waits that something is due earlier.
    changed: Notify,
    tasks: Mutex<JoinSet<()>>,
}

#[derive(Default)]
struct State {
    /// By when they begin, by their times, and by a number of their own.
    entries: BTreeMap<(i64, i64, u64), Entry>,
    pushed: u64,
    /// Number of the task that waits, from 1 on; one with another number was held up and ends.
    waiting: u64,
    /// Evaluations by tasks that wait otherwise.
    begun: u64,
    ended: u64,
    has_deputy: bool,
}

/// The next evaluation of a group.
struct Entry {
    /// When it begins at the earliest.
    wake_ms: i64,
    /// The time as of which it is.
    slot_ms: i64,
    group: Arc<Group>,
}

/// What the task that waits does next.
enum Next {
    Evaluate(Entry),
    Wait(Duration),
    /// Another one waits.
    End,
}

impl Timetable {
    /// Returns a timetable without groups; they are evaluated on `runtime` once there are `tools`.
    pub(super) fn new(
        runtime: Handle,
        settings: Arc<Settings>,
        tools: watch::Receiver<Option<Arc<Tools>>>,
        stop: StopToken,
    ) -> Arc<Self> {
        Arc::new(Self {
            runtime,
            settings,
            tools,
            stop,
            state: Mutex::default(),
            changed: Notify::new(),
            tasks: Mutex::default(),
        })
    }

    /// Evaluates a group from its next time on, until it is stopped.
    pub(super) fn add(self: &Arc<Self>, group: &Arc<Group>) {
        let slot_ms = group.schedule.next(self.now_ms());
        self.push(Entry::new(Arc::clone(group), slot_ms));
        let is_first = self.lock().waiting == 0;
        if is_first {
            self.begin();
        }
    }

    /// Waits until nothing is evaluated any more.
    pub(super) async fn ended(&self) {
        loop {
            let mut tasks = std::mem::take(&mut *self.tasks.lock().whole());
            if tasks.is_empty() {
                return;
            }
            while let Some(ended) = tasks.join_next().await {
                if let Err(error) = ended {
                    tracing::error!(%error, "Evaluating rules ended with a panic.");
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().whole()
    }

    fn now_ms(&self) -> i64 {
        self.settings.now_ms()
    }

    fn push(&self, entry: Entry) {
        let mut state = self.lock();
        let first = state.entries.first_key_value();
        let is_first = first.is_none_or(|(_, first)| entry.wake_ms < first.wake_ms);
        state.push(entry);
        drop(state);
        if is_first {
            self.changed.notify_one();
        }
    }

    /// Begins a task that waits, in the place of the one before.
    fn begin(self: &Arc<Self>) {
        let mut state = self.lock();
        state.waiting += 1;
        let number = state.waiting;
        drop(state);
        let table = Arc::clone(self);
        self.spawn(async move { table.run(number).await });
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().whole();
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(task, &self.runtime);
    }

    async fn run(self: &Arc<Self>, number: u64) {
        let mut opened = self.tools.clone();
        let opened = self.stop.run(opened.wait_for(Option::is_some)).await;
        let Some(Some(tools)) = opened.map(|tools| tools.ok().and_then(|tools| tools.clone()))
        else {
            return;
        };
        if number == 1 {
            // Of the times until then, none counts as missed.
            self.lock().begin_anew(self.now_ms());
            self.begin_deputy();
        }
        loop {
            match self.next(number) {
                Next::End => return,
                Next::Evaluate(entry) => self.evaluate(entry, &tools),
                Next::Wait(time) => {
                    let time = tokio::time::timeout(time, self.changed.notified());
                    if self.stop.run(time).await.is_none() {
                        return;
                    }
                }
            }
        }
    }

    fn next(&self, number: u64) -> Next {
        let now_ms = self.now_ms();
        let mut state = self.lock();
        if state.waiting != number || self.stop.is_stopped() {
            return Next::End;
        }
        loop {
            let Some((_, first)) = state.entries.first_key_value() else {
                return Next::Wait(LONGEST_SLEEP);
            };
            let left_ms = first.wake_ms - now_ms;
            if first.slot_ms - now_ms > first.group.schedule.interval_ms() {
                // The clock was set back.
                state.begin_anew(now_ms);
                continue;
            }
            if left_ms > 0 {
                let left = Duration::from_millis(left_ms.unsigned_abs());
                return Next::Wait(left.min(LONGEST_SLEEP));
            }
            match state.entries.pop_first() {
                Some((_, first)) if !first.group.is_stopping() => return Next::Evaluate(first),
                _ => {}
            }
        }
    }

    fn evaluate(self: &Arc<Self>, entry: Entry, tools: &Arc<Tools>) {
        let status = entry.group.status();
        let is_short = status.last_ms.is_some() && status.duration <= SHORT;
        let is_late = self.now_ms() - entry.wake_ms > LATE_MS;
        if is_short && !is_late && self.begin_here() {
            let evaluate = || entry.group.iterate(tools, entry.slot_ms);
            let iterated = catch_panic(TASK, evaluate);
            self.lock().ended += 1;
            self.go_on(&entry, iterated.map_err(|panicked| panicked.to_string()));
            return;
        }
        let (table, tools) = (Arc::clone(self), Arc::clone(tools));
        self.spawn(async move {
            let (group, slot_ms) = (Arc::clone(&entry.group), entry.slot_ms);
            let iterated = tokio::task::spawn_blocking(move || group.iterate(&tools, slot_ms));
            table.go_on(&entry, iterated.await.map_err(|error| error.to_string()));
        });
    }

    /// Notes that the thread that waits evaluates; returns `false` if nobody would look after it.
    fn begin_here(&self) -> bool {
        let mut state = self.lock();
        state.begun += u64::from(state.has_deputy);
        state.has_deputy
    }

    /// Goes on with the group's next time; fails with what a panic said.
    fn go_on(&self, entry: &Entry, iterated: Result<bool, String>) {
        let group = &entry.group;
        if let Err(error) = iterated {
            let (file, group) = (&group.file, &group.name);
            tracing::error!(file, group, error, "Evaluating a group ended with a panic.");
        }
        if group.is_stopping() {
            return;
        }
        let (slot_ms, missed) = group.schedule.after(entry.slot_ms, self.now_ms());
        if missed > 0 {
            metrics::ITERATIONS_MISSED
                .with(&[&group.key])
                .inc_by(missed);
            metrics::ITERATIONS.with(&[&group.key]).inc_by(missed);
        }
        self.push(Entry::new(Arc::clone(group), slot_ms));
    }

    /// Begins to look after the task that waits, where a runtime with several threads can have another.
    fn begin_deputy(self: &Arc<Self>) {
        if self.runtime.runtime_flavor() != RuntimeFlavor::MultiThread {
            return;
        }
        let watched = Arc::downgrade(self);
        let named = thread::Builder::new().name("narthex-deputy".to_owned());
        // Without it, groups are evaluated as if all took long.
        self.lock().has_deputy = named.spawn(move || watch(&watched)).is_ok();
    }
}

/// Begins another task that waits whenever an evaluation runs and none began or ended since the last look.
fn watch(watched: &Weak<Timetable>) {
    let mut before = (0, 0);
    loop {
        thread::sleep(TICK);
        let Some(table) = watched.upgrade().filter(|table| !table.stop.is_stopped()) else {
            return;
        };
        let state = table.lock();
        let now = (state.begun, state.ended);
        drop(state);
        if now.0 > now.1 && now == before {
            table.begin();
        }
        before = now;
    }
}

impl State {
    /// Lets all groups go on with their next times.
    fn begin_anew(&mut self, now_ms: i64) {
        let entries = std::mem::take(&mut self.entries).into_values();
        for entry in entries.filter(|entry| !entry.group.is_stopping()) {
            let slot_ms = entry.group.schedule.next(now_ms);
            self.push(Entry::new(entry.group, slot_ms));
        }
    }

    fn push(&mut self, entry: Entry) {
        self.pushed += 1;
        let key = (entry.wake_ms, entry.slot_ms, self.pushed);
        self.entries.insert(key, entry);
    }
}

impl Entry {
    fn new(group: Arc<Group>, slot_ms: i64) -> Self {
        Self {
            wake_ms: moment(slot_ms, group.schedule.interval_ms()),
            slot_ms,
            group,
        }
    }
}

/// Returns the first moment at or after a time of a group.
fn moment(slot_ms: i64, interval_ms: i64) -> i64 {
    let longest_ms = interval_ms / MOMENTS_OF_INTERVAL;
    let fits = MOMENTS_MS.into_iter().find(|moment| *moment <= longest_ms);
    let length_ms = fits.unwrap_or(1);
    slot_ms + (-slot_ms).rem_euclid(length_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_are_due_at_about_the_same_time_share_a_moment() {
        for (slot_ms, interval_ms, expected) in [
            (1_000_001, 15_000, 1_000_100),
            (1_000_100, 15_000, 1_000_100),
            (1_000_101, 60_000, 1_000_200),
            (1_000_101, 9_999, 1_000_150),
            (1_000_101, 1_000, 1_000_110),
            (1_000_101, 500, 1_000_105),
            (1_000_101, 499, 1_000_101),
            (1_000_101, 20, 1_000_101),
            (-101, 15_000, -100),
        ] {
            assert_eq!(moment(slot_ms, interval_ms), expected, "{slot_ms}");
        }
    }
}
