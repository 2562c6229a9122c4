//! Runs a loop for every target of every job.
//!
//! **Invariant:** a loop ends only when its target is gone or the manager's stop token fires; every round it
//! acknowledged is stored.

use crate::{
    buffers::Buffers,
    config::JobConfig,
    error::ScrapeError,
    failure_log::FailureLogs,
    local::LocalSource,
    memory::{Refusals, ScrapeMemory},
    metrics,
    origin::{LocalOrigin, Origin},
    pool::{self, Pool, Start},
    scrape_loop::{Control, ScrapeLoop, Shared},
    status::{ActiveTarget, PoolStatus},
    target::Target,
};
use narthex_discovery::TargetGroup;
use narthex_model::sync::Whole as _;
use narthex_model::{LabelSet, storage::Sink};
use narthex_net::{ClientConfig, StopToken, catch_panic};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{sync::watch, task::JoinSet};

/// Dependencies of a manager.
pub struct ManagerConfig {
    /// Destination of rounds.
    pub sink: Arc<dyn Sink>,
    /// The wall clock, in milliseconds since the epoch.
    pub now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    /// Base client settings that jobs' HTTP settings override.
    pub client: ClientConfig,
    /// Memory for pages and the targets' series.
    pub memory: ScrapeMemory,
    /// Runtime of the loops: multi-threaded, because a wide target blocks its thread.
    pub runtime: tokio::runtime::Handle,
}

/// All targets being scraped.
pub struct Manager {
    shared: Arc<Shared>,
    pools: Mutex<BTreeMap<String, Pool>>,
    locals: Mutex<Vec<(Arc<ActiveTarget>, watch::Sender<Control>)>>,
    /// Sources inside the process that are about to end, and their jobs.
    ending: Mutex<Vec<(String, Arc<watch::Sender<Control>>)>>,
    loops: Mutex<JoinSet<()>>,
    runtime: tokio::runtime::Handle,
    client: ClientConfig,
    clients: AtomicU64,
    offset_seed: AtomicU64,
    stop: StopToken,
}

/// A source inside the process that a manager collects from.
#[derive(Debug)]
pub struct LocalHandle(Arc<ActiveTarget>);

/// Logs a panic that escaped a loop.
fn tell_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "A scrape loop ended with a panic.");
    }
}

impl Manager {
    /// Returns a manager without targets; its loops end with `stop`.
    #[must_use]
    pub fn new(config: ManagerConfig, stop: StopToken) -> Self {
        let shared = Shared {
            sink: config.sink,
            buffers: Buffers::new(config.memory.idle_bytes()),
            memory: config.memory,
            refusals: Refusals::default(),
            now_ms: config.now_ms,
            storage_fails: AtomicBool::new(false),
            failure_logs: FailureLogs::default(),
            labels_in_use: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
            pools: Mutex::default(),
            locals: Mutex::default(),
            ending: Mutex::default(),
            loops: Mutex::default(),
            runtime: config.runtime,
            client: config.client,
            clients: AtomicU64::new(0),
            offset_seed: AtomicU64::new(0),
            stop,
        }
    }

    /// Spreads this server's scrapes from those of others with the same targets, such as its replica.
    ///
    /// Existing pools keep their offsets, also for targets added later.
    pub fn set_offset_seed(&self, host: &str, external_labels: &LabelSet) {
        let identity = format!("{host}{external_labels}");
        let seed = rapidhash::v3::rapidhash_v3(identity.as_bytes());
        self.offset_seed.store(seed, Ordering::Relaxed);
    }

