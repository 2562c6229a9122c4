//! The allocator's other jobs: returning memory to the system, and heap profiles in builds that support them.
//!
//! **Invariant:** jemalloc is called with names it documents, and values of the types it documents for them. Without heap
//! profiles, a request for one gets a sentence that says how to enable them.

use std::{
    ffi::{CStr, CString, c_int, c_void},
    ptr::null_mut,
};

/// Does what a name says, giving it a value if it takes one; returns jemalloc's error, 0 for none.
///
/// # Safety
/// What has this name must take a value of this type, or none, and write none.
unsafe fn set<T>(name: &CStr, value: Option<T>) -> c_int {
    let mut value = value;
    let (new, len) = match &mut value {
        Some(value) => ((&raw mut *value).cast::<c_void>(), size_of::<T>()),
        None => (null_mut(), 0),
    };
    // SAFETY: the caller has chosen the type.
    unsafe { tikv_jemalloc_sys::mallctl(name.as_ptr(), null_mut(), null_mut(), new, len) }
}

/// Reads a value; `None` if there is none of this name.
///
/// # Safety
/// What has this name must write a value of this type, and take none.
unsafe fn get<T: Default>(name: &CStr) -> Option<T> {
    let (mut value, mut len) = (T::default(), size_of::<T>());
    let old = (&raw mut value).cast::<c_void>();
    // SAFETY: the caller has chosen the type, of whose size `len` tells.
    let code =
        unsafe { tikv_jemalloc_sys::mallctl(name.as_ptr(), old, &raw mut len, null_mut(), 0) };
    (code == 0).then_some(value)
}

/// Returns unused pages to the system.
pub(crate) fn purge() {
    // 4096 is `MALLCTL_ARENAS_ALL`, which means all arenas.
    // SAFETY: `arena.<i>.purge` reads and writes no value.
    unsafe { set::<()>(c"arena.4096.purge", None) };
}

/// Returns unused pages to the system, those included that this thread keeps for its next allocations.
pub(crate) fn trim() {
    // SAFETY: `thread.tcache.flush` reads and writes no value.
    unsafe { set::<()>(c"thread.tcache.flush", None) };
    purge();
}

/// Sizes from which jemalloc places allocations in an arena of their own: the default of `oversize_threshold`.
const LARGE_BYTES: usize = 8 << 20;

/// Returns the memory of large allocations to the system as soon as they are freed.
///
/// jemalloc does so by itself, but not if it has background threads: they return it some seconds later, so that a page
/// of 80 MB would stay resident beside the one that follows it.
pub(crate) fn return_large_at_once() {
    let (Some(usual), Some(large)) = (arena_for(1), arena_for(LARGE_BYTES)) else {
        return;
    };
    // With another `oversize_threshold` there may be no such arena.
    if usual == large {
        return;
    }
    set_decay_ms(&format!("arena.{large}"), 0);
}

/// Returns unused memory to the system within a second or so instead of ten, for a process that works for a moment every
/// few seconds: what a round took and freed is then not resident until the next one. Nor, in a server, is what senders'
/// requests took when queries come.
pub(crate) fn return_soon() {
    const SOON_MS: isize = 1000;
    // Arenas to come, and those that are there.
    set_decay_ms("arenas", SOON_MS);
    // SAFETY: `arenas.narenas` writes an `unsigned`.
    let arenas: Option<u32> = unsafe { get(c"arenas.narenas") };
    for arena in 0..arenas.unwrap_or_default() {
        set_decay_ms(&format!("arena.{arena}"), SOON_MS);
    }
}

/// Sets the time after which an arena's unused pages are returned, or that of arenas to come.
fn set_decay_ms(of: &str, decay_ms: isize) {
    for pages in ["dirty", "muzzy"] {
        let Ok(name) = CString::new(format!("{of}.{pages}_decay_ms")) else {
            continue;
        };
        // SAFETY: `arena.<i>.{dirty,muzzy}_decay_ms` and `arenas.…` read an `ssize_t`. An arena that nobody uses yet
        // has none, and nothing is read.
        unsafe { set(&name, Some(decay_ms)) };
    }
}

