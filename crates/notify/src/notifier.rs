//! From rules to all sets of Alertmanagers.
//!
//! **Invariant:** `send` never waits for the network. A set whose settings did not change keeps its Alertmanagers and
//! their queues across a reload.

use crate::{
    config::{AlertingConfig, NotifierOptions},
    encode,
    error::NotifyError,
    metrics,
    post::{HttpPost, Sender},
    send_loop::SendLoop,
    set::{AlertmanagerSet, Outgoing},
};
use narthex_client::{Desc, Registry};
use narthex_discovery::{Manager, TargetSets, Targets};
use narthex_model::{LabelSet, relabel::Rule, sync::Whole as _};
use narthex_net::{Stopper, catch_panic, keep_running};
use narthex_rules::{Alert, AlertSink};
use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, RwLock, Weak},
    time::Duration,
};
use tokio::{runtime::Handle, task::JoinSet};

/// Task name that panics are counted under.
const TASK: &str = "notifications";

/// Sends alerts to Alertmanagers.
pub struct Notifier {
    shared: Arc<Shared>,
    discovery: Manager,
    stopper: Stopper,
    /// Held while a configuration is applied.
    turn: Mutex<()>,
}

struct Shared {
    options: Arc<NotifierOptions>,
    runtime: Handle,
    current: RwLock<Current>,
    loops: Mutex<Loops>,
}

/// What is in effect.
#[derive(Default)]
struct Current {
    external_labels: LabelSet,
    alert_relabel_configs: Vec<Rule>,
    sets: Vec<Arc<AlertmanagerSet>>,
}

/// All loops that were started, those that end included.
#[derive(Default)]
struct Loops {
    tasks: JoinSet<()>,
    running: Vec<Weak<SendLoop>>,
}

impl Notifier {
    /// Returns a notifier without Alertmanagers, whose requests run on the current runtime.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn new(options: NotifierOptions) -> Arc<Self> {
        metrics::set_capacity(options.queue_capacity);
        let (stopper, stop) = Stopper::new();
        let (discovery, targets) = Manager::new("notify", options.discovery.clone(), stop.clone());
        let shared = Arc::new(Shared {
            options: Arc::new(options),
            runtime: Handle::current(),
            current: RwLock::default(),
            loops: Mutex::default(),
        });
        let following = Arc::clone(&shared);
        tokio::spawn(async move {
            let begin = || follow(Arc::clone(&following), targets.clone());
            keep_running(TASK, &stop, begin).await;
        });
        Arc::new(Self {
            shared,
            discovery,
            stopper,
            turn: Mutex::default(),
        })
    }

    /// Checks that the HTTP settings of all sets make clients.
    ///
    /// # Errors
    /// Fails at the first that does not.
    pub fn check(
        config: &AlertingConfig,
        client: &narthex_net::ClientConfig,
    ) -> Result<(), NotifyError> {
        for (set, one) in config.sets.iter().enumerate() {
            Sender::new(one, client).map_err(|source| NotifyError::Client { set, source })?;
        }
        Ok(())
    }

    /// Sends to the Alertmanagers of `config` from now on, with `external_labels`.
    ///
    /// An unchanged set is left alone. A changed one begins with the targets that its discovery is known to find, and
    /// what waits for the Alertmanagers it replaces is sent to them.
    ///
    /// # Errors
    /// Fails, changing nothing, if the HTTP settings of a set are invalid.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn apply(
        &self,
        config: AlertingConfig,
        external_labels: &LabelSet,
    ) -> Result<(), NotifyError> {
        let _turn = self.turn.lock().whole();
        let before = self.shared.sets();
        let mut unclaimed = before.clone();
        let mut names: BTreeSet<String> = before.iter().map(|set| set.name.clone()).collect();
        let mut sets = Vec::with_capacity(config.sets.len());
        for (position, one) in config.sets.into_iter().enumerate() {
            if let Some(at) = unclaimed.iter().position(|set| set.config == one) {
                sets.push(unclaimed.remove(at));
                continue;
            }
            let sender = Sender::new(&one, &self.shared.options.client);
            let sender = sender.map_err(|source| NotifyError::Client {
                set: position,
                source,
            })?;
            let set = AlertmanagerSet::new(free_name(&mut names), one, sender);
            sets.push(Arc::new(set));
        }
        for set in &sets {
            let is_new = before.iter().all(|old| !Arc::ptr_eq(old, set));
            let same = |old: &&Arc<AlertmanagerSet>| old.config.discovery == set.config.discovery;
            if let Some(old) = before.iter().find(same).filter(|_| is_new) {
                self.shared.sync(set, &old.groups());
            }
        }
        let mechanisms = sets
            .iter()
            .map(|set| (set.name.clone(), set.config.discovery.clone()));
        let mechanisms: BTreeMap<_, _> = mechanisms.collect();
        *self.shared.current.write().whole() = Current {
            external_labels: external_labels.clone(),
            alert_relabel_configs: config.alert_relabel_configs,
            sets,
        };
        for gone in unclaimed {
            gone.close();
        }
        self.discovery.apply(mechanisms);
        Ok(())
    }

    /// Returns the URLs of all Alertmanagers, and of those that relabelling dropped, set by set.
    #[must_use]
    pub fn alertmanagers(&self) -> (Vec<String>, Vec<String>) {
        self.shared.alertmanagers()
    }

    /// Takes no more alerts, sends or drops what waits, and returns once that is done; within `limit`, beyond which the
    /// rest is dropped.
    pub async fn end(&self, limit: Duration) {
        self.stopper.stop();
        for set in self.shared.sets() {
            set.close();
        }
        let Loops { mut tasks, running } = std::mem::take(&mut *self.shared.loops.lock().whole());
        let all = async { while tasks.join_next().await.is_some() {} };
        // Kept until what was cut off has been counted.
        let running: Vec<Arc<SendLoop>> = running.iter().filter_map(Weak::upgrade).collect();
        let _ = tokio::time::timeout(limit, all).await;
        tasks.shutdown().await;
        for one in running {
            one.abandon("there is no time left to send them");
        }
        self.discovery.join().await;
    }

    /// Registers the number of Alertmanagers.
    ///
    /// # Errors
    /// Fails when the name is taken.
    pub fn register_metrics(&self, registry: &Registry) -> Result<(), narthex_client::Error> {
        let shared = Arc::downgrade(&self.shared);
        registry.register_fn(
            Desc::gauge(
                "prometheus_notifications_alertmanagers_discovered",
                "The number of alertmanagers discovered and active.",
                &[],
            ),
            move |samples| {
                let found = shared
                    .upgrade()
                    .map_or(0, |shared| shared.alertmanagers().0.len());
                #[expect(clippy::cast_precision_loss, reason = "no set has 2^53 members")]
                samples.push(&[], found as f64);
            },
        )
    }
}

