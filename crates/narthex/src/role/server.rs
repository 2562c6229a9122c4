//! `narthex server`: starts and stops everything, in two mirrored lists.
//!
//! **Invariant:** stop order is the reverse of start order; the store closes last, when nothing writes to it.

use super::{push_receiver::PushReceiver, push_upkeep::Upkeep as PushUpkeep};
use crate::{
    cgroup::Resources,
    cli::ServerOptions,
    config::{Config, ConfigError},
    descriptors,
    health::Health,
    heap, lifecycle, logging,
    memory::{self, Memory},
    reload::{self, Reloader},
    remote::{self, NowMs},
    sources::{HostMetrics, OwnMetrics, OwnPage},
    status::{Loaded, ProcessStatus, hostname},
    storage::{self, StorageFlags, ms},
    upkeep::{self, Upkeep},
    web::{self, Gate},
};
use narthex_api::{Api, ApiConfig, BuildInfo};
use narthex_client::Registry;
use narthex_files::FilesManager;
use narthex_host::{HostConfig, HostError};
use narthex_model::{storage::Sink, sync::Whole as _};
use narthex_net::{NetError, Router, Server, ServerConfig, StopToken, Stopper};
use narthex_promql::{Engine, EngineOptions};
use narthex_remote::RemoteStorage;
use narthex_scrape::{Manager, ManagerConfig, RouteLimits, Target};
use narthex_tsdb::{Clock, Db, DbOptions, EarlySink, Opening, RealIo, SystemClock, TsdbError};
use std::{
    error::Error,
    fmt,
    path::Path,
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Scrape interval of this process and its host without a configuration.
const OWN_INTERVAL: Duration = Duration::from_secs(5);
/// Version of Prometheus whose API this is.
const PROMETHEUS_VERSION: &str = "3.14.0";

/// Reasons why the server could not start or did not end cleanly.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) enum ServerError {
    Config(ConfigError),
    /// An unusable value of a flag.
    Flag {
        flag: &'static str,
        reason: String,
    },
    Runtime(std::io::Error),
    Net(NetError),
    Storage(TsdbError),
    /// Opening the data directory panicked.
    Replay(String),
    Host(HostError),
    Metrics(narthex_client::Error),
    /// Requests that were cut off because they outlasted the stop's deadline.
    Cut {
        requests: u64,
    },
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Flag { flag, reason } => write!(f, "--{flag}: {reason}"),
            Self::Runtime(error) => write!(f, "starting the runtime: {error}"),
            Self::Net(error) => error.fmt(f),
            Self::Storage(error) => error.fmt(f),
            Self::Replay(reason) => write!(f, "opening storage: {reason}"),
            Self::Host(error) => error.fmt(f),
            Self::Metrics(error) => error.fmt(f),
            Self::Cut { requests } => {
                write!(f, "{requests} requests outlasted the stop and were cut off")
            }
        }
    }
}

impl Error for ServerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Config(error) => Some(error),
            Self::Runtime(error) => Some(error),
            Self::Net(error) => Some(error),
            Self::Storage(error) => Some(error),
            Self::Host(error) => Some(error),
            Self::Metrics(error) => Some(error),
            Self::Flag { .. } | Self::Replay(_) | Self::Cut { .. } => None,
        }
    }
}

/// Runs the server until it is stopped.
///
/// # Errors
/// Fails when it cannot start or cannot end cleanly.
pub(crate) fn run(options: ServerOptions) -> Result<(), ServerError> {
    logging::start(&options.log_level, &options.log_format)
        .map_err(|(flag, reason)| ServerError::Flag { flag, reason })?;
    narthex_net::log_panics();
    let mut resources = Resources::detect();
    resources.memory_bytes =
        memory::limit(&options.memory_limit, resources.memory_bytes).map_err(|reason| {
            ServerError::Flag {
                flag: "memory.limit",
                reason,
            }
        })?;
    heap::return_large_at_once();
    let descriptors = descriptors::raise_limit();
    let serving = runtime("narthex-io", resources.threads())?;
    // Scrapes have their own runtime so that queries do not delay them. On one thread they share its cache and wake no
    // other thread. One thread handles millions of samples a second.
    let scraping = runtime("narthex-scrape", (resources.threads() / 4).max(1))?;
    let querying = query_runtime()?;
    let outcome = serving.block_on(serve(
        options,
        resources,
        descriptors,
        scraping.handle().clone(),
        querying.handle().clone(),
    ));
    querying.shutdown_timeout(Duration::from_secs(1));
    scraping.shutdown_timeout(Duration::from_secs(1));
    serving.shutdown_timeout(Duration::from_secs(1));
    outcome
}

