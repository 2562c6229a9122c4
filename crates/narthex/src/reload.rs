//! Reloads the configuration and applies what changed.
//!
//! **Invariant:** an unusable configuration changes nothing. A usable one applies only its differences: unchanged
//! targets keep their connections, schemas and scrape times.

use crate::{
    config::{self, Config, Features},
    host,
    host_facts::HostFacts,
    rules::Rules,
    segments, sources,
    status::{Loaded, ProcessStatus, hostname},
    storage::{self, StorageFlags},
};
use narthex_api::Activity;
use narthex_client::{Gauge, Registry};
use narthex_discovery::{SdConfig, TargetGroup, TargetSets, Targets};
use narthex_files::FilesManager;
use narthex_model::{storage::Budget, sync::Whole as _};
use narthex_net::{
    AwsEnvironment, Client, ClientConfig, ProxyEnvironment, StopToken, catch_panic, keep_running,
};
use narthex_notify::{AlertingConfig, Notifier};
use narthex_remote::RemoteStorage;
use narthex_rules::RuleSet;
use narthex_scrape::{JobConfig, LocalHandle, Manager};
use narthex_tsdb::Db;
use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};
use tokio::sync::Notify;

static SUCCESSFUL: Gauge = Gauge::new(
    "prometheus_config_last_reload_successful",
    "Whether the last configuration reload attempt was successful.",
);
static SUCCEEDED_AT: Gauge = Gauge::new(
    "prometheus_config_last_reload_success_timestamp_seconds",
    "Timestamp of the last successful configuration reload.",
);

/// Delay before a scrape pool that panicked is restarted.
const POOL_RETRY: Duration = Duration::from_secs(5);

/// Registers the metrics about reloading.
///
/// # Errors
/// Fails when a name is taken.
pub(crate) fn register_metrics(registry: &Registry) -> Result<(), narthex_client::Error> {
    registry.register_all(&[&SUCCESSFUL, &SUCCEEDED_AT])
}

/// Returns the client settings that scraping and discovery share.
pub(crate) fn client_config() -> ClientConfig {
    let mut config = ClientConfig::default();
    config.environment = ProxyEnvironment::read(environment);
    config.aws = AwsEnvironment::read(environment);
    config
}

/// Returns the environment of service discovery.
pub(crate) fn discovery_options() -> narthex_discovery::Options {
    let mut options = narthex_discovery::Options::default();
    options.client = client_config();
    // Where a pod's environment has the cluster's API.
    options.kubernetes_service =
        environment("KUBERNETES_SERVICE_HOST").zip(environment("KUBERNETES_SERVICE_PORT"));
    options
}

/// Reads the environment variable `name`.
pub(crate) fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The configuration file, and the components that run according to it.
pub(crate) struct Reloader {
    path: PathBuf,
    applied: Arc<Applied>,
    parts: Parts,
    /// The storage, once it is open.
    storage: OnceLock<Db>,
    /// Held during a reload; contains the fingerprint of the files at the last one.
    turn: Mutex<u64>,
}

/// Components a reloader works with.
pub(crate) struct Parts {
    pub(crate) manager: Arc<Manager>,
    pub(crate) files: Files,
    pub(crate) remote: Arc<RemoteStorage>,
    /// `None` in an agent, which has no rules.
    pub(crate) rules: Option<Rules>,
    /// `None` in an agent, which has no alerts.
    pub(crate) notifier: Option<Arc<Notifier>>,
    pub(crate) status: Arc<ProcessStatus>,
    pub(crate) activity: Arc<Activity>,
    /// `None` if nothing is stored.
    pub(crate) storage_flags: Option<StorageFlags>,
    pub(crate) features: Features,
    /// The wall clock, in milliseconds since the epoch.
    pub(crate) now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
}

