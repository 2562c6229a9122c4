//! Log files of failed scrapes: one JSON object per line, in Prometheus' format.
//!
//! **Invariant:** each line is written whole in one write; a failed write loses its line, never a scrape.

use crate::error::ScrapeError;
use narthex_model::date::rfc3339;
use narthex_model::sync::Whole as _;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

/// One log file, which can be reopened by name.
#[derive(Debug)]
pub(crate) struct FailureLog {
    path: PathBuf,
    file: Mutex<File>,
    /// Whether the last write failed: only changes are logged, not every line.
    fails: AtomicBool,
}

impl FailureLog {
    /// Appends a failed scrape.
    pub(crate) fn write(&self, time_ms: i64, job: &str, target: &str, error: &str) {
        let source = concat!("failure_log.rs:", line!());
        let line = format!(
            "{{\"time\":\"{}\",\"level\":\"ERROR\",\"source\":\"{source}\",\"msg\":{},\"job_name\":{},\"target\":{}}}\n",
            rfc3339(time_ms),
            Value::from(error),
            Value::from(job),
            Value::from(target),
        );
        let mut file = self.file.lock().whole();
        let written = file.write_all(line.as_bytes());
        drop(file);
        match written {
            Ok(()) => self.fails.store(false, Ordering::Relaxed),
            Err(error) => {
                if !self.fails.swap(true, Ordering::Relaxed) {
                    let file = self.path.display().to_string();
                    tracing::error!(file, %error, "Failed scrapes cannot be written to their file.");
                }
            }
        }
    }
}

/// The open log files.
#[derive(Debug, Default)]
pub(crate) struct FailureLogs(Mutex<BTreeMap<PathBuf, Arc<FailureLog>>>);

impl FailureLogs {
    /// Opens these files, reopening by name those already open, and drops all others.
    ///
    /// # Errors
    /// Fails, changing nothing, if a file cannot be opened.
    pub(crate) fn open(&self, paths: &BTreeSet<PathBuf>) -> Result<(), ScrapeError> {
        let opened: Vec<(PathBuf, File)> = paths
            .iter()
            .map(|path| Ok((path.clone(), append_to(path)?)))
            .collect::<Result<_, ScrapeError>>()?;
        let mut logs = self.0.lock().whole();
        logs.retain(|path, _| paths.contains(path));
        for (path, file) in opened {
            match logs.get(&path) {
                Some(log) => *log.file.lock().whole() = file,
                None => {
                    let log = FailureLog {
                        path: path.clone(),
                        file: Mutex::new(file),
                        fails: AtomicBool::new(false),
                    };
                    logs.insert(path, Arc::new(log));
                }
            }
        }
        Ok(())
    }

    /// Returns the log at `path` if it is open.
    pub(crate) fn get(&self, path: &Path) -> Option<Arc<FailureLog>> {
        let logs = self.0.lock().whole();
        logs.get(path).cloned()
    }
}

fn append_to(path: &Path) -> Result<File, ScrapeError> {
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map_err(|source| ScrapeError::FailureLog {
        path: path.to_owned(),
        source,
    })
}
