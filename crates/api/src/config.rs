//! What the API answers from.
//!
//! **Invariant:** a query holds one of `max_concurrency` permits while it runs; waiting for one counts towards its
//! timeout.

use crate::{
    metrics,
    status::{NoStatus, ServerStatus},
};
use narthex_model::storage::{Budget, Context, Stop, StopReason, Store, Warnings};
use narthex_promql::Engine;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::Semaphore;

/// Settings of the API.
#[derive(Clone, Debug)]
pub struct ApiConfig {
    /// Longest time a query may take (`--query.timeout`).
    pub timeout: Duration,
    /// Queries that run at once (`--query.max-concurrency`).
    pub max_concurrency: usize,
    /// Memory of one query, in bytes.
    pub query_memory_bytes: u64,
    /// What `/api/v1/status/buildinfo` says.
    pub build: BuildInfo,
}

/// What was built, when and by whom.
#[derive(Clone, Debug, Default)]
pub struct BuildInfo {
    /// The version of Prometheus whose API this is: clients choose features by it.
    pub prometheus_version: String,
    /// Narthex's own version.
    pub version: String,
    /// The commit, or empty.
    pub revision: String,
    /// The branch, or empty.
    pub branch: String,
    /// When it was built, or empty.
    pub build_date: String,
    /// The compiler.
    pub compiler: String,
}

/// The API's state.
pub struct Api {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) config: ApiConfig,
    pub(crate) permits: Arc<Semaphore>,
    pub(crate) now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    pub(crate) status: Arc<dyn ServerStatus>,
    budget: Budget,
}

impl Api {
    /// Returns the state of an API over `store`; all queries together lease from `budget`.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        engine: Arc<Engine>,
        config: ApiConfig,
        budget: Budget,
        now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    ) -> Self {
        let permits = Arc::new(Semaphore::new(config.max_concurrency.max(1)));
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        metrics::QUERIES_MAX.set(config.max_concurrency.max(1) as f64);
        Self {
            store,
            engine,
            config,
            permits,
            now_ms,
            status: Arc::new(NoStatus),
            budget,
        }
    }

    /// Tells the API about the process it runs in.
    #[must_use]
    pub fn with_status(mut self, status: Arc<dyn ServerStatus>) -> Self {
        self.status = status;
        self
    }

    /// Returns a context for one call and the guard that cancels it when the caller goes away.
    pub(crate) fn context(&self, timeout: Duration) -> (Context, CancelOnDrop) {
        let stop = Stop::at(Instant::now() + timeout.min(self.config.timeout));
        let budget = self
            .budget
            .child("the query", self.config.query_memory_bytes);
        (
            Context {
                budget,
                stop: stop.clone(),
                warnings: Warnings::default(),
            },
            CancelOnDrop(stop),
        )
    }
}

/// Cancels a running call when its request is dropped.
pub(crate) struct CancelOnDrop(Stop);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.stop(StopReason::Canceled);
    }
}