impl Parts {
    /// Reads the rules of a configuration, and opens its logs and the queues of its remote ends.
    ///
    /// # Errors
    /// Fails on what an agent has no use for, and on what cannot be read or opened.
    fn prepare(&self, config: &Config) -> Result<RuleSet, String> {
        if self.notifier.is_none() && config.alerting != AlertingConfig::default() {
            return Err("field alerting is not allowed in agent mode".to_owned());
        }
        let rules = match &self.rules {
            Some(rules) => rules.load(config)?,
            None if config.rules.patterns.is_empty() => RuleSet::default(),
            None => return Err("field rule_files is not allowed in agent mode".to_owned()),
        };
        // The last steps that can fail: from here on files that were moved away are no longer written to, and samples
        // go to the remote ends of this configuration.
        let jobs = config.jobs.iter().map(|job| &job.scrape);
        let opened = self.manager.open_failure_logs(jobs);
        opened.map_err(|error| error.to_string())?;
        // Who answers no queries logs none.
        let query_log = config.query_log.as_deref().filter(|_| self.rules.is_some());
        self.activity.log_to(query_log).map_err(|error| {
            let path = query_log.unwrap_or(Path::new("")).display();
            format!("can't create json log file: open {path}: {error}")
        })?;
        let ends = &config.remote_write.destinations;
        let sending = self.remote.apply(ends, &config.external_labels);
        sending.map_err(|error| error.to_string())?;
        if let Some(limits) = self.activity.cost_limits() {
            let (reads, duration) = config.query_costs;
            limits.set(reads, duration);
        }
        Ok(rules)
    }
}

/// What looks at files of metrics, and the share of memory that what it keeps of them is leased from.
#[derive(Clone)]
pub(crate) struct Files {
    pub(crate) manager: Arc<FilesManager>,
    pub(crate) series: Budget,
}

impl Files {
    fn apply(&self, config: &Config) {
        let entries = config.metric_files.iter().filter_map(|config| {
            let entry = sources::file_entry(config, &self.series);
            entry
                .inspect_err(|error| {
                    let job = &config.job_name;
                    tracing::error!(job, %error, "Files cannot be read.");
                })
                .ok()
        });
        self.manager.apply(entries.collect());
    }
}

fn start_host(manager: &Manager, host: &config::Host) -> Result<LocalHandle, String> {
    let settings = host.settings().map_err(|error| error.to_string())?;
    let target = host.target(&hostname());
    host::watch(manager, target, host.interval, settings).map_err(|error| error.to_string())
}

/// The components a configuration applies to, and the one in effect.
struct Applied {
    manager: Arc<Manager>,
    discovery: narthex_discovery::Manager,
    config: Mutex<Config>,
    locals: Mutex<Locals>,
}

/// The sources inside the process that run.
#[derive(Default)]
struct Locals {
    host: Option<LocalHandle>,
    segments: Option<LocalHandle>,
}

impl Applied {
    fn jobs(&self) -> Vec<JobConfig> {
        let config = self.config.lock().whole();
        config.jobs.iter().map(|job| job.scrape.clone()).collect()
    }

    /// Starts, replaces or ends the sources inside the process whose settings changed.
    fn read_locals(&self, config: &Config) {
        let (manager, running) = (&self.manager, self.config.lock().whole());
        let mut locals = self.locals.lock().whole();
        if running.host != config.host {
            if let Some(before) = locals.host.take() {
                manager.end_local(&before);
            }
            let started = config.host.as_ref().map(|host| start_host(manager, host));
            locals.host = started.and_then(|started| {
                let told = started.inspect_err(
                    |error| tracing::error!(%error, "The host's metrics cannot be read."),
                );
                told.ok()
            });
        }
        if running.segments != config.segments {
            if let Some(before) = locals.segments.take() {
                manager.end_local(&before);
            }
            let segments = config.segments.as_ref();
            locals.segments = segments.map(|segments| segments::watch(manager, segments));
        }
    }

    /// Hands a publication of targets to the scrape pools; returns `false` if a pool panicked.
    fn scrape(&self, sets: &TargetSets) -> bool {
        let jobs = self.jobs();
        let names: BTreeSet<String> = jobs.iter().map(|job| job.job_name.clone()).collect();
        self.manager.retain(&names);
        let mut all = true;
        for job in jobs {
            // A job that discovery does not know yet comes with the next publication.
            let Some(groups) = sets.get(&job.job_name) else {
                continue;
            };
            let groups: Vec<TargetGroup> = groups.iter().map(|group| (**group).clone()).collect();
            let name = job.job_name.clone();
            if let Err(error) = self.manager.apply(job, &groups) {
                tracing::error!(job = name, %error, "A job cannot be scraped.");
                all &= !error.is_panic();
            }
        }
        all
    }
}

