//! One job's targets: turns discovered targets into loops and leaves unchanged ones undisturbed.
//!
//! **Invariant:** each distinct target has one loop; its labels after relabelling and its URL identify it.

use crate::{
    config::JobConfig,
    error::ScrapeError,
    metrics,
    origin::{HttpOrigin, Origin},
    plan::Plan,
    scrape_loop::{Control, ScrapeLoop, Shared, go_duration},
    status::{ActiveTarget, PoolStatus, Unscraped},
    target::{Populated, Target},
};
use narthex_discovery::TargetGroup;
use narthex_model::LabelSet;
use narthex_net::{Client, ClientConfig};
use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// The pool's handle on a target's loop.
#[derive(Debug)]
struct Running {
    active: Arc<ActiveTarget>,
    control: watch::Sender<Control>,
}

impl Running {
    fn is_removed(&self) -> bool {
        self.control.borrow().removed
    }
}

/// The targets of one job.
#[derive(Debug)]
pub(crate) struct Pool {
    job: JobConfig,
    client: Client,
    client_id: u64,
    offset_seed: u64,
    running: HashMap<(LabelSet, String), Running>,
    unscraped: Arc<Unscraped>,
}

/// A loop to start.
pub(crate) struct Start {
    pub(crate) scraping: ScrapeLoop,
    pub(crate) control: watch::Receiver<Control>,
}

/// A job's groups, sorted into targets, dropped and failed.
struct Sorted {
    kept: Vec<Target>,
    unscraped: Unscraped,
}

impl Pool {
    /// Returns a pool without targets; `offset_seed` makes its scrape times differ from other servers'.
    ///
    /// # Errors
    /// Fails if the job's HTTP settings are invalid.
    pub(crate) fn new(
        job: JobConfig,
        clients: &ClientConfig,
        client_id: u64,
        offset_seed: u64,
    ) -> Result<Self, ScrapeError> {
        metrics::POOLS.inc();
        let client = client(&job, clients).inspect_err(|_| metrics::POOLS_FAILED.inc())?;
        Ok(Self {
            job,
            client,
            client_id,
            offset_seed,
            running: HashMap::new(),
            unscraped: Arc::default(),
        })
    }

    /// Applies another configuration; `client_id` is used if that needs another client.
    ///
    /// # Errors
    /// Fails, changing nothing, if the job's HTTP settings are invalid.
    pub(crate) fn configure(
        &mut self,
        job: JobConfig,
        clients: &ClientConfig,
        client_id: u64,
    ) -> Result<(), ScrapeError> {
        if job == self.job {
            return Ok(());
        }
        let start = Instant::now();
        metrics::RELOADS.inc();
        if job.http != self.job.http {
            self.client = client(&job, clients).inspect_err(|_| metrics::RELOADS_FAILED.inc())?;
            self.client_id = client_id;
        }
        self.job = job;
        let interval = go_duration(self.job.scrape_interval);
        metrics::RELOAD_LENGTH
            .with(&[interval.as_str()])
            .observe_duration(start.elapsed());
        Ok(())
    }

    /// Updates the pool to the discovered groups; returns the loops to start.
    pub(crate) fn sync(&mut self, groups: &[TargetGroup], shared: &Arc<Shared>) -> Vec<Start> {
        let start = Instant::now();
        let name = self.job.job_name.clone();
        let Sorted { kept, unscraped } = self.sort(groups);
        self.unscraped = Arc::new(unscraped);
        // Drop loops that ended by themselves.
        self.running
            .retain(|_, running| running.active.unless_ended(|| {}));
        let mut starts = Vec::new();
        let mut wanted = HashMap::new();
        for target in kept {
            wanted.entry(target.key()).or_insert(target);
        }
        let forced_error = self.target_limit_error(wanted.len());
        let failure_log = self.job.failure_log.as_deref();
        let failure_log = failure_log.and_then(|path| shared.failure_logs.get(path));
        for (key, running) in &self.running {
            if !wanted.contains_key(key) {
                remove(running, shared);
            }
        }
        for (key, target) in wanted {
            let plan = Plan::new(&self.job, &target, &self.client, self.client_id);
            let Some(mut plan) = plan else {
                continue;
            };
            plan.failure_log.clone_from(&failure_log);
            let control = Control {
                plan: Some(Arc::new(plan)),
                forced_error: forced_error.clone(),
                removed: false,
            };
            let known = self.running.get(&key);
            if known.is_some_and(|running| resume(running, &control, &target, shared)) {
                continue;
            }
            let (running, start) = begin(&name, target, control, shared, self.offset_seed);
            self.running.insert(key, running);
            starts.extend(start);
        }
        metrics::POOL_TARGETS
            .with(&[name.as_str()])
            .set(count(self.active().count()));
        metrics::POOL_TARGET_LIMIT
            .with(&[name.as_str()])
            .set(count(self.job.limits.targets));
        metrics::POOL_SYNCS.with(&[name.as_str()]).inc();
        metrics::SYNC_LENGTH
            .with(&[name.as_str()])
            .observe_duration(start.elapsed());
        starts
    }

