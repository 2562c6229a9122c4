//! Metrics from `*.prom` files that other programs write.
//!
//! Invariant: a bad file loses its own series and sets `node_textfile_scrape_error`; it never affects another file. An
//! unchanged file is not read again.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use narthex_expfmt::{Format, KeepLabels, ParseOptions, Parser};
use narthex_model::{ColumnId, Family, LabelSet};
use narthex_net::glob::glob;

use crate::collector::{Collector, Ctx};
use crate::config::HostConfig;
use crate::cost;
use crate::error::HostError;

use crate::open_file::{End, OpenFile, ReadBuf};
use crate::ordered_cache::OrderedCache;
use crate::sink::{Desc, Sink, Slot};
use crate::sysdir;

const MTIME: Desc<'static> = Desc::gauge(
    "node_textfile_mtime_seconds",
    "Unixtime mtime of textfiles successfully read.",
);
const ERROR: Desc<'static> = Desc::gauge(
    "node_textfile_scrape_error",
    "1 if there was an error opening or reading a file, 0 otherwise",
);

pub(crate) struct Textfile {
    directories: Vec<String>,
    files: OrderedCache<PathBuf, PromFile>,
    helps: Helps,
    error: Option<Slot>,
}

/// A file and its contents when last read.
struct PromFile {
    parser: Parser,
    stamp: Option<Stamp>,
    is_good: bool,
    mtime: Slot,
    values: Vec<(ColumnId, f64)>,
    /// Series by the parser's columns, like `values`.
    slots: Vec<Option<Slot>>,
}

/// Attributes that show whether a file was written or replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: (u64, u64),
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    /// Whether it was old enough when read that any later write changes its times.
    has_settled: bool,
}

impl Textfile {
    pub(crate) fn new(config: &HostConfig) -> Self {
        let given = |directory: &&String| !directory.is_empty();
        let directories = config.textfile_directories.iter().filter(given);
        Self {
            directories: directories.cloned().collect(),
            files: OrderedCache::new(),
            helps: Helps::default(),
            error: None,
        }
    }

    /// Updates the files to the directories' contents; reports whether a directory can't be read, and whether files
    /// were added or removed.
    fn list(&mut self, out: &mut Sink) -> (bool, bool) {
        let (mut failed, mut changed) = (false, false);
        self.files.begin();
        for pattern in &self.directories {
            let found = glob(pattern).unwrap_or_default();
            let mut directories: Vec<_> = found.into_iter().map(PathBuf::from).collect();
            if directories.is_empty() {
                directories.push(pattern.into());
            }
            for directory in directories {
                let Ok(names) = sysdir::list(&directory) else {
                    failed = true;
                    continue;
                };
                for name in names.iter().filter(|name| name.ends_with(".prom")) {
                    let path = directory.join(name);
                    if self.files.find(|known, _| *known == path).is_none() {
                        let file = PromFile::new(&path, out);
                        self.files.insert(path, file);
                        changed = true;
                    }
                }
            }
        }
        self.files.sweep(|_, file| {
            file.retire(out);
            changed = true;
        });
        (failed, changed)
    }
}

impl Collector for Textfile {
    fn may_hang(&self) -> bool {
        !self.directories.is_empty()
    }

    fn collect(&mut self, ctx: &mut Ctx<'_>, out: &mut Sink) -> Result<(), HostError> {
        let (mut failed, mut changed) = self.list(out);
        for (path, file) in self.files.values_mut() {
            changed |= file.read(path, ctx.buf);
            failed |= !file.is_good;
        }
        if changed {
            self.helps = Helps::collect(&mut self.files);
            for (_, file) in self.files.values_mut() {
                file.bind(&self.helps, out);
            }
        }
        failed |= self.helps.contradict;
        for (_, file) in self.files.values_mut() {
            file.set(out);
        }
        let error = *self.error.get_or_insert_with(|| out.add(&ERROR, &[]));
        out.set(error, f64::from(u8::from(failed)));
        Ok(())
    }
}

/// The help from each family's first file.
#[derive(Default)]
struct Helps {
    by_family: HashMap<String, String>,
    contradict: bool,
}

