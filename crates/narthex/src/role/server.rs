//! `narthex server`: starts and stops everything, in two mirrored lists.
//!
//! **Invariant:** stop order is the reverse of start order; the store closes last, when nothing writes to it.

use super::{
    base::{self, Base},
    error::{ServerError, ended, start_logging},
    priority,
};
use crate::{
    cgroup::Resources,
    cli::ServerOptions,
    config::Config,
    descriptors,
    health::Health,
    heap, host, lifecycle,
    memory::{self, Memory},
    program_pages, reload, remote,
    rules::Rules,
    sources::OwnMetrics,
    storage::{StorageFlags, ms},
    upkeep::{self, Upkeep},
    worker::Worker,
};
use narthex_files::FilesManager;
use narthex_model::storage::Sink;
use narthex_net::Stopper;
use narthex_notify::{Notifier, NotifierOptions};
use narthex_remote::RemoteStorage;
use narthex_scrape::{Manager, Target};
use narthex_tsdb::{Db, DbOptions, EarlySink, Opening, RealIo, SystemClock};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Scrape interval of this process and its host without a configuration.
const OWN_INTERVAL: Duration = Duration::from_secs(5);

/// Time that Alertmanagers have at the end to take what waits for them.
const NOTIFY_LIMIT: Duration = Duration::from_secs(10);

/// Runs the server until it is stopped.
///
/// # Errors
/// Fails when it cannot start or cannot end cleanly.
pub(crate) fn run(options: ServerOptions) -> Result<(), ServerError> {
    start_logging(&options.log_level, &options.log_format)?;
    let resources = base::resources(&options)?;
    heap::return_large_at_once();
    heap::return_soon();
    program_pages::map_in_pieces();
    let descriptors = descriptors::raise_limit();
    let serving = runtime("narthex-io", resources.threads())?;
    // Scrapes have their own runtime so that queries do not delay them. On one thread they share its cache and wake no
    // other thread. One thread handles millions of samples a second.
    let scraping = runtime("narthex-scrape", (resources.threads() / 4).max(1))?;
    let querying = query_runtime()?;
    let evaluating = rule_runtime(options.max_concurrency)?;
    let runtimes = Runtimes {
        scraping: scraping.handle().clone(),
        querying: querying.handle().clone(),
        evaluating: evaluating.handle().clone(),
    };
    let outcome = serving.block_on(serve(options, resources, descriptors, runtimes));
    evaluating.shutdown_timeout(Duration::from_secs(1));
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

/// Returns the runtime whose blocking threads evaluate queries and make listings when many run at once.
///
/// At full concurrency, queries took nearly all of two cores, and threads with little work, such as scraping and the
/// memory watch, waited seconds for CPU. At lower priority the queries wait instead. A query on its own runs on the
/// usual threads: it leaves a core to the others, and a low-priority thread started it some 50 µs late.
fn query_runtime() -> Result<tokio::runtime::Runtime, ServerError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("narthex-query")
        .on_thread_start(priority::of_queries)
        .build()
        .map_err(ServerError::Runtime)
}

/// Threads that evaluate groups of which each takes little time: when one takes long, the others go on.
const RULE_THREADS: usize = 4;

/// Returns the runtime whose threads evaluate groups of rules, its `most` blocking ones those that take long: what hangs
/// there until its timeout holds up neither scrapes nor requests.
fn rule_runtime(most: usize) -> Result<tokio::runtime::Runtime, ServerError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(RULE_THREADS)
        .max_blocking_threads(most.max(1))
        .thread_name("narthex-rules")
        .on_thread_start(priority::of_rules)
        .enable_time()
        .build()
        .map_err(ServerError::Runtime)
}

/// Runtimes beside the one that serves.
struct Runtimes {
    scraping: tokio::runtime::Handle,
    querying: tokio::runtime::Handle,
    evaluating: tokio::runtime::Handle,
}

