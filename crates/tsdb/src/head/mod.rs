//! The head: everything that is in no block yet, in memory and in the WAL.
//!
//! **Invariant:** locks are taken in this order only: the WAL's ticket, a turn in a strip, the shared-series lock, that of
//! rounds being shown, the index, a strip, the WAL's own. Only the first two are held while the disk writes, so that
//! queries do not wait for it. A holder of a strip's lock takes neither index nor ticket, and another strip's only if no
//! other writer can hold that; the same is true of turns.

pub(crate) mod admission;
mod adopt;
pub(crate) mod append;
pub(crate) mod append_out_of_order;
pub(crate) mod exemplars;
mod families;
pub(crate) mod index;
pub(crate) mod out_of_order;
pub(crate) mod read;
pub(crate) mod replay;
pub(crate) mod row_chunk;
pub(crate) mod starts;
pub(crate) mod strip;
mod windows;

use crate::sync::Guarded as _;
use crate::{
    metrics::Metrics,
    wal::{Content, StripMark},
};
use admission::{ALWAYS_TAKEN, Admission};
use append::{NOWHERE, SlotMap};
use exemplars::ExemplarRing;
use families::Families;
use index::{Index, Owners, Resolved};
use narthex_model::sync::Whole as _;
use narthex_model::{LabelSet, METRIC_NAME, Schema, metadata::Family, storage::Budget};
use read::AllListed;
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU32, Ordering},
    },
};
use strip::Strip;
use windows::DecodedMemory;

/// Most exemplars held.
const EXEMPLARS: usize = 100_000;
/// Columns of a strip for ungrouped series before another is started.
const UNGROUPED_COLUMNS: usize = 8 * strip::PAGE_COLUMNS;

/// Strips, their index, families and exemplars.
#[derive(Debug)]
pub(crate) struct Head {
    index: RwLock<Index>,
    /// Held while a strip with shared series compares with other owners and stores.
    pub(crate) sharing: Mutex<()>,
    /// Held for writing while a round becomes visible in several strips, for reading while a snapshot is taken.
    showing: RwLock<()>,
    families: Mutex<Families>,
    exemplars: Mutex<ExemplarRing>,
    /// Strip for series that no origin has bound.
    ungrouped: Mutex<Option<Arc<Strip>>>,
    next_strip: AtomicU32,
    decoded: Arc<DecodedMemory>,
    all_listed: Mutex<Option<AllListed>>,
    pub(crate) admission: Admission,
    pub(crate) metrics: Arc<Metrics>,
}

/// A schema resolved to a strip.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) strip: Arc<Strip>,
    pub(crate) map: SlotMap,
    /// Families that were not known before.
    pub(crate) new_families: Vec<Family>,
    /// Slots whose series were refused because memory is short.
    pub(crate) refused: usize,
    /// The first slots of the schema, whose series are never refused.
    pub(crate) always_taken: usize,
}

impl Head {
    /// Returns an empty head that accepts new series while `memory` permits.
    pub(crate) fn new(metrics: Arc<Metrics>, memory: Budget) -> Self {
        Self {
            index: RwLock::new(Index::new(&memory)),
            decoded: Arc::new(DecodedMemory::new(&memory)),
            families: Mutex::new(Families::new(memory.limit_bytes())),
            admission: Admission::new(memory, Arc::clone(&metrics)),
            sharing: Mutex::new(()),
            showing: RwLock::new(()),
            exemplars: Mutex::new(ExemplarRing::new(EXEMPLARS)),
            ungrouped: Mutex::new(None),
            next_strip: AtomicU32::new(1),
            all_listed: Mutex::default(),
            metrics,
        }
    }

    pub(crate) fn index(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().guarded()
    }