pub(super) fn runtime(name: &str, threads: usize) -> Result<tokio::runtime::Runtime, ServerError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name(name)
        .enable_all()
        .build()
        .map_err(ServerError::Runtime)
}

/// Nice value of query threads: they get a third of the others' CPU weight.
const QUERY_NICE: i32 = 5;

/// Returns the runtime whose blocking threads evaluate queries and make listings when many run at once.
///
/// At full concurrency, queries took nearly all of two cores, and threads with little work, such as scraping and the
/// memory watch, waited seconds for CPU. At lower priority the queries wait instead. A query on its own runs on the
/// usual threads: it leaves a core to the others, and a low-priority thread started it some 50 µs late.
fn query_runtime() -> Result<tokio::runtime::Runtime, ServerError> {
    let lower = || {
        // Sets only the calling thread's priority. Ignoring an error is safe: queries then run at normal priority.
        let _ = rustix::process::setpriority_process(None, QUERY_NICE);
    };
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("narthex-query")
        .on_thread_start(lower)
        .build()
        .map_err(ServerError::Runtime)
}

/// Returns what scrapes and what reads files of metrics; there are no targets and no files yet.
fn sources(
    sink: Arc<dyn Sink>,
    now_ms: &NowMs,
    memory: &Memory,
    runtime: tokio::runtime::Handle,
    stop: StopToken,
) -> (Arc<Manager>, reload::Files) {
    let reading = narthex_files::ManagerConfig {
        sink: Arc::clone(&sink),
        now_ms: Arc::clone(now_ms),
        runtime: runtime.clone(),
    };
    let files = reload::Files {
        manager: Arc::new(FilesManager::new(reading, stop.clone())),
        series: memory.targets.clone(),
    };
    let scraping = ManagerConfig {
        sink,
        now_ms: Arc::clone(now_ms),
        client: reload::client_config(),
        memory: memory.scraping(),
        runtime,
    };
    (Arc::new(Manager::new(scraping, stop)), files)
}

