//! `narthex agent`: scrapes and sends, stores and queries nothing.
//!
//! **Invariant:** what a remote end was not sent is on disk: the end needs not wait for it, and a start goes on with it.

use super::{
    base::{self, Base},
    error::ServerError,
    push_upkeep::Upkeep as PushUpkeep,
    server::runtime,
};
use crate::{
    cgroup::Resources,
    cli::ServerOptions,
    descriptors, heap, lifecycle, logging,
    memory::{self, Memory},
    program_pages, reload, remote,
    web::exposed::Exposed,
};
use http::StatusCode;
use narthex_expfmt::{Exposition, ExpositionMemory};
use narthex_files::FilesManager;
use narthex_model::MemStore;
use narthex_net::{
    Router, Stopper,
    axum::{
        extract::Request,
        middleware::{self, Next},
        response::Response,
    },
    respond_json,
};
use narthex_remote::RemoteStorage;
use narthex_scrape::Manager;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Threads for everything but what reads queues: an agent has little to do, and each thread has memory of its own.
const MAX_THREADS: usize = 2;

/// Parts of the API that need storage, as Prometheus' agent refuses them.
const UNAVAILABLE: [&str; 19] = [
    "/api/v1/admin/tsdb/",
    "/api/v1/alertmanagers",
    "/api/v1/alerts",
    "/api/v1/format_query",
    "/api/v1/label/",
    "/api/v1/labels",
    "/api/v1/parse_query",
    "/api/v1/query",
    "/api/v1/query_exemplars",
    "/api/v1/query_range",
    "/api/v1/rules",
    "/api/v1/search/",
    "/api/v1/series",
    "/api/v1/status/active_queries",
    "/api/v1/status/metric_names_stats",
    "/api/v1/status/top_queries",
    "/api/v1/status/tsdb",
    "/api/v1/status/tsdb/blocks",
    "/federate",
];

/// Runs the agent until it is stopped.
///
/// # Errors
/// Fails when it cannot start or cannot end cleanly.
pub(crate) fn run(options: ServerOptions) -> Result<(), ServerError> {
    logging::start(&options.log_level, &options.log_format)
        .map_err(|(flag, reason)| ServerError::Flag { flag, reason })?;
    narthex_net::log_panics();
    heap::return_soon();
    heap::sample_on_request();
    program_pages::map_in_pieces();
    let mut resources = Resources::detect();
    resources.memory_bytes =
        memory::limit(&options.memory_limit, resources.memory_bytes).map_err(|reason| {
            ServerError::Flag {
                flag: "memory.limit",
                reason,
            }
        })?;
    descriptors::raise_limit();
    let serving = runtime("narthex-io", resources.threads().min(MAX_THREADS))?;
    let outcome = serving.block_on(serve(options, resources));
    serving.shutdown_timeout(Duration::from_secs(1));
    outcome
}

async fn serve(options: ServerOptions, resources: Resources) -> Result<(), ServerError> {
    let Some(path) = &options.config_file else {
        return Err(ServerError::Flag {
            flag: "config.file",
            reason: "an agent needs a configuration".to_owned(),
        });
    };
    let config = base::load(path, &options)?;
    // Start order: port, queues and scraping, requests.
    let base = Base::start(&options, Some(&config), &resources).await?;
    base.status.set_retention(String::new());
    let ends = remote::sending(&options.storage_path, &base.now_ms);
    let (scrape_stopper, scrape_stop) = base.stop.child();
    let here = tokio::runtime::Handle::current();
    let exposition = options.exposes_sources.then(|| exposition(&base.memory));
    let sink = match &exposition {
        Some(exposition) => exposition.sink(ends.sink(None)),
        None => ends.sink(None),
    };
    let (manager, files) = base::reading(Arc::clone(&sink), &base, here.clone(), scrape_stop);
    let parts = reload::Parts {
        manager: Arc::clone(&manager),
        files: files.clone(),
        remote: Arc::clone(&ends),
        rules: None,
        notifier: None,
        status: Arc::clone(&base.status),
        activity: Arc::clone(&base.activity),
        storage_flags: None,
        features: options.config_features(),
        now_ms: Arc::clone(&base.now_ms),
    };
    let reloader = base::follow((path, config), parts, &options, &base)?;
    let threads = resources.threads();
    let (writes, push_upkeep) =
        base::writes(&options, &ends, [&ends.sink(None), &sink], &base, threads).await?;
    let nothing = Arc::new(MemStore::new());
    let api = without_queries(base::api(&options, nothing, &base, threads, here));
    base.open(
        &options,
        &resources,
        api.merge(writes),
        &manager,
        Some(reloader),
        exposition.map(|exposition| Exposed {
            exposition,
            with_own: !options.hides_own_metrics,
            now_ms: Arc::clone(&base.now_ms),
        }),
    );

    base.stop.stopped().await;

    let running = Running {
        base,
        push_upkeep,
        ends,
        flush_deadline: options.flush_deadline,
        manager,
        files: files.manager,
        scrape_stopper,
    };
    running.end().await
}

/// Returns what shows the sources' newest samples.
fn exposition(memory: &Memory) -> Exposition {
    Exposition::new(ExpositionMemory {
        kept: memory.targets.clone(),
        pages: memory.listings.clone(),
    })
}

/// Refuses requests to the parts of the API that need storage.
fn without_queries(api: Router) -> Router {
    api.layer(middleware::from_fn(|request: Request, next: Next| async {
        let path = request.uri().path();
        let is_unavailable = UNAVAILABLE.iter().any(|one| match one.strip_suffix('/') {
            Some(_) => path.starts_with(one),
            None => path == *one,
        });
        if is_unavailable {
            return unavailable(request.headers());
        }
        next.run(request).await
    }))
}

fn unavailable(headers: &http::HeaderMap) -> Response {
    let answer = serde_json::json!({
        "status": "error",
        "errorType": "execution",
        "error": "unavailable with Prometheus Agent",
    });
    let mut response = respond_json(answer.to_string(), headers);
    *response.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
    response
}

/// Everything that was started, in start order.
struct Running {
    base: Base,
    push_upkeep: Option<PushUpkeep>,
    ends: Arc<RemoteStorage>,
    /// Time that remote ends have to take what waits for them.
    flush_deadline: Duration,
    files: Arc<FilesManager>,
    manager: Arc<Manager>,
    scrape_stopper: Stopper,
}

impl Running {
    /// Stops everything in reverse order: requests, scraping, sending.
    async fn end(self) -> Result<(), ServerError> {
        let begin = Instant::now();
        let now_waiting_for = lifecycle::force_after_deadline("requests");
        let cut = self.base.web.join().await;
        now_waiting_for("pushed groups");
        if let Some(upkeep) = self.push_upkeep {
            upkeep.join();
        }
        now_waiting_for("scrape loops");
        self.scrape_stopper.stop();
        self.manager.join().await;
        self.files.join().await;
        now_waiting_for("remote ends");
        remote::flush(self.ends, self.flush_deadline, begin).await;
        self.base.watch.join();
        tracing::info!("Ended cleanly.");
        if cut > 0 {
            return Err(ServerError::Cut { requests: cut });
        }
        Ok(())
    }
}
