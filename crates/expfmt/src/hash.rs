//! The hash of untrusted bytes.

use std::{
    hash::{BuildHasher, Hasher},
    sync::OnceLock,
};

/// Hashes untrusted bytes with a per-process seed.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = hasher();
    hasher.write(bytes);
    hasher.finish()
}

/// Returns a hasher of untrusted data with a per-process seed.
pub(crate) fn hasher() -> impl Hasher {
    static SEED: OnceLock<foldhash::quality::RandomState> = OnceLock::new();
    SEED.get_or_init(Default::default).build_hasher()
}
