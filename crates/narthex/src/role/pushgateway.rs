//! `narthex pushgateway`: starts and stops the gateway.
//!
//! **Invariant:** pushed groups are restored before the port is bound; the journal closes after the last request.

use super::{
    error::{ServerError, ended, start_logging},
    listen,
    push_upkeep::{self, now_ns},
    server::runtime,
};
use crate::{
    cgroup::Resources,
    cli::PushOptions,
    descriptors, heap, lifecycle, program_pages,
    web::origin::{Origins, protect},
};
use narthex_client::Registry;
use narthex_model::date;
use narthex_net::{ServerConfig, StopToken, Stopper, axum::middleware};
use narthex_push::{GatewayConfig, Limits, NowNs, Status, Store, StoreConfig};
use std::{sync::Arc, time::Duration};

/// Runs the gateway until it is stopped.
///
/// # Errors
/// Fails when it cannot start or cannot end cleanly.
pub(crate) fn run(options: PushOptions) -> Result<(), ServerError> {
    start_logging(&options.log_level, &options.log_format)?;
    for (flag, reason) in &options.values.without_effect {
        tracing::warn!(flag, reason, "Flag is accepted without effect.");
    }
    descriptors::raise_limit();
    heap::stop_sampling();
    let serving = runtime("narthex-io", Resources::detect().threads())?;
    let outcome = serving.block_on(serve(options));
    serving.shutdown_timeout(Duration::from_secs(1));
    outcome
}

async fn serve(options: PushOptions) -> Result<(), ServerError> {
    let registry = narthex_client::global();
    register(registry).map_err(ServerError::Metrics)?;
    let (stopper, stop) = Stopper::new();
    lifecycle::listen(stopper.clone()).map_err(ServerError::Runtime)?;
    let store = open(&options, registry)?;
    let upkeep = push_upkeep::start(Arc::clone(&store)).map_err(ServerError::Runtime)?;
    let config = gateway(&options, stopper);
    let routes = narthex_push::routes(Arc::clone(&store), registry, config)
        .merge(narthex_api::profile_routes(&options.route_prefix));
    let routes = routes.layer(middleware::from_fn(|request, next| {
        protect(Origins::default(), request, next)
    }));
    let cut = answer(&options, routes, stop).await?;
    let _now_waiting_for = lifecycle::force_after_deadline("the push journal");
    upkeep.join();
    ended(cut)
}

fn register(registry: &Registry) -> Result<(), narthex_client::Error> {
    narthex_client::process::register(registry)?;
    narthex_net::register_metrics(registry)?;
    narthex_push::register_metrics(registry)
}

fn open(options: &PushOptions, registry: &Registry) -> Result<Arc<Store>, ServerError> {
    let config = StoreConfig {
        is_unchecked: options.is_unchecked,
        utf8_names: options.utf8_names,
        own: narthex_push::own_families(registry),
        keep_timestamps: options.keep_timestamps,
        ttl_ms: options.ttls.0.clone(),
        interval_ms: options.intervals.0.clone(),
        aggregate: options.aggregate.0.clone(),
        memory: None,
    };
    let now_ns: NowNs = Arc::new(now_ns);
    let store = match &options.persistence_file {
        None => Store::in_memory(config, now_ns),
        Some(file) => {
            Store::open(config, now_ns, file).map_err(ServerError::flag("persistence.file"))?
        }
    };
    Ok(Arc::new(store))
}

fn gateway(options: &PushOptions, stopper: Stopper) -> GatewayConfig {
    let unknown = ["revision", "branch", "buildUser", "buildDate", "goVersion"];
    let mut build = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    build.extend(unknown.map(|name| (name, String::new())));
    let quit: Arc<dyn Fn() + Send + Sync> = Arc::new(move || stopper.stop());
    GatewayConfig {
        limits: Limits {
            body_bytes: options.max_body.as_usize(),
            reading_bytes: options.max_reading.as_usize(),
            body_timeout: options.body_timeout,
            concurrency: options.max_concurrency,
            wait: options.max_wait,
        },
        route_prefix: options.route_prefix.clone(),
        telemetry_path: options.telemetry_path.clone(),
        quit: options.enable_lifecycle.then_some(quit),
        enable_admin_api: options.enable_admin_api,
        status: Status {
            flags: options.values.in_effect(),
            started: date::rfc3339(now_ns() / 1_000_000),
            build,
        },
    }
}

/// Serves until stopped; returns how many requests were cut off.
async fn answer(
    options: &PushOptions,
    routes: narthex_net::Router,
    stop: StopToken,
) -> Result<u64, ServerError> {
    let mut config = ServerConfig::default();
    config.max_connections = options.max_connections;
    config.body_limit_bytes = options.max_body.as_usize();
    let (addresses, file) = (
        &options.listen_addresses,
        options.web_config_file.as_deref(),
    );
    let server = listen::bind(addresses, options.systemd_socket, file, config).await?;
    program_pages::give_back_after_start();
    Ok(server.serve(routes, stop).await.cut_requests_total)
}
