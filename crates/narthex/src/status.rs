//! State of this process for `/api/v1/status/*`.
//!
//! **Invariant:** flags and configuration are those in effect, with secrets hidden; the rest is read on request.

use crate::cli::{
    CONCURRENT_RULES, START_STORAGE, START_ZEROS, ServerOptions, TYPE_AND_UNIT_LABELS,
};
use crate::{
    cgroup::Resources,
    config::Config,
    notifications::{CONFIGURATION_UNSUCCESSFUL, Notifications},
};
use narthex_api::{BlockStatus, MemoryStatus, RuntimeInfo, ServerStatus, WalReplay};
use narthex_client::Visitor;
use narthex_model::sync::Whole as _;
use narthex_model::{LabelSet, storage::Budget};
use narthex_tsdb::{BlockMeta, Db, Opening, ReplayProgress};
use std::sync::{Arc, Mutex, OnceLock};

/// Returns this machine's name.
pub(crate) fn hostname() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

/// The process as the API shows it.
pub(crate) struct ProcessStatus {
    flags: Vec<(String, String)>,
    start_ms: i64,
    cpus: usize,
    memory_bytes: u64,
    retention: Mutex<String>,
    config: Mutex<Loaded>,
    db: OnceLock<Db>,
    replay: OnceLock<Arc<ReplayProgress>>,
    memory: Budget,
    features: Vec<Feature>,
    pub(crate) notifications: Arc<Notifications>,
}

/// A feature: category, name, whether it is enabled.
pub(crate) type Feature = (&'static str, String, bool);

/// Functions of templates in rules.
#[rustfmt::skip]
const TEMPLATE_FUNCTIONS: [&str; 29] = [
    "args", "externalURL", "first", "graphLink", "humanize", "humanize1024", "humanizeDuration", "humanizePercentage",
    "humanizeTimestamp", "label", "match", "now", "parseDuration", "pathPrefix", "query", "reReplaceAll", "safeHtml",
    "sortByLabel", "stripDomain", "stripPort", "strvalue", "tableLink", "title", "toDuration", "toLower", "toTime",
    "toUpper", "urlQueryEscape", "value",
];

/// Lists the features beside those of queries, by Prometheus' names.
pub(crate) fn features(options: &ServerOptions) -> Vec<Feature> {
    let is_agent = options.is_agent;
    let receives = options.remote_write_receiver;
    let reloads = options.auto_reload().is_some();
    let has = |feature| options.has_feature(feature);
    let fixed = [
        ("api", "admin", false),
        ("api", "lifecycle", options.enable_lifecycle),
        ("api", "otlp_write_receiver", false),
        ("api", "remote_write_receiver", receives),
        ("otlp_receiver", "delta_conversion", false),
        ("otlp_receiver", "native_delta_ingestion", false),
        ("prometheus", "agent_mode", is_agent),
        ("prometheus", "auto_reload_config", reloads),
        ("prometheus", "server_mode", !is_agent),
        ("rules", "concurrent_rule_eval", has(CONCURRENT_RULES)),
        ("rules", "keep_firing_for", true),
        ("rules", "query_offset", true),
        ("scrape", "extra_scrape_metrics", true),
        ("scrape", "openmetrics2", false),
        ("scrape", "start_timestamp_zero_ingestion", has(START_ZEROS)),
        ("scrape", "type_and_unit_labels", has(TYPE_AND_UNIT_LABELS)),
        ("tsdb", "delayed_compaction", false),
        ("tsdb", "exemplar_storage", true),
        ("tsdb", "histograms_st_encoding", false),
        ("tsdb", "isolation", true),
        ("tsdb", "native_histograms", true),
        ("tsdb", "st_storage", has(START_STORAGE)),
        ("tsdb", "use_uncached_io", false),
        ("tsdb", "xor2_encoding", false),
        ("ui", "ui_v2", false),
        ("ui", "ui_v3", true),
    ];
    let templates = TEMPLATE_FUNCTIONS.map(|name| ("templating_functions", name, true));
    let providers = ["dns", "file", "http", "kubernetes", "static"];
    let providers = providers.map(|name| ("service_discovery_providers", name, true));
    let all = fixed.into_iter().chain(providers).chain(templates);
    all.map(|(category, name, is_on)| (category, name.to_owned(), is_on))
        .collect()
}

/// The configuration in effect.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loaded {
    yaml: String,
    external_labels: LabelSet,
    at_ms: i64,
    /// Whether the last attempt to load a configuration succeeded.
    succeeded: bool,
}

impl From<&Config> for Loaded {
    fn from(config: &Config) -> Self {
        Self {
            yaml: config.shown.clone(),
            external_labels: config.external_labels.clone(),
            ..Self::default()
        }
    }
}

