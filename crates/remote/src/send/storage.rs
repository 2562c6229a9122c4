//! All destinations: started, replaced and ended as the configuration says.
//!
//! **Invariant:** an unchanged destination is left alone by a reload; a changed one keeps its queue. Two processes never
//! use the same queues.

use super::{
    config::RemoteWriteConfig,
    control::Order,
    destination::{Destination, Making, Store},
    metrics,
    worker::Workers,
};
use crate::queue::QueueError;
use narthex_model::{LabelSet, sync::Whole as _};
use narthex_net::{ClientConfig, NetError};
use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    fmt,
    fs::{File, TryLockError},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, RwLock},
    time::{Duration, Instant},
};
use tokio::runtime::Handle;

/// Time that requests under way have to end when a destination changes or goes.
const FINISH: Duration = Duration::from_secs(5);
/// Interval of looking whether workers have ended.
const LOOK: Duration = Duration::from_millis(5);

/// What sending needs from its process.
#[derive(Clone)]
pub struct RemoteStorageOptions {
    /// Directory of the queues; created if missing.
    pub dir: PathBuf,
    /// Runtime of requests.
    pub runtime: Handle,
    /// Base client settings.
    pub client: ClientConfig,
    /// The wall clock, in milliseconds since the epoch.
    pub now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
}

/// Sends what its sinks take to any number of destinations.
pub struct RemoteStorage {
    options: RemoteStorageOptions,
    current: RwLock<Current>,
    /// The workers of each destination, by its key; held while the set changes.
    workers: Mutex<BTreeMap<String, Workers>>,
    /// Locked as long as the process uses the queues; taken when there is the first destination.
    lock: Mutex<Option<File>>,
}

/// The destinations in effect.
pub(super) struct Current {
    /// Counts changes of the set, from 1.
    pub(super) generation: u64,
    pub(super) destinations: Vec<Arc<Destination>>,
}

/// A set of destinations that cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum RemoteStorageError {
    /// A destination's HTTP settings cannot be used.
    Client {
        /// Name of the destination.
        name: String,
        /// What is wrong.
        source: NetError,
    },
    /// Two entries are the same.
    Duplicate {
        /// URL of both.
        url: String,
    },
    /// A queue cannot be opened.
    Queue(QueueError),
    /// Another process uses the queues.
    Locked {
        /// Their directory.
        dir: PathBuf,
    },
    /// A thread cannot be started.
    Thread(std::io::Error),
}

impl fmt::Display for RemoteStorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client { name, source } => write!(f, "remote_write {name:?}: {source}"),
            Self::Duplicate { url } => write!(
                f,
                "duplicate remote write configs are not allowed, found duplicate for URL: {url}"
            ),
            Self::Queue(error) => error.fmt(f),
            Self::Locked { dir } => {
                write!(f, "{} is in use by another process", dir.display())
            }
            Self::Thread(error) => write!(f, "starting a thread: {error}"),
        }
    }
}

impl Error for RemoteStorageError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Client { source, .. } => Some(source),
            Self::Queue(error) => Some(error),
            Self::Thread(error) => Some(error),
            Self::Duplicate { .. } | Self::Locked { .. } => None,
        }
    }
}

impl From<QueueError> for RemoteStorageError {
    fn from(error: QueueError) -> Self {
        Self::Queue(error)
    }
}

impl Current {
    /// Counts samples that came in.
    pub(super) fn note(&self, samples: u64, newest_ms: Option<i64>) {
        if self.destinations.is_empty() {
            return;
        }
        metrics::SAMPLES_IN.inc_by(samples);
        if let Some(newest_ms) = newest_ms {
            let newest = metrics::seconds(newest_ms);
            if newest > metrics::HIGHEST.get() {
                metrics::HIGHEST.set(newest);
            }
        }
    }
}

impl RemoteStorage {
    /// Returns a storage without destinations; nothing is on disk before there is one.
    #[must_use]
    pub fn new(options: RemoteStorageOptions) -> Arc<Self> {
        Arc::new(Self {
            options,
            current: RwLock::new(Current {
                generation: 1,
                destinations: Vec::new(),
            }),
            workers: Mutex::default(),
            lock: Mutex::default(),
        })
    }