impl AlertSink for Notifier {
    fn send(&self, alerts: Vec<Alert>) {
        // The panic is logged and counted; an evaluation must not end by it.
        let _ = catch_panic(TASK, || self.shared.send(alerts));
    }
}

impl Shared {
    fn sets(&self) -> Vec<Arc<AlertmanagerSet>> {
        self.current.read().whole().sets.clone()
    }

    fn send(&self, alerts: Vec<Alert>) {
        let current = self.current.read().whole();
        if current.sets.is_empty() {
            return;
        }
        let outgoing = alerts.into_iter().filter_map(|alert| {
            let rules = &current.alert_relabel_configs;
            let labels = encode::relabelled(&alert.labels, &current.external_labels, rules)?;
            Some(Outgoing {
                alert,
                labels,
                encoded: OnceCell::new(),
            })
        });
        let outgoing: Vec<Outgoing> = outgoing.collect();
        for set in &current.sets {
            set.send(&outgoing, &self.options.memory);
        }
    }

    fn sync(&self, set: &AlertmanagerSet, groups: &[Arc<narthex_discovery::TargetGroup>]) {
        let start = |send_loop: Arc<SendLoop>, post: HttpPost| self.start(send_loop, post);
        set.sync(groups, &self.options, &start);
    }

    fn start(&self, send_loop: Arc<SendLoop>, post: HttpPost) {
        let mut loops = self.loops.lock().whole();
        // Reap loops that have ended.
        while loops.tasks.try_join_next().is_some() {}
        loops.running.retain(|one| one.strong_count() > 0);
        loops.running.push(Arc::downgrade(&send_loop));
        tracing::debug!(alertmanager = send_loop.url(), "Starting to send alerts");
        let work = async move {
            let stop = send_loop.stop_token().clone();
            keep_running(TASK, &stop, || send_loop.run(&post)).await;
        };
        loops.tasks.spawn_on(work, &self.runtime);
    }

    fn alertmanagers(&self) -> (Vec<String>, Vec<String>) {
        let (mut all_active, mut all_dropped) = (Vec::new(), Vec::new());
        for set in self.sets() {
            let (active, dropped) = set.urls();
            all_active.extend(active);
            all_dropped.extend(dropped);
        }
        (all_active, all_dropped)
    }
}

/// Takes the first name of Prometheus' kind that no set has.
///
/// A set keeps its name as long as it lives: a publication of discovery that is under way during a reload then never
/// reaches another set.
fn free_name(taken: &mut BTreeSet<String>) -> String {
    let mut number = 0;
    loop {
        let name = format!("config-{number}");
        if taken.insert(name.clone()) {
            return name;
        }
        number += 1;
    }
}

/// Hands publications of discovery to their sets until discovery ends.
async fn follow(shared: Arc<Shared>, mut targets: Targets) {
    distribute(&shared, &targets.current());
    while let Some(found) = targets.next().await {
        distribute(&shared, &found);
    }
}

fn distribute(shared: &Shared, found: &TargetSets) {
    for set in shared.sets() {
        if let Some(groups) = found.get(&set.name) {
            shared.sync(&set, groups);
        }
    }
}
