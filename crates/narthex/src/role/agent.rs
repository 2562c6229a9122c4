//! `narthex agent`: scrapes and sends, stores and queries nothing.
//!
//! **Invariant:** what a remote end was not sent is on disk: the end needs not wait for it, and a start goes on with it.

use super::{
    base::{self, Base},
    error::{ServerError, start_logging},
    server::{Running, runtime},
};
use crate::{
    cgroup::Resources, cli::ServerOptions, descriptors, heap, memory::Memory, program_pages,
    remote, web::exposed::Exposed,
};
use http::StatusCode;
use narthex_expfmt::{Exposition, ExpositionMemory};
use narthex_model::MemStore;
use narthex_net::{
    Router,
    axum::{
        extract::Request,
        middleware::{self, Next},
        response::Response,
    },
    respond_json,
};
use std::{sync::Arc, time::Duration};

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
    start_logging(&options.log_level, &options.log_format)?;
    heap::return_soon();
    heap::sample_on_request();
    program_pages::map_in_pieces();
    let resources = base::resources(&options)?;
    descriptors::raise_limit();
    let serving = runtime("narthex-io", resources.threads().min(MAX_THREADS))?;
    let outcome = serving.block_on(serve(options, resources));
    serving.shutdown_timeout(Duration::from_secs(1));
    outcome
}

async fn serve(options: ServerOptions, resources: Resources) -> Result<(), ServerError> {
    let Some(path) = &options.config_file else {
        let reason = "an agent needs a configuration";
        return Err(ServerError::flag("config.file")(reason));
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
    let parts = base::parts(&options, &base, &manager, &files, &ends);
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
        rules: None,
        storage: None,
        notifier: None,
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
