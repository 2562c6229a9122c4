//! All groups: pushes, deletions, expiry, and their journal.
//!
//! **Invariant:** a push costs what it carries. It is appended to the journal before it becomes visible, and becomes
//! visible before it is acknowledged.

use crate::{
    aggregate::{self, GaugeMode},
    asked::Asked,
    decode::{self, Allowed, Memory, Target},
    error::PushError,
    family::{Family, Shape},
    forward::Forward,
    gob,
    group::{Group, Pushing},
    grouping::Grouping,
    journal::{Journal, damaged_path, with_ending},
    layout::{Contents, Layout, each_pair},
    metrics,
    record::{self, Groups, Restored},
    registry::{Change, Registry},
    state::{self, PushIds, Settings, State},
};
use narthex_expfmt::Format;
use narthex_model::{
    MetricType,
    storage::{Budget, Sink},
    sync::Whole as _,
};
use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    io,
    path::Path,
    sync::{
        Arc, RwLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

const SHARDS: usize = 16;

/// The wall clock, in nanoseconds since the Unix epoch.
pub type NowNs = Arc<dyn Fn() -> i64 + Send + Sync>;

/// Settings of a store.
#[derive(Clone, Debug, Default)]
pub struct StoreConfig {
    /// Whether pushes skip the comparison with other groups.
    pub is_unchecked: bool,
    /// Whether names may be any UTF-8.
    pub utf8_names: bool,
    /// Whether pushes keep timestamps, instead of being refused for them.
    pub keep_timestamps: bool,
    /// The gateway's own families.
    pub own: Vec<(String, MetricType)>,
    /// Lifetime of groups after their last push, by job, in milliseconds; the empty name holds the default.
    pub ttl_ms: HashMap<String, u64>,
    /// Longest expected time between pushes to a group, by job, in milliseconds; the empty name holds the default.
    pub interval_ms: HashMap<String, u64>,
    /// Jobs whose pushes are added up, and how their gauges are.
    pub aggregate: HashMap<String, GaugeMode>,
    /// Share of memory that groups are leased from; `None` for no bound.
    pub memory: Option<Budget>,
}

/// All groups of a gateway.
pub struct Store {
    config: StoreConfig,
    shards: [RwLock<HashMap<Grouping, Arc<Group>>>; SHARDS],
    hasher: RandomState,
    registry: Registry,
    memory: Memory,
    journal: Option<Journal>,
    next_id: AtomicU64,
    /// Number of groups that can expire.
    mortal: AtomicUsize,
    /// Where what is pushed is stored at once.
    sink: Option<Arc<dyn Sink>>,
    now_ns: NowNs,
}

/// One push.
#[derive(Clone, Copy, Debug)]
pub struct Push<'a> {
    /// Whether the group's other families are removed.
    pub replace: bool,
    /// Format of the body.
    pub format: Format,
    /// The body, decompressed.
    pub body: &'a [u8],
    /// What the sender asks for.
    pub asked: &'a Asked,
}

impl Store {
    /// Returns a store without a journal, whose groups are lost at its end.
    #[must_use]
    pub fn in_memory(config: StoreConfig, now_ns: NowNs) -> Self {
        Self {
            shards: std::array::from_fn(|_| RwLock::default()),
            hasher: RandomState::new(),
            registry: Registry::new(config.own.iter().cloned()),
            memory: Memory::default(),
            journal: None,
            next_id: AtomicU64::new(1),
            mortal: AtomicUsize::new(0),
            sink: None,
            config,
            now_ns,
        }
    }

    /// Makes the store hand every group to a sink: at once when it is pushed to, and again by [`Store::repeat`].
    #[must_use]
    pub fn with_sink(mut self, sink: Arc<dyn Sink>) -> Self {
        self.sink = Some(sink);
        self
    }

