//! The memory allocator of the narthex binary and its settings.
//!
//! A crate of its own because it is compiled with full optimization in every profile: each allocation passes through the
//! code that the compiler makes for the static below, while most of the binary's own code runs once, at the start.
//!
//! **Invariant:** naming this crate is all that a binary does to use it.

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// jemalloc's settings at process start: a background thread returns memory unused for some seconds, even if nothing is
/// allocated any more; there is one arena for each CPU instead of four, each of which keeps unused pages and half-used slabs of
/// its own; a thread keeps a few blocks of up to 32 KiB, the most that it may, for itself; allocations are sampled every
/// 512 KiB, as in Go. `_RJEM_MALLOC_CONF` in the environment overrides it.
// SAFETY: jemalloc looks for a pointer to a C string under this name, which this is.
#[cfg(feature = "heap-profiles")]
#[unsafe(export_name = "_rjem_malloc_conf")]
static MALLOC_CONF: &[u8; 133] =
    b"background_thread:true,narenas_ratio:1,tcache_nslots_large:8,tcache_gc_incr_bytes:262144,prof:true,lg_prof_sample:19,prof_accum:true\0";
// SAFETY: as above.
#[cfg(not(feature = "heap-profiles"))]
#[unsafe(export_name = "_rjem_malloc_conf")]
static MALLOC_CONF: &[u8; 89] =
    b"background_thread:true,narenas_ratio:1,tcache_nslots_large:8,tcache_gc_incr_bytes:262144\0";
