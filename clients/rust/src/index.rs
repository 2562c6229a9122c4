//! A hash index that is read without a lock and written under one.
//!
//! Readers pin their shard ([`shards::pin`]), probe the published table and use the result while pinned. Writers hold the
//! mutex; they link and unlink items in place, publish a larger table when one fills up, and free unlinked items once
//! every shard was seen without a pin.
//!
//! **Invariant:** a pointer in a slot of the published table holds one strong reference to a live item. Anything a
//! reader can still reach (an unlinked item, a replaced table) stays in `retired` until [`shards::quiescent`] holds.

mod leaves;

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::ptr;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicPtr, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use self::leaves::{Leaf, Leaves};
use crate::shards;

const FIRST_SLOTS: usize = 8;
/// Removed items the sorted list may keep before it is rebuilt without waiting for a reader.
const DEAD_KEPT: usize = 64;

/// An element of an [`Index`].
pub(crate) trait Item {
    /// What is derived from neighbouring items, once.
    type Derived: Default;

    /// Returns the order in which items are listed; equal only for equal keys.
    fn order(&self, other: &Self) -> Ordering;
}

/// A set of shared items, looked up by hash without a lock and listed in order.
pub(crate) struct Index<T: Item> {
    table: AtomicPtr<Table<T>>,
    members: Mutex<Members<T>>,
}

/// State of the writers.
struct Members<T: Item> {
    live: usize,
    /// Slots of the table that are not empty: live items and tombs.
    used: usize,
    /// All live items except the pending ones, in order; may contain removed ones.
    sorted: Option<Arc<Leaves<T>>>,
    /// Items added since `sorted` was built.
    pending: Vec<Arc<T>>,
    /// Removed items that `sorted` or `pending` still holds.
    removed: Vec<Arc<T>>,
    retired: Vec<Retired<T>>,
}

/// Something unlinked that a reader may still use. Held to be dropped, never read.
#[expect(dead_code, reason = "the fields exist to be dropped later")]
enum Retired<T> {
    Item(Arc<T>),
    Table(Box<Table<T>>),
}

struct Table<T> {
    /// A power of two, at least a quarter of them empty: probing ends.
    slots: Box<[Slot<T>]>,
}

struct Slot<T> {
    hash: AtomicU64,
    /// Null: empty; [`tomb`]: unlinked; else from `Arc::into_raw`.
    item: AtomicPtr<T>,
}

/// Returns the pointer that marks an unlinked slot; no allocation has this address.
fn tomb<T>() -> *mut T {
    ptr::without_provenance_mut(1)
}

impl<T: Item> Index<T> {
    pub(crate) const fn new() -> Self {
        Self {
            table: AtomicPtr::new(ptr::null_mut()),
            members: Mutex::new(Members {
                live: 0,
                used: 0,
                sorted: None,
                pending: Vec::new(),
                removed: Vec::new(),
                retired: Vec::new(),
            }),
        }
    }

    /// Returns the item with this hash for which `is` holds. Takes no lock and writes no shared cache line except the
    /// item's reference count.
    pub(crate) fn get(&self, hash: u64, is: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        let _pin = shards::pin();
        let found = self.probe(hash, is)?;
        // SAFETY: `found` came from `Arc::into_raw` and the table's reference is alive while pinned.
        unsafe {
            Arc::increment_strong_count(found);
            Some(Arc::from_raw(found))
        }
    }

    /// Calls `f` with the item, like [`Index::get`] but without touching its reference count.
    pub(crate) fn with<R>(
        &self,
        hash: u64,
        is: impl Fn(&T) -> bool,
        f: impl FnOnce(&T) -> R,
    ) -> Option<R> {
        let _pin = shards::pin();
        let found = self.probe(hash, is)?;
        // SAFETY: the table's reference is alive while pinned.
        Some(f(unsafe { &*found }))
    }

