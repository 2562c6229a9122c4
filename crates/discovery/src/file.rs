//! `file_sd_configs`: groups in JSON and YAML files, read on change and periodically.
//!
//! Invariant: a file that cannot be read or parsed keeps the groups it had; a removed one loses them.

mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

use narthex_net::{StopToken, catch_panic, glob::glob};

use crate::config::FileSdConfig;
use crate::discoverer::{Discoverer, Run, TASK, Updates};
use crate::error::DiscoveryError;
use crate::group::{Notation, TargetGroup, read_groups, source};
use crate::metrics;
use watch::Watcher;

/// Delay between a change and reading: a file being written is then read whole, and a log in the same directory that is
/// written constantly does not keep us busy.
const SETTLE: Duration = Duration::from_millis(50);
/// Longest file read.
const MAX_FILE_BYTES: u64 = 64 << 20;
const FILEPATH_LABEL: &str = "__meta_filepath";

#[derive(Debug)]
pub(crate) struct FileDiscovery {
    scan: Scan,
    interval: Duration,
}

impl FileDiscovery {
    pub(crate) fn new(config: &FileSdConfig) -> Self {
        Self {
            scan: Scan {
                patterns: config.files.clone(),
                known: BTreeMap::new(),
            },
            interval: config.refresh_interval.max(Duration::from_millis(1)),
        }
    }

    async fn watch(self, updates: Updates, stop: StopToken) {
        let mut watcher = watcher();
        let mut scan = self.scan;
        loop {
            // Watch before reading: a change in between is then seen by one of them.
            if let Some(watcher) = &watcher {
                watch_directories(watcher, &scan.patterns);
            }
            let before = scan.clone();
            let scanning = tokio::task::spawn_blocking(move || {
                let groups = catch_panic(TASK, || scan.round());
                (scan, groups)
            });
            let Ok((scanned, groups)) = scanning.await else {
                // The runtime is shutting down.
                return;
            };
            // After a panic, discard the half-read state and keep the previous one.
            scan = if groups.is_ok() { scanned } else { before };
            if stop.is_stopped() {
                break;
            }
            if let Ok(groups) = groups {
                updates.send(groups);
            }
            tokio::select! {
                () = stop.stopped() => break,
                () = changed(&mut watcher) => tokio::time::sleep(SETTLE).await,
                () = tokio::time::sleep(self.interval) => {}
            }
        }
        scan.forget();
    }
}

impl Discoverer for FileDiscovery {
    fn run(self: Box<Self>, updates: Updates, stop: StopToken) -> Run {
        Box::pin(self.watch(updates, stop))
    }
}

/// Result of the last round.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    patterns: Vec<String>,
    /// Number of groups of each existing file.
    known: BTreeMap<String, usize>,
}

impl Scan {
    /// Reads every file; returns its groups, and an empty group for each one that is gone.
    fn round(&mut self) -> Vec<TargetGroup> {
        let start = Instant::now();
        let mut found = BTreeMap::new();
        let mut groups = Vec::new();
        for path in self.files() {
            match read_file(&path) {
                Ok(read) => {
                    found.insert(path, read.len());
                    groups.extend(read);
                }
                Err(error) => {
                    metrics::FILE_READ_ERRORS.inc();
                    tracing::error!(%error, path, "Error reading file.");
                    let kept = self.known.get(&path).copied().unwrap_or(0);
                    found.insert(path, kept);
                }
            }
        }
        for (path, before) in std::mem::take(&mut self.known) {
            if !found.contains_key(&path) {
                metrics::FILE_MTIME.remove(&[&path]);
            }
            let now = found.get(&path).copied().unwrap_or(0);
            groups.extend((now..before).map(|at| TargetGroup::gone(source(&path, at))));
        }
        self.known = found;
        metrics::FILE_SCAN_DURATION.observe(start.elapsed().as_secs_f64());
        groups
    }

    fn files(&self) -> BTreeSet<String> {
        let mut files = BTreeSet::new();
        for pattern in &self.patterns {
            match glob(pattern) {
                Ok(found) => files.extend(found),
                Err(error) => tracing::error!(error, pattern, "Error expanding glob."),
            }
        }
        files
    }

    fn forget(&self) {
        for path in self.known.keys() {
            metrics::FILE_MTIME.remove(&[path]);
        }
    }
}

/// Reads the groups of a file.
///
/// # Errors
/// Fails, with line and column, if the file cannot be read or is not a list of groups.
pub fn read_file(path: &str) -> Result<Vec<TargetGroup>, DiscoveryError> {
    let failed = |source| DiscoveryError::Read {
        path: PathBuf::from(path),
        source,
    };
    let file = std::fs::File::open(path).map_err(failed)?;
    let modified = file.metadata().and_then(|m| m.modified()).map_err(failed)?;
    let mut bytes = Vec::new();
    let mut limited = file.take(MAX_FILE_BYTES + 1);
    limited.read_to_end(&mut bytes).map_err(failed)?;
    let parse = |message: String| DiscoveryError::Parse {
        what: path.to_owned(),
        message,
    };
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(parse(format!("longer than {MAX_FILE_BYTES} bytes")));
    }
    let json = path.to_ascii_lowercase().ends_with(".json");
    let notation = if json { Notation::Json } else { Notation::Yaml };
    let groups = read_groups(&bytes, notation, FILEPATH_LABEL, path).map_err(parse)?;
    let since = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
    metrics::FILE_MTIME.update(&[path], |gauge| gauge.set(since.as_secs() as f64));
    Ok(groups)
}

/// Returns a watcher, if possible; without one, files are still read at every interval.
fn watcher() -> Option<Watcher> {
    let watcher = Watcher::new().inspect_err(|error| {
        metrics::FILE_WATCHER_ERRORS.inc();
        tracing::error!(%error, "Error adding file watcher, files are only polled.");
    });
    watcher.ok()
}

/// Waits for a change; forever if nothing is watched.
async fn changed(watcher: &mut Option<Watcher>) {
    if let Some(watching) = watcher {
        match watching.changed().await {
            Ok(()) => return,
            Err(error) => {
                metrics::FILE_WATCHER_ERRORS.inc();
                tracing::error!(%error, "Error watching files, they are only polled.");
                *watcher = None;
            }
        }
    }
    std::future::pending::<()>().await;
}

/// Watches directories, not files: a file replaced by renaming is a different file.
fn watch_directories(watcher: &Watcher, patterns: &[String]) {
    let directories: BTreeSet<&Path> = patterns
        .iter()
        .map(|pattern| match Path::new(pattern).parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        })
        .collect();
    for directory in directories {
        // Repeated each round, because a directory may have been removed and recreated.
        if let Err(error) = watcher.watch(directory) {
            let directory = directory.display();
            tracing::error!(%error, %directory, "Error adding file watch.");
        }
    }
}

#[cfg(test)]
mod tests;