async fn serve(
    options: ServerOptions,
    resources: Resources,
    descriptors: u64,
    runtimes: Runtimes,
) -> Result<(), ServerError> {
    let path = options.config_file.as_deref();
    let config = path.map(|path| base::load(path, &options));
    let config = config.transpose()?;
    // Start order: port, the data directory's lock, scraping, storage, maintenance, rules, requests. Scraping starts first
    // because replaying the WAL may take seconds; meanwhile samples wait in the sink.
    let base = Base::start(&options, config.as_ref(), &resources).await?;
    let Base {
        memory,
        status,
        stop,
        now_ms,
        ..
    } = &base;
    let opening = begin_storage(&options, config.as_ref(), &base, descriptors)?;
    status.set_opening(&opening);
    let sink = EarlySink::new(memory.early_rounds.clone());
    let ends = remote::sending(&options.storage_path, now_ms);
    let (scrape_stopper, scrape_stop) = stop.child();
    let scraped = ends.sink(Some(Arc::new(sink.clone())));
    let (manager, files) = base::reading(scraped, &base, runtimes.scraping, scrape_stop);
    let notifier = start_notifier(&options, memory)?;
    let rules = begin_rules(&options, &base, &notifier, runtimes.evaluating)?;
    let parts = reload::Parts {
        rules: Some(rules.clone()),
        notifier: Some(Arc::clone(&notifier)),
        storage_flags: Some(StorageFlags::from_options(&options)),
        ..base::parts(&options, &base, &manager, &files, &ends)
    };
    let reloader = match options.config_file.as_deref().zip(config) {
        Some(loaded) => Some(base::follow(loaded, parts, &options, &base)?),
        None => watch_own(&manager, &base.web.address).map(|()| None)?,
    };
    let (db, maintenance) = open_storage(opening, &sink, &base.gate.health).await?;
    status.set_storage(&db);
    reloader.iter().for_each(|one| one.set_storage(&db));
    let threads = resources.threads();
    let stored: Arc<dyn Sink> = ends.sink(Some(Arc::new(db.clone())));
    let rule_routes = rules.open(Arc::new(db.clone()), Arc::clone(&stored), &options, memory);
    let (writes, push_upkeep) = base::writes(&options, &ends, [&stored; 2], &base, threads).await?;
    let store = rules.manager.noted(Arc::new(db.clone()));
    let reads = base::api(&options, store, &base, threads, runtimes.querying);
    let notifier_routes = narthex_notify::routes(Arc::clone(&notifier));
    let routes = reads
        .merge(writes)
        .merge(rule_routes)
        .merge(notifier_routes);
    base.open(&options, &resources, routes, &manager, reloader, None);

    stop.stopped().await;

    let running = Running {
        base,
        rules: Some(rules),
        push_upkeep,
        scrape_stopper,
        manager,
        files: files.manager,
        ends,
        notifier: Some(notifier),
        flush_deadline: options.flush_deadline,
        storage: Some((db, maintenance)),
    };
    running.end().await
}

/// Everything that was started, in start order; an agent has neither storage nor rules and their notifications.
pub(super) struct Running {
    pub(super) base: Base,
    pub(super) push_upkeep: Option<Worker>,
    pub(super) rules: Option<Rules>,
    /// The storage and its maintenance.
    pub(super) storage: Option<(Db, Worker)>,
    pub(super) files: Arc<FilesManager>,
    pub(super) ends: Arc<RemoteStorage>,
    pub(super) notifier: Option<Arc<Notifier>>,
    /// Time that remote ends have to take what waits for them.
    pub(super) flush_deadline: Duration,
    pub(super) manager: Arc<Manager>,
    pub(super) scrape_stopper: Stopper,
}

impl Running {
    /// Stops everything in reverse order: requests, rules, scraping, notifications, sending, maintenance, storage.
    pub(super) async fn end(self) -> Result<(), ServerError> {
        let begin = Instant::now();
        let now_waiting_for = lifecycle::force_after_deadline("requests");
        let cut = self.base.web.join().await;
        now_waiting_for("pushed groups");
        if let Some(upkeep) = self.push_upkeep {
            upkeep.join();
        }
        if let Some(rules) = self.rules {
            now_waiting_for("rules");
            rules.manager.stop().await;
        }
        now_waiting_for("scrape loops");
        self.scrape_stopper.stop();
        self.manager.join().await;
        self.files.join().await;
        if let Some(notifier) = self.notifier {
            now_waiting_for("alert notifications");
            notifier.end(NOTIFY_LIMIT).await;
        }
        now_waiting_for("remote ends");
        remote::flush(self.ends, self.flush_deadline, begin).await;
        let db = self.storage.map(|(db, maintenance)| {
            now_waiting_for("storage maintenance");
            maintenance.join();
            db
        });
        self.base.watch.join();
        if let Some(db) = db {
            now_waiting_for("storage");
            db.close().map_err(ServerError::Storage)?;
        }
        ended(cut)
    }
}