    /// Opens a store with a journal next to `persistence_file`; if there is no journal yet, that file of a Pushgateway
    /// is imported.
    ///
    /// # Errors
    /// Fails when either file cannot be used.
    pub fn open(config: StoreConfig, now_ns: NowNs, persistence_file: &Path) -> io::Result<Self> {
        let path = &*with_ending(persistence_file, ".journal");
        if !path.exists() {
            // Only the first start imports; from here on the journal counts.
            let staged = Self::in_memory(config.clone(), Arc::clone(&now_ns));
            staged.restore_all(gob::read_file(persistence_file)?.unwrap_or_default());
            let groups = staged.groups();
            let records = groups
                .iter()
                .map(|group| record::state(&group.grouping, &group.state(), &PushIds::new()));
            Journal::create(path, records)?;
        }
        let (journal, replay) = Journal::open(path)?;
        for (at, what) in &replay.faults {
            tracing::warn!(
                file = path.display().to_string(),
                offset = at,
                detail = what,
                kept_as = damaged_path(path).display().to_string(),
                "A part of the push journal cannot be used."
            );
        }
        tracing::info!(
            groups = replay.groups.len(),
            records = replay.records,
            "Pushed groups were restored."
        );
        let mut store = Self::in_memory(config, now_ns);
        store.journal = Some(journal);
        store.restore_all(replay.groups);
        if replay.is_old {
            store.rewrite()?;
        }
        Ok(store)
    }

    fn restore_all(&self, groups: Groups) {
        for (grouping, restored) in groups {
            self.restore(grouping, restored);
        }
    }

    fn restore(&self, grouping: Grouping, restored: Restored) {
        let group = self.group(&grouping);
        let mut families_ns = Vec::with_capacity(restored.families.len());
        let families = restored.families.into_values();
        let families = families.map(|(numbers, shape, pushed_ns)| {
            families_ns.push(pushed_ns);
            Family { shape, numbers }
        });
        let families = families.collect();
        let contents = self.memory.layouts.contents(&grouping, families);
        if families_ns.iter().all(|ns| *ns == restored.pushed_ns) {
            families_ns = Vec::new();
        }
        if !self.config.is_unchecked {
            let nothing = Layout::default();
            let change = changed(&nothing, &contents.layout);
            if let Err(error) = self.registry.apply(group.id, &group.common, &change) {
                tracing::warn!(group = ?grouping, error, "A restored group is inconsistent and was dropped.");
                self.remove(&group, &mut group.pushing.lock().whole());
                return;
            }
        }
        let state = State {
            exists: true,
            contents,
            families_ns,
            pushed_ns: restored.pushed_ns,
            failed_ns: restored.failed_ns,
            settings: restored.settings,
            body_bytes: 0,
        };
        let mut pushing = group.pushing.lock().whole();
        pushing.ids = restored.ids;
        if let Err(error) = self.lease(&mut pushing, &state) {
            // What was acknowledged is kept.
            tracing::warn!(group = ?group.grouping, %error, "A restored group takes more memory than there is for groups.");
        }
        self.show(&group, state);
    }

    /// Returns the group of these labels, creating an empty one if needed.
    pub(crate) fn group(&self, grouping: &Grouping) -> Arc<Group> {
        let shard = self.shard(grouping);
        if let Some(group) = shard.read().whole().get(grouping) {
            return Arc::clone(group);
        }
        let mut shard = shard.write().whole();
        let group = shard.entry(grouping.clone()).or_insert_with(|| {
            let id = self.next_id.fetch_add(1, Ordering::Relaxed);
            Arc::new(Group::new(id, grouping.clone()))
        });
        Arc::clone(group)
    }

    fn shard(&self, grouping: &Grouping) -> &RwLock<HashMap<Grouping, Arc<Group>>> {
        &self.shards[self.hasher.hash_one(grouping) as usize % SHARDS]
    }

    /// Stores a push.
    ///
    /// # Errors
    /// Returns why it is refused; then at most the failure time has changed.
    pub fn push(&self, grouping: &Grouping, push: Push<'_>) -> Result<(), PushError> {
        loop {
            let group = self.group(grouping);
            // After a panic in a decoder its memory is unreliable.
            let mut pushing = match group.pushing.lock() {
                Ok(pushing) => pushing,
                Err(poisoned) => {
                    let mut pushing = Err(poisoned).whole();
                    pushing.shelves.clear();
                    group.pushing.clear_poison();
                    pushing
                }
            };
            if pushing.is_gone {
                continue;
            }
            let outcome = self.push_to(&group, &mut pushing, push);
            match &outcome {
                Err(PushError::Inconsistent { .. }) => {
                    self.fail(&group, &mut pushing, push.asked);
                }
                Err(_) if !group.state().exists => self.remove(&group, &mut pushing),
                _ => {}
            }
            return outcome;
        }
    }

