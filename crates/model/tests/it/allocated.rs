//! Counts what this thread allocates, so that tests can compare bounds with what happens.
//!
//! **Invariant:** only the calling thread's bytes are counted: tests run beside one another.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

fn count(bytes: isize) {
    // A thread that ends frees memory after its counters are gone.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        let _ = MOST.try_with(|most| most.set(most.get().max(held.get())));
    });
}

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `work`; returns its result, the most bytes it held at once, and those it still holds.
pub(crate) fn during<T>(work: impl FnOnce() -> T) -> (T, u64, u64) {
    let before = HELD.get();
    MOST.set(before);
    let result = work();
    let of = |bytes: isize| u64::try_from(bytes - before).unwrap_or(0);
    (result, of(MOST.get()), of(HELD.get()))
}
