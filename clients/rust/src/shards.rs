//! The memory of all metrics: one shard of cells per thread.
//!
//! A metric owns a range of cells, addressed by a [`Slot`]. Each shard has its own copy of every range, and a thread
//! counts in the shard it leases, so two threads never write one cache line and a write is a plain load, add and store.
//! Reading sums over the shards. Memory is `cells × 8 bytes × shards in use`, touched lazily page by page; there is no
//! padding, because neighbours in a shard belong to the same thread.
//!
//! Threads beyond the number of leasable shards share a few shards with read-modify-write operations: slower, still
//! exact.
//!
//! **Invariant:** only the lessee writes a cell of a leased shard. A range never straddles two segments, and a segment,
//! once allocated, is neither moved nor freed. A newly allocated range is zero in every shard.
//!
//! Not for signal handlers or a counting allocator: an increment that interrupts another one on the same thread may
//! lose it.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::num::NonZeroUsize;
use std::ptr;
use std::slice;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

/// Upper limit of shards that can be leased; [`leasable`] decides the actual number.
const LEASED: usize = 64;
/// Shards for the threads that could not lease one.
const SHARED: usize = 8;
/// Length of a shard's directory; five bits of a slot select the segment.
const DIRECTORY: usize = 32;
/// Bits of a slot that select the cell inside its segment.
const OFFSET_BITS: u32 = 26;
/// Segment `k` holds `1024 << k` cells.
const FIRST_SEGMENT_BITS: u32 = 10;
/// Segments in use: the last one has `1 << OFFSET_BITS` cells.
pub(crate) const SEGMENTS: u32 = OFFSET_BITS - FIRST_SEGMENT_BITS + 1;
/// Longest range that can be allocated.
pub(crate) const LONGEST_RANGE: usize = 1 << FIRST_SEGMENT_BITS;
/// Writes through a shared shard between two attempts to lease one.
const RETRY_LEASE_EVERY: u32 = 4096;
/// Times that [`quiescent`] checks a busy shard before it gives up.
const QUIESCENT_TRIES: u32 = 128;

static SHARDS: [Shard; LEASED + SHARED] = [const { Shard::new() }; LEASED + SHARED];
/// One bit per leased shard.
static TAKEN: AtomicU64 = AtomicU64::new(0);
static NEXT_SHARED: AtomicU32 = AtomicU32::new(0);

thread_local! {
    // Two variables: this one has no destructor, so the hot path reads it without a registration check.
    static MINE: Cell<Option<&'static Shard>> = const { Cell::new(None) };
    static LEASE: Lease = Lease::acquire();
}

/// Address of a range of cells, the same in every shard; never zero, and the top bit is clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(u32);

impl Slot {
    /// Returns the slot of a cell in a segment.
    pub(crate) fn at(segment: u32, offset: u32) -> Self {
        debug_assert!(segment < SEGMENTS && offset < segment_len(segment));
        Self(segment << OFFSET_BITS | offset)
    }

    /// Returns the slot whose [`Slot::raw`] is `raw`.
    #[inline(always)]
    pub(crate) fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    #[inline(always)]
    pub(crate) fn raw(self) -> u32 {
        self.0
    }

    #[inline(always)]
    fn segment(self) -> usize {
        (self.0 >> OFFSET_BITS) as usize % DIRECTORY
    }

    #[inline(always)]
    fn offset(self) -> usize {
        (self.0 & ((1 << OFFSET_BITS) - 1)) as usize
    }
}

/// Returns the number of cells of a segment.
pub(crate) fn segment_len(segment: u32) -> u32 {
    1 << (FIRST_SEGMENT_BITS + segment)
}

/// A range of one shard, open for writing by the current thread.
#[derive(Clone, Copy)]
pub(crate) struct Cells {
    cells: &'static [AtomicU64],
    owned: bool,
}

impl Cells {
    /// Adds to an integer cell, wrapping, and returns this shard's new value.
    #[inline(always)]
    pub(crate) fn add(self, index: usize, n: u64) -> u64 {
        let cell = &self.cells[index];
        if self.owned {
            let sum = cell.load(Relaxed).wrapping_add(n);
            cell.store(sum, Relaxed);
            sum
        } else {
            cell.fetch_add(n, Relaxed).wrapping_add(n)
        }
    }

    /// Adds to a float cell.
    #[inline(always)]
    pub(crate) fn add_f64(self, index: usize, v: f64) {
        let cell = &self.cells[index];
        if self.owned {
            let sum = f64::from_bits(cell.load(Relaxed)) + v;
            cell.store(sum.to_bits(), Relaxed);
        } else {
            fetch_add_f64(cell, v);
        }
    }
}

/// Adds to a float that several threads write.
pub(crate) fn fetch_add_f64(cell: &AtomicU64, v: f64) {
    let mut seen = cell.load(Relaxed);
    loop {
        let sum = (f64::from_bits(seen) + v).to_bits();
        match cell.compare_exchange_weak(seen, sum, Relaxed, Relaxed) {
            Ok(_) => return,
            Err(other) => seen = other,
        }
    }
}