    fn push_to(
        &self,
        group: &Group,
        pushing: &mut Pushing,
        push: Push<'_>,
    ) -> Result<(), PushError> {
        let aggregate = self.aggregate(group, push.asked);
        let id = push.asked.id.as_deref().filter(|_| aggregate.is_some());
        if id.is_some_and(|id| pushing.ids.iter().any(|known| known == id)) {
            return Ok(());
        }
        let kept = push.asked.keep_timestamps;
        let allowed = Allowed {
            utf8_names: self.config.utf8_names,
            timestamps: kept.unwrap_or(self.config.keep_timestamps) && aggregate.is_none(),
        };
        let target = Target {
            grouping: &group.grouping,
            common: &group.common,
        };
        let (memory, body) = (&self.memory, (push.format, push.body));
        let mut incoming = decode::decode(memory, &mut pushing.shelves, body, target, allowed)?;
        let state = group.state();
        if let Some(mode) = aggregate {
            let sums = aggregate::add(&state.contents, &incoming, &group.common, mode)?;
            incoming = memory.layouts.contents(&group.grouping, sums);
        }
        let replace = push.replace && aggregate.is_none();
        let next = self.after(group, &state, &incoming, replace, push);
        let change = changed(&state.contents.layout, &next.contents.layout);
        let is_checked = !change.is_empty() && !self.config.is_unchecked;
        self.lease(pushing, &next)?;
        if is_checked {
            let applied = self.registry.apply(group.id, &group.common, &change);
            if let Err(detail) = applied {
                self.give_back(pushing, &state);
                return Err(PushError::Inconsistent { detail });
            }
        }
        let record = || {
            record::push(
                &group.grouping,
                next.pushed_ns,
                replace,
                (next.settings, id),
                (&state.contents, &incoming),
            )
        };
        // The sink comes first: a push that is refused and sent again must not be in the sums of the journal.
        let forwarded = self.forward(group, pushing, &next, false);
        let kept = forwarded.and_then(|()| self.append(pushing, !state.exists, record));
        if let Err(error) = kept {
            self.give_back(pushing, &state);
            if is_checked {
                let back = Change {
                    removed: change.added,
                    added: change.removed,
                };
                // Cannot fail: these families were consistent before.
                let _ = self.registry.apply(group.id, &group.common, &back);
            }
            return Err(error);
        }
        if let Some(id) = id {
            state::remember(&mut pushing.ids, id.to_owned());
        }
        self.show(group, next);
        Ok(())
    }

    /// Returns a group's contents after a push.
    fn after(
        &self,
        group: &Group,
        state: &State,
        incoming: &Contents,
        replace: bool,
        push: Push<'_>,
    ) -> State {
        let pushed_ns = (self.now_ns)();
        let (before, layout) = (&state.contents, &incoming.layout);
        let (mut contents, mut families_ns) = (incoming.clone(), Vec::new());
        if !replace && !Arc::ptr_eq(&before.layout, layout) {
            contents = self
                .memory
                .layouts
                .merged(&group.grouping, before, incoming);
        }
        if contents.layout.families.len() > layout.families.len() {
            each_pair(&before.layout, layout, |before, after| {
                families_ns.push(match (before, after) {
                    (Some(at), None) => state.family_ns(at),
                    _ => pushed_ns,
                });
            });
        }
        State {
            exists: true,
            contents,
            families_ns,
            pushed_ns,
            failed_ns: state.failed_ns,
            settings: self.settings(group, push.asked),
            body_bytes: push.body.len(),
        }
    }

    /// Leases the memory that a group takes with these contents.
    fn lease(&self, pushing: &mut Pushing, state: &State) -> Result<(), PushError> {
        let Some(budget) = &self.config.memory else {
            return Ok(());
        };
        let bytes = state.kept_bytes();
        let changed = match &mut pushing.lease {
            Some(lease) => lease.resize(bytes),
            empty => budget.lease(bytes).map(|lease| *empty = Some(lease)),
        };
        changed.map_err(PushError::busy)
    }

    /// Leases again what a group took before a push that failed.
    fn give_back(&self, pushing: &mut Pushing, state: &State) {
        // Should memory have become short meanwhile, the greater lease of the push stays.
        let _ = self.lease(pushing, state);
    }

    /// Hands a group's contents to the sink, if there is one.
    fn forward(
        &self,
        group: &Group,
        pushing: &mut Pushing,
        state: &State,
        is_repeated: bool,
    ) -> Result<(), PushError> {
        let Some(sink) = &self.sink else {
            return Ok(());
        };
        let forward = pushing
            .forward
            .get_or_insert_with(|| Forward::new(&group.common));
        let stored = forward.append(&**sink, state, (self.now_ns)(), is_repeated);
        stored.map_err(|error| PushError::Storage {
            detail: error.to_string(),
        })
    }