impl ProcessStatus {
    /// Returns the status of a process that started at `start_ms`; `retention` says how long samples are kept, and
    /// `features` are those beside those of queries.
    pub(crate) fn new(
        flags: Vec<(String, String)>,
        start_ms: i64,
        resources: &Resources,
        memory: Budget,
        retention: String,
        most_subscribers: usize,
        features: Vec<Feature>,
    ) -> Self {
        Self {
            flags,
            start_ms,
            cpus: resources.threads(),
            memory_bytes: resources.memory_bytes,
            retention: Mutex::new(retention),
            config: Mutex::default(),
            db: OnceLock::new(),
            replay: OnceLock::new(),
            memory,
            features,
            notifications: Arc::new(Notifications::new(most_subscribers)),
        }
    }

    /// Sets the configuration in effect.
    pub(crate) fn set_config(&self, loaded: Loaded, now_ms: i64) {
        self.notifications.remove(CONFIGURATION_UNSUCCESSFUL);
        *self.config.lock().whole() = Loaded {
            at_ms: now_ms,
            succeeded: true,
            ..loaded
        };
    }

    /// Records that a configuration could not be loaded; the previous one stays in effect.
    pub(crate) fn set_reload_failed(&self, now_ms: i64) {
        self.notifications.add(CONFIGURATION_UNSUCCESSFUL, now_ms);
        let mut config = self.config.lock().whole();
        config.succeeded = false;
    }

    /// Sets the storage that is being opened, to show its progress.
    pub(crate) fn set_opening(&self, opening: &Opening) {
        // Cannot be set already: a process opens only one.
        let _ = self.replay.set(opening.progress());
    }

    /// Sets the storage, once it is open.
    pub(crate) fn set_storage(&self, db: &Db) {
        // Cannot be set already: a process opens only one.
        let _ = self.db.set(db.clone());
    }

    /// Sets the text that describes retention.
    pub(crate) fn set_retention(&self, retention: String) {
        *self.retention.lock().whole() = retention;
    }

    fn config(&self) -> Loaded {
        self.config.lock().whole().clone()
    }
}

impl ServerStatus for ProcessStatus {
    fn config_yaml(&self) -> String {
        self.config().yaml
    }

    fn flags(&self) -> Vec<(String, String)> {
        self.flags.clone()
    }

    fn runtime(&self) -> RuntimeInfo {
        let config = self.config();
        let cwd = std::env::current_dir().unwrap_or_default();
        let threads = std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
        RuntimeInfo {
            start_time_ms: self.start_ms,
            cwd: cwd.display().to_string(),
            hostname: hostname(),
            reload_config_success: config.succeeded,
            last_config_time_ms: config.at_ms,
            corruption_count: self.db.get().map_or(0, |db| db.damage().len() as u64),
            threads,
            cpus: self.cpus,
            memory_limit_bytes: self.memory_bytes,
            storage_retention: self.retention.lock().whole().clone(),
        }
    }

    fn wal_replay(&self) -> WalReplay {
        let [min, max, current] = self.replay.get().map_or([0; 3], |replay| replay.get());
        WalReplay {
            min: min.into(),
            max: max.into(),
            current: current.into(),
        }
    }

    fn memory(&self) -> MemoryStatus {
        MemoryStatus {
            limit_bytes: self.memory.limit_bytes(),
            used_bytes: self.memory.used_bytes(),
            pressure: self.memory.pressure().as_str(),
            shares: self.memory.shares(),
        }
    }

    fn blocks(&self) -> Vec<BlockStatus> {
        let metas = self.db.get().map(Db::block_metas).unwrap_or_default();
        let block = |meta: BlockMeta| BlockStatus {
            id: meta.id.to_string(),
            min_time_ms: meta.min_time_ms,
            max_time_ms: meta.max_time_ms,
            samples: meta.samples,
            series: meta.series,
            bytes: meta.bytes,
            level: meta.level,
            sources: meta.sources.iter().map(ToString::to_string).collect(),
        };
        metas.into_iter().map(block).collect()
    }

    fn visit_metrics(&self, visitor: &mut dyn Visitor) {
        narthex_client::global().visit(visitor);
    }

    fn features(&self) -> Vec<Feature> {
        self.features.clone()
    }

    fn heap_dump(&self) -> Result<String, String> {
        crate::heap::dump()
    }

    fn external_labels(&self) -> Vec<(String, String)> {
        let labels = self.config().external_labels;
        let pair = |label: &narthex_model::Label| (label.name().into(), label.value().into());
        labels.iter().map(pair).collect()
    }
}
