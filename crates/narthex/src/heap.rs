//! What the allocator does beside allocating: giving memory back, and, in builds that take them, profiles of the heap.
//!
//! **Invariant:** a build or a start without heap profiles gives a sentence that says how to have them.

mod jemalloc;

pub(crate) use jemalloc::purge;

#[cfg(feature = "heap-profiles")]
pub(crate) use jemalloc::dump;

/// Says that there are none: an allocator that can take them costs every allocation a little.
#[cfg(not(feature = "heap-profiles"))]
pub(crate) fn dump() -> Result<String, String> {
    Err("this build has no heap profiles: it was made without the feature heap-profiles".to_owned())
}