    /// Opens the files that jobs log failed scrapes to, reopening by name those already open.
    ///
    /// Call it before these jobs are applied, and on every reload: that is how such files are rotated.
    ///
    /// # Errors
    /// Fails, changing nothing, if a file cannot be opened.
    pub fn open_failure_logs<'a>(
        &self,
        jobs: impl IntoIterator<Item = &'a JobConfig>,
    ) -> Result<(), ScrapeError> {
        let paths = jobs.into_iter().filter_map(|job| job.failure_log.clone());
        self.shared.failure_logs.open(&paths.collect())
    }

    /// Makes the pool `job.job_name` scrape the targets of `groups` with the settings of `job`.
    ///
    /// Unchanged targets keep their connections, schemas and offsets; those whose job changed use the new settings from
    /// their next scrape; those that are gone end after about two intervals.
    ///
    /// # Errors
    /// Fails, changing nothing, if the job's HTTP settings are invalid; fails, leaving no pool, if it panics.
    /// Invalid targets are logged and counted.
    pub fn apply(&self, job: JobConfig, groups: &[TargetGroup]) -> Result<(), ScrapeError> {
        let client_id = self.clients.fetch_add(1, Ordering::Relaxed);
        let name = job.job_name.clone();
        let mut pools = self.pools.lock().whole();
        let changed = catch_panic("targets", || {
            self.change(&mut pools, job, groups, client_id)
        });
        let starts = changed.unwrap_or_else(|panicked| {
            // It may list targets whose loops were never started.
            if let Some(mut pool) = pools.remove(&name) {
                let _ = catch_panic("targets", || pool.end(&self.shared));
            }
            Err(ScrapeError::Panicked {
                job: name,
                source: panicked,
            })
        })?;
        drop(pools);
        let mut loops = self.loops.lock().whole();
        // Reap loops that have ended.
        while let Some(ended) = loops.try_join_next() {
            tell_panic(ended);
        }
        for Start { scraping, control } in starts {
            loops.spawn_on(scraping.run(control, self.stop.clone()), &self.runtime);
        }
        Ok(())
    }

    /// Updates or creates the pool of a job; returns the loops to start.
    fn change(
        &self,
        pools: &mut BTreeMap<String, Pool>,
        job: JobConfig,
        groups: &[TargetGroup],
        client_id: u64,
    ) -> Result<Vec<Start>, ScrapeError> {
        if let Some(pool) = pools.get_mut(&job.job_name) {
            pool.configure(job, &self.client, client_id)?;
            return Ok(pool.sync(groups, &self.shared));
        }
        let name = job.job_name.clone();
        let seed = self.offset_seed.load(Ordering::Relaxed);
        let mut pool = Pool::new(job, &self.client, client_id, seed)?;
        let starts = pool.sync(groups, &self.shared);
        pools.insert(name, pool);
        Ok(starts)
    }

    /// Ends all pools whose names are not in `names`.
    pub fn retain(&self, names: &BTreeSet<String>) {
        self.pools.lock().whole().retain(|name, pool| {
            let stays = names.contains(name);
            if !stays {
                pool.end(&self.shared);
            }
            stays
        });
    }

    /// Starts collecting from a source inside the process, once the ending ones of the same job have ended: they may have
    /// the same series. Returns what ends it.
    pub fn start_local(
        &self,
        target: Target,
        interval: Duration,
        source: Box<dyn LocalSource>,
    ) -> LocalHandle {
        let pool = target.labels.get("job").unwrap_or_default().to_owned();
        let target = pool::with_interval(target, interval);
        let origin = Origin::Local(Box::new(LocalOrigin::new(source, &target.labels)));
        let active = Arc::new(ActiveTarget::new(&pool, target));
        let handle = LocalHandle(Arc::clone(&active));
        let (sender, receiver) = watch::channel(Control::default());
        let before = self.ending_of(&pool);
        self.locals
            .lock()
            .whole()
            .push((Arc::clone(&active), sender));
        metrics::TARGETS.inc();
        let seed = self.offset_seed.load(Ordering::Relaxed);
        let shared = Arc::clone(&self.shared);
        let scraping = ScrapeLoop::new(shared, active, origin, seed);
        let stop = self.stop.clone();
        let run = async move {
            for control in before {
                control.closed().await;
            }
            scraping.run(receiver, stop).await;
        };
        self.loops.lock().whole().spawn_on(run, &self.runtime);
        handle
    }

    /// Returns the sources of a job inside the process that have not ended yet.
    fn ending_of(&self, pool: &str) -> Vec<Arc<watch::Sender<Control>>> {
        let mut ending = self.ending.lock().whole();
        ending.retain(|(_, control)| !control.is_closed());
        let of_job = ending.iter().filter(|(name, _)| name == pool);
        of_job.map(|(_, control)| Arc::clone(control)).collect()
    }

    /// Stops collecting from a source inside the process, and ends its series.
    pub fn end_local(&self, source: &LocalHandle) {
        let is_it = |(active, _): &(Arc<ActiveTarget>, _)| Arc::ptr_eq(active, &source.0);
        let ended: Vec<_> = self
            .locals
            .lock()
            .whole()
            .extract_if(.., |one| is_it(one))
            .collect();
        for (active, control) in ended {
            metrics::TARGETS.dec();
            control.send_modify(|control| control.removed = true);
            self.ending
                .lock()
                .whole()
                .push((active.pool.clone(), Arc::new(control)));
        }
    }

    /// Waits until every loop has ended; call it after the stop.
    pub async fn join(&self) {
        let mut loops = std::mem::take(&mut *self.loops.lock().whole());
        while let Some(ended) = loops.join_next().await {
            tell_panic(ended);
        }
    }

    /// Returns the names of all pools, sorted.
    #[must_use]
    pub fn pool_names(&self) -> Vec<String> {
        let mut names: BTreeSet<String> = self.pools.lock().whole().keys().cloned().collect();
        let locals = self.locals.lock().whole();
        names.extend(locals.iter().map(|(active, _)| active.pool.clone()));
        names.into_iter().collect()
    }

    /// Returns the configuration of a pool.
    #[must_use]
    pub fn pool_config(&self, pool: &str) -> Option<JobConfig> {
        self.pools
            .lock()
            .whole()
            .get(pool)
            .map(|pool| pool.job().clone())
    }

    /// Returns the status of all pools, including sources inside the process, sorted by name.
    pub(crate) fn pools(&self) -> Vec<PoolStatus> {
        let pools = self.pools.lock().whole();
        let mut all: BTreeMap<String, PoolStatus> = pools
            .iter()
            .map(|(name, pool)| (name.clone(), pool.status()))
            .collect();
        drop(pools);
        for (active, _) in self.locals.lock().whole().iter() {
            let pool = all
                .entry(active.pool.clone())
                .or_insert_with(|| PoolStatus {
                    name: active.pool.clone(),
                    ..PoolStatus::default()
                });
            pool.active.push(Arc::clone(active));
        }
        let mut all: Vec<PoolStatus> = all.into_values().collect();
        for pool in &mut all {
            let order = |target: &Arc<ActiveTarget>| target.target.labels.clone();
            pool.active.sort_by_key(order);
        }
        all
    }
}