impl Helps {
    fn collect(files: &mut OrderedCache<PathBuf, PromFile>) -> Self {
        let mut helps = Self::default();
        let mut without: HashMap<String, Vec<String>> = HashMap::new();
        for (path, file) in files.values_mut().filter(|(_, file)| file.is_good) {
            for family in file.families() {
                let path = path.display().to_string();
                without
                    .entry(family.name.to_string())
                    .or_default()
                    .push(path);
                if family.help.is_empty() {
                    continue;
                }
                let known = helps.by_family.entry(family.name.to_string());
                let known = known.or_insert_with(|| family.help.to_string());
                helps.contradict |= *known != *family.help;
            }
        }
        for (family, paths) in without {
            let text = || format!("Metric read from {}", paths.join(", "));
            helps.by_family.entry(family).or_insert_with(text);
        }
        helps
    }
}

impl PromFile {
    fn new(path: &Path, out: &mut Sink) -> Self {
        let parser = Parser::new(LabelSet::empty(), ParseOptions::default());
        Self {
            parser,
            stamp: None,
            is_good: false,
            mtime: out.add(&MTIME, &[("file", &path.to_string_lossy())]),
            values: Vec::new(),
            slots: Vec::new(),
        }
    }

    /// Reads the file, unless it is unchanged; reports whether it was read.
    fn read(&mut self, path: &Path, buf: &mut ReadBuf) -> bool {
        let stamp = Stamp::read(path).ok();
        if stamp.is_some() && stamp == self.stamp && stamp.is_some_and(|stamp| stamp.has_settled) {
            return false;
        }
        self.stamp = stamp;
        self.is_good = false;
        self.values.clear();
        let mut file = OpenFile::new(path.to_path_buf());
        let Ok(text) = file.read(buf, End::Empty) else {
            return true;
        };
        let parsed = self.parser.parse(Format::Text, text, 0, &mut KeepLabels);
        let Ok(round) = parsed else { return true };
        // Samples with timestamps would be taken for new ones.
        if round.frame.times_ms().is_empty() && round.more.is_empty() {
            self.is_good = stamp.is_some();
            let values = round.frame.values();
            let present = round.frame.present().iter();
            self.values.extend(present.filter_map(|at| {
                let column = ColumnId(u32::try_from(at).ok()?);
                Some((column, *values.get(at)?))
            }));
        }
        true
    }

    /// Returns the families that have values, without duplicates.
    fn families(&self) -> Vec<Family> {
        let schema = self.parser.schema();
        let mut families: Vec<Family> = Vec::new();
        for (column, _) in &self.values {
            let family = schema.family(*column);
            if families.iter().all(|other| other.name != family.name) {
                families.push(family.clone());
            }
        }
        families
    }

    /// Assigns a series to every value, except in families whose help contradicts an earlier file's.
    fn bind(&mut self, helps: &Helps, out: &mut Sink) {
        let schema = self.parser.schema().clone();
        let mut slots = vec![None; schema.len()];
        for (column, _) in &self.values {
            let family = schema.family(*column);
            let help = helps.by_family.get(&*family.name);
            let help = help.filter(|help| family.help.is_empty() || **help == *family.help);
            if let (Some(help), Some(slot)) = (help, slots.get_mut(column.index())) {
                let desc = Desc {
                    name: &family.name,
                    kind: family.metric_type,
                    help,
                };
                *slot = Some(out.add_set(&desc, &schema.labels(*column)));
            }
        }
        // Only now: unchanged series were just added again.
        let old = std::mem::replace(&mut self.slots, slots);
        old.into_iter().flatten().for_each(|slot| out.retire(slot));
    }

    fn set(&self, out: &mut Sink) {
        let (true, Some(stamp)) = (self.is_good, self.stamp) else {
            return;
        };
        out.set(self.mtime, stamp.modified.0 as f64);
        for (column, value) in &self.values {
            if let Some(Some(slot)) = self.slots.get(column.index()) {
                out.set(*slot, *value);
            }
        }
    }

    fn retire(self, out: &mut Sink) {
        out.retire(self.mtime);
        let slots = self.slots.into_iter().flatten();
        slots.for_each(|slot| out.retire(slot));
    }
}

impl Stamp {
    fn read(path: &Path) -> std::io::Result<Self> {
        /// Longer than file systems' timestamp resolution.
        const SETTLED: Duration = Duration::from_secs(2);
        cost::count(0);
        let found = std::fs::metadata(path)?;
        let age = SystemTime::now().duration_since(found.modified()?);
        Ok(Self {
            inode: (found.dev(), found.ino()),
            bytes: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
            has_settled: age.is_ok_and(|age| age >= SETTLED),
        })
    }
}
