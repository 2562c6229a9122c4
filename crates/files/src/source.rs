//! The files of one entry: which there are, which of them has a series, and their rounds.
//!
//! **Invariant:** a series that several files show is stored for the first of them in the order of paths. A bad file
//! costs its own series and nothing else.

use crate::{
    config::{FileKind, FilesConfig},
    manager::RoundSource,
    metrics,
    origin::{Change, FileOrigin},
    watch::{Changes, Watch},
};
use narthex_model::{
    LabelHash,
    storage::{Budget, Sink, StorageError},
};
use narthex_net::glob::glob_noting;
use std::{
    collections::{BTreeMap, HashSet},
    path::Path,
    thread,
    time::Duration,
};

/// Time given to a writer that was found writing, once a round.
const WRITING: Duration = Duration::from_millis(20);

/// The files of one entry.
pub struct FileSource {
    config: FilesConfig,
    budget: Budget,
    files: BTreeMap<String, FileOrigin>,
    /// Series that some file shows.
    owned: HashSet<LabelHash>,
    duplicates: usize,
    /// Patterns that were reported as invalid.
    is_reported: bool,
    watch: Watch,
    /// Files whose changes nobody tells.
    untold: HashSet<String>,
}

impl FileSource {
    /// Returns a source that has not looked at anything yet; what it keeps is leased from `budget`.
    #[must_use]
    pub fn new(config: FilesConfig, budget: Budget) -> Self {
        let interval = match config.kind {
            FileKind::Metrics | FileKind::Textfile => Some(config.interval),
            // The client writes through memory, which the kernel does not tell of.
            FileKind::PythonMultiprocess => None,
        };
        Self {
            watch: Watch::new(interval),
            untold: HashSet::new(),
            config,
            budget,
            files: BTreeMap::new(),
            owned: HashSet::new(),
            duplicates: 0,
            is_reported: false,
        }
    }

    /// Finds the entry's files; returns those that are gone.
    fn list(&mut self, now_ms: i64) -> Vec<FileOrigin> {
        let mut found: BTreeMap<String, FileOrigin> = BTreeMap::new();
        self.watch.begin(now_ms);
        for pattern in &self.config.paths {
            let listed = glob_noting(pattern, &mut |directory| self.watch.add(directory));
            let paths = listed.unwrap_or_else(|reason| {
                if !self.is_reported {
                    tracing::warn!(pattern, reason, "A pattern of files is invalid.");
                    self.is_reported = true;
                }
                Vec::new()
            });
            for path in paths {
                if found.contains_key(&path) || !is_meant(&path, self.config.kind) {
                    continue;
                }
                let known = self.files.remove(&path);
                let origin = known.or_else(|| {
                    let labels = self.config.labels_of(&path)?;
                    Some(FileOrigin::new(&path, labels, &self.config, &self.budget))
                });
                if let Some(origin) = origin {
                    found.insert(path, origin);
                }
            }
        }
        self.watch.end();
        let gone = std::mem::replace(&mut self.files, found);
        self.untold.retain(|path| self.files.contains_key(path));
        gone.into_values().collect()
    }

    /// Looks at the files that may have changed; returns those whose content is new, and whether series came or went.
    fn look(&mut self, now_ms: i64, changes: &Changes) -> (HashSet<String>, bool) {
        let (mut fresh, mut moved) = (HashSet::new(), false);
        let mut unfinished: Vec<String> = Vec::new();
        let mut note = |path: &String, change: Change| {
            moved |= change == Change::Series;
            if matches!(change, Change::Values | Change::Series) {
                fresh.insert(path.clone());
            }
        };
        for (path, file) in &mut self.files {
            let may_differ = changes.concern(path) || self.untold.contains(path);
            if changes.concern(path) {
                // Before the look: what follows it is told then.
                match self.watch.is_blind_to(path) {
                    true => self.untold.insert(path.clone()),
                    false => self.untold.remove(path),
                };
            }
            match file.look(&self.config, now_ms, may_differ) {
                Change::Unfinished => unfinished.push(path.clone()),
                change => note(path, change),
            }
        }
        if !unfinished.is_empty() {
            thread::sleep(WRITING);
        }
        for path in &unfinished {
            if let Some(file) = self.files.get_mut(path) {
                let change = match file.look(&self.config, now_ms, true) {
                    Change::Unfinished => file.still_unfinished(),
                    change => change,
                };
                note(path, change);
            }
        }
        (fresh, moved)
    }
}

/// Reports whether a path is what an entry of this kind reads.
fn is_meant(path: &str, kind: FileKind) -> bool {
    let path = Path::new(path);
    match kind {
        FileKind::PythonMultiprocess => path.is_dir(),
        // Opening a named pipe would wait for its writer.
        FileKind::Metrics | FileKind::Textfile => path.is_file(),
    }
}

impl RoundSource for FileSource {
    fn round(&mut self, now_ms: i64, sink: &dyn Sink) -> Result<(), StorageError> {
        let changes = self
            .watch
            .changes(now_ms, |path| self.files.contains_key(path));
        let mut gone = match changes {
            Changes::Anything => self.list(now_ms),
            Changes::Only(_) => Vec::new(),
        };
        let (fresh, moved) = self.look(now_ms, &changes);
        if moved || !gone.is_empty() {
            self.owned.clear();
            let files = self.files.values_mut();
            self.duplicates = files.map(|file| file.claim(&mut self.owned)).sum();
        }
        let job = [self.config.job_name.as_str()];
        metrics::FILES.with(&job).set(self.files.len() as f64);
        metrics::DUPLICATES.with(&job).set(self.duplicates as f64);
        // A file's failure to be stored must not keep the others from being stored.
        let mut outcome = Ok(());
        for file in &mut gone {
            outcome = outcome.and(file.end(now_ms, &self.owned, sink));
        }
        for (path, file) in &mut self.files {
            let is_fresh = fresh.contains(path);
            outcome = outcome.and(file.append(now_ms, &self.owned, is_fresh, sink));
        }
        outcome
    }

    fn end(&mut self, now_ms: i64, sink: &dyn Sink) -> Result<(), StorageError> {
        let nobody = HashSet::new();
        let mut outcome = Ok(());
        for file in self.files.values_mut() {
            outcome = outcome.and(file.end(now_ms, &nobody, sink));
        }
        let job = [self.config.job_name.as_str()];
        metrics::FILES.with(&job).set(0.0);
        metrics::DUPLICATES.with(&job).set(0.0);
        outcome
    }
}
