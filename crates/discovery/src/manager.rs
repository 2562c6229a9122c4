//! Runs a discoverer for each distinct setting and publishes what all of them found.
//!
//! Invariant: a job's targets are the union of the last reports of its settings' discoverers. Late reports of a stopped
//! discoverer are ignored, and each publication is complete. A discoverer that panics is restarted; its targets stay
//! meanwhile.

use narthex_net::sync::Whole as _;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use narthex_net::{StopToken, Stopper, catch_panic_in, keep_running};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::config::SdConfig;
use crate::discoverer::{Discoverer, Options, Run, TASK, Updates};
use crate::dns::DnsDiscovery;
use crate::error::DiscoveryError;
use crate::file::FileDiscovery;
use crate::group::TargetGroup;
use crate::http_sd::HttpDiscovery;
use crate::kubernetes::KubernetesDiscovery;
use crate::metrics;

/// Time between two publications while updates keep coming; Prometheus' value.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Pause after the first publication, and while discoverers report for the first time.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);

/// First pause between a panic of a discoverer and its restart; doubled with every further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// Every job's groups. A job without targets has an empty list.
pub type TargetSets = BTreeMap<String, Vec<Arc<TargetGroup>>>;

/// Runs discoverers. Dropping it does not stop them; its stop token does.
#[derive(Debug)]
pub struct Manager {
    shared: Arc<Shared>,
}

/// The jobs' targets, newest state only.
#[derive(Debug, Clone)]
pub struct Targets {
    receiver: watch::Receiver<Arc<TargetSets>>,
}

impl Targets {
    /// Waits for the next publication; `None` once the manager has been stopped. Cancel safe.
    pub async fn next(&mut self) -> Option<Arc<TargetSets>> {
        self.receiver.changed().await.ok()?;
        Some(Arc::clone(&self.receiver.borrow_and_update()))
    }

    /// Returns the newest publication; empty before the first.
    #[must_use]
    pub fn current(&self) -> Arc<TargetSets> {
        Arc::clone(&self.receiver.borrow())
    }
}

#[derive(Debug)]
struct Shared {
    /// Distinguishes this process' managers in metrics.
    name: &'static str,
    options: Options,
    stop: StopToken,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    providers: Vec<Provider>,
    tasks: JoinSet<()>,
    last_id: u64,
    pending: Pending,
}

/// Reason for the next publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Pending {
    #[default]
    Nothing,
    /// A discoverer reported again.
    Update,
    /// A discoverer reported for the first time.
    First,
    /// The configuration was applied: consumers wait for its jobs.
    Applied,
}

#[derive(Debug)]
struct Provider {
    id: u64,
    config: SdConfig,
    jobs: BTreeSet<String>,
    groups: BTreeMap<String, Arc<TargetGroup>>,
    reported: bool,
    /// Whether the next report follows a restart and is complete: sources missing from it are gone.
    renewed: bool,
    stopper: Stopper,
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.stopper.stop();
    }
}

