//! Directories of the Python client's multiprocess mode: the values of all processes become one page.
//!
//! Values of processes that ended are added up once and kept; only files of running processes are read in every round.
//!
//! **Invariant:** a file that is damaged or disappears costs the values behind the damage, never the page. A process
//! that ended loses its `live` gauges and nothing else, as long as its files are there.

mod db;
mod process;
mod sums;

use crate::{
    config::FilesConfig,
    look::{Look, Room},
    metrics,
    stamp::FileStamp,
};
use std::{
    collections::{BTreeMap, HashSet},
    fs, io,
    path::Path,
};
use sums::{KeyCache, Sums};

pub(crate) use db::entries;

/// Reads one directory.
#[derive(Debug, Default)]
pub(crate) struct PythonReader {
    keys: KeyCache,
    /// Values of files whose process ended, and which files those are.
    ended: Sums,
    ended_files: BTreeMap<String, FileStamp>,
    /// Last values of files whose process runs.
    running: BTreeMap<String, Vec<f64>>,
}

/// What a file's name says.
#[derive(Debug)]
pub(crate) struct DbName<'a> {
    pub(crate) kind: sums::FamilyKind,
    pub(crate) pid: &'a str,
}

impl<'a> DbName<'a> {
    /// Parses `counter_7.db`, `gauge_liveall_7.db`; `None` for other files.
    pub(crate) fn parse(name: &'a str) -> Option<Self> {
        let (kind, pid) = name.strip_suffix(".db")?.rsplit_once('_')?;
        let kind = sums::FamilyKind::from_name(kind)?;
        // A number, unless the application names its processes otherwise.
        let is_name = !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_graphic());
        is_name.then_some(Self { kind, pid })
    }
}

impl PythonReader {
    pub(crate) fn look(&mut self, directory: &Path, config: &FilesConfig, room: Room<'_>) -> Look {
        match self.read(directory, config) {
            Ok((text, modified_ms)) => match room(text.len() as u64) {
                Ok(()) => Look::Page { text, modified_ms },
                Err(reason) => Look::Failed(reason),
            },
            Err(error) => Look::Failed(error.to_string()),
        }
    }

    /// Returns the page, and when the newest file was modified.
    fn read(&mut self, directory: &Path, config: &FilesConfig) -> io::Result<(Vec<u8>, i64)> {
        let mut names: Vec<String> = Vec::new();
        for entry in fs::read_dir(directory)? {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort_unstable();
        let mut modified_ms = 0;
        let (mut ended, mut running) = (Vec::new(), Vec::new());
        for name in &names {
            let path = directory.join(name);
            let (Some(db), Ok(stamp)) = (DbName::parse(name), FileStamp::read(&path)) else {
                continue;
            };
            modified_ms = modified_ms.max(stamp.modified_ms());
            let has_ended =
                config.check_processes && process::has_ended(db.pid, stamp.modified_seconds());
            if has_ended {
                ended.push((name, db, stamp));
            } else {
                running.push((name, db));
            }
        }
        self.fold(directory, &ended, config);
        let mut sums = self.ended.clone();
        let names: HashSet<&String> = running.iter().map(|(name, _)| *name).collect();
        self.running.retain(|name, _| names.contains(name));
        for (name, db) in &running {
            let values = self.values(directory, name, db, config);
            for (key, value) in values {
                sums.add(db, &key, value);
            }
        }
        let mut page = Vec::new();
        sums.render(&mut page);
        Ok((page, modified_ms))
    }

    /// Adds the files of processes that ended since the last time; begins anew if one is gone or another.
    fn fold(
        &mut self,
        directory: &Path,
        ended: &[(&String, DbName<'_>, FileStamp)],
        config: &FilesConfig,
    ) {
        let is_there = |(name, stamp): (&String, &FileStamp)| {
            let mut files = ended.iter();
            files.any(|(other, _, now)| *other == name && stamp.is_like(now))
        };
        if !self.ended_files.iter().all(is_there) {
            self.ended = Sums::default();
            self.ended_files.clear();
        }
        for (name, db, stamp) in ended {
            if self.ended_files.contains_key(*name) {
                continue;
            }
            self.ended_files.insert((*name).clone(), *stamp);
            if db.kind.is_live() {
                continue;
            }
            let Ok(data) = db::read(&directory.join(name), config.file_size_limit) else {
                continue;
            };
            for (key, value) in self.parsed(&data).1 {
                self.ended.add(db, &key, value);
            }
        }
    }

    /// Returns the values of a running process' file.
    ///
    /// A value is written byte by byte and may read as 0 meanwhile: a sum that went down is read again.
    fn values(
        &mut self,
        directory: &Path,
        name: &str,
        db: &DbName<'_>,
        config: &FilesConfig,
    ) -> Vec<(sums::SharedKey, sums::Value)> {
        let path = directory.join(name);
        // A file that disappeared meanwhile has no values.
        let Ok(data) = db::read(&path, config.file_size_limit) else {
            return Vec::new();
        };
        let (mut numbers, mut values) = self.parsed(&data);
        let went_down = self.running.get(name).is_some_and(|before| {
            let pairs = before.iter().zip(&numbers);
            db.kind.only_grows() && pairs.into_iter().any(|(before, now)| now < before)
        });
        if went_down && let Ok(data) = db::read(&path, config.file_size_limit) {
            (numbers, values) = self.parsed(&data);
        }
        self.running.insert(name.to_owned(), numbers);
        values
    }

    /// Parses a file; returns all numbers as they stand, and those whose key can be read.
    fn parsed(&mut self, data: &[u8]) -> (Vec<f64>, Vec<(sums::SharedKey, sums::Value)>) {
        let (entries, is_whole) = entries(data);
        let mut is_readable = true;
        let (mut numbers, mut values) = (Vec::new(), Vec::new());
        for entry in entries {
            numbers.push(entry.value);
            match self.keys.get(entry.key) {
                Some(key) => {
                    let value = sums::Value {
                        value: entry.value,
                        timestamp: entry.timestamp,
                    };
                    values.push((key, value));
                }
                None => is_readable = false,
            }
        }
        if !is_whole || !is_readable {
            metrics::TORN.inc();
        }
        (numbers, values)
    }
}

/// Makes a page of a file's bytes, as if several processes had written them; for fuzzing: no input may panic.
pub(crate) fn fuzz_page(data: &[u8]) {
    let mut reader = PythonReader::default();
    let mut sums = Sums::default();
    for name in [
        "counter_1.db",
        "histogram_1.db",
        "gauge_all_1.db",
        "gauge_mostrecent_2.db",
    ] {
        let db = DbName::parse(name).expect("a file of values");
        for (key, value) in reader.parsed(data).1 {
            sums.add(&db, &key, value);
        }
    }
    sums.render(&mut Vec::new());
}