    /// Checks that every destination's settings make a client, and that no two are the same.
    ///
    /// # Errors
    /// Fails at the first that cannot be used.
    pub fn check(
        configs: &[RemoteWriteConfig],
        client: &ClientConfig,
    ) -> Result<(), RemoteStorageError> {
        for (at, config) in configs.iter().enumerate() {
            if configs.iter().take(at).any(|other| other == config) {
                return Err(RemoteStorageError::Duplicate {
                    url: config.url.to_string(),
                });
            }
            super::post::Poster::new(config, client).map_err(|source| {
                RemoteStorageError::Client {
                    name: config.name.clone(),
                    source,
                }
            })?;
        }
        Ok(())
    }

    pub(super) fn with_current<T>(&self, call: impl FnOnce(&Current) -> T) -> T {
        // The list is replaced as a whole.
        call(&self.current.read().whole())
    }

    /// Makes the destinations those of `configs`. Blocks while requests to those that change or go are ended.
    ///
    /// # Errors
    /// Fails, changing nothing, if one cannot be used.
    pub fn apply(
        &self,
        configs: &[RemoteWriteConfig],
        external_labels: &LabelSet,
    ) -> Result<(), RemoteStorageError> {
        Self::check(configs, &self.options.client)?;
        let mut workers = self.workers.lock().whole();
        let old = self.with_current(|current| current.destinations.clone());
        if !configs.is_empty() {
            self.take_lock()?;
        }
        let mut kept = BTreeSet::new();
        let mut destinations = Vec::new();
        for (key, name, config) in named(configs) {
            let known = old.iter().find(|one| one.key == key);
            if let Some(same) = known.filter(|one| one.is(config, external_labels)) {
                kept.insert(key);
                destinations.push(Arc::clone(same));
                continue;
            }
            let store = match known {
                Some(known) => known.store(),
                None => {
                    let dir = self.options.dir.join(&key);
                    Arc::new(Store::open(&dir, &config.queue)?)
                }
            };
            let making = Making {
                key,
                name: name.clone(),
                config: config.clone(),
                external: external_labels.clone(),
                store,
                client: &self.options.client,
                now_ms: Arc::clone(&self.options.now_ms),
            };
            let destination = Destination::new(making)
                .map_err(|source| RemoteStorageError::Client { name, source })?;
            destinations.push(Arc::new(destination));
        }
        self.replace(&destinations);
        self.end(
            &mut workers,
            |key| !kept.contains(key),
            Order::Finish,
            FINISH,
        );
        remove_metrics(&old, &destinations);
        for destination in destinations.iter().filter(|one| !kept.contains(&one.key)) {
            let started = Workers::new(self.options.runtime.clone(), Arc::clone(destination));
            started.start_all().map_err(RemoteStorageError::Thread)?;
            workers.insert(destination.key.clone(), started);
        }
        self.tell_of_strangers(&destinations);
        Ok(())
    }

    fn replace(&self, destinations: &[Arc<Destination>]) {
        let mut current = self.current.write().whole();
        current.generation += 1;
        current.destinations = destinations.to_vec();
    }

    /// Ends the workers of destinations that `is_over` says so of, and waits for them, at most this long for requests
    /// under way.
    fn end(
        &self,
        workers: &mut BTreeMap<String, Workers>,
        is_over: impl Fn(&str) -> bool,
        order: Order,
        patience: Duration,
    ) {
        let over: Vec<String> = workers.keys().filter(|key| is_over(key)).cloned().collect();
        let over: Vec<Workers> = over.iter().filter_map(|key| workers.remove(key)).collect();
        let deadline = Instant::now() + patience;
        for workers in &over {
            workers.order(order);
        }
        let ended = || over.iter().all(Workers::have_ended);
        while !ended() && Instant::now() < deadline {
            std::thread::sleep(LOOK);
        }
        for workers in &over {
            workers.order(Order::Abort);
            workers.join();
        }
    }