/// Runs `f` on this thread's copy of a range.
#[inline(always)]
pub(crate) fn write(slot: Slot, len: usize, f: impl FnOnce(Cells)) {
    if let Some(cells) = MINE.get().and_then(|shard| shard.get(slot, len)) {
        f(Cells { cells, owned: true });
    } else {
        write_slow(slot, len, f);
    }
}

#[cold]
#[inline(never)]
fn write_slow(slot: Slot, len: usize, f: impl FnOnce(Cells)) {
    let (shard, owned) = current();
    let cells = shard.get_or_allocate(slot, len);
    f(Cells { cells, owned });
}

/// Returns the one copy of a range that all threads share, for values that cannot be summed.
#[inline(always)]
pub(crate) fn common(slot: Slot, len: usize) -> &'static [AtomicU64] {
    let shard = &SHARDS[LEASED];
    match shard.get(slot, len) {
        Some(cells) => cells,
        None => shard.get_or_allocate(slot, len),
    }
}

/// Sets a range to zero in every shard.
///
/// Only while no thread can write it: its owner holds the last reference.
pub(crate) fn clear(slot: Slot, len: usize) {
    for shard in &SHARDS {
        for cell in shard.get(slot, len).unwrap_or_default() {
            cell.store(0, Relaxed);
        }
    }
}

/// Marks this thread as reading an index, until the guard is dropped.
#[inline]
pub(crate) fn pin() -> Pin {
    let (shard, owned) = match MINE.get() {
        Some(shard) => (shard, true),
        None => current(),
    };
    if owned {
        let depth = shard.pins.load(Relaxed);
        // SeqCst orders this before the loads of the table: see `quiescent`.
        shard.pins.swap(depth + 1, SeqCst);
    } else {
        shard.pins.fetch_add(1, SeqCst);
    }
    Pin { shard, owned }
}

/// Returns whether every shard was seen without a pin after this call began.
///
/// Anything unlinked with SeqCst stores before the call is then out of every reader's reach: in the single order of
/// SeqCst operations a later pin comes after the unlinking, so its reader cannot find the link.
pub(crate) fn quiescent() -> bool {
    SHARDS.iter().all(|shard| {
        (0..QUIESCENT_TRIES).any(|_| {
            let free = shard.pins.load(SeqCst) == 0;
            if !free {
                std::hint::spin_loop();
            }
            free
        })
    })
}

/// A thread's mark that it is reading; see [`pin`].
pub(crate) struct Pin {
    // A reference to a shard this thread leases: `!Send`, or the count would be written by two threads.
    shard: *const Shard,
    owned: bool,
}

impl Drop for Pin {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `shard` was made from a `&'static Shard` in `pin`.
        let shard = unsafe { &*self.shard };
        if self.owned {
            shard.pins.store(shard.pins.load(Relaxed) - 1, Release);
        } else {
            shard.pins.fetch_sub(1, Release);
        }
    }
}

/// The shards in use at one moment; sums cells over them.
pub struct Reader {
    shards: Vec<&'static Shard>,
}

impl Reader {
    /// Determines which shards are in use.
    pub(crate) fn new() -> Self {
        let shards = SHARDS.iter().filter(|shard| shard.in_use()).collect();
        Self { shards }
    }

    /// Returns an integer cell's sum, wrapping.
    pub(crate) fn sum(&self, slot: Slot, len: usize, index: usize) -> u64 {
        self.copies(slot, len)
            .fold(0, |sum, cells| sum.wrapping_add(cells[index].load(Relaxed)))
    }

    /// Returns a float cell's sum.
    pub(crate) fn sum_f64(&self, slot: Slot, len: usize, index: usize) -> f64 {
        self.copies(slot, len).fold(0.0, |sum, cells| {
            sum + f64::from_bits(cells[index].load(Relaxed))
        })
    }

    /// Returns the sums of a range of two cells: an integer, wrapping, and a float.
    #[inline]
    pub(crate) fn sum_pair(&self, slot: Slot) -> (u64, f64) {
        let pair = |cells: &[AtomicU64]| (cells[0].load(Relaxed), cells[1].load(Relaxed));
        self.copies(slot, 2).map(pair).fold((0, 0.0), |sum, pair| {
            (pair.0.wrapping_add(sum.0), sum.1 + f64::from_bits(pair.1))
        })
    }

    /// Replaces `out` with the sums of `len` integer cells.
    pub(crate) fn sums(&self, slot: Slot, len: usize, out: &mut Vec<u64>) {
        out.clear();
        out.resize(len, 0);
        for cells in self.copies(slot, len) {
            for (sum, cell) in out.iter_mut().zip(cells) {
                *sum = sum.wrapping_add(cell.load(Relaxed));
            }
        }
    }