impl Reloader {
    /// Starts sending and scraping according to `config`, which was read from `path`.
    ///
    /// # Errors
    /// Fails when a log of failed scrapes or the queue of a remote end cannot be opened.
    pub(crate) fn start(
        path: &Path,
        config: Config,
        parts: Parts,
        stop: &StopToken,
    ) -> Result<Arc<Self>, String> {
        let rules = parts.prepare(&config)?;
        let options = discovery_options();
        let (discovery, targets) = narthex_discovery::Manager::new("scrape", options, stop.clone());
        let applied = Arc::new(Applied {
            manager: Arc::clone(&parts.manager),
            discovery,
            config: Mutex::default(),
            locals: Mutex::default(),
        });
        let fingerprint = fingerprint(&config.files);
        let reloader = Arc::new(Self {
            path: path.to_owned(),
            applied: Arc::clone(&applied),
            parts,
            storage: OnceLock::new(),
            turn: Mutex::new(fingerprint),
        });
        reloader.apply(config, &rules);
        let follow_stop = stop.clone();
        tokio::spawn(async move {
            let mut first = true;
            let begin = || {
                let up_to_date = std::mem::take(&mut first);
                follow(Arc::clone(&applied), targets.clone(), up_to_date)
            };
            keep_running("targets", &follow_stop, begin).await;
        });
        Ok(reloader)
    }

    /// Reads the file again and applies it. Blocks on file reads, so it must not run on a thread of the runtime.
    ///
    /// # Errors
    /// Fails, changing nothing, when the file cannot be used.
    pub(crate) fn reload(&self) -> Result<(), String> {
        let mut turn = self.turn.lock().whole();
        tracing::info!(
            file = self.path.display().to_string(),
            "Loading configuration file"
        );
        let read = catch_panic("reload", || {
            self.read().map(|(config, rules)| {
                *turn = fingerprint(&config.files);
                self.apply(config, &rules);
            })
        });
        // The next reload completes what a panic left half-applied.
        match read.unwrap_or_else(|panicked| Err(panicked.to_string())) {
            Ok(()) => {
                tracing::info!("Completed loading of configuration file");
                Ok(())
            }
            Err(reason) => {
                SUCCESSFUL.set(0.0);
                let now_ms = (self.parts.now_ms)();
                self.parts.status.set_reload_failed(now_ms);
                let path = self.path.display().to_string();
                let error =
                    format!("couldn't load configuration (--config.file={path:?}): {reason}");
                tracing::error!(error, "Error reloading config");
                Err(error)
            }
        }
    }

    /// Returns the directory of segments that is read, if one is.
    pub(crate) fn segments_dir(&self) -> Option<PathBuf> {
        let config = self.applied.config.lock().whole();
        config
            .segments
            .as_ref()
            .map(|segments| segments.dir.clone())
    }

    /// Returns where facts about this host are, if its metrics are read.
    pub(crate) fn host_facts(&self) -> Option<HostFacts> {
        let config = self.applied.config.lock().whole();
        let host = config.host.as_ref()?;
        let labels = host.target(&hostname()).labels;
        Some(HostFacts::new(&host.settings().ok()?, labels))
    }

    fn read(&self) -> Result<(Config, RuleSet), String> {
        let config = Config::load(&self.path, &environment, self.parts.features)
            .map_err(|error| error.to_string())?;
        check_clients(&config)?;
        let rules = self.parts.prepare(&config)?;
        Ok((config, rules))
    }

    /// Puts `config` into effect.
    fn apply(&self, config: Config, rules: &RuleSet) {
        for warning in &config.warnings {
            tracing::warn!(warning, "Configuration");
        }
        let now_ms = (self.parts.now_ms)();
        self.parts.status.set_config(Loaded::from(&config), now_ms);
        let mechanisms: BTreeMap<String, Vec<SdConfig>> = config
            .jobs
            .iter()
            .map(|job| (job.scrape.job_name.clone(), job.discovery.clone()))
            .collect();
        // Before the jobs, because their pools keep the offsets they start with.
        self.applied
            .manager
            .set_offset_seed(&hostname(), &config.external_labels);
        self.tune(&config);
        self.parts.files.apply(&config);
        self.applied.read_locals(&config);
        // Before rules, whose alerts it then sends where this configuration says.
        self.notify(&config);
        if let Some(running) = &self.parts.rules {
            running.manager.apply(rules);
        }
        *self.applied.config.lock().whole() = config;
        // The next publication carries the jobs' settings too, even if no target changed.
        self.applied.discovery.apply(mechanisms);
        SUCCESSFUL.set(1.0);
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of our times fit")]
        SUCCEEDED_AT.set(now_ms as f64 / 1000.0);
    }

