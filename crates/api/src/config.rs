//! What the API answers from.
//!
//! **Invariant:** a query holds one of `max_concurrency` permits until its answer has been sent; waiting for one counts
//! towards its timeout. Calls about labels, metadata and status have permits of their own.

use crate::{
    metrics,
    process::{NoStatus, ServerStatus},
};
use narthex_model::storage::{
    Budget, Context, Lease, OverBudget, Stop, StopReason, Store, Warnings,
};
use narthex_promql::Engine;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{runtime::Handle, sync::Semaphore, task::JoinHandle};

/// Settings of the API.
#[derive(Clone, Debug)]
pub struct ApiConfig {
    /// Longest time a query may take (`--query.timeout`).
    pub timeout: Duration,
    /// Queries that run at once (`--query.max-concurrency`).
    pub max_concurrency: usize,
    /// Calls about labels, series, metadata and status that run at once (`--query.max-metadata-concurrency`).
    pub max_metadata_concurrency: usize,
    /// Parameters that a request may have (`--query.max-parameters`).
    pub max_parameters: usize,
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

/// What a call has to wait for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Gate {
    /// Evaluating a query.
    Query,
    /// Listing labels, series, metadata; parsing.
    Metadata,
}

/// Who works on calls when there are many.
struct Crowd {
    /// So many at once are none.
    few: usize,
    threads: Handle,
}

/// The API's state.
pub struct Api {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) config: ApiConfig,
    queries: narthex_net::Gate,
    metadata: narthex_net::Gate,
    /// One heap profile is made at a time.
    pub(crate) profiles: Arc<Semaphore>,
    /// What the parameters of all requests take.
    pub(crate) parameters: Budget,
    pub(crate) now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    pub(crate) status: Arc<dyn ServerStatus>,
    budget: Budget,
    /// What listings lease from.
    listings: Budget,
    /// Whose threads evaluate and list where those of the runtime that serves have enough to do.
    crowd: Option<Crowd>,
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
        let queries = narthex_net::Gate::new("query", config.max_concurrency);
        let metadata = narthex_net::Gate::new("metadata", config.max_metadata_concurrency);
        let parameters = budget.child("parameters of all requests", budget.limit_bytes() / 4);
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        metrics::QUERIES_MAX.set(config.max_concurrency.max(1) as f64);
        Self {
            store,
            engine,
            config,
            queries,
            metadata,
            profiles: Arc::new(Semaphore::new(1)),
            parameters,
            now_ms,
            status: Arc::new(NoStatus),
            listings: budget.clone(),
            crowd: None,
            budget,
        }
    }

    /// Takes memory for an answer about the process itself.
    pub(crate) fn lease_for_status(&self, bytes: u64) -> Result<Lease, OverBudget> {
        self.listings.lease(bytes)
    }

    /// Lets calls about labels, series, metadata and status lease from `listings`, not from what queries have.
    #[must_use]
    pub fn with_listings(mut self, listings: Budget) -> Self {
        self.listings = listings;
        self
    }

    /// Tells the API about the process it runs in.
    #[must_use]
    pub fn with_status(mut self, status: Arc<dyn ServerStatus>) -> Self {
        self.status = status;
        self
    }

    /// Lets calls beyond `few` at once be worked on by the blocking threads of another runtime, which may be of a lower
    /// priority.
    #[must_use]
    pub fn with_crowd(mut self, few: usize, threads: Handle) -> Self {
        self.crowd = Some(Crowd { few, threads });
        self
    }

    /// Runs `work`, whose call has passed its gate, on a thread where blocking is allowed.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let at_once = self.queries.in_flight() + self.metadata.in_flight();
        match &self.crowd {
            Some(crowd) if at_once > crowd.few => crowd.threads.spawn_blocking(work),
            _ => tokio::task::spawn_blocking(work),
        }
    }

    /// Returns what a call of this kind waits for.
    pub(crate) fn gate(&self, gate: Gate) -> &narthex_net::Gate {
        match gate {
            Gate::Query => &self.queries,
            Gate::Metadata => &self.metadata,
        }
    }

    /// Returns a context for one call and the guard that cancels it when the caller goes away.
    pub(crate) fn context(&self, gate: Gate, timeout: Duration) -> (Context, CancelOnDrop) {
        let stop = Stop::at(Instant::now() + timeout.min(self.config.timeout));
        let most_bytes = self.config.query_memory_bytes;
        let budget = match gate {
            Gate::Query => self.budget.child("the query", most_bytes),
            Gate::Metadata => self.listings.child("the listing", most_bytes),
        };
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