    /// Relabels the discovered targets.
    fn sort(&self, groups: &[TargetGroup]) -> Sorted {
        let mut sorted = Sorted {
            kept: Vec::new(),
            unscraped: Unscraped {
                drops_by_rule: vec![0; self.job.relabel_configs.len()],
                ..Unscraped::default()
            },
        };
        let unscraped = &mut sorted.unscraped;
        let failed = metrics::SYNC_FAILED.with(&[self.job.job_name.as_str()]);
        let keep = match self.job.limits.keep_dropped_targets {
            0 => usize::MAX,
            limit => limit,
        };
        for group in groups {
            for (at, own) in group.targets.iter().enumerate() {
                match Target::populate(&self.job, own, &group.labels) {
                    Ok(Populated::Kept(target)) => sorted.kept.push(*target),
                    Ok(Populated::Dropped(dropped)) => {
                        if let Some(drops) = unscraped.drops_by_rule.get_mut(dropped.rule) {
                            *drops += 1;
                        }
                        if unscraped.dropped.len() < keep {
                            unscraped.dropped.push(dropped);
                        }
                    }
                    Err(failure) => {
                        failed.inc();
                        let (job, source) = (&self.job.job_name, &group.source);
                        let error = &failure.reason;
                        tracing::error!(job, source, at, error, "Creating target failed.");
                        unscraped.failed_count += 1;
                        if unscraped.failed.len() < keep {
                            unscraped.failed.push(failure);
                        }
                    }
                }
            }
        }
        sorted
    }

    fn target_limit_error(&self, targets: usize) -> Option<Arc<str>> {
        let limit = self.job.limits.targets;
        if limit == 0 || targets <= limit {
            return None;
        }
        metrics::OVER_TARGET_LIMIT.inc();
        let reason =
            format!("target_limit exceeded (number of targets: {targets}, limit: {limit})");
        Some(reason.into())
    }

    /// Ends all loops.
    pub(crate) fn end(&mut self, shared: &Shared) {
        for running in self.running.values() {
            remove(running, shared);
        }
        metrics::remove_pool(&self.job.job_name);
    }

    pub(crate) fn job(&self) -> &JobConfig {
        &self.job
    }

    fn active(&self) -> impl Iterator<Item = &Arc<ActiveTarget>> {
        let here = self
            .running
            .values()
            .filter(|running| !running.is_removed());
        here.map(|running| &running.active)
    }

    pub(crate) fn status(&self) -> PoolStatus {
        PoolStatus {
            name: self.job.job_name.clone(),
            active: self.active().cloned().collect(),
            unscraped: Arc::clone(&self.unscraped),
            rules: self.job.relabel_configs.clone(),
        }
    }
}

fn client(job: &JobConfig, clients: &ClientConfig) -> Result<Client, ScrapeError> {
    Client::with_http(clients.clone(), job.http.clone()).map_err(|source| ScrapeError::Client {
        job: job.job_name.clone(),
        source,
    })
}

fn begin(
    pool: &str,
    target: Target,
    control: Control,
    shared: &Arc<Shared>,
    offset_seed: u64,
) -> (Running, Option<Start>) {
    let active = Arc::new(ActiveTarget::new(pool, target));
    shared.use_labels(&active.target.labels);
    metrics::TARGETS.inc();
    let plan = control.plan.clone();
    let (sender, receiver) = watch::channel(control);
    let start = plan.map(|plan| {
        let origin = Origin::Http(Box::new(HttpOrigin::new(plan, &shared.memory)));
        let (shared, active) = (Arc::clone(shared), Arc::clone(&active));
        Start {
            scraping: ScrapeLoop::new(shared, active, origin, offset_seed),
            control: receiver,
        }
    });
    let running = Running {
        active,
        control: sender,
    };
    (running, start)
}

/// Updates a loop's control if anything changed; revives a target that was being removed.
///
/// Reports whether the loop was still running.
fn resume(running: &Running, control: &Control, target: &Target, shared: &Shared) -> bool {
    running.active.find(target);
    running.active.unless_ended(|| {
        let before = running.control.borrow().clone();
        if before.removed {
            shared.use_labels(&running.active.target.labels);
            metrics::TARGETS.inc();
        }
        let same = !before.removed
            && before.plan.as_deref() == control.plan.as_deref()
            && before.forced_error == control.forced_error;
        if !same {
            running.control.send_replace(control.clone());
        }
    })
}

fn remove(running: &Running, shared: &Shared) {
    if !running.is_removed() {
        shared.leave_labels(&running.active.target.labels);
        metrics::TARGETS.dec();
        running
            .control
            .send_modify(|control| control.removed = true);
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn count(count: usize) -> f64 {
    count as f64
}

/// Returns the target with the collection interval of a source inside the process.
pub(crate) fn with_interval(mut target: Target, interval: Duration) -> Target {
    (target.interval, target.timeout) = (interval, interval);
    target
}

#[cfg(test)]
mod tests;