    /// Makes the Alertmanagers those of a configuration.
    fn notify(&self, config: &Config) {
        let Some(notifier) = &self.parts.notifier else {
            return;
        };
        if let Err(error) = notifier.apply(config.alerting.clone(), &config.external_labels) {
            // The settings make clients, but what they name may have changed since that was checked.
            tracing::error!(%error, "Alerts go where they went before.");
        }
    }

    /// Sets the storage once it is open, and applies the configuration in effect to it.
    pub(crate) fn set_storage(&self, db: &Db) {
        // Keeps out a concurrent reload, whose limits would be overwritten by older ones.
        let _turn = self.turn.lock().whole();
        // Cannot be set already: a process opens only one.
        let _ = self.storage.set(db.clone());
        let config = self.applied.config.lock();
        self.tune(&config.whole());
    }

    /// Applies a configuration's limits to the storage.
    fn tune(&self, config: &Config) {
        let Some(flags) = &self.parts.storage_flags else {
            return;
        };
        let tuning = flags.tuning(Some(config));
        self.parts.status.set_retention(storage::shown(&tuning));
        if let Some(db) = self.storage.get() {
            db.tune(&tuning);
        }
    }

    /// Checks the files every `interval` and reloads when they have changed, until stopped.
    pub(crate) async fn watch(self: Arc<Self>, interval: Duration, stop: StopToken) {
        loop {
            tokio::select! {
                () = stop.stopped() => return,
                () = tokio::time::sleep(interval) => {}
            }
            let reloader = Arc::clone(&self);
            let looked = tokio::task::spawn_blocking(move || {
                if reloader.changed() {
                    // `reload` has logged the error.
                    let _ = reloader.reload();
                }
            });
            if let Err(error) = looked.await {
                tracing::error!(%error, "Watching the configuration ended with a panic.");
            }
        }
    }

    /// Reports whether the files differ from the last look, once per change.
    fn changed(&self) -> bool {
        // An unusable file counts with its contents: it is not tried again until it changes.
        let files = Config::load(&self.path, &environment, self.parts.features)
            .map_or_else(|_| vec![self.path.clone()], |config| config.files);
        let now = fingerprint(&files);
        let mut last = self.turn.lock().whole();
        std::mem::replace(&mut *last, now) != now
    }
}

/// Checks that the HTTP settings of every job, set of Alertmanagers and remote end make a client.
///
/// # Errors
/// Returns which of them it is and what is wrong with its settings.
pub(crate) fn check_clients(config: &Config) -> Result<(), String> {
    let clients = client_config();
    for job in &config.jobs {
        Client::with_http(clients.clone(), job.scrape.http.clone())
            .map_err(|error| format!("job {:?}: {error}", job.scrape.job_name))?;
    }
    Notifier::check(&config.alerting, &clients).map_err(|error| error.to_string())?;
    if let Some(reason) = &config.remote_write.unusable {
        return Err(reason.clone());
    }
    RemoteStorage::check(&config.remote_write.destinations, &clients)
        .map_err(|error| error.to_string())
}

/// Returns a hash of the paths and contents of files.
fn fingerprint(files: &[PathBuf]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for file in files {
        file.hash(&mut hasher);
        // A missing file differs from an empty one.
        std::fs::read(file).ok().hash(&mut hasher);
    }
    hasher.finish()
}

/// Hands publications to the scrape pools until discovery ends; repeats the current one after a pool panicked.
async fn follow(applied: Arc<Applied>, mut targets: Targets, up_to_date: bool) {
    let mut all = up_to_date;
    loop {
        let sets = if all {
            targets.next().await
        } else {
            // A pool that panicked is gone: it is restarted even if no target changes.
            tokio::time::timeout(POOL_RETRY, targets.next())
                .await
                .unwrap_or_else(|_elapsed| Some(targets.current()))
        };
        let Some(sets) = sets else {
            return;
        };
        all = applied.scrape(&sets);
    }
}

/// Reloads whenever `asked` is notified, until stopped: for signals.
pub(crate) async fn on_signal(reloader: Arc<Reloader>, asked: Arc<Notify>, stop: StopToken) {
    loop {
        tokio::select! {
            () = stop.stopped() => return,
            () = asked.notified() => {}
        }
        let reloader = Arc::clone(&reloader);
        // `reload` has logged the error.
        let _ = tokio::task::spawn_blocking(move || reloader.reload()).await;
    }
}