/// Returns what evaluates rules, once storage is open.
fn begin_rules(
    options: &ServerOptions,
    base: &Base,
    notifier: &Arc<Notifier>,
    runtime: tokio::runtime::Handle,
) -> Result<Rules, ServerError> {
    let engine = base::engine(options, base).observed(base.activity.of_rules());
    let now_ms = Arc::clone(&base.now_ms);
    let address = &base.web.address;
    let alerts = Arc::<Notifier>::clone(notifier);
    let rules = Rules::new(
        options,
        address,
        &base.memory,
        engine,
        alerts,
        now_ms,
        runtime,
    );
    rules.map_err(ServerError::flag("web.external-url"))
}

/// Returns what sends alerts, without Alertmanagers until a configuration names them.
fn start_notifier(options: &ServerOptions, memory: &Memory) -> Result<Arc<Notifier>, ServerError> {
    let registry = narthex_client::global();
    narthex_notify::register_metrics(registry).map_err(ServerError::Metrics)?;
    let notifier = Notifier::new(NotifierOptions {
        queue_capacity: options.notification_queue_capacity,
        max_batch_size: options.notification_batch_size,
        drain_on_shutdown: options.drain_notification_queue,
        client: reload::client_config(),
        discovery: reload::discovery_options(),
        memory: memory.notifications.clone(),
    });
    let registered = notifier.register_metrics(registry);
    registered.map_err(ServerError::Metrics)?;
    Ok(notifier)
}

/// Smaller files of the log would be mostly headers.
const LEAST_WAL_FILE_BYTES: u64 = 4 << 10;

fn begin_storage(
    options: &ServerOptions,
    config: Option<&Config>,
    base: &Base,
    descriptors: u64,
) -> Result<Opening, ServerError> {
    let mut settings = DbOptions::new(&options.storage_path);
    settings.max_open_blocks = descriptors::for_blocks(descriptors);
    settings.tuning = StorageFlags::from_options(options).tuning(config);
    settings.fsync_interval_ms = ms(options.fsync_interval).unsigned_abs();
    settings.wal_file_bytes = options.wal_file_size.0.max(LEAST_WAL_FILE_BYTES);
    settings.memory = base.memory.process.clone();
    settings.helpers = base.helpers.clone();
    Opening::begin(Arc::new(RealIo), settings, Arc::new(SystemClock)).map_err(ServerError::Storage)
}

/// Replays the WAL off the scrape threads, then writes the samples that waited for it.
async fn open_storage(
    opening: Opening,
    sink: &EarlySink,
    health: &Arc<Health>,
) -> Result<(Db, Worker), ServerError> {
    let db = tokio::task::spawn_blocking(|| opening.finish())
        .await
        .map_err(|panic| ServerError::Replay(panic.to_string()))?
        .map_err(ServerError::Storage)?;
    db.register_metrics(narthex_client::global())
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
    let maintenance = maintain(db.clone(), Arc::clone(health)).map_err(ServerError::Runtime)?;
    if let Err(error) = sink.open(&db) {
        tracing::error!(%error, "Some scrapes received during the replay could not be stored.");
    }
    Ok((db, maintenance))
}

/// Starts the thread that flushes, truncates and applies retention.
fn maintain(db: Db, health: Arc<Health>) -> std::io::Result<Worker> {
    let (mut upkeep, mut refusals) = (Upkeep::new(health), memory::Refusals::default());
    // Log the findings of the replay before serving anything.
    upkeep.tell(&db);
    // Do not compete with the start by writing blocks right away.
    let (what, pause) = ("Maintaining storage", upkeep::INTERVAL);
    Worker::start("narthex-maintain", what, pause, move |is_last| {
        if is_last {
            return pause;
        }
        let pause = upkeep.maintain(&db);
        refusals.tell(&db);
        pause
    })
}

/// Scrapes this process and its host, as a server without a configuration does.
fn watch_own(manager: &Manager, address: &str) -> Result<(), ServerError> {
    let registry = narthex_client::global();
    let own = Target::local("narthex", address);
    let metrics = OwnMetrics::new(registry, own.labels.clone());
    manager.start_local(own, OWN_INTERVAL, Box::new(metrics));
    host::watch(manager, base::own_host(), OWN_INTERVAL, host::defaults())
        .map_err(ServerError::Host)?;
    Ok(())
}