    fn index_mut(&self) -> RwLockWriteGuard<'_, Index> {
        self.index.write().guarded()
    }

    /// Locks the exemplars.
    pub(crate) fn exemplars(&self) -> MutexGuard<'_, ExemplarRing> {
        self.exemplars.lock().guarded()
    }

    pub(crate) fn sharing(&self) -> MutexGuard<'_, ()> {
        self.sharing.lock().whole()
    }

    /// Waits for snapshots being taken; until it is released, none begins.
    pub(crate) fn showing(&self) -> RwLockWriteGuard<'_, ()> {
        self.showing.write().whole()
    }

    /// Waits for rounds that are becoming visible, so that a snapshot of several strips has all of each or none.
    pub(crate) fn taking_snapshot(&self) -> RwLockReadGuard<'_, ()> {
        self.showing.read().whole()
    }

    /// Returns the number of the next strip.
    pub(crate) fn next_strip(&self) -> u32 {
        self.next_strip.load(Ordering::Relaxed)
    }

    /// Ensures that strips created from here on are numbered `next` or higher.
    pub(crate) fn skip_strips_to(&self, next: u32) {
        self.next_strip.fetch_max(next, Ordering::Relaxed);
    }

    /// Resolves a schema: continues the origin's strip if no other origin has it, else creates one.
    pub(crate) fn bind(&self, schema: &Schema, now_ms: i64) -> Bound {
        let mut index = self.index_mut();
        let strip = self
            .adoptable(&index, schema, now_ms)
            .unwrap_or_else(|| self.create(&mut index, schema.common()));
        let (map, refused) = self.resolve(&mut index, &strip, schema, None, ALWAYS_TAKEN);
        drop(index);
        Bound {
            strip,
            map,
            new_families: self.learn_families(schema.families()),
            refused,
            always_taken: ALWAYS_TAKEN,
        }
    }

    /// Resolves a schema of some of an origin's series, without families: continues a strip that has most of them if
    /// `adopts` is set, else creates one; `None` when that takes memory that is short.
    pub(crate) fn bind_part(&self, schema: &Schema, now_ms: i64, adopts: bool) -> Option<Bound> {
        let mut index = self.index_mut();
        let adopted = adopts
            .then(|| self.adoptable(&index, schema, now_ms))
            .flatten();
        let strip = match adopted {
            Some(strip) => strip,
            None if self.admission.is_open() => self.create(&mut index, schema.common()),
            None => return None,
        };
        let (map, refused) = self.resolve(&mut index, &strip, schema, None, 0);
        Some(Bound {
            strip,
            map,
            new_families: Vec::new(),
            refused,
            always_taken: 0,
        })
    }

    /// Follows a schema to another version or lineage, on the same strip if that is sensible.
    pub(crate) fn rebind(&self, mut bound: Bound, old: &Schema, schema: &Schema) -> Bound {
        let diff = schema.diff(old);
        let columns = bound.strip.lock().schema.len();
        let fits = bound.strip.common == *schema.common()
            && match &diff {
                // Retired slots cost as much as live ones: once they are half, move to another strip.
                Some(_) => columns < 2 * PAGE_SLACK || schema.live() * 2 >= columns,
                None => self.overlap(&self.index(), &bound.strip, schema) * 2 >= columns,
            };
        let mut new_families = std::mem::take(&mut bound.new_families);
        if fits {
            let mut index = self.index_mut();
            // Refused series are retried.
            let known = diff.filter(|_| bound.refused == 0);
            let known = known.map(|diff| (bound.map, diff.appended.start as usize));
            let always_taken = bound.always_taken;
            let (map, refused) =
                self.resolve(&mut index, &bound.strip, schema, known, always_taken);
            drop(index);
            new_families.extend(self.learn_families(schema.families()));
            return Bound {
                strip: bound.strip,
                map,
                new_families,
                refused,
                always_taken,
            };
        }
        bound.new_families = new_families;
        self.replace(bound, schema)
    }

    /// Resolves a schema to a strip of its own, and leaves the old one.
    pub(crate) fn replace(&self, bound: Bound, schema: &Schema) -> Bound {
        bound.strip.leave();
        let mut index = self.index_mut();
        let strip = self.create(&mut index, schema.common());
        let always_taken = bound.always_taken;
        let (map, refused) = self.resolve(&mut index, &strip, schema, None, always_taken);
        drop(index);
        let mut new_families = bound.new_families;
        new_families.extend(self.learn_families(schema.families()));
        Bound {
            strip,
            map,
            new_families,
            refused,
            always_taken,
        }
    }

    fn create(&self, index: &mut Index, common: &LabelSet) -> Arc<Strip> {
        let id = self.next_strip.fetch_add(1, Ordering::Relaxed);
        let strip = Arc::new(Strip::new(id, common.clone(), StripMark::default()));
        strip.try_bind();
        index.add_strip(&strip);
        strip
    }

    /// Finds or appends the strip's column of each slot, from `known` on if the earlier slots are resolved; also
    /// returns how many got none because memory is short.
    fn resolve(
        &self,
        index: &mut Index,
        strip: &Arc<Strip>,
        schema: &Schema,
        known: Option<(SlotMap, usize)>,
        always_taken: usize,
    ) -> (SlotMap, usize) {
        let (mut map, from) = known.unwrap_or((SlotMap::Same, 0));
        let open = self.admission.is_open();
        let (mut refused, mut first_refused) = (0, LabelSet::empty());
        let mut fresh: Vec<LabelSet> = Vec::new();
        let mut shared = Vec::new();
        if open {
            index.reserve(strip.id, schema.len() - from);
        }
        for (id, column) in schema.columns().skip(from) {
            let live = !schema.is_retired(id);
            let create = live && (open || id.index() < always_taken);
            let at = match index.resolve(strip.id, &column.set, create, &mut shared) {
                Some(Resolved::Known(at)) => at,
                Some(Resolved::Fresh(at)) => {
                    fresh.push(column.set.clone());
                    at
                }
                None => {
                    if live && refused == 0 {
                        first_refused = column.set.clone();
                    }
                    refused += usize::from(live);
                    NOWHERE
                }
            };
            map.push(id.index(), at);
        }
        map.check_distinct();
        self.extend(strip, &fresh, Some(schema).filter(|_| map.is_same()));
        share(strip, shared);
        if refused > 0 {
            self.admission.refuse_of(schema, &first_refused, refused);
        }
        (map, refused)
    }

    /// Appends new columns to the strip.
    fn append_columns(&self, index: &mut Index, strip: &Arc<Strip>, sets: &[LabelSet]) {
        let mut shared = Vec::new();
        index.reserve(strip.id, sets.len());
        for set in sets {
            let resolved = index.resolve(strip.id, set, true, &mut shared);
            debug_assert!(
                matches!(resolved, Some(Resolved::Fresh(_))),
                "{set} is a column already"
            );
        }
        self.extend(strip, sets, None);
        share(strip, shared);
    }

    /// Adds to the strip the columns that the index added; `schema` may describe exactly the same.
    fn extend(&self, strip: &Strip, fresh: &[LabelSet], schema: Option<&Schema>) {
        let mut state = strip.lock();
        let len = state.schema.len() + fresh.len();
        state.schema = match schema {
            // Share the origin's schema instead of holding the columns twice.
            Some(schema) if schema.len() == len => schema.clone(),
            _ if fresh.is_empty() => return,
            _ => extended(&state.schema, fresh),
        };
        drop(state);
        self.metrics.series_created.inc_by(fresh.len() as u64);
    }

    /// Adds families; returns those that were not known.
    pub(crate) fn learn_families(&self, families: &[Family]) -> Vec<Family> {
        self.known_families().learn(families)
    }

    /// Returns the bytes of all families.
    pub(crate) fn families_bytes(&self) -> usize {
        self.known_families().heap_bytes()
    }

    /// Lists all families by name.
    pub(crate) fn families(&self) -> Vec<Family> {
        self.known_families().all()
    }

    /// Lists the families of one name.
    pub(crate) fn families_named(&self, name: &str) -> Vec<Family> {
        self.known_families().named(name)
    }

    /// Forgets families that have had no series in the head for a while; blocks keep theirs.
    pub(crate) fn forget_families(&self) {
        let index = self.index();
        let names = index.sets().values_of(METRIC_NAME);
        self.known_families().keep_used(names);
    }

    fn known_families(&self) -> MutexGuard<'_, Families> {
        self.families.lock().whole()
    }

    /// Removes claimed strips from the index, except those that were revived.
    pub(crate) fn remove_strips(&self, strips: &[Arc<Strip>]) {
        let mut index = self.index_mut();
        let gone = strips.iter().filter(|strip| strip.try_remove());
        let removed: usize = gone.map(|strip| index.remove_strip(strip.id)).sum();
        index.fit();
        drop(index);
        let mut ungrouped = self.ungrouped.lock().whole();
        if ungrouped.as_ref().is_some_and(|strip| strip.is_removed()) {
            *ungrouped = None;
        }
        self.metrics.series_removed.inc_by(removed as u64);
    }
}

