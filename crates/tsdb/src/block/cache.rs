//! Pages, index sections and what was decoded from them in memory, shared by all blocks, within a limit.
//!
//! Two generations: a touched part moves to the young one; when that reaches half the limit it becomes the old one
//! and the rest of the old one is dropped. A query over many series reads more pages than there is room for: what is
//! decoded from sections, which the next query needs too and which takes longer to make than a page to read, stays for
//! some generations more.
//!
//! **Invariant:** cached parts have passed their checks; the cache never exceeds its limit. A part larger than half of
//! it is not kept: whoever reads one leases its memory.

use super::page::Page;
use crate::error::TsdbError;
use narthex_model::storage::Account;
use narthex_model::sync::Renew as _;
use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

/// Identifies a part of a block: the block's number within the process, and the offset in its file or a number above all
/// offsets.
pub(crate) type PartKey = (u64, u64);

/// Keeps recently used parts of blocks in memory.
pub struct BlockCache {
    limit_bytes: usize,
    generations: Mutex<Generations>,
    /// Counts the bytes held; changes only while the generations are locked.
    held: Option<Account>,
}

type Parts = HashMap<PartKey, Part, foldhash::fast::RandomState>;

/// Generations for which a decoded part stays though nobody asks for it.
const MOST_IDLE: u8 = 100;

#[derive(Default)]
struct Generations {
    young: Parts,
    old: Parts,
    young_bytes: usize,
    old_bytes: usize,
}

/// A cacheable part.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Page(Arc<Page>),
    Section(Arc<[u8]>),
    /// What was decoded from sections, with its bytes, and for how many generations nobody asked for it.
    Decoded(Arc<dyn Any + Send + Sync>, usize, u8),
}

impl BlockCache {
    /// Returns an empty cache of at most `limit_bytes`.
    #[must_use]
    pub fn new(limit_bytes: usize) -> Self {
        Self {
            limit_bytes,
            generations: Mutex::default(),
            held: None,
        }
    }

    /// Makes `account` count the bytes held.
    pub(crate) fn counted_by(mut self, account: Account) -> Self {
        self.held = Some(account);
        self
    }

    /// Reports whether a part of `bytes` is kept.
    pub(crate) fn keeps(&self, bytes: u64) -> bool {
        bytes <= self.limit_bytes as u64 / 2
    }

