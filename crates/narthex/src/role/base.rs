//! What a server and an agent have in common: the port, what is known of the process, scraping, remote ends.

use super::{error::ServerError, listen, priority, push_receiver};
use crate::{
    cgroup::Resources,
    cli::{
        DELAYED_NAME_REMOVAL, PER_STEP_STATS, QUERY_COST, SEARCH, ServerOptions, Support,
        TYPE_AND_UNIT_LABELS, USE_START_TIMESTAMPS,
    },
    config::Config,
    host,
    host_facts::HostFacts,
    lifecycle,
    memory::{self, Memory},
    notifications, program_pages,
    reload::{self, Reloader},
    remote::{self, NowMs},
    sources::OwnPage,
    status::{self, Loaded, ProcessStatus},
    storage::{self, StorageFlags, ms},
    web::{self, Gate},
    worker::Worker,
};
use narthex_api::{Activity, Api, ApiConfig, BuildInfo};
use narthex_client::Registry;
use narthex_files::FilesManager;
use narthex_host::Facts;
use narthex_model::KeptPatterns;
use narthex_model::storage::{Helpers, Sink, Store};
use narthex_net::{Router, ServerConfig, StopToken, Stopper};
use narthex_promql::{Engine, EngineOptions};
use narthex_remote::RemoteStorage;
use narthex_scrape::{Manager, ManagerConfig, RouteLimits, Target};
use narthex_tsdb::{Clock as _, SystemClock};
use std::{net::SocketAddr, path::Path, sync::Arc, time::Instant};
use tokio::sync::Notify;

/// Version of Prometheus whose API this is.
const PROMETHEUS_VERSION: &str = "3.16.0";

/// A process that listens and answers nothing but about itself yet.
pub(super) struct Base {
    pub(super) memory: Memory,
    pub(super) status: Arc<ProcessStatus>,
    pub(super) activity: Arc<Activity>,
    /// Threads that help queries.
    pub(super) helpers: Helpers,
    /// Regular expressions of all queries and rules.
    pub(super) patterns: Arc<KeptPatterns>,
    pub(super) stop: StopToken,
    pub(super) now_ms: NowMs,
    pub(super) gate: Arc<Gate>,
    /// Routes of notifications.
    notified: Router,
    pub(super) web: Web,
    pub(super) watch: Worker,
    started: Instant,
    origins: web::origin::Origins,
    stopper: Stopper,
    hang_ups: Arc<Notify>,
    own: Arc<OwnPage>,
}

impl Base {
    /// Registers metrics, divides the memory, handles signals and binds the port.
    ///
    /// # Errors
    /// Fails on an unusable flag or address.
    pub(super) async fn start(
        options: &ServerOptions,
        config: Option<&Config>,
        resources: &Resources,
    ) -> Result<Self, ServerError> {
        let started = Instant::now();
        warn_of_flags(options);
        let origins = origins(options)?;
        let registry = narthex_client::global();
        register(registry).map_err(ServerError::Metrics)?;
        let (memory, watch) = watch_memory(resources, registry)?;
        let status = process_status(options, config, resources, &memory);
        let helpers = resources.threads().saturating_sub(1);
        let helpers = Helpers::new(helpers, priority::of_queries);
        let (stopper, stop) = Stopper::new();
        lifecycle::listen(stopper.clone()).map_err(ServerError::Runtime)?;
        let hang_ups = lifecycle::hang_ups().map_err(ServerError::Runtime)?;
        let gate = Arc::new(Gate::new(stop.clone()));
        let own = Arc::new(OwnPage::new(registry));
        let now_ms: NowMs = Arc::new(|| SystemClock.now_ms());
        let activity = Activity::new(&memory.statistics, Arc::clone(&now_ms));
        let activity = activity.map_err(ServerError::flag("memory.limit"))?;
        if options.has_feature(QUERY_COST) {
            activity.limit_costs();
            narthex_api::register_cost_metrics(narthex_client::global())
                .map_err(ServerError::Metrics)?;
        }
        let notifications = Arc::clone(&status.notifications);
        notifications.add(notifications::STARTING_UP, now_ms());
        let notified = notifications::routes(notifications, Arc::clone(&now_ms), stop.clone());
        let early = web::early(
            Arc::clone(&own),
            Arc::<ProcessStatus>::clone(&status),
            notified.clone(),
        );
        let hosts = web::hosts::Hosts::new(&options.allowed_hosts.0);
        let router = web::outer(Arc::clone(&gate), early, hosts);
        let router = web::prefix::below(&options.route_prefix, router);
        let web = Web::start(options, router, &stop).await?;
        Ok(Self {
            patterns: Arc::new(KeptPatterns::new(&memory.queries)),
            memory,
            status,
            activity,
            helpers,
            stop,
            now_ms,
            gate,
            notified,
            web,
            watch,
            started,
            origins,
            stopper,
            hang_ups,
            own,
        })
    }

