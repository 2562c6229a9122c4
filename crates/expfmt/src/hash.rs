//! The hash of untrusted bytes.

use std::{
    hash::{BuildHasher, Hasher},
    sync::OnceLock,
};

/// Hashes untrusted bytes with a per-process seed.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    static SEED: OnceLock<foldhash::quality::RandomState> = OnceLock::new();
    let mut hasher = SEED.get_or_init(Default::default).build_hasher();
    hasher.write(bytes);
    hasher.finish()
}
