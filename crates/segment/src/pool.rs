//! All segments of a directory, read once per round.
//!
//! **Invariant:** a segment is removed only after a file with its counts took its name in the directory. Whether it is
//! contained is decided by its identity, so neither a reader that ends at any point nor one that cannot remove files
//! counts it twice.

use crate::{
    SegmentError, cells,
    family::Family,
    file::{OPEN_FLAGS, SegmentFile},
    layout::{CLOSED, Role},
    owner::Machine,
    quota::Quota,
    retired,
    totals::Totals,
};
use narthex_client::{Counter, Gauge, Registry};
use narthex_model::{Frame, LabelSet};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fs::{self, File},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

static SEGMENTS: Gauge = Gauge::new("narthex_segments", "Segments of live writers.");
static PROBLEMS: Gauge = Gauge::new(
    "narthex_segments_unread",
    "Segments and parts of segments that were not read in the last round.",
);
static REFUSED: Gauge = Gauge::new(
    "narthex_segments_refused_series",
    "Series that live writers had no room for.",
);
static OVER_LIMIT: Gauge = Gauge::new(
    "narthex_segments_users_over_limit",
    "Users whose segments were not all read in the last round, because of the limit of one user.",
);
static FOLDED: Counter = Counter::new(
    "narthex_segments_retired_total",
    "Segments of ended writers whose counts were taken over.",
);

/// Registers the metrics about reading segments.
///
/// # Errors
/// Fails when a name is taken.
pub fn register_metrics(registry: &Registry) -> Result<(), narthex_client::Error> {
    registry.register_all(&[&SEGMENTS, &PROBLEMS, &REFUSED, &OVER_LIMIT, &FOLDED])
}

/// Ending of the names of segments.
pub(crate) const SUFFIX: &str = ".segment";
/// Ending of the names of segments that their writers have not finished creating.
const UNFINISHED: &str = ".segment.new";
/// Age at which the remains of a writer that ended while creating a segment are removed.
const UNFINISHED_AGE: Duration = Duration::from_secs(60);
/// How long the counts of an application without a live writer are kept.
const APP_AGE_MS: i64 = 600_000;
/// Maximum number of segments of a directory.
const SEGMENTS_MAX: usize = 16_384;
/// Maximum bytes in use of all segments, unless the options say otherwise.
const BYTES_MAX: u64 = 1 << 28;

/// What to read, and how.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PoolOptions {
    /// The directory of the segments.
    pub dir: PathBuf,
    /// Labels that every series gets.
    pub common: LabelSet,
    /// Whether each worker's series keep a label of their own, instead of being added up.
    pub by_worker: bool,
    /// Whether to leave the directory as it is: ended writers count as live ones.
    pub read_only: bool,
    /// Most bytes in use of all segments together; 256 MiB by default. Those beyond are not read.
    pub max_bytes: u64,
    /// Most bytes in use of the segments of one user, if there is such a limit. Those beyond are not read.
    pub max_bytes_per_user: Option<u64>,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            dir: PathBuf::new(),
            common: LabelSet::default(),
            by_worker: false,
            read_only: false,
            max_bytes: BYTES_MAX,
            max_bytes_per_user: None,
        }
    }
}

/// A segment, or a part of one, that was not read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

/// A directory of segments.
#[derive(Debug)]
pub struct Pool {
    options: PoolOptions,
    machine: Machine,
    /// Held as long as this pool reads the directory.
    lock: Option<File>,
    members: BTreeMap<PathBuf, Member>,
    apps: HashMap<Arc<str>, App>,
    /// Identities of contained segments that may still exist.
    contained: HashSet<u64>,
    totals: Totals,
    problems: Vec<Problem>,
}

#[derive(Debug)]
struct App {
    live_ms: i64,
    /// Whether the file of retired counts lacks some.
    is_dirty: bool,
}

/// A segment of the directory.
#[derive(Debug)]
struct Member {
    file: SegmentFile,
    /// Who owns the file.
    uid: u32,
    app: Arc<str>,
    /// The metrics of its records; `None` for one that was refused.
    metrics: Vec<Option<Arc<Family>>>,
    /// Its series, and how many of the records' they are.
    bindings: Vec<Binding>,
    bound: usize,
    /// How many of the records' ended series were detached.
    dropped: usize,
    /// The values of all cells that are used in sums.
    accepted: Vec<u64>,
    /// Why a part of it is not read, for good.
    refused: Option<String>,
    is_contained: bool,
}