    /// Returns the item; if there is none, inserts the one that `make` returns, given the number of live items.
    pub(crate) fn get_or_insert(
        &self,
        hash: u64,
        is: impl Fn(&T) -> bool,
        make: impl FnOnce(usize) -> Option<Arc<T>>,
    ) -> Option<Arc<T>> {
        let mut members = self.lock();
        if let Some(found) = self.probe(hash, is) {
            // SAFETY: `found` came from `Arc::into_raw`; only a writer releases it, and this one holds the lock.
            unsafe {
                Arc::increment_strong_count(found);
                return Some(Arc::from_raw(found));
            }
        }
        let item = make(members.live)?;
        self.link(&mut members, hash, Arc::clone(&item));
        members.pending.push(Arc::clone(&item));
        Some(item)
    }

    /// Unlinks an item; returns whether it existed.
    pub(crate) fn remove(&self, hash: u64, is: impl Fn(&T) -> bool) -> bool {
        let mut members = self.lock();
        let Some((slot, _)) = self.find(hash, is) else {
            return false;
        };
        // SeqCst: a reader that pins after this can no longer find the item.
        let item = slot.item.swap(tomb(), SeqCst);
        // SAFETY: `find` returns slots with an item from `Arc::into_raw`; the slot's reference moves here.
        let item = unsafe { Arc::from_raw(item) };
        members.live -= 1;
        members.removed.push(Arc::clone(&item));
        members.retired.push(Retired::Item(item));
        if members.removed.len() > DEAD_KEPT.max(members.live / 2) {
            members.settle();
        }
        members.free();
        true
    }

    /// Returns the number of live items.
    pub(crate) fn len(&self) -> usize {
        self.lock().live
    }

    /// Returns the live items in order. Costs only a reference count if none were added or removed.
    pub(crate) fn sorted(&self) -> Arc<Leaves<T>> {
        let mut members = self.lock();
        members.settle();
        members.free();
        members.sorted.clone().unwrap_or_default()
    }

