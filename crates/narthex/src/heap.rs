//! The allocator's other jobs: returning memory, and heap profiles in builds that support them.
//!
//! **Invariant:** without heap profiles, a request for one gets a sentence that says how to enable them.

mod jemalloc;

pub(crate) use jemalloc::{purge, return_large_at_once, return_soon, stop_sampling, trim};

#[cfg(feature = "heap-profiles")]
pub(crate) use jemalloc::{dump, sample_on_request};

/// Without heap profiles nothing is sampled.
#[cfg(not(feature = "heap-profiles"))]
pub(crate) fn sample_on_request() {}

/// Says that this build has no heap profiles: supporting them makes every allocation a little slower.
#[cfg(not(feature = "heap-profiles"))]
pub(crate) fn dump() -> Result<String, String> {
    Err("this build has no heap profiles: it was made without the feature heap-profiles".to_owned())
}
