//! The hash of bytes from outside.

use std::{
    hash::{BuildHasher, Hasher},
    sync::OnceLock,
};

/// Hashes bytes from outside with a seed of this process.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    static SEED: OnceLock<foldhash::quality::RandomState> = OnceLock::new();
    let mut hasher = SEED.get_or_init(Default::default).build_hasher();
    hasher.write(bytes);
    hasher.finish()
}
