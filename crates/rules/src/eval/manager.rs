//! The manager: the groups that run, and how another configuration changes them.
//!
//! **Invariant:** a group that did not change is not touched; one that changed goes on with the state of the rules that
//! it still has. Evaluations run on threads of their own.

use super::{
    EvalOptions, Group,
    deputy::Deputy,
    group::Groups,
    metrics,
    query::{Settings, Tools, ms},
    reads::{NotedStore, Reads},
};
use crate::RuleFile;
use narthex_model::{
    LabelSet,
    storage::{Sink, Store},
    sync::Whole as _,
};
use narthex_net::{StopToken, Stopper, catch_panic};
use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};
use tokio::{runtime::Handle, sync::watch, task::JoinHandle};

/// Longest sleep between two looks at the wall clock, which may be set.
const LONGEST_SLEEP: Duration = Duration::from_secs(10);

/// A group that took no longer the last time is evaluated where it waited.
const SHORT: Duration = Duration::from_millis(5);
/// Name under which panics are counted.
const TASK: &str = "rule group";

/// The rules of a configuration.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    /// Files by their paths.
    pub files: Vec<(String, RuleFile)>,
    /// Interval of groups that name none.
    pub interval: Duration,
    /// Query offset of groups that name none.
    pub query_offset: Duration,
    /// Labels of this server, for templates.
    pub external_labels: LabelSet,
    /// URL under which this server is reached, for templates and links.
    pub external_url: String,
}

/// Runs groups of rules.
pub struct Manager {
    settings: Arc<Settings>,
    runtime: Handle,
    /// From the first group on.
    deputy: OnceLock<Option<Arc<Deputy>>>,
    tools: watch::Sender<Option<Arc<Tools>>>,
    /// Held while a configuration is applied; whether there was one.
    turn: Mutex<bool>,
    running: Arc<Mutex<Running>>,
    reads: Arc<Reads>,
    stopper: Stopper,
    stop: StopToken,
}

/// Groups and their tasks.
#[derive(Default)]
struct Running {
    groups: Arc<Groups>,
    /// By the groups' keys.
    stoppers: BTreeMap<String, Stopper>,
    tasks: Vec<JoinHandle<()>>,
}

impl Manager {
    /// Returns a manager without groups; the threads of `runtime` evaluate rules, blocking ones those that take long.
    #[must_use]
    pub fn new(options: EvalOptions, runtime: Handle) -> Arc<Self> {
        let (stopper, stop) = Stopper::new();
        Arc::new(Self {
            settings: Arc::new(Settings::new(options)),
            runtime,
            deputy: OnceLock::new(),
            tools: watch::Sender::new(None),
            turn: Mutex::new(false),
            running: Arc::default(),
            reads: Arc::default(),
            stopper,
            stop,
        })
    }

    /// Lets up to `most` rules be evaluated beside others of their groups, where these do not depend on each other and
    /// another thread saves `worth`; starting one takes some 50 µs.
    pub fn evaluate_at_once(&self, most: usize, worth: Duration) {
        self.settings.permits.set(most, worth);
    }

    /// Returns `store`, whose readers are noted from here on: who reads what rules record.
    pub fn noted(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        let reads = Arc::clone(&self.reads);
        Arc::new(NotedStore { store, reads })
    }

    /// Reports whether anybody read a metric that rules record, since they do.
    pub(crate) fn was_read(&self, metric: &str) -> bool {
        self.reads.was_read(metric)
    }

    /// Lets evaluations begin: they read from `store` and write to `sink`.
    pub fn open(&self, store: Arc<dyn Store>, sink: Arc<dyn Sink>) {
        self.tools.send_replace(Some(Arc::new(Tools {
            store: self.noted(store),
            sink,
            settings: Arc::clone(&self.settings),
        })));
    }

    /// Runs the groups of a configuration instead of those before.
    ///
    /// Waits for the running rule of each group that changed.
    pub fn apply(&self, rules: &RuleSet) {
        let mut turn = self.turn.lock().whole();
        if self.stop.is_stopped() {
            return;
        }
        // Groups of the first configuration may have had alerts before a restart.
        let restores = !std::mem::replace(&mut *turn, true);
        self.settings.follow(rules);
        let old = self.groups();
        let Replaced {
            groups,
            begun,
            removed,
        } = replace(&old, rules, restores, &|group| self.stop_group(group));
        for group in removed {
            self.end_later(&group);
            metrics::end_group(&group.key);
        }
        let groups = Arc::new(groups);
        let rules = groups.values().flat_map(|group| &group.rules);
        let recording = rules.filter(|rule| !rule.is_alerting());
        self.reads.follow(recording.map(|rule| &*rule.name));
        self.running.lock().whole().groups = Arc::clone(&groups);
        begun.iter().for_each(|group| self.begin_group(group));
    }

    fn stop_group(&self, group: &Group) {
        group.stop();
        if let Some(stopper) = self.running.lock().whole().stoppers.remove(&group.key) {
            stopper.stop();
        }
    }

    fn begin_group(&self, group: &Arc<Group>) {
        metrics::begin_group(&group.key, group.rules.len(), group.schedule.interval_ms());
        let (stopper, stop) = self.stop.child();
        let tools = self.tools.subscribe();
        let deputy = self.deputy.get_or_init(|| Deputy::new(&self.runtime));
        let evaluation = run(Arc::clone(group), tools, deputy.clone(), stop);
        let task = self.runtime.spawn(evaluation);
        let mut running = self.running.lock().whole();
        running.stoppers.insert(group.key.clone(), stopper);
        running.tasks.retain(|task| !task.is_finished());
        running.tasks.push(task);
    }