#[derive(Debug)]
struct Binding {
    total: usize,
    series: usize,
    metric: usize,
    first_cell: usize,
}

impl Pool {
    /// Creates a pool; the directory is first looked at in the first round.
    #[must_use]
    pub fn new(options: PoolOptions) -> Self {
        Self {
            totals: Totals::new(options.common.clone(), options.by_worker),
            options,
            machine: Machine::read(),
            lock: None,
            members: BTreeMap::new(),
            apps: HashMap::new(),
            contained: HashSet::new(),
            problems: Vec::new(),
        }
    }

    /// Reads every segment once and returns the round.
    ///
    /// # Errors
    /// Fails when the directory cannot be read, or another process reads it.
    pub fn collect(&mut self, now_ms: i64) -> Result<&Frame, SegmentError> {
        self.problems.clear();
        if !self.options.read_only && self.lock.is_none() {
            self.begin(now_ms)?;
        }
        let found = self.look()?;
        self.open(&found, now_ms);
        let dead = self.read();
        self.bind(now_ms);
        let apps = &self.apps;
        self.totals.begin(|app| !apps.contains_key(app));
        self.add(&dead);
        if !self.options.read_only {
            self.retire(&dead);
            self.settle(now_ms);
        }
        SEGMENTS.set(self.members.values().filter(|m| !m.is_contained).count() as f64);
        PROBLEMS.set(self.problems.len() as f64);
        let refused = self
            .members
            .values()
            .map(|member| member.file.marks.refused);
        REFUSED.set(refused.map(|count| count as f64).sum());
        Ok(self.totals.finish(now_ms))
    }

    /// Returns the last round.
    #[must_use]
    pub fn frame(&self) -> &Frame {
        self.totals.frame()
    }

    /// Returns what was not read in the last round.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Locks the directory and reads the counts of ended writers.
    fn begin(&mut self, now_ms: i64) -> Result<(), SegmentError> {
        fs::create_dir_all(&self.options.dir)?;
        let path = self.options.dir.join("reader.lock");
        let mut options = File::options();
        let options = options.create(true).append(true);
        let lock = options.custom_flags(OPEN_FLAGS).open(path)?;
        if lock.try_lock().is_err() {
            return Err(SegmentError::InUse);
        }
        for path in paths(&self.options.dir, retired::SUFFIX)? {
            let by_worker = self.options.by_worker;
            match retired::read(&path, by_worker, &mut self.totals, now_ms) {
                Ok((app, folded)) => {
                    self.contained.extend(folded);
                    let live = App {
                        live_ms: now_ms,
                        is_dirty: false,
                    };
                    self.apps.insert(app, live);
                }
                Err(error) => self.tell(&path, &error),
            }
        }
        self.lock = Some(lock);
        Ok(())
    }

    fn tell(&mut self, path: &Path, reason: &dyn ToString) {
        self.problems.push(Problem {
            path: path.to_owned(),
            reason: reason.to_string(),
        });
    }

    /// Returns the segments of the directory, without what writers left unfinished.
    fn look(&mut self) -> Result<BTreeSet<PathBuf>, SegmentError> {
        if !self.options.read_only {
            for path in paths(&self.options.dir, UNFINISHED)? {
                let modified = fs::metadata(&path).and_then(|metadata| metadata.modified());
                let age = modified
                    .ok()
                    .and_then(|at| SystemTime::now().duration_since(at).ok());
                if age.is_some_and(|age| age > UNFINISHED_AGE) {
                    // Another attempt follows in the next round.
                    let _ = fs::remove_file(&path);
                }
            }
        }
        let found = paths(&self.options.dir, SUFFIX)?;
        if found.len() > SEGMENTS_MAX {
            let (what, limit) = ("segments", SEGMENTS_MAX);
            let error = SegmentError::TooMany { what, limit };
            self.tell(&self.options.dir.clone(), &error);
        }
        Ok(found.into_iter().take(SEGMENTS_MAX).collect())
    }

