//! A round in which nothing came or went: the same schema, no allocation.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use narthex_host::{CollectorKind, HostConfig, HostSource};

use crate::support::PATIENT_MS;

/// The system's allocator, counting per thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's contract.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_steady_round_allocates_nothing() {
    let mut config = HostConfig::default();
    config.cpu.info = true;
    config.wait_ms = PATIENT_MS;
    let mut host = HostSource::new(config).expect("valid");
    let mut steady = 0;
    for round in 0..20 {
        let version = host.schema().version();
        let before = ALLOCATIONS.get();
        host.collect(round);
        let allocations = ALLOCATIONS.get() - before;
        // Other tests of this process add and remove network devices.
        if round >= 2 && host.schema().version() == version {
            assert_eq!(allocations, 0, "round {round}");
            steady += 1;
        }
    }
    assert!(steady > 5, "only {steady} rounds were steady");
    assert!(ALLOCATIONS.get() > 0, "the allocator counts");
    for kind in CollectorKind::ALL {
        let error = host.error(kind).filter(|error| !error.is_no_data());
        assert!(error.is_none(), "{error:?}");
    }
}