/// Ends the sampling of allocations for a command that has no way to ask for a heap profile: a sample unwinds the stack,
/// which costs time and keeps the unwind tables in memory.
pub(crate) fn stop_sampling() {
    set_sampling(false);
}

/// Begins or ends the sampling of allocations.
fn set_sampling(is_active: bool) {
    // SAFETY: `prof.active` reads a bool. Without support for profiles it does not exist, and nothing is read.
    unsafe { set(c"prof.active", Some(is_active)) };
}

/// Returns the arena that serves allocations of a size.
fn arena_for(bytes: usize) -> Option<u32> {
    // SAFETY: the size is not 0, and no flags are set.
    let mut probe = unsafe { tikv_jemalloc_sys::mallocx(bytes, 0) };
    if probe.is_null() {
        return None;
    }
    let mut arena: u32 = 0;
    let mut len = size_of_val(&arena);
    // SAFETY: `arenas.lookup` reads a pointer to an allocation, which `probe` is, and writes an `unsigned`, which
    // `arena` has room for.
    let code = unsafe {
        tikv_jemalloc_sys::mallctl(
            c"arenas.lookup".as_ptr(),
            (&raw mut arena).cast::<c_void>(),
            &raw mut len,
            (&raw mut probe).cast::<c_void>(),
            size_of_val(&probe),
        )
    };
    // SAFETY: `probe` was allocated above and is not used any more.
    unsafe { tikv_jemalloc_sys::dallocx(probe, 0) };
    (code == 0).then_some(arena)
}

/// Without heap profiles nothing is sampled.
#[cfg(not(feature = "heap-profiles"))]
pub(crate) fn sample_on_request() {}

/// Says that this build has no heap profiles: supporting them makes every allocation a little slower.
#[cfg(not(feature = "heap-profiles"))]
pub(crate) fn dump() -> Result<String, String> {
    Err("this build has no heap profiles: it was made without the feature heap-profiles".to_owned())
}

#[cfg(feature = "heap-profiles")]
pub(crate) use profile::{dump, sample_on_request};

#[cfg(feature = "heap-profiles")]
mod profile {
    //! Heap dumps.

    use std::{
        ffi::{CStr, CString},
        fs::File,
        io::{Read, Seek},
        os::fd::AsRawFd,
        sync::atomic::{AtomicBool, Ordering},
    };

    /// Whether sampling begins with the first request for a profile.
    static ON_REQUEST: AtomicBool = AtomicBool::new(false);

    const BEGINS: &str = "allocations are sampled from this request on, because sampling costs an agent memory: ask again in some minutes";
    const OFF: &str = "heap profiles are off: _RJEM_MALLOC_CONF in the environment says so";

    /// Ends the sampling of allocations until somebody asks for a profile.
    pub(crate) fn sample_on_request() {
        super::stop_sampling();
        ON_REQUEST.store(true, Ordering::Relaxed);
    }

    /// Returns a heap dump in jemalloc's format.
    ///
    /// # Errors
    /// Returns a sentence that says why there is none.
    pub(crate) fn dump() -> Result<String, String> {
        if ON_REQUEST.swap(false, Ordering::Relaxed) {
            super::set_sampling(true);
            return Err(BEGINS.to_owned());
        }
        if !profiles() {
            return Err(OFF.to_owned());
        }
        let failed = |what: &'static str| move |error: std::io::Error| format!("{what}: {error}");
        // jemalloc dumps to a path; a memory file keeps it off the disk.
        let memory = rustix::fs::memfd_create("heap", rustix::fs::MemfdFlags::CLOEXEC)
            .map_err(|error| failed("memfd_create")(error.into()))?;
        let path = CString::new(format!("/proc/self/fd/{}", memory.as_raw_fd()))
            .map_err(|error| error.to_string())?;
        // SAFETY: `prof.dump` takes a pointer to a path and reads it before it returns.
        let code = unsafe { super::set(c"prof.dump", Some(path.as_ptr())) };
        if code != 0 {
            return Err(format!("jemalloc gave no heap profile: error {code}"));
        }
        let mut file = File::from(memory);
        let mut dump = String::new();
        file.rewind().map_err(failed("rewind the dump"))?;
        file.read_to_string(&mut dump)
            .map_err(failed("read the dump"))?;
        Ok(dump)
    }