impl Manager {
    /// Starts without jobs; `name` is the `name` label of its metrics.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn new(name: &'static str, options: Options, stop: StopToken) -> (Self, Targets) {
        let (sender, receiver) = watch::channel(Arc::default());
        let shared = Arc::new(Shared {
            name,
            options,
            stop,
            state: Mutex::default(),
            changed: Notify::new(),
        });
        let publisher = Arc::clone(&shared);
        shared.lock().tasks.spawn(async move {
            let publishing = || publish(&publisher, &sender);
            keep_running(TASK, &publisher.stop, publishing).await;
        });
        (Self { shared }, Targets { receiver })
    }

    /// Replaces the jobs. A setting that was there before keeps its discoverer and its targets.
    ///
    /// Invalid settings are logged and counted; the job's others run.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn apply(&self, jobs: BTreeMap<String, Vec<SdConfig>>) {
        let shared = &self.shared;
        let mut state = shared.lock();
        // Do first what may panic: the old providers stay in place until all new ones have started.
        let begun = shared.begin(&mut state, &jobs);
        let mut before = std::mem::take(&mut state.providers);
        let old_jobs: BTreeSet<_> = before.iter().flat_map(|p| p.jobs.clone()).collect();
        before.extend(begun);
        let mut after: Vec<Provider> = Vec::new();
        let mut failed = 0;
        for (job, config) in settings_of(&jobs) {
            if let Some(same) = after.iter_mut().find(|p| p.config == *config) {
                same.jobs.insert(job.clone());
                continue;
            }
            let mut provider = match before.iter().position(|p| p.config == *config) {
                Some(at) => before.swap_remove(at),
                None => {
                    failed += 1;
                    shared.start_static(&mut state, &[])
                }
            };
            provider.jobs = BTreeSet::from([job.clone()]);
            after.push(provider);
        }
        state.providers = after;
        metrics::FAILED_CONFIGS.update(&[shared.name], |g| g.set(f64::from(failed)));
        for gone in old_jobs.iter().filter(|job| !jobs.contains_key(*job)) {
            metrics::DISCOVERED_TARGETS.remove(&[gone, shared.name]);
            metrics::LAST_UPDATE.remove(&[gone, shared.name]);
        }
        for obsolete in &before {
            for job in &obsolete.jobs {
                metrics::REFRESH_FAILURES.remove(&[job, obsolete.config.name()]);
                metrics::REFRESH_DURATION.remove(&[job, obsolete.config.name()]);
            }
        }
        while let Some(ended) = state.tasks.try_join_next() {
            tell_panic(ended);
        }
        shared.due(&mut state, Pending::Applied);
    }

    /// Waits for every discoverer to end; call it after the stop.
    pub async fn join(&self) {
        self.shared.stop.stopped().await;
        let mut tasks = std::mem::take(&mut self.shared.lock().tasks);
        while let Some(ended) = tasks.join_next().await {
            tell_panic(ended);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().whole()
    }

    fn due(&self, state: &mut State, why: Pending) {
        state.pending = state.pending.max(why);
        self.changed.notify_one();
    }

    /// Starts providers that `jobs` need and are missing; those that fail to start are logged and left out.
    fn begin(
        self: &Arc<Self>,
        state: &mut State,
        jobs: &BTreeMap<String, Vec<SdConfig>>,
    ) -> Vec<Provider> {
        let mut begun: Vec<Provider> = Vec::new();
        for (job, config) in settings_of(jobs) {
            let mut known = state.providers.iter().chain(&begun);
            if known.any(|p| p.config == *config) {
                continue;
            }
            match self.start(state, config, job) {
                Ok(provider) => begun.push(provider),
                Err(error) => {
                    let kind = config.name();
                    tracing::error!(%error, kind, job, "Cannot create service discovery.");
                }
            }
        }
        begun
    }

    fn start(
        self: &Arc<Self>,
        state: &mut State,
        config: &SdConfig,
        job: &str,
    ) -> Result<Provider, DiscoveryError> {
        if let SdConfig::Static(groups) = config {
            return Ok(self.start_static(state, groups));
        }
        let first = self.discoverer(config, job)?;
        let (shared, own, job) = (Arc::downgrade(self), config.clone(), job.to_owned());
        let again = move || Some(shared.upgrade()?.discoverer(&own, &job));
        Ok(self.run(state, config, first, again))
    }

    /// Returns a discoverer, ready to run.
    fn discoverer(
        &self,
        config: &SdConfig,
        job: &str,
    ) -> Result<Box<dyn Discoverer>, DiscoveryError> {
        let options = &self.options;
        Ok(match config {
            SdConfig::Static(_) => Box::new(Nothing),
            SdConfig::File(config) => Box::new(FileDiscovery::new(config)),
            SdConfig::Http(config) => Box::new(HttpDiscovery::new(config, job, options)?),
            SdConfig::Dns(config) => Box::new(DnsDiscovery::new(config, job, options)),
            SdConfig::Kubernetes(config) => Box::new(KubernetesDiscovery::new(config, options)?),
        })
    }

    /// Runs a discoverer until stopped; after a panic, continues with the one that `again` returns.
    fn run(
        self: &Arc<Self>,
        state: &mut State,
        config: &SdConfig,
        first: Box<dyn Discoverer>,
        mut again: impl FnMut() -> Option<Result<Box<dyn Discoverer>, DiscoveryError>> + Send + 'static,
    ) -> Provider {
        let (provider, stop) = self.provider(state, config.clone());
        let id = provider.id;
        let shared: Weak<Self> = Arc::downgrade(self);
        let reporter = Weak::clone(&shared);
        let updates = Updates::to(move |groups| {
            if let Some(shared) = reporter.upgrade() {
                shared.accept_report(id, groups);
            }
        });
        let says_all = matches!(config, SdConfig::Kubernetes(_));
        state.tasks.spawn(async move {
            let mut next = Some(Ok(first));
            let mut pause = FIRST_PAUSE;
            while let Some(begun) = next {
                let (updates, own_stop) = (updates.clone(), stop.clone());
                let running = async move {
                    match begun {
                        Ok(discoverer) => {
                            let _ended: () = discoverer.run(updates, own_stop).await;
                            true
                        }
                        Err(error) => {
                            tracing::error!(%error, "Cannot create service discovery.");
                            false
                        }
                    }
                };
                if catch_panic_in(TASK, running).await == Ok(true) {
                    return;
                }
                if stop.run(tokio::time::sleep(pause)).await.is_none() {
                    return;
                }
                pause = (pause * 2).min(LONGEST_RETRY);
                if let Some(shared) = shared.upgrade().filter(|_| says_all) {
                    shared.renew(id);
                }
                next = again();
            }
        });
        provider
    }

    /// Returns a provider that has reported nothing yet, and what tells its discoverer to stop.
    fn provider(&self, state: &mut State, config: SdConfig) -> (Provider, StopToken) {
        let (stopper, stop) = self.stop.child();
        state.last_id += 1;
        let provider = Provider {
            id: state.last_id,
            config,
            jobs: BTreeSet::new(),
            groups: BTreeMap::new(),
            reported: false,
            renewed: false,
            stopper,
        };
        (provider, stop)
    }

    /// Records that a discoverer restarts.
    fn renew(&self, id: u64) {
        let mut state = self.lock();
        if let Some(provider) = state.providers.iter_mut().find(|p| p.id == id) {
            provider.renewed = provider.reported;
        }
    }

    /// Starts static targets without a task: they are part of the first publication.
    fn start_static(&self, state: &mut State, groups: &[TargetGroup]) -> Provider {
        let (mut provider, _stop) = self.provider(state, SdConfig::Static(groups.to_vec()));
        let named = groups.iter().enumerate().map(|(at, group)| {
            let source = at.to_string();
            let group = TargetGroup {
                source: source.clone(),
                ..group.clone()
            };
            (source, Arc::new(group))
        });
        provider.groups = named.filter(|(_, g)| !g.targets.is_empty()).collect();
        provider.reported = true;
        provider
    }

    /// Accepts a discoverer's report, unless it was stopped.
    fn accept_report(&self, id: u64, groups: Vec<TargetGroup>) {
        metrics::RECEIVED_UPDATES.update(&[self.name], |c| c.inc());
        let mut state = self.lock();
        let Some(provider) = state.providers.iter_mut().find(|p| p.id == id) else {
            return;
        };
        if std::mem::take(&mut provider.renewed) {
            provider.groups.clear();
        }
        for group in groups {
            if group.targets.is_empty() {
                provider.groups.remove(&group.source);
            } else {
                let source = group.source.clone();
                provider.groups.insert(source, Arc::new(group));
            }
        }
        let why = match std::mem::replace(&mut provider.reported, true) {
            false => Pending::First,
            true => Pending::Update,
        };
        self.due(&mut state, why);
    }

    /// Collects the targets to publish.
    fn collect(&self) -> TargetSets {
        let mut state = self.lock();
        state.pending = Pending::Nothing;
        let mut sets = TargetSets::new();
        for provider in &state.providers {
            for job in &provider.jobs {
                let set = sets.entry(job.clone()).or_default();
                set.extend(provider.groups.values().map(Arc::clone));
            }
        }
        drop(state);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_seconds = now.map_or(0.0, |since| since.as_secs_f64());
        for (job, set) in &sets {
            let targets: usize = set.iter().map(|group| group.targets.len()).sum();
            metrics::DISCOVERED_TARGETS.update(&[job, self.name], |g| g.set(targets as f64));
            metrics::LAST_UPDATE.update(&[job, self.name], |g| g.set(now_seconds));
        }
        metrics::SENT_UPDATES.update(&[self.name], |c| c.inc());
        sets
    }
}