impl Content for Head {
    fn families(&self) -> Vec<Family> {
        Self::families(self)
    }

    fn marks(&self, number: u32) -> HashMap<u32, StripMark> {
        let strips = self.index().strips();
        let in_file = strips
            .iter()
            .filter(|strip| strip.lock().logged.0 == number);
        in_file.map(|strip| (strip.id, strip.mark())).collect()
    }
}

/// A strip with fewer columns is not worth replacing.
const PAGE_SLACK: usize = 64;

/// Registers, in strips with common series, each other's columns.
pub(crate) fn share(strip: &Arc<Strip>, shared: Vec<(u32, Owners)>) {
    for (column, owners) in shared {
        for (other, other_column) in owners {
            strip.share(column, &other, other_column);
            other.share(other_column, strip, column);
        }
    }
}

/// Returns the schema with further columns.
pub(crate) fn extended(schema: &Schema, sets: &[LabelSet]) -> Schema {
    let mut edit = schema.edit();
    let family = edit.family(Family::default());
    for set in sets {
        edit.push(set, family);
    }
    edit.finish()
}

impl SlotMap {
    fn is_same(&self) -> bool {
        matches!(self, Self::Same)
    }

    /// Adds the next slot.
    fn push(&mut self, slot: usize, column: u32) {
        match self {
            Self::Same if slot == column as usize => {}
            Self::Same => {
                let columns = (0..slot as u32).chain([column]).collect();
                *self = Self::Map {
                    columns,
                    distinct: true,
                };
            }
            Self::Map { columns, .. } => columns.push(column),
        }
    }

    /// Determines whether two slots share a column.
    fn check_distinct(&mut self) {
        if let Self::Map { columns, distinct } = self {
            let mut sorted: Vec<u32> = columns
                .iter()
                .copied()
                .filter(|column| *column != NOWHERE)
                .collect();
            sorted.sort_unstable();
            *distinct = sorted.windows(2).all(|pair| pair[0] != pair[1]);
        }
    }
}