    /// Runs `first`, then `each` for every live item, while no item can be added or removed.
    pub(crate) fn for_each(&self, first: impl FnOnce(), each: impl Fn(&T)) {
        let mut members = self.lock();
        first();
        members.settle();
        for item in members.sorted.iter().flat_map(|leaves| leaves.items()) {
            each(item);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Members<T>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a pointer from `Arc::into_raw`, valid while the caller stays pinned or holds the lock.
    fn probe(&self, hash: u64, is: impl Fn(&T) -> bool) -> Option<*const T> {
        self.find(hash, is).map(|(_, item)| item.cast_const())
    }

    /// Finds an item and its slot. Only while pinned or under the lock.
    fn find(&self, hash: u64, is: impl Fn(&T) -> bool) -> Option<(&Slot<T>, *mut T)> {
        // SAFETY: a published table is retired, not freed, while a reader is pinned, and only replaced by the one
        // writer that holds the lock; null becomes `None`.
        let table = unsafe { self.table.load(SeqCst).as_ref() }?;
        for slot in table.probe(hash) {
            let item = slot.item.load(SeqCst);
            if item.is_null() {
                return None;
            }
            // SAFETY: neither null nor a tomb, so an item whose reference the slot holds or `retired` keeps.
            if item != tomb() && slot.hash.load(Relaxed) == hash && is(unsafe { &*item }) {
                return Some((slot, item));
            }
        }
        None
    }

    fn link(&self, members: &mut Members<T>, hash: u64, item: Arc<T>) {
        let table = self.table_with_room(members);
        let item = Arc::into_raw(item).cast_mut();
        if table.insert(hash, item) {
            members.used += 1;
        }
        members.live += 1;
    }

    /// Returns the published table, replaced by a larger or cleaner one if three quarters are used.
    fn table_with_room(&self, members: &mut Members<T>) -> &Table<T> {
        let published = self.table.load(SeqCst);
        // SAFETY: only a writer replaces or frees the table, and this one holds the lock.
        let old = unsafe { published.as_ref() };
        if let Some(table) = old
            && (members.used + 1) * 4 <= table.slots.len() * 3
        {
            return table;
        }
        let slots = (members.live + 1).saturating_mul(2).next_power_of_two();
        let table = Box::new(Table::new(slots.max(FIRST_SLOTS)));
        for slot in old.iter().flat_map(|table| table.slots.iter()) {
            let item = slot.item.load(Relaxed);
            if !item.is_null() && item != tomb() {
                table.insert(slot.hash.load(Relaxed), item);
            }
        }
        members.used = members.live;
        let replaced = self.table.swap(Box::into_raw(table), SeqCst);
        if !replaced.is_null() {
            // SAFETY: every published table came from `Box::into_raw`; readers are waited for in `free`.
            members
                .retired
                .push(Retired::Table(unsafe { Box::from_raw(replaced) }));
        }
        members.free();
        // SAFETY: just published, and the lock is held.
        unsafe { &*self.table.load(SeqCst) }
    }
}

impl<T: Item> Members<T> {
    /// Merges the pending items into `sorted` and takes removed ones out.
    fn settle(&mut self) {
        if self.pending.is_empty() && self.removed.is_empty() {
            return;
        }
        let mut removed = std::mem::take(&mut self.removed);
        let mut added = std::mem::take(&mut self.pending);
        if !removed.is_empty() {
            let addresses: BTreeSet<_> = removed.iter().map(Arc::as_ptr).collect();
            added.retain(|item| !addresses.contains(&Arc::as_ptr(item)));
        }
        added.sort_by(|a, b| a.order(b));
        removed.sort_by(|a, b| a.order(b));
        let before = self.sorted.take().unwrap_or_default();
        self.sorted = Some(Arc::new(before.changed(added, &removed)));
    }

    /// Drops everything that no reader can reach any more.
    fn free(&mut self) {
        if !self.retired.is_empty() && shards::quiescent() {
            self.retired.clear();
        }
    }
}

impl<T> Table<T> {
    fn new(slots: usize) -> Self {
        let slots = (0..slots).map(|_| Slot {
            hash: AtomicU64::new(0),
            item: AtomicPtr::new(ptr::null_mut()),
        });
        Self {
            slots: slots.collect(),
        }
    }

    /// Returns all slots, starting at the one for the hash.
    fn probe(&self, hash: u64) -> impl Iterator<Item = &Slot<T>> {
        let mask = self.slots.len() - 1;
        let start = hash as usize & mask;
        (0..self.slots.len()).map(move |step| &self.slots[(start + step) & mask])
    }

    /// Links an item that is in no slot; returns whether the slot was empty before (not a tomb). Writers only.
    fn insert(&self, hash: u64, item: *mut T) -> bool {
        let slot = self
            .probe(hash)
            .find(|slot| slot.item.load(Relaxed).addr() <= tomb::<T>().addr())
            .expect("a quarter of the slots is free");
        let was_empty = slot.item.load(Relaxed).is_null();
        // A reader that still sees the tomb's old item with this hash compares keys, and continues.
        slot.hash.store(hash, Relaxed);
        slot.item.store(item, SeqCst);
        was_empty
    }
}

impl<T: Item> Drop for Index<T> {
    fn drop(&mut self) {
        let table = *self.table.get_mut();
        if table.is_null() {
            return;
        }
        // SAFETY: a published table came from `Box::into_raw`, and nobody else can reach this index.
        let table = unsafe { Box::from_raw(table) };
        for slot in &table.slots {
            let item = slot.item.load(Relaxed);
            if !item.is_null() && item != tomb() {
                // SAFETY: the slot holds one reference from `Arc::into_raw`.
                drop(unsafe { Arc::from_raw(item) });
            }
        }
    }
}

impl<T: Item> fmt::Debug for Index<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