async fn serve(
    options: ServerOptions,
    resources: Resources,
    descriptors: u64,
    scrape_runtime: tokio::runtime::Handle,
    query_runtime: tokio::runtime::Handle,
) -> Result<(), ServerError> {
    let started = Instant::now();
    warn_of_flags(&options);
    let config = options.config_file.as_deref().map(load).transpose()?;
    let origins = origins(&options)?;
    let registry = register().map_err(ServerError::Metrics)?;
    let (memory, watch) = watch_memory(&resources, registry)?;
    let status = process_status(&options, config.as_ref(), &resources, &memory);

    // Start order: port, the data directory's lock, scraping, storage, maintenance, requests. Scraping starts first
    // because replaying the WAL may take seconds; meanwhile samples wait in the sink.
    let (stopper, stop) = Stopper::new();
    let hang_ups = follow_signals(&stopper)?;
    let gate = Arc::new(Gate::default());
    let own = Arc::new(OwnPage::new(registry));
    let early = web::early(Arc::clone(&own), Arc::<ProcessStatus>::clone(&status));
    let hosts = web::hosts::Hosts::new(&options.allowed_hosts.0);
    let web = Web::start(&options, web::outer(Arc::clone(&gate), early, hosts), &stop).await?;
    let opening = begin_storage(&options, config.as_ref(), &memory, descriptors)?;
    status.set_opening(&opening);
    let sink = EarlySink::new(memory.early_rounds.clone());
    let now_ms: NowMs = Arc::new(|| SystemClock.now_ms());
    let ends = remote::sending(&options.storage_path, &now_ms);
    let (scrape_stopper, scrape_stop) = stop.child();
    let scraped = ends.sink(Some(Arc::new(sink.clone())));
    let (manager, files) = sources(scraped, &now_ms, &memory, scrape_runtime, scrape_stop);
    let parts = reload::Parts {
        manager: Arc::clone(&manager),
        files: files.clone(),
        remote: Arc::clone(&ends),
        status: Arc::clone(&status),
        storage_flags: StorageFlags::from_options(&options),
        now_ms: Arc::clone(&now_ms),
    };
    let reloader = match options.config_file.as_deref().zip(config) {
        Some(loaded) => Some(follow(loaded, parts, hang_ups, &options, &stop)?),
        None => watch_own(&manager, registry, &web.address).map(|()| None)?,
    };
    let (db, maintenance) = open_storage(opening, &sink, registry, &gate.health).await?;
    let threads = resources.threads();
    let writes = remote_routes(&options, &ends, &db, &memory, threads, &now_ms)?;
    let (pushes, push_upkeep) = pushes(&options, &ends, &db, &memory).await?;
    status.set_storage(&db);
    reloader.iter().for_each(|one| one.set_storage(&db));
    let api = api(&options, &db, &memory, now_ms, threads, query_runtime).with_status(status);
    let reads = memory.guard_reads(narthex_api::routes(Arc::new(api)));
    let listings = listing_limits(&options, &memory);
    gate.open(web::inner(web::Parts {
        api: reads.merge(writes).merge(pushes),
        targets: narthex_scrape::routes(Arc::clone(&manager), listings),
        own,
        stopper: stopper.clone(),
        enable_lifecycle: options.enable_lifecycle,
        reloader,
        origins,
    }));
    tell_ready(&web, &resources, started);

    stop.stopped().await;

    let running = Running {
        gate,
        web,
        push_upkeep,
        scrape_stopper,
        manager,
        files: files.manager,
        ends,
        flush_deadline: options.flush_deadline,
        maintenance,
        watch,
        db,
    };
    running.end().await
}

/// Stops at signals that ask for it; returns what is notified of those that ask for a reload.
fn follow_signals(stopper: &Stopper) -> Result<Arc<tokio::sync::Notify>, ServerError> {
    lifecycle::listen(stopper.clone()).map_err(ServerError::Runtime)?;
    lifecycle::hang_ups().map_err(ServerError::Runtime)
}

/// Returns the limits of listings of targets.
fn listing_limits(options: &ServerOptions, memory: &Memory) -> RouteLimits {
    RouteLimits {
        memory: memory.listings.clone(),
        wait: options.query_timeout,
    }
}

/// Divides the memory and starts watching it.
fn watch_memory(
    resources: &Resources,
    registry: &Registry,
) -> Result<(Memory, memory::Watch), ServerError> {
    let memory = Memory::new(resources.memory_bytes);
    memory
        .register_metrics(registry)
        .map_err(ServerError::Metrics)?;
    let watch = memory::Watch::start(&memory).map_err(ServerError::Runtime)?;
    Ok((memory, watch))
}

/// Reads the configuration that the server starts with.
fn load(path: &Path) -> Result<Config, ServerError> {
    let config = Config::load(path, &reload::environment).map_err(ServerError::Config)?;
    reload::check_clients(&config).map_err(of_config_file)?;
    Ok(config)
}

fn of_config_file(reason: String) -> ServerError {
    ServerError::Flag {
        flag: "config.file",
        reason,
    }
}

fn origins(options: &ServerOptions) -> Result<web::origin::Origins, ServerError> {
    web::origin::Origins::read(&options.cors_origin).map_err(|error| {
        // The lines before the last draw the pattern, but the error must be one line.
        let text = error.to_string();
        let reason = text.lines().last().unwrap_or_default();
        ServerError::Flag {
            flag: "web.cors.origin",
            reason: reason.trim_start_matches("error: ").to_owned(),
        }
    })
}

