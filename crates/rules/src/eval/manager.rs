//! The manager: the groups that run, and how another configuration changes them.
//!
//! **Invariant:** a group that did not change is not touched; one that changed goes on with the state of the rules that
//! it still has. Evaluations run on threads of their own.

use super::{
    EvalOptions, Group,
    group::Groups,
    metrics,
    query::{Settings, Tools, ms},
    reads::{NotedStore, Reads},
    timetable::Timetable,
};
use crate::RuleFile;
use narthex_model::{
    LabelSet,
    storage::{Sink, Store},
    sync::Whole as _,
};
use narthex_net::{StopToken, Stopper};
use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{runtime::Handle, sync::watch, task::JoinHandle};

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
    timetable: Arc<Timetable>,
    tools: watch::Sender<Option<Arc<Tools>>>,
    /// Held while a configuration is applied; whether there was one.
    turn: Mutex<bool>,
    running: Arc<Mutex<Running>>,
    reads: Arc<Reads>,
    stopper: Stopper,
    stop: StopToken,
}

/// Groups, and tasks that end what former ones made.
#[derive(Default)]
struct Running {
    groups: Arc<Groups>,
    tasks: Vec<JoinHandle<()>>,
}

impl Manager {
    /// Returns a manager without groups; the threads of `runtime` evaluate rules, blocking ones those that take long.
    #[must_use]
    pub fn new(options: EvalOptions, runtime: Handle) -> Arc<Self> {
        let (stopper, stop) = Stopper::new();
        let settings = Arc::new(Settings::new(options));
        let tools = watch::Sender::new(None);
        Arc::new(Self {
            timetable: Timetable::new(
                runtime.clone(),
                Arc::clone(&settings),
                tools.subscribe(),
                stop.clone(),
            ),
            settings,
            runtime,
            tools,
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
        } = replace(&old, rules, restores, &|group| group.stop());
        for group in removed {
            self.end_later(&group);
            metrics::end_group(&group.key);
        }
        let groups = Arc::new(groups);
        let rules = groups.values().flat_map(|group| &group.rules);
        let recording = rules.filter(|rule| !rule.is_alerting());
        self.reads.follow(recording.map(|rule| &*rule.name));
        self.running.lock().whole().groups = Arc::clone(&groups);
        for group in &begun {
            metrics::begin_group(&group.key, group.rules.len(), group.schedule.interval_ms());
            self.timetable.add(group);
        }
    }

    /// Ends the series of a removed group as of now, once a renamed one may have gone on with them.
    fn end_later(&self, group: &Arc<Group>) {
        let removed_ms = self.settings.now_ms();
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
        let mut running = self.running.lock().whole();
        running.tasks.retain(|task| !task.is_finished());
        running.tasks.push(task);
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
        self.timetable.ended().await;
        let tasks = std::mem::take(&mut self.running.lock().whole().tasks);
        for task in tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "Ending the series of groups ended with a panic.");
            }
        }
    }
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