    /// Opens segments that appeared.
    fn open(&mut self, found: &BTreeSet<PathBuf>, now_ms: i64) {
        let mut quota = Quota::new(&self.options);
        for member in self.members.values().filter(|member| !member.is_contained) {
            quota.charge(member.uid, member.file.bytes());
        }
        for path in found {
            if self.members.contains_key(path) {
                continue;
            }
            match self.member(path, &quota) {
                Ok(member) => {
                    quota.charge(member.uid, member.file.bytes());
                    let app = App {
                        live_ms: now_ms,
                        is_dirty: member.is_contained,
                    };
                    self.apps.entry(Arc::clone(&member.app)).or_insert(app);
                    self.members.insert(path.clone(), member);
                }
                Err(SegmentError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => self.tell(path, &error),
            }
        }
    }

    fn member(&self, path: &Path, quota: &Quota) -> Result<Member, SegmentError> {
        // What is wrong behind the header is told by the round that follows.
        let (file, _) = SegmentFile::open_within(path, |uid| quota.left(uid))?;
        let id = file.header.id;
        if file.header.role != Role::Writer {
            let reason = "not a writer's";
            return Err(SegmentError::Header { reason });
        }
        if self
            .members
            .values()
            .any(|member| member.file.header.id == id)
        {
            return Err(SegmentError::Duplicate);
        }
        Ok(Member {
            app: file.header.app.as_str().into(),
            metrics: Vec::new(),
            bindings: Vec::new(),
            bound: 0,
            dropped: 0,
            accepted: Vec::new(),
            refused: None,
            is_contained: self.contained.contains(&id),
            uid: file.input().metadata()?.uid(),
            file,
        })
    }

    /// Copies every segment; returns those whose writers have ended, judged before the copy.
    fn read(&mut self) -> HashSet<PathBuf> {
        let mut dead = HashSet::new();
        let mut errors = Vec::new();
        let mut quota = Quota::new(&self.options);
        for (path, member) in &mut self.members {
            if member.is_contained {
                continue;
            }
            let file = &mut member.file;
            let mut is_dead = self
                .machine
                .is_dead(&file.header, &file.marks, file.input());
            match file.read_within(quota.left(member.uid)) {
                // The mark is set after the last number, and copied before it.
                Ok(()) => is_dead |= file.marks.state == CLOSED,
                Err(error) => {
                    let waits = matches!(error, SegmentError::TooMany { .. });
                    errors.push((path.clone(), quota.explain(member.uid, error)));
                    if waits {
                        // It is kept until others leave it room.
                        continue;
                    }
                }
            }
            quota.charge(member.uid, file.bytes());
            member.accept();
            if is_dead {
                dead.insert(path.clone());
            }
        }
        OVER_LIMIT.set(quota.exceeded() as f64);
        for (path, error) in errors {
            self.tell(&path, &error);
        }
        dead
    }

    /// Finds the series that records added.
    fn bind(&mut self, now_ms: i64) {
        for (path, member) in &mut self.members {
            if member.is_contained {
                continue;
            }
            member.bind(&mut self.totals, now_ms);
            if member.drop_series(&mut self.totals)
                && let Some(app) = self.apps.get_mut(&member.app)
            {
                app.is_dirty = true;
            }
            if let Some(reason) = &member.refused {
                self.problems.push(Problem {
                    path: path.clone(),
                    reason: reason.clone(),
                });
            }
        }
    }

    /// Adds everything up; gauges of ended writers are left out.
    fn add(&mut self, dead: &HashSet<PathBuf>) {
        for (path, member) in &self.members {
            if member.is_contained {
                continue;
            }
            let is_dead = dead.contains(path) && !self.options.read_only;
            for binding in &member.bindings {
                let Some((family, cells)) = member.cells(binding) else {
                    continue;
                };
                let metric = member.file.records.metrics.get(binding.metric);
                let switch = metric.map_or(0, |metric| metric.switch as usize);
                let has_ended = is_dead && family.shape.is_gauge();
                if !has_ended && !cells::is_removed(&family.shape, cells) {
                    let is_on = member.file.cell(switch) == 0;
                    self.totals.add(binding.total, cells, is_on);
                }
            }
        }
    }

    /// Moves the counts of ended writers to the retired ones.
    fn retire(&mut self, dead: &HashSet<PathBuf>) {
        for path in dead {
            let Some(member) = self.members.get_mut(path) else {
                continue;
            };
            for binding in &member.bindings {
                if let Some((_, cells)) = member.cells(binding) {
                    self.totals.retire(binding.total, cells);
                }
            }
            member.bindings.clear();
            member.is_contained = true;
            self.contained.insert(member.file.header.id);
            FOLDED.inc();
            if let Some(app) = self.apps.get_mut(&member.app) {
                app.is_dirty = true;
            }
        }
    }

    /// Writes retired counts that changed, and removes what they contain.
    fn settle(&mut self, now_ms: i64) {
        for member in self.members.values().filter(|member| !member.is_contained) {
            if let Some(app) = self.apps.get_mut(&member.app) {
                app.live_ms = now_ms;
            }
        }
        let mut errors = Vec::new();
        for (name, app) in &mut self.apps {
            if !app.is_dirty {
                continue;
            }
            let contained = self.members.values().filter(|member| member.is_contained);
            let ids: Vec<u64> = contained
                .filter(|member| member.app == *name)
                .map(|member| member.file.header.id)
                .collect();
            let (dir, by_worker) = (&self.options.dir, self.options.by_worker);
            match retired::write(dir, name, by_worker, &self.totals, &ids, now_ms) {
                Ok(()) => app.is_dirty = false,
                Err(error) => errors.push((retired::path_of(dir, name), error.to_string())),
            }
        }
        let apps = &self.apps;
        let contained = &mut self.contained;
        self.members.retain(|path, member| {
            let is_kept = apps.get(&member.app).is_some_and(|app| app.is_dirty);
            if !member.is_contained || is_kept {
                return true;
            }
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    errors.push((path.clone(), error.to_string()));
                    true
                }
                _ => {
                    contained.remove(&member.file.header.id);
                    false
                }
            }
        });
        for (path, error) in errors {
            self.tell(&path, &error);
        }
        self.forget_apps(now_ms);
    }

    /// Forgets applications that have had no writer for a long time.
    fn forget_apps(&mut self, now_ms: i64) {
        let (members, dir) = (&self.members, &self.options.dir);
        self.apps.retain(|name, app| {
            let is_used = members.values().any(|member| member.app == *name);
            if is_used || (0..APP_AGE_MS).contains(&(now_ms - app.live_ms)) {
                return true;
            }
            match fs::remove_file(retired::path_of(dir, name)) {
                Err(error) => error.kind() != io::ErrorKind::NotFound,
                Ok(()) => false,
            }
        });
    }
}

