//! `narthex node-exporter`: starts and stops the exporter of host metrics.
//!
//! **Invariant:** everything but devices that may hang has one thread: waking others for one page costs more than the
//! page.

use super::{
    error::{ServerError, ended, start_logging},
    listen,
};
use crate::{
    cli::NodeExporterOptions,
    descriptors, doctor, heap,
    host_facts::HostFacts,
    lifecycle, program_pages,
    sources::OwnPage,
    trimmer::Trimmer,
    web::origin::{Origins, protect},
};
use narthex_client::Registry;
use narthex_host::{CollectorKind, ExporterConfig, Facts, OwnMetrics};
use narthex_model::LabelSet;
use narthex_net::{
    Router, ServerConfig, StopToken, Stopper,
    axum::{
        extract::Request,
        middleware::{self, Next},
    },
};
use narthex_tsdb::{Clock as _, SystemClock};
use std::{sync::Arc, time::Duration};

/// Runs the exporter until it is stopped.
///
/// # Errors
/// Fails when it cannot start or cannot end cleanly.
pub(crate) fn run(options: NodeExporterOptions) -> Result<(), ServerError> {
    start_logging(&options.web.log_level, &options.web.log_format)?;
    warn(&options);
    descriptors::raise_limit();
    heap::stop_sampling();
    program_pages::map_in_pieces();
    let serving = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(ServerError::Runtime)?;
    let outcome = serving.block_on(serve(options));
    serving.shutdown_timeout(Duration::from_secs(1));
    outcome
}

fn warn(options: &NodeExporterOptions) {
    for (flag, reason) in &options.web.values.without_effect {
        tracing::warn!(flag, reason, "Flag is accepted without effect.");
    }
    for (flag, successor) in options.deprecated() {
        tracing::warn!(flag, successor, "Flag has a new name.");
    }
    if rustix::process::geteuid().is_root() {
        tracing::warn!("Running as root is not needed; without it, only a few values are missing.");
        return;
    }
    for (collector, misses) in options.host.collectors.losses() {
        let collector = collector.name();
        tracing::info!(
            collector,
            misses,
            "Not running as root, a collector misses values."
        );
    }
}

async fn serve(options: NodeExporterOptions) -> Result<(), ServerError> {
    let registry = narthex_client::global();
    register(registry).map_err(ServerError::Metrics)?;
    let (stopper, stop) = Stopper::new();
    lifecycle::listen(stopper).map_err(ServerError::Runtime)?;
    // Debian's unit reloads with this signal, which must not end the process.
    let _ignored = lifecycle::hang_ups().map_err(ServerError::Runtime)?;
    let (trimmer, usual) = (Trimmer::start(), options.web.telemetry_path.clone());
    let answered = move |request: Request, next: Next| {
        trimmer.asked(request.uri().path() == usual);
        protect(Origins::default(), request, next)
    };
    let routes = routes(&options, registry)?.layer(middleware::from_fn(answered));
    ended(answer(&options, routes, stop).await?)
}

fn register(registry: &Registry) -> Result<(), narthex_client::Error> {
    narthex_client::process::register(registry)?;
    narthex_net::register_metrics(registry)?;
    narthex_host::register_metrics(registry)
}

fn routes(
    options: &NodeExporterOptions,
    registry: &'static Registry,
) -> Result<Router, ServerError> {
    let own = OwnPage::new(registry);
    let own: OwnMetrics = Arc::new(move |style, page| {
        own.append(style, page);
    });
    let facts = HostFacts::new(&options.host, LabelSet::empty());
    let facts: Facts = Arc::new(move || facts.page());
    let config = ExporterConfig {
        telemetry_path: options.web.telemetry_path.clone(),
        max_requests: options.web.max_requests,
        own: (!options.web.disable_exporter_metrics).then_some(own),
        adviser: Some(doctor::adviser(Arc::clone(&facts))),
        facts: Some(facts),
        now_ms: Arc::new(|| SystemClock.now_ms()),
    };
    narthex_host::routes(options.host.clone(), config).map_err(ServerError::Host)
}

/// Serves until stopped; returns how many requests were cut off.
async fn answer(
    options: &NodeExporterOptions,
    routes: Router,
    stop: StopToken,
) -> Result<u64, ServerError> {
    let names = CollectorKind::ALL.into_iter();
    let names = names.filter(|kind| options.host.collectors.contains(*kind));
    let names: Vec<&str> = names.map(CollectorKind::name).collect();
    tracing::info!(collectors = names.join(","), "Enabled collectors");
    let web = &options.web;
    let mut config = ServerConfig::default();
    config.max_connections = web.max_connections;
    let (addresses, file) = (&web.listen_addresses, web.config_file.as_deref());
    let server = listen::bind(addresses, web.systemd_socket, file, config).await?;
    program_pages::give_back_after_start();
    Ok(server.serve(routes, stop).await.cut_requests_total)
}