/// Lists the settings of all jobs; a job without any gets one that finds nothing.
fn settings_of(
    jobs: &BTreeMap<String, Vec<SdConfig>>,
) -> impl Iterator<Item = (&String, &SdConfig)> {
    const NONE: &[SdConfig] = &[SdConfig::Static(Vec::new())];
    jobs.iter().flat_map(|(job, configs)| {
        let configs = if configs.is_empty() { NONE } else { configs };
        configs.iter().map(move |config| (job, config))
    })
}

/// Finds nothing.
struct Nothing;

impl Discoverer for Nothing {
    fn run(self: Box<Self>, _updates: Updates, _stop: StopToken) -> Run {
        Box::pin(std::future::ready(()))
    }
}

/// Logs a panic that escaped a task.
fn tell_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "A task of service discovery ended with a panic.");
    }
}

/// Publishes the first update after a quiet time at once, then ever less often while updates keep coming.
async fn publish(shared: &Shared, sender: &watch::Sender<Arc<TargetSets>>) {
    let mut pause = SHORTEST_PAUSE;
    let mut last: Option<Instant> = None;
    loop {
        if shared.stop.run(shared.changed.notified()).await.is_none() {
            return;
        }
        if let Some(last) = last {
            if last.elapsed() > LONGEST_PAUSE {
                pause = SHORTEST_PAUSE;
            }
            let mut delayed = false;
            loop {
                let wait = match shared.lock().pending {
                    Pending::Applied => Duration::ZERO,
                    Pending::First => SHORTEST_PAUSE,
                    Pending::Update | Pending::Nothing => pause,
                };
                let due = last + wait;
                if Instant::now() >= due {
                    break;
                }
                if !delayed {
                    delayed = true;
                    metrics::DELAYED_UPDATES.update(&[shared.name], |c| c.inc());
                }
                // A more urgent reason may arrive while waiting.
                tokio::select! {
                    () = shared.stop.stopped() => return,
                    () = tokio::time::sleep_until(due) => {}
                    () = shared.changed.notified() => {}
                }
            }
            pause = (pause * 3 / 2).min(LONGEST_PAUSE);
        }
        last = Some(Instant::now());
        sender.send_replace(Arc::new(shared.collect()));
    }
}

#[cfg(test)]
mod tests;