fn tell_ready(web: &Web, resources: &Resources, started: Instant) {
    tracing::info!(
        url = format!("http://{}", web.address),
        cpus = resources.cpus,
        memory_bytes = resources.memory_bytes,
        start_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        "Server is ready to receive web requests.",
    );
}

/// Scrapes according to a loaded configuration, and reloads it on a signal or, if `interval` is set, when its files
/// change.
fn follow(
    (path, config): (&Path, Config),
    parts: reload::Parts,
    hang_ups: Arc<tokio::sync::Notify>,
    options: &ServerOptions,
    stop: &StopToken,
) -> Result<Arc<Reloader>, ServerError> {
    let reloader = Reloader::start(path, config, parts, stop).map_err(of_config_file)?;
    let on_signal = reload::on_signal(Arc::clone(&reloader), hang_ups, stop.clone());
    tokio::spawn(on_signal);
    if let Some(interval) = options.auto_reload() {
        tokio::spawn(Arc::clone(&reloader).watch(interval, stop.clone()));
    }
    Ok(reloader)
}

/// Everything that was started, in start order.
struct Running {
    gate: Arc<Gate>,
    web: Web,
    push_upkeep: Option<PushUpkeep>,
    db: Db,
    watch: memory::Watch,
    maintenance: Maintenance,
    files: Arc<FilesManager>,
    ends: Arc<RemoteStorage>,
    /// Time that remote ends have to take what waits for them.
    flush_deadline: Duration,
    manager: Arc<Manager>,
    scrape_stopper: Stopper,
}

impl Running {
    /// Stops everything in reverse order: requests, scraping, sending, maintenance, storage.
    async fn end(self) -> Result<(), ServerError> {
        let begin = Instant::now();
        let waiting_for = Arc::new(Mutex::new("requests"));
        let now_waiting_for = |what| *waiting_for.lock().whole() = what;
        lifecycle::force_after_deadline({
            let waiting_for = Arc::clone(&waiting_for);
            move || *waiting_for.lock().whole()
        });
        self.gate.close();
        let cut = self.web.join().await;
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
        now_waiting_for("storage maintenance");
        self.maintenance.join();
        self.watch.join();
        now_waiting_for("storage");
        self.db.close().map_err(ServerError::Storage)?;
        tracing::info!("Ended cleanly.");
        if cut > 0 {
            Err(ServerError::Cut { requests: cut })
        } else {
            Ok(())
        }
    }
}

/// Registers what every server counts; returns where.
fn register() -> Result<&'static Registry, narthex_client::Error> {
    let registry = narthex_client::global();
    narthex_client::process::register(registry)?;
    narthex_net::register_metrics(registry)?;
    narthex_scrape::register_metrics(registry)?;
    narthex_files::register_metrics(registry)?;
    narthex_api::register_metrics(registry)?;
    narthex_remote::register_metrics(registry)?;
    narthex_remote::register_send_metrics(registry)?;
    narthex_discovery::register_metrics(registry)?;
    reload::register_metrics(registry)?;
    narthex_client::register_info(
        registry,
        "narthex_build_info",
        "Build information; the value is always 1.",
        &["version"],
        [env!("CARGO_PKG_VERSION").to_owned()],
    )?;
    Ok(registry)
}

fn warn_of_flags(options: &ServerOptions) {
    for (flag, reason) in &options.values.without_effect {
        tracing::warn!(flag, reason, "Flag is accepted without effect.");
    }
    for feature in &options.features.0 {
        tracing::warn!(option = feature, "Unknown option for --enable-feature.");
    }
}

/// The listening side of the server.
struct Web {
    /// URL to show to people.
    address: String,
    serving: tokio::task::JoinHandle<narthex_net::ServeReport>,
}