    /// Ends the series of a removed group as of now, once a renamed one may have gone on with them.
    fn end_later(&self, group: &Arc<Group>) {
        let removed_ms = (self.settings.now_ms)();
        let outputs = group.take_outputs();
        let Some(tools) = self.tools.borrow().clone() else {
            return;
        };
        let wait = Duration::from_millis(group.schedule.interval_ms().unsigned_abs()) * 2;
        let (group, stop, running) = (
            Arc::clone(group),
            self.stop.clone(),
            Arc::clone(&self.running),
        );
        let task = self.runtime.spawn(async move {
            if stop.run(tokio::time::sleep(wait)).await.is_none() {
                return;
            }
            let end = move || {
                let groups = Arc::clone(&running.lock().whole().groups);
                let live: HashSet<LabelSet> =
                    groups.values().flat_map(|group| group.live()).collect();
                group.end(outputs, &tools, removed_ms, &live);
            };
            if let Err(error) = tokio::task::spawn_blocking(end).await {
                tracing::error!(%error, "Ending the series of a group ended with a panic.");
            }
        });
        self.running.lock().whole().tasks.push(task);
    }

    /// Returns all groups by file and name.
    pub(crate) fn groups(&self) -> Arc<Groups> {
        Arc::clone(&self.running.lock().whole().groups)
    }

    /// Ends all evaluations without ending series: a restart goes on with them.
    pub async fn stop(&self) {
        self.stopper.stop();
        for group in self.groups().values() {
            group.cancel();
        }
        let tasks = std::mem::take(&mut self.running.lock().whole().tasks);
        for task in tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "Evaluating rules ended with a panic.");
            }
        }
    }
}

/// Evaluates a group at its times, until stopped.
async fn run(
    group: Arc<Group>,
    mut opened: watch::Receiver<Option<Arc<Tools>>>,
    deputy: Option<Arc<Deputy>>,
    stop: StopToken,
) {
    let opened = stop.run(opened.wait_for(Option::is_some)).await;
    let Some(Some(tools)) = opened.map(|tools| tools.ok().and_then(|tools| tools.clone())) else {
        return;
    };
    let now_ms = || (tools.settings.now_ms)();
    let mut slot_ms = group.schedule.next(now_ms());
    loop {
        let left_ms = slot_ms - now_ms();
        if left_ms > group.schedule.interval_ms() {
            // The clock was set back.
            slot_ms = group.schedule.next(now_ms());
            continue;
        }
        if left_ms > 0 {
            let sleep = Duration::from_millis(left_ms.unsigned_abs()).min(LONGEST_SLEEP);
            if stop.run(tokio::time::sleep(sleep)).await.is_none() {
                return;
            }
            continue;
        }
        let iterated = iterate(&group, &tools, deputy.as_deref(), slot_ms).await;
        if stop.is_stopped() {
            return;
        }
        if let Err(error) = iterated {
            let (file, group) = (&group.file, &group.name);
            tracing::error!(file, group, error, "Evaluating a group ended with a panic.");
        }
        let (next_ms, missed) = group.schedule.after(slot_ms, now_ms());
        if missed > 0 {
            metrics::ITERATIONS_MISSED
                .with(&[&group.key])
                .inc_by(missed);
            metrics::ITERATIONS.with(&[&group.key]).inc_by(missed);
        }
        slot_ms = next_ms;
    }
}

/// Evaluates a group; fails with what a panic said.
async fn iterate(
    group: &Arc<Group>,
    tools: &Arc<Tools>,
    deputy: Option<&Deputy>,
    time_ms: i64,
) -> Result<(), String> {
    let status = group.status();
    let is_short = status.last_ms.is_some() && status.duration <= SHORT;
    if let Some(deputy) = deputy.filter(|_| is_short) {
        let evaluate = || group.iterate(tools, time_ms);
        let iterated = deputy.watched(|| catch_panic(TASK, evaluate));
        return iterated.map(drop).map_err(|panicked| panicked.to_string());
    }
    let (group, tools) = (Arc::clone(group), Arc::clone(tools));
    let iterated = tokio::task::spawn_blocking(move || group.iterate(&tools, time_ms)).await;
    iterated.map(drop).map_err(|error| error.to_string())
}

/// Groups of another configuration.
pub(super) struct Replaced {
    pub(super) groups: Groups,
    /// Groups that are other ones than before.
    pub(super) begun: Vec<Arc<Group>>,
    /// Groups that are no more; they are stopped.
    pub(super) removed: Vec<Arc<Group>>,
}

/// Makes the groups of a configuration, with what those before know; `stop` stops a group.
pub(super) fn replace(
    old: &Groups,
    rules: &RuleSet,
    restores: bool,
    stop: &dyn Fn(&Group),
) -> Replaced {
    let (mut groups, mut begun) = (Groups::new(), Vec::new());
    for (path, file) in &rules.files {
        for group in &file.groups {
            let new = Group::new(path, group, ms(rules.interval), restores);
            let place = (path.clone(), new.name.clone());
            let before = old.get(&place);
            if let Some(same) = before.filter(|before| before.equals(&new)) {
                groups.insert(place, Arc::clone(same));
                continue;
            }
            if let Some(before) = before {
                stop(before);
                new.continue_from(before);
            }
            let new = Arc::new(new);
            begun.push(Arc::clone(&new));
            groups.insert(place, new);
        }
    }
    let removed = old.iter().filter(|(place, _)| !groups.contains_key(*place));
    let removed: Vec<_> = removed.map(|(_, group)| Arc::clone(group)).collect();
    removed.iter().for_each(|group| stop(group));
    Replaced {
        groups,
        begun,
        removed,
    }
}