impl Member {
    fn accept(&mut self) {
        self.accepted.resize(self.file.cells(), 0);
        let records = &self.file.records;
        for series in &records.series {
            let Some(metric) = records.metrics.get(series.metric) else {
                continue;
            };
            let family = &metric.family;
            let first = series.first_cell as usize;
            if let Some(accepted) = self.accepted.get_mut(first..first + family.cells()) {
                let current = (first..).map(|at| self.file.cell(at));
                cells::accept(&family.shape, accepted, current);
            }
        }
    }

    fn bind(&mut self, totals: &mut Totals, now_ms: i64) {
        let records = &self.file.records;
        for metric in records.metrics.iter().skip(self.metrics.len()) {
            let admitted = totals.admit(&self.app, &metric.family);
            self.refused = self
                .refused
                .take()
                .or(admitted.as_ref().err().map(ToString::to_string));
            self.metrics.push(admitted.ok());
        }
        for (at, series) in records.series.iter().enumerate().skip(self.bound) {
            self.bound += 1;
            let Some(Some(family)) = self.metrics.get(series.metric) else {
                continue;
            };
            let worker = Some(self.file.header.worker.as_str());
            match totals.attach(&self.app, worker, family, &series.labels, now_ms) {
                Ok(total) => self.bindings.push(Binding {
                    total,
                    series: at,
                    metric: series.metric,
                    first_cell: series.first_cell as usize,
                }),
                Err(error) => self.refused = Some(error.to_string()),
            }
        }
    }

    /// Detaches series that records ended; reports whether there were any.
    fn drop_series(&mut self, totals: &mut Totals) -> bool {
        let ended = self.file.records.dropped.get(self.dropped..);
        let ended: HashSet<usize> = ended.unwrap_or_default().iter().copied().collect();
        self.dropped = self.file.records.dropped.len();
        let before = self.bindings.len();
        if !ended.is_empty() {
            self.bindings.retain(|binding| {
                let stays = !ended.contains(&binding.series);
                if !stays {
                    totals.drop_series(binding.total);
                }
                stays
            });
        }
        self.bindings.len() < before
    }

    fn cells(&self, binding: &Binding) -> Option<(&Family, &[u64])> {
        let family = self.metrics.get(binding.metric)?.as_ref()?;
        let end = binding.first_cell + family.cells();
        Some((family, self.accepted.get(binding.first_cell..end)?))
    }
}

/// Returns the paths in a directory whose names end like this.
pub(crate) fn paths(dir: &Path, suffix: &str) -> Result<Vec<PathBuf>, SegmentError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry
            .file_name()
            .as_encoded_bytes()
            .ends_with(suffix.as_bytes())
        {
            found.push(entry.path());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod published;
#[cfg(test)]
mod tests;
