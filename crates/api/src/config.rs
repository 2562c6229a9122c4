//! Settings and state of the API.
//!
//! **Invariant:** a query holds one of `max_concurrency` permits until its response has been sent; waiting for one
//! counts towards its timeout. Calls about labels, metadata and status have permits of their own.

use crate::{
    activity::Activity,
    kept::KeptAnswers,
    metrics,
    process::{NoStatus, ServerStatus},
    short_questions::ShortQuestions,
};
use narthex_model::storage::{Budget, Context, Lease, OverBudget, Stop, Store, Warnings};
use narthex_promql::{Engine, KeptSteps};
use std::{sync::Arc, time::Duration};
use tokio::{runtime::Handle, sync::Semaphore, task::JoinHandle};

/// Most bytes of kept answers.
const MOST_KEPT_BYTES: u64 = 8 << 20;
/// Most bytes of steps of range queries that are kept for the next time they are asked.
const MOST_KEPT_STEPS_BYTES: u64 = 32 << 20;

/// Settings of the API.
#[derive(Clone, Debug)]
pub struct ApiConfig {
    /// Longest time a query may take (`--query.timeout`).
    pub timeout: Duration,
    /// Most queries at once (`--query.max-concurrency`).
    pub max_concurrency: usize,
    /// Most calls about labels, series, metadata and status at once (`--query.max-metadata-concurrency`).
    pub max_metadata_concurrency: usize,
    /// Most parameters of a request (`--query.max-parameters`).
    pub max_parameters: usize,
    /// Most memory of one query, in bytes.
    pub query_memory_bytes: u64,
    /// Whether `stats=all` shows each step (`--enable-feature=promql-per-step-stats`).
    pub per_step_stats: bool,
    /// Whether there are search calls (`--enable-feature=search-api`).
    pub search: bool,
    /// Most results of a search (`--web.search.max-limit`); 0 means no limit.
    pub max_search_limit: usize,
    /// Response of `/api/v1/status/buildinfo`.
    pub build: BuildInfo,
}

/// Version and origin of the build.
#[derive(Clone, Debug, Default)]
pub struct BuildInfo {
    /// Version of Prometheus whose API this is; clients choose features by it.
    pub prometheus_version: String,
    /// Narthex's own version.
    pub version: String,
    /// Commit, or empty.
    pub revision: String,
    /// Branch, or empty.
    pub branch: String,
    /// Time of the build, or empty.
    pub build_date: String,
    /// Compiler version.
    pub compiler: String,
}

/// The pool of permits that a call waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Gate {
    /// Evaluating a query.
    Query,
    /// Listing labels, series, metadata; parsing.
    Metadata,
}

/// Threads for calls when many run at once.
struct OverflowThreads {
    /// Up to this many run at the usual priority.
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
    /// Allows one heap profile at a time.
    pub(crate) profiles: Arc<Semaphore>,
    /// Memory of the parameters of all requests.
    pub(crate) parameters: Budget,
    pub(crate) now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    pub(crate) status: Arc<dyn ServerStatus>,
    pub(crate) activity: Arc<Activity>,
    budget: Budget,
    /// Memory of listings.
    listings: Budget,
    pub(crate) kept: KeptAnswers,
    pub(crate) short: ShortQuestions,
    /// Runtime for calls when the serving one has enough to do.
    overflow: Option<OverflowThreads>,
}

impl Api {
    /// Returns the state of an API over `store`; all queries lease from `budget`.
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
        let statistics = Budget::new("statistics of queries", 1 << 20);
        let activity = Activity::new(&statistics, Arc::clone(&now_ms));
        let steps = Arc::new(KeptSteps::new(&budget, MOST_KEPT_STEPS_BYTES));
        Self {
            store,
            engine: Arc::new(Engine::clone(&engine).keeping(Some(steps))),
            config,
            queries,
            metadata,
            profiles: Arc::new(Semaphore::new(1)),
            parameters,
            now_ms,
            status: Arc::new(NoStatus),
            activity: activity.expect("nothing is leased from a new budget"),
            listings: budget.clone(),
            kept: KeptAnswers::new(&budget, MOST_KEPT_BYTES),
            short: ShortQuestions::default(),
            overflow: None,
            budget,
        }
    }

    /// Leases memory for a response about the process itself.
    pub(crate) fn lease_for_status(&self, bytes: u64) -> Result<Lease, OverBudget> {
        self.listings.lease(bytes)
    }

    /// Lets calls about labels, series, metadata and status lease from `listings` instead of the queries' budget.
    #[must_use]
    pub fn with_listings(mut self, listings: Budget) -> Self {
        self.kept = KeptAnswers::new(&listings, MOST_KEPT_BYTES);
        self.listings = listings;
        self
    }

    /// Sets what is known of the queries that are asked.
    #[must_use]
    pub fn with_activity(mut self, activity: Arc<Activity>) -> Self {
        self.activity = activity;
        self
    }

    /// Sets the source of information about the process.
    #[must_use]
    pub fn with_status(mut self, status: Arc<dyn ServerStatus>) -> Self {
        self.status = status;
        self
    }

    /// Runs calls beyond `few` at once on the blocking threads of another runtime, which may have a lower priority.
    #[must_use]
    pub fn with_overflow_threads(mut self, few: usize, threads: Handle) -> Self {
        self.overflow = Some(OverflowThreads { few, threads });
        self
    }

    /// Runs `work`, which already has its permit, on a blocking thread.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let at_once = self.queries.in_flight() + self.metadata.in_flight();
        match &self.overflow {
            Some(overflow) if at_once > overflow.few => overflow.threads.spawn_blocking(work),
            _ => tokio::task::spawn_blocking(work),
        }
    }

    /// Returns the permits of this kind of call.
    pub(crate) fn gate(&self, gate: Gate) -> &narthex_net::Gate {
        match gate {
            Gate::Query => &self.queries,
            Gate::Metadata => &self.metadata,
        }
    }

    /// Returns a context for one call.
    pub(crate) fn context(&self, gate: Gate, stop: Stop) -> Context {
        let most_bytes = self.config.query_memory_bytes;
        let budget = match gate {
            Gate::Query => self.budget.child("the query", most_bytes),
            Gate::Metadata => self.listings.child("the listing", most_bytes),
        };
        Context {
            budget,
            stop,
            warnings: Warnings::default(),
        }
    }
}