    /// Reports whether jemalloc is sampling allocations.
    fn profiles() -> bool {
        flag(c"config.prof") && flag(c"opt.prof") && flag(c"prof.active")
    }

    /// Reads a boolean setting; a missing one is false.
    fn flag(name: &CStr) -> bool {
        // SAFETY: `name` is one of those whose value is a bool.
        unsafe { super::get(name) }.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Held while a test changes settings, which are those of the process.
    static CHANGING: Mutex<()> = Mutex::new(());

    fn dirty_decay_ms(arena: u32) -> isize {
        let name = CString::new(format!("arena.{arena}.dirty_decay_ms")).unwrap();
        // SAFETY: `arena.<i>.dirty_decay_ms` writes an `ssize_t`.
        unsafe { get(&name) }.unwrap()
    }

    /// The buffer of a large page stayed resident for seconds after it was parsed.
    #[test]
    fn large_allocations_are_returned_at_once_despite_background_threads() {
        let _changing = CHANGING.lock();
        // SAFETY: `background_thread` reads a bool.
        assert_eq!(unsafe { set(c"background_thread", Some(true)) }, 0);
        return_large_at_once();
        assert_eq!(dirty_decay_ms(arena_for(LARGE_BYTES).unwrap()), 0);
        assert!(dirty_decay_ms(arena_for(1).unwrap()) > 0);
    }

    fn resident_anonymous_kb() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let mut lines = status.lines();
        let line = lines.find_map(|line| line.strip_prefix("RssAnon:"));
        line.unwrap().trim_end_matches("kB").trim().parse().unwrap()
    }

    /// What many pages sent at once had taken stayed resident for ten seconds.
    #[test]
    fn freed_memory_is_returned_by_trimming() {
        const PIECE: usize = 16 << 10;
        const COUNT: usize = 4096;
        let pieces = (0..COUNT).map(|_| {
            // SAFETY: the size is not 0, and no flags are set.
            let piece = unsafe { tikv_jemalloc_sys::mallocx(PIECE, 0) };
            // SAFETY: the allocation has this size.
            unsafe { std::ptr::write_bytes(piece.cast::<u8>(), 1, PIECE) };
            piece
        });
        let pieces: Vec<_> = pieces.collect();
        // Freed pages may be returned before trimming: other tests set shorter times for that.
        let before = resident_anonymous_kb();
        for piece in pieces {
            // SAFETY: it was allocated above and is not used any more.
            unsafe { tikv_jemalloc_sys::dallocx(piece, 0) };
        }
        trim();
        let after = resident_anonymous_kb();
        let most_of_it = (PIECE * COUNT / 2 / 1024) as u64;
        assert!(after + most_of_it < before, "{before} kB, then {after} kB");
    }

    /// An agent kept what its last rounds had freed resident until the next one took it again.
    #[test]
    fn memory_is_returned_soon_by_arenas_there_are_and_will_be() {
        let _changing = CHANGING.lock();
        let here = arena_for(1).unwrap();
        return_soon();
        assert_eq!(dirty_decay_ms(here), 1000);
        let made = std::thread::spawn(|| arena_for(1).unwrap()).join().unwrap();
        assert_eq!(dirty_decay_ms(made), 1000);
    }
}