    /// Hands groups to the sink again that were not for this long, so that queries find them while they live.
    pub fn repeat(&self, interval_ms: u64) {
        if self.sink.is_none() {
            return;
        }
        let interval_ms = i64::try_from(interval_ms).unwrap_or(i64::MAX);
        let now_ms = (self.now_ns)() / 1_000_000;
        for group in self.groups() {
            let mut pushing = group.pushing.lock().whole();
            let last_ms = pushing.forward.as_ref().map_or(0, Forward::last_ms);
            if pushing.is_gone || now_ms.saturating_sub(last_ms) < interval_ms {
                continue;
            }
            if let Err(error) = self.forward(&group, &mut pushing, &group.state(), true) {
                // The other groups would fail in the same way.
                tracing::error!(%error, "Pushed groups cannot be stored again.");
                return;
            }
        }
    }

    /// Returns whether a push is added up, and how its gauges are.
    fn aggregate(&self, group: &Group, asked: &Asked) -> Option<GaugeMode> {
        let job = group.grouping.get("job").unwrap_or_default();
        asked
            .aggregate
            .unwrap_or_else(|| self.config.aggregate.get(job).copied())
    }

    /// Returns the settings of a group after a push.
    fn settings(&self, group: &Group, asked: &Asked) -> Settings {
        let job = group.grouping.get("job").unwrap_or_default();
        let period_ms = |asked_ms: Option<u64>, flags: &HashMap<String, u64>| {
            let flag = flags.get(job).or_else(|| flags.get(""));
            asked_ms
                .or(flag.copied())
                .filter(|period_ms| *period_ms > 0)
        };
        Settings {
            ttl_ms: period_ms(asked.ttl_ms, &self.config.ttl_ms),
            interval_ms: period_ms(asked.interval_ms, &self.config.interval_ms),
        }
    }