impl Web {
    async fn start(
        options: &ServerOptions,
        router: Router,
        stop: &StopToken,
    ) -> Result<Self, ServerError> {
        let mut config = ServerConfig::default();
        config.max_connections = options.max_connections;
        config.min_rate_bytes = options.min_transfer_rate.0;
        config.rate_window = options.transfer_rate_window;
        config.read_timeout = options.read_timeout;
        let addresses: Vec<&str> = options
            .listen_addresses
            .iter()
            .map(String::as_str)
            .collect();
        let server = Server::bind(&addresses, config)
            .await
            .map_err(ServerError::Net)?;
        let server = match &options.web_config_file {
            Some(path) => server.with_web_config(path).map_err(ServerError::Net)?,
            None => server,
        };
        let first = server.local_addrs().first().copied();
        for address in server.local_addrs() {
            let open = !address.ip().is_loopback() && options.web_config_file.is_none();
            tracing::info!(address = address.to_string(), "Listening on");
            if open {
                tracing::warn!(
                    address = address.to_string(),
                    "Anyone who can reach this address can read everything: authentication is not configured."
                );
            }
        }
        let address = first.map(shown_address).unwrap_or_default();
        Ok(Self {
            address,
            serving: tokio::spawn(server.serve(router, stop.clone())),
        })
    }