    fn copies(&self, slot: Slot, len: usize) -> impl Iterator<Item = &'static [AtomicU64]> {
        self.shards
            .iter()
            .filter_map(move |shard| shard.get(slot, len))
    }
}

/// One thread's copy of all cells. Aligned so that two shards share no cache line, nor a pair the CPU prefetches
/// together.
#[repr(align(128))]
struct Shard {
    pins: AtomicU32,
    segments: [AtomicPtr<AtomicU64>; DIRECTORY],
}

impl Shard {
    const fn new() -> Self {
        Self {
            pins: AtomicU32::new(0),
            segments: [const { AtomicPtr::new(ptr::null_mut()) }; DIRECTORY],
        }
    }

    #[inline(always)]
    fn get(&'static self, slot: Slot, len: usize) -> Option<&'static [AtomicU64]> {
        let segment = self.segments[slot.segment()].load(Acquire);
        if segment.is_null() {
            return None;
        }
        // SAFETY: a non-null segment has `segment_len` initialised cells and is never freed; slots come from the
        // allocator in `range`, which keeps `offset + len` within the segment.
        Some(unsafe { slice::from_raw_parts(segment.add(slot.offset()), len) })
    }

    fn get_or_allocate(&'static self, slot: Slot, len: usize) -> &'static [AtomicU64] {
        if self.segments[slot.segment()].load(Acquire).is_null() {
            self.allocate(slot.segment());
        }
        self.get(slot, len).expect("the segment was just allocated")
    }

    fn allocate(&self, segment: usize) {
        let cells = 1_usize << (FIRST_SEGMENT_BITS as usize + segment);
        let layout = Layout::array::<AtomicU64>(cells)
            .and_then(|layout| layout.align_to(128))
            .expect("the longest segment is 512 MiB");
        // SAFETY: the layout's size is not zero.
        let memory = unsafe { alloc_zeroed(layout) };
        if memory.is_null() {
            handle_alloc_error(layout);
        }
        let published = self.segments[segment].compare_exchange(
            ptr::null_mut(),
            memory.cast(),
            AcqRel,
            Acquire,
        );
        if published.is_err() {
            // SAFETY: another thread of this shared shard was faster; nobody saw `memory`, allocated above.
            unsafe { dealloc(memory, layout) };
        }
    }

    fn in_use(&self) -> bool {
        self.segments
            .iter()
            .any(|segment| !segment.load(Relaxed).is_null())
    }
}

/// A thread's lease of a shard, released when the thread ends.
struct Lease {
    /// Index of the shard in `SHARDS`; a shared one from `LEASED` on.
    shard: Cell<usize>,
    shared_writes: Cell<u32>,
}

impl Lease {
    fn acquire() -> Self {
        let lease = Self {
            shard: Cell::new(0),
            shared_writes: Cell::new(0),
        };
        if !lease.claim() {
            let turn = NEXT_SHARED.fetch_add(1, Relaxed) as usize;
            lease.shard.set(LEASED + turn % SHARED);
        }
        lease
    }

    /// Takes the lowest free shard, so that few shards are in use.
    fn claim(&self) -> bool {
        let all = u64::MAX >> (64 - leasable());
        // Acquire pairs with the Release in `drop`: the former lessee's plain stores are visible.
        let taken = TAKEN.fetch_update(Acquire, Relaxed, |taken| {
            let free = !taken & all;
            (free != 0).then(|| taken | (free & free.wrapping_neg()))
        });
        let Ok(taken) = taken else { return false };
        let shard = (!taken & all).trailing_zeros() as usize;
        self.shard.set(shard);
        MINE.set(Some(&SHARDS[shard]));
        true
    }

    fn current(&self) -> (&'static Shard, bool) {
        let mut shard = self.shard.get();
        if shard >= LEASED {
            let writes = self.shared_writes.get().wrapping_add(1);
            self.shared_writes.set(writes);
            if writes.is_multiple_of(RETRY_LEASE_EVERY) && self.claim() {
                shard = self.shard.get();
            }
        }
        (&SHARDS[shard], shard < LEASED)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Destructors of other thread locals may still count: from here on they use the shared shard.
        MINE.set(None);
        if self.shard.get() < LEASED {
            TAKEN.fetch_and(!(1 << self.shard.get()), Release);
        }
    }
}

/// Returns this thread's shard and whether it is leased.
fn current() -> (&'static Shard, bool) {
    LEASE
        .try_with(Lease::current)
        .unwrap_or((&SHARDS[LEASED], false))
}

/// Returns how many shards may be leased: twice the CPUs as a power of two, within 8 and 64.
fn leasable() -> u32 {
    static COUNT: OnceLock<u32> = OnceLock::new();
    *COUNT.get_or_init(|| {
        let cpus = std::thread::available_parallelism().map_or(4, NonZeroUsize::get);
        let shards = cpus
            .saturating_mul(2)
            .min(LEASED)
            .next_power_of_two()
            .max(8);
        u32::try_from(shards).expect("at most 64")
    })
}

#[cfg(test)]
mod tests;