    /// Answers all requests: `api`, targets, and the process itself.
    pub(super) fn open(
        &self,
        options: &ServerOptions,
        resources: &Resources,
        api: Router,
        manager: &Arc<Manager>,
        reloader: Option<Arc<Reloader>>,
        exposed: Option<web::exposed::Exposed>,
    ) {
        let listings = RouteLimits {
            memory: self.memory.listings.clone(),
            wait: options.query_timeout,
        };
        self.gate.open(web::inner(web::Parts {
            api: api.merge(self.notified.clone()),
            targets: narthex_scrape::routes(Arc::clone(manager), listings, |text, ctx| {
                let parsed = narthex_promql::parse_selector_within(text, &ctx.clone().into());
                parsed.map_err(|error| error.to_string())
            }),
            own: Arc::clone(&self.own),
            exposed,
            facts: host_facts(reloader.clone()),
            stopper: self.stopper.clone(),
            enable_lifecycle: options.enable_lifecycle,
            reloader,
            origins: self.origins.clone(),
        }));
        let notifications = &self.status.notifications;
        notifications.remove(notifications::STARTING_UP);
        program_pages::give_back_after_start();
        tracing::info!(
            url = format!("http://{}{}", self.web.address, options.route_prefix),
            cpus = resources.cpus,
            memory_bytes = resources.memory_bytes,
            start_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            "Server is ready to receive web requests.",
        );
    }
}

/// Returns the target under which this host's metrics are stored without a configuration.
pub(super) fn own_host() -> Target {
    Target::local("node", &status::hostname())
}

/// Returns what reads facts of this host, if its metrics are read too; without a configuration they are.
fn host_facts(reloader: Option<Arc<Reloader>>) -> Facts {
    Arc::new(move || {
        let facts = match &reloader {
            Some(reloader) => reloader.host_facts(),
            None => Some(HostFacts::new(&host::defaults(), own_host().labels)),
        };
        facts.map(|facts| facts.page()).unwrap_or_default()
    })
}

/// The listening side of the server.
pub(super) struct Web {
    /// URL to show to people.
    pub(super) address: String,
    serving: tokio::task::JoinHandle<narthex_net::ServeReport>,
}

impl Web {
    pub(super) async fn start(
        options: &ServerOptions,
        router: Router,
        stop: &StopToken,
    ) -> Result<Self, ServerError> {
        let mut config = ServerConfig::default();
        config.max_connections = options.max_connections;
        config.min_rate_bytes = options.min_transfer_rate.0;
        config.rate_window = options.transfer_rate_window;
        config.read_timeout = options.read_timeout;
        let by_systemd = options.systemd_socket;
        let web_config = options.web_config_file.as_deref();
        let addresses = &options.listen_addresses;
        let server = listen::bind(addresses, by_systemd, web_config, config).await?;
        let addresses = server.local_addrs();
        let is_open = |address: &&SocketAddr| !address.ip().is_loopback() && web_config.is_none();
        for address in addresses.iter().filter(is_open) {
            tracing::warn!(
                address = address.to_string(),
                "Anyone who can reach this address can read everything: authentication is not configured."
            );
        }
        let first = addresses.first().copied();
        Ok(Self {
            address: first.map(shown_address).unwrap_or_default(),
            serving: tokio::spawn(server.serve(router, stop.clone())),
        })
    }

    /// Waits until the last request has ended; returns how many were cut off.
    pub(super) async fn join(self) -> u64 {
        match self.serving.await {
            Ok(report) => report.cut_requests_total,
            Err(error) => {
                tracing::error!(%error, "Serving ended with a panic.");
                1
            }
        }
    }
}

/// Returns an address a browser can open: a wildcard becomes this machine.
fn shown_address(address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        format!("localhost:{}", address.port())
    } else {
        address.to_string()
    }
}

/// Detects what the process may use of the machine, its memory as far as a flag allows.
///
/// # Errors
/// Fails on an unusable limit.
pub(super) fn resources(options: &ServerOptions) -> Result<Resources, ServerError> {
    let mut resources = Resources::detect();
    let limit = memory::limit(&options.memory_limit, resources.memory_bytes);
    resources.memory_bytes = limit.map_err(ServerError::flag("memory.limit"))?;
    Ok(resources)
}