    /// Ends all destinations: sends what is there as long as it is taken, at most this long. What is left is on disk.
    ///
    /// Blocks.
    pub fn stop(&self, flush: Duration) {
        let mut workers = self.workers.lock().whole();
        self.end(&mut workers, |_| true, Order::Flush, flush);
        for destination in self.with_current(|current| current.destinations.clone()) {
            destination.queue.sync();
        }
    }

    fn take_lock(&self) -> Result<(), RemoteStorageError> {
        let mut lock = self.lock.lock().whole();
        if lock.is_some() {
            return Ok(());
        }
        let dir = &self.options.dir;
        let path = dir.join("lock");
        std::fs::create_dir_all(dir).map_err(QueueError::io(&path, "create"))?;
        let file = File::create(&path).map_err(QueueError::io(&path, "create"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(RemoteStorageError::Locked { dir: dir.clone() });
            }
            Err(TryLockError::Error(error)) => {
                return Err(QueueError::io(path, "lock")(error).into());
            }
        }
        *lock = Some(file);
        Ok(())
    }

    /// Logs queues that no destination has: their samples wait for one of that name or URL.
    fn tell_of_strangers(&self, destinations: &[Arc<Destination>]) {
        for (key, bytes) in strangers(&self.options.dir, destinations) {
            tracing::warn!(
                directory = self.options.dir.join(key).display().to_string(),
                bytes,
                "There is a queue of a remote end that the configuration does not name. It is kept; remove it if it is not needed."
            );
        }
    }
}

/// Returns the directories of queues that no destination has, and their bytes.
fn strangers(dir: &Path, destinations: &[Arc<Destination>]) -> Vec<(String, u64)> {
    let bytes = |dir: &Path| -> u64 {
        let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
        files
            .filter_map(|file| Some(file.metadata().ok()?.len()))
            .sum()
    };
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.path().is_dir())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|key| destinations.iter().all(|one| one.key != *key))
        .map(|key| {
            let bytes = bytes(&dir.join(&key));
            (key, bytes)
        })
        .collect()
}

/// Returns each destination's key on disk and its name.
///
/// The key is the name, else a hash of the URL; entries with the same URL and no name are numbered.
fn named(configs: &[RemoteWriteConfig]) -> Vec<(String, String, &RemoteWriteConfig)> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let name_of = |config: &RemoteWriteConfig| {
        if config.name.is_empty() {
            let hash = rapidhash::v3::rapidhash_v3(config.url.as_str().as_bytes());
            format!("{:06x}", hash >> 40)
        } else {
            config.name.clone()
        }
    };
    configs
        .iter()
        .map(|config| {
            let name = name_of(config);
            let count = seen.entry(name.clone()).or_default();
            *count += 1;
            let name = match *count {
                1 => name,
                more => format!("{name}-{more}"),
            };
            (directory_of(&name), name, config)
        })
        .collect()
}

/// Returns a name as one of a directory: letters, digits, `-`, `_` and dots within it stay.
fn directory_of(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let mut key = String::new();
    for (at, byte) in name.bytes().enumerate() {
        if is_plain(byte) || (byte == b'.' && at > 0) {
            key.push(char::from(byte));
        } else {
            key.push_str(&format!("%{byte:02X}"));
        }
    }
    key
}

/// Removes the metrics of destinations whose name or URL is gone.
fn remove_metrics(old: &[Arc<Destination>], new: &[Arc<Destination>]) {
    let by = |one: &Destination| (one.name.clone(), one.config.url.to_string());
    for gone in old {
        if new.iter().all(|one| by(one) != by(gone)) {
            gone.set_removed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_net::Url;

    #[test]
    fn names_become_directories() {
        let config = |name: &str| RemoteWriteConfig {
            name: name.to_owned(),
            ..RemoteWriteConfig::new(Url::parse("http://h/w").unwrap())
        };
        let configs = ["a.b", "../x y", "", "", "é"].map(config);
        let keys: Vec<String> = named(&configs).into_iter().map(|(key, ..)| key).collect();
        let hash = &keys[2];
        assert_eq!(hash.len(), 6);
        assert_eq!(
            keys,
            ["a.b", "%2E.%2Fx%20y", hash, &format!("{hash}-2"), "%C3%A9"]
        );
    }
}
