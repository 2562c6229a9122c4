//! State of this process for `/api/v1/status/*`.
//!
//! **Invariant:** flags and configuration are those in effect, with secrets hidden; the rest is read on request.

use crate::{
    cgroup::Resources,
    notifications::{CONFIGURATION_UNSUCCESSFUL, Notifications},
};
use narthex_api::{MemoryStatus, RuntimeInfo, ServerStatus, WalReplay};
use narthex_model::sync::Whole as _;
use narthex_model::{LabelSet, storage::Budget};
use narthex_tsdb::{Db, Opening, ReplayProgress};
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
    pub(crate) notifications: Arc<Notifications>,
}

/// The configuration in effect.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) yaml: String,
    pub(crate) external_labels: LabelSet,
    pub(crate) at_ms: i64,
    /// Whether the last attempt to load a configuration succeeded.
    pub(crate) succeeded: bool,
}

impl ProcessStatus {
    /// Returns the status of a process that started at `start_ms`; `retention` says how long samples are kept.
    pub(crate) fn new(
        flags: Vec<(String, String)>,
        start_ms: i64,
        resources: &Resources,
        memory: Budget,
        retention: String,
        most_subscribers: usize,
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
            notifications: Arc::new(Notifications::new(most_subscribers)),
        }
    }

    /// Sets the configuration in effect.
    pub(crate) fn set_config(&self, loaded: Loaded) {
        self.notifications.remove(CONFIGURATION_UNSUCCESSFUL);
        *self.config.lock().whole() = loaded;
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

    fn retention(&self) -> String {
        let retention = self.retention.lock();
        retention.whole().clone()
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
            storage_retention: self.retention(),
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
            pressure: self.memory.pressure().name(),
            shares: self.memory.shares(),
        }
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