/// Reads the configuration to start with.
///
/// # Errors
/// Fails if it cannot be used.
pub(super) fn load(path: &Path, options: &ServerOptions) -> Result<Config, ServerError> {
    let config = Config::load(path, &reload::environment, options.config_features())
        .map_err(ServerError::Config)?;
    reload::check_clients(&config).map_err(ServerError::flag("config.file"))?;
    Ok(config)
}

/// Returns what scrapes targets and what reads files of metrics, into `sink`; there are none yet.
pub(super) fn reading(
    sink: Arc<dyn Sink>,
    base: &Base,
    runtime: tokio::runtime::Handle,
    stop: StopToken,
) -> (Arc<Manager>, reload::Files) {
    let files = narthex_files::ManagerConfig {
        sink: Arc::clone(&sink),
        now_ms: Arc::clone(&base.now_ms),
        runtime: runtime.clone(),
    };
    let files = reload::Files {
        manager: Arc::new(FilesManager::new(files, stop.clone())),
        series: base.memory.targets.clone(),
    };
    let scraping = ManagerConfig {
        sink,
        now_ms: Arc::clone(&base.now_ms),
        client: reload::client_config(),
        memory: base.memory.scraping(),
        runtime,
    };
    (Arc::new(Manager::new(scraping, stop)), files)
}

/// Returns what a reload works with in an agent, which has no rules and stores nothing.
pub(super) fn parts(
    options: &ServerOptions,
    base: &Base,
    manager: &Arc<Manager>,
    files: &reload::Files,
    ends: &Arc<RemoteStorage>,
) -> reload::Parts {
    reload::Parts {
        manager: Arc::clone(manager),
        files: files.clone(),
        remote: Arc::clone(ends),
        rules: None,
        notifier: None,
        status: Arc::clone(&base.status),
        activity: Arc::clone(&base.activity),
        storage_flags: None,
        features: options.config_features(),
        now_ms: Arc::clone(&base.now_ms),
    }
}

/// Scrapes according to a loaded configuration, and reloads it on a signal or, if `interval` is set, when its files
/// change.
pub(super) fn follow(
    (path, config): (&Path, Config),
    parts: reload::Parts,
    options: &ServerOptions,
    base: &Base,
) -> Result<Arc<Reloader>, ServerError> {
    let reloader = Reloader::start(path, config, parts, &base.stop);
    let reloader = reloader.map_err(ServerError::flag("config.file"))?;
    let on_signal = reload::on_signal(
        Arc::clone(&reloader),
        Arc::clone(&base.hang_ups),
        base.stop.clone(),
    );
    tokio::spawn(on_signal);
    if let Some(interval) = options.auto_reload() {
        tokio::spawn(Arc::clone(&reloader).watch(interval, base.stop.clone()));
    }
    Ok(reloader)
}

/// Returns the routes at which samples are written to `sink` and pushed to `pushed`, and what ends pushed groups, if
/// pushes are accepted.
///
/// # Errors
/// Fails on an unusable flag or journal of pushed groups.
pub(super) async fn writes(
    options: &ServerOptions,
    ends: &Arc<RemoteStorage>,
    [sink, pushed]: [&Arc<dyn Sink>; 2],
    base: &Base,
    threads: usize,
) -> Result<(Router, Option<Worker>), ServerError> {
    let (memory, now_ms) = (&base.memory, &base.now_ms);
    let routes = remote::routes(options, ends, Arc::clone(sink), memory, threads, now_ms);
    let flag = "web.remote-write-receiver.accepted-protobuf-messages";
    let routes = routes.map_err(ServerError::flag(flag))?;
    if !options.push_receiver {
        return Ok((routes, None));
    }
    narthex_push::register_metrics(narthex_client::global()).map_err(ServerError::Metrics)?;
    let started = push_receiver::start(options, Arc::clone(pushed), memory).await;
    let (pushes, upkeep) = started.map_err(ServerError::flag("web.enable-push-receiver"))?;
    let routes = routes.merge(memory.guard_writes(pushes));
    Ok((routes, Some(upkeep)))
}

/// Returns the routes of the API over a store; queries that many others run beside have `query_runtime`.
pub(super) fn api(
    options: &ServerOptions,
    store: Arc<dyn Store>,
    base: &Base,
    threads: usize,
    query_runtime: tokio::runtime::Handle,
) -> Router {
    let memory = &base.memory;
    let budget = memory.queries.clone();
    let config = ApiConfig {
        timeout: options.query_timeout,
        max_concurrency: options.max_concurrency,
        max_metadata_concurrency: options.max_metadata_concurrency,
        max_parameters: options.max_parameters,
        query_memory_bytes: budget.limit_bytes() / 2,
        per_step_stats: options.has_feature(PER_STEP_STATS),
        search: options.has_feature(SEARCH),
        max_search_limit: options.max_search_limit,
        build: BuildInfo {
            prometheus_version: PROMETHEUS_VERSION.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            ..BuildInfo::default()
        },
    };
    let now_ms = Arc::clone(&base.now_ms);
    let engine = Arc::new(engine(options, base).with_helpers(base.helpers.clone()));
    let api = Api::new(store, engine, config, budget, now_ms)
        .with_listings(memory.listings.clone())
        .with_activity(Arc::clone(&base.activity))
        .with_overflow_threads((threads / 2).max(1), query_runtime)
        .with_status(Arc::<ProcessStatus>::clone(&base.status));
    memory.guard_reads(narthex_api::routes(Arc::new(api)))
}

