//! A counting allocator, and bounds on the memory of a call.
//!
//! Invariant: counting does not change allocations; a thread is charged with exactly what it requested itself.
//!
//! A test binary that measures has this once:
//!
//! ```
//! use narthex_testkit::alloc::{self, Counting};
//!
//! #[global_allocator]
//! static ALLOCATOR: Counting = Counting;
//!
//! # fn main() {
//! let (text, used) = alloc::measured(|| "x".repeat(1000));
//! assert!(used.peak_bytes >= 1000 && used.live_bytes == 1000 && text.len() == 1000);
//! alloc::bounded(b"abc", 2, 64, |data| drop(data.to_vec()));
//! # }
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Maximum of an input's total allocations as a multiple of its bound on live memory, freed memory included.
///
/// A vector that doubles allocates twice its final size, and a fuzz function reads its input several times; work that
/// is quadratic in the input exceeds this.
/// grows with the square of the input exceeds this.
pub const TOTAL_FACTOR: usize = 8;

/// The system's allocator, counting live, peak and total bytes by thread and for the process.
///
/// A reallocation counts by its difference, wherever the block ends up.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counting;

/// Amounts of memory, in requested bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allocated {
    /// Bytes allocated and not freed. Negative if more was freed than allocated, as by a thread that drops another
    /// one's memory.
    pub live_bytes: i64,
    /// Maximum of live bytes.
    pub peak_bytes: i64,
    /// All bytes ever allocated.
    pub total_bytes: u64,
    /// Calls that allocated or moved.
    pub calls: u64,
}

struct Local {
    live: Cell<i64>,
    peak: Cell<i64>,
    total: Cell<u64>,
    calls: Cell<u64>,
}

thread_local! {
    // Neither lazily initialised nor dropped: it never allocates itself, and is accessible as long as the thread runs.
    static LOCAL: Local = const {
        Local { live: Cell::new(0), peak: Cell::new(0), total: Cell::new(0), calls: Cell::new(0) }
    };
}

static LIVE: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);
static TOTAL: AtomicU64 = AtomicU64::new(0);
static CALLS: AtomicU64 = AtomicU64::new(0);

fn allocated(old: usize, new: usize) {
    let difference = new as i64 - old as i64;
    let grown = difference.max(0) as u64;
    LOCAL.with(|local| {
        local.live.set(local.live.get() + difference);
        local.peak.set(local.peak.get().max(local.live.get()));
        local.total.set(local.total.get() + grown);
        local.calls.set(local.calls.get() + 1);
    });
    // Plain counters: nothing depends on their order.
    let live = LIVE.fetch_add(difference, Ordering::Relaxed) + difference;
    if live > PEAK.load(Ordering::Relaxed) {
        PEAK.fetch_max(live, Ordering::Relaxed);
    }
    TOTAL.fetch_add(grown, Ordering::Relaxed);
    CALLS.fetch_add(1, Ordering::Relaxed);
}

fn freed(bytes: usize) {
    let bytes = bytes as i64;
    LOCAL.with(|local| local.live.set(local.live.get() - bytes));
    LIVE.fetch_sub(bytes, Ordering::Relaxed);
}

// SAFETY: every call is passed on to the system's allocator unchanged; the accounting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract.
        let made = unsafe { System.alloc(layout) };
        if !made.is_null() {
            allocated(0, layout.size());
        }
        made
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract.
        let made = unsafe { System.alloc_zeroed(layout) };
        if !made.is_null() {
            allocated(0, layout.size());
        }
        made
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        freed(layout.size());
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's contract.
        let made = unsafe { System.realloc(ptr, layout, new_size) };
        if !made.is_null() {
            allocated(layout.size(), new_size);
        }
        made
    }
}

/// Returns what this thread allocated since it began.
#[must_use]
pub fn thread() -> Allocated {
    LOCAL.with(|local| Allocated {
        live_bytes: local.live.get(),
        peak_bytes: local.peak.get(),
        total_bytes: local.total.get(),
        calls: local.calls.get(),
    })
}

/// Returns what the process allocated since it began.
#[must_use]
pub fn process() -> Allocated {
    Allocated {
        live_bytes: LIVE.load(Ordering::Relaxed),
        peak_bytes: PEAK.load(Ordering::Relaxed),
        total_bytes: TOTAL.load(Ordering::Relaxed),
        calls: CALLS.load(Ordering::Relaxed),
    }
}

/// Resets the process' peak to the live bytes, and returns the old peak, in bytes.
pub fn restart_process_peak() -> i64 {
    PEAK.swap(LIVE.load(Ordering::Relaxed), Ordering::Relaxed)
}

/// Runs `f` and returns what this thread allocated meanwhile.
///
/// Allocations of other threads for `f` are not included: see [`process`]. Calls nest.
///
/// # Panics
///
/// If [`Counting`] is not the binary's allocator: nothing would be measured.
pub fn measured<R>(f: impl FnOnce() -> R) -> (R, Allocated) {
    assert_counting();
    let before = thread();
    LOCAL.with(|local| local.peak.set(before.live_bytes));
    let result = f();
    let after = thread();
    LOCAL.with(|local| local.peak.set(before.peak_bytes.max(after.peak_bytes)));
    let used = Allocated {
        live_bytes: after.live_bytes - before.live_bytes,
        peak_bytes: after.peak_bytes - before.live_bytes,
        total_bytes: after.total_bytes - before.total_bytes,
        calls: after.calls - before.calls,
    };
    (result, used)
}

/// Calls `f` with `data` and asserts that at most `per_byte · len + constant` bytes were live at once on this thread,
/// and at most [`TOTAL_FACTOR`] times that allocated in total.
///
/// # Panics
///
/// If `f` takes more, or [`Counting`] is not the binary's allocator.
pub fn bounded<R>(
    data: &[u8],
    per_byte: usize,
    constant: usize,
    f: impl FnOnce(&[u8]) -> R,
) -> (R, Allocated) {
    let (result, used) = measured(|| f(data));
    let most = per_byte * data.len() + constant;
    assert!(
        used.peak_bytes <= most as i64,
        "{} bytes of input took {} bytes of memory at once, more than {per_byte} a byte and {constant}",
        data.len(),
        used.peak_bytes
    );
    assert!(
        used.total_bytes <= (TOTAL_FACTOR * most) as u64,
        "{} bytes of input allocated {} bytes in all, more than {TOTAL_FACTOR} times {per_byte} a byte and {constant}",
        data.len(),
        used.total_bytes
    );
    (result, used)
}

/// # Panics
///
/// If this thread's counters do not change: the binary lacks the `#[global_allocator]`.
fn assert_counting() {
    let before = thread().calls;
    drop(black_box(Box::new(0_u8)));
    assert!(
        thread().calls > before,
        "nothing counts: this binary needs `#[global_allocator] static ALLOCATOR: narthex_testkit::alloc::Counting = \
         narthex_testkit::alloc::Counting;`"
    );
}
