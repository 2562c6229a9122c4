//! Ranges of cells: their allocation on first use, their switch, their release.
//!
//! **Invariant:** at most one live [`Range`] holds a slot. The word of a range is its slot, with the top bit set while
//! it is switched off, and zero before its first use: one load answers both "where" and "whether" to count.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::shards::{self, SEGMENTS, Slot, segment_len};

const OFF: u32 = 1 << 31;
/// Ranges of at least this many cells begin on a 128-byte boundary.
pub(crate) const ALIGNED_FROM: u32 = 16;

static SPACE: Mutex<Space> = Mutex::new(Space {
    segment: 0,
    // The slot with value zero means "none".
    used: 1,
    free: BTreeMap::new(),
});

/// A lazily allocated range of cells with an on/off switch.
pub struct Range {
    word: AtomicU32,
}

impl Range {
    /// Creates a range without cells, switched on.
    pub(crate) const fn new() -> Self {
        Self {
            word: AtomicU32::new(0),
        }
    }

    /// Returns the slot to count in; `None` while switched off. Always pass the same `len`.
    #[inline(always)]
    pub(crate) fn slot(&self, len: usize) -> Option<Slot> {
        let word = self.word.load(Acquire);
        if word.cast_signed() > 0 {
            return Some(Slot::from_raw(word));
        }
        if word & OFF != 0 {
            return None;
        }
        self.allocate(len)
    }

    /// Returns the slot to read: `None` while switched off, `Some(None)` if nothing was counted yet.
    pub(crate) fn peek(&self) -> Option<Option<Slot>> {
        match self.word.load(Acquire) {
            word if word & OFF != 0 => None,
            0 => Some(None),
            word => Some(Some(Slot::from_raw(word))),
        }
    }

    /// Returns the slot to read, whether switched on or off; `None` if nothing was counted yet.
    pub(crate) fn peek_any(&self) -> Option<Slot> {
        let raw = self.word.load(Acquire) & !OFF;
        (raw != 0).then(|| Slot::from_raw(raw))
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.word.load(Acquire) & OFF == 0
    }

    /// Switches on or off; counted values stay.
    pub(crate) fn set_enabled(&self, enabled: bool) {
        if enabled {
            self.word.fetch_and(!OFF, Release);
        } else {
            self.word.fetch_or(OFF, Release);
        }
    }

    /// Releases the cells; `len` as in [`Range::slot`].
    pub(crate) fn release(&mut self, len: usize) {
        let word = *self.word.get_mut() & !OFF;
        *self.word.get_mut() = 0;
        if word != 0 {
            release(Slot::from_raw(word), len);
        }
    }

    #[cold]
    #[inline(never)]
    fn allocate(&self, len: usize) -> Option<Slot> {
        let mut space = space();
        let word = self.word.load(Acquire);
        if word != 0 {
            return (word & OFF == 0).then(|| Slot::from_raw(word));
        }
        // All 134 million cells are in use: the metric counts nothing and tries again on its next use.
        let slot = space.allocate(len)?;
        // A concurrent switch must keep its effect.
        let before = self.word.fetch_or(slot.raw(), Release);
        (before & OFF == 0).then_some(slot)
    }
}

/// Allocates a range that is zero in every shard; `None` if the address space is used up.
pub(crate) fn allocate(len: usize) -> Option<Slot> {
    space().allocate(len)
}

/// Releases a range that nobody writes any more.
pub(crate) fn release(slot: Slot, len: usize) {
    shards::clear(slot, len);
    let len = u32::try_from(len).expect("a range fits a segment");
    space().free.entry(len).or_default().push(slot);
}

/// Returns the number of free ranges of this length.
#[cfg(test)]
pub(crate) fn free(len: usize) -> usize {
    space().free.get(&(len as u32)).map_or(0, Vec::len)
}

fn space() -> MutexGuard<'static, Space> {
    SPACE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Allocator of the cells' address space.
struct Space {
    segment: u32,
    /// Cells allocated in the current segment.
    used: u32,
    /// Released ranges, by length.
    free: BTreeMap<u32, Vec<Slot>>,
}

impl Space {
    fn allocate(&mut self, len: usize) -> Option<Slot> {
        let len = u32::try_from(len).ok()?;
        if let Some(slot) = self.free.get_mut(&len).and_then(Vec::pop) {
            return Some(slot);
        }
        while self.segment < SEGMENTS {
            let start = if len >= ALIGNED_FROM {
                self.used.next_multiple_of(ALIGNED_FROM)
            } else {
                self.used
            };
            if start + len <= segment_len(self.segment) {
                self.used = start + len;
                return Some(Slot::at(self.segment, start));
            }
            self.segment += 1;
            self.used = 0;
        }
        None
    }
}

#[cfg(test)]
mod tests;
