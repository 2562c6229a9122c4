//! Runs a loop for every target.
//!
//! **Invariant:** a loop ends only when the manager's stop token does; what it had acknowledged is stored.

use crate::{
    JobConfig, ScrapeError, Target,
    buffers::Buffers,
    local::LocalSource,
    metrics,
    scrape_loop::{HttpOrigin, LocalOrigin, Origin, ScrapeLoop, Shared},
    status::ActiveTarget,
};
use narthex_model::storage::Sink;
use narthex_net::{Client, ClientConfig, StopToken};
use std::{
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool},
    time::Duration,
};
use tokio::task::JoinSet;

/// What a manager works with.
pub struct ManagerConfig {
    /// Where rounds go.
    pub sink: Arc<dyn Sink>,
    /// The wall clock, in milliseconds since the epoch.
    pub now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
}

/// All targets being scraped.
pub struct Manager {
    shared: Arc<Shared>,
    active: Mutex<Vec<Arc<ActiveTarget>>>,
    loops: Mutex<JoinSet<()>>,
    stop: StopToken,
}

impl Manager {
    /// Returns a manager without targets; its loops end with `stop`.
    #[must_use]
    pub fn new(config: ManagerConfig, stop: StopToken) -> Self {
        let shared = Shared {
            client: Client::new(ClientConfig::default()),
            sink: config.sink,
            buffers: Buffers::default(),
            now_ms: config.now_ms,
            storage_fails: AtomicBool::new(false),
        };
        Self {
            shared: Arc::new(shared),
            active: Mutex::default(),
            loops: Mutex::default(),
            stop,
        }
    }

    /// Starts scraping a job's targets.
    ///
    /// # Errors
    /// Fails, starting nothing, when a target cannot be scraped at all.
    pub fn start_job(&self, job: &JobConfig) -> Result<(), ScrapeError> {
        for target in Target::of_job(job)? {
            let active = ActiveTarget::new(
                &job.job_name,
                target,
                job.scrape_interval,
                job.scrape_timeout,
            );
            if let Some(origin) = HttpOrigin::new(job, &active) {
                self.start(active, Origin::Http(Box::new(origin)));
            }
        }
        Ok(())
    }

    /// Starts collecting from a source inside the process.
    pub fn start_local(&self, target: Target, interval: Duration, source: Box<dyn LocalSource>) {
        let pool = target.labels.get("job").unwrap_or_default().to_owned();
        let active = ActiveTarget::new(&pool, target, interval, interval);
        let origin = LocalOrigin::new(source, &active);
        self.start(active, Origin::Local(Box::new(origin)));
    }

    /// Waits until every loop has ended; call it after the stop.
    pub async fn join(&self) {
        let mut loops =
            std::mem::take(&mut *self.loops.lock().unwrap_or_else(PoisonError::into_inner));
        while let Some(ended) = loops.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "A scrape loop ended with a panic.");
            }
        }
    }

    pub(crate) fn active(&self) -> Vec<Arc<ActiveTarget>> {
        self.active
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn start(&self, active: ActiveTarget, origin: Origin) {
        let active = Arc::new(active);
        self.active
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arc::clone(&active));
        metrics::TARGETS.inc();
        let scraping = ScrapeLoop::new(Arc::clone(&self.shared), active, origin);
        self.loops
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .spawn(scraping.run(self.stop.clone()));
    }
}