/// Returns what evaluates queries.
pub(super) fn engine(options: &ServerOptions, base: &Base) -> Engine {
    let engine = Engine::new(EngineOptions {
        lookback_delta_ms: ms(options.lookback_delta),
        max_samples: options.max_samples,
        max_label_bytes: options.max_label_bytes.as_usize(),
        pattern_memory_bytes: options.max_pattern_bytes.0,
        parse: options.query_language(),
        delayed_name_removal: options.has_feature(DELAYED_NAME_REMOVAL),
        use_start_timestamps: options.has_feature(USE_START_TIMESTAMPS),
        type_and_unit_labels: options.has_feature(TYPE_AND_UNIT_LABELS),
        ..EngineOptions::default()
    });
    let engine = engine.keeping_patterns(Arc::clone(&base.patterns));
    match base.activity.cost_limits() {
        Some(limits) => engine.limited(Arc::clone(limits)),
        None => engine,
    }
}

/// Divides the memory and starts watching it.
fn watch_memory(
    resources: &Resources,
    registry: &Registry,
) -> Result<(Memory, Worker), ServerError> {
    let memory = Memory::new(resources.memory_bytes);
    let registered = memory.register_metrics(registry);
    registered.map_err(ServerError::Metrics)?;
    let watch = memory::watch(&memory).map_err(ServerError::Runtime)?;
    Ok((memory, watch))
}

fn origins(options: &ServerOptions) -> Result<web::origin::Origins, ServerError> {
    web::origin::Origins::read(&options.cors_origin).map_err(|error| {
        // The lines before the last draw the pattern, but the error must be one line.
        let text = error.to_string();
        let reason = text.lines().last().unwrap_or_default();
        ServerError::flag("web.cors.origin")(reason.trim_start_matches("error: "))
    })
}

fn register(registry: &Registry) -> Result<(), narthex_client::Error> {
    narthex_client::process::register(registry)?;
    narthex_net::register_metrics(registry)?;
    narthex_scrape::register_metrics(registry)?;
    narthex_files::register_metrics(registry)?;
    narthex_expfmt::register_metrics(registry)?;
    narthex_api::register_metrics(registry)?;
    narthex_remote::register_metrics(registry)?;
    narthex_rules::register_metrics(registry)?;
    narthex_remote::register_send_metrics(registry)?;
    narthex_segment::register_metrics(registry)?;
    narthex_discovery::register_metrics(registry)?;
    reload::register_metrics(registry)?;
    notifications::register_metrics(registry)?;
    narthex_client::register_info(
        registry,
        "narthex_build_info",
        "Build information; the value is always 1.",
        &["version"],
        [env!("CARGO_PKG_VERSION").to_owned()],
    )
}

fn warn_of_flags(options: &ServerOptions) {
    for (flag, reason) in &options.values.without_effect {
        tracing::warn!(flag, reason, "Flag is accepted without effect.");
    }
    for (option, support) in options.idle_features() {
        match support {
            None => tracing::warn!(option, "Unknown option for --enable-feature."),
            Some(Support::Missing(reason)) => {
                tracing::warn!(option, reason, "Feature is not there.");
            }
            Some(Support::WithoutEffect(reason)) => {
                tracing::warn!(option, reason, "Feature is accepted without effect.");
            }
            Some(Support::Always | Support::Honoured) => {
                tracing::warn!(option, "Feature is always there.");
            }
        }
    }
}

/// Returns what the API shows about this process.
fn process_status(
    options: &ServerOptions,
    config: Option<&Config>,
    resources: &Resources,
    memory: &Memory,
) -> Arc<ProcessStatus> {
    let retention = storage::shown(&StorageFlags::from_options(options).tuning(config));
    let now_ms = SystemClock.now_ms();
    let status = ProcessStatus::new(
        options.values.in_effect(),
        now_ms,
        resources,
        memory.process.clone(),
        retention,
        options.max_notifications_subscribers,
        status::features(options),
    );
    status.set_config(config.map(Loaded::from).unwrap_or_default(), now_ms);
    Arc::new(status)
}