    /// Returns the bytes held.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.lock().bytes()
    }

    /// Drops everything.
    pub(crate) fn clear(&self) {
        let generations = &mut *self.lock();
        generations.young = HashMap::default();
        generations.old = HashMap::default();
        (generations.young_bytes, generations.old_bytes) = (0, 0);
        self.count(generations);
    }

    /// Drops all parts of one block.
    pub(crate) fn forget(&self, block: u64) {
        let generations = &mut *self.lock();
        let drop_from = |parts: &mut HashMap<PartKey, Part, _>| {
            parts.retain(|key, _| key.0 != block);
            parts.values().map(Part::bytes).sum()
        };
        generations.young_bytes = drop_from(&mut generations.young);
        generations.old_bytes = drop_from(&mut generations.old);
        self.count(generations);
    }

    /// Returns a part, loading it on a miss; the lock is not held while loading.
    pub(crate) fn get(
        &self,
        key: PartKey,
        load: impl FnOnce() -> Result<Part, TsdbError>,
    ) -> Result<Part, TsdbError> {
        if let Some(part) = self.lock().find(key, self.limit_bytes / 2) {
            return Ok(part);
        }
        let part = load()?;
        let mut generations = self.lock();
        generations.insert(key, part.clone(), self.limit_bytes / 2);
        self.count(&generations);
        drop(generations);
        Ok(part)
    }

    /// Returns a part if it is there.
    pub(crate) fn find(&self, key: PartKey) -> Option<Part> {
        self.lock().find(key, self.limit_bytes / 2)
    }

    /// Keeps a part in the place of what was there before.
    pub(crate) fn replace(&self, key: PartKey, part: Part) {
        let mut generations = self.lock();
        if let Some(old) = generations.old.remove(&key) {
            generations.old_bytes -= old.bytes();
        }
        generations.insert(key, part, self.limit_bytes / 2);
        self.count(&generations);
    }

    fn count(&self, generations: &Generations) {
        if let Some(held) = &self.held {
            held.set(generations.bytes() as u64);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Generations> {
        // A panic may have left the sums wrong; dropped parts can be read again.
        self.generations.lock_or_renew(|_| Generations::default())
    }
}

impl Generations {
    fn bytes(&self) -> usize {
        self.young_bytes + self.old_bytes
    }

    fn find(&mut self, key: PartKey, half: usize) -> Option<Part> {
        if let Some(part) = self.young.get(&key) {
            return Some(part.clone());
        }
        let mut part = self.old.remove(&key)?;
        self.old_bytes -= part.bytes();
        if let Part::Decoded(_, _, idle) = &mut part {
            *idle = 0;
        }
        self.insert(key, part.clone(), half);
        Some(part)
    }

    fn insert(&mut self, key: PartKey, part: Part, half: usize) {
        let bytes = part.bytes();
        if bytes > half {
            return;
        }
        if self.young_bytes + bytes > half || self.bytes() + bytes > 2 * half {
            let dropped = std::mem::replace(&mut self.old, std::mem::take(&mut self.young));
            self.old_bytes = std::mem::take(&mut self.young_bytes);
            let room = 2 * half - self.old_bytes - bytes;
            self.carry_over(dropped, room.min(half / 4 * 3));
        }
        // Another thread may have loaded the same part meanwhile.
        if let Some(before) = self.young.insert(key, part) {
            self.young_bytes -= before.bytes();
        }
        self.young_bytes += bytes;
    }

    /// Keeps what was decoded from sections, within `room`, first what was asked for last.
    fn carry_over(&mut self, dropped: Parts, mut room: usize) {
        let mut decoded = Vec::new();
        for (key, part) in dropped {
            if let Part::Decoded(known, bytes, idle) = part {
                decoded.push((idle, key, known, bytes));
            }
        }
        decoded.sort_unstable_by_key(|(idle, _, _, bytes)| (*idle, *bytes));
        for (idle, key, known, bytes) in decoded {
            if idle < MOST_IDLE && bytes <= room {
                room -= bytes;
                self.old_bytes += bytes;
                self.old.insert(key, Part::Decoded(known, bytes, idle + 1));
            }
        }
    }
}

impl Part {
    fn bytes(&self) -> usize {
        match self {
            Self::Page(page) => page.bytes(),
            Self::Section(bytes) => bytes.len(),
            Self::Decoded(_, bytes, _) => *bytes,
        }
    }
}

impl fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "BlockCache({} of {} bytes)",
            self.used_bytes(),
            self.limit_bytes
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narthex_model::storage::Budget;
    use std::cell::Cell;

    fn part(len: usize) -> Result<Part, TsdbError> {
        Ok(Part::Section(vec![0; len].into()))
    }

    #[test]
    fn what_was_decoded_outlives_pages_but_not_forever() {
        let cache = BlockCache::new(1000);
        let decoded =
            |key: u64, bytes| cache.replace((1, key), Part::Decoded(Arc::new(()), bytes, 0));
        let read = |from: u64, to: u64| {
            for key in from..to {
                cache.get((2, key), || part(90)).unwrap();
                assert!(cache.used_bytes() <= 1000);
            }
        };
        decoded(0, 100);
        decoded(1, 120);
        read(0, 20);
        assert!(cache.find((2, 0)).is_none(), "pages come and go");
        assert!(cache.find((1, 0)).is_some() && cache.find((1, 1)).is_some());
        decoded(2, 400);
        read(20, 40);
        assert!(cache.find((1, 2)).is_none(), "it takes too much room");
        read(40, 2000);
        assert!(cache.find((1, 0)).is_none() && cache.find((1, 1)).is_none());
    }

    #[test]
    fn the_limit_holds_and_touched_parts_stay() {
        let memory = Budget::unlimited();
        let cache = BlockCache::new(1000).counted_by(memory.account());
        let counted = || assert_eq!(memory.used_bytes(), cache.used_bytes() as u64);
        let loads = Cell::new(0);
        let load = |len| {
            loads.set(loads.get() + 1);
            part(len)
        };
        for round in 0..100 {
            cache.get((1, 0), || load(100)).unwrap();
            cache.get((1, 1 + round), || load(90)).unwrap();
            assert!(cache.used_bytes() <= 1000);
            counted();
        }
        assert_eq!(loads.get(), 101, "of 200");
        assert!(memory.used_bytes() > 500);
        cache.get((2, 0), || part(501)).unwrap();
        let again = cache.get((2, 0), || {
            Err(TsdbError::Poisoned {
                cause: "not cached".into(),
            })
        });
        assert!(again.is_err());
        assert!(cache.keeps(500) && !cache.keeps(501));
        counted();
        cache.forget(1);
        counted();
        assert_eq!(cache.used_bytes(), 0);
        cache.get((3, 0), || part(10)).unwrap();
        cache.clear();
        counted();
    }
}