    fn show(&self, group: &Group, state: State) {
        let before = group.state().settings.ttl_ms.is_some();
        match (before, state.settings.ttl_ms.is_some()) {
            (false, true) => self.mortal.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.mortal.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
        group.set_state(state);
    }

    /// Appends a record; one that holds the whole group also marks the group as written to the newest file.
    fn append(
        &self,
        pushing: &mut Pushing,
        is_whole: bool,
        record: impl FnOnce() -> Vec<u8>,
    ) -> Result<(), PushError> {
        let Some(journal) = &self.journal else {
            return Ok(());
        };
        if is_whole {
            pushing.journal = journal.number();
        }
        journal
            .append(&record(), pushing.journal)
            .map_err(|detail| {
                metrics::JOURNAL_FAILURES.inc();
                PushError::Journal { detail }
            })
    }

    /// Records the time of an inconsistent push.
    fn fail(&self, group: &Group, pushing: &mut Pushing, asked: &Asked) {
        let mut state = State::clone(&group.state());
        let is_new = !std::mem::replace(&mut state.exists, true);
        state.failed_ns = (self.now_ns)();
        if is_new {
            state.settings = self.settings(group, asked);
        }
        let record = || {
            if is_new {
                // No push was stored, so there is no name of one.
                record::state(&group.grouping, &state, &PushIds::new())
            } else {
                record::failure(&group.grouping, state.failed_ns)
            }
        };
        if let Err(error) = self.append(pushing, is_new, record) {
            tracing::error!(%error, "The time of a refused push could not be kept.");
        }
        if let Err(error) = self.forward(group, pushing, &state, false) {
            tracing::error!(%error, "The time of a refused push could not be stored.");
        }
        self.show(group, state);
    }

    /// Removes a group from the store.
    fn remove(&self, group: &Arc<Group>, pushing: &mut Pushing) {
        pushing.is_gone = true;
        let mut shard = self.shard(&group.grouping).write().whole();
        if shard
            .get(&group.grouping)
            .is_some_and(|found| Arc::ptr_eq(found, group))
        {
            shard.remove(&group.grouping);
        }
        pushing.lease = None;
        if let (Some(sink), Some(mut forward)) = (&self.sink, pushing.forward.take())
            && let Err(error) = forward.end(&**sink, (self.now_ns)())
        {
            tracing::error!(%error, "The end of a group could not be stored.");
        }
        if group.state().settings.ttl_ms.is_some() {
            self.mortal.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Deletes a group, if it exists.
    ///
    /// # Errors
    /// Fails when the journal cannot be written; the group stays then.
    pub fn delete(&self, grouping: &Grouping) -> Result<(), PushError> {
        let found = self.shard(grouping).read().whole().get(grouping).cloned();
        found.map_or(Ok(()), |group| self.delete_group(&group, |_| true))
    }

    fn delete_group(
        &self,
        group: &Arc<Group>,
        is_meant: impl Fn(&State) -> bool,
    ) -> Result<(), PushError> {
        let mut pushing = group.pushing.lock().whole();
        let state = group.state();
        if pushing.is_gone || !is_meant(&state) {
            return Ok(());
        }
        self.append(&mut pushing, false, || record::deletion(&group.grouping))?;
        if !self.config.is_unchecked {
            let nothing = Layout::default();
            let change = changed(&state.contents.layout, &nothing);
            // Cannot fail: a removal contradicts nothing.
            let _ = self.registry.apply(group.id, &group.common, &change);
        }
        self.remove(group, &mut pushing);
        Ok(())
    }

    /// Deletes all groups.
    ///
    /// # Errors
    /// Fails when the journal cannot be written; some groups stay then.
    pub fn wipe(&self) -> Result<(), PushError> {
        self.groups()
            .iter()
            .try_for_each(|group| self.delete_group(group, |_| true))
    }

    /// Deletes expired groups.
    pub fn expire(&self) {
        if self.mortal.load(Ordering::Relaxed) == 0 {
            return;
        }
        let now_ns = (self.now_ns)();
        let is_over = |state: &State| state.is_over(now_ns);
        for group in self.groups() {
            if !is_over(&group.state()) {
                continue;
            }
            match self.delete_group(&group, is_over) {
                Ok(()) => metrics::EXPIRED.inc(),
                Err(error) => tracing::error!(%error, "A group that is over could not be deleted."),
            }
        }
    }

    /// Returns all non-empty groups, ordered by labels.
    pub(crate) fn groups(&self) -> Vec<Arc<Group>> {
        let mut all: Vec<Arc<Group>> = Vec::new();
        for shard in &self.shards {
            all.extend(shard.read().whole().values().cloned());
        }
        all.retain(|group| group.state().exists);
        all.sort_unstable_by(|a, b| a.grouping.cmp(&b.grouping));
        all
    }

    /// Syncs the journal, and rewrites it once it has become long.
    pub fn maintain(&self) {
        let Some(journal) = &self.journal else { return };
        if let Err(error) = journal.sync() {
            metrics::JOURNAL_FAILURES.inc();
            tracing::error!(%error, "The push journal could not be handed to the disk; pushes are refused until a restart.");
        }
        if journal.is_long()
            && let Err(error) = self.rewrite()
        {
            tracing::warn!(%error, "The push journal cannot be written anew; it goes on as it is.");
        }
        metrics::JOURNAL_BYTES.set(journal.bytes() as f64);
    }

    fn rewrite(&self) -> io::Result<()> {
        let Some(journal) = &self.journal else {
            return Ok(());
        };
        journal.begin()?;
        let number = journal.number();
        for group in self.groups() {
            let mut pushing = group.pushing.lock().whole();
            if pushing.is_gone || pushing.journal == number {
                continue;
            }
            let record = record::state(&group.grouping, &group.state(), &pushing.ids);
            journal.carry_over(&record);
            pushing.journal = number;
        }
        journal.finish()
    }

    pub(crate) fn config(&self) -> &StoreConfig {
        &self.config
    }

    pub(crate) fn now_ns(&self) -> i64 {
        (self.now_ns)()
    }
}

/// Returns the families that one layout has and the other does not.
fn changed<'a>(before: &'a Layout, after: &'a Layout) -> Change<'a> {
    let mut change = Change::default();
    if std::ptr::eq(before, after) {
        return change;
    }
    each_pair(before, after, |old, new| {
        let old = old.map(|at| &before.families[at]);
        let new = new.map(|at| &after.families[at]);
        let is_same = |(one, other): (&Arc<Shape>, &Arc<Shape>)| Arc::ptr_eq(one, other);
        if !old.zip(new).is_some_and(is_same) {
            change.removed.extend(old.map(|shape| &**shape));
            change.added.extend(new.map(|shape| &**shape));
        }
    });
    change
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