    /// Waits until the last request has ended; returns how many were cut off.
    async fn join(self) -> u64 {
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
fn shown_address(address: std::net::SocketAddr) -> String {
    if address.ip().is_unspecified() {
        format!("localhost:{}", address.port())
    } else {
        address.to_string()
    }
}

fn begin_storage(
    options: &ServerOptions,
    config: Option<&Config>,
    memory: &Memory,
    descriptors: u64,
) -> Result<Opening, ServerError> {
    let mut settings = DbOptions::new(&options.storage_path);
    settings.max_open_blocks = descriptors::for_blocks(descriptors);
    settings.tuning = StorageFlags::from_options(options).tuning(config);
    settings.fsync_interval_ms = ms(options.fsync_interval).unsigned_abs();
    settings.memory = memory.process.clone();
    Opening::begin(Arc::new(RealIo), settings, Arc::new(SystemClock)).map_err(ServerError::Storage)
}

/// Replays the WAL off the scrape threads, then writes the samples that waited for it.
async fn open_storage(
    opening: Opening,
    sink: &EarlySink,
    registry: &Registry,
    health: &Arc<Health>,
) -> Result<(Db, Maintenance), ServerError> {
    let db = tokio::task::spawn_blocking(|| opening.finish())
        .await
        .map_err(|panic| ServerError::Replay(panic.to_string()))?
        .map_err(ServerError::Storage)?;
    db.register_metrics(registry)
        .map_err(ServerError::Metrics)?;
    for notice in db.notices() {
        tracing::warn!(
            file = notice.path.display().to_string(),
            detail = notice.detail,
            "A file that storage does not list was found."
        );
    }
    if let Some(torn) = db.torn_end() {
        tracing::warn!(
            file = torn.path.display().to_string(),
            offset = torn.offset,
            detail = torn.detail,
            "The log ended in the middle of a write, as it may after a crash.",
        );
    }
    health.watch(&db);
    let maintenance = Maintenance::start(db.clone(), Arc::clone(health))?;
    if let Err(error) = sink.open(&db) {
        tracing::error!(%error, "Some scrapes received during the replay could not be stored.");
    }
    Ok((db, maintenance))
}

/// The thread that flushes, truncates and applies retention.
struct Maintenance {
    thread: JoinHandle<()>,
    stop: std::sync::mpsc::Sender<()>,
}

impl Maintenance {
    fn start(db: Db, health: Arc<Health>) -> Result<Self, ServerError> {
        let (stop, stopped) = std::sync::mpsc::channel();
        let mut upkeep = Upkeep::new(health);
        // Log the findings of the replay before serving anything.
        upkeep.tell(&db);
        let work = move || {
            // Do not compete with the start by writing blocks right away.
            let mut pause = upkeep::INTERVAL;
            let mut refusals = memory::Refusals::default();
            while stopped.recv_timeout(pause) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                pause = upkeep.maintain(&db);
                refusals.tell(&db);
            }
        };
        let thread = std::thread::Builder::new()
            .name("narthex-maintain".into())
            .spawn(work)
            .map_err(ServerError::Runtime)?;
        Ok(Self { thread, stop })
    }

    fn join(self) {
        // Fails only when the thread has ended already.
        let _ = self.stop.send(());
        if self.thread.join().is_err() {
            tracing::error!("Maintaining storage ended with a panic.");
        }
    }
}

/// Scrapes this process and its host, as a server without a configuration does.
fn watch_own(
    manager: &Manager,
    registry: &'static Registry,
    address: &str,
) -> Result<(), ServerError> {
    let own = Target::local("narthex", address);
    let metrics = OwnMetrics::new(registry, own.labels.clone());
    manager.start_local(own, OWN_INTERVAL, Box::new(metrics));
    let host = Target::local("node", &hostname());
    let settings = HostConfig {
        common: host.labels.clone(),
        ..HostConfig::default()
    };
    let metrics = HostMetrics::new(settings).map_err(ServerError::Host)?;
    manager.start_local(host, OWN_INTERVAL, Box::new(metrics));
    Ok(())
}

fn remote_routes(
    options: &ServerOptions,
    ends: &Arc<RemoteStorage>,
    db: &Db,
    memory: &Memory,
    threads: usize,
    now_ms: &NowMs,
) -> Result<Router, ServerError> {
    let routes = remote::routes(options, ends, db, memory, threads, now_ms);
    routes.map_err(|reason| ServerError::Flag {
        flag: "web.remote-write-receiver.accepted-protobuf-messages",
        reason,
    })
}

fn api(
    options: &ServerOptions,
    db: &Db,
    memory: &Memory,
    now_ms: NowMs,
    threads: usize,
    query_runtime: tokio::runtime::Handle,
) -> Api {
    let budget = memory.queries.clone();
    let engine = EngineOptions {
        lookback_delta_ms: ms(options.lookback_delta),
        max_samples: options.max_samples,
        max_label_bytes: options.max_label_bytes.as_usize(),
        pattern_memory_bytes: options.max_pattern_bytes.0,
        ..EngineOptions::default()
    };
    let config = ApiConfig {
        timeout: options.query_timeout,
        max_concurrency: options.max_concurrency,
        max_metadata_concurrency: options.max_metadata_concurrency,
        max_parameters: options.max_parameters,
        query_memory_bytes: budget.limit_bytes() / 2,
        build: BuildInfo {
            prometheus_version: PROMETHEUS_VERSION.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            ..BuildInfo::default()
        },
    };
    Api::new(
        Arc::new(db.clone()),
        Arc::new(Engine::new(engine)),
        config,
        budget,
        now_ms,
    )
    .with_listings(memory.listings.clone())
    .with_overflow_threads((threads / 2).max(1), query_runtime)
}

/// Returns the routes of pushes, if they are accepted, and what forgets groups that expire.
async fn pushes(
    options: &ServerOptions,
    ends: &Arc<RemoteStorage>,
    db: &Db,
    memory: &Memory,
) -> Result<(Router, Option<PushUpkeep>), ServerError> {
    if !options.push_receiver {
        return Ok((Router::new(), None));
    }
    narthex_push::register_metrics(narthex_client::global()).map_err(ServerError::Metrics)?;
    let sink = ends.sink(Some(Arc::new(db.clone())));
    let started = PushReceiver::start(options, sink, memory).await;
    let PushReceiver { routes, upkeep } = started.map_err(|error| ServerError::Flag {
        flag: "web.enable-push-receiver",
        reason: error.to_string(),
    })?;
    Ok((memory.guard_writes(routes), Some(upkeep)))
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
    );
    status.set_config(Loaded {
        yaml: config
            .map(|config| config.shown.clone())
            .unwrap_or_default(),
        external_labels: config
            .map(|config| config.external_labels.clone())
            .unwrap_or_default(),
        at_ms: now_ms,
        succeeded: true,
    });
    Arc::new(status)
}
